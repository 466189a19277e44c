//! How many more replicas fit into a cluster, by what it reported: the resource models if there are any, else the summary.
//!
//! Source of the arithmetic: the reference's general estimator. CPU counts in thousandths, everything else in whole units,
//! both rounded up. Where the reference simulates replica by replica, this divides.

use std::collections::BTreeMap;

use serde_json::Value;
use shared::object::Quantity;

use crate::cluster::Cluster;

/// Quantities by name of the resource.
pub type Resources = BTreeMap<String, Quantity>;

/// Pod slots of a node that is only known by its grade.
const PODS_OF_MODELLED_NODE: i64 = 110;

/// What a cluster has and uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Of all nodes.
    pub allocatable: Resources,
    /// Used by running pods.
    pub allocated: Resources,
    /// Of pods that wait for a node.
    pub allocating: Resources,
    /// Nodes by grade of the resource models.
    pub nodes: Vec<(i64, i64)>,
}

/// One grade of the resource models: what a node of this grade has at least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grade {
    /// Number of the grade.
    pub grade: i64,
    /// The least a node has, by resource.
    pub min: Resources,
}

/// Reads quantities; a text that is none is left out.
pub fn resources(value: &Value) -> Resources {
    let quantity = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    value
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), quantity(value)?)))
        .collect()
}

/// Thousandths for CPU, whole units for the rest.
fn amount(name: &str, quantity: Quantity) -> i64 {
    if name == "cpu" {
        quantity.millis_ceil()
    } else {
        quantity.units_ceil()
    }
}

impl Summary {
    /// Reads `status.resourceSummary` of a Cluster.
    pub fn read(summary: &Value) -> Self {
        let grades = summary["allocatableModelings"].as_array();
        Self {
            allocatable: resources(&summary["allocatable"]),
            allocated: resources(&summary["allocated"]),
            allocating: resources(&summary["allocating"]),
            nodes: grades
                .into_iter()
                .flatten()
                .filter_map(|count| Some((count["grade"].as_i64()?, count["count"].as_i64()?)))
                .collect(),
        }
    }

    fn free(&self, name: &str) -> i64 {
        let of = |resources: &Resources| resources.get(name).map_or(0, |quantity| amount(name, *quantity));
        of(&self.allocatable) - of(&self.allocated) - of(&self.allocating)
    }

    /// Free pod slots.
    pub fn free_pods(&self) -> i64 {
        self.free("pods").max(0)
    }

    /// Replicas with these requests that fit into what is free in all.
    pub fn fits(&self, requests: &Resources) -> i64 {
        let per_resource = |(name, quantity): (&String, &Quantity)| {
            let request = amount(name, *quantity);
            (request > 0).then(|| (self.free(name).max(0)) / request)
        };
        requests
            .iter()
            .filter_map(per_resource)
            .min()
            .unwrap_or(i64::from(i32::MAX))
    }
}

/// Reads `spec.resourceModels` of a Cluster.
pub fn grades(models: &Value) -> Vec<Grade> {
    let read = |model: &Value| {
        let ranges = model["ranges"].as_array().into_iter().flatten();
        let min = ranges.filter_map(|range| {
            let name = range["name"].as_str()?;
            Some((
                name.to_owned(),
                resources(&serde_json::json!({name: range["min"]})).remove(name)?,
            ))
        });
        Some(Grade {
            grade: model["grade"].as_i64()?,
            min: min.collect(),
        })
    };
    models.as_array().into_iter().flatten().filter_map(read).collect()
}

