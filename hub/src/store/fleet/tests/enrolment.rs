//! Who may join, and which session counts.

use super::*;

#[tokio::test]
async fn a_token_enrols_one_key_under_its_name() {
    let (_dir, store) = fresh(&[]).await;
    with_token(&store, "a", 1).await;
    let enrol = async |request: EnrolRequest| store.enrol(request).await.unwrap();
    assert_eq!(
        enrol(request("a", 9, 1)).await.unwrap_err(),
        EnrolRefusal::TokenUnknown
    );
    assert_eq!(
        enrol(request("b", 1, 1)).await.unwrap_err(),
        EnrolRefusal::TokenOfOther(cluster("a"))
    );
    let late = EnrolRequest {
        now: NOW.plus(60),
        ..request("a", 1, 1)
    };
    assert_eq!(enrol(late).await.unwrap_err(), EnrolRefusal::TokenExpired);
    let made = enrol(request("a", 1, 1)).await.unwrap();
    assert_eq!(
        (made.terms.region.as_str(), made.incarnation),
        ("eu", Incarnation([1; 16]))
    );
    let again = EnrolRequest {
        incarnation: Incarnation([7; 16]),
        ..request("a", 1, 1)
    };
    assert_eq!(enrol(again).await.unwrap(), made, "a lost answer burns nothing");
    assert_eq!(
        enrol(request("a", 1, 2)).await.unwrap_err(),
        EnrolRefusal::TokenUsed
    );
    with_token(&store, "a", 2).await;
    assert_eq!(
        enrol(request("a", 2, 2)).await.unwrap_err(),
        EnrolRefusal::NameTaken(cluster("a"))
    );
    let other = EnrolRequest {
        kube_system_uid: "other".into(),
        ..request("a", 2, 2)
    };
    assert_eq!(
        enrol(other).await.unwrap_err(),
        EnrolRefusal::OtherCluster {
            cluster: cluster("a"),
            uid: "uid-a".into()
        }
    );
    assert!(store.revoke(&cluster("a")).await.unwrap());
    assert_eq!(
        enrol(request("a", 1, 1)).await.unwrap_err(),
        EnrolRefusal::Revoked(cluster("a"))
    );
    assert!(!store.revoke(&cluster("a")).await.unwrap());
}

#[tokio::test]
async fn sessions_only_rise() {
    let (_dir, store) = fresh(&["a"]).await;
    let begin = async |boot: u8, proposed: u64| {
        store
            .begin_session(&cluster("a"), BootId([boot; 16]), Session(proposed), NOW)
            .await
            .unwrap()
            .unwrap()
    };
    let first = begin(1, 1).await;
    assert_eq!(
        (first.session, first.known_boot, first.went_back),
        (Session(1), false, false)
    );
    let again = begin(1, 1).await;
    assert_eq!(
        (again.session, again.known_boot, again.boots.len()),
        (Session(1), true, 1)
    );
    let second = begin(2, 9).await;
    assert_eq!((second.session, second.went_back), (Session(9), false));
    let restored = begin(3, 2).await;
    assert_eq!((restored.session, restored.went_back), (Session(10), true));
    let clone = begin(2, 10).await;
    assert_eq!(
        (clone.session, clone.known_boot),
        (Session(11), false),
        "an older life gets a new number"
    );
    assert_eq!(clone.boots.len(), 4);
    assert!(
        store
            .begin_session(&cluster("x"), BootId([1; 16]), Session(1), NOW)
            .await
            .unwrap()
            .is_none()
    );
}
