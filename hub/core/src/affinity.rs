//! Does a cluster satisfy a cluster affinity? The same rule serves placements, static weights and override rules.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use crate::cluster::Cluster;
use crate::policy::{ClusterAffinity, FieldSelector, Requirement};
use crate::schedule::Unmet;

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
    /// Do labels and fields hold, by [`Cluster::kin`]?
    known: RefCell<Vec<Option<bool>>>,
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
            known: RefCell::new(Vec::new()),
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
        self.check_what_kin_share(cluster)?;
        if self.names(cluster) {
            Ok(())
        } else {
            Err(Mismatch::NotNamed)
        }
    }

    fn check_what_kin_share(&self, cluster: &Cluster) -> Result<(), Mismatch> {
        let affinity = self.affinity;
        if let Some(labels) = &affinity.label_selector
            && !(self.labels_are_valid && labels.holds(&cluster.labels))
        {
            return Err(Mismatch::Labels);
        }
        match &affinity.field_selector {
            Some(fields) => check_fields(cluster, fields),
            None => Ok(()),
        }
    }

    fn names(&self, cluster: &Cluster) -> bool {
        let names = &self.affinity.cluster_names;
        match &self.named {
            Some(named) => named.contains(cluster.name.as_str()),
            None => names.is_empty() || names.contains(&cluster.name),
        }
    }

    /// The requirement on labels or fields because of which [`Matcher::check`] refuses the cluster; `None`: it does not, or
    /// not because of one.
    pub fn unmet(&self, cluster: &Cluster) -> Option<Unmet> {
        match self.check(cluster) {
            Err(Mismatch::Labels) => {
                let labels = self
                    .affinity
                    .label_selector
                    .as_ref()
                    .filter(|_| self.labels_are_valid)?;
                let part = labels.unheld(&cluster.labels)?;
                let found = cluster.labels.get(part.key()).map(String::as_str);
                Some(Unmet::label(&part, found))
            }
            Err(Mismatch::Field(_)) => {
                let part = unheld_field(cluster, self.affinity.field_selector.as_ref()?)?;
                let had = match part.key.as_str() {
                    "zone" => cluster.zones.clone(),
                    key => field_of(cluster, key).map(str::to_owned).into_iter().collect(),
                };
                Some(Unmet::expression("field", part, had))
            }
            _ => None,
        }
    }

    /// The clusters that it names.
    pub fn named(&self) -> &'a [String] {
        &self.affinity.cluster_names
    }

    /// [`Matcher::check`] as a yes or no. Of clusters that selectors cannot tell apart, one is looked at.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        let affinity = self.affinity;
        if !affinity.exclude.is_empty() && affinity.exclude.contains(&cluster.name) {
            return false;
        }
        if affinity.label_selector.is_none() && affinity.field_selector.is_none() {
            return self.names(cluster);
        }
        let at = cluster.kin as usize;
        if at == 0 {
            return self.check_what_kin_share(cluster).is_ok() && self.names(cluster);
        }
        let known = self.known.borrow().get(at).copied().flatten();
        let holds = known.unwrap_or_else(|| {
            let holds = self.check_what_kin_share(cluster).is_ok();
            let mut known = self.known.borrow_mut();
            if known.len() <= at {
                known.resize(at + 1, None);
            }
            known[at] = Some(holds);
            holds
        });
        holds && self.names(cluster)
    }
}

/// [`Matcher::check`] for a single cluster, as a yes or no.
pub fn matches(cluster: &Cluster, affinity: &ClusterAffinity) -> bool {
    Matcher::new(affinity).matches(cluster)
}

fn check_fields(cluster: &Cluster, selector: &FieldSelector) -> Result<(), Mismatch> {
    match unheld_field(cluster, selector) {
        Some(requirement) => Err(Mismatch::Field(requirement.key.clone())),
        None => Ok(()),
    }
}

/// The first requirement on fields that does not hold.
fn unheld_field<'s>(cluster: &Cluster, selector: &'s FieldSelector) -> Option<&'s Requirement> {
    selector.match_expressions.iter().find(|requirement| {
        if requirement.key == "zone" {
            !zones_match(&cluster.zones, requirement)
        } else {
            !requirement.matches(field_of(cluster, &requirement.key))
        }
    })
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
