//! Does a cluster satisfy a cluster affinity? The same rule serves placements, static weights and override rules.

use std::collections::HashSet;
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

/// Names beyond which a set is made of them.
const FEW_NAMES: usize = 8;

/// An affinity made ready for many clusters: it is checked once whether it is valid, and long lists of names become sets.
#[derive(Clone, Debug)]
pub struct Matcher<'a> {
    affinity: &'a ClusterAffinity,
    labels_are_valid: bool,
    named: Option<HashSet<&'a str>>,
}

impl<'a> Matcher<'a> {
    /// Prepares an affinity.
    pub fn new(affinity: &'a ClusterAffinity) -> Self {
        let many = affinity.cluster_names.len() > FEW_NAMES;
        Self {
            affinity,
            labels_are_valid: affinity
                .label_selector
                .as_ref()
                .is_none_or(|labels| labels.check().is_ok()),
            named: many.then(|| affinity.cluster_names.iter().map(String::as_str).collect()),
        }
    }

    /// Checks the parts in the reference's order: exclude, labels, fields, names.
    ///
    /// # Errors
    /// The first part that does not hold. An invalid selector holds for no cluster.
    pub fn check(&self, cluster: &Cluster) -> Result<(), Mismatch> {
        let affinity = self.affinity;
        if affinity.exclude.contains(&cluster.name) {
            return Err(Mismatch::Excluded);
        }
        if let Some(labels) = &affinity.label_selector
            && !(self.labels_are_valid && labels.holds(&cluster.labels))
        {
            return Err(Mismatch::Labels);
        }
        if let Some(fields) = &affinity.field_selector {
            check_fields(cluster, fields)?;
        }
        let is_named = match &self.named {
            Some(names) => names.contains(cluster.name.as_str()),
            None => affinity.cluster_names.is_empty() || affinity.cluster_names.contains(&cluster.name),
        };
        if is_named { Ok(()) } else { Err(Mismatch::NotNamed) }
    }

    /// [`Matcher::check`] as a yes or no.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        self.check(cluster).is_ok()
    }
}

/// [`Matcher::check`] for a single cluster, as a yes or no.
pub fn matches(cluster: &Cluster, affinity: &ClusterAffinity) -> bool {
    Matcher::new(affinity).matches(cluster)
}

fn check_fields(cluster: &Cluster, selector: &FieldSelector) -> Result<(), Mismatch> {
    for requirement in &selector.match_expressions {
        let holds = if requirement.key == "zone" {
            zones_match(&cluster.zones, requirement)
        } else {
            requirement.matches(field_of(cluster, &requirement.key))
        };
        if !holds {
            return Err(Mismatch::Field(requirement.key.clone()));
        }
    }
    Ok(())
}

/// The value of a field of a cluster that an expression can name, other than zones. What is unknown is absent, not empty.
pub fn field_of<'c>(cluster: &'c Cluster, key: &str) -> Option<&'c str> {
    let value = match key {
        "provider" => &cluster.provider,
        "region" => &cluster.region,
        _ => return None,
    };
    (!value.is_empty()).then_some(value.as_str())
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
