//! Two bindings that are decided between two reports of a cluster do not get the same room.

use std::sync::PoisonError;

use super::facts::{capacity, policy_of, template};
use super::*;

/// A policy by free room for each of these, and the Deployments with three replicas of one core.
async fn hub_with(names: &[&str], cpus: u8) -> Hub {
    let mut hub = Hub::with(&["a"]).await;
    say(&mut hub, cpus).await;
    for name in names {
        let mut policy = policy_of("by-room");
        policy["metadata"]["name"] = json!(name);
        policy["metadata"]["uid"] = json!(format!("uid-of-{name}"));
        policy["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"] =
            json!(format!("id-{name}"));
        policy["spec"]["resourceSelectors"][0]["name"] = json!(name);
        hub.put(&policies(), policy).await;
        hub.put(&deployments(), template(name, 1, 3)).await;
    }
    hub.plan().await;
    hub
}

async fn say(hub: &mut Hub, cpus: u8) {
    let told = move |facts: &mut crate::store::fleet::ClusterFacts| {
        facts.capacity = Some(capacity(cpus, true));
    };
    hub.store.update_facts(&name("a"), None, told).await.unwrap();
    hub.reconciler.clusters.mark([()]);
    hub.reconciler.liveness_turn(&mut hub.look).await.unwrap();
}

/// Plans what is marked, until nothing is.
async fn settle(hub: &mut Hub) {
    for _ in 0..20 {
        let marked = hub.reconciler.templates.take();
        if marked.is_empty() {
            return;
        }
        assert_eq!(hub.reconciler.plan_pass(&mut hub.planner, marked).await, []);
    }
    panic!("planning does not settle");
}

fn promised(hub: &Hub) -> i64 {
    let promises = hub
        .reconciler
        .promises
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    promises.of("a").iter().map(|promise| promise.times).sum()
}

/// Turns red when a plan does not see what the one before it was given, or when room that comes back tries nothing again.
#[tokio::test]
async fn two_decisions_between_two_reports_do_not_take_the_same_room() {
    let mut hub = hub_with(&["one", "two"], 4).await;
    assert_eq!(hub.places("one-deployment"), ["a"]);
    assert!(hub.places("two-deployment").is_empty(), "one core is left");
    hub.report("one-deployment", "a", None).await;
    hub.aggregate().await;
    say(&mut hub, 5).await;
    settle(&mut hub).await;
    assert!(
        hub.places("two-deployment").is_empty(),
        "pods of the first may not be in this report yet"
    );
    say(&mut hub, 6).await;
    settle(&mut hub).await;
    assert_eq!(hub.places("two-deployment"), ["a"]);
    assert_eq!(promised(&hub), 6);
    hub.put(&deployments(), template("third", 1, 3)).await;
    let mut policy = policy_of("by-room");
    policy["spec"]["resourceSelectors"][0]["name"] = json!("third");
    hub.put(&policies(), policy).await;
    hub.plan().await;
    assert!(hub.places("third-deployment").is_empty());
    hub.delete(&deployments(), "shop", "one").await;
    hub.plan_only(&deployments(), "shop", "one").await;
    settle(&mut hub).await;
    assert_eq!(
        hub.places("third-deployment"),
        ["a"],
        "what is withdrawn is promised no more"
    );
}

/// Turns red when a start forgets what no report confirms.
#[tokio::test]
async fn after_a_start_what_no_cluster_confirmed_is_still_promised() {
    let mut hub = hub_with(&["one"], 4).await;
    assert_eq!(promised(&hub), 3);
    *hub.reconciler
        .promises
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = Promises::default();
    hub.planner = Planner::default();
    hub.plan().await;
    assert_eq!(promised(&hub), 3);
}
