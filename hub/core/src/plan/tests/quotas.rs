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

fn larger(replicas: i64, cpu: &str) -> Value {
    let mut web = web(replicas);
    web["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
    web
}

/// Turns red when only what is scheduled anew is charged, so that larger requests of what is placed pass by the quota.
#[test]
fn larger_requests_of_what_is_placed_are_held_back() {
    for placement in [named(&["m1", "m2"]), weighted(&[("m1", 1), ("m2", 1)])] {
        let mut hub = hub("4", "0");
        let total = if placement["replicaScheduling"].is_null() {
            2
        } else {
            4
        };
        hub.policies = vec![policy("p", placement)];
        assert_eq!(clusters_of(&hub.plan(&web(total))), ["m1", "m2"]);
        hub.used = hub.binding.as_ref().map(quota::usage);
        let placed = hub.binding.clone().unwrap();
        let plan = hub.plan(&larger(total, "1500m"));
        let scheduled = plan.scheduled.clone().unwrap();
        assert_eq!((scheduled.status, scheduled.reason), (false, "QuotaExceeded"));
        assert_eq!(
            (plan.works.len(), plan.withdraw.len(), &plan.binding),
            (0, 0, &BindingChange::Keep)
        );
        assert!(
            plan.notes
                .iter()
                .any(|note| note.reason == Reason::FederatedQuotaExceeded)
        );
        assert_eq!(
            hub.binding.as_ref().unwrap()["spec"],
            placed["spec"],
            "it is charged for what runs"
        );
        // fewer of the larger ones fit, and less than before always does
        let plan = hub.plan(&larger(total / 2, "1500m"));
        assert!(plan.scheduled.unwrap().status);
        assert_eq!(
            quota::usage(hub.binding.as_ref().unwrap()),
            resources(&json!({"cpu": "3"}))
        );
        assert_eq!(plan.works.len(), 2);
    }
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
