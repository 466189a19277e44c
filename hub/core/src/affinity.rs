//! Does a cluster satisfy a cluster affinity? The same rule serves placements, static weights and override rules.

use std::collections::BTreeMap;
use std::fmt;

use crate::cluster::Cluster;
use crate::policy::{ClusterAffinity, FieldSelector, Requirement};

/// The part of an affinity that a cluster does not satisfy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The cluster is excluded by name.
    Excluded,
    /// Its labels do not match.
    Labels,
    /// Its provider, region or zones do not match; the key says which.
    Field(String),
    /// It is not among the names.
    NotNamed,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Excluded => write!(f, "excluded by name"),
            Self::Labels => write!(f, "labels do not match the selector"),
            Self::Field(key) => write!(f, "{key} does not match the field selector"),
            Self::NotNamed => write!(f, "not among the named clusters"),
        }
    }
}

/// Checks the parts in the reference's order: exclude, labels, fields, names.
///
/// # Errors
/// The first part that does not hold. An invalid selector holds for no cluster.
pub fn check(cluster: &Cluster, affinity: &ClusterAffinity) -> Result<(), Mismatch> {
    if affinity.exclude.contains(&cluster.name) {
        return Err(Mismatch::Excluded);
    }
    if affinity
        .label_selector
        .as_ref()
        .is_some_and(|labels| !labels.matches(&cluster.labels))
    {
        return Err(Mismatch::Labels);
    }
    if let Some(fields) = &affinity.field_selector {
        check_fields(cluster, fields)?;
    }
    if !affinity.cluster_names.is_empty() && !affinity.cluster_names.contains(&cluster.name) {
        return Err(Mismatch::NotNamed);
    }
    Ok(())
}

/// [`check`] as a yes or no.
pub fn matches(cluster: &Cluster, affinity: &ClusterAffinity) -> bool {
    check(cluster, affinity).is_ok()
}

fn check_fields(cluster: &Cluster, selector: &FieldSelector) -> Result<(), Mismatch> {
    let fields = fields_of(cluster);
    for requirement in &selector.match_expressions {
        let holds = if requirement.key == "zone" {
            zones_match(&cluster.zones, requirement)
        } else {
            requirement.matches(fields.get(requirement.key.as_str()).copied())
        };
        if !holds {
            return Err(Mismatch::Field(requirement.key.clone()));
        }
    }
    Ok(())
}

/// The fields of a cluster an expression can name, other than zones. What is unknown is absent, not empty.
pub fn fields_of(cluster: &Cluster) -> BTreeMap<&'static str, &str> {
    [
        ("provider", cluster.provider.as_str()),
        ("region", cluster.region.as_str()),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .collect()
}

/// Judges one expression on `zone` against the list of zones: In means that they have one in common, NotIn that they have
/// none (true for a cluster without zones).
pub fn zones_match(zones: &[String], requirement: &Requirement) -> bool {
    let common = || requirement.values.iter().any(|value| zones.contains(value));
    match requirement.operator.as_str() {
        "In" => common(),
        "NotIn" => !common(),
        "Exists" => !zones.is_empty(),
        "DoesNotExist" => zones.is_empty(),
        _ => false,
    }
}
