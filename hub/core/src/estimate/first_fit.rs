//! Complete sets of components packed into nodes, first fit, without going set by set where sets repeat.
//!
//! The rule is the reference's: for each set, for each component in order, for each node in order, as many replicas as
//! fit; a set that cannot be completed ends it. The cost here does not grow with the free room: as long as the next set
//! would be placed exactly like the last one, all of those are counted at once.

use std::collections::BTreeMap;

use shared::grading::amount;

use super::Resources;

/// Nodes that are looked at; more are left out, so that a wrong count costs no more than this.
pub const NODES_MAX: usize = 50_000;

/// What a node has free: amounts by resource, pod slots first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    free: Vec<i64>,
}

/// One component of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Replicas in one set.
    pub replicas: i64,
    /// What one replica requests; the pod slot comes first.
    needs: Vec<i64>,
    /// Which bins may hold it; `None`: all.
    allowed: Option<Vec<bool>>,
}

/// Names of the resources that matter, so that bins and items speak of the same.
#[derive(Clone, Debug, Default)]
pub struct Scale {
    names: Vec<String>,
}

impl Scale {
    /// Of everything that is requested.
    pub fn of<'r>(requests: impl IntoIterator<Item = &'r Resources>) -> Self {
        let mut names: BTreeMap<&str, ()> = BTreeMap::new();
        for requests in requests {
            for (name, quantity) in requests {
                if amount(name, *quantity) > 0 {
                    names.insert(name, ());
                }
            }
        }
        Self {
            names: names.into_keys().map(str::to_owned).collect(),
        }
    }

    /// A node with these resources and pod slots free.
    pub fn bin(&self, free: &Resources, pods: i64) -> Bin {
        let of = |name: &String| {
            free.get(name)
                .map_or(0, |quantity| amount(name, *quantity).max(0))
        };
        Bin {
            free: std::iter::once(pods.max(0))
                .chain(self.names.iter().map(of))
                .collect(),
        }
    }

    /// A component with these requests.
    pub fn item(&self, replicas: i64, requests: &Resources, allowed: Option<Vec<bool>>) -> Item {
        let of = |name: &String| {
            requests
                .get(name)
                .map_or(0, |quantity| amount(name, *quantity).max(0))
        };
        Item {
            replicas,
            needs: std::iter::once(1).chain(self.names.iter().map(of)).collect(),
            allowed,
        }
    }
}

/// How many replicas of an item still fit into a bin.
fn fit(bin: &Bin, item: &Item) -> i64 {
    bin.free
        .iter()
        .zip(&item.needs)
        .filter(|(_, need)| **need > 0)
        .map(|(free, need)| free / need)
        .min()
        .unwrap_or(0)
}

fn take(bin: &mut Bin, item: &Item, replicas: i64) {
    for (free, need) in bin.free.iter_mut().zip(&item.needs) {
        *free -= need * replicas;
    }
}

/// One placement of the last set.
struct Placed {
    bin: usize,
    item: usize,
    replicas: i64,
    /// What the bin had free just before.
    before: Bin,
}

/// Sets that can be completed, at most `most`. What a set that could not be completed took stays taken.
pub fn pack(bins: &mut [Bin], items: &[Item], most: i64) -> i64 {
    if items.iter().all(|item| item.replicas <= 0) {
        return most.max(0);
    }
    let mut first: Vec<usize> = vec![0; items.len()];
    let mut sets = 0;
    let mut placed: Vec<Placed> = Vec::new();
    while sets < most {
        placed.clear();
        let Some(repeats) = place_one(bins, items, &mut first, &mut placed) else {
            break;
        };
        sets += 1;
        if repeats && sets < most {
            let more = repetitions(bins.len(), items, &placed).min(most - sets);
            if more > 0 {
                for one in &placed {
                    take(
                        &mut bins[one.bin],
                        &items[one.item],
                        one.replicas.saturating_mul(more),
                    );
                }
                sets += more;
            }
        }
    }
    sets
}

