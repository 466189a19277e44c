use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::cluster::Cluster;
use crate::estimate::resources;
use crate::fleet::Fleet;
use crate::policy::Placement;
use crate::schedule::{EmptyShares, Request, schedule};

const NOW: Millis = Millis(1_000_000);

fn binding(cpu: &str, clusters: &[(&str, i64)]) -> Value {
    let total: i64 = clusters.iter().map(|(_, replicas)| replicas).sum();
    let clusters: Vec<Value> = clusters
        .iter()
        .map(|(name, replicas)| json!({"name": name, "replicas": replicas}))
        .collect();
    json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"replicas": total, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}, "clusters": clusters},
    })
}

fn times(promises: &Promises, cluster: &str) -> i64 {
    promises.of(cluster).iter().map(|promise| promise.times).sum()
}

#[test]
fn a_promise_ends_with_a_report_after_the_content_is_there() {
    let mut promises = Promises::default();
    let planned = binding("1", &[("a", 3), ("b", 2)]);
    let added = promises.decided("shop", "web", None, Some(&planned));
    assert_eq!(added.shares, [("a".to_owned(), 3), ("b".to_owned(), 2)]);
    promises.reported("a", NOW);
    assert_eq!(times(&promises, "a"), 3, "the report cannot contain it");
    promises.applied("shop", "web", ["a"], NOW);
    promises.reported("a", NOW.plus(1_000));
    assert_eq!(times(&promises, "a"), 3, "its pods may still have been made");
    promises.settle(NOW.plus(60_000));
    assert_eq!(times(&promises, "a"), 3);
    promises.settle(NOW.plus(95_000));
    assert_eq!(
        times(&promises, "a"),
        0,
        "the cluster would have corrected itself"
    );
    promises.applied("shop", "web", ["b"], NOW);
    promises.settle(NOW.plus(10_000_000));
    assert_eq!(times(&promises, "b"), 2, "nothing was reported since");
    promises.reported("b", NOW.plus(6_000));
    assert_eq!(times(&promises, "b"), 0);
    assert_eq!(
        promises.take_freed(),
        BTreeSet::from(["a".to_owned(), "b".to_owned()])
    );
}

#[test]
fn only_what_is_more_than_reported_is_promised_and_once() {
    let mut promises = Promises::default();
    let (stored, planned) = (binding("1", &[("a", 3)]), binding("1", &[("a", 5), ("b", 1)]));
    for _ in 0..2 {
        promises.decided("shop", "web", Some(&stored), Some(&planned));
        assert_eq!((times(&promises, "a"), times(&promises, "b")), (2, 1));
    }
    promises.undone("shop", "web", ["a", "b"], Some(&stored));
    assert_eq!((times(&promises, "a"), times(&promises, "b")), (0, 0));
    promises.decided("shop", "web", Some(&stored), Some(&planned));
    let smaller = binding("1", &[("a", 4)]);
    promises.decided("shop", "web", Some(&planned), Some(&smaller));
    assert_eq!((times(&promises, "a"), times(&promises, "b")), (1, 0));
    promises.decided("shop", "web", Some(&smaller), None);
    assert_eq!(promises.clusters().count(), 0);
}

#[test]
fn a_larger_request_promises_what_it_grew_by() {
    let mut promises = Promises::default();
    let (stored, planned) = (binding("1", &[("a", 4)]), binding("2", &[("a", 4)]));
    promises.decided("shop", "web", Some(&stored), Some(&planned));
    assert_eq!(
        times(&promises, "a"),
        2,
        "four cores more are two replicas of two"
    );
    let smaller = binding("500m", &[("a", 4)]);
    let mut promises = Promises::default();
    promises.decided("shop", "web", Some(&stored), Some(&smaller));
    assert_eq!(times(&promises, "a"), 0);
}

#[test]
fn after_a_start_what_no_report_confirms_is_promised() {
    let mut promises = Promises::default();
    let stored = binding("1", &[("a", 4), ("b", 2)]);
    promises.restored("shop", "web", &stored, ["b", "elsewhere"]);
    assert_eq!((times(&promises, "a"), times(&promises, "b")), (0, 2));
    promises.decided(
        "shop",
        "web",
        Some(&stored),
        Some(&binding("1", &[("a", 4), ("b", 3)])),
    );
    assert_eq!(times(&promises, "b"), 3);
}

