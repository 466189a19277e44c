//! Tests of the estimates.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn cluster(cpu: &str, used: &str, pods: &str) -> Cluster {
    Cluster::read(&json!({"metadata": {"name": "m"}, "status": {"resourceSummary": {
        "allocatable": {"cpu": cpu, "pods": pods}, "allocated": {"cpu": used}}}}))
}

#[test]
fn by_the_summary() {
    let half = resources(&json!({"cpu": "500m"}));
    assert_eq!(replicas(&cluster("4", "1", "100"), Some(&half), &[]), 6);
    assert_eq!(replicas(&cluster("4", "1", "5"), Some(&half), &[]), 5);
    assert_eq!(replicas(&cluster("4", "5", "5"), Some(&half), &[]), 0);
    assert_eq!(replicas(&cluster("4", "1", "5"), None, &[]), 5);
    let gpu = resources(&json!({"nvidia.com/gpu": "1"}));
    assert_eq!(replicas(&cluster("4", "1", "5"), Some(&gpu), &[]), 0);
    assert_eq!(replicas(&Cluster::default(), None, &[]), 0);
}

fn modelled() -> Cluster {
    Cluster::read(&json!({
        "metadata": {"name": "m"},
        "spec": {"resourceModels": [{"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "2"}]}]},
        "status": {"resourceSummary": {
            "allocatable": {"cpu": "9", "pods": "50", "nvidia.com/gpu": "4"}, "allocatableModelings": [{"grade": 1, "count": 3}]}},
    }))
}

#[test]
fn a_resource_the_models_do_not_name_is_looked_up_in_the_summary() {
    let mut cluster = modelled();
    let cpu = resources(&json!({"cpu": "500m"}));
    let gpu = resources(&json!({"cpu": "500m", "nvidia.com/gpu": "2"}));
    assert_eq!(
        (
            replicas(&cluster, Some(&cpu), &[]),
            replicas(&cluster, Some(&gpu), &[])
        ),
        (6, 2)
    );
    let worker = [Component {
        replicas: 2,
        requests: gpu,
        ..Component::default()
    }];
    assert_eq!(sets(&cluster, &worker, &[]), 1);
    cluster.grades.clear();
    assert_eq!(replicas(&cluster, Some(&cpu), &[]), 18);
}

#[test]
fn nodes_say_more_than_sums() {
    let mut cluster = cluster("8", "0", "100");
    let node = |name: &str, cpu: &str, zone: &str| nodes::Node {
        name: name.to_owned(),
        labels: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
        free: resources(&json!({"cpu": cpu})),
        free_pods: 10,
        ..nodes::Node::default()
    };
    cluster.nodes = Some(vec![
        node("a", "3", "x"),
        node("b", "3", "y"),
        node("c", "2", "y"),
    ]);
    let two = resources(&json!({"cpu": "2"}));
    assert_eq!(
        replicas(&cluster, Some(&two), &[]),
        3,
        "not 4: one core is stranded on a and on b"
    );
    let columns = Columns::of([&cluster]);
    let claim = NodeClaim {
        node_selector: BTreeMap::from([("zone".to_owned(), "y".to_owned())]),
        ..NodeClaim::default()
    };
    let demand = columns.demand(Some(&two), Some(&claim));
    assert_eq!(columns.room(&cluster).replicas(&demand), 2);
}

#[test]
fn a_gigabyte_is_the_same_in_both_notations() {
    let cluster = Cluster::read(&json!({"metadata": {"name": "m"}, "status": {"resourceSummary": {
        "allocatable": {"memory": "4Gi", "pods": "10"}}}}));
    let worker = |memory: &str| {
        [Component {
            replicas: 1,
            requests: resources(&json!({"memory": memory})),
            ..Component::default()
        }]
    };
    assert_eq!(sets(&cluster, &worker("1Gi"), &[]), 4);
    assert_eq!(sets(&cluster, &worker("1G"), &[]), 4);
    assert_eq!(sets(&cluster, &worker("1073741824"), &[]), 4);
}

/// Turns red when groups of nodes count as one node, when labels or taints of a group are lost, or when a report that names
/// only a part of the nodes is taken for the whole.
#[test]
fn nodes_that_look_alike_count_one_by_one() {
    use shared::wire::{NodeRoom, Room};
    let group = |count, cpu, labels: &[u32]| NodeRoom {
        count,
        free: vec![cpu, 4, 2],
        labels: labels.to_vec(),
        taints: vec![],
    };
    let mut room = Room {
        resources: ["cpu", "pods", "nvidia.com/gpu"].map(str::to_owned).to_vec(),
        labels: vec![("zone".to_owned(), "a".to_owned())],
        nodes: vec![group(3, 2_500, &[0]), group(1, 8_000, &[])],
        ..Room::default()
    };
    let nodes = nodes::of_room(&room).unwrap();
    let cpu = resources(&json!({"cpu": "1"}));
    // 2 on each of three, and four slots on the large one
    assert_eq!(nodes::replicas(&nodes, &cpu, None), 10);
    let in_a = interpreter::NodeClaim {
        node_selector: [("zone".to_owned(), "a".to_owned())].into(),
        ..interpreter::NodeClaim::default()
    };
    assert_eq!(nodes::replicas(&nodes, &cpu, Some(&in_a)), 6);
    assert_eq!(
        nodes::replicas(&nodes, &resources(&json!({"nvidia.com/gpu": "2"})), None),
        4
    );
    let worker = [Component {
        replicas: 2,
        requests: resources(&json!({"cpu": "2"})),
        ..Component::default()
    }];
    assert_eq!(
        nodes::sets(&nodes, &worker, 99, &[]),
        3,
        "one on each of three, four on the large one"
    );
    room.nodes[0].taints.push(shared::wire::Taint {
        key: "gpu".to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    });
    assert_eq!(nodes::replicas(&nodes::of_room(&room).unwrap(), &cpu, None), 4);
    room.more = 1;
    assert_eq!(nodes::of_room(&room), None);
}

proptest! {
    #[test]
    fn what_is_said_to_fit_does_fit(cpu in 0_i64..64_000, used in 0_i64..64_000, request in 1_i64..4_000, pods in 0_i64..200) {
        let cluster = cluster(&format!("{cpu}m"), &format!("{used}m"), &pods.to_string());
        let fit = replicas(&cluster, Some(&resources(&json!({"cpu": format!("{request}m")}))), &[]);
        prop_assert!(fit >= 0 && fit <= pods);
        prop_assert!(fit == 0 || used + fit * request <= cpu);
        prop_assert!(fit == pods || used + (fit + 1) * request > cpu);
    }

    /// Models answer the same for single replicas and for sets of one.
    #[test]
    fn the_closed_form_of_models_is_first_fit(counts in prop::collection::vec(0_i64..20, 3), request in 1_i64..5_000) {
        let grade = |grade: i64, min: &str| json!({"grade": grade, "ranges": [{"name": "cpu", "min": min, "max": "99"}]});
        let nodes: Vec<_> = counts.iter().zip(0..).map(|(count, grade)| json!({"grade": grade, "count": count})).collect();
        let cluster = Cluster::read(&json!({
            "metadata": {"name": "m"}, "spec": {"resourceModels": [grade(0, "0"), grade(1, "1"), grade(2, "4")]},
            "status": {"resourceSummary": {"allocatable": {"cpu": "999", "pods": "9999"}, "allocatableModelings": nodes}},
        }));
        let requests = resources(&json!({"cpu": format!("{request}m")}));
        let one = [Component { replicas: 1, requests: requests.clone(), ..Component::default() }];
        prop_assert_eq!(Some(replicas(&cluster, Some(&requests), &[])), sets_by_models(&cluster, &one, 9999, &[]));
    }
}