/// Replicas that fit onto modelled nodes, each taken as having exactly the least of its grade. `None`: there are no models,
/// or they do not name a resource that is requested, so that they cannot say (the reference counts that as zero).
pub fn fits_by_models(cluster: &Cluster, requests: &Resources) -> Option<i64> {
    let summary = cluster.summary.as_ref()?;
    if summary.nodes.is_empty() || cluster.grades.is_empty() {
        return None;
    }
    let named = |name: &String| cluster.grades.iter().any(|grade| grade.min.contains_key(name));
    if !requests
        .iter()
        .all(|(name, quantity)| amount(name, *quantity) <= 0 || named(name))
    {
        return None;
    }
    let on_one = |grade: i64| {
        let least = cluster
            .grades
            .iter()
            .find(|known| known.grade == grade)
            .map(|known| &known.min)?;
        let fit = requests.iter().filter_map(|(name, quantity)| {
            let request = amount(name, *quantity);
            let has = least.get(name).map_or(0, |quantity| amount(name, *quantity));
            (request > 0).then(|| has / request)
        });
        Some(
            fit.min()
                .unwrap_or(PODS_OF_MODELLED_NODE)
                .min(PODS_OF_MODELLED_NODE),
        )
    };
    Some(
        summary
            .nodes
            .iter()
            .filter_map(|(grade, count)| Some(on_one(*grade)?.saturating_mul(*count)))
            .sum(),
    )
}

/// Replicas that fit into a cluster. A cluster that has not reported what it has counts as full. `None` as requests: the
/// replicas require nothing but a pod slot.
pub fn replicas(cluster: &Cluster, requests: Option<&Resources>) -> i64 {
    let Some(summary) = &cluster.summary else { return 0 };
    let pods = summary.free_pods();
    match requests {
        None => pods,
        Some(_) if pods == 0 => 0,
        Some(requests) => {
            pods.min(fits_by_models(cluster, requests).unwrap_or_else(|| summary.fits(requests)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn cluster(cpu: &str, used: &str, pods: &str) -> Cluster {
        Cluster::read(&json!({"metadata": {"name": "m"}, "status": {"resourceSummary": {
            "allocatable": {"cpu": cpu, "pods": pods}, "allocated": {"cpu": used}}}}))
    }

    #[test]
    fn by_the_summary() {
        let half = resources(&json!({"cpu": "500m"}));
        assert_eq!(replicas(&cluster("4", "1", "100"), Some(&half)), 6);
        assert_eq!(replicas(&cluster("4", "1", "5"), Some(&half)), 5);
        assert_eq!(replicas(&cluster("4", "5", "5"), Some(&half)), 0);
        assert_eq!(replicas(&cluster("4", "1", "5"), None), 5);
        assert_eq!(
            replicas(
                &cluster("4", "1", "5"),
                Some(&resources(&json!({"nvidia.com/gpu": "1"})))
            ),
            0
        );
        assert_eq!(replicas(&Cluster::default(), None), 0);
    }

    #[test]
    fn a_resource_the_models_do_not_name_is_looked_up_in_the_summary() {
        let mut cluster = Cluster::read(&json!({
            "metadata": {"name": "m"},
            "spec": {"resourceModels": [{"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "2"}]}]},
            "status": {"resourceSummary": {
                "allocatable": {"cpu": "9", "pods": "50", "nvidia.com/gpu": "4"}, "allocatableModelings": [{"grade": 1, "count": 3}]}},
        }));
        let cpu = resources(&json!({"cpu": "500m"}));
        let gpu = resources(&json!({"cpu": "500m", "nvidia.com/gpu": "2"}));
        assert_eq!(
            (replicas(&cluster, Some(&cpu)), replicas(&cluster, Some(&gpu))),
            (6, 2)
        );
        cluster.grades.clear();
        assert_eq!(replicas(&cluster, Some(&cpu)), 18);
    }

    proptest! {
        #[test]
        fn what_is_said_to_fit_does_fit(cpu in 0_i64..64_000, used in 0_i64..64_000, request in 1_i64..4_000, pods in 0_i64..200) {
            let cluster = cluster(&format!("{cpu}m"), &format!("{used}m"), &pods.to_string());
            let fit = replicas(&cluster, Some(&resources(&json!({"cpu": format!("{request}m")}))));
            prop_assert!(fit >= 0 && fit <= pods);
            prop_assert!(fit == 0 || used + fit * request <= cpu);
            prop_assert!(fit == pods || used + (fit + 1) * request > cpu);
        }
    }
}
