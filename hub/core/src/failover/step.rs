//! One look at one binding: which copies are given up now, which tasks end, and when to look again.
//!
//! Pure: what clusters reported and how long they have been silent or unhealthy comes in, the new assignment goes out. What
//! is planned from it decides whether it is carried out: a copy is only given up if there is another place for it.
//! Where the reference would take the last copy away we do not (field reports 68, 69 and 72).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use shared::time::UnixSeconds;

use super::application;
use super::preserve::StateUnreadable;
use super::taints::{self, Eviction};
use super::tasks;
use super::{CopyState, EvictionTask, Failover, PurgeMode};
use crate::cluster::Taint;
use crate::divide::Share;

/// How long an old copy stays while it is moved away gracefully, if nobody says otherwise, in seconds (the reference's
/// `--graceful-eviction-timeout`).
pub const EVICTION_TIMEOUT_S: i64 = 600;

/// What an operator sets for all bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Taints with effect NoExecute drive away also what belongs to a policy without `failover.cluster` (the reference's
    /// `--enable-no-execute-taint-eviction`).
    pub no_execute: bool,
    /// How copies leave then, if the policy does not say.
    pub purge_mode: PurgeMode,
    /// How long an old copy may stay, in seconds.
    pub timeout_s: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            no_execute: false,
            purge_mode: PurgeMode::Gracefully,
            timeout_s: EVICTION_TIMEOUT_S,
        }
    }
}

/// What is known of one copy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OneCopy {
    /// The cluster.
    pub cluster: String,
    /// What it reported of the newest content: `Healthy`, `Unhealthy` or `Unknown`. Nothing: it never reported.
    pub health: String,
    /// Reflected status.
    pub status: Option<Value>,
    /// Seconds since the cluster was last heard of; `None`: it is not silent.
    pub silent_s: Option<i64>,
    /// Seconds since the copy has been reported unhealthy; `None`: it is not.
    pub unhealthy_s: Option<i64>,
}

impl OneCopy {
    /// Its state as failover counts it: a silent cluster's copy is not well, whatever was last reported.
    fn state(&self) -> CopyState<'_> {
        CopyState {
            cluster: &self.cluster,
            health: match self.silent_s {
                Some(_) => "Unhealthy",
                None => &self.health,
            },
            status: self.status.as_ref(),
        }
    }

    /// Seconds of trouble.
    fn trouble_s(&self) -> i64 {
        self.silent_s.max(self.unhealthy_s).unwrap_or(0)
    }
}

/// Everything a look needs beside the binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The copies of the binding, by cluster.
    pub copies: Vec<OneCopy>,
    /// Clusters of the fleet that are silent: nothing is moved there.
    pub silent: BTreeSet<String>,
    /// Now.
    pub now: UnixSeconds,
    /// Seconds until the next copy may be driven away by a taint, so that many do not move at once; 0: now.
    pub taints_wait_s: i64,
    /// What an operator set.
    pub settings: Settings,
}

/// Does anything of failover concern this binding? `failover`: what its policy says. Cheap: nothing is looked up for the
/// others.
pub fn concerns(binding: &Value, no_execute_taints: bool, settings: &Settings) -> bool {
    let spec = &binding["spec"];
    let moving = spec["gracefulEvictionTasks"]
        .as_array()
        .is_some_and(|tasks| !tasks.is_empty());
    moving || spec["failover"].is_object() || (no_execute_taints && settings.no_execute)
}

/// A copy that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// Its cluster.
    pub cluster: String,
    /// Why, in words.
    pub why: String,
}

/// What a look found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Where the binding is assigned now.
    pub clusters: Vec<Share>,
    /// Its tasks now.
    pub tasks: Vec<EvictionTask>,
    /// Copies given up in this look.
    pub given_up: Vec<GivenUp>,
    /// Clusters whose copy is to go because of a taint, and waits its turn.
    pub waiting: Vec<String>,
    /// Clusters whose old copy may go now.
    pub ended: Vec<String>,
    /// Seconds until time alone changes something; `None`: it does not.
    pub look_again_s: Option<i64>,
    /// Why something could not be moved.
    pub problem: Option<StateUnreadable>,
}

/// The binding as it is before a look.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// `spec.resource` of the binding.
    pub resource: &'a Value,
    /// Where it is assigned.
    pub clusters: &'a [Share],
    /// Its tasks.
    pub tasks: &'a [EvictionTask],
    /// The placement it was scheduled by, as JSON.
    pub applied: Option<&'a str>,
    /// What its policy says of failover.
    pub failover: Option<&'a Failover>,
}

