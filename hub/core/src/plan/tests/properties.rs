//! What holds for every plan.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn names_strategy() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set("[a-e]", 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replicas_sum_up_and_excluded_clusters_get_nothing(
        clusters in names_strategy(),
        excluded in names_strategy(),
        weights in prop::collection::btree_map("[a-e]", 1_i64..9, 0..5),
        replicas in 0_i64..60,
    ) {
        let weights: Vec<(&str, i64)> = weights.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
        let mut placement = weighted(&weights);
        placement["clusterAffinity"] = json!({"exclude": excluded});
        let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
        let mut hub = Hub::with(&names, vec![policy("p", placement)]);
        let plan = hub.plan(&deployment("web", replicas));
        prop_assert!(plan.targets.iter().all(|share| !excluded.contains(&share.cluster)));
        if clusters.is_subset(&excluded) {
            prop_assert!(plan.works.is_empty());
        } else {
            prop_assert_eq!(plan.targets.iter().map(|share| share.replicas).sum::<i64>(), replicas);
            let sent: i64 = plan.works.iter().map(|work| manifest(work)["spec"]["replicas"].as_i64().unwrap()).sum();
            prop_assert_eq!(sent, replicas);
        }
    }

    #[test]
    fn the_order_of_what_is_read_does_not_matter(seed in any::<u64>(), replicas in 0_i64..20) {
        let policies = vec![
            policy("a", weighted(&[("m1", 3), ("m2", 2), ("m3", 1)])), policy("b", named(&["m1"])), policy("c", named(&["m2"])),
        ];
        let rule = |name: &str, tag: &str| json!({"metadata": {"name": name, "namespace": "shop"},
            "spec": {"overrideRules": [{"overriders": {"imageOverrider": [{"component": "Tag", "operator": "add", "value": tag}]}}]}});
        let mut hub = Hub::with(&["m1", "m2", "m3"], policies);
        hub.overrides = vec![rule("o1", "-a"), rule("o2", "-b")];
        let expected = hub.plan(&deployment("web", replicas));
        let mut shuffled = Hub::with(&["m1", "m2", "m3"], hub.policies.clone());
        shuffled.overrides = hub.overrides.clone();
        let turn = |list: &mut Vec<Value>| {
            let by = (seed % list.len() as u64) as usize;
            list.rotate_left(by);
            if seed % 2 == 1 { list.reverse() }
        };
        turn(&mut shuffled.policies);
        turn(&mut shuffled.clusters);
        turn(&mut shuffled.overrides);
        prop_assert_eq!(shuffled.plan(&deployment("web", replicas)), expected);
    }

    #[test]
    fn scaling_up_never_lowers_a_share(weights in prop::collection::vec(1_i64..20, 1..6), steps in 1_i64..40) {
        let names: Vec<String> = (0..weights.len()).map(|index| format!("m{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let rules: Vec<(&str, i64)> = names.iter().copied().zip(weights.iter().copied()).collect();
        let mut hub = Hub::with(&names, vec![policy("p", weighted(&rules))]);
        let mut before = hub.plan(&deployment("web", 0)).targets;
        for replicas in 1..=steps {
            let now = hub.plan(&deployment("web", replicas)).targets;
            let share = |list: &[Share], name: &str| list.iter().find(|s| s.cluster == name).map_or(0, |s| s.replicas);
            for name in &names {
                prop_assert!(share(&now, name) >= share(&before, name));
            }
            before = now;
        }
    }

    #[test]
    fn an_unrelated_cluster_moves_nothing(replicas in 0_i64..20) {
        let mut hub = Hub::with(&["m1", "m2"], vec![policy("p", weighted(&[("m1", 2), ("m2", 1)]))]);
        let before = hub.plan(&deployment("web", replicas));
        hub.clusters.push(cluster("zz"));
        hub.policies.push(policy("q", named(&["zz"])));
        let after = hub.plan(&deployment("web", replicas));
        prop_assert_eq!((after.works, after.withdraw.len(), after.binding), (before.works, 0, BindingChange::Keep));
    }

    /// Rendering starts from the template each time, so overrides do not pile up; equal inputs give equal bytes.
    #[test]
    fn planning_again_gives_the_same_bytes(replicas in 0_i64..20, tag in "[a-z]{1,5}", weights in prop::collection::vec(0_i64..4, 3)) {
        let names = ["m1", "m2", "m3"];
        let rules: Vec<(&str, i64)> = names.iter().copied().zip(weights).collect();
        let mut hub = Hub::with(&names, vec![policy("p", weighted(&rules))]);
        hub.overrides = vec![json!({"metadata": {"name": "o", "namespace": "shop"}, "spec": {"overrideRules": [{"overriders": {
            "imageOverrider": [{"component": "Tag", "operator": "add", "value": format!("-{tag}")}],
            "argsOverrider": [{"containerName": "c", "operator": "add", "value": ["--more"]}],
            "plaintext": [{"path": "/metadata/labels/tag", "operator": "add", "value": tag}],
        }}]}})];
        let first = hub.plan(&deployment("web", replicas));
        for _ in 0..2 {
            let again = hub.plan(&deployment("web", replicas));
            prop_assert_eq!(&again.works, &first.works);
            prop_assert_eq!(again.binding, BindingChange::Keep);
            prop_assert!(again.withdraw.is_empty());
        }
    }

    /// A world that took in what clusters reported later is the world read anew: incremental and full plans are equal.
    #[test]
    fn a_report_taken_in_is_a_report_read(rooms in prop::collection::vec((0_u32..20, 0_u32..20), 3), replicas in 0_i64..30) {
        let with_room = |which: usize| -> Vec<Value> {
            rooms.iter().enumerate().map(|(at, room)| {
                let cpu = if which == 0 { room.0 } else { room.1 };
                let mut one = cluster(&format!("m{at}"));
                one["status"] = json!({"resourceSummary": {"allocatable": {"cpu": cpu.to_string(), "pods": "50"}}});
                one
            }).collect()
        };
        let dynamic = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
        let policies = [policy("p", dynamic)];
        let (before, after) = (with_room(0), with_room(1));
        let full = World::read(&policies, [], &after, Vec::new());
        let taken_in = World::read(&policies, [], &before, Vec::new())
            .with_clusters(after.iter().map(Cluster::read).collect());
        let template = Template::read(Arc::new(deployment("web", replicas))).unwrap();
        let plan = |world: &World| {
            let held = BTreeSet::new();
            let previous = Previous { binding: None, held: &held, around: Around::default(), copies: None };
            plan_template(world, &template, previous, &Native::default(), &mut NameIndex::default())
        };
        prop_assert_eq!(plan(&full), plan(&taken_in));
    }
}
