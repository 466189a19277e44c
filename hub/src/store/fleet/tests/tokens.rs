use super::super::tokens::id_of;
use super::*;

#[tokio::test]
async fn open_tokens_are_listed_and_taken_back_at_once() {
    let (_dir, store) = fresh(&["used"]).await;
    for (name, token) in [("shop", 7), ("bank", 8)] {
        with_token(&store, name, token).await;
    }
    let listed = |now| -> Vec<(String, bool)> {
        let tokens = store.open_tokens(now).unwrap();
        tokens.iter().map(|t| (t.cluster.to_string(), t.used)).collect()
    };
    let all = [("bank", false), ("shop", false), ("used", true)].map(|(name, used)| (name.to_owned(), used));
    assert_eq!(listed(NOW), all);
    assert_eq!(listed(NOW.plus(60)), [], "an expired one is open no longer");
    let shop = store.open_tokens(NOW).unwrap().remove(1);
    assert_eq!((shop.created, shop.expires), (Some(NOW), NOW.plus(60)));
    assert_eq!(shop.id, id_of(&Digest([7; 32])));

    assert_eq!(store.revoke_token("0123456789ab").await.unwrap(), None);
    assert_eq!(store.revoke_token(&shop.id).await.unwrap(), Some(cluster("shop")));
    assert_eq!(store.revoke_token(&shop.id).await.unwrap(), None);
    let refused = store.enrol(request("shop", 7, 9)).await.unwrap();
    assert_eq!(refused, Err(EnrolRefusal::TokenUnknown));
    // Who joined with a token stays enrolled when it is taken back.
    let used = id_of(&Digest([1; 32]));
    assert_eq!(store.revoke_token(&used).await.unwrap(), Some(cluster("used")));
    assert!(!store.enrolment(&cluster("used")).unwrap().unwrap().revoked);
    assert_eq!(listed(NOW), [("bank".to_owned(), false)]);
}
