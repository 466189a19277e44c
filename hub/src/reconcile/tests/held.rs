//! What would delete too much waits for a person. Red if `adopt` did not ask the breaker, or the binding went before its
//! withdrawals.

use super::*;

fn config(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("c{number:02}"), "namespace": "shop", "uid": format!("uid-{number}"), "generation": 1},
        "data": {"a": "1"}})
}

fn everything(clusters: &[&str]) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "all", "namespace": "shop", "uid": "uid-policy",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "id-all"}},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "placement": {"clusterAffinity": {"clusterNames": clusters}}}})
}

fn configs() -> ResourceId {
    ResourceId::new("", "configmaps")
}

async fn pass(hub: &mut Hub) {
    hub.reconciler.world_changed.store(true, Ordering::SeqCst);
    let all = Marked {
        all: true,
        keys: Default::default(),
    };
    // What is held is tried again, so it counts as failed.
    hub.reconciler.plan_pass(&mut hub.planner, all).await;
}

fn held_by(hub: &Hub, cluster: &str) -> usize {
    let set = hub.store.current_set(&name(cluster)).unwrap();
    set.map_or(0, |s| s.set.entries().len())
}

#[tokio::test]
async fn deleting_most_of_a_cluster_waits_until_it_is_confirmed() {
    let mut hub = Hub::with(&["a"]).await;
    for number in 0..30 {
        hub.put(&configs(), config(number)).await;
    }
    hub.put(&policies(), everything(&["a"])).await;
    hub.plan().await;
    let before = held_by(&hub, "a");
    assert!(before >= 30, "{before}");
    for number in 0..30 {
        hub.delete(&configs(), "shop", &format!("c{number:02}")).await;
    }
    pass(&mut hub).await;
    assert_eq!(held_by(&hub, "a"), before - 20, "the first twenty go");
    let held = hub.reconciler.held();
    assert_eq!((held.len(), held[0].losses.len()), (1, 10), "{held:?}");
    pass(&mut hub).await;
    assert_eq!(held_by(&hub, "a"), before - 20, "time alone changes nothing");
    assert_eq!(hub.reconciler.confirm(held[0].id + 1), None);
    assert_eq!(hub.reconciler.confirm(held[0].id), Some(10));
    pass(&mut hub).await;
    assert_eq!(held_by(&hub, "a"), before - 30);
    assert!(hub.reconciler.held().is_empty());
}

#[tokio::test]
async fn what_comes_back_meanwhile_waits_no_longer() {
    let mut hub = Hub::with(&["a"]).await;
    for number in 0..22 {
        hub.put(&configs(), config(number)).await;
    }
    hub.put(&policies(), everything(&["a"])).await;
    hub.plan().await;
    for number in 0..22 {
        hub.delete(&configs(), "shop", &format!("c{number:02}")).await;
    }
    pass(&mut hub).await;
    let waits = hub.reconciler.held()[0].losses.clone();
    assert_eq!(waits.len(), 2);
    let number: usize = waits[0].rsplit('c').next().unwrap().parse().unwrap();
    hub.put(&configs(), config(number)).await;
    pass(&mut hub).await;
    assert_eq!(hub.reconciler.held()[0].losses, waits[1..]);
}
