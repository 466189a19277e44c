//! A hub that was set back while a set of before was on its way to the agent.

use super::*;

#[tokio::test]
async fn a_set_of_before_that_is_acknowledged_shows_that_the_hub_is_behind() {
    let mut hub = start();
    let identity = SigningKey::from_seed(&[9; 32]).unwrap();
    let receipt = hub.enrol(&identity).await;
    let incarnation = receipt.receipt.incarnation;
    let first = hub.adopt("first").await;
    let mut agent = hub.connect(&identity, Some(incarnation)).await;
    assert!(matches!(
        agent.ask(&mut hub, hello(&receipt, None)).await,
        Down::Welcome(_)
    ));
    assert!(matches!(agent.hear(&mut hub).await, Down::Offer(_)));

    // Of the same number as the hub's, and with other content.
    let held = Set::new(vec![Arc::new(entry("of-before", b"{}"))], vec![]).unwrap();
    let head = Head {
        fleet: hub.store.fleet(),
        cluster: shop(),
        incarnation,
        sequence: first,
        digest: held.digest(),
        key_number: KeyNumber(1),
    }
    .sign(&hub.keys);
    let ack = Ack {
        sequence: first,
        digest: held.digest(),
    };
    agent.say(&hub, Up::Ack(ack)).await;
    agent.say(&hub, report(1)).await;
    assert!(hub.is_silent().await, "the conversation is over");
    assert!(
        hub.store.held(&shop()).unwrap().is_none(),
        "nothing is believed without a signature"
    );

    let mut agent = hub.connect(&identity, Some(incarnation)).await;
    match agent.ask(&mut hub, hello(&receipt, Some(head))).await {
        Down::Welcome(welcome) => assert!(welcome.behind),
        other => panic!("{other:?}"),
    }
    match agent.hear(&mut hub).await {
        Down::Ask(ask) => assert_eq!(ask.what, What::Set(first)),
        other => panic!("{other:?}"),
    }
    hub.adopt("second").await;
    assert!(
        hub.is_silent().await,
        "nothing is shipped before somebody decides"
    );
}
