//! A hub that went back, and the two ways out of it.

use super::*;

#[tokio::test]
async fn the_hub_that_went_back_moves_above_both_sides() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    let theirs = Set::new(vec![work("x", "{newer}").0, work("late", "{}").0], vec![]).unwrap();
    let head = Head {
        fleet: store.fleet(),
        cluster: a.clone(),
        incarnation: Incarnation([1; 16]),
        sequence: Sequence(40),
        digest: theirs.digest(),
        key_number: KeyNumber(1),
    };
    let head = SignedHead {
        head,
        signature: Signature([0; 64]),
    };
    assert!(matches!(
        store.push_hub(&a, hub_core::ship::Winner::Hub).await.unwrap(),
        Err(PushRefusal::NotBehind(_))
    ));
    store
        .hold(
            &a,
            Some(HeldSet {
                head: head.clone(),
                set: None,
            }),
        )
        .await
        .unwrap();
    assert!(store.facts(&a).unwrap().unwrap().behind);
    assert!(matches!(
        store.push_hub(&a, hub_core::ship::Winner::Hub).await.unwrap(),
        Err(PushRefusal::NotFetched(_))
    ));
    let held = HeldSet {
        head,
        set: Some(theirs.clone()),
    };
    store.hold(&a, Some(held.clone())).await.unwrap();
    assert_eq!(store.held(&a).unwrap(), Some(held));
    assert_eq!(
        store
            .push_hub(&a, hub_core::ship::Winner::Hub)
            .await
            .unwrap()
            .unwrap(),
        Sequence(41)
    );
    assert_eq!(store.held(&a).unwrap(), None);
    let set = store.current_set(&a).unwrap().unwrap();
    assert_eq!(
        (set.sequence, set.acked, set.published),
        (Sequence(41), Sequence(40), Sequence(40))
    );
    assert_eq!(set.set.tombstones().len(), 1);
    assert_eq!(set.set.tombstones()[0].key.name, "late");
    adopt(&store, "x", take("a", &["x"])).await;
    let set = store.current_set(&a).unwrap().unwrap();
    assert_eq!(
        set.set.tombstones().len(),
        2,
        "what the agent held counts as published"
    );
}

#[tokio::test]
async fn a_member_that_keeps_what_it_has_is_ordered_to_delete_nothing() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    let theirs = Set::new(vec![work("x", "{newer}").0, work("late", "{}").0], vec![]).unwrap();
    let head = SignedHead {
        head: Head {
            fleet: store.fleet(),
            cluster: a.clone(),
            incarnation: Incarnation([1; 16]),
            sequence: Sequence(40),
            digest: theirs.digest(),
            key_number: KeyNumber(1),
        },
        signature: Signature([0; 64]),
    };
    let set = Some(theirs);
    store.hold(&a, Some(HeldSet { head, set })).await.unwrap();
    let kept = store.push_hub(&a, hub_core::ship::Winner::Member).await.unwrap();
    assert_eq!(kept.unwrap(), Sequence(41));
    let set = store.current_set(&a).unwrap().unwrap().set;
    assert_eq!(set.tombstones().len(), 1);
    assert_eq!(set.tombstones()[0].mode, DeleteMode::Release);
    assert_eq!(set.entries().len(), 1, "what both want is the hub's");
}