/// Places one set; `None`: it cannot be completed. The answer says whether no bin was the limit anywhere, so that the next
/// set may be placed in the same way.
fn place_one(
    bins: &mut [Bin],
    items: &[Item],
    first: &mut [usize],
    placed: &mut Vec<Placed>,
) -> Option<bool> {
    let mut repeats = true;
    for (at, item) in items.iter().enumerate() {
        let mut left = item.replicas;
        let mut bin = first[at];
        while left > 0 {
            let slot = bins.get_mut(bin)?;
            let allowed = item
                .allowed
                .as_ref()
                .is_none_or(|allowed| allowed.get(bin) == Some(&true));
            let room = if allowed { fit(slot, item) } else { 0 };
            if room == 0 {
                // Bins only get fuller, so this one is never looked at again if all before it are full too.
                if bin == first[at] {
                    first[at] += 1;
                }
            } else {
                let replicas = room.min(left);
                repeats &= replicas == left;
                placed.push(Placed {
                    bin,
                    item: at,
                    replicas,
                    before: slot.clone(),
                });
                take(slot, item, replicas);
                left -= replicas;
            }
            bin += 1;
        }
    }
    Some(repeats)
}

/// How many further sets go exactly where the last one went.
fn repetitions(bins: usize, items: &[Item], placed: &[Placed]) -> i64 {
    let width = items.first().map_or(0, |item| item.needs.len());
    let mut used: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    for one in placed {
        let sum = used.entry(one.bin).or_insert_with(|| vec![0; width]);
        for (sum, need) in sum.iter_mut().zip(&items[one.item].needs) {
            *sum += need * one.replicas;
        }
    }
    debug_assert!(placed.iter().all(|one| one.bin < bins));
    placed
        .iter()
        .flat_map(|one| {
            let sum = &used[&one.bin];
            let item = &items[one.item];
            (0..width)
                .filter(|at| sum[*at] > 0 && item.needs[*at] > 0)
                .map(|at| (one.before.free[at] - item.needs[at] * one.replicas) / sum[at])
        })
        .min()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// The rule as it is defined: set by set, replica by replica.
    fn one_by_one(bins: &mut [Bin], items: &[Item], most: i64) -> i64 {
        let mut sets = 0;
        while sets < most {
            for item in items {
                let mut left = item.replicas;
                for (at, bin) in bins.iter_mut().enumerate() {
                    let allowed = item.allowed.as_ref().is_none_or(|allowed| allowed[at]);
                    while allowed && left > 0 && fit(bin, item) > 0 {
                        take(bin, item, 1);
                        left -= 1;
                    }
                }
                if left > 0 {
                    return sets;
                }
            }
            sets += 1;
        }
        sets
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_shortcut_packs_like_one_by_one(
            bins in prop::collection::vec((0_i64..60, 0_i64..60, 0_i64..20), 0..6),
            items in prop::collection::vec((1_i64..5, 0_i64..8, 0_i64..8, prop::option::of(prop::collection::vec(any::<bool>(), 6))), 1..4),
            most in 0_i64..40,
        ) {
            let bins: Vec<Bin> = bins.iter().map(|(a, b, pods)| Bin { free: vec![*pods, *a, *b] }).collect();
            let items: Vec<Item> = items.into_iter().map(|(replicas, a, b, allowed)| Item { replicas, needs: vec![1, a, b], allowed }).collect();
            let (mut quick, mut slow) = (bins.clone(), bins);
            prop_assert_eq!(pack(&mut quick, &items, most), one_by_one(&mut slow, &items, most));
            prop_assert_eq!(quick, slow, "also what is left is the same");
        }
    }

    #[test]
    fn a_huge_bin_is_filled_at_once() {
        let requests = super::super::resources(&json!({"cpu": "1m"}));
        let scale = Scale::of([&requests]);
        let free = super::super::resources(&json!({"cpu": "2000000"}));
        let mut bins = vec![scale.bin(&free, i64::from(i32::MAX))];
        let most = i64::from(i32::MAX);
        assert_eq!(
            pack(&mut bins, &[scale.item(3, &requests, None)], most),
            666_666_666
        );
    }
}
