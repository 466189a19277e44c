//! The courier against agents that speak the real exchange and channel; the test is the gateway's place on the bus.

mod replaced;
mod set_back;

use std::time::Duration;

use hub_core::liveness::Ready;
use ring::rand::SystemRandom;
use shared::bundle::Encoding;
use shared::ids::{BootId, Digest, Incarnation, KeyNumber, ObjectKey, ReportSeq, Session};
use shared::keys::{KeyStatement, Receipt, RootPin, SignedReceipt, SigningKey};
use shared::reason::Reason;
use shared::seal::AgentExchange;
use shared::set::{DeleteMode, Entry, Head, Set, SignedHead};
use shared::time::UnixSeconds;
use shared::topics::topic;
use shared::wire::{
    Ack, Chunk, Down, Hello, Join, MemberApi, MemberNote, Report, Room, What, X2, decode_down, encode_set,
    encode_up,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::bus::RouterBus;
use crate::enroll::{TokenRequest, create_token};
use crate::gateway::Patience;
use crate::store::fleet::{Adoption, Terms};
use crate::store::{BindingRef, ResourceId};

const WAIT: Duration = Duration::from_secs(20);

struct Hub {
    store: Store,
    keys: Arc<HubKeys>,
    bus: Arc<RouterBus>,
    courier: Courier,
    presence: Arc<Presence>,
    down: Subscription,
    ended: mpsc::Sender<SessionEnded>,
    _dispatcher: JoinHandle<&'static str>,
    _dir: tempfile::TempDir,
}

fn hub_keys(store: &Store) -> HubKeys {
    let (root, signer) = (
        SigningKey::from_seed(&[1; 32]).unwrap(),
        SigningKey::from_seed(&[2; 32]).unwrap(),
    );
    let statement = KeyStatement::issue(&root, store.fleet(), KeyNumber(1), signer.public());
    HubKeys::new(root.public(), statement, signer).unwrap()
}

fn start() -> Hub {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let store = Store::open(dir.path(), clock::wall()).unwrap();
    let keys = Arc::new(hub_keys(&store));
    let (bus, _end) = RouterBus::start().unwrap();
    let bus = Arc::new(bus);
    let (gateway, _ends) = Gateway::new(bus.clone(), Patience::default());
    let presence = Arc::new(Presence::new(
        clock::monotonic(),
        hub_core::liveness::Thresholds::default(),
    ));
    let (dispatcher, courier) = Dispatcher::new(
        store.clone(),
        keys.clone(),
        bus.clone(),
        gateway,
        presence.clone(),
    );
    let (up, down) = (
        bus.subscribe(Direction::Up).unwrap(),
        bus.subscribe(Direction::Down).unwrap(),
    );
    let (ended, ends) = mpsc::channel(8);
    let dispatcher = tokio::spawn(dispatcher.run(up, ends));
    Hub {
        store,
        keys,
        bus,
        courier,
        presence,
        down,
        ended,
        _dispatcher: dispatcher,
        _dir: dir,
    }
}

fn shop() -> ClusterName {
    ClusterName::new("shop").unwrap()
}

impl Hub {
    async fn up(&self, payload: Vec<u8>) {
        let topic = topic(&shop(), Direction::Up);
        self.bus
            .publish(Direction::Up, &topic, payload.into())
            .await
            .unwrap();
    }

    async fn next_down(&mut self) -> bytes::Bytes {
        timeout(WAIT, self.down.next())
            .await
            .expect("an answer of the courier")
            .unwrap()
            .payload
    }

    async fn is_silent(&mut self) -> bool {
        timeout(Duration::from_millis(100), self.down.next())
            .await
            .is_err()
    }

    async fn connect(&mut self, identity: &SigningKey, incarnation: Option<Incarnation>) -> Agent {
        let random = SystemRandom::new();
        let (exchange, x1) = AgentExchange::start(&random, shop(), incarnation, KeyNumber(0)).unwrap();
        self.up(x1.encode()).await;
        let x2 = X2::decode(&self.next_down().await).unwrap();
        let pin = RootPin::of(&self.keys.root);
        let (x3, channel, _ring) = exchange
            .finish(&x2, &pin, Some(self.store.fleet()), identity)
            .unwrap();
        self.up(x3.encode()).await;
        Agent { channel }
    }

    async fn token(&self) -> String {
        let request = TokenRequest {
            cluster: shop(),
            terms: Terms::default(),
            life_seconds: 60,
            hub: "hub:1".to_owned(),
            root: RootPin::of(&self.keys.root),
        };
        let made = create_token(&self.store, &SystemRandom::new(), request, clock::wall()).await;
        made.unwrap().0.token.expose().to_owned()
    }

    /// Enrols and returns the receipt.
    async fn enrol(&mut self, identity: &SigningKey) -> SignedReceipt {
        let token = self.token().await;
        let mut agent = self.connect(identity, None).await;
        match agent.ask(self, join(token)).await {
            Down::Joined(joined) => joined.receipt,
            other => panic!("{other:?}"),
        }
    }

    async fn adopt(&self, name: &str) -> Sequence {
        let content: Arc<[u8]> = Arc::from(format!("{{\"name\":\"{name}\"}}").as_bytes());
        let entry = entry(name, &content);
        let adoption = Adoption {
            cluster: shop(),
            upserts: vec![(Arc::new(entry), content)],
            withdraw: vec![],
        };
        let binding = BindingRef {
            namespace: "default".to_owned(),
            name: name.to_owned(),
        };
        let adopted = self.store.adopt(&binding, vec![adoption]).await.unwrap();
        adopted.into_iter().next().unwrap().1.unwrap()
    }
}

fn entry(name: &str, content: &[u8]) -> Entry {
    Entry {
        key: ObjectKey::new("", "ConfigMap", "default", name),
        digest: Digest::of(content),
        length: content.len() as u32,
        work: format!("{name}-work"),
        template_uid: "uid".to_owned(),
        template_generation: 1,
        conflict_resolution: Default::default(),
        suspended: false,
        delete_mode: DeleteMode::Delete,
        retain_replicas: false,
        dependencies: vec![],
        labels: Default::default(),
    }
}

struct Agent {
    channel: Channel,
}

impl Agent {
    async fn say(&mut self, hub: &Hub, up: Up) {
        hub.up(self.channel.seal(&encode_up(&up)).unwrap()).await;
    }

    async fn hear(&mut self, hub: &mut Hub) -> Down {
        loop {
            let payload = hub.next_down().await;
            match decode_down(&self.channel.open(&payload).unwrap()).unwrap() {
                // Comes beside every welcome.
                Down::SealingKey(_) => {}
                down => return down,
            }
        }
    }

    async fn ask(&mut self, hub: &mut Hub, up: Up) -> Down {
        self.say(hub, up).await;
        self.hear(hub).await
    }
}

fn join(token: String) -> Up {
    Up::Join(Join {
        token,
        kube_system_uid: "u-1".to_owned(),
        agent_version: "0.1.0".to_owned(),
    })
}

fn hello(receipt: &SignedReceipt, held: Option<SignedHead>) -> Up {
    Up::Hello(Hello {
        boot: BootId([1; 16]),
        proposed_session: Session(1),
        held,
        highest_key_number: KeyNumber(1),
        receipt: receipt.clone(),
        kube_system_uid: "u-1".to_owned(),
        kubernetes_version: "v1.36.0".to_owned(),
        agent_version: "0.1.0".to_owned(),
        confirmed_time_s: UnixSeconds(0),
    })
}

fn report(seq: u64) -> Up {
    Up::Report(Report {
        report_seq: ReportSeq(seq),
        boot: BootId([1; 16]),
        objects: vec![],
        tombstones_done: vec![],
        strays: None,
        capacity: None,
        full: true,
    })
}

#[tokio::test]
async fn from_join_to_offer_acknowledgement_and_report() {
    let mut hub = start();
    let identity = SigningKey::from_seed(&[9; 32]).unwrap();
    let receipt = hub.enrol(&identity).await;
    receipt.verify(&hub.keys.ring()).unwrap();
    let incarnation = receipt.receipt.incarnation;
    assert!(
        hub.store
            .get(&ResourceId::new("cluster.karmada.io", "clusters"), "", "shop")
            .is_some()
    );

    let first = hub.adopt("first").await;
    let mut agent = hub.connect(&identity, Some(incarnation)).await;
    assert!(hub.is_silent().await, "nothing before the hello");
    match agent.ask(&mut hub, hello(&receipt, None)).await {
        Down::Welcome(welcome) => assert_eq!((welcome.session, welcome.behind), (Session(1), false)),
        other => panic!("{other:?}"),
    }
    let Down::Offer(offer) = agent.hear(&mut hub).await else {
        panic!("no offer")
    };
    assert_eq!(offer.sequence, first);
    let head = offer.head(hub.store.fleet(), shop(), incarnation);
    head.verify(&hub.keys.ring()).unwrap();
    assert_eq!(hub.store.current_set(&shop()).unwrap().unwrap().published, first);
    agent
        .say(
            &hub,
            Up::Ack(Ack {
                sequence: offer.sequence,
                digest: offer.digest,
            }),
        )
        .await;

    // A change ships at once, without any timer.
    let second = hub.adopt("second").await;
    let Down::Offer(offer) = agent.hear(&mut hub).await else {
        panic!("no offer")
    };
    assert_eq!((offer.sequence, offer.base), (second, first));
    agent
        .say(
            &hub,
            Up::Ack(Ack {
                sequence: offer.sequence,
                digest: offer.digest,
            }),
        )
        .await;
    match agent.ask(&mut hub, report(1)).await {
        Down::ReportAck(ack) => assert_eq!(ack.report_seq, ReportSeq(1)),
        other => panic!("{other:?}"),
    }
    assert_eq!(hub.store.current_set(&shop()).unwrap().unwrap().acked, second);
    let facts = hub.store.facts(&shop()).unwrap().unwrap().facts;
    assert_eq!(facts.kubernetes_version, "v1.36.0");
    assert_eq!(
        hub.presence.silent_for(&shop(), clock::monotonic()),
        Duration::ZERO
    );

    // What the agent says of its member's API becomes the condition Ready, and where there is room a fact.
    let (name, now) = (shop(), clock::monotonic());
    let look = |at| hub.presence.turn([(&name, true)], at);
    assert_eq!(look(now).first().map(|t| t.ready), Some(Ready::True));
    let note = MemberNote {
        api: MemberApi::Unreachable,
        reason: Reason::MemberUnreachable.into(),
        message: "connection refused".to_owned(),
    };
    agent.say(&hub, Up::Member(note)).await;
    let room = Room {
        more: 3,
        ..Room::default()
    };
    agent.say(&hub, Up::Room(room.clone())).await;
    match agent.ask(&mut hub, report(2)).await {
        Down::ReportAck(ack) => assert_eq!(ack.report_seq, ReportSeq(2)),
        other => panic!("{other:?}"),
    }
    let look = |at| hub.presence.turn([(&name, true)], at);
    assert_eq!(look(now.plus(1_000)), [], "a short absence is damped");
    let turned = look(now.plus(40_000));
    assert_eq!(
        turned.first().map(|t| (t.ready, t.reason)),
        Some((Ready::False, "ClusterNotReachable"))
    );
    assert_eq!(hub.store.facts(&shop()).unwrap().unwrap().facts.room, Some(room));

    let ended = SessionEnded {
        cluster: shop(),
        epochs: vec![agent.channel.epoch()],
    };
    hub.ended.send(ended).await.unwrap();
    let silent = async {
        while hub
            .presence
            .silent_for(&shop(), clock::monotonic().plus(5))
            .is_zero()
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(WAIT, silent).await.expect("a closed session is noticed");
}

#[tokio::test]
async fn refusals_are_told_and_strangers_are_not_answered() {
    let mut hub = start();
    let (identity, stranger) = (
        SigningKey::from_seed(&[9; 32]).unwrap(),
        SigningKey::from_seed(&[8; 32]).unwrap(),
    );
    let mut agent = hub.connect(&identity, None).await;
    match agent.ask(&mut hub, join("wrong".to_owned())).await {
        Down::JoinRefused(refused) => assert_eq!(refused.reason, Reason::TokenRefused.into()),
        other => panic!("{other:?}"),
    }
    // The same channel may try again with the right token.
    let token = hub.token().await;
    let Down::Joined(joined) = agent.ask(&mut hub, join(token)).await else {
        panic!("not enrolled")
    };
    let receipt = joined.receipt;

    let mut other = hub.connect(&stranger, Some(receipt.receipt.incarnation)).await;
    other.say(&hub, hello(&receipt, None)).await;
    assert!(hub.is_silent().await, "the right receipt with the wrong key");

    let mut good = hub.connect(&identity, Some(receipt.receipt.incarnation)).await;
    let frame = good.channel.seal(&encode_up(&hello(&receipt, None))).unwrap();
    hub.up(frame.clone()).await;
    assert!(matches!(good.hear(&mut hub).await, Down::Welcome(_)));
    let beside = good.channel.open(&hub.next_down().await).unwrap();
    assert!(matches!(decode_down(&beside).unwrap(), Down::SealingKey(_)));
    hub.up(frame).await;
    assert!(hub.is_silent().await, "a repeated frame");

    assert!(hub.store.revoke(&shop()).await.unwrap());
    assert!(matches!(good.hear(&mut hub).await, Down::Revoked(_)));
    let mut again = hub.connect(&identity, Some(receipt.receipt.incarnation)).await;
    assert!(matches!(
        again.ask(&mut hub, hello(&receipt, None)).await,
        Down::Revoked(_)
    ));
}

#[tokio::test]
async fn a_hub_that_forgot_everything_asks_before_it_ships() {
    let mut hub = start();
    let identity = SigningKey::from_seed(&[9; 32]).unwrap();
    // What an earlier life of this hub, with the same keys, had signed.
    let receipt = Receipt {
        fleet: hub.store.fleet(),
        cluster: shop(),
        incarnation: Incarnation([5; 16]),
        identity: identity.public(),
        kube_system_uid: "u-1".to_owned(),
        labels: Default::default(),
        provider: String::new(),
        region: String::new(),
        zones: vec![],
    }
    .sign(&hub.keys);
    let held = Set::new(vec![Arc::new(entry("old", b"{}"))], vec![]).unwrap();
    let head = Head {
        fleet: hub.store.fleet(),
        cluster: shop(),
        incarnation: Incarnation([5; 16]),
        sequence: Sequence(7),
        digest: held.digest(),
        key_number: KeyNumber(1),
    }
    .sign(&hub.keys);

    let mut agent = hub.connect(&identity, Some(Incarnation([5; 16]))).await;
    match agent.ask(&mut hub, hello(&receipt, Some(head))).await {
        Down::Welcome(welcome) => assert!(welcome.behind),
        other => panic!("{other:?}"),
    }
    let Down::Ask(ask) = agent.hear(&mut hub).await else {
        panic!("no question")
    };
    assert_eq!(ask.what, What::Set(Sequence(7)));
    assert!(
        hub.courier
            .push_hub(&shop(), hub_core::ship::Winner::Hub)
            .await
            .is_err(),
        "what the member holds is not known yet"
    );
    let bytes = encode_set(&held);
    let total = bytes.len() as u32;
    let (encoding, sha256) = (Encoding::Raw, Digest::of(&bytes));
    let chunk = Chunk {
        what: ask.what,
        offset: 0,
        total,
        sha256,
        encoding,
        length: total,
        descriptor: None,
        bytes,
    };
    agent.say(&hub, Up::Held(chunk)).await;
    let fetched = async {
        while hub
            .store
            .held(&shop())
            .unwrap()
            .is_none_or(|held| held.set.is_none())
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(WAIT, fetched).await.expect("the held set is stored");
    let sequence = hub
        .courier
        .push_hub(&shop(), hub_core::ship::Winner::Hub)
        .await
        .unwrap();
    assert!(sequence > Sequence(7), "above both sides");
    let Down::Offer(offer) = agent.hear(&mut hub).await else {
        panic!("no offer")
    };
    assert_eq!(offer.sequence, sequence);
    let set = hub.store.current_set(&shop()).unwrap().unwrap().set;
    assert!(set.entries().is_empty() && set.tombstones().len() == 1);
}
