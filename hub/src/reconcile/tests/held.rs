//! What would delete too much waits for a person. Red if `adopt` did not ask the breaker, or the binding went before its
//! withdrawals.

use hub_core::breaker::{Confirmed, Scope};

use super::*;
use crate::reconcile::explain_gone;

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
    let Some(Confirmed::LetGo(losses)) = hub.reconciler.confirm(held[0].id) else {
        panic!("it was held");
    };
    assert_eq!(losses.len(), 10);
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

/// Red if `may_delete` did not count what clusters hold, or a confirmation did not reach the withdrawals that follow.
#[tokio::test]
async fn a_namespace_with_much_in_it_is_deleted_only_after_a_confirmation() {
    let mut hub = Hub::with(&["a"]).await;
    for number in 0..30 {
        hub.put(&configs(), config(number)).await;
    }
    hub.put(&policies(), everything(&["a"])).await;
    hub.plan().await;
    let before = held_by(&hub, "a");
    let scope = Scope::Namespace("shop".to_owned());
    let why = hub.reconciler.may_delete(&scope, true).unwrap().unwrap();
    assert!(why.contains("30 objects in 1 clusters"), "{why}");
    assert!(hub.reconciler.held().is_empty(), "a dry run leaves nothing");
    assert_eq!(
        hub.reconciler
            .may_delete(&Scope::Namespace("other".to_owned()), false)
            .unwrap(),
        None
    );
    let why = hub.reconciler.may_delete(&scope, false).unwrap().unwrap();
    let held = hub.reconciler.held().remove(0);
    assert!(why.contains(&format!("`pinnace confirm {}`", held.id)), "{why}");
    assert_eq!(
        (held.count, held.refused.as_deref()),
        (30, Some("Namespace shop"))
    );
    assert_eq!(
        hub.reconciler.confirm(held.id),
        Some(Confirmed::MayBeDeleted(scope.clone()))
    );
    assert_eq!(hub.reconciler.may_delete(&scope, false).unwrap(), None);
    for number in 0..30 {
        hub.delete(&configs(), "shop", &format!("c{number:02}")).await;
    }
    pass(&mut hub).await;
    assert_eq!(held_by(&hub, "a"), before - 30, "none of it is held again");
    assert!(hub.reconciler.held().is_empty());
}

/// Red if what the breaker holds could not be found under the name of a template that is gone.
#[tokio::test]
async fn what_waits_is_named_though_its_template_is_gone() {
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
    let held = hub.reconciler.held().remove(0);
    let waits = held.losses[0].rsplit('/').next().unwrap();
    let key = ObjectKey::new("", "ConfigMap", "shop", waits);
    let told = explain_gone(&hub.reconciler, &key).unwrap().unwrap();
    let note = &told.notes[0];
    assert_eq!(note.reason.known(), Some(Reason::MassDeleteHeld));
    assert!(note.message.contains(&held.id.to_string()), "{}", note.message);
    assert_eq!(told.clusters[0].cluster, "a");
    let nobody = ObjectKey::new("", "ConfigMap", "shop", "never-was");
    assert_eq!(explain_gone(&hub.reconciler, &nobody).unwrap(), None);
}

/// Red if a report about an object that is only a tombstone any more were dropped.
#[tokio::test]
async fn what_an_agent_may_not_delete_is_shown_with_its_reason() {
    let mut hub = Hub::with(&["a"]).await;
    hub.put(&configs(), config(1)).await;
    hub.put(&policies(), everything(&["a"])).await;
    hub.plan().await;
    let set = hub.store.current_set(&name("a")).unwrap().unwrap();
    assert!(hub.store.mark_published(&name("a"), set.sequence).await.unwrap());
    hub.delete(&configs(), "shop", "c01").await;
    pass(&mut hub).await;
    let key = ObjectKey::new("", "ConfigMap", "shop", "c01");
    let order = hub.store.tombstones_on(&name("a")).unwrap().remove(0).tombstone;
    let report = |number: u64, applied, reason: Reason, done: Vec<_>| Report {
        report_seq: ReportSeq(number),
        boot: BootId([1; 16]),
        objects: vec![ObjectReport {
            key: key.clone(),
            digest: Digest([0; 32]),
            template_generation: 0,
            applied,
            health: Health::Unknown,
            reason: reason.into(),
            message: "the guard lets nobody delete ConfigMaps".to_owned(),
            uid: "member-uid".to_owned(),
            status: vec![],
            age_ms: 3_000,
            age_is_lower_bound: false,
        }],
        tombstones_done: done,
        strays: None,
        capacity: None,
        full: false,
    };
    let ingest = async |report: Report| {
        hub.store
            .ingest_report(&name("a"), Session(1), report, NOW)
            .await
            .unwrap();
    };
    ingest(report(1, ApplyState::Pending, Reason::Pending, vec![])).await;
    assert_eq!(
        hub.store.held_deletions(&name("a")).unwrap(),
        [],
        "nothing stands in its way yet"
    );
    ingest(report(2, ApplyState::Failed, Reason::GuardRefused, vec![])).await;
    let told = explain_gone(&hub.reconciler, &key).unwrap().unwrap();
    assert_eq!(told.clusters[0].reason.known(), Some(Reason::GuardRefused));
    assert!(told.clusters[0].leaving && told.clusters[0].message.contains("the guard lets nobody"));
    let clusters = ResourceId::new("cluster.karmada.io", "clusters");
    let condition = |hub: &Hub| {
        let view = crate::views::get(&hub.store, &clusters, "", "a")
            .unwrap()
            .unwrap()
            .value();
        let all = view["status"]["conditions"].as_array().unwrap().clone();
        all.into_iter().find(|c| c["type"] == "DeletionHeld")
    };
    let shown = condition(&hub).unwrap();
    assert_eq!(
        (&shown["status"], &shown["reason"]),
        (&json!("True"), &json!("GuardRefused"))
    );
    assert!(
        shown["message"].as_str().unwrap().contains("ConfigMap shop/c01"),
        "{shown}"
    );
    let why = explain(&hub.reconciler, &clusters, "", "a").unwrap();
    assert_eq!(why.notes[0].reason.known(), Some(Reason::GuardRefused), "{why:?}");

    let done = vec![shared::wire::TombstoneDone {
        key: key.clone(),
        sequence: order.sequence,
        outcome: shared::wire::TombstoneOutcome::Deleted,
    }];
    ingest(Report {
        objects: vec![],
        ..report(3, ApplyState::Failed, Reason::GuardRefused, done)
    })
    .await;
    assert_eq!(condition(&hub), None);
    assert_eq!(
        hub.store.facts(&name("a")).unwrap().unwrap().facts.held_deletions,
        []
    );
    assert_eq!(explain_gone(&hub.reconciler, &key).unwrap(), None);
}
