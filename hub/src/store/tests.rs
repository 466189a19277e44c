//! Behaviour of the object part: expectations, order, watches, restart.

use super::*;
use serde_json::{Value, json};

const NOW: UnixSeconds = UnixSeconds(1_735_689_600 + 1_000);

fn configmaps() -> ResourceId {
    ResourceId::new("", "configmaps")
}

fn put(name: &str, expect: Expect, value: Value) -> Op {
    put_in(&configmaps(), name, expect, value)
}

fn put_in(resource: &ResourceId, name: &str, expect: Expect, value: Value) -> Op {
    let object = json!({"metadata": {"name": name, "namespace": "d", "uid": format!("u-{name}"),
        "labels": {"app": name}}, "data": value});
    Op::Put {
        resource: resource.clone(),
        namespace: "d".into(),
        name: name.into(),
        expect,
        object,
    }
}

fn delete(name: &str, expect: Expect) -> Op {
    Op::Delete {
        resource: configmaps(),
        namespace: "d".into(),
        name: name.into(),
        expect,
    }
}

fn fresh() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let store = Store::open(dir.path(), NOW).unwrap();
    (dir, store)
}

async fn reopen(dir: &tempfile::TempDir, store: Store) -> Store {
    store.close().await;
    drop(store);
    Store::open(dir.path(), NOW).unwrap()
}

#[tokio::test]
async fn expectations_hold_or_nothing_happens() {
    let (_dir, store) = fresh();
    let made = store
        .commit(vec![put("a", Expect::Absent, json!(1))])
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        made.value()["metadata"]["resourceVersion"],
        made.revision.to_string()
    );
    assert!(
        made.revision > Revision(1_000_000),
        "the clock moves revisions on"
    );
    assert_eq!(store.get(&configmaps(), "d", "a").unwrap(), made);

    let again = store
        .commit(vec![
            put("b", Expect::Any, json!(1)),
            put("a", Expect::Absent, json!(2)),
        ])
        .await;
    assert!(matches!(again, Err(CommitError::AlreadyExists { .. })));
    assert!(store.get(&configmaps(), "d", "b").is_none(), "all or nothing");
    assert!(matches!(
        store.commit(vec![put("b", Expect::Present, json!(1))]).await,
        Err(CommitError::NotFound { .. })
    ));
    assert!(matches!(
        store.commit(vec![delete("b", Expect::Any)]).await,
        Err(CommitError::NotFound { .. })
    ));
    let stale = store
        .commit(vec![put("a", Expect::Revision(Revision(1)), json!(2))])
        .await;
    assert!(matches!(stale, Err(CommitError::Conflict { current, .. }) if current == made));

    let next = store
        .commit(vec![put("a", Expect::Revision(made.revision), json!(2))])
        .await
        .unwrap()
        .remove(0);
    assert!(next.revision > made.revision);
    let gone = store
        .commit(vec![delete("a", Expect::Revision(next.revision))])
        .await
        .unwrap()
        .remove(0);
    assert_eq!(gone.value()["data"], 2);
    assert_eq!(
        gone.value()["metadata"]["resourceVersion"],
        gone.revision.to_string()
    );
    assert!(gone.revision > next.revision && store.revision() == gone.revision);
    assert!(store.resources().is_empty());
}

#[tokio::test]
async fn listings_are_sorted_and_by_namespace() {
    let (_dir, store) = fresh();
    let at = |namespace: &str, name: &str| Op::Put {
        resource: configmaps(),
        namespace: namespace.into(),
        name: name.into(),
        expect: Expect::Absent,
        object: json!({"metadata": {"name": name}}),
    };
    store
        .commit(vec![at("b", "x"), at("a", "z"), at("a", "y"), at("ab", "x")])
        .await
        .unwrap();
    let names = |listing: Listing| -> Vec<String> {
        listing
            .items
            .iter()
            .map(|object| format!("{}/{}", object.namespace, object.name))
            .collect()
    };
    assert_eq!(
        names(store.list(&configmaps(), None)),
        ["a/y", "a/z", "ab/x", "b/x"]
    );
    assert_eq!(names(store.list(&configmaps(), Some("a"))), ["a/y", "a/z"]);
    assert_eq!(store.list(&configmaps(), None).revision, store.revision());
    assert_eq!(store.resources(), [configmaps()]);
}