/// Looks once. With `moves` false nothing is given up, only tasks end. `taints_of` answers the taints of a cluster,
/// `health_is_known` whether health of a kind can be told.
pub fn look<'t>(
    before: Before<'_>,
    seen: &Seen,
    moves: bool,
    taints_of: impl Fn(&str) -> &'t [Taint],
    health_is_known: impl FnOnce(&str, &str) -> bool,
) -> Step {
    let mut step = Step {
        clusters: before.clusters.to_vec(),
        tasks: before.tasks.to_vec(),
        ..Step::default()
    };
    let states: Vec<CopyState<'_>> = seen.copies.iter().map(OneCopy::state).collect();
    // The tasks of before are judged by the assignment of before: what is given up below has no replacement yet.
    let replaced =
        !before.clusters.is_empty() && tasks::new_result_is_healthy(true, before.clusters, &states);
    step.end_tasks(replaced, &states, seen);
    if moves {
        step.give_up_by_taints(&before, seen, &states, taints_of);
        if is_watched(&before, seen, health_is_known) {
            step.give_up_by_health(&before, seen, &states);
        }
        for task in &mut step.tasks {
            task.creation_timestamp.get_or_insert_with(|| seen.now.rfc3339());
        }
    }
    if !replaced {
        let end = tasks::next_end(&step.tasks, seen.settings.timeout_s, seen.now);
        step.wake(end.filter(|seconds| *seconds > 0));
    }
    step
}

/// Is application failover watching? A silent cluster counts as having said something.
fn is_watched(before: &Before<'_>, seen: &Seen, health_is_known: impl FnOnce(&str, &str) -> bool) -> bool {
    let Some(application) = before.failover.and_then(|failover| failover.application.as_ref()) else {
        return false;
    };
    let said: Vec<Value> = seen
        .copies
        .iter()
        .filter(|copy| !copy.health.is_empty() || copy.silent_s.is_some())
        .map(|copy| json!({"clusterName": copy.cluster}))
        .collect();
    let binding = json!({
        "spec": {"resource": before.resource, "propagateDeps": true, "failover": {"application": application}},
        "status": {"aggregatedStatus": said},
    });
    application::is_watched(&binding, health_is_known)
}

impl Step {
    fn wake(&mut self, seconds: Option<i64>) {
        if let Some(seconds) = seconds {
            self.look_again_s = Some(self.look_again_s.map_or(seconds, |known| known.min(seconds)));
        }
    }

