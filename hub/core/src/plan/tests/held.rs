//! Field reports about Jobs that stay, and about what is held back. Each says which change of the code turns it red.

use super::*;

fn withdrawn(plan: &TemplatePlan) -> Vec<&str> {
    plan.withdraw.iter().map(|gone| gone.cluster.as_str()).collect()
}

fn suspending(placement: Value, suspension: Value) -> Value {
    let mut policy = policy("p", placement);
    policy["spec"]["suspension"] = suspension;
    policy
}

/// Turns red when the Job that stays is withdrawn with the other, or is ordered to be made anew: its `completions` cannot
/// be changed in the member, which says so (`ImmutableField`, tested with the agent).
#[test]
fn field_report_9_the_job_that_stays_is_neither_withdrawn_nor_made_anew() {
    let of_jobs = |placement| {
        let mut jobs = policy("p", placement);
        jobs["spec"]["resourceSelectors"][0]["apiVersion"] = json!("batch/v1");
        jobs["spec"]["resourceSelectors"][0]["kind"] = json!("Job");
        jobs
    };
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch", "namespace": "shop", "uid": "u"},
        "spec": {"parallelism": 4, "completions": 24, "template": {"spec": {"containers": []}}},
    });
    let both = weighted(&[("c1", 1), ("c2", 1)]);
    let mut hub = Hub::with(&["c1", "c2"], vec![of_jobs(both.clone())]);
    let before = hub.plan(&job);
    assert_eq!(manifest(&before.works[1])["spec"]["completions"], 12);
    let mut one = both;
    one["clusterAffinity"] = json!({"clusterNames": ["c2"]});
    hub.policies = vec![of_jobs(one)];
    let plan = hub.plan(&job);
    assert_eq!(withdrawn(&plan), ["c1"]);
    let stays = &plan.works[0].entry;
    assert_eq!(
        (stays.template_uid.as_str(), stays.key.clone()),
        ("u", before.works[1].entry.key.clone()),
        "the same object: an agent replaces a Job only for another uid"
    );
    let asks = manifest(&plan.works[0]);
    assert!(asks["metadata"]["annotations"][shared::owned::RECREATE].is_null());
    assert_eq!(
        (
            &asks["spec"]["completions"],
            &hub.binding.unwrap()["spec"]["clusters"]
        ),
        (&json!(24), &json!([{"name": "c2", "replicas": 4}])),
        "what the member refuses is asked for, so that it is told"
    );
}

/// Turns red when `place` withdraws from clusters that dispatching is held back from.
#[test]
fn field_report_150_a_pause_covers_deletes() {
    let paused = json!({"dispatchingOnClusters": {"clusterNames": ["a"]}});
    let mut hub = Hub::with(&["a", "b"], vec![policy("p", weighted(&[("a", 1), ("b", 3)]))]);
    hub.plan(&deployment("web", 4));
    hub.policies = vec![suspending(weighted(&[("b", 3)]), paused)];
    let plan = hub.plan(&deployment("web", 2));
    assert_eq!(
        (clusters_of(&plan), withdrawn(&plan)),
        (vec!["b".to_owned()], vec![])
    );
    assert!(hub.held.contains(&ClusterName::new("a").unwrap()));
    hub.policies = vec![policy("p", weighted(&[("b", 3)]))];
    assert_eq!(withdrawn(&hub.plan(&deployment("web", 2))), ["a"], "once it ends");
}

/// Turns red when a change of a cluster goes round the suspension of scheduling.
#[test]
fn field_report_152_scheduling_stays_suspended_whatever_the_clusters_do() {
    let mut hub = Hub::with(&["a"], vec![policy("p", named(&["b"]))]);
    hub.plan(&deployment("web", 2));
    hub.binding.as_mut().unwrap()["spec"]["suspension"] = json!({"scheduling": true});
    hub.clusters.push(cluster("b"));
    hub.clusters[0]["metadata"]["labels"]["tier"] = json!("edge");
    let plan = hub.plan(&deployment("web", 3));
    assert_eq!((plan.works.len(), plan.scheduled), (0, None));
    let binding = hub.binding.as_mut().unwrap();
    assert!(binding["spec"]["clusters"].as_array().is_none_or(Vec::is_empty));
    binding["spec"].as_object_mut().unwrap().remove("suspension");
    assert_eq!(clusters_of(&hub.plan(&deployment("web", 3))), ["b"], "resumed");
}

/// Turns red when `merge_suspension` keeps what the policy no longer says.
#[test]
fn field_report_153_a_suspension_that_is_taken_out_of_the_policy_is_over() {
    let all = json!({"dispatching": true});
    let mut hub = Hub::with(&["a"], vec![suspending(named(&["a"]), all)]);
    assert!(hub.plan(&deployment("web", 1)).works[0].entry.suspended);
    hub.policies = vec![policy("p", named(&["a"]))];
    let plan = hub.plan(&deployment("web", 2));
    assert!(!plan.works[0].entry.suspended);
    assert!(hub.binding.unwrap()["spec"]["suspension"].is_null());
}