#[tokio::test]
async fn a_watch_gets_every_event_in_order_and_continues_after_a_restart() {
    let (dir, store) = fresh();
    let start = store.revision();
    let mut cursor = store.watch(Some(&configmaps()), start).unwrap();
    store
        .commit(vec![put("a", Expect::Absent, json!(1))])
        .await
        .unwrap();
    store
        .commit(vec![put_in(
            &ResourceId::new("", "secrets"),
            "s",
            Expect::Absent,
            json!("hush"),
        )])
        .await
        .unwrap();
    store
        .commit(vec![
            put("a", Expect::Any, json!(2)),
            put("b", Expect::Any, json!(1)),
        ])
        .await
        .unwrap();
    store.commit(vec![delete("a", Expect::Any)]).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(cursor.next().await.unwrap());
    }
    assert_eq!(cursor.try_next().unwrap(), None);
    assert_eq!(cursor.position(), store.revision());
    let told: Vec<_> = seen
        .iter()
        .map(|event| {
            (
                event.kind,
                event.object.value()["data"].clone(),
                event.previous.is_some(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (EventKind::Put, json!(1), false),
            (EventKind::Put, json!(2), true),
            (EventKind::Put, json!(1), false),
            (EventKind::Delete, json!(2), true),
        ]
    );

    let before = store.revision();
    let store = reopen(&dir, store).await;
    assert!(store.revision() > before);
    let mut cursor = store.watch(Some(&configmaps()), start).unwrap();
    for event in &seen {
        assert_eq!(
            cursor.next().await.unwrap(),
            *event,
            "the same events, bytes included"
        );
    }
    assert!(
        store.watch(Some(&configmaps()), Revision(before.0 + 1)).is_err(),
        "a revision nobody can hold"
    );
    assert!(store.watch(Some(&configmaps()), before).is_ok());
    let secret = store.get(&ResourceId::new("", "secrets"), "d", "s").unwrap();
    assert_eq!(secret.value()["data"], "hush");
}

#[tokio::test]
async fn secrets_do_not_lie_on_disk() {
    let (dir, store) = fresh();
    let secrets = ResourceId::new("", "secrets");
    store
        .commit(vec![put_in(
            &secrets,
            "s",
            Expect::Absent,
            json!("hunter2-first"),
        )])
        .await
        .unwrap();
    store
        .commit(vec![put_in(&secrets, "s", Expect::Any, json!("hunter2-second"))])
        .await
        .unwrap();
    store.close().await;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(7).any(|window| window == b"hunter2"));
    }
}

#[tokio::test]
async fn leases_are_seen_at_once_and_written_behind() {
    let (dir, store) = fresh();
    let leases = ResourceId::new("coordination.k8s.io", "leases");
    for n in 0..1_500 {
        store
            .commit(vec![put_in(&leases, "l", Expect::Any, json!(n))])
            .await
            .unwrap();
    }
    assert_eq!(store.get(&leases, "d", "l").unwrap().value()["data"], 1_499);
    let before = store.revision();
    let store = reopen(&dir, store).await;
    assert_eq!(
        store.get(&leases, "d", "l").unwrap().value()["data"],
        1_499,
        "an orderly end writes them"
    );
    assert!(store.revision() > before);
    assert!(
        store.watch(Some(&leases), before).is_err(),
        "their history begins with the process"
    );
    assert!(
        store.watch(Some(&configmaps()), before).is_ok(),
        "nothing was lost here"
    );
}

#[tokio::test]
async fn one_process_at_a_time_and_nothing_is_overwritten() {
    let (dir, store) = fresh();
    assert!(matches!(
        Store::open(dir.path(), NOW),
        Err(StoreError::InUse { .. })
    ));
    drop(store);
    assert!(matches!(
        Store::create(dir.path()),
        Err(StoreError::Exists { .. } | StoreError::InUse { .. })
    ));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(
        Store::open(empty.path(), NOW),
        Err(StoreError::Missing { .. })
    ));
}

#[tokio::test]
async fn limits_are_named() {
    let (_dir, store) = fresh();
    let large = put("a", Expect::Any, json!("x".repeat(limits::OBJECT_BYTES)));
    assert!(matches!(
        store.commit(vec![large]).await,
        Err(CommitError::TooLarge { .. })
    ));
    let many = vec![delete("a", Expect::Any); limits::COMMIT_OPS + 1];
    assert!(matches!(
        store.commit(many).await,
        Err(CommitError::TooMany { .. })
    ));
    let odd = Op::Put {
        resource: configmaps(),
        namespace: "d".into(),
        name: "a".into(),
        expect: Expect::Any,
        object: json!({"kind": "ConfigMap"}),
    };
    assert!(matches!(
        store.commit(vec![odd]).await,
        Err(CommitError::Malformed { .. })
    ));
}

#[tokio::test]
async fn a_closed_store_reads_and_refuses_writes() {
    let (_dir, store) = fresh();
    store
        .commit(vec![put("a", Expect::Absent, json!(1))])
        .await
        .unwrap();
    let ended = {
        let store = store.clone();
        tokio::spawn(async move { store.ended().await })
    };
    store.close().await;
    ended.await.unwrap();
    assert!(store.get(&configmaps(), "d", "a").is_some());
    let refused = store.commit(vec![put("b", Expect::Absent, json!(1))]).await;
    assert!(matches!(refused, Err(CommitError::Store(StoreError::Closed))));
}