    /// Ends tasks whose time is over or whose replacement is healthy. Time alone never takes the last copy: until some
    /// assigned cluster has a healthy one, the old one stays.
    fn end_tasks(&mut self, replaced: bool, states: &[CopyState<'_>], seen: &Seen) {
        let assessed = tasks::assess(&self.tasks, seen.settings.timeout_s, replaced, seen.now);
        let serves = |share: &Share| {
            states
                .iter()
                .any(|copy| copy.cluster == share.cluster && copy.health == "Healthy")
        };
        let is_served = self.clusters.iter().any(serves);
        let former = std::mem::replace(&mut self.tasks, assessed.kept);
        for task in former {
            if !assessed.evicted.contains(&task.from_cluster) {
                continue;
            }
            // A person decided, or the copy is gone already.
            let decided =
                task.suppress_deletion == Some(false) || task.purge_mode == Some(PurgeMode::Directly);
            if is_served || decided {
                self.ended.push(task.from_cluster);
            } else {
                self.tasks.push(task);
            }
        }
    }

    fn give_up_by_taints<'t>(
        &mut self,
        before: &Before<'_>,
        seen: &Seen,
        states: &[CopyState<'_>],
        taints_of: impl Fn(&str) -> &'t [Taint],
    ) {
        let asks = before.failover.is_some_and(|failover| failover.cluster.is_some());
        if !asks && !seen.settings.no_execute {
            return;
        }
        for share in before.clusters {
            let taints = taints_of(&share.cluster);
            match taints::look_again(taints, before.applied, seen.now) {
                Eviction::Never => {}
                Eviction::After(seconds) => self.wake(Some(seconds)),
                Eviction::Now if seen.taints_wait_s > 0 => {
                    self.waiting.push(share.cluster.clone());
                    self.wake(Some(seen.taints_wait_s));
                }
                Eviction::Now => {
                    let moved = taints::evict(
                        &mut self.clusters,
                        &mut self.tasks,
                        &share.cluster,
                        before.failover,
                        Some(seen.settings.purge_mode),
                        states,
                    );
                    match moved {
                        Ok(()) => {
                            let driving = taints.iter().find(|taint| taint.effect == "NoExecute");
                            let key = driving.map_or("", |taint| taint.key.as_str());
                            self.given_up.push(GivenUp {
                                cluster: share.cluster.clone(),
                                why: format!("the taint {key}:NoExecute is not tolerated any longer"),
                            });
                        }
                        Err(problem) => self.problem = Some(problem),
                    }
                }
            }
        }
    }

    fn give_up_by_health(&mut self, before: &Before<'_>, seen: &Seen, states: &[CopyState<'_>]) {
        let Some(failover) = before.failover.and_then(|failover| failover.application.as_ref()) else {
            return;
        };
        let assigned: Vec<CopyState<'_>> = states
            .iter()
            .filter(|copy| self.clusters.iter().any(|share| share.cluster == copy.cluster))
            .cloned()
            .collect();
        let (unhealthy, _) = application::unhealthy(&self.tasks, &assigned);
        let since: BTreeMap<String, i64> = seen
            .copies
            .iter()
            .map(|copy| (copy.cluster.clone(), copy.trouble_s()))
            .collect();
        let tolerated = failover
            .decision_conditions
            .toleration_seconds
            .unwrap_or(application::TOLERATION_S);
        let detected = application::detect(&unhealthy, &since, tolerated);
        self.wake(detected.look_again_s);
        if detected.evict.is_empty() {
            return;
        }
        let is_namespaced = before.resource["namespace"].is_string();
        let moved = application::evict(
            &mut self.clusters,
            &mut self.tasks,
            &detected.evict,
            failover,
            states,
            is_namespaced,
        );
        match moved {
            Ok(()) => self.given_up.extend(detected.evict.into_iter().map(|cluster| {
                let silent = seen
                    .copies
                    .iter()
                    .any(|copy| copy.cluster == cluster && copy.silent_s.is_some());
                let what = if silent { "silent" } else { "unhealthy there" };
                GivenUp {
                    cluster,
                    why: format!("{what} for longer than the {tolerated} s that the policy tolerates"),
                }
            })),
            Err(problem) => self.problem = Some(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    fn shares(names: &[&str]) -> Vec<Share> {
        let share = |name: &&str| Share {
            cluster: (*name).to_owned(),
            replicas: 3,
        };
        names.iter().map(share).collect()
    }

    fn copy(cluster: &str, health: &str) -> OneCopy {
        OneCopy {
            cluster: cluster.to_owned(),
            health: health.to_owned(),
            ..OneCopy::default()
        }
    }

    fn failover(text: &str) -> Failover {
        serde_json::from_str(text).unwrap()
    }

    fn looked(
        clusters: &[&str],
        tasks: &[EvictionTask],
        failover: &Failover,
        copies: Vec<OneCopy>,
        at: i64,
    ) -> Step {
        let resource =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"});
        let before = Before {
            resource: &resource,
            clusters: &shares(clusters),
            tasks,
            applied: Some("{}"),
            failover: Some(failover),
        };
        let seen = Seen {
            copies,
            now: UnixSeconds(NOW.0 + at),
            ..Seen::default()
        };
        look(before, &seen, true, |_| &[], |_, _| true)
    }

    const GRACIOUSLY: &str = r#"{"application": {"decisionConditions": {"tolerationSeconds": 120}, "purgeMode": "Graciously", "gracePeriodSeconds": 60}}"#;

    #[test]
    fn silence_is_tolerated_for_as_long_as_the_policy_says() {
        let failover = failover(GRACIOUSLY);
        let silent = |seconds: i64| OneCopy {
            silent_s: Some(seconds),
            ..copy("us", "Healthy")
        };
        for (seconds, gives_up, again) in [
            (0, false, Some(120)),
            (60, false, Some(60)),
            (119, false, Some(1)),
            (120, true, Some(60)),
        ] {
            let step = looked(&["us"], &[], &failover, vec![silent(seconds)], 0);
            assert_eq!(
                (!step.given_up.is_empty(), step.look_again_s),
                (gives_up, again),
                "{seconds}"
            );
        }
        let step = looked(&["us"], &[], &failover, vec![silent(500)], 0);
        assert_eq!(step.clusters, []);
        let task = &step.tasks[0];
        assert_eq!(
            (task.from_cluster.as_str(), task.replicas, task.reason.as_str()),
            ("us", Some(3), "ApplicationFailure")
        );
        assert_eq!(task.creation_timestamp, Some(NOW.rfc3339()));
        // it is back in time: nothing
        let step = looked(&["us"], &[], &failover, vec![copy("us", "Healthy")], 0);
        assert_eq!((step.given_up.len(), step.look_again_s), (0, None));
    }

    #[test]
    fn an_old_copy_goes_when_the_new_one_is_healthy_and_stays_while_it_is_the_last() {
        let failover = failover(GRACIOUSLY);
        let first = looked(
            &["us"],
            &[],
            &failover,
            vec![OneCopy {
                silent_s: Some(120),
                ..copy("us", "Healthy")
            }],
            0,
        );
        let tasks = first.tasks;
        // the new copy is not there yet, also after the grace period: the old one is the last
        for (health, at) in [("", 1), ("Unhealthy", 30), ("Unknown", 3_000)] {
            let step = looked(
                &["cn"],
                &tasks,
                &failover,
                vec![copy("us", "Healthy"), copy("cn", health)],
                at,
            );
            assert_eq!((step.ended.len(), step.tasks.len()), (0, 1), "{health} {at}");
        }
        let step = looked(&["cn"], &tasks, &failover, vec![copy("cn", "Healthy")], 5);
        assert_eq!((step.ended, step.tasks), (vec!["us".to_owned()], vec![]));
        // silent is not healthy
        let step = looked(
            &["cn"],
            &tasks,
            &failover,
            vec![OneCopy {
                silent_s: Some(1),
                ..copy("cn", "Healthy")
            }],
            5,
        );
        assert_eq!(step.ended.len(), 0);
        // assigned nowhere is not healthy either (field report 69)
        assert_eq!(looked(&[], &tasks, &failover, vec![], 5_000).ended.len(), 0);
    }

    #[test]
    fn what_is_never_purged_stays_until_a_person_decides() {
        let failover = failover(
            r#"{"application": {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Never"}}"#,
        );
        let mut tasks = looked(&["us"], &[], &failover, vec![copy("us", "Unhealthy")], 0).tasks;
        assert_eq!(tasks[0].suppress_deletion, Some(true));
        let later =
            |tasks: &[EvictionTask]| looked(&["cn"], tasks, &failover, vec![copy("cn", "Healthy")], 99_999);
        assert_eq!(later(&tasks).ended.len(), 0);
        tasks[0].suppress_deletion = Some(false);
        assert_eq!(later(&tasks).ended, ["us"]);
    }

    #[test]
    fn a_taint_drives_away_where_the_policy_or_the_operator_asks_for_it() {
        let resource = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "cfg"});
        let taints = [Taint {
            key: "fire".to_owned(),
            effect: "NoExecute".to_owned(),
            ..Taint::default()
        }];
        let asked = failover(r#"{"cluster": {"purgeMode": "Directly"}}"#);
        for (failover, no_execute, mode) in [
            (Some(&asked), false, Some(PurgeMode::Directly)),
            (None, true, Some(PurgeMode::Gracefully)),
            (None, false, None),
        ] {
            let before = Before {
                resource: &resource,
                clusters: &shares(&["us"]),
                tasks: &[],
                applied: Some("{}"),
                failover,
            };
            let seen = Seen {
                now: NOW,
                settings: Settings {
                    no_execute,
                    ..Settings::default()
                },
                ..Seen::default()
            };
            let later = Seen {
                taints_wait_s: 7,
                ..seen.clone()
            };
            let step = look(before, &later, true, |_| &taints, |_, _| false);
            assert_eq!(step.given_up, [], "it waits its turn");
            assert_eq!(
                (step.waiting.len(), step.look_again_s),
                (usize::from(mode.is_some()), mode.map(|_| 7))
            );
            let step = look(before, &seen, true, |_| &taints, |_, _| false);
            assert_eq!(step.tasks.first().and_then(|task| task.purge_mode), mode);
            assert_eq!(step.given_up.len(), usize::from(mode.is_some()));
        }
    }
}
