//! What recent decisions promise to clusters that their reports do not show yet, so that two bindings decided within one
//! report interval never take the same free room.
//!
//! A share counts as promised from the plan that gives it. It ends when the cluster has said that it applied the share's
//! content, and then reported what it has: a report that comes soon after may have missed pods that were only being made,
//! so it counts once the next measurement would have corrected it. A cluster that reports nothing new, or is silent,
//! keeps its promises: what the hub knows of it does not contain them. Scaling down promises nothing; the room comes back
//! with a report.
//!
//! Kept in memory only: after a start everything that no report confirms is promised again ([`Promises::restored`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;
use shared::time::Millis;

use crate::estimate::{Footprint, Promise};

/// Pods of what a cluster has applied are made within this time, as a rule.
const PODS_MADE_MS: u64 = 5_000;
/// A cluster measures what it has at least this often; what it did not correct by then was right.
const MEASURED_AGAIN_MS: u64 = 90_000;

/// Namespace and name of a binding.
type Place = (String, String);

/// One binding's promise in one cluster. There may be one for every work of the fleet, so it is kept small.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    of: Arc<Footprint>,
    /// How often the reports contain it.
    covered: i32,
    /// How often more it is promised; above zero.
    times: i32,
    there: There,
}

/// How far the content has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    /// The cluster did not say that it has it.
    Unknown,
    /// It has it since then.
    Applied(Millis),
    /// It has it since then, and reported what it uses very soon after.
    Told(Millis),
}

/// What is promised, by cluster and binding.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    open: BTreeMap<String, BTreeMap<Arc<Place>, Open>>,
    /// Clusters to which less is promised than before.
    freed: BTreeSet<String>,
    /// Clusters with promises that end with time.
    ending: BTreeSet<String>,
}

/// What a decision promises on top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// What it takes each time.
    pub of: Arc<Footprint>,
    /// How often more, by cluster.
    pub shares: Vec<(String, i64)>,
}

/// Replicas fit by far; more is as much as can be.
fn small(times: i64) -> i32 {
    i32::try_from(times).unwrap_or(if times < 0 { 0 } else { i32::MAX })
}

/// Shares of a stored binding in the times of its footprint.
fn shares(binding: Option<&Value>) -> HashMap<&str, i64> {
    let Some(spec) = binding.map(|binding| &binding["spec"]) else {
        return HashMap::new();
    };
    let sets = spec["components"].as_array().is_some_and(|sets| !sets.is_empty());
    let clusters = spec["clusters"].as_array().into_iter().flatten();
    let share = |target: &Value| match sets {
        true => 1,
        false => target["replicas"].as_i64().unwrap_or(0),
    };
    clusters
        .filter_map(|target| Some((target["name"].as_str()?, share(target))))
        .collect()
}

impl Promises {
    /// Notes what was decided for a binding: the one that is stored, and the one that is planned instead. Deciding the same
    /// again, because it could not be stored, changes nothing.
    pub fn decided(
        &mut self,
        namespace: &str,
        name: &str,
        stored: Option<&Value>,
        planned: Option<&Value>,
    ) -> Added {
        let place = Arc::new((namespace.to_owned(), name.to_owned()));
        let (before, after) = (shares(stored), shares(planned));
        let Some(of) = planned.and_then(Footprint::read) else {
            if stored.is_some() || planned.is_none() {
                self.forget(&place);
            }
            return Added::default();
        };
        for cluster in before.keys().filter(|cluster| !after.contains_key(*cluster)) {
            self.close(cluster, &place);
        }
        let former = stored.and_then(Footprint::read);
        let mut added = Added {
            of: Arc::new(of),
            shares: Vec::new(),
        };
        let mut after: Vec<_> = after.into_iter().collect();
        after.sort_unstable();
        for (cluster, share) in after {
            let known = self.open.get(cluster).and_then(|open| open.get(&place));
            let (covered, of_covered) = match known {
                Some(open) => (i64::from(open.covered), Some(&*open.of)),
                None => (before.get(cluster).copied().unwrap_or(0), former.as_ref()),
            };
            let grown = of_covered.map_or(covered, |was| added.of.growth(was, covered));
            let covered = covered - grown;
            let times = share - covered;
            let had = known.map_or(0, |open| i64::from(open.times));
            match known {
                _ if times <= 0 => self.close(cluster, &place),
                Some(open) if open.of == added.of && had == times => {}
                Some(open) if open.of == added.of && had < times => {
                    added.shares.push((cluster.to_owned(), times - had));
                    let of = open.of.clone();
                    self.put(cluster, &place, of, covered, times);
                }
                Some(_) => {
                    self.put(cluster, &place, added.of.clone(), covered, times);
                    self.freed.insert(cluster.to_owned());
                }
                None => {
                    added.shares.push((cluster.to_owned(), times));
                    self.put(cluster, &place, added.of.clone(), covered, times);
                }
            }
        }
        added
    }

    fn put(&mut self, cluster: &str, place: &Arc<Place>, of: Arc<Footprint>, covered: i64, times: i64) {
        let open = Open {
            of,
            covered: small(covered),
            times: small(times),
            there: There::Unknown,
        };
        match self.open.get_mut(cluster) {
            Some(known) => known.insert(place.clone(), open),
            None => {
                let first = BTreeMap::from([(place.clone(), open)]);
                self.open.insert(cluster.to_owned(), first);
                None
            }
        };
    }

