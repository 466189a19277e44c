//! `pinnace why`: an explanation as people read it, from general to particular.

use hub_core::explain;

use super::print::{age, line, table};
use crate::fleet::wire::{Explanation, PolicyVerdict};

/// Policies of other kinds that are listed when none selects the kind.
const OTHERS_SHOWN: usize = 10;

/// Leaves what concerns one cluster, or the object as a whole.
pub(super) fn only(explanation: &mut Explanation, cluster: &str) {
    explanation.clusters.retain(|state| state.cluster == cluster);
    explanation.placement.retain(|verdict| verdict.cluster == cluster);
    explanation
        .decisions
        .retain(|decision| decision.cluster.as_deref().is_none_or(|about| about == cluster));
}

/// What `pinnace why` prints.
pub(super) fn text(explanation: &Explanation) -> String {
    let mut out = format!("{}\n", explanation.object);
    for decision in &explanation.decisions {
        let place = decision
            .cluster
            .as_ref()
            .map_or(String::new(), |name| format!("{name}: "));
        line(
            &mut out,
            format_args!("  {}: {place}{}", decision.reason, decision.message),
        );
    }
    policies(&mut out, &explanation.policies);
    groups(&mut out, explanation);
    let mut rows = vec![
        ["CLUSTER", "STATE", "REASON", "AGE", "MESSAGE"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for cluster in &explanation.clusters {
        let age = cluster.age_seconds.map_or_else(|| "never".to_owned(), age);
        let bound = if cluster.at_least { "≥" } else { "" };
        rows.push(vec![
            cluster.cluster.clone(),
            cluster.state.clone(),
            cluster.reason.clone(),
            format!("{bound}{age}"),
            cluster.message.replace('\n', " "),
        ]);
    }
    if rows.len() > 1 {
        out.push_str(&table(&rows));
    }
    if !explanation.placement.is_empty() {
        line(
            &mut out,
            format_args!("How the clusters were judged, as of the age given:"),
        );
        for judged in explain::lines(&explanation.placement) {
            line(&mut out, format_args!("  {judged}"));
        }
    }
    out
}

/// Policies that do not hold it: those that select the kind; if none does, some of the others.
fn policies(out: &mut String, all: &[PolicyVerdict]) {
    let others: Vec<&PolicyVerdict> = all.iter().filter(|one| !one.holds).collect();
    let close: Vec<&PolicyVerdict> = others.iter().copied().filter(|one| one.selects_kind).collect();
    let is_held = all.iter().any(|one| one.holds);
    let shown: Vec<&PolicyVerdict> = if close.is_empty() && !is_held {
        others.iter().copied().take(OTHERS_SHOWN).collect()
    } else {
        close
    };
    if others.is_empty() || (shown.is_empty() && is_held) {
        return;
    }
    line(out, format_args!("Policies that do not decide where it goes:"));
    for policy in &shown {
        line(out, format_args!("  {}: {}", policy.policy, policy.message));
    }
    let more = others.len() - shown.len();
    if more > 0 {
        line(out, format_args!("  and {more} more that select other kinds"));
    }
}

fn groups(out: &mut String, explanation: &Explanation) {
    if explanation.groups.is_empty() {
        return;
    }
    line(out, format_args!("How its place was found:"));
    for one in &explanation.groups {
        let word = if one.used { "used" } else { "not used" };
        match &one.group {
            Some(group) => line(
                out,
                format_args!("  affinity group {group}, {word}: {}", one.message),
            ),
            None => line(out, format_args!("  {}", one.message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::wire::{ClusterState, Decision, GroupVerdict, Verdict};

    fn policy(name: &str, holds: bool, selects_kind: bool) -> PolicyVerdict {
        PolicyVerdict {
            policy: format!("PropagationPolicy prod/{name}"),
            holds,
            selects_kind,
            message: "because".to_owned(),
        }
    }

    fn explained() -> Explanation {
        let state = |cluster: &str, age_seconds, at_least| ClusterState {
            cluster: cluster.to_owned(),
            state: "Applied".to_owned(),
            reason: "Applied".to_owned(),
            message: String::new(),
            age_seconds,
            at_least,
        };
        let decision = |cluster: Option<&str>, message: &str| Decision {
            reason: "Scheduled".to_owned(),
            cluster: cluster.map(str::to_owned),
            message: message.to_owned(),
        };
        let verdict = |cluster: &str, share| Verdict {
            cluster: cluster.to_owned(),
            share,
            message: "judged".to_owned(),
            ..Verdict::default()
        };
        Explanation {
            object: "Deployment.apps prod/web".to_owned(),
            decisions: vec![decision(None, "web decides"), decision(Some("b"), "in b")],
            policies: vec![
                policy("web", true, true),
                policy("close", false, true),
                policy("far", false, false),
            ],
            groups: vec![GroupVerdict {
                group: Some("gold".to_owned()),
                used: true,
                message: "2 of 2 clusters pass the filters".to_owned(),
            }],
            clusters: vec![
                state("a", Some(150), false),
                state("shop-1", Some(7_300), true),
                state("b", None, false),
            ],
            placement: vec![verdict("a", Some(3)), verdict("b", None)],
        }
    }

    #[test]
    fn an_explanation_reads_from_general_to_particular() {
        assert_eq!(
            text(&explained()),
            "Deployment.apps prod/web\n  Scheduled: web decides\n  Scheduled: b: in b\n\
             Policies that do not decide where it goes:\n  \
             PropagationPolicy prod/close: because\n  \
             and 1 more that select other kinds\n\
             How its place was found:\n  \
             affinity group gold, used: 2 of 2 clusters pass the filters\n\
             CLUSTER   STATE     REASON    AGE     MESSAGE\n\
             a         Applied   Applied   2m\n\
             shop-1    Applied   Applied   ≥2h\n\
             b         Applied   Applied   never\n\
             How the clusters were judged, as of the age given:\n  \
             a: judged\n  \
             b: judged\n"
        );
    }

    #[test]
    fn one_cluster_is_left_of_it() {
        let mut explained = explained();
        only(&mut explained, "a");
        let told = text(&explained);
        assert!(
            told.contains("web decides") && told.contains("a: judged"),
            "{told}"
        );
        assert!(!told.contains("b: ") && !told.contains("shop-1"), "{told}");
    }

    #[test]
    fn what_nobody_holds_lists_what_is_there() {
        let mut out = String::new();
        policies(&mut out, &[policy("far", false, false)]);
        assert!(
            out.contains("prod/far: because") && !out.contains("more"),
            "{out}"
        );
        let mut out = String::new();
        policies(
            &mut out,
            &[policy("web", true, true), policy("far", false, false)],
        );
        assert_eq!(out, "");
    }
}
