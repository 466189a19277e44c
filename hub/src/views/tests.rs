//! Views over a real store: get, list and watch agree.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use serde_json::{Value, json};
use shared::ids::{BootId, Digest, Incarnation, ObjectKey, PublicKey, ReportSeq, Session};
use shared::reason::Reason;
use shared::set::{ConflictResolution, DeleteMode, Entry};
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, Health, ObjectReport, Report};

use super::*;
use crate::store::fleet::{Adoption, EnrolRequest, ReadyFact, Terms, Token};
use crate::store::{Event, EventKind, Expect, Op};

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

fn name(text: &str) -> ClusterName {
    ClusterName::new(text).unwrap()
}

fn bindings() -> ResourceId {
    ResourceId::new("work.karmada.io", "resourcebindings")
}

fn works() -> ResourceId {
    ResourceId::new("work.karmada.io", "works")
}

fn namespaces() -> ResourceId {
    ResourceId::new("", "namespaces")
}

fn put(resource: ResourceId, namespace: &str, name: &str, mut object: Value) -> Op {
    object["metadata"]["name"] = json!(name);
    object["metadata"]["uid"] = json!(format!("uid-{name}"));
    Op::Put {
        resource,
        namespace: namespace.into(),
        name: name.into(),
        expect: Expect::Any,
        object,
    }
}

async fn fleet_of(names: &[&str]) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let store = Store::open(dir.path(), NOW).unwrap();
    for (n, text) in names.iter().enumerate() {
        let n = u8::try_from(n).unwrap() + 1;
        let (cluster, digest) = (name(text), Digest([n; 32]));
        let token = Token {
            digest,
            cluster: cluster.clone(),
            expires: NOW.plus(9),
            terms: Terms::default(),
            used_by: None,
        };
        store.create_token(token, NOW).await.unwrap();
        let request = EnrolRequest {
            token: digest,
            cluster: cluster.clone(),
            identity: PublicKey([n; 32]),
            kube_system_uid: format!("uid-{text}"),
            incarnation: Incarnation([n; 16]),
            now: NOW,
        };
        store.enrol(request).await.unwrap().unwrap();
        store
            .begin_session(&cluster, BootId([n; 16]), Session(1), NOW)
            .await
            .unwrap()
            .unwrap();
        store
            .commit(vec![put(
                clusters(),
                "",
                text,
                json!({"metadata": {}, "spec": {}}),
            )])
            .await
            .unwrap();
    }
    (dir, store)
}

fn entry(content: &str) -> (Entry, Arc<[u8]>) {
    let content: Arc<[u8]> = content.as_bytes().into();
    let entry = Entry {
        key: ObjectKey::new("", "ConfigMap", "prod", "settings"),
        digest: Digest::of(&content),
        length: u32::try_from(content.len()).unwrap(),
        work: "settings-5bbdc6bf4d".into(),
        template_uid: "t".into(),
        template_generation: 1,
        conflict_resolution: ConflictResolution::Abort,
        suspended: false,
        delete_mode: DeleteMode::Delete,
        retain_replicas: false,
        dependencies: vec![],
        labels: BTreeMap::new(),
    };
    (entry, content)
}

fn reference() -> BindingRef {
    BindingRef {
        namespace: "prod".into(),
        name: "settings-configmap".into(),
    }
}

