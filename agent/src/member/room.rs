//! Where there is room: free amounts node by node, in a compact form. Nodes that look the same to a scheduler are told
//! as one group; free amounts are rounded down to steps, so that a pod that comes or goes rarely changes anything told.

use std::collections::{BTreeMap, BTreeSet};

use shared::limits::{ROOM_ADDONS_MAX, ROOM_GROUPS_MAX, ROOM_LABELS_MAX, ROOM_RESOURCES_MAX};

use shared::wire::{Addon, ApiEnablement, ModelCount, NodeRoom, Room, Taint};

use super::capacity::Amounts;
use crate::limits::ROOM_STEPS;

/// Labels that tell one node from the next and nothing about what fits on it.
const OWN_LABELS: [&str; 2] = ["kubernetes.io/hostname", "node.kubernetes.io/instance-id"];

/// The lower bounds of the default resource models, by grade: CPUs, GiB of memory.
const GRADES: [(i64, i64); 9] = [
    (0, 0),
    (1, 4),
    (2, 16),
    (4, 32),
    (8, 64),
    (16, 128),
    (32, 256),
    (64, 512),
    (128, 1_024),
];

/// Addons by an API group that they serve.
const ADDONS: [(&str, &str); 16] = [
    ("argoproj.io", "argo"),
    ("cert-manager.io", "cert-manager"),
    ("external-secrets.io", "external-secrets"),
    ("gateway.networking.k8s.io", "gateway-api"),
    ("helm.toolkit.fluxcd.io", "flux"),
    ("keda.sh", "keda"),
    ("kyverno.io", "kyverno"),
    ("longhorn.io", "longhorn"),
    ("metallb.io", "metallb"),
    ("metrics.k8s.io", "metrics-server"),
    ("monitoring.coreos.com", "prometheus-operator"),
    ("networking.istio.io", "istio"),
    ("nvidia.com", "gpu-operator"),
    ("projectcontour.io", "contour"),
    ("snapshot.storage.k8s.io", "snapshot-controller"),
    ("velero.io", "velero"),
];

/// A node that takes pods.
#[derive(Debug, Clone, Default)]
pub struct NodeState {
    /// What it offers.
    pub(super) offered: Amounts,
    /// What its pods ask for.
    pub(super) requested: Amounts,
    /// Its labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Its taints that keep pods away.
    pub(super) taints: Vec<Taint>,
}

impl NodeState {
    fn free(&self, name: &str) -> i128 {
        let amount = |of: &Amounts| i128::from(of.get(name).copied().unwrap_or_default().millis_ceil());
        (amount(&self.offered) - amount(&self.requested)).max(0)
    }

    /// Thousandths for `cpu`, whole units for all others, rounded down to a step of what is offered. Small counts
    /// (devices, CPUs by the thousandth below the step) stay exact.
    fn told(&self, name: &str) -> u64 {
        let unit = if name == "cpu" { 1 } else { 1_000 };
        let offered = i128::from(self.offered.get(name).copied().unwrap_or_default().millis_ceil()) / unit;
        let step = (offered / ROOM_STEPS).max(1);
        let free = self.free(name) / unit;
        u64::try_from(free / step * step).unwrap_or(0)
    }

    /// Whether a pod slot is free; a node that does not say how many it has takes one.
    fn takes_another_pod(&self) -> bool {
        !self.offered.contains_key("pods") || self.free("pods") > 0
    }

    /// Grade: the least, over CPU and memory, of the highest bound that the free amount reaches.
    fn grade(&self) -> usize {
        let reached = |name: &str, bound: &dyn Fn(&(i64, i64)) -> i128| {
            let free = self.free(name);
            GRADES.iter().rposition(|g| bound(g) <= free).unwrap_or(0)
        };
        let cpu = reached("cpu", &|g| i128::from(g.0) * 1_000);
        let memory = reached("memory", &|g| i128::from(g.1) * 1_000 * (1 << 30));
        cpu.min(memory)
    }
}

/// Nodes with a free pod slot by grade of the default resource models; grades without nodes are left out.
#[must_use]
pub fn models(nodes: &[NodeState]) -> Vec<ModelCount> {
    let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.takes_another_pod()) {
        *counts.entry(node.grade()).or_default() += 1;
    }
    counts
        .into_iter()
        .filter_map(|(grade, count)| {
            Some(ModelCount {
                grade: u32::try_from(grade).ok()?,
                count,
            })
        })
        .collect()
}

