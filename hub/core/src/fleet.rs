//! The clusters as scheduling needs them: sorted, with their room in columns, what they share kept once.

use std::collections::HashMap;
use std::sync::Arc;

use interpreter::NodeClaim;

use crate::cluster::{Apis, Cluster};
use crate::estimate::{Columns, Demand, Footprint, Promise, Resources, Room};

/// All clusters of a hub. Made once for many plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    clusters: Vec<Cluster>,
    columns: Columns,
    /// What each has free, less what is promised to it.
    rooms: Vec<Room>,
    /// What is promised to each and not in its report yet.
    promised: Vec<Vec<Promise>>,
}

impl Fleet {
    /// From clusters in any order; of two with one name the first stays.
    pub fn new(mut clusters: Vec<Cluster>) -> Self {
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        clusters.dedup_by(|b, a| a.name == b.name);
        let mut known: HashMap<Arc<Apis>, Arc<Apis>> = HashMap::new();
        for cluster in &mut clusters {
            if let Some(apis) = &mut cluster.apis {
                *apis = known.entry(apis.clone()).or_insert_with(|| apis.clone()).clone();
            }
        }
        let numbers = kin(&clusters);
        for (cluster, number) in clusters.iter_mut().zip(numbers) {
            cluster.kin = number;
        }
        let columns = Columns::of(&clusters);
        let rooms = clusters.iter().map(|cluster| columns.room(cluster)).collect();
        Self {
            promised: vec![Vec::new(); clusters.len()],
            clusters,
            columns,
            rooms,
        }
    }

    /// Promises more to clusters, by name: what was decided takes its room before a report shows it.
    pub fn promise<'s>(&mut self, of: &Arc<Footprint>, shares: impl IntoIterator<Item = (&'s str, i64)>) {
        let demands = demands(&self.columns, of);
        for (cluster, times) in shares {
            if let Ok(place) = place(&self.clusters, cluster) {
                take(&mut self.rooms[place], &demands, times);
                let promised = &mut self.promised[place];
                if promised.len() == promised.capacity() {
                    promised.reserve_exact(promised.len() / 4 + 4);
                }
                promised.push(Promise {
                    of: of.clone(),
                    times,
                });
            }
        }
    }

    /// Counts a cluster's room anew, with nothing but these promises.
    pub fn recount(&mut self, cluster: &str, promised: Vec<Promise>) {
        let Ok(place) = place(&self.clusters, cluster) else {
            return;
        };
        let mut room = self.columns.room(&self.clusters[place]);
        for promise in &promised {
            take(&mut room, &demands(&self.columns, &promise.of), promise.times);
        }
        self.rooms[place] = room;
        self.promised[place] = promised;
    }

    /// What is promised to the cluster at a place and not in its report yet.
    pub fn promised(&self, place: usize) -> &[Promise] {
        self.promised.get(place).map_or(&[], Vec::as_slice)
    }

    /// The clusters, sorted by name.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The cluster of that name.
    pub fn get(&self, name: &str) -> Option<&Cluster> {
        self.clusters.get(self.place(name)?)
    }

    /// Its place among the clusters.
    pub fn place(&self, name: &str) -> Option<usize> {
        place(&self.clusters, name).ok()
    }

    /// The room of the cluster at a place.
    pub fn room(&self, place: usize) -> Option<&Room> {
        self.rooms.get(place)
    }

    /// What one replica requests, in the columns of this fleet.
    pub fn demand<'a>(&self, requests: Option<&'a Resources>, claim: Option<&'a NodeClaim>) -> Demand<'a> {
        self.columns.demand(requests, claim)
    }
}

/// A number for each cluster: the same for those that selectors cannot tell apart but by name.
fn kin<'c>(clusters: &'c [Cluster]) -> Vec<u32> {
    let mut known = HashMap::new();
    let number = |cluster: &'c Cluster| {
        let Cluster {
            labels,
            provider,
            region,
            zones,
            ..
        } = cluster;
        let next = u32::try_from(known.len() + 1).unwrap_or(0);
        *known.entry((labels, provider, region, zones)).or_insert(next)
    };
    clusters.iter().map(number).collect()
}

fn place(clusters: &[Cluster], name: &str) -> Result<usize, usize> {
    clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(name))
}

/// What each pod of a footprint requests, in columns, with the pods of one set.
fn demands<'a>(columns: &Columns, of: &'a Footprint) -> Vec<(Demand<'a>, i64)> {
    let each = of.components.iter();
    each.map(|one| {
        (
            columns.demand(Some(&one.requests), one.claim.as_ref()),
            one.replicas,
        )
    })
    .collect()
}

fn take(room: &mut Room, demands: &[(Demand<'_>, i64)], times: i64) {
    for (demand, replicas) in demands {
        room.take(demand, replicas.saturating_mul(times));
    }
}