    /// The decision could not be stored: the stored binding says what is promised.
    pub fn undone<'c>(
        &mut self,
        namespace: &str,
        name: &str,
        planned: impl IntoIterator<Item = &'c str>,
        stored: Option<&Value>,
    ) {
        let place = Arc::new((namespace.to_owned(), name.to_owned()));
        let before = shares(stored);
        for cluster in planned {
            let share = before.get(cluster).copied().unwrap_or(0);
            let Some(open) = self.open.get_mut(cluster).and_then(|open| open.get_mut(&place)) else {
                continue;
            };
            open.times = small(share - i64::from(open.covered));
            let ended = open.times <= 0;
            self.freed.insert(cluster.to_owned());
            if ended {
                self.close(cluster, &place);
            }
        }
    }

    /// After a start: all of what a stored binding gives these clusters is promised, as no report confirms it.
    pub fn restored<'c>(
        &mut self,
        namespace: &str,
        name: &str,
        stored: &Value,
        clusters: impl IntoIterator<Item = &'c str>,
    ) {
        let Some(of) = Footprint::read(stored).map(Arc::new) else {
            return;
        };
        let place = Arc::new((namespace.to_owned(), name.to_owned()));
        let shares = shares(Some(stored));
        for cluster in clusters {
            if let Some(share) = shares.get(cluster).filter(|share| **share > 0) {
                self.put(cluster, &place, of.clone(), 0, *share);
                self.freed.insert(cluster.to_owned());
            }
        }
    }

    /// These clusters have the newest content of a binding.
    pub fn applied<'c>(
        &mut self,
        namespace: &str,
        name: &str,
        clusters: impl IntoIterator<Item = &'c str>,
        now: Millis,
    ) {
        if self.open.is_empty() {
            return;
        }
        let place = (namespace.to_owned(), name.to_owned());
        for cluster in clusters {
            if let Some(open) = self.open.get_mut(cluster).and_then(|open| open.get_mut(&place))
                && open.there == There::Unknown
            {
                open.there = There::Applied(now);
            }
        }
    }

    /// A cluster reported what it has and uses.
    pub fn reported(&mut self, cluster: &str, now: Millis) {
        let Some(open) = self.open.get_mut(cluster) else {
            return;
        };
        let before = open.len();
        let mut ending = false;
        open.retain(|_, open| {
            let (There::Applied(since) | There::Told(since)) = open.there else {
                return true;
            };
            open.there = There::Told(since);
            ending |= now.since(since) < PODS_MADE_MS;
            now.since(since) < PODS_MADE_MS
        });
        let ended = open.len() < before;
        self.tidy(cluster, ended);
        if ending {
            self.ending.insert(cluster.to_owned());
        }
    }

    /// Ends what a cluster reported soon after it had it, once it would have corrected itself.
    pub fn settle(&mut self, now: Millis) {
        for cluster in std::mem::take(&mut self.ending) {
            let Some(open) = self.open.get_mut(&cluster) else {
                continue;
            };
            let before = open.len();
            let over = PODS_MADE_MS + MEASURED_AGAIN_MS;
            open.retain(|_, open| !matches!(open.there, There::Told(since) if now.since(since) >= over));
            let waits = open.values().any(|open| matches!(open.there, There::Told(_)));
            let ended = open.len() < before;
            self.tidy(&cluster, ended);
            if waits {
                self.ending.insert(cluster);
            }
        }
    }

    /// What is promised to a cluster.
    pub fn of(&self, cluster: &str) -> Vec<Promise> {
        let open = self.open.get(cluster).into_iter().flat_map(BTreeMap::values);
        open.map(|open| Promise {
            of: open.of.clone(),
            times: i64::from(open.times),
        })
        .collect()
    }

    /// Clusters to which something is promised.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.open.keys().map(String::as_str)
    }

    /// Clusters to which less, or something else, is promised than when this was last asked: their room is to be counted
    /// anew.
    pub fn take_freed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.freed)
    }

    /// Clusters of which [`Promises::take_freed`] would tell.
    pub fn freed(&self) -> &BTreeSet<String> {
        &self.freed
    }

    fn close(&mut self, cluster: &str, place: &Place) {
        let ended = self
            .open
            .get_mut(cluster)
            .is_some_and(|open| open.remove(place).is_some());
        self.tidy(cluster, ended);
    }

    fn forget(&mut self, place: &Place) {
        let clusters: Vec<String> = self
            .open
            .iter_mut()
            .filter_map(|(cluster, open)| open.remove(place).map(|_| cluster.clone()))
            .collect();
        for cluster in clusters {
            self.tidy(&cluster, true);
        }
    }

    fn tidy(&mut self, cluster: &str, ended: bool) {
        if ended {
            self.freed.insert(cluster.to_owned());
            if self.open.get(cluster).is_some_and(BTreeMap::is_empty) {
                self.open.remove(cluster);
            }
        }
    }
}

#[cfg(test)]
mod tests;
