//! Estimates from a member's ResourceQuota objects: what a namespace may still use there.
//!
//! As the reference does it: only scopes by PriorityClass are understood (several are alternatives, other kinds never
//! match), `requests.` is taken off the keys, limits, storage and object counts are left out.

use std::collections::BTreeMap;

use shared::grading::amount;
use shared::object::Quantity;

use super::{Component, NO_LIMIT, Promise, Resources};

/// A ResourceQuota of a member, from its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Its namespace.
    pub namespace: String,
    /// What may be used.
    pub hard: Resources,
    /// What is used.
    pub used: Resources,
    /// Which pods it is for; none: all.
    pub scopes: Vec<Scope>,
}

/// One scope of a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// `PriorityClass` is the one that is understood.
    pub name: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values.
    pub values: Vec<String>,
}

impl Scope {
    fn matches(&self, class: &str) -> bool {
        if self.name != "PriorityClass" {
            return false;
        }
        let listed = self.values.iter().any(|value| value == class);
        match self.operator.as_str() {
            "In" => !class.is_empty() && listed,
            "NotIn" => !listed,
            "Exists" => !class.is_empty(),
            "DoesNotExist" => class.is_empty(),
            _ => false,
        }
    }
}

impl Quota {
    /// Is it for pods of this priority class?
    fn is_for(&self, class: &str) -> bool {
        self.scopes.is_empty() || self.scopes.iter().any(|scope| scope.matches(class))
    }

    /// What is left, by the name a request has for it.
    fn left(&self) -> BTreeMap<&str, Quantity> {
        self.hard
            .iter()
            .filter_map(|(key, hard)| {
                let name = request_name(key)?;
                Some((name, hard.minus(*self.used.get(key)?)))
            })
            .collect()
    }
}

/// The name in a request that a key of a quota bounds; `None`: it bounds no request.
fn request_name(key: &str) -> Option<&str> {
    let name = key.strip_prefix("requests.").unwrap_or(key);
    let is_request = !key.starts_with("limits.")
        && (matches!(name, "cpu" | "memory") || (name.contains('/') && !name.contains("count/")));
    let is_storage = name.contains("storage");
    (is_request && !is_storage).then_some(name)
}

/// Sum of what components of a class that the quota is for request in one set.
fn sum_for(quota: &Quota, components: &[Component]) -> BTreeMap<String, Quantity> {
    let mut sum: BTreeMap<String, Quantity> = BTreeMap::new();
    for one in components.iter().filter(|one| quota.is_for(&one.priority_class)) {
        for (name, quantity) in &one.requests {
            let total = sum.entry(name.clone()).or_default();
            *total = total.plus(quantity.times(one.replicas));
        }
    }
    sum
}

/// Sets of these components that the quotas of the namespace allow; [`NO_LIMIT`]: none of them applies. One replica of a
/// plain workload is a set of one. What is promised to the cluster already counts as used.
pub fn sets(quotas: &[Quota], namespace: &str, components: &[Component], promised: &[Promise]) -> i64 {
    let of_one = |quota: &Quota| {
        let need = sum_for(quota, components);
        let promised: Vec<_> = promised
            .iter()
            .filter(|promise| promise.of.namespace == namespace)
            .map(|promise| (sum_for(quota, &promise.of.components), promise.times))
            .collect();
        quota
            .left()
            .into_iter()
            .filter_map(|(name, left)| {
                let need = amount(name, *need.get(name)?);
                let left = promised
                    .iter()
                    .filter_map(|(sum, times)| Some(sum.get(name)?.times(*times)))
                    .fold(left, |left, taken| left.minus(taken));
                (need > 0).then(|| amount(name, left).max(0) / need)
            })
            .min()
            .unwrap_or(NO_LIMIT)
    };
    quotas
        .iter()
        .filter(|quota| quota.namespace == namespace)
        .map(of_one)
        .min()
        .unwrap_or(NO_LIMIT)
}
