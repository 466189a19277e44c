//! Workloads of several kinds of pods (AI jobs, Flink, Ray): one whole set goes to one cluster.

use crate::estimate::Component;
use crate::policy::Placement;

/// Is the workload placed as whole sets? It is if it has components and the policy wants exactly one cluster. Otherwise it
/// goes to every selected cluster, as it is.
pub fn are_whole_sets(components: &[Component], placement: &Placement) -> bool {
    !components.is_empty() && wants_one_cluster(placement)
}

/// Does the policy want exactly one cluster?
pub fn wants_one_cluster(placement: &Placement) -> bool {
    placement
        .spread_constraints
        .iter()
        .any(|one| one.spread_by_field == "cluster" && (one.min_groups, one.max_groups) == (1, 1))
}

/// Are components counted on the targets? One kind of pods alone is a plain workload, which has no counts by component.
pub fn are_counted(components: usize, placement: &Placement) -> bool {
    components > 1 && wants_one_cluster(placement)
}

/// Is it a workload at all: has it replicas, requirements or components?
pub fn is_workload(replicas: i64, has_requirements: bool, components: usize) -> bool {
    replicas > 0 || has_requirements || components > 0
}
