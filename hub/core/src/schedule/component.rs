//! Workloads of several kinds of pods (AI jobs, Flink, Ray): one whole set goes to one cluster.

use crate::estimate::Component;
use crate::policy::Placement;

/// Is the workload placed as whole sets? It is if it has components and the policy wants exactly one cluster. Otherwise it
/// goes to every selected cluster, as it is.
pub fn are_whole_sets(components: &[Component], placement: &Placement) -> bool {
    let exactly_one = placement
        .spread_constraints
        .iter()
        .any(|one| one.spread_by_field == "cluster" && (one.min_groups, one.max_groups) == (1, 1));
    !components.is_empty() && exactly_one
}

/// Is it a workload at all: has it replicas, requirements or components?
pub fn is_workload(replicas: i64, has_requirements: bool, components: usize) -> bool {
    replicas > 0 || has_requirements || components > 0
}