async fn adopt(store: &Store, cluster: &str, upsert: bool) {
    let (entry, content) = entry(r#"{"apiVersion":"v1","kind":"ConfigMap"}"#);
    let key = entry.key.clone();
    let adoption = if upsert {
        Adoption {
            cluster: name(cluster),
            upserts: vec![(Arc::new(entry), content)],
            withdraw: vec![],
        }
    } else {
        Adoption {
            cluster: name(cluster),
            upserts: vec![],
            withdraw: vec![(key, DeleteMode::Delete)],
        }
    };
    store
        .adopt(&reference(), vec![adoption])
        .await
        .unwrap()
        .remove(0)
        .1
        .unwrap();
}

async fn applied(store: &Store, cluster: &str, seq: u64, message: &str) {
    let (entry, _) = entry(r#"{"apiVersion":"v1","kind":"ConfigMap"}"#);
    let object = ObjectReport {
        key: entry.key,
        digest: entry.digest,
        template_generation: 1,
        applied: ApplyState::Applied,
        health: Health::Healthy,
        reason: Reason::Healthy.into(),
        message: message.into(),
        uid: "m".into(),
        status: vec![],
        age_ms: 0,
        age_is_lower_bound: false,
    };
    let report = Report {
        report_seq: ReportSeq(seq),
        boot: BootId([1; 16]),
        objects: vec![object],
        tombstones_done: vec![],
        strays: None,
        capacity: None,
        full: false,
    };
    store
        .ingest_report(&name(cluster), Session(1), report, NOW)
        .await
        .unwrap();
}

async fn stored_binding(store: &Store) {
    let object =
        json!({"metadata": {"namespace": "prod"}, "spec": {"clusters": [{"name": "a"}, {"name": "b"}]}});
    let reference = reference();
    store
        .commit(vec![put(bindings(), "prod", &reference.name, object)])
        .await
        .unwrap();
}

fn condition(object: &Object, of_type: &str) -> String {
    let value = object.value();
    let conditions = value["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == of_type);
    found
        .map(|condition| condition["status"].as_str().unwrap().to_owned())
        .unwrap_or_default()
}

#[tokio::test]
async fn a_binding_shows_what_agents_report() {
    let (_dir, store) = fleet_of(&["a", "b"]).await;
    stored_binding(&store).await;
    let read = || {
        get(&store, &bindings(), "prod", &reference().name)
            .unwrap()
            .unwrap()
    };
    let stored = store.get(&bindings(), "prod", &reference().name).unwrap();
    assert_eq!(read().revision, stored.revision);
    adopt(&store, "a", true).await;
    adopt(&store, "b", true).await;
    let waiting = read();
    assert_eq!(condition(&waiting, "FullyApplied"), "False");
    assert!(waiting.revision > stored.revision && is_current(&bindings(), &stored, waiting.revision));
    assert!(!is_current(&bindings(), &stored, Revision(stored.revision.0 - 1)));
    applied(&store, "a", 1, "").await;
    applied(&store, "b", 1, "").await;
    let done = read();
    assert_eq!(condition(&done, "FullyApplied"), "True");
    assert_eq!(
        done.value()["status"]["aggregatedStatus"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        done.value()["metadata"]["resourceVersion"],
        done.revision.to_string()
    );
    assert_eq!(done.revision, store.revision());
    assert_eq!(list(&store, &bindings(), Some("prod")).unwrap().items, [done]);
    assert!(list(&store, &bindings(), Some("other")).unwrap().items.is_empty());
}

#[tokio::test]
async fn works_and_execution_namespaces_follow_the_rows() {
    let (_dir, store) = fleet_of(&["a", "b"]).await;
    adopt(&store, "a", true).await;
    adopt(&store, "b", true).await;
    let listing = list(&store, &works(), None).unwrap();
    assert_eq!(listing.items.len(), 2);
    assert_ne!(listing.items[0].uid, listing.items[1].uid);
    let one = get(&store, &works(), "karmada-es-a", "settings-5bbdc6bf4d")
        .unwrap()
        .unwrap();
    assert_eq!(one, listing.items[0]);
    assert_eq!(
        one.value()["spec"]["workload"]["manifests"][0]["kind"],
        "ConfigMap"
    );
    assert_eq!(
        list(&store, &works(), Some("karmada-es-b")).unwrap().items.len(),
        1
    );
    assert!(
        get(&store, &works(), "default", "settings-5bbdc6bf4d")
            .unwrap()
            .is_none()
    );

    adopt(&store, "a", false).await;
    adopt(&store, "a", true).await;
    let again = get(&store, &works(), "karmada-es-a", "settings-5bbdc6bf4d")
        .unwrap()
        .unwrap();
    assert_ne!(again.uid, one.uid, "another work, another uid");

    store
        .commit(vec![put(namespaces(), "", "prod", json!({"metadata": {}}))])
        .await
        .unwrap();
    let names: Vec<String> = list(&store, &namespaces(), None)
        .unwrap()
        .items
        .iter()
        .map(|object| object.name.clone())
        .collect();
    assert_eq!(names, ["karmada-es-a", "karmada-es-b", "prod"]);
    assert!(get(&store, &namespaces(), "", "karmada-es-a").unwrap().is_some());
    assert!(
        get(&store, &namespaces(), "", "karmada-es-nobody")
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn a_cluster_shows_its_facts() {
    let (_dir, store) = fleet_of(&["a"]).await;
    let read = || get(&store, &clusters(), "", "a").unwrap().unwrap();
    assert_eq!(condition(&read(), "Ready"), "Unknown");
    let mut cursor = watch(&store, &clusters(), store.revision()).unwrap();
    let ready = ReadyFact {
        status: "True".into(),
        reason: "ClusterReady".into(),
        ..ReadyFact::default()
    };
    store
        .update_facts(&name("a"), Some(NOW), move |facts| facts.ready = Some(ready))
        .await
        .unwrap();
    assert_eq!(condition(&read(), "Ready"), "True");
    let event = cursor.next().await.unwrap();
    assert_eq!((event.object.clone(), event.kind), (read(), EventKind::Put));
    assert!(event.previous.is_some(), "a change, not a creation");
    assert!(
        !store
            .update_facts(&name("a"), Some(NOW.plus(5)), |_| ())
            .await
            .unwrap()
    );
    assert_eq!(
        read().value()["metadata"]["annotations"][view::LAST_SEEN],
        NOW.plus(5).rfc3339()
    );
}

/// Applies events to a listing, as an informer does.
fn follow(known: &mut BTreeMap<(String, String), Arc<Object>>, event: &Event) {
    let key = (event.object.namespace.clone(), event.object.name.clone());
    match event.kind {
        EventKind::Put => known.insert(key, event.object.clone()),
        EventKind::Delete => known.remove(&key),
    };
}

/// An object without the time its agent was last heard, which moves without an event.
fn timeless(object: &Arc<Object>) -> Value {
    let mut value = object.value();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
    value
}

/// Follows a cursor until everything up to a revision was told.
async fn follow_to(
    cursor: &mut ViewCursor,
    known: &mut BTreeMap<(String, String), Arc<Object>>,
    upto: Revision,
) {
    let patience = std::time::Duration::from_secs(60);
    let told = tokio::time::timeout(patience, async {
        let mut last = cursor.position();
        loop {
            while let Some(event) = cursor.next().now_or_never() {
                let event = event.unwrap();
                assert!(event.revision >= last, "in order");
                last = event.revision;
                follow(known, &event);
            }
            if cursor.position() >= upto {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    told.await.unwrap();
}

#[tokio::test]
async fn a_watch_leads_to_what_a_listing_shows() {
    let (_dir, store) = fleet_of(&["a", "b"]).await;
    let start = store.revision();
    let mut cursors: Vec<ViewCursor> = [bindings(), works(), clusters(), namespaces()]
        .iter()
        .map(|resource| watch(&store, resource, start).unwrap())
        .collect();
    let mut known: Vec<BTreeMap<_, _>> = cursors
        .iter()
        .map(|cursor| {
            let items = list(&store, cursor.resource(), None).unwrap().items;
            items
                .into_iter()
                .map(|object| ((object.namespace.clone(), object.name.clone()), object))
                .collect()
        })
        .collect();
    stored_binding(&store).await;
    for round in 1..=4_u64 {
        adopt(&store, "a", round != 3).await;
        adopt(&store, "b", true).await;
        applied(&store, "b", round, &format!("round {round}")).await;
        store
            .commit(vec![put(
                namespaces(),
                "",
                "prod",
                json!({"metadata": {}, "n": round}),
            )])
            .await
            .unwrap();
        for (cursor, known) in cursors.iter_mut().zip(&mut known) {
            follow_to(cursor, known, store.revision()).await;
            let listed = list(&store, cursor.resource(), None).unwrap().items;
            let listed: Vec<_> = listed.iter().map(timeless).collect();
            let followed: Vec<_> = known.values().map(timeless).collect();
            assert_eq!(followed, listed, "{} in round {round}", cursor.resource());
        }
    }
}

#[tokio::test]
async fn reports_make_at_most_one_event_a_second() {
    let (_dir, store) = fleet_of(&["a"]).await;
    stored_binding(&store).await;
    adopt(&store, "a", true).await;
    let mut cursor = watch(&store, &bindings(), store.revision()).unwrap();
    let started = std::time::Instant::now();
    let (mut told, mut said) = (0, 0);
    // Long enough to see the limit, and enough reports on a busy machine too.
    while started.elapsed() < std::time::Duration::from_millis(1_500) || said < 12 {
        said += 1;
        applied(&store, "a", said, &format!("message {said}")).await;
        while let Some(event) = cursor.next().now_or_never() {
            event.unwrap();
            told += 1;
        }
    }
    assert!(
        (1..=started.elapsed().as_secs() + 1).contains(&told),
        "{told} events for {said} reports"
    );
    let mut known = BTreeMap::new();
    follow_to(&mut cursor, &mut known, store.revision()).await;
    let newest = get(&store, &bindings(), "prod", &reference().name)
        .unwrap()
        .unwrap();
    assert!(
        known.values().all(|object| *object == newest),
        "the last word is told"
    );
}
