//! Which resources can hold templates: what a policy may claim.
//!
//! Everything can, but the hub's own kinds and its bookkeeping (design, section 5). Which single objects of the
//! others are templates is [`crate::plan::Template::inert`]'s to say; this saves decoding all the rest.

/// Groups whose objects are never templates: policies, results and settings of the hub.
const OWN_GROUPS: [&str; 9] = [
    "apps.karmada.io",
    "autoscaling.karmada.io",
    "cluster.karmada.io",
    "config.karmada.io",
    "fleet.pinnace.dev",
    "networking.karmada.io",
    "policy.karmada.io",
    "remedy.karmada.io",
    "work.karmada.io",
];

/// The resource of customizations.
pub const CUSTOMIZATIONS: &str = "resourceinterpretercustomizations";

/// Whether objects of this resource can be templates at all.
pub fn resource_may_hold_templates(group: &str, plural: &str) -> bool {
    match group {
        "" => plural != "events",
        // Scripts go to the agents, which use them themselves.
        interpreter::CUSTOMIZATION_GROUP => plural == CUSTOMIZATIONS,
        "events.k8s.io" | "coordination.k8s.io" => false,
        _ => !OWN_GROUPS.contains(&group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hubs_own_kinds_hold_none() {
        let cases = [
            ("apps", "deployments", true),
            ("", "namespaces", true),
            ("", "events", false),
            ("events.k8s.io", "events", false),
            ("coordination.k8s.io", "leases", false),
            ("policy.karmada.io", "propagationpolicies", false),
            ("work.karmada.io", "resourcebindings", false),
            ("config.karmada.io", "resourceinterpretercustomizations", true),
            (
                "config.karmada.io",
                "resourceinterpreterwebhookconfigurations",
                false,
            ),
            ("example.io", "widgets", true),
        ];
        for (group, plural, want) in cases {
            assert_eq!(
                resource_may_hold_templates(group, plural),
                want,
                "{plural}.{group}"
            );
        }
    }
}
