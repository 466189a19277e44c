//! Rules of `spec.placement`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::admit::{Errors, FieldErrorType};
use super::super::fields::{is_label_value, is_qualified_name};
use super::super::propagation::{
    ClusterAffinityTerm, DivisionPreference, Placement, PropagationSpec, ReplicaScheduling, SchedulingType,
    Toleration,
};
use super::{affinity_name, cluster_affinity};

pub(super) fn check(spec: &PropagationSpec, raw: &Value, errors: &mut Errors) {
    let placement = &spec.placement;
    let path = "spec.placement";
    if placement.cluster_affinity.is_some() && placement.cluster_affinities.is_some() {
        errors.invalid(
            path,
            "clusterAffinity and clusterAffinities cannot be used together",
        );
    }
    if let Some(affinity) = &placement.cluster_affinity {
        cluster_affinity(affinity, "spec.placement.clusterAffinity", errors);
    }
    affinity_groups(placement, errors);
    for (index, toleration) in placement.cluster_tolerations.iter().enumerate() {
        tolerate(toleration, &format!("{path}.clusterTolerations[{index}]"), errors);
    }
    spread(placement, errors);
    if let Some(strategy) = &placement.replica_scheduling {
        weights(strategy, errors);
    }
    workload_affinity(&raw["workloadAffinity"], errors);
}

fn affinity_groups(placement: &Placement, errors: &mut Errors) {
    let path = "spec.placement.clusterAffinities";
    let terms = placement.cluster_affinities.as_deref().unwrap_or_default();
    let mut names = BTreeSet::new();
    if terms
        .iter()
        .any(|term| !names.insert(term.affinity_name.as_str()))
    {
        errors.invalid(path, "every group needs a name of its own");
    }
    for (index, term) in terms.iter().enumerate() {
        let path = format!("{path}[{index}]");
        affinity_name(term, format!("{path}.affinityName"), errors);
        cluster_affinity(&term.affinity, &path, errors);
        overflow(
            term,
            placement.replica_scheduling.as_ref(),
            &format!("{path}.overflowAffinities"),
            errors,
        );
    }
}

/// Overflow tiers fill up one after another, which only makes sense where the free room decides.
fn overflow(
    term: &ClusterAffinityTerm,
    strategy: Option<&ReplicaScheduling>,
    path: &str,
    errors: &mut Errors,
) {
    let Some(tiers) = term
        .overflow_affinities
        .as_deref()
        .filter(|tiers| !tiers.is_empty())
    else {
        return;
    };
    let by_room = strategy.is_some_and(|strategy| {
        strategy.replica_scheduling_type == SchedulingType::Divided
            && match strategy.replica_division_preference {
                Some(DivisionPreference::Aggregated) => true,
                Some(DivisionPreference::Weighted) => strategy
                    .weight_preference
                    .as_ref()
                    .is_some_and(|weights| !weights.dynamic_weight.is_empty()),
                None => false,
            }
    });
    if !by_room {
        errors.invalid(
            path,
            "overflow tiers need Divided scheduling, Aggregated or with dynamicWeight",
        );
    } else if term.affinity.is_empty() {
        errors.invalid(
            path,
            "overflow tiers need a first tier: the group itself selects every cluster",
        );
    }
    let mut names = BTreeSet::from([term.affinity_name.as_str()]);
    for (index, tier) in tiers.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let name = format!("{path}.affinityName");
        if !names.insert(tier.affinity_name.as_str()) {
            errors.invalid(
                name,
                format!("{:?} is used twice in this group", tier.affinity_name),
            );
        } else {
            affinity_name(tier, name, errors);
            if tier.affinity.is_empty() {
                errors.invalid(
                    path.clone(),
                    "an overflow tier that selects every cluster ends the list",
                );
            }
        }
        cluster_affinity(&tier.affinity, &path, errors);
    }
}

fn tolerate(toleration: &Toleration, path: &str, errors: &mut Errors) {
    let operator = format!("{path}.operator");
    match toleration.operator.as_str() {
        "" | "Equal" => {
            if !is_label_value(&toleration.value) {
                errors.invalid(
                    &*operator,
                    format!("{:?} is not a valid taint value", toleration.value),
                );
            }
        }
        "Exists" => {
            if !toleration.value.is_empty() {
                errors.invalid(&*operator, "Exists takes no value");
            }
        }
        other => errors.add(
            FieldErrorType::NotSupported,
            &*operator,
            format!("{other:?}; supported: \"Equal\", \"Exists\""),
        ),
    }
    if toleration.key.is_empty() {
        if toleration.operator != "Exists" {
            errors.invalid(operator, "without a key the operator must be Exists");
        }
    } else if !is_qualified_name(&toleration.key) {
        errors.invalid(
            format!("{path}.key"),
            format!("{:?} is not a valid taint key", toleration.key),
        );
    }
    if !matches!(
        toleration.effect.as_str(),
        "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute"
    ) {
        errors.add(
            FieldErrorType::NotSupported,
            format!("{path}.effect"),
            format!(
                "{:?}; supported: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                toleration.effect
            ),
        );
    }
    if toleration.toleration_seconds.is_some() && toleration.effect != "NoExecute" {
        errors.invalid(
            format!("{path}.effect"),
            "tolerationSeconds needs the effect NoExecute",
        );
    }
}

fn spread(placement: &Placement, errors: &mut Errors) {
    let path = "spec.placement.spreadConstraints";
    let mut seen = BTreeSet::new();
    let mut twice = false;
    for (index, constraint) in placement.spread_constraints.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if !constraint.spread_by_field.is_empty() && !constraint.spread_by_label.is_empty() {
            errors.invalid(&*path, "spreadByField and spreadByLabel cannot be used together");
        }
        if constraint.min_groups < 0 {
            errors.invalid(&*path, "minGroups must not be negative");
        }
        if constraint.max_groups < 0 {
            errors.invalid(&*path, "maxGroups must not be negative");
        } else if constraint.max_groups > 0 && constraint.max_groups < constraint.min_groups {
            errors.invalid(&*path, "maxGroups must not be lower than minGroups");
        }
        if !constraint.spread_by_field.is_empty() {
            twice |= !seen.insert(constraint.spread_by_field.as_str());
        }
    }
    if twice {
        errors.invalid(path, "one constraint per field");
    }
}

fn weights(strategy: &ReplicaScheduling, errors: &mut Errors) {
    let rules = strategy
        .weight_preference
        .iter()
        .flat_map(|weights| &weights.static_weight_list);
    for (index, rule) in rules.enumerate() {
        let path = format!("spec.placement.replicaScheduling.weightPreference.staticWeightList[{index}]");
        if rule.weight < 1 {
            errors.invalid(
                format!("{path}.weight"),
                format!("{}: must be at least 1", rule.weight),
            );
        }
        cluster_affinity(&rule.target_cluster, &format!("{path}.targetCluster"), errors);
    }
}

fn workload_affinity(affinity: &Value, errors: &mut Errors) {
    let path = "spec.placement.workloadAffinity";
    let key = |side: &str| affinity[side]["groupByLabelKey"].as_str();
    for side in ["affinity", "antiAffinity"] {
        if key(side).is_some_and(|key| !is_qualified_name(key)) {
            errors.invalid(
                format!("{path}.{side}.groupByLabelKey"),
                "is not a valid label key",
            );
        }
    }
    if key("affinity").is_some() && key("affinity") == key("antiAffinity") {
        errors.invalid(path, "affinity and antiAffinity cannot group by the same label");
    }
}
