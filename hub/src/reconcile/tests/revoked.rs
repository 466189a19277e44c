//! A revoked cluster: nothing new goes there, what is there stays, and nothing waits for it.

use super::*;
use crate::reconcile::explain;

/// Every cluster runs every replica.
fn everywhere() -> Value {
    let mut policy = policy(&[]);
    policy["spec"]["placement"] = json!({"clusterAffinity": {"clusterNames": ["a", "b", "c"]}});
    policy
}

fn named(name: &str) -> Value {
    let mut template = deployment(1, 2, "web:1");
    template["metadata"]["name"] = json!(name);
    template["metadata"]["uid"] = json!(format!("uid-{name}"));
    template
}

async fn look(hub: &mut Hub) {
    hub.reconciler.clusters.mark([()]);
    hub.reconciler.liveness_turn(&mut hub.look).await.unwrap();
}

#[tokio::test]
async fn a_revoked_cluster_keeps_what_it_has_and_holds_nothing_back() {
    let mut hub = Hub::with(&["a", "b"]).await;
    let mut policy = everywhere();
    policy["spec"]["resourceSelectors"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    hub.put(&policies(), policy).await;
    hub.put(&deployments(), deployment(1, 2, "web:1")).await;
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), ["a", "b"]);
    hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
    hub.report("web-deployment", "b", Some(member_status(1, 2))).await;

    assert!(hub.store.revoke(&name("b")).await.unwrap());
    look(&mut hub).await;
    hub.put(&deployments(), deployment(2, 2, "web:2")).await;
    hub.put(&deployments(), named("later")).await;
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), ["a", "b"], "what is there stays");
    assert_eq!(hub.places("later-deployment"), ["a"], "nothing new goes there");
    hub.report("web-deployment", "a", Some(member_status(2, 2))).await;
    hub.aggregate().await;
    let status = hub.store.get(&deployments(), "shop", "web").unwrap().value();
    assert_eq!(status["status"]["observedGeneration"], 2, "nothing waits for b");

    let told = explain(&hub.reconciler, &deployments(), "shop", "web").unwrap();
    let there = told.clusters.iter().find(|state| state.cluster == "b").unwrap();
    assert_eq!(there.reason.known(), Some(Reason::Revoked));
    let judged = explain(&hub.reconciler, &deployments(), "shop", "later").unwrap();
    let b = judged
        .placement
        .iter()
        .find(|verdict| verdict.cluster == "b")
        .unwrap();
    assert_eq!(b.refusal.as_deref(), Some("its enrolment was revoked"));
}

#[tokio::test]
async fn a_successor_is_recorded_anew_and_gets_what_was_there() {
    let mut hub = two_to_one().await;
    assert!(hub.store.replace(&name("a")).await.unwrap().is_some());
    let seed = Digest::of(b"successor");
    let token = Token {
        digest: seed,
        cluster: name("a"),
        expires: NOW.plus(60),
        terms: Terms::default(),
        used_by: None,
    };
    hub.store.create_token(token, NOW).await.unwrap();
    let request = EnrolRequest {
        token: seed,
        cluster: name("a"),
        identity: PublicKey(seed.0),
        kube_system_uid: "uid-other".to_owned(),
        incarnation: Incarnation([9; 16]),
        now: NOW,
    };
    hub.store.enrol(request).await.unwrap().unwrap();
    hub.reconciler.presence.heard(&name("a"), clock::monotonic());
    look(&mut hub).await;
    let facts = hub.store.facts(&name("a")).unwrap().unwrap();
    assert!(!facts.revoked);
    look(&mut hub).await;
    let ready = hub.store.facts(&name("a")).unwrap().unwrap().facts.ready;
    assert!(ready.is_some(), "no condition is carried over from the former");
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), ["a", "b"]);
}

#[tokio::test]
async fn what_a_removed_cluster_had_goes_elsewhere() {
    let mut hub = two_to_one().await;
    hub.store.revoke(&name("a")).await.unwrap();
    let clusters = ResourceId::new("cluster.karmada.io", "clusters");
    hub.delete(&clusters, "", "a").await;
    assert!(hub.store.remove_enrolment(&name("a")).await.unwrap().is_ok());
    look(&mut hub).await;
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), ["b"]);
    assert_eq!(hub.content("web-deployment", "b")["spec"]["replicas"], 3);
    assert!(hub.store.get(&clusters, "", "a").is_none());
}
