//! What is promised to a cluster and not in its reports yet, and what that takes of its room.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use shared::grading::amount;

use super::Component;

/// What a workload takes each time: one replica, or one set of its components.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Its namespace; quotas in members are by namespace.
    pub namespace: String,
    /// The pods, with the replicas of one set.
    pub components: Vec<Component>,
}

/// What is promised to a cluster and not in its reports yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// What it takes each time.
    pub of: Arc<Footprint>,
    /// How many times.
    pub times: i64,
}

impl Footprint {
    /// Of a stored binding; `None`: it takes no room.
    pub fn read(binding: &Value) -> Option<Self> {
        let spec = &binding["spec"];
        let required = |value: &Value| interpreter::ReplicaRequirements::deserialize(value).ok();
        let sets = spec["components"].as_array().filter(|sets| !sets.is_empty());
        let components: Vec<Component> = match sets {
            Some(sets) => sets
                .iter()
                .map(|one| {
                    let replicas = one["replicas"].as_i64().unwrap_or(0);
                    let name = one["name"].as_str().unwrap_or_default();
                    Component::read(name, replicas, required(&one["replicaRequirements"]).as_ref())
                })
                .collect(),
            None if spec["replicas"].as_i64().unwrap_or(0) > 0 => {
                vec![Component::read(
                    "",
                    1,
                    required(&spec["replicaRequirements"]).as_ref(),
                )]
            }
            None => return None,
        };
        Some(Self {
            namespace: binding["metadata"]["namespace"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            components,
        })
    }

    /// How many of these take as much as `times` grew by when `former` became this: what of a larger request is not
    /// reported yet. Nothing if no request grew.
    pub fn growth(&self, former: &Self, times: i64) -> i64 {
        let same_pods = self.components.len() == former.components.len()
            && self
                .components
                .iter()
                .zip(&former.components)
                .all(|(now, then)| now.replicas == then.replicas);
        if !same_pods {
            return times;
        }
        let pairs = self.components.iter().zip(&former.components);
        let grown = pairs.flat_map(|(now, then)| {
            now.requests.iter().filter_map(|(name, quantity)| {
                let new = amount(name, *quantity);
                let old = then.requests.get(name).map_or(0, |old| amount(name, *old));
                let more = new.checked_sub(old.max(0)).filter(|more| *more > 0)?;
                let whole = i128::from(more) * i128::from(times);
                i64::try_from((whole + i128::from(new) - 1) / i128::from(new)).ok()
            })
        });
        grown.max().unwrap_or(0)
    }
}

impl Promise {
    /// All of it once.
    pub fn once(namespace: &str, components: Vec<Component>) -> Self {
        Self {
            of: Arc::new(Footprint {
                namespace: namespace.to_owned(),
                components,
            }),
            times: 1,
        }
    }
}
