//! What is written down about a plan is what was decided.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::divide::{self, By};
use crate::explain;
use crate::schedule::trigger::Trigger;
use crate::schedule::{LOCALITY_SCORE, Try};

fn roomy(name: &str, tier: &str, region: u8, cpu: u32) -> Value {
    let mut one = cluster(name);
    one["metadata"]["labels"]["tier"] = json!(tier);
    one["spec"]["region"] = json!(format!("r{region}"));
    one["status"] = json!({"resourceSummary": {"allocatable": {"cpu": cpu.to_string(), "pods": "50"}}});
    one
}

fn scheduling(how: u8) -> Value {
    match how {
        0 => json!({"replicaSchedulingType": "Duplicated"}),
        1 => {
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": {
            "staticWeightList": [{"targetCluster": {"clusterNames": ["m0", "m2"]}, "weight": 2},
                                 {"targetCluster": {"clusterNames": ["m1"]}, "weight": 3}]}})
        }
        2 => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"}}),
        _ => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}),
    }
}

fn placement(how: u8, spread: u8, groups: bool) -> Value {
    let by = |field: &str, max: i64| json!({"spreadByField": field, "minGroups": 1, "maxGroups": max});
    let mut placement = json!({"replicaScheduling": scheduling(how), "spreadConstraints": match spread {
        0 => json!([]),
        1 => json!([by("cluster", 2)]),
        _ => json!([by("region", 1), by("cluster", 3)]),
    }});
    if groups {
        placement["clusterAffinities"] = json!([
            {"affinityName": "gold", "labelSelector": {"matchLabels": {"tier": "gold"}}},
            {"affinityName": "all", "exclude": ["m0"]},
        ]);
    }
    placement
}

