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

#[tokio::test]
async fn a_hub_from_before_a_replacement_names_the_fix_and_takes_the_successor_back() {
    let mut hub = start();
    let old = SigningKey::from_seed(&[9; 32]).unwrap();
    let first = hub.enrol(&old).await;
    hub.adopt("first").await;
    // What this hub signed for the successor, before it was set back.
    let new = SigningKey::from_seed(&[8; 32]).unwrap();
    let incarnation = Incarnation([5; 16]);
    let receipt = Receipt {
        incarnation,
        identity: new.public(),
        ..first.receipt.clone()
    }
    .sign(&hub.keys);
    let held = Set::new(vec![Arc::new(entry("of-before", b"{}"))], vec![]).unwrap();
    let head = Head {
        fleet: hub.store.fleet(),
        cluster: shop(),
        incarnation,
        sequence: Sequence(40),
        digest: held.digest(),
        key_number: KeyNumber(1),
    }
    .sign(&hub.keys);

    let mut agent = hub.connect(&new, Some(incarnation)).await;
    match agent.ask(&mut hub, hello(&receipt, Some(head.clone()))).await {
        Down::JoinRefused(refused) => {
            assert_eq!(refused.reason, Reason::UnknownIdentity.into());
            assert!(
                refused.detail.contains("pinnace cluster replace shop"),
                "{}",
                refused.detail
            );
        }
        other => panic!("{other:?}"),
    }
    // Nothing is decided by that: the agent that this hub knows is still served.
    let mut former = hub.connect(&old, Some(first.receipt.incarnation)).await;
    assert!(matches!(
        former.ask(&mut hub, hello(&first, None)).await,
        Down::Welcome(_)
    ));
    assert!(matches!(former.hear(&mut hub).await, Down::Offer(_)));

    assert!(hub.store.replace(&shop()).await.unwrap().is_some());
    assert!(matches!(former.hear(&mut hub).await, Down::Revoked(_)));
    let mut agent = hub.connect(&new, Some(incarnation)).await;
    match agent.ask(&mut hub, hello(&receipt, Some(head))).await {
        Down::Welcome(welcome) => assert!(welcome.behind, "nothing is shipped before somebody decides"),
        other => panic!("{other:?}"),
    }
    let enrolment = hub.store.enrolment(&shop()).unwrap().unwrap();
    assert_eq!((enrolment.identity, enrolment.open), (new.public(), false));
    assert!(hub.store.is_former(&shop(), old.public()).unwrap());
    assert_eq!(hub.store.targets_on(&shop()).unwrap().len(), 1, "its works stay");
}
