//! What the member has: nodes, what they offer, what pods ask for, and which kinds it serves.
//!
//! Pods are listed in pages and reduced to their requests while they are decoded; what is kept is a sum per node, so
//! memory follows the number of nodes and not the size of the cluster.

use std::collections::BTreeMap;

use serde::Deserialize;
use shared::object::Quantity;
use shared::wire::{ApiEnablement, Capacity, Taint};

use super::api::Api;
use super::errors::ApiError;
use super::kinds;
use super::room::NodeState;
use crate::limits::PAGE;

/// Amounts by resource name.
pub(super) type Amounts = BTreeMap<String, Quantity>;

#[derive(Deserialize)]
struct Node {
    metadata: NodeMeta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Deserialize)]
struct NodeMeta {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct NodeSpec {
    #[serde(default)]
    unschedulable: bool,
    #[serde(default)]
    taints: Vec<NodeTaint>,
}

#[derive(Deserialize)]
struct NodeTaint {
    key: String,
    #[serde(default)]
    value: String,
    effect: String,
}

#[derive(Default, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    allocatable: BTreeMap<String, String>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    name: String,
    status: String,
}

#[derive(Deserialize)]
struct Pod {
    spec: PodSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    node_name: String,
    #[serde(default)]
    containers: Vec<Container>,
    #[serde(default)]
    init_containers: Vec<Container>,
    #[serde(default)]
    overhead: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    #[serde(default)]
    resources: Resources,
    #[serde(default)]
    restart_policy: String,
}

#[derive(Default, Deserialize)]
struct Resources {
    #[serde(default)]
    requests: BTreeMap<String, String>,
}

/// What one look at the member found.
#[derive(Debug, Default)]
pub struct Measured {
    /// The sums; `apis` is left empty.
    pub capacity: Capacity,
    /// Every ready node that takes pods.
    pub nodes: Vec<NodeState>,
}

/// Measures the member.
///
/// # Errors
/// When nodes or pods cannot be listed.
pub async fn measure(api: &Api, kubernetes_version: &str) -> Result<Measured, ApiError> {
    let mut capacity = Capacity {
        kubernetes_version: kubernetes_version.to_owned(),
        ..Capacity::default()
    };
    let mut allocatable = Amounts::new();
    let mut nodes: BTreeMap<String, NodeState> = BTreeMap::new();
    let mut next: Option<String> = None;
    loop {
        let page = api
            .page::<Node>("/api/v1/nodes", &format!("limit={PAGE}"), next.as_deref(), None)
            .await?;
        for node in page.items {
            capacity.nodes_total += 1;
            let ready = node
                .status
                .conditions
                .iter()
                .any(|c| c.name == "Ready" && c.status == "True");
            if ready {
                capacity.nodes_ready += 1;
            }
            if ready && !node.spec.unschedulable {
                add_all(&mut allocatable, &node.status.allocatable);
                let name = node.metadata.name.clone();
                nodes.insert(name, state_of(node));
            }
        }
        next = page.metadata.next.filter(|n| !n.is_empty());
        if next.is_none() {
            break;
        }
    }
    let (allocated, allocating) = requests(api, &mut nodes).await?;
    capacity.allocatable = texts(allocatable);
    capacity.allocated = texts(allocated);
    capacity.allocating = texts(allocating);
    let nodes: Vec<NodeState> = nodes.into_values().collect();
    capacity.models = super::room::models(&nodes);
    Ok(Measured { capacity, nodes })
}

fn state_of(node: Node) -> NodeState {
    let mut offered = Amounts::new();
    add_all(&mut offered, &node.status.allocatable);
    let taints = node.spec.taints.into_iter();
    NodeState {
        offered,
        requested: Amounts::new(),
        labels: node.metadata.labels,
        taints: taints
            .filter(|t| t.effect != "PreferNoSchedule")
            .map(|t| Taint {
                key: t.key,
                value: t.value,
                effect: t.effect,
            })
            .collect(),
    }
}

/// Requests of pods that have a node, and of those that wait for one; the former also node by node.
async fn requests(
    api: &Api,
    nodes: &mut BTreeMap<String, NodeState>,
) -> Result<(Amounts, Amounts), ApiError> {
    let (mut bound, mut waiting) = (Amounts::new(), Amounts::new());
    let query = format!("limit={PAGE}&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed");
    let mut next: Option<String> = None;
    loop {
        let page = api
            .page::<Pod>("/api/v1/pods", &query, next.as_deref(), None)
            .await?;
        for pod in page.items {
            let mut needs = pod_requests(&pod.spec);
            add(&mut needs, "pods", Quantity::from_units(1));
            let sum = if pod.spec.node_name.is_empty() {
                &mut waiting
            } else {
                &mut bound
            };
            let node = nodes.get_mut(&pod.spec.node_name);
            for (name, amount) in &needs {
                add(sum, name, *amount);
            }
            if let Some(node) = node {
                for (name, amount) in needs {
                    add(&mut node.requested, &name, amount);
                }
            }
        }
        next = page.metadata.next.filter(|n| !n.is_empty());
        if next.is_none() {
            return Ok((bound, waiting));
        }
    }
}

