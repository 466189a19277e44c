//! The clusters as scheduling needs them: sorted, with their room in columns, what they share kept once.

use std::collections::HashMap;
use std::sync::Arc;

use interpreter::NodeClaim;

use crate::cluster::{Apis, Cluster};
use crate::estimate::{Columns, Demand, Resources, Room};

/// All clusters of a hub. Made once for many plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    clusters: Vec<Cluster>,
    columns: Columns,
    rooms: Vec<Room>,
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
        let columns = Columns::of(&clusters);
        let rooms = clusters.iter().map(|cluster| columns.room(cluster)).collect();
        Self {
            clusters,
            columns,
            rooms,
        }
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
        self.clusters
            .binary_search_by(|cluster| cluster.name.as_str().cmp(name))
            .ok()
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