/// The compact form, with addons known by the kinds served.
#[must_use]
pub fn compact(nodes: &[NodeState], apis: &[ApiEnablement]) -> Room {
    let resources: BTreeSet<&str> = nodes
        .iter()
        .flat_map(|n| n.offered.keys().map(String::as_str))
        .collect();
    let resources: Vec<&str> = resources.into_iter().take(ROOM_RESOURCES_MAX).collect();
    let mut labels: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut table = Vec::new();
    let mut groups: BTreeMap<(Vec<u64>, Vec<u32>, Vec<Taint>), u32> = BTreeMap::new();
    for node in nodes {
        let free = resources.iter().map(|r| node.told(r)).collect();
        let mut of = Vec::new();
        for (key, value) in &node.labels {
            if OWN_LABELS.contains(&key.as_str()) {
                continue;
            }
            let known = labels.get(&(key.as_str(), value.as_str())).copied();
            let at = match known {
                Some(at) => at,
                None if table.len() >= ROOM_LABELS_MAX => continue,
                None => {
                    let at = u32::try_from(table.len()).unwrap_or(u32::MAX);
                    labels.insert((key, value), at);
                    table.push((key.clone(), value.clone()));
                    at
                }
            };
            of.push(at);
        }
        let mut taints = node.taints.clone();
        taints.sort();
        *groups.entry((free, of, taints)).or_default() += 1;
    }
    let cpu = resources.iter().position(|r| *r == "cpu");
    let mut all: Vec<NodeRoom> = groups
        .into_iter()
        .map(|((free, labels, taints), count)| NodeRoom {
            count,
            free,
            labels,
            taints,
        })
        .collect();
    // Stable: equal groups keep the order of the map, so equal members give equal bytes.
    all.sort_by_key(|n| std::cmp::Reverse(cpu.and_then(|c| n.free.get(c).copied()).unwrap_or(0)));
    let more = all.iter().skip(ROOM_GROUPS_MAX).map(|n| n.count).sum();
    all.truncate(ROOM_GROUPS_MAX);
    Room {
        resources: resources.into_iter().map(str::to_owned).collect(),
        labels: table,
        nodes: all,
        more,
        addons: addons(apis),
    }
}

fn addons(apis: &[ApiEnablement]) -> Vec<Addon> {
    let mut found: Vec<Addon> = Vec::new();
    for api in apis {
        let (group, version) = api.group_version.split_once('/').unwrap_or(("", ""));
        let Some((_, name)) = ADDONS.iter().find(|(known, _)| {
            group == *known || group.strip_suffix(known).is_some_and(|g| g.ends_with('.'))
        }) else {
            continue;
        };
        if found.iter().all(|a| a.name != *name) {
            found.push(Addon {
                name: (*name).to_owned(),
                version: version.to_owned(),
            });
        }
    }
    found.sort();
    found.truncate(ROOM_ADDONS_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::object::Quantity;

    fn amounts(pairs: &[(&str, &str)]) -> Amounts {
        pairs
            .iter()
            .map(|(n, t)| ((*n).to_owned(), t.parse::<Quantity>().expect("a quantity")))
            .collect()
    }

    fn node(name: &str, requested: &[(&str, &str)]) -> NodeState {
        NodeState {
            offered: amounts(&[
                ("cpu", "8"),
                ("memory", "16Gi"),
                ("nvidia.com/gpu", "2"),
                ("pods", "110"),
            ]),
            requested: amounts(requested),
            labels: [("kubernetes.io/hostname", name), ("zone", "a")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            taints: vec![],
        }
    }

    #[test]
    fn like_nodes_are_one_group_and_devices_stay_exact() {
        let nodes = [
            node("n1", &[("cpu", "1"), ("nvidia.com/gpu", "1"), ("pods", "3")]),
            node("n2", &[("cpu", "1020m"), ("nvidia.com/gpu", "1"), ("pods", "3")]),
            node("n3", &[]),
        ];
        let room = compact(&nodes, &[]);
        assert_eq!(room.resources, ["cpu", "memory", "nvidia.com/gpu", "pods"]);
        assert_eq!(room.labels, [("zone".to_owned(), "a".to_owned())]);
        let free: Vec<_> = room.nodes.iter().map(|n| (n.count, n.free.clone())).collect();
        // 7000m and 6980m are rounded to steps of 125m; 107 pods are exact.
        assert_eq!(
            free,
            [
                (1, vec![8_000, 16 << 30, 2, 110]),
                (1, vec![7_000, 16 << 30, 1, 107]),
                (1, vec![6_875, 16 << 30, 1, 107]),
            ]
        );
        let same = compact(&[node("n1", &[]), node("n2", &[])], &[]);
        assert_eq!((same.nodes.len(), same.nodes[0].count), (1, 2));
        assert!(shared::wire::encode_up(&shared::wire::Up::Room(same)).len() < 80);
    }

    #[test]
    fn an_overfull_node_has_nothing_free() {
        let room = compact(&[node("n1", &[("cpu", "9"), ("memory", "20Gi")])], &[]);
        assert_eq!(room.nodes[0].free[..2], [0, 0]);
    }

    #[test]
    fn a_grade_is_the_least_of_its_resources() {
        // 8 CPUs would be grade 4, 16 GiB are grade 2.
        let counts = models(&[node("n1", &[]), node("n2", &[("cpu", "7500m")])]);
        let counts: Vec<_> = counts.iter().map(|m| (m.grade, m.count)).collect();
        assert_eq!(counts, [(0, 1), (2, 1)]);
    }

    #[test]
    fn addons_are_known_by_their_groups() {
        let api = |v: &str| ApiEnablement {
            group_version: v.to_owned(),
            resources: vec![],
        };
        let room = compact(
            &[],
            &[
                api("v1"),
                api("cert-manager.io/v1"),
                api("acme.cert-manager.io/v1"),
                api("metrics.k8s.io/v1beta1"),
            ],
        );
        let names: Vec<&str> = room.addons.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["cert-manager", "metrics-server"]);
    }
}
