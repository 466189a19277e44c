//! When sequences move, what leaves a tombstone, what is kept.

use super::*;

#[tokio::test]
async fn a_sequence_moves_only_when_something_changed() {
    let (_dir, store) = fresh(&["a", "b"]).await;
    let mut notes = store.subscribe_changes();
    assert_eq!(
        adopt(&store, "x", put("a", vec![work("x", "{}")])).await,
        Sequence(1)
    );
    let told = [notes.next().await, notes.next().await];
    assert!(told.contains(&Some(Note::Binding(binding("x")))));
    assert!(told.contains(&Some(Note::Set(cluster("a")))));
    assert_eq!(
        adopt(&store, "x", put("a", vec![work("x", "{}")])).await,
        Sequence(1)
    );
    assert_eq!(
        adopt(&store, "x", put("a", vec![work("x", "{1}")])).await,
        Sequence(2)
    );
    assert_eq!(adopt(&store, "x", take("a", &["nothing"])).await, Sequence(2));
    let set = store.current_set(&cluster("a")).unwrap().unwrap();
    assert_eq!((set.sequence, set.set.entries().len()), (Sequence(2), 1));
    assert_eq!(set.digest, set.set.digest());
    assert_eq!(
        store.content(&Digest::of(b"{1}")).unwrap().unwrap(),
        b"{1}".as_slice()
    );
    let other = store.current_set(&cluster("b")).unwrap().unwrap();
    assert_eq!(
        (other.sequence, other.digest),
        (Sequence(0), Set::default().digest())
    );

    let taken = store
        .adopt(&binding("y"), put("a", vec![work("x", "{}")]))
        .await
        .unwrap()
        .remove(0)
        .1;
    assert!(matches!(taken, Err(AdoptRefusal::KeyTaken { by, .. }) if by == binding("x")));
    let mut wrong = work("y", "{}");
    wrong.1 = b"{other}".as_slice().into();
    let wrong = store
        .adopt(&binding("y"), put("a", vec![wrong]))
        .await
        .unwrap()
        .remove(0)
        .1;
    assert!(matches!(wrong, Err(AdoptRefusal::Content { .. })));
    let both = [
        put("nobody", vec![work("y", "{}")]),
        put("b", vec![work("y", "{}")]),
    ]
    .concat();
    let answers = store.adopt(&binding("y"), both).await.unwrap();
    assert!(matches!(&answers[0].1, Err(AdoptRefusal::NotEnrolled(_))));
    assert_eq!(
        answers[1].1,
        Ok(Sequence(1)),
        "one cluster's trouble delays no other"
    );
}

#[tokio::test]
async fn a_tombstone_is_not_lost_under_an_entry_that_came_and_went_unseen() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    assert!(store.mark_published(&a, Sequence(1)).await.unwrap());
    adopt(&store, "x", take("a", &["x"])).await;
    adopt(&store, "x", put("a", vec![work("x", "{2}")])).await;
    adopt(&store, "x", take("a", &["x"])).await;
    let left = store.tombstones_on(&a).unwrap().remove(0).tombstone;
    assert_eq!(
        left.sequence,
        Sequence(4),
        "the agent holds the object of the first set"
    );
}

#[tokio::test]
async fn only_what_was_published_leaves_a_tombstone() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    adopt(&store, "x", take("a", &["x"])).await;
    let set = store.current_set(&a).unwrap().unwrap();
    assert_eq!(
        (set.sequence, set.set.clone()),
        (Sequence(2), Arc::new(Set::default())),
        "it came and went unseen"
    );

    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    assert!(
        !store.mark_published(&a, Sequence(2)).await.unwrap(),
        "not the newest any more"
    );
    assert!(store.mark_published(&a, Sequence(3)).await.unwrap());
    assert_eq!(adopt(&store, "x", take("a", &["x"])).await, Sequence(4));
    let tombstone = store.tombstones_on(&a).unwrap().remove(0).tombstone;
    assert_eq!(
        (tombstone.sequence, tombstone.mode),
        (Sequence(4), DeleteMode::Delete)
    );
    assert_eq!(
        store.current_set(&a).unwrap().unwrap().set.tombstones(),
        std::slice::from_ref(&tombstone)
    );

    adopt(&store, "x", put("a", vec![work("x", "{2}")])).await;
    assert!(
        store.tombstones_on(&a).unwrap().is_empty(),
        "a new entry replaces the tombstone"
    );
    assert!(store.mark_published(&a, Sequence(5)).await.unwrap());
    adopt(&store, "x", take("a", &["x"])).await;
    let late = store
        .tombstones_done(&a, vec![(tombstone.key.clone(), Sequence(4))])
        .await
        .unwrap();
    assert_eq!(late, None, "a late word about the older tombstone ends nothing");
    let done = store
        .tombstones_done(&a, vec![(tombstone.key.clone(), Sequence(6))])
        .await
        .unwrap();
    assert_eq!(done, Some(Sequence(7)));
    assert_eq!(
        store.current_set(&a).unwrap().unwrap().set,
        Arc::new(Set::default())
    );
}

#[tokio::test]
async fn contents_of_the_last_ten_adoptions_are_kept() {
    let (dir, store) = fresh(&["a"]).await;
    for n in 0..15 {
        adopt(&store, "x", put("a", vec![work("x", &format!("{{{n}}}"))])).await;
    }
    adopt(&store, "gone", put("a", vec![work("gone", "{gone}")])).await;
    adopt(&store, "gone", take("a", &["gone"])).await;
    store.close().await;
    let mut db = rusqlite::Connection::open(dir.path().join("hub.db")).unwrap();
    collect(&mut db).unwrap();
    drop(db);
    let store = Store::open(dir.path(), NOW).unwrap();
    let kept = |content: String| store.content(&Digest::of(content.as_bytes())).unwrap().is_some();
    assert!(!kept("{4}".into()) && kept("{5}".into()) && kept("{14}".into()) && !kept("{gone}".into()));
    assert_eq!(store.check().unwrap(), [], "doctor reads every content");
}

#[tokio::test]
async fn a_target_row_costs_at_most_200_bytes() {
    const CLUSTERS: usize = 40;
    const WORKS: usize = 50;
    let names: Vec<String> = (0..CLUSTERS).map(|n| format!("member-{n:04}")).collect();
    let (dir, store) = fresh(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for n in 0..WORKS {
        let name = format!("some-application-{n}");
        let adoptions = names
            .iter()
            .flat_map(|cluster| put(cluster, vec![work(&name, "{}")]))
            .collect();
        store.adopt(&binding(&name), adoptions).await.unwrap();
    }
    assert_eq!(store.all_targets().unwrap().len(), CLUSTERS * WORKS);
    store.close().await;
    let db = rusqlite::Connection::open(dir.path().join("hub.db")).unwrap();
    db.execute_batch("VACUUM").unwrap();
    drop(db);
    let bytes = std::fs::metadata(dir.path().join("hub.db")).unwrap().len() as usize;
    let per_row = bytes / (CLUSTERS * WORKS);
    assert!(
        per_row <= 200,
        "{per_row} bytes per target row, tables of shared parts included"
    );
}
