//! The task *failover*: has templates planned again when silence, reports or time may move their copies.
//!
//! It decides nothing. What is moved, and whether there is a place for it, is the plan's business
//! ([`hub_core::failover::step`]); this knows when to look. Its times are lost with the process on purpose: a hub that was
//! away heard nobody, so nobody is given up because of that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hub_core::cluster::Cluster;
use hub_core::failover::step::{self, OneCopy};
use hub_core::failover::taints;
use hub_core::plan::{BindingChange, TemplatePlan, World, bound_object};
use interpreter::Health;
use serde_json::Value;
use shared::ids::ClusterName;
use shared::reason::Reason;
use shared::time::Millis;
use tokio::time::MissedTickBehavior;

use super::status::seen;
use super::{BindingRef, Reconciler, TemplateKey, limits, report_trouble};
use crate::clock;
use crate::store::StoreError;
use crate::store::fleet::Target;

/// What is remembered of a binding that failover concerns.
#[derive(Debug)]
struct Watch {
    template: TemplateKey,
    /// Since when the copy in a cluster is reported unhealthy.
    since: BTreeMap<String, Millis>,
    /// What each cluster said at the last plan.
    health: BTreeMap<String, &'static str>,
    /// When time alone changes something.
    due: Option<Millis>,
    /// A taint drives a copy away, and it waits its turn.
    queued: bool,
}

/// Bindings that failover concerns.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<HashMap<BindingRef, Watch>>, Mutex<Turns>);

/// How fast taints drive copies away.
#[derive(Debug, Default)]
struct Turns {
    /// When the next copy may be driven away.
    next: Option<Millis>,
}

impl Turns {
    /// Milliseconds until the next turn.
    fn wait(&self, now: Millis) -> u64 {
        self.next.map_or(0, |next| next.since(now))
    }

    /// So many copies were driven away: each takes its time.
    fn took(&mut self, copies: usize, pause_ms: u64, now: Millis) {
        let free = self.next.filter(|next| *next > now).unwrap_or(now);
        let copies = u64::try_from(copies).unwrap_or(u64::MAX);
        if copies > 0 {
            self.next = Some(free.plus(copies.saturating_mul(pause_ms)));
        }
    }
}

/// Copies that a plan drives away because of taints: its tasks of that reason that were not there before.
fn driven_away(former: Option<&Value>, new: &Value) -> usize {
    let tasks = |binding: &Value| -> Vec<Value> {
        let all = binding["spec"]["gracefulEvictionTasks"].as_array();
        let by_taints = all
            .into_iter()
            .flatten()
            .filter(|task| task["reason"] == taints::REASON);
        by_taints.map(|task| task["fromCluster"].clone()).collect()
    };
    let known = former.map(tasks).unwrap_or_default();
    tasks(new)
        .iter()
        .filter(|cluster| !known.contains(cluster))
        .count()
}

impl Watches {
    fn table(&self) -> MutexGuard<'_, HashMap<BindingRef, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The copies of a binding, for its plan.
pub(super) struct Look {
    /// For the plan.
    pub(super) seen: step::Seen,
    since: BTreeMap<String, Millis>,
    health: BTreeMap<String, &'static str>,
}

/// What a cluster says of its copy of the newest content.
fn word(target: &Target) -> &'static str {
    match seen(target) {
        None => "",
        Some(seen) if !seen.applied => "Unknown",
        Some(seen) => match seen.health {
            Some(Health::Healthy) => "Healthy",
            Some(Health::Unhealthy) => "Unhealthy",
            _ => "Unknown",
        },
    }
}

impl Reconciler {
    /// The copies of a stored binding, if failover concerns it.
    pub(super) fn look_at_copies(
        &self,
        binding: &BindingRef,
        stored: &Value,
        world: &World,
    ) -> Result<Option<Look>, StoreError> {
        let settings = self.settings.failover;
        let drives = |cluster: &Cluster| cluster.taints.iter().any(|taint| taint.effect == "NoExecute");
        let tainted = settings.no_execute && world.clusters().iter().any(drives);
        if !step::concerns(stored, tainted, &settings) {
            return Ok(None);
        }
        let now = clock::monotonic();
        let key = bound_object(stored);
        let targets: Vec<Target> = self
            .store
            .targets_of(binding)?
            .into_iter()
            .filter(|target| target.entry.key == key)
            .collect();
        let health: BTreeMap<String, &'static str> = targets
            .iter()
            .map(|target| (target.cluster.to_string(), word(target)))
            .collect();
        let former = self.watches.table();
        let former = former.get(binding).map(|watch| watch.since.clone());
        let since: BTreeMap<String, Millis> = health
            .iter()
            .filter(|(_, word)| **word == "Unhealthy")
            .map(|(cluster, _)| {
                let known = former.as_ref().and_then(|since| since.get(cluster));
                (cluster.clone(), known.copied().unwrap_or(now))
            })
            .collect();
        let seconds = |milliseconds: u64| i64::try_from(milliseconds / 1_000).unwrap_or(i64::MAX);
        let silent = self.presence.silent(now);
        let taints_wait = self.watches.turns().wait(now).div_ceil(1_000);
        let copies = targets
            .iter()
            .map(|target| {
                let cluster = target.cluster.to_string();
                let is_silent = silent.contains(&target.cluster);
                let silence = self.presence.silent_for(&target.cluster, now).as_millis();
                OneCopy {
                    health: word(target).to_owned(),
                    status: seen(target).and_then(|seen| seen.status),
                    silent_s: is_silent.then(|| seconds(u64::try_from(silence).unwrap_or(u64::MAX))),
                    unhealthy_s: since.get(&cluster).map(|since| seconds(now.since(*since))),
                    cluster,
                }
            })
            .collect();
        Ok(Some(Look {
            seen: step::Seen {
                copies,
                silent: silent.iter().map(ClusterName::to_string).collect(),
                now: clock::wall(),
                taints_wait_s: i64::try_from(taints_wait).unwrap_or(i64::MAX),
                settings,
            },
            since,
            health,
        }))
    }

