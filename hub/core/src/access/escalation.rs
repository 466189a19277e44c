//! Nobody gives away more than they have: who writes a role must hold its rules, who writes a binding those of the role
//! it names, unless a role allows `escalate` or `bind`.

use super::{Attributes, MASTERS, RBAC_GROUP, Rbac, Rule, User};
use crate::limits::MAX_ESCALATION_RULES;
use serde_json::Value;

/// The rules that the owner's do not cover, as single permissions. Nothing is missing if every single permission is
/// covered by one owned rule.
pub fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let mut out = Vec::new();
    let mut budget = MAX_ESCALATION_RULES;
    for rule in wanted {
        if owned.iter().any(|o| o.covers(rule)) {
            continue;
        }
        // Too many to take apart: then it counts as not covered.
        let Some(left) = budget.checked_sub(rule.size()) else {
            out.push(rule.clone());
            continue;
        };
        budget = left;
        out.extend(
            rule.single()
                .filter(|single| !owned.iter().any(|o| o.covers(single))),
        );
    }
    out
}

fn refusal(user: &User, missing: &[Rule]) -> String {
    const SHOWN: usize = 20;
    let groups: Vec<String> = user.groups.iter().map(|g| format!("{g:?}")).collect();
    let mut lines: Vec<String> = missing.iter().take(SHOWN).map(Rule::to_string).collect();
    if missing.len() > SHOWN {
        lines.push(format!("and {} more", missing.len() - SHOWN));
    }
    format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        groups.join(" "),
        lines.join("\n")
    )
}

/// Whether a user may write a role or a binding; `None` if so, else the words of the refusal.
///
/// `plural` is one of the four kinds of `rbac.authorization.k8s.io`; `old` is the stored object.
pub fn check(
    rbac: &Rbac,
    user: &User,
    plural: &str,
    namespace: &str,
    old: Option<&Value>,
    new: &Value,
) -> Option<String> {
    if user.is_in(MASTERS) {
        return None;
    }
    let may = |verb: &str, resource: &str, namespace: &str, name: &str| {
        let wish = Attributes::resource(verb, RBAC_GROUP, resource, namespace, name);
        rbac.decide(user, &wish).allowed
    };
    let name = new
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let wanted = match plural {
        "roles" | "clusterroles" => {
            if may("escalate", plural, namespace, name) {
                return None;
            }
            let changes = |key: &str| old.map(|o| o.get(key)) != Some(new.get(key));
            // Metadata alone may change.
            if !changes("rules") && !changes("aggregationRule") {
                return None;
            }
            if changes("aggregationRule") && new.get("aggregationRule").is_some_and(|r| !r.is_null()) {
                // Whoever aggregates gets what others write later: only who has everything may.
                vec![Rule::of(&["*"], &["*"], &["*"]), Rule::of_paths(&["*"], &["*"])]
            } else {
                Rule::read_all(new)
            }
        }
        _ => {
            let same = |key: &str| old.is_some_and(|o| o.get(key) == new.get(key));
            if same("roleRef") && same("subjects") {
                return None;
            }
            let role = |key: &str| {
                new.pointer(&format!("/roleRef/{key}"))
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let (kind, role) = (role("kind"), role("name"));
            let (resource, of) = match kind {
                "Role" => ("roles", namespace),
                _ => ("clusterroles", ""),
            };
            if may("bind", resource, namespace, role) {
                return None;
            }
            match rbac.rules_of_role(of, role) {
                Some(rules) => rules.to_vec(),
                None => return Some(format!("{resource}.{RBAC_GROUP} {role:?} not found")),
            }
        }
    };
    let owned = rbac.rules_of(user, namespace).rules;
    let missing = missing(&owned, &wanted);
    (!missing.is_empty()).then(|| refusal(user, &missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec(proptest::sample::select(words), 1..3)
            .prop_map(|list| list.into_iter().map(str::to_owned).collect())
    }

    fn rules() -> impl Strategy<Value = Vec<Rule>> {
        let rule = (
            words(&["get", "list", "*"]),
            words(&["", "apps", "*"]),
            words(&["pods", "pods/log", "*/log", "*"]),
            proptest::option::of(words(&["a", "b"])),
        )
            .prop_map(|(verbs, groups, resources, names)| Rule {
                verbs,
                groups,
                resources,
                names: names.unwrap_or_default(),
                paths: Vec::new(),
            });
        proptest::collection::vec(rule, 0..4)
    }

    proptest! {
        /// Whoever covers a set of rules is allowed whatever they allow.
        #[test]
        fn covered_rules_allow_nothing_new(owned in rules(), wanted in rules()) {
            if missing(&owned, &wanted).is_empty() {
                for verb in ["get", "list", "watch"] {
                    for group in ["", "apps", "x"] {
                        for (resource, sub) in [("pods", ""), ("pods", "log"), ("x", "log"), ("x", "")] {
                            for name in ["", "a", "c"] {
                                let wish = Attributes::resource(verb, group, resource, "", name).with_subresource(sub);
                                let allowed = |rules: &[Rule]| rules.iter().any(|r| r.allows(&wish));
                                prop_assert!(!allowed(&wanted) || allowed(&owned), "{wish:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rules_are_taken_apart() {
        let owned = [
            Rule::of(&["get"], &[""], &["pods"]),
            Rule::of(&["list"], &[""], &["pods"]),
        ];
        let both = [Rule::of(&["get", "list"], &[""], &["pods"])];
        assert!(missing(&owned, &both).is_empty(), "two rules together cover it");
        let more = [Rule::of(&["get", "delete"], &[""], &["pods"])];
        let missing = missing(&owned, &more);
        assert_eq!(missing, [Rule::of(&["delete"], &[""], &["pods"])]);
    }
}
