//! What agents acknowledge and report.

use super::*;

#[tokio::test]
async fn acknowledgements_name_a_published_set() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    let set = store.current_set(&a).unwrap().unwrap();
    assert!(
        !store.acked(&a, Sequence(1), set.digest).await.unwrap(),
        "never published"
    );
    store.mark_published(&a, Sequence(1)).await.unwrap();
    assert_eq!(
        store.targets_of(&binding("x")).unwrap()[0].state,
        TargetState::Published
    );
    assert!(
        !store.acked(&a, Sequence(1), Digest([0; 32])).await.unwrap(),
        "another digest"
    );
    assert!(store.acked(&a, Sequence(1), set.digest).await.unwrap());
    assert_eq!(
        store.targets_of(&binding("x")).unwrap()[0].state,
        TargetState::Accepted
    );
    for n in 0..150_u64 {
        let sequence = adopt(&store, "x", put("a", vec![work("x", &format!("{{{n}}}"))])).await;
        store.mark_published(&a, sequence).await.unwrap();
    }
    let heads = store.heads(&a).unwrap();
    assert_eq!(heads.len(), 151, "all since the acknowledged one");
    let (newest, digest) = *heads.last().unwrap();
    store.acked(&a, newest, digest).await.unwrap();
    let sequence = adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    store.mark_published(&a, sequence).await.unwrap();
    assert_eq!(store.heads(&a).unwrap().len(), shared::limits::HEADS_KEPT);
}

#[tokio::test]
async fn a_report_counts_once() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}"), work("y", "{}")])).await;
    let ingest = async |session: u64, report: Report| {
        store
            .ingest_report(&a, Session(session), report, NOW)
            .await
            .unwrap()
    };
    assert_eq!(
        ingest(1, report(1, vec![])).await,
        Ingested::Unknown,
        "no session was agreed"
    );
    store
        .begin_session(&a, BootId([1; 16]), Session(1), NOW)
        .await
        .unwrap();
    let said = vec![object("x", "fine"), object("stranger", "")];
    let new = Ingested::New {
        bindings: vec![binding("x")],
        set: None,
    };
    assert_eq!(ingest(1, report(1, said.clone())).await, new);
    assert_eq!(ingest(1, report(1, said.clone())).await, Ingested::Old);
    let unchanged = Ingested::New {
        bindings: vec![],
        set: None,
    };
    assert_eq!(
        ingest(1, report(2, said)).await,
        unchanged,
        "the same again is no change"
    );
    let targets = store.targets_of(&binding("x")).unwrap();
    let told = targets[0].report.clone().unwrap();
    assert_eq!(
        (told.applied, told.health),
        (ApplyState::Applied, Health::Healthy)
    );
    assert_eq!((told.message.as_str(), told.observed), ("fine", NOW.plus(-5)));
    assert_eq!(told.reason, Reason::Healthy.into());
    assert_eq!(told.status.unwrap(), json!({"ready": true}).to_string());
    assert_eq!(targets[1].report, None);
    assert_eq!(
        store.binding_revision(&binding("x")).unwrap(),
        Some(targets[0].revision)
    );

    store
        .begin_session(&a, BootId([2; 16]), Session(2), NOW)
        .await
        .unwrap();
    assert_eq!(ingest(1, report(3, vec![])).await, Ingested::Old, "an older life");
    let capacity = Capacity {
        kubernetes_version: "v1.36.0".into(),
        nodes_total: 3,
        ..Capacity::default()
    };
    let facts = Report {
        capacity: Some(capacity),
        ..report(1, vec![object("x", "worse")])
    };
    assert_eq!(ingest(2, facts).await, new);
    let row = store.facts(&a).unwrap().unwrap();
    assert_eq!(
        (row.facts.kubernetes_version.as_str(), row.last_seen),
        ("v1.36.0", Some(NOW))
    );

    store.mark_published(&a, Sequence(1)).await.unwrap();
    adopt(&store, "x", take("a", &["x"])).await;
    let (entry, _) = work("x", "{}");
    let done = TombstoneDone {
        key: entry.key.clone(),
        sequence: Sequence(2),
        outcome: TombstoneOutcome::Deleted,
    };
    let done = Report {
        tombstones_done: vec![done],
        ..report(2, vec![])
    };
    assert_eq!(
        ingest(2, done).await,
        Ingested::New {
            bindings: vec![],
            set: Some(Sequence(3))
        }
    );
}
