//! An agent whose place another one takes.

use super::*;

#[tokio::test]
async fn a_replaced_agent_is_told_so_and_its_successor_is_served() {
    let mut hub = start();
    let old = SigningKey::from_seed(&[9; 32]).unwrap();
    let first = hub.enrol(&old).await;
    let works = hub.adopt("first").await;
    let mut agent = hub.connect(&old, Some(first.receipt.incarnation)).await;
    assert!(matches!(
        agent.ask(&mut hub, hello(&first, None)).await,
        Down::Welcome(_)
    ));
    assert!(matches!(agent.hear(&mut hub).await, Down::Offer(_)));
    assert!(hub.store.replace(&shop()).await.unwrap().is_some());
    assert!(matches!(agent.hear(&mut hub).await, Down::Revoked(_)), "at once");

    let new = SigningKey::from_seed(&[8; 32]).unwrap();
    let second = hub.enrol(&new).await;
    assert_ne!(first.receipt.incarnation, second.receipt.incarnation);
    let mut again = hub.connect(&old, Some(first.receipt.incarnation)).await;
    assert!(matches!(
        again.ask(&mut hub, hello(&first, None)).await,
        Down::Revoked(_)
    ));
    let mut agent = hub.connect(&new, Some(second.receipt.incarnation)).await;
    match agent.ask(&mut hub, hello(&second, None)).await {
        Down::Welcome(welcome) => assert!(!welcome.behind),
        other => panic!("{other:?}"),
    }
    let Down::Offer(offer) = agent.hear(&mut hub).await else {
        panic!("no offer")
    };
    assert!(offer.sequence > works, "the works go on above what was");
}

#[tokio::test]
async fn a_removed_agent_is_not_listed_again_from_its_receipt() {
    let mut hub = start();
    let identity = SigningKey::from_seed(&[9; 32]).unwrap();
    let receipt = hub.enrol(&identity).await;
    assert!(hub.store.revoke(&shop()).await.unwrap());
    assert!(hub.store.remove_enrolment(&shop()).await.unwrap().is_ok());
    let mut agent = hub.connect(&identity, Some(receipt.receipt.incarnation)).await;
    assert!(matches!(
        agent.ask(&mut hub, hello(&receipt, None)).await,
        Down::Revoked(_)
    ));
    assert!(hub.store.enrolment(&shop()).unwrap().is_none());
}
