//! Sets that travel as files, and their receipts.

use super::*;

#[tokio::test]
async fn receipts_from_files_count_once_and_never_backwards() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}"), work("y", "{}")])).await;
    let first = store.current_set(&a).unwrap().unwrap();
    let carried = |set: &CurrentSet, journal: u64| shared::wire::Carried {
        cluster: a.clone(),
        incarnation: Incarnation([1; 16]),
        sequence: set.sequence,
        digest: set.digest,
        session: shared::ids::Session(3),
        journal,
        objects: vec![],
        tombstones_done: set
            .set
            .tombstones()
            .iter()
            .map(|t| shared::wire::TombstoneDone {
                key: t.key.clone(),
                sequence: t.sequence,
                outcome: shared::wire::TombstoneOutcome::Deleted,
            })
            .collect(),
    };
    let refused = store.take_carried(carried(&first, 1), NOW).await.unwrap();
    assert!(
        matches!(refused, Err(CarriedRefusal::UnknownSet(_))),
        "{refused:?}"
    );
    assert!(store.mark_published(&a, first.sequence).await.unwrap());
    store
        .take_carried(carried(&first, 5), NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(store.current_set(&a).unwrap().unwrap().acked, first.sequence);
    let refused = store.take_carried(carried(&first, 4), NOW).await.unwrap();
    assert!(
        matches!(refused, Err(CarriedRefusal::Older { .. })),
        "{refused:?}"
    );
    adopt(&store, "x", take("a", &["y"])).await;
    let second = store.current_set(&a).unwrap().unwrap();
    assert_eq!(second.set.tombstones().len(), 1);
    assert!(store.mark_published(&a, second.sequence).await.unwrap());
    store
        .take_carried(carried(&second, 6), NOW)
        .await
        .unwrap()
        .unwrap();
    let refused = store.take_carried(carried(&first, 7), NOW).await.unwrap();
    assert!(
        matches!(refused, Err(CarriedRefusal::Older { .. })),
        "{refused:?}"
    );
    let left = store.current_set(&a).unwrap().unwrap();
    assert!(
        left.set.tombstones().is_empty(),
        "a tombstone that is carried out ends"
    );
}

#[tokio::test]
async fn the_key_for_files_is_of_one_enrolment_and_survives_a_start() {
    let (dir, store) = fresh(&["a"]).await;
    let key = store.sealing_key(&cluster("a"), Incarnation([1; 16]));
    assert_ne!(key, store.sealing_key(&cluster("a"), Incarnation([2; 16])));
    assert_ne!(key, store.sealing_key(&cluster("b"), Incarnation([1; 16])));
    store.close().await;
    drop(store);
    let again = Store::open(dir.path(), NOW).unwrap();
    assert_eq!(key, again.sealing_key(&cluster("a"), Incarnation([1; 16])));
}