fn wants_a_core(replicas: i64) -> Value {
    let mut template = deployment("web", replicas);
    template["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    template
}

/// The shares that the weights written down give: words and decision by the same numbers.
fn by_numbers(one: &Try, former: &[Share]) -> Vec<Share> {
    let mut shares = Vec::new();
    for division in &one.divisions {
        match division.by {
            By::Duplicated => shares.extend(one.selected.iter().map(|cluster| Share {
                cluster: cluster.clone(),
                replicas: division.replicas,
            })),
            By::Unchanged => {
                let stays = former
                    .iter()
                    .filter(|share| one.selected.contains(&share.cluster));
                shares.extend(stays.cloned());
            }
            By::RoomForMore => {
                let mut all = divide::dispense(division.replicas, &division.weights, &[], "uid-web");
                for share in former
                    .iter()
                    .filter(|share| one.selected.contains(&share.cluster))
                {
                    match all.iter_mut().find(|known| known.cluster == share.cluster) {
                        Some(known) => known.replicas += share.replicas,
                        None => all.push(share.clone()),
                    }
                }
                shares.extend(all);
            }
            _ => shares.extend(divide::dispense(
                division.replicas,
                &division.weights,
                &[],
                "uid-web",
            )),
        }
    }
    shares.retain(|share| share.replicas > 0);
    shares.sort();
    shares
}

fn sorted(shares: &[Share]) -> Vec<Share> {
    let mut shares: Vec<Share> = shares
        .iter()
        .filter(|share| share.replicas > 0)
        .cloned()
        .collect();
    shares.sort();
    shares
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    /// Turns red when what is told is found by other code than what is decided: another filter, weight or share.
    #[test]
    fn what_is_told_is_what_is_planned(
        clusters in prop::collection::vec((any::<bool>(), 0_u8..3, 0_u32..20, any::<bool>()), 1..6),
        (how, spread, groups) in (0_u8..4, 0_u8..3, any::<bool>()),
        steps in prop::collection::vec(0_i64..30, 1..4),
    ) {
        let mut hub = Hub { policies: vec![policy("p", placement(how, spread, groups))], ..Hub::default() };
        hub.clusters = clusters.iter().enumerate().map(|(at, (gold, region, cpu, tainted))| {
            let mut one = roomy(&format!("m{at}"), if *gold { "gold" } else { "tin" }, *region, *cpu);
            if *tainted {
                one["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
            }
            one
        }).collect();
        for replicas in steps {
            let former = hub.binding.as_ref().map(|binding| binding::Former::read(binding).shares).unwrap_or_default();
            // `plan` compares the plan with and without a story
            let story = hub.explain(&wants_a_core(replicas)).1;
            let plan = hub.plan(&wants_a_core(replicas));
            let placing = story.placing.unwrap();
            let used = placing.record.tries.iter().find(|one| one.outcome.is_ok());
            prop_assert_eq!(used.is_some(), plan.scheduled.as_ref().unwrap().status);
            let verdicts = explain::verdicts(&placing, &plan.targets, |_| None);
            prop_assert_eq!(verdicts.len(), hub.clusters.len());
            for verdict in &verdicts {
                let share = plan.targets.iter().find(|share| share.cluster == verdict.cluster);
                prop_assert_eq!(verdict.share, share.map(|share| share.replicas));
                let holds = former.iter().any(|share| share.cluster == verdict.cluster);
                prop_assert_eq!(verdict.scores["ClusterLocality"], if holds { LOCALITY_SCORE } else { 0 });
                if share.is_some() && !holds {
                    prop_assert!(verdict.refusal.is_none(), "{:?}", verdict);
                }
                if verdict.refusal.is_some() && !holds && groups {
                    prop_assert!(verdict.unmet.is_some() || verdict.refusal.as_deref() == Some("excluded by name"));
                }
            }
            if let (Some(used), Occasion::Trigger(_)) = (used, &placing.why) {
                prop_assert_eq!(sorted(used.outcome.as_ref().unwrap()), sorted(&plan.targets));
                prop_assert_eq!(by_numbers(used, &former), sorted(&plan.targets));
            }
        }
    }
}

fn told(hub: &Hub, template: &Value) -> Vec<String> {
    let (plan, story) = hub.explain(template);
    explain::lines(&explain::verdicts(&story.placing.unwrap(), &plan.targets, |_| {
        Some(30)
    }))
}

/// Turns red when the key, operator, wanted or found value of a requirement is not named.
#[test]
fn the_requirement_that_failed_is_named() {
    let affinity = json!({"clusterAffinity": {
        "labelSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}]},
        "fieldSelector": {"matchExpressions": [{"key": "region", "operator": "NotIn", "values": ["r1"]}]},
    }});
    let mut hub = Hub {
        policies: vec![policy("p", affinity)],
        ..Hub::default()
    };
    hub.clusters = vec![
        roomy("a", "tin", 0, 9),
        roomy("b", "gold", 1, 9),
        roomy("c", "gold", 0, 9),
        cluster("d"),
    ];
    hub.clusters[2]["spec"]["taints"] = json!([{"key": "fire", "value": "big", "effect": "NoExecute"}]);
    let told = told(&hub, &deployment("web", 1));
    for (at, part) in [
        (
            0,
            "a: refused by ClusterAffinity: label tier in (gold, silver) is asked for; it has tier=tin (as of 30s ago)",
        ),
        (
            1,
            "b: refused by ClusterAffinity: field region not in (r1) is asked for; it has region=r1",
        ),
        (
            2,
            "c: refused by TaintToleration: taint fire=big:NoExecute is not tolerated",
        ),
        (
            3,
            "d: refused by ClusterAffinity: label tier in (gold, silver) is asked for; it has no tier",
        ),
    ] {
        assert!(told[at].starts_with(part), "{told:#?}");
    }
}

/// Turns red when a missing API or the names of the affinity are not told.
#[test]
fn the_missing_api_and_the_named_clusters_are_told() {
    let mut hub = Hub::with(&["a", "b"], vec![policy("p", named(&["a", "x"]))]);
    hub.clusters[0]["status"] =
        json!({"apiEnablements": [{"groupVersion": "v1", "resources": [{"kind": "Pod"}]}]});
    let told = told(&hub, &deployment("web", 1));
    assert!(
        told[0].starts_with("a: refused by APIEnablement: does not serve apps/v1 Deployment"),
        "{told:#?}"
    );
    assert!(
        told[1].contains("not among the named clusters (a, x)"),
        "{told:#?}"
    );
}

/// Turns red when what stays is not told apart from what was placed just now.
#[test]
fn what_stays_says_that_it_stays() {
    let mut hub = Hub::with(&["a", "b"], vec![policy("p", weighted(&[("a", 2), ("b", 1)]))]);
    let first = hub.explain(&deployment("web", 3)).1.placing.unwrap();
    assert_eq!(first.why, Occasion::Trigger(Trigger::PlacementChanged));
    hub.plan(&deployment("web", 3));
    hub.clusters[0]["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    hub.clusters.push(cluster("c"));
    let again = hub.explain(&deployment("web", 3)).1.placing.unwrap();
    assert_eq!(again.why, Occasion::Kept);
    assert!(explain::occasion(&again, Some(7_300)).starts_with("it stays where it was scheduled 2h ago"));
    let told = told(&hub, &deployment("web", 3));
    assert!(
        told.iter()
            .any(|line| line.starts_with("c: ") && line.ends_with("gets nothing")),
        "{told:#?}"
    );
    assert!(
        told[0].starts_with("a: passed the filters; score 100") && told[0].ends_with("gets 2 replicas"),
        "{told:#?}"
    );
}

/// Turns red when an object that no policy selects is not told the first thing that kept each away.
#[test]
fn each_policy_says_why_it_does_not_select() {
    let mut by_label = policy("label", json!({}));
    by_label["spec"]["resourceSelectors"][0]["labelSelector"] = json!({"matchLabels": {"app": "wob"}});
    let mut by_name = policy("name", json!({}));
    by_name["spec"]["resourceSelectors"][0]["name"] = json!("other");
    let mut of_jobs = policy("jobs", json!({}));
    of_jobs["spec"]["resourceSelectors"][0]["kind"] = json!("Job");
    let mut elsewhere = policy("elsewhere", json!({}));
    elsewhere["metadata"]["namespace"] = json!("cellar");
    let hub = Hub::with(&["a"], vec![by_label, by_name, of_jobs, elsewhere]);
    let (plan, story) = hub.explain(&deployment("web", 1));
    assert_eq!((plan.holder, story.placing), (None, None));
    let told: Vec<(&str, bool, &str)> = story
        .policies
        .iter()
        .map(|one| (one.policy.name.as_str(), one.selects_kind, one.why.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("jobs", false, "it selects apps/v1 Job"),
            ("label", true, "label app=wob is asked for; it has app=web"),
            ("name", true, "it selects the Deployment other"),
        ]
    );
}

/// Turns red when suspension, another scheduler or failover leave no word.
#[test]
fn what_decides_instead_is_told() {
    let mut foreign = policy("p", json!({}));
    foreign["spec"]["schedulerName"] = json!("mine");
    let mut hub = Hub::with(&["a"], vec![foreign]);
    let why = |hub: &Hub| hub.explain(&deployment("web", 1)).1.placing.unwrap().why;
    assert_eq!(why(&hub), Occasion::Foreign("mine".to_owned()));
    hub.policies = vec![policy("p", json!({}))];
    hub.plan(&deployment("web", 1));
    hub.binding.as_mut().unwrap()["spec"]["suspension"] = json!({"scheduling": true});
    assert_eq!(why(&hub), Occasion::Suspended);
    hub.binding.as_mut().unwrap()["spec"]["suspension"] = Value::Null;
    hub.binding.as_mut().unwrap()["spec"]["gracefulEvictionTasks"] =
        json!([{"fromCluster": "a", "reason": "TaintUntolerated", "producer": "TaintManager"}]);
    let told = told(&hub, &deployment("web", 1));
    assert!(
        told[0].contains("refused by ClusterEviction") && told[0].contains("TaintUntolerated"),
        "{told:#?}"
    );
}
