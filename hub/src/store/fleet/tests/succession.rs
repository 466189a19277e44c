//! Who takes a name after an enrolment is over, and what is left of the former one.

use super::*;

/// Enrols `a` and lets its agent have two works; a third tombstone waits.
async fn with_history() -> (tempfile::TempDir, Store) {
    let (dir, store) = fresh(&["a"]).await;
    for name in ["x", "y", "z"] {
        adopt(&store, name, put("a", vec![work(name, "{}")])).await;
    }
    store
        .begin_session(&cluster("a"), BootId([1; 16]), Session(4), NOW)
        .await
        .unwrap();
    let set = store.current_set(&cluster("a")).unwrap().unwrap();
    assert!(store.mark_published(&cluster("a"), set.sequence).await.unwrap());
    assert!(
        store
            .acked(&cluster("a"), set.sequence, set.digest)
            .await
            .unwrap()
    );
    let said = report(1, vec![object("x", "fine")]);
    store
        .ingest_report(&cluster("a"), Session(4), said, NOW)
        .await
        .unwrap();
    adopt(&store, "z", take("a", &["z"])).await;
    assert_eq!(store.tombstones_on(&cluster("a")).unwrap().len(), 1);
    (dir, store)
}

fn successor(token: u8) -> EnrolRequest {
    EnrolRequest {
        kube_system_uid: "uid-new".into(),
        ..request("a", token, 7)
    }
}

#[tokio::test]
async fn a_successor_gets_the_works_and_nothing_else_of_the_former() {
    let (_dir, store) = with_history().await;
    let before = store.current_set(&cluster("a")).unwrap().unwrap();
    let session = store.enrolment(&cluster("a")).unwrap().unwrap().session;
    with_token(&store, "a", 9).await;
    assert!(matches!(
        store.enrol(successor(9)).await.unwrap(),
        Err(EnrolRefusal::OtherCluster { .. })
    ));
    assert_eq!(store.replace(&cluster("a")).await.unwrap(), Some(Before::Live));
    assert_eq!(store.replace(&cluster("a")).await.unwrap(), Some(Before::Open));
    assert_eq!(store.replace(&cluster("b")).await.unwrap(), None);
    assert_eq!(
        store.enrol(request("a", 9, 1)).await.unwrap().unwrap_err(),
        EnrolRefusal::Revoked(cluster("a")),
        "the former identity stays out"
    );
    let made = store.enrol(successor(9)).await.unwrap().unwrap();
    assert_eq!(made.incarnation, Incarnation([7; 16]));
    assert_eq!(
        (made.kube_system_uid.as_str(), made.revoked, made.open),
        ("uid-new", false, false)
    );
    assert!(made.session > session && made.boots.is_empty());
    assert_eq!(
        store.enrol(successor(9)).await.unwrap().unwrap(),
        made,
        "a lost answer burns nothing"
    );
    assert!(store.is_former(&cluster("a"), PublicKey([1; 32])).unwrap());

    let after = store.current_set(&cluster("a")).unwrap().unwrap();
    assert!(after.sequence > before.sequence);
    assert_eq!((after.published, after.acked), (Sequence(0), Sequence(0)));
    assert_eq!((after.set.entries().len(), after.set.tombstones().len()), (2, 0));
    assert_eq!(store.heads(&cluster("a")).unwrap(), []);
    let targets = store.targets_on(&cluster("a")).unwrap();
    assert!(
        targets
            .iter()
            .all(|target| target.report.is_none() && target.state == TargetState::Waiting)
    );
    // What was never published to the new incarnation leaves no tombstone.
    adopt(&store, "x", take("a", &["x"])).await;
    assert!(store.tombstones_on(&cluster("a")).unwrap().is_empty());
    let set = store.current_set(&cluster("a")).unwrap().unwrap();
    assert!(store.mark_published(&cluster("a"), set.sequence).await.unwrap());
    adopt(&store, "y", take("a", &["y"])).await;
    assert_eq!(store.tombstones_on(&cluster("a")).unwrap().len(), 1);
    assert_eq!(store.check().unwrap(), []);
}

#[tokio::test]
async fn a_revoked_cluster_takes_nothing_new_and_forgets_without_a_tombstone() {
    let (_dir, store) = with_history().await;
    assert!(store.revoke(&cluster("a")).await.unwrap());
    let refused = store
        .adopt(&binding("w"), put("a", vec![work("w", "{}")]))
        .await
        .unwrap();
    assert_eq!(refused[0].1, Err(AdoptRefusal::NotEnrolled(cluster("a"))));
    adopt(&store, "x", take("a", &["x"])).await;
    let left = store.current_set(&cluster("a")).unwrap().unwrap().set;
    assert_eq!(
        (left.entries().len(), left.tombstones().len()),
        (1, 1),
        "z waited before"
    );
    assert_eq!(store.replace(&cluster("a")).await.unwrap(), Some(Before::Revoked));
}

#[tokio::test]
async fn a_removed_cluster_is_forgotten_and_its_numbers_are_not() {
    let (_dir, store) = with_history().await;
    let remove = async || store.remove_enrolment(&cluster("a")).await.unwrap();
    assert_eq!(remove().await, Err(RemoveRefusal::Live(cluster("a"))));
    store.revoke(&cluster("a")).await.unwrap();
    let last = store.current_set(&cluster("a")).unwrap().unwrap().sequence;
    assert_eq!(remove().await, Ok(2));
    assert_eq!(remove().await, Err(RemoveRefusal::NotEnrolled(cluster("a"))));
    assert!(store.enrolment(&cluster("a")).unwrap().is_none());
    assert_eq!(store.all_targets().unwrap(), []);
    assert!(store.is_former(&cluster("a"), PublicKey([1; 32])).unwrap());
    assert_eq!(store.check().unwrap(), []);

    with_token(&store, "a", 9).await;
    let made = store.enrol(request("a", 9, 1)).await.unwrap().unwrap();
    assert!(made.session >= Session(4));
    let empty = store.current_set(&cluster("a")).unwrap().unwrap();
    assert!(empty.sequence > last && empty.set.entries().is_empty());
    assert_eq!(store.check().unwrap(), []);
}

#[tokio::test]
async fn a_member_has_one_name() {
    let (_dir, store) = fresh(&["a"]).await;
    with_token(&store, "b", 9).await;
    let same = EnrolRequest {
        kube_system_uid: "uid-a".into(),
        ..request("b", 9, 9)
    };
    let refusal = store.enrol(same.clone()).await.unwrap().unwrap_err();
    assert_eq!(refusal, EnrolRefusal::MemberElsewhere(cluster("a")));
    assert!(refusal.to_string().contains("as cluster a"));
    store.revoke(&cluster("a")).await.unwrap();
    store.enrol(same).await.unwrap().unwrap();
}
