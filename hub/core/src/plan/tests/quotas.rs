//! Federated quotas hold scheduling back.

use super::*;
use crate::estimate::resources;
use crate::quota;

fn web(replicas: i64) -> Value {
    let mut web = deployment("web", replicas);
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    web
}

fn hub(limit: &str, used: &str) -> Hub {
    let mut hub = Hub::with(&["m1", "m2"], vec![policy("p", named(&["m1", "m2"]))]);
    hub.quotas = vec![
        json!({"metadata": {"namespace": "shop", "name": "q"}, "spec": {"overall": {"requests.cpu": limit}}}),
    ];
    hub.used = Some(resources(&json!({"cpu": used})));
    hub
}

/// Turns red when a quota only shows what is used.
#[test]
fn field_report_168_the_overall_figure_is_enforced() {
    let mut hub = hub("4", "0");
    let plan = hub.plan(&web(2));
    assert_eq!(
        clusters_of(&plan),
        ["m1", "m2"],
        "two clusters times two fit into four"
    );
    hub.used = hub.binding.as_ref().map(quota::usage);
    let plan = hub.plan(&web(3));
    let scheduled = plan.scheduled.clone().unwrap();
    assert_eq!((scheduled.status, scheduled.reason), (false, "QuotaExceeded"));
    assert!(
        scheduled.message.contains("shop/q") && scheduled.message.contains("requests.cpu"),
        "{}",
        scheduled.message
    );
    assert_eq!(
        hub.binding.as_ref().unwrap()["spec"]["clusters"],
        json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]),
        "what was placed stays"
    );
    assert_eq!(plan.withdraw, []);
    let plan = hub.plan(&web(1));
    assert!(plan.scheduled.unwrap().status, "less always fits");
}

#[test]
fn what_others_use_counts() {
    let mut hub = hub("4", "3");
    let plan = hub.plan(&web(1));
    assert_eq!(plan.scheduled.unwrap().reason, "QuotaExceeded");
    assert_eq!(
        (
            plan.works.len(),
            hub.binding.unwrap()["spec"]["clusters"].is_null()
        ),
        (0, true)
    );
}
