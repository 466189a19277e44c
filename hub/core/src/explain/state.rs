//! The state of the copy in one cluster: what blocks it, in one stable reason with a message and an age.

use shared::reason::{Code, Reason};

use super::duration;

/// What is known about the copy in one cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterState {
    /// Name of the cluster.
    pub cluster: String,
    /// Replicas assigned; `None` for what has none.
    pub replicas: Option<i64>,
    /// Stable code of the state.
    pub reason: Code,
    /// For people.
    pub message: String,
    /// Age of this knowledge in seconds; `None`: nothing was ever heard.
    pub age_s: Option<u64>,
    /// The true age may be higher: the agent rebooted in between.
    pub age_is_lower_bound: bool,
    /// Sequence of the newest set made for the cluster.
    pub offered: Option<u64>,
    /// Sequence the cluster has accepted.
    pub acknowledged: Option<u64>,
    /// Health of the copy.
    pub health: Option<String>,
    /// Being removed from this cluster.
    pub leaving: bool,
}

/// What the hub knows of one target, before it is put into words.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetFacts {
    /// Name of the cluster.
    pub cluster: String,
    /// Replicas assigned.
    pub replicas: Option<i64>,
    /// The cluster is enrolled (an agent has joined under its name).
    pub enrolled: bool,
    /// The hub knows less than the agent; nothing is shipped.
    pub hub_behind: bool,
    /// Its enrolment was revoked.
    pub revoked: bool,
    /// Seconds of silence, 0 when not silent.
    pub silent_s: u64,
    /// Nothing was heard since the hub started, so the silence is counted from there.
    pub unheard: bool,
    /// The newest set contains this content (it was adopted).
    pub adopted: bool,
    /// Sequence of the newest set.
    pub offered: Option<u64>,
    /// Sequence the cluster has accepted.
    pub acknowledged: Option<u64>,
    /// Dispatch to it is suspended.
    pub suspended: bool,
    /// What it shall have could not be made, such as an override that cannot be applied; it keeps what it has.
    pub failed: Option<(Reason, String)>,
    /// The target is a tombstone: the copy is to go.
    pub leaving: bool,
    /// What the cluster reported last about this object.
    pub report: Option<ReportFacts>,
}

/// What a cluster reported last about one object.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportFacts {
    /// It is about the newest content.
    pub current: bool,
    /// The copy is applied.
    pub applied: bool,
    /// Its reason.
    pub reason: Code,
    /// Its message.
    pub message: String,
    /// Health word, if judged.
    pub health: Option<String>,
    /// Age in seconds.
    pub age_s: u64,
    /// The age is a lower bound.
    pub age_is_lower_bound: bool,
}

/// The state of one target. What blocks everything after it is named first: a hub that went back, then
/// silence, then suspension, then the way down, then the report.
pub fn state(facts: &TargetFacts) -> ClusterState {
    let (reason, message) = worded(facts);
    let report = facts.report.as_ref();
    ClusterState {
        cluster: facts.cluster.clone(),
        replicas: facts.replicas,
        reason,
        message,
        age_s: report.map(|report| report.age_s),
        age_is_lower_bound: report.is_some_and(|report| report.age_is_lower_bound),
        offered: facts.offered,
        acknowledged: facts.acknowledged,
        health: report.and_then(|report| report.health.clone()),
        leaving: facts.leaving,
    }
}

fn worded(facts: &TargetFacts) -> (Code, String) {
    let say = |reason: Reason, message: String| (Code::from(reason), message);
    if !facts.enrolled {
        return say(
            Reason::AwaitingCluster,
            "no agent has joined under this name yet".to_owned(),
        );
    }
    if facts.revoked {
        let name = &facts.cluster;
        return say(
            Reason::Revoked,
            format!(
                "its enrolment was revoked: what it holds stays there and follows nothing more; `pinnace cluster remove \
                 {name}` takes it off the hub, `pinnace cluster replace {name}` lets another agent take its place"
            ),
        );
    }
    if facts.hub_behind {
        let hint = format!("pinnace cluster reconcile {} --push-hub", facts.cluster);
        return say(
            Reason::HubBehind,
            format!(
                "the cluster holds newer sets than this hub knows, nothing is sent; decide with `{hint}`"
            ),
        );
    }
    if let Some((reason, message)) = &facts.failed {
        let keeps = if facts.offered.is_some() && facts.adopted {
            "it keeps what it has"
        } else {
            "it gets nothing"
        };
        return say(*reason, format!("{keeps}: {message}"));
    }
    let behind = facts.acknowledged < facts.offered;
    let current = facts.report.as_ref().filter(|report| report.current);
    if facts.silent_s > 0 {
        let last = match &facts.report {
            Some(report) => format!("it last said {}: {}", report.reason, said(report)),
            None => "it never reported this object".to_owned(),
        };
        return say(
            Reason::Silent,
            match facts.unheard {
                true => format!(
                    "not heard since the hub started {} ago; {last}",
                    duration(facts.silent_s)
                ),
                false => format!("silent for {}; {last}", duration(facts.silent_s)),
            },
        );
    }
    if facts.suspended && current.is_none() {
        return say(
            Reason::Suspended,
            "dispatch to this cluster is suspended".to_owned(),
        );
    }
    if facts.leaving {
        let message = if behind {
            "the order to remove it is on its way"
        } else {
            "being removed"
        };
        return match &facts.report {
            Some(report) if !report.applied => (report.reason.clone(), said(report)),
            _ => say(Reason::AwaitingCluster, message.to_owned()),
        };
    }
    if !facts.adopted {
        return say(
            Reason::Pending,
            "planned, not yet in the cluster's set".to_owned(),
        );
    }
    match current {
        Some(report) => (report.reason.clone(), said(report)),
        None if behind => say(
            Reason::AwaitingCluster,
            format!(
                "set {} is on its way, the cluster holds {}",
                number(facts.offered),
                number(facts.acknowledged)
            ),
        ),
        None => say(
            Reason::Pending,
            "accepted by the cluster, not reported yet".to_owned(),
        ),
    }
}

