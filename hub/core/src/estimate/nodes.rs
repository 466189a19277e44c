//! Estimates from single nodes: where a cluster reports them, they say more than sums do.

use std::collections::BTreeMap;

use interpreter::NodeClaim;
use serde::Deserialize;
use serde_json::Value;
use shared::grading::amount;
use shared::object::Quantity;
use shared::wire::{NodeRoom, Room};

use super::first_fit::{self, Scale};
use super::{Component, Promise, Resources};
use crate::cluster::Taint;
use crate::policy::{Requirement, Toleration};

/// Taint that a node which takes no pods stands for.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Pods of a node whose slots are not told.
const PODS_MAX: i64 = 1_000_000;

/// Groups of nodes that are told apart by what is promised to them.
const GROUPS_MAX: usize = 1_024;

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

/// What of a request the scheduler of a node counts, each above zero.
fn needs(requests: &Resources) -> Vec<(&String, i64)> {
    requests
        .iter()
        .filter(|(name, _)| is_counted(name))
        .map(|(name, quantity)| (name, amount(name, *quantity)))
        .filter(|(_, need)| *need > 0)
        .collect()
}

/// Replicas that fit onto one node.
fn on_one(node: &Node, needs: &[(&String, i64)]) -> i64 {
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
}

/// Replicas that fit, node by node.
pub fn replicas(nodes: &[Node], requests: &Resources, claim: Option<&NodeClaim>) -> i64 {
    let needs = needs(requests);
    nodes
        .iter()
        .filter(|node| matches(node, claim))
        .map(|node| on_one(node, &needs).saturating_mul(i64::from(node.others) + 1))
        .fold(0_i64, i64::saturating_add)
}

/// Takes room for replicas, node by node in the order given, as far as there is any: what looked the same is told apart by
/// what was taken of it.
pub fn take(nodes: &mut Vec<Node>, requests: &Resources, claim: Option<&NodeClaim>, replicas: i64) {
    let needs = needs(requests);
    let mut left = replicas;
    let mut after = Vec::with_capacity(nodes.len() + 2);
    for node in std::mem::take(nodes) {
        let fits = on_one(&node, &needs);
        if left <= 0 || fits <= 0 || !matches(&node, claim) {
            after.push(node);
            continue;
        }
        let count = i64::from(node.others) + 1;
        let full = (left / fits).min(count);
        let part = if full < count { left - full * fits } else { 0 };
        left -= full * fits + part;
        let less = |taken: i64, count: i64| {
            let mut node = node.clone();
            node.free_pods -= taken;
            for (name, need) in &needs {
                let gone = if *name == "cpu" {
                    Quantity::from_millis(need * taken)
                } else {
                    Quantity::from_units(need * taken)
                };
                if let Some(free) = node.free.get_mut(*name) {
                    *free = free.minus(gone);
                }
            }
            node.others = u32::try_from(count - 1).unwrap_or(0);
            node
        };
        let rest = count - full - i64::from(part > 0);
        let kinds = [(fits, full), (part, i64::from(part > 0)), (0, rest)];
        let kinds = kinds.into_iter().filter(|(_, count)| *count > 0);
        after.extend(kinds.map(|(taken, count)| less(taken, count)));
    }
    after.retain(|node| node.free_pods > 0);
    // What is left out counts as no room.
    after.truncate(GROUPS_MAX);
    *nodes = after;
}

/// Complete sets that fit, at most `most`, beside what is promised: first fit over the nodes in the order given.
pub fn sets(nodes: &[Node], components: &[Component], most: i64, promised: &[Promise]) -> i64 {
    let nodes: Vec<&Node> = nodes
        .iter()
        .flat_map(|node| std::iter::repeat_n(node, node.others as usize + 1))
        .take(first_fit::NODES_MAX)
        .collect();
    let counted = |components: &[Component]| -> Vec<Resources> {
        components.iter().map(|one| counted(&one.requests)).collect()
    };
    let requests = counted(components);
    let of_promised: Vec<_> = promised
        .iter()
        .map(|promise| counted(&promise.of.components))
        .collect();
    let scale = Scale::of(requests.iter().chain(of_promised.iter().flatten()));
    let mut bins: Vec<_> = nodes
        .iter()
        .map(|node| scale.bin(&node.free, node.free_pods))
        .collect();
    let items = |components: &[Component], requests: &[Resources]| -> Vec<_> {
        let pairs = components.iter().zip(requests);
        let item = |(one, requests): (&Component, &Resources)| {
            let allowed = nodes
                .iter()
                .map(|node| matches(node, one.claim.as_ref()))
                .collect();
            scale.item(one.replicas, requests, Some(allowed))
        };
        pairs.map(item).collect()
    };
    for (promise, requests) in promised.iter().zip(&of_promised) {
        // One that does not fit takes what it can.
        first_fit::pack(&mut bins, &items(&promise.of.components, requests), promise.times);
    }
    first_fit::pack(&mut bins, &items(components, &requests), most)
}

/// Is a pod stuck because no node takes it? `pending_s`: how long its condition PodScheduled has been false for that reason;
/// a negative patience counts as none.
pub fn is_stuck(scheduled: &str, reason: &str, pending_s: Option<i64>, patience_s: i64) -> bool {
    scheduled == "False"
        && reason == "Unschedulable"
        && pending_s.is_some_and(|pending| pending > patience_s.max(0))
}