/// A cluster with free CPUs, as sums, as modelled nodes or as nodes one by one.
fn cluster(number: usize, cpus: i64, how: u8) -> Cluster {
    let mut object = json!({
        "metadata": {"name": format!("m{number}")},
        "status": {"resourceSummary": {"allocatable": {"cpu": cpus.to_string(), "memory": "64Gi", "pods": "40"}}},
    });
    if how == 1 {
        object["status"]["resourceSummary"]["allocatableModelings"] =
            json!([{"grade": 1, "count": cpus / 4}]);
        object["spec"]["resourceModels"] = json!([{"grade": 1, "ranges": [{"name": "cpu", "min": "4", "max": "8"}, {"name": "memory", "min": "16Gi", "max": "32Gi"}]}]);
    }
    let mut cluster = Cluster::read(&object);
    if how == 2 {
        let node = crate::estimate::nodes::Node {
            free: resources(&json!({"cpu": "4", "memory": "16Gi"})),
            free_pods: 20,
            others: u32::try_from((cpus / 4 - 1).max(0)).unwrap(),
            ..Default::default()
        };
        cluster.nodes = Some(if cpus >= 4 { vec![node] } else { Vec::new() });
    }
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Turns red when estimates do not look at what is promised.
    #[test]
    fn what_is_placed_between_two_reports_never_exceeds_the_free_room(
        clusters in prop::collection::vec((0_i64..24, 0_u8..3), 1..5),
        wishes in prop::collection::vec((1_i64..12, 1_i64..30, any::<bool>()), 1..12),
    ) {
        let mut fleet = Fleet::new(clusters.iter().enumerate().map(|(n, (cpus, how))| cluster(n, *cpus, *how)).collect());
        let mut ledger = Promises::default();
        let (mut cpu, mut pods) = (vec![0_i64; clusters.len()], vec![0_i64; clusters.len()]);
        for (number, (replicas, tenths, aggregated)) in wishes.iter().enumerate() {
            let preference = if *aggregated {
                json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"})
            } else {
                json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                       "weightPreference": {"dynamicWeight": "AvailableReplicas"}})
            };
            let placement: Placement = serde_json::from_value(json!({"replicaScheduling": preference})).unwrap();
            let text = format!("{}m", tenths * 100);
            let requests = resources(&json!({"cpu": text}));
            let uid = format!("uid-{number}");
            let request = Request {
                api_version: "apps/v1", kind: "Deployment", namespace: "shop", uid: &uid, replicas: *replicas,
                workload: true, requests: Some(&requests), claim: None, priority_class: "", components: &[],
                placement: &placement, previous: &[], observed_group: None, fresh: false, evicted: &[],
                unavailable: &[], peers: None, empty_shares: EmptyShares::KeepAtZero,
            };
            let Ok(placed) = schedule(&fleet, &request, None) else { continue };
            let shares: Vec<(&str, i64)> =
                placed.targets.iter().map(|share| (share.cluster.as_str(), share.replicas)).collect();
            let added = ledger.decided("shop", &uid, None, Some(&binding(&text, &shares)));
            fleet.promise(&added.of, added.shares.iter().map(|(cluster, times)| (cluster.as_str(), *times)));
            for (cluster, replicas) in shares {
                let at: usize = cluster[1..].parse().unwrap();
                cpu[at] += replicas * tenths * 100;
                pods[at] += replicas;
            }
        }
        for (at, (cpus, how)) in clusters.iter().enumerate() {
            let whole = if *how == 0 { *cpus } else { cpus / 4 * 4 };
            prop_assert!(cpu[at] <= whole * 1_000, "m{at}: {} of {whole} CPUs", cpu[at]);
            prop_assert!(pods[at] <= 40);
        }
        // Counting anew from the ledger gives the same.
        let mut again = Fleet::new(fleet.clusters().to_vec());
        for cluster in ledger.clusters() {
            again.recount(cluster, ledger.of(cluster));
        }
        let demand = resources(&json!({"cpu": "100m"}));
        for place in 0..clusters.len() {
            let fits = |fleet: &Fleet| fleet.room(place).unwrap().by_sums(&fleet.demand(Some(&demand), None));
            prop_assert_eq!(fits(&fleet), fits(&again));
        }
    }
}