    /// Remembers when a planned binding is looked at again; forgets one that failover does not concern.
    pub(super) fn watch_copies(
        &self,
        template: &TemplateKey,
        binding: &BindingRef,
        former: Option<&Value>,
        plan: &TemplatePlan,
        look: Option<Look>,
    ) {
        let now = clock::monotonic();
        let stored = match &plan.binding {
            BindingChange::Put(new) => Some(&**new),
            BindingChange::Keep => former,
            BindingChange::Delete => None,
        };
        let concerned = stored
            .is_some_and(|stored| look.is_some() || step::concerns(stored, false, &self.settings.failover));
        if let BindingChange::Put(new) = &plan.binding {
            let copies = driven_away(former, new);
            self.watches
                .turns()
                .took(copies, self.settings.eviction_pause_ms, now);
        }
        let mut watches = self.watches.table();
        if !concerned {
            watches.remove(binding);
            return;
        }
        let is_held = plan.notes.iter().any(|note| note.reason == Reason::NoReplacement);
        let wait = plan
            .look_again_s
            .map(|seconds| u64::try_from(seconds).unwrap_or(0));
        let wait = wait.map(|seconds| seconds.saturating_mul(1_000));
        let retry = is_held.then_some(limits::FAILOVER_RETRY_MS);
        let due = match &look {
            // Planned for the first time; its copies are looked at next.
            None => Some(now),
            Some(_) => wait.into_iter().chain(retry).min().map(|wait| now.plus(wait)),
        };
        let queued = look.as_ref().is_some_and(|look| {
            look.seen.taints_wait_s > 0 && plan.look_again_s == Some(look.seen.taints_wait_s)
        });
        let (since, health) = look.map(|look| (look.since, look.health)).unwrap_or_default();
        if watches.len() < limits::WATCHED_BINDINGS || watches.contains_key(binding) {
            watches.insert(
                binding.clone(),
                Watch {
                    template: template.clone(),
                    since,
                    health,
                    due,
                    queued,
                },
            );
        }
    }

    /// A cluster reported about a binding.
    pub(super) fn copies_reported(&self, binding: &BindingRef) {
        if self.watches.table().contains_key(binding) {
            self.reported.mark([binding.clone()]);
        }
    }

    /// Looks by timer, until dropped.
    pub(super) async fn failover_forever(&self) {
        let mut ticks = tokio::time::interval(limits::LIVENESS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent = BTreeSet::new();
        loop {
            ticks.tick().await;
            if let Err(error) = self.failover_turn(&mut silent) {
                report_trouble("failover", "copies", &error);
            }
        }
    }

    /// One look: marks templates whose copies may have to move. `silent`: who was silent at the last one.
    pub(super) fn failover_turn(&self, silent: &mut BTreeSet<ClusterName>) -> Result<(), StoreError> {
        let now = clock::monotonic();
        let reported = self.reported.take();
        if self.watches.table().is_empty() {
            return Ok(());
        }
        let silent_now = self.presence.silent(now);
        let everything = reported.all || silent_now != *silent;
        *silent = silent_now;
        let mut marks = Vec::new();
        for binding in reported.keys {
            let said: BTreeMap<String, &'static str> = self
                .store
                .targets_of(&binding)?
                .iter()
                .map(|target| (target.cluster.to_string(), word(target)))
                .collect();
            let watches = self.watches.table();
            let changed = watches.get(&binding).filter(|watch| watch.health != said);
            marks.extend(changed.map(|watch| watch.template.clone()));
        }
        let mut turns = limits::QUEUED_EVICTIONS;
        for watch in self.watches.table().values_mut() {
            let is_due = watch.due.is_some_and(|due| due <= now);
            if is_due && watch.queued && !everything {
                // Only one of them gets the next turn: the others need not be planned for that.
                let Some(left) = turns.checked_sub(1) else {
                    continue;
                };
                turns = left;
            }
            if everything || is_due {
                watch.due = None;
                marks.push(watch.template.clone());
            }
        }
        self.templates.mark(marks);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Turns red when copies that taints drive away do not take their time each, or when others take a turn.
    #[test]
    fn each_copy_that_a_taint_drives_away_takes_its_turn() {
        let mut turns = Turns::default();
        let now = Millis(10_000);
        assert_eq!(turns.wait(now), 0);
        turns.took(0, 2_000, now);
        assert_eq!(turns.wait(now), 0, "nothing was driven away");
        turns.took(2, 2_000, now);
        assert_eq!(turns.wait(now), 4_000);
        turns.took(1, 2_000, now.plus(1_000));
        assert_eq!(turns.wait(now.plus(1_000)), 5_000);
        assert_eq!(turns.wait(now.plus(9_000)), 0);
        turns.took(1, 2_000, now.plus(9_000));
        assert_eq!(turns.wait(now.plus(9_000)), 2_000);

        let task = |cluster: &str, reason: &str| json!({"fromCluster": cluster, "reason": reason});
        let binding = |tasks: &[Value]| json!({"spec": {"gracefulEvictionTasks": tasks}});
        let before = binding(&[task("a", taints::REASON)]);
        let after = binding(&[
            task("a", taints::REASON),
            task("b", taints::REASON),
            task("c", "ApplicationFailure"),
        ]);
        assert_eq!(
            (driven_away(Some(&before), &after), driven_away(None, &before)),
            (1, 1)
        );
    }
}
