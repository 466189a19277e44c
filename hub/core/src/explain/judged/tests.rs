use super::*;
use crate::schedule::trigger::Trigger;
use crate::schedule::{Basis, Record, Refusal, ScheduleError};

fn assessed(cluster: &str, allocatable: i64) -> Assessment {
    Assessment {
        cluster: cluster.to_owned(),
        refusal: None,
        words: String::new(),
        unmet: None,
        score: 0,
        allocatable,
        basis: Basis::Sets,
        held: None,
        tier: 0,
    }
}

fn refused(cluster: &str) -> Assessment {
    Assessment {
        refusal: Some(Refusal::ApiNotServed),
        words: "does not serve apps/v1 Deployment".to_owned(),
        ..assessed(cluster, 0)
    }
}

fn division(by: By, replicas: i64, weights: &[(&str, i64)]) -> Division {
    Division {
        by,
        replicas,
        weights: weights
            .iter()
            .map(|(name, weight)| ((*name).to_owned(), *weight))
            .collect(),
        ..Division::new(0)
    }
}

fn placing(judged: Vec<Assessment>, divisions: Vec<Division>, shares: &[Share]) -> Placing {
    let passed = judged.iter().filter(|one| one.refusal.is_none());
    Placing {
        why: Occasion::Trigger(Trigger::PlacementChanged),
        record: Record {
            passed_over: Vec::new(),
            tries: vec![Try {
                group: None,
                selected: passed.map(|one| one.cluster.clone()).collect(),
                judged,
                divisions,
                outcome: Ok(shares.to_vec()),
            }],
        },
        unit: Unit::Replicas,
        replicas: 5,
        placement: crate::policy::Placement::default(),
        tasks: Vec::new(),
        last_scheduled: None,
    }
}

fn share(cluster: &str, replicas: i64) -> Share {
    Share {
        cluster: cluster.to_owned(),
        replicas,
    }
}

#[test]
fn every_cluster_has_its_reason_its_numbers_and_their_age() {
    let shares = [share("c", 3), share("b", 2)];
    let divided = division(By::StaticWeights, 5, &[("b", 1), ("c", 2)]);
    let placing = placing(
        vec![refused("a"), assessed("b", 7), assessed("c", 3), assessed("d", 9)],
        vec![divided],
        &shares,
    );
    let told = lines(&verdicts(&placing, &shares, |cluster| {
        (cluster == "c").then_some(180)
    }));
    assert_eq!(
        told,
        [
            "b: passed the filters; score 0; 7 more replicas fit: whole sets packed by what it reported free; weight 1 of 3: \
             5 × 1/3 = 1.66; gets 2 replicas",
            "c: passed the filters; score 0; 3 more replicas fit by whole sets packed by what it reported free, reported 3m \
             ago; weight 2 of 3: 5 × 2/3 = 3.33; gets 3 replicas",
            "d: passed the filters; score 0; 9 more replicas fit: whole sets packed by what it reported free; no weight of \
             the policy matches it; gets nothing",
            "a: refused by APIEnablement: does not serve apps/v1 Deployment (it never reported); gets nothing",
        ]
    );
}

#[test]
fn groups_say_which_is_used_and_why_others_are_not() {
    let mut placing = placing(vec![assessed("b", 7)], Vec::new(), &[share("b", 5)]);
    let names = ["first", "second", "third", "fourth"];
    placing.placement.cluster_affinities = serde_json::from_value(serde_json::json!(
        names
            .map(|name| serde_json::json!({"affinityName": name}))
            .to_vec()
    ))
    .unwrap();
    placing.record.passed_over = vec!["first".to_owned()];
    placing.record.tries[0].group = Some("third".to_owned());
    let failed = Try {
        group: Some("second".to_owned()),
        outcome: Err(ScheduleError::NoClusterSelected),
        ..placing.record.tries[0].clone()
    };
    placing.record.tries.insert(0, failed);
    let told = groups(&placing);
    let of: Vec<(Option<&str>, bool)> = told.iter().map(|one| (one.group.as_deref(), one.used)).collect();
    assert_eq!(
        of,
        [
            (Some("first"), false),
            (Some("second"), false),
            (Some("third"), true),
            (Some("fourth"), false)
        ]
    );
    assert!(told[0].message.contains("new start") && told[1].message.contains("no cluster was selected"));
    assert!(told[3].message.contains("not needed"));
}

#[test]
fn a_large_fleet_is_counted() {
    let many = (0..LINES_MAX + 40)
        .map(|at| refused(&format!("m{at:03}")))
        .collect();
    let told = lines(&verdicts(&placing(many, Vec::new(), &[]), &[], |_| None));
    assert_eq!(told.len(), LINES_MAX + 1);
    assert_eq!(told[LINES_MAX], "40 further clusters: refused by APIEnablement");
}