/// What one pod needs: containers and sidecars together, or the largest init container if that is more.
fn pod_requests(spec: &PodSpec) -> Amounts {
    let mut running = Amounts::new();
    spec.containers
        .iter()
        .for_each(|c| add_all(&mut running, &c.resources.requests));
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for init in &spec.init_containers {
        let mut now = sidecars.clone();
        add_all(&mut now, &init.resources.requests);
        if init.restart_policy == "Always" {
            sidecars.clone_from(&now);
        }
        for (name, amount) in now {
            let slot = peak.entry(name).or_default();
            *slot = (*slot).max(amount);
        }
    }
    for (name, amount) in sidecars {
        add(&mut running, &name, amount);
    }
    for (name, amount) in peak {
        let slot = running.entry(name).or_default();
        *slot = (*slot).max(amount);
    }
    add_all(&mut running, &spec.overhead);
    running
}

fn add(sum: &mut Amounts, name: &str, amount: Quantity) {
    let slot = sum.entry(name.to_owned()).or_default();
    *slot = slot.plus(amount);
}

fn add_all(sum: &mut Amounts, more: &BTreeMap<String, String>) {
    for (name, text) in more {
        if let Ok(amount) = text.parse() {
            add(sum, name, amount);
        }
    }
}

fn texts(amounts: Amounts) -> BTreeMap<String, String> {
    amounts
        .into_iter()
        .map(|(name, amount)| (name, amount.to_string()))
        .collect()
}

/// The kinds that the member serves, by group and version.
///
/// # Errors
/// When discovery fails in any part.
pub async fn enablements(api: &Api) -> Result<Vec<ApiEnablement>, ApiError> {
    let mut by_version: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for resource in kinds::served(api).await? {
        by_version
            .entry(resource.api_version)
            .or_default()
            .push((resource.kind, resource.plural));
    }
    Ok(by_version
        .into_iter()
        .map(|(group_version, resources)| ApiEnablement {
            group_version,
            resources,
        })
        .collect())
}

/// Whether a new measurement is worth telling: nodes or kinds changed, or an amount by more than a twentieth of
/// what is allocatable (or of itself, where nothing is allocatable).
#[must_use]
pub fn is_material(told: &Capacity, now: &Capacity) -> bool {
    let head = |c: &Capacity| {
        (
            c.kubernetes_version.clone(),
            c.nodes_total,
            c.nodes_ready,
            c.models.clone(),
        )
    };
    if head(told) != head(now) || told.allocatable != now.allocatable || told.apis != now.apis {
        return true;
    }
    [
        (&told.allocated, &now.allocated),
        (&told.allocating, &now.allocating),
    ]
    .into_iter()
    .any(|(a, b)| {
        a.keys().chain(b.keys()).any(|name| {
            let read = |m: &BTreeMap<String, String>| m.get(name).and_then(|t| t.parse::<Quantity>().ok());
            let (x, y) = (
                read(a).unwrap_or_default().millis_ceil(),
                read(b).unwrap_or_default().millis_ceil(),
            );
            let whole = read(&now.allocatable).map_or(x.max(y), Quantity::millis_ceil);
            x.abs_diff(y).saturating_mul(20) > whole.unsigned_abs()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn amounts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(n, t)| ((*n).to_owned(), (*t).to_owned()))
            .collect()
    }

    #[test]
    fn init_containers_count_only_where_they_need_more() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "ignored"}, "spec": {
            "containers": [{"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}, {}],
            "initContainers": [{"resources": {"requests": {"cpu": "1"}}},
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}]}}))
        .expect("a pod");
        assert_eq!(
            texts(pod_requests(&pod.spec)),
            amounts(&[("cpu", "1"), ("memory", "1073741824")])
        );
    }

    #[test]
    fn small_changes_are_not_told() {
        let base = Capacity {
            allocatable: amounts(&[("cpu", "10")]),
            allocated: amounts(&[("cpu", "5")]),
            ..Capacity::default()
        };
        let with = |cpu: &str| Capacity {
            allocated: amounts(&[("cpu", cpu)]),
            ..base.clone()
        };
        assert!(!is_material(&base, &with("5400m")));
        assert!(is_material(&base, &with("5600m")));
        assert!(is_material(
            &base,
            &Capacity {
                nodes_ready: 1,
                ..base.clone()
            }
        ));
    }
}
