//! What holds for every result of scheduling.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn fleet_of(rooms: &[(i64, bool, u8)]) -> Vec<Cluster> {
    let cluster = |(at, (cpu, tainted, region)): (usize, &(i64, bool, u8))| {
        let taints = if *tainted {
            json!([{"key": "k", "effect": "NoSchedule"}])
        } else {
            json!([])
        };
        Cluster::read(&json!({
            "metadata": {"name": format!("m{at:02}")}, "spec": {"taints": taints, "region": format!("r{region}")},
            "status": {"resourceSummary": {"allocatable": {"cpu": cpu.to_string(), "pods": "200"}}},
        }))
    };
    rooms.iter().enumerate().map(cluster).collect()
}

fn placement(how: u8, spread: u8) -> Placement {
    let scheduling = match how {
        0 => json!({"replicaSchedulingType": "Duplicated"}),
        1 => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}),
        2 => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"dynamicWeight": "AvailableReplicas"}}),
        _ => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}),
    };
    let by = |field: &str, max: i64| json!({"spreadByField": field, "minGroups": 1, "maxGroups": max});
    let constraints: Value = match spread {
        0 => json!([]),
        1 => json!([by("cluster", 2)]),
        2 => json!([by("region", 2), by("cluster", 4)]),
        _ => json!([by("region", 1), by("provider", 9)]),
    };
    serde_json::from_value(json!({"replicaScheduling": scheduling, "spreadConstraints": constraints}))
        .unwrap()
}

fn ask<'a>(
    placement: &'a Placement,
    replicas: i64,
    requests: &'a Resources,
    previous: &'a [Share],
) -> Request<'a> {
    Request {
        api_version: "apps/v1",
        kind: "Deployment",
        namespace: "n",
        uid: "u",
        replicas,
        workload: true,
        requests: Some(requests),
        claim: None,
        priority_class: "",
        components: &[],
        placement,
        previous,
        observed_group: None,
        fresh: false,
        evicted: &[],
        unavailable: &[],
        peers: None,
        empty_shares: EmptyShares::Drop,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replicas_sum_up_on_clusters_that_pass_and_order_does_not_matter(
        rooms in prop::collection::vec((0_i64..30, any::<bool>(), 0_u8..3), 1..9),
        (how, spread, replicas, turn) in (0_u8..4, 0_u8..4, 1_i64..60, 0_usize..9),
    ) {
        let clusters = fleet_of(&rooms);
        let mut turned = clusters.clone();
        turned.rotate_left(turn % rooms.len());
        let (fleet, other) = (Fleet::new(clusters), Fleet::new(turned));
        let (placement, requests) = (placement(how, spread), crate::estimate::resources(&json!({"cpu": "1"})));
        let request = ask(&placement, replicas, &requests, &[]);
        let placed = schedule(&fleet, &request, None);
        prop_assert_eq!(&placed, &schedule(&other, &request, None));
        let mut record = Record::default();
        prop_assert_eq!(&schedule(&fleet, &request, Some(&mut record)), &placed);
        prop_assert_eq!(&record.tries[0].outcome, &placed.clone().map(|placed| placed.targets));
        let Ok(placed) = placed else { return Ok(()) };
        let asked = Asked::new(&request);
        for share in &placed.targets {
            prop_assert!(filter::all(fleet.get(&share.cluster).unwrap(), &asked).is_ok());
        }
        let total: i64 = placed.targets.iter().map(|share| share.replicas).sum();
        let copies = if how == 0 { placed.targets.len() as i64 } else { 1 };
        prop_assert_eq!(total, replicas * copies);
    }

    #[test]
    fn growing_never_lowers_a_share_and_the_same_total_moves_nothing(
        rooms in prop::collection::vec((0_i64..30, Just(false), 0_u8..3), 1..7),
        (how, first, more) in (2_u8..4, 1_i64..40, 0_i64..40),
    ) {
        let fleet = Fleet::new(fleet_of(&rooms));
        let (placement, requests) = (placement(how, 0), crate::estimate::resources(&json!({"cpu": "1"})));
        let Ok(before) = schedule(&fleet, &ask(&placement, first, &requests, &[]), None) else { return Ok(()) };
        let same = schedule(&fleet, &ask(&placement, first, &requests, &before.targets), None).unwrap();
        prop_assert_eq!(&same.targets, &before.targets);
        let Ok(after) = schedule(&fleet, &ask(&placement, first + more, &requests, &before.targets), None) else { return Ok(()) };
        for share in &before.targets {
            let now = after.targets.iter().find(|one| one.cluster == share.cluster).map_or(0, |one| one.replicas);
            prop_assert!(now >= share.replicas);
        }
    }
}

proptest::proptest! {
    #[test]
    fn ranks_are_the_same_as_by_comparison(
        rows in proptest::collection::vec((0..3_usize, proptest::bool::ANY, proptest::prop_oneof![0..5_i64, proptest::num::i64::ANY]), 0..40),
        tiers in proptest::prop_oneof![proptest::strategy::Just(1_usize), proptest::strategy::Just(1_000_000)],
    ) {
        let cluster = Cluster::default();
        let candidates: Vec<Candidate<'_>> = rows
            .into_iter()
            .enumerate()
            .map(|(place, (tier, holds, available))| Candidate {
                cluster: &cluster,
                place,
                score: if holds { LOCALITY_SCORE } else { 0 },
                available,
                allocatable: available,
                overflow: tier * tiers,
            })
            .collect();
        let mut compared = candidates.clone();
        compared.sort_by(Candidate::by_rank);
        proptest::prop_assert_eq!(ranked(candidates), compared);
    }
}
