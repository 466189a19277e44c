//! Policies that no cluster of the fleet can satisfy, whatever object they select.

use std::collections::BTreeSet;

use shared::reason::Reason;

use super::World;
use crate::affinity::Matcher;
use crate::cluster::Cluster;
use crate::policy::{AnyPropagationPolicy, ClusterAffinity, Placement, SpreadConstraint};

impl World {
    /// Why a policy cannot place anything on the clusters there are, if so: no cluster satisfies its affinity, or there are
    /// too few for its spread constraints. Nothing is said while no cluster has joined.
    pub fn hopeless(&self, policy: &AnyPropagationPolicy) -> Option<(Reason, String)> {
        let clusters = self.clusters();
        if clusters.is_empty() {
            return None;
        }
        let placement = &policy.spec.placement;
        let groups: Vec<Vec<&Cluster>> = affinities(placement)
            .into_iter()
            .map(|group| within(clusters, &group))
            .collect();
        if groups.iter().all(Vec::is_empty) {
            let message = "no cluster that has joined satisfies its cluster affinity".to_owned();
            return Some((Reason::NoClusterFits, message));
        }
        let mut short = None;
        for group in groups.iter().filter(|group| !group.is_empty()) {
            short = Some(
                placement
                    .spread_constraints
                    .iter()
                    .find_map(|one| too_few(one, group))?,
            );
        }
        short.map(|message| (Reason::SpreadNotMet, message))
    }
}

/// The affinities that may be used: the only one (`None`: any cluster), or those of each group with its further tiers.
fn affinities(placement: &Placement) -> Vec<Vec<Option<&ClusterAffinity>>> {
    if let Some(only) = &placement.cluster_affinity {
        return vec![vec![Some(only)]];
    }
    match placement.cluster_affinities.as_deref() {
        None | Some([]) => vec![vec![None]],
        Some(groups) => groups
            .iter()
            .map(|group| {
                let tiers = group.overflow_affinities.iter().flatten();
                let tiers = tiers.map(|tier| Some(&tier.affinity));
                std::iter::once(Some(&group.affinity)).chain(tiers).collect()
            })
            .collect(),
    }
}

fn within<'c>(clusters: &'c [Cluster], group: &[Option<&ClusterAffinity>]) -> Vec<&'c Cluster> {
    let matchers: Vec<Option<Matcher<'_>>> = group.iter().map(|one| one.map(Matcher::new)).collect();
    let fits = |cluster: &&Cluster| {
        let mut all = matchers.iter();
        all.any(|one| one.as_ref().is_none_or(|matcher| matcher.matches(cluster)))
    };
    clusters.iter().filter(fits).collect()
}

/// Does a constraint ask for more groups than these clusters have? In words.
fn too_few(constraint: &SpreadConstraint, clusters: &[&Cluster]) -> Option<String> {
    let field = constraint.spread_by_field.as_str();
    let groups: BTreeSet<&str> = match field {
        "cluster" => clusters.iter().map(|one| one.name.as_str()).collect(),
        "region" => clusters.iter().map(|one| one.region.as_str()).collect(),
        "provider" => clusters.iter().map(|one| one.provider.as_str()).collect(),
        "zone" => clusters
            .iter()
            .flat_map(|one| &one.zones)
            .map(String::as_str)
            .collect(),
        _ => return None,
    };
    let found = groups.iter().filter(|group| !group.is_empty()).count();
    let wanted = usize::try_from(constraint.min_groups).unwrap_or(0);
    (found < wanted).then(|| {
        format!("its spread constraint asks for {wanted} groups by {field}, and the clusters it may use have {found}")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judged(placement: Value, clusters: &[Value]) -> Option<Reason> {
        let policy =
            json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": {"placement": placement}});
        let world = World::read([&policy], [], clusters, Vec::new());
        world.hopeless(&world.policies()[0]).map(|(reason, _)| reason)
    }

    /// Turns red when a policy that can never place anything is taken for one that can, or the other way round.
    #[test]
    fn what_can_never_be_satisfied_is_known() {
        let cluster = |name: &str, region: &str| json!({"metadata": {"name": name, "labels": {"tier": "gold"}}, "spec": {"region": region}});
        let fleet = [cluster("a", "r1"), cluster("b", "r1")];
        let spread = |field: &str, min: i64| json!({"spreadConstraints": [{"spreadByField": field, "minGroups": min}]});
        for (placement, expected) in [
            (json!({}), None),
            (json!({"clusterAffinity": {"clusterNames": ["a", "x"]}}), None),
            (
                json!({"clusterAffinity": {"clusterNames": ["x"]}}),
                Some(Reason::NoClusterFits),
            ),
            (
                json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "tin"}}}}),
                Some(Reason::NoClusterFits),
            ),
            (
                json!({"clusterAffinities": [{"affinityName": "x", "clusterNames": ["x"]}, {"affinityName": "a", "clusterNames": ["a"]}]}),
                None,
            ),
            (spread("cluster", 2), None),
            (spread("cluster", 3), Some(Reason::SpreadNotMet)),
            (spread("region", 2), Some(Reason::SpreadNotMet)),
            (spread("region", 1), None),
            (spread("zone", 1), Some(Reason::SpreadNotMet)),
        ] {
            assert_eq!(judged(placement.clone(), &fleet), expected, "{placement}");
        }
        assert_eq!(
            judged(json!({"clusterAffinity": {"clusterNames": ["x"]}}), &[]),
            None
        );
    }
}
