//! Estimates from single nodes: where a cluster reports them, they say more than sums do.

use std::collections::BTreeMap;

use interpreter::NodeClaim;
use serde::Deserialize;
use serde_json::Value;
use shared::grading::amount;
use shared::object::Quantity;
use shared::wire::{NodeRoom, Room};

use super::first_fit::{self, Scale};
use super::{Component, Resources};
use crate::cluster::Taint;
use crate::policy::{Requirement, Toleration};

/// Taint that a node which takes no pods stands for.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Pods of a node whose slots are not told.
const PODS_MAX: i64 = 1_000_000;

/// A node as a cluster reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// It takes no new pods.
    pub unschedulable: bool,
    /// What is free: allocatable less what pods request.
    pub free: Resources,
    /// Free pod slots.
    pub free_pods: i64,
    /// How many other nodes look the same; they count like this one.
    pub others: u32,
}

/// The nodes that an agent told of, by groups that look the same. `None`: it named only a part of them, so that sums say
/// more.
pub fn of_room(room: &Room) -> Option<Vec<Node>> {
    if room.more > 0 {
        return None;
    }
    let group = |group: &NodeRoom| -> Option<Node> {
        let mut node = Node {
            others: group.count.checked_sub(1)?,
            free_pods: PODS_MAX,
            ..Node::default()
        };
        for (name, free) in room.resources.iter().zip(&group.free) {
            let free = i64::try_from(*free).unwrap_or(i64::MAX);
            match name.as_str() {
                "pods" => node.free_pods = free,
                "cpu" => {
                    node.free.insert(name.clone(), Quantity::from_millis(free));
                }
                _ => {
                    node.free.insert(name.clone(), Quantity::from_units(free));
                }
            }
        }
        let labels = group.labels.iter();
        node.labels = labels
            .filter_map(|at| room.labels.get(usize::try_from(*at).ok()?).cloned())
            .collect();
        let taint = |taint: &shared::wire::Taint| Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.clone(),
            added: None,
        };
        node.taints = group.taints.iter().map(taint).collect();
        Some(node)
    };
    Some(room.nodes.iter().filter_map(group).collect())
}

/// A node affinity as a pod template has it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    node_selector_terms: Vec<Term>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    match_expressions: Vec<Requirement>,
    match_fields: Vec<Requirement>,
}

/// May a pod with this claim run on the node? Selector and required affinity must hold, taints that keep pods away must
/// be tolerated. What is preferred does not matter.
pub fn matches(node: &Node, claim: Option<&NodeClaim>) -> bool {
    let none = NodeClaim::default();
    let claim = claim.unwrap_or(&none);
    let selected = claim
        .node_selector
        .iter()
        .all(|(key, value)| node.labels.get(key) == Some(value));
    selected && affine(node, claim.hard_node_affinity.as_ref()) && tolerated(node, &claim.tolerations)
}

/// Terms are alternatives; an empty one, and an affinity that cannot be read, match nothing.
fn affine(node: &Node, affinity: Option<&Value>) -> bool {
    let Some(affinity) = affinity.filter(|affinity| !affinity.is_null()) else {
        return true;
    };
    let Ok(affinity) = NodeAffinity::deserialize(affinity) else {
        return false;
    };
    let holds = |term: &Term| {
        let by_labels = term
            .match_expressions
            .iter()
            .all(|one| one.matches(node.labels.get(&one.key).map(String::as_str)));
        let by_fields = term
            .match_fields
            .iter()
            .all(|one| one.key == "metadata.name" && one.matches(Some(&node.name)));
        !(term.match_expressions.is_empty() && term.match_fields.is_empty()) && by_labels && by_fields
    };
    affinity.node_selector_terms.iter().any(holds)
}

fn tolerated(node: &Node, tolerations: &[Value]) -> bool {
    let tolerations: Vec<Toleration> = tolerations
        .iter()
        .filter_map(|toleration| Toleration::deserialize(toleration).ok())
        .collect();
    let covered = |taint: &Taint| tolerations.iter().any(|toleration| toleration.tolerates(taint));
    let cordon = Taint {
        key: UNSCHEDULABLE.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    node.taints
        .iter()
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
        .all(covered)
        && (!node.unschedulable || covered(&cordon))
}

/// Does the scheduler of a node count this resource? Names without a domain, other than the well-known ones, it does not.
fn is_counted(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage" | "pods")
        || resource.contains('/')
        || resource.starts_with("hugepages-")
        || resource.starts_with("attachable-volumes-")
}

fn counted(requests: &Resources) -> Resources {
    requests
        .iter()
        .filter(|(name, _)| is_counted(name))
        .map(|(name, quantity)| (name.clone(), *quantity))
        .collect()
}

/// Replicas that fit, node by node.
pub fn replicas(nodes: &[Node], requests: &Resources, claim: Option<&NodeClaim>) -> i64 {
    let needs: Vec<(&String, i64)> = requests
        .iter()
        .filter(|(name, _)| is_counted(name))
        .map(|(name, quantity)| (name, amount(name, *quantity)))
        .filter(|(_, need)| *need > 0)
        .collect();
    let on_one = |node: &Node| {
        let free = |name: &String| {
            node.free
                .get(name)
                .map_or(0, |quantity| amount(name, *quantity).max(0))
        };
        needs
            .iter()
            .map(|(name, need)| free(name) / need)
            .min()
            .unwrap_or(i64::MAX)
            .min(node.free_pods.max(0))
    };
    nodes
        .iter()
        .filter(|node| matches(node, claim))
        .map(|node| on_one(node).saturating_mul(i64::from(node.others) + 1))
        .fold(0_i64, i64::saturating_add)
}

/// Complete sets that fit, at most `most`: first fit over the nodes in the order given.
pub fn sets(nodes: &[Node], components: &[Component], most: i64) -> i64 {
    let nodes: Vec<&Node> = nodes
        .iter()
        .flat_map(|node| std::iter::repeat_n(node, node.others as usize + 1))
        .take(first_fit::NODES_MAX)
        .collect();
    let requests: Vec<Resources> = components.iter().map(|one| counted(&one.requests)).collect();
    let scale = Scale::of(&requests);
    let mut bins: Vec<_> = nodes
        .iter()
        .map(|node| scale.bin(&node.free, node.free_pods))
        .collect();
    let items: Vec<_> = components
        .iter()
        .zip(&requests)
        .map(|(one, requests)| {
            let allowed = nodes
                .iter()
                .map(|node| matches(node, one.claim.as_ref()))
                .collect();
            scale.item(one.replicas, requests, Some(allowed))
        })
        .collect();
    first_fit::pack(&mut bins, &items, most)
}

/// Is a pod stuck because no node takes it? `pending_s`: how long its condition PodScheduled has been false for that reason;
/// a negative patience counts as none.
pub fn is_stuck(scheduled: &str, reason: &str, pending_s: Option<i64>, patience_s: i64) -> bool {
    scheduled == "False"
        && reason == "Unschedulable"
        && pending_s.is_some_and(|pending| pending > patience_s.max(0))
}