fn said(report: &ReportFacts) -> String {
    if !report.message.is_empty() {
        return report.message.clone();
    }
    let health = report.health.as_deref().unwrap_or("Unknown");
    if report.applied {
        format!("applied, health {health}")
    } else {
        "not applied".to_owned()
    }
}

fn number(sequence: Option<u64>) -> String {
    sequence.map_or_else(|| "none".to_owned(), |sequence| sequence.to_string())
}

/// Worst first: not applied before applied and unhealthy before the rest, then by cluster name.
pub fn sort(states: &mut [ClusterState]) {
    let rank = |state: &ClusterState| match state.reason.known() {
        Some(Reason::Applied | Reason::Healthy) => 2,
        Some(Reason::Unhealthy | Reason::UnknownHealth) => 1,
        _ => 0,
    };
    states.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.cluster.cmp(&b.cluster)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> TargetFacts {
        TargetFacts {
            cluster: "shop-1".to_owned(),
            replicas: Some(2),
            enrolled: true,
            hub_behind: false,
            revoked: false,
            silent_s: 0,
            unheard: false,
            adopted: true,
            offered: Some(7),
            acknowledged: Some(7),
            suspended: false,
            failed: None,
            leaving: false,
            report: None,
        }
    }

    fn report(reason: Reason) -> ReportFacts {
        ReportFacts {
            current: true,
            applied: true,
            reason: reason.into(),
            message: String::new(),
            health: Some("Healthy".to_owned()),
            age_s: 5,
            age_is_lower_bound: false,
        }
    }

    #[test]
    fn what_blocks_first_is_named() {
        let reason = |facts: &TargetFacts| state(facts).reason.known();
        let applied = TargetFacts {
            report: Some(report(Reason::Applied)),
            ..facts()
        };
        assert_eq!(reason(&applied), Some(Reason::Applied));
        assert_eq!(
            reason(&TargetFacts {
                silent_s: 9,
                ..applied.clone()
            }),
            Some(Reason::Silent)
        );
        assert_eq!(
            reason(&TargetFacts {
                silent_s: 9,
                revoked: true,
                ..applied.clone()
            }),
            Some(Reason::Revoked)
        );
        assert_eq!(
            reason(&TargetFacts {
                silent_s: 9,
                hub_behind: true,
                ..applied.clone()
            }),
            Some(Reason::HubBehind)
        );
        let broken = TargetFacts {
            failed: Some((Reason::OverrideFailed, "OverridePolicy shop/o at /a".to_owned())),
            silent_s: 9,
            ..applied.clone()
        };
        assert_eq!(reason(&broken), Some(Reason::OverrideFailed));
        assert_eq!(
            state(&broken).message,
            "it keeps what it has: OverridePolicy shop/o at /a"
        );
        let never = TargetFacts {
            adopted: false,
            ..broken
        };
        assert!(state(&never).message.starts_with("it gets nothing: "));
        assert_eq!(
            reason(&TargetFacts {
                enrolled: false,
                ..applied
            }),
            Some(Reason::AwaitingCluster)
        );
        assert_eq!(reason(&facts()), Some(Reason::Pending));
        assert_eq!(
            reason(&TargetFacts {
                acknowledged: Some(6),
                ..facts()
            }),
            Some(Reason::AwaitingCluster)
        );
        assert_eq!(
            reason(&TargetFacts {
                adopted: false,
                ..facts()
            }),
            Some(Reason::Pending)
        );
        assert_eq!(
            reason(&TargetFacts {
                suspended: true,
                ..facts()
            }),
            Some(Reason::Suspended)
        );
    }

    #[test]
    fn a_silence_that_is_as_old_as_the_hub_says_so() {
        let unheard = TargetFacts {
            silent_s: 240,
            unheard: true,
            ..facts()
        };
        let got = state(&unheard).message;
        assert!(
            got.starts_with("not heard since the hub started 4m ago; "),
            "{got}"
        );
    }

    #[test]
    fn an_old_report_does_not_speak_for_new_content() {
        let old = ReportFacts {
            current: false,
            ..report(Reason::Applied)
        };
        let facts = TargetFacts {
            acknowledged: Some(6),
            report: Some(old),
            ..facts()
        };
        let got = state(&facts);
        assert_eq!(got.reason.known(), Some(Reason::AwaitingCluster));
        assert_eq!(got.message, "set 7 is on its way, the cluster holds 6");
    }
}
