//! The gateway against real clients over TLS, and against peers that misbehave.

use std::net::SocketAddr;
use std::time::Duration;

use rumqttc::mqttbytes::QoS;
use rumqttc::{
    AsyncClient, Connect, Event, EventLoop, MqttOptions, Packet, PubAck, Publish, Subscribe,
    SubscribeReasonCode, TlsConfiguration, Transport,
};
use rustls::{ClientConfig, RootCertStore};
use shared::ids::{ExchangeId, FleetId};
use shared::time::UnixSeconds;
use shared::topics::Direction;
use shared::wire::{Kind, write_envelope};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::bus::RouterBus;
use crate::keys::{Keys, Settings, certificate_der};
use crate::listen::Listener;

const WAIT: Duration = Duration::from_secs(20);

/// A gateway with its bus; the test plays the courier.
struct Hub {
    gateway: Gateway,
    bus: Arc<RouterBus>,
    up: Subscription,
    ends: mpsc::Receiver<SessionEnded>,
}

impl Hub {
    fn start(patience: Patience) -> Self {
        let (bus, _end) = RouterBus::start().unwrap();
        let bus = Arc::new(bus);
        let (gateway, ends) = Gateway::new(bus.clone(), patience);
        let (up, down) = (
            bus.subscribe(Direction::Up).unwrap(),
            bus.subscribe(Direction::Down).unwrap(),
        );
        tokio::spawn({
            let gateway = gateway.clone();
            async move { gateway.route(down).await }
        });
        Self {
            gateway,
            bus,
            up,
            ends,
        }
    }

    async fn send(&self, cluster: &str, payload: Vec<u8>) {
        let topic = format!("pinnace/1/{cluster}/d");
        self.bus
            .publish(Direction::Down, &topic, payload.into())
            .await
            .unwrap();
    }

    async fn next(&mut self) -> Delivery {
        timeout(WAIT, self.up.next())
            .await
            .expect("a message for the courier")
            .unwrap()
    }

    /// A raw peer on an in-memory connection of `buffer` bytes.
    fn connect(&self, buffer: usize) -> (DuplexStream, JoinHandle<CloseReason>) {
        let (client, server) = tokio::io::duplex(buffer);
        let gateway = self.gateway.clone();
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        (
            client,
            tokio::spawn(async move { gateway.serve(server, peer).await }),
        )
    }
}

fn frame(epoch: u8, body: usize) -> Vec<u8> {
    let mut bytes = vec![epoch; 8];
    bytes.resize(8 + body, 0xee);
    write_envelope(Kind::Frame, &bytes)
}

async fn ended(session: JoinHandle<CloseReason>) -> CloseReason {
    timeout(WAIT, session).await.expect("the session ends").unwrap()
}

async fn write(stream: &mut DuplexStream, packet: Packet) {
    let mut buffer = BytesMut::new();
    packet.write(&mut buffer, 1 << 20).unwrap();
    // An error means that the gateway closed; the test asks it why.
    drop(stream.write_all(&buffer).await);
}

async fn read(stream: &mut DuplexStream, buffer: &mut BytesMut) -> Packet {
    loop {
        if let Ok(packet) = Packet::read(buffer, 1 << 20) {
            return packet;
        }
        let read = timeout(WAIT, stream.read_buf(buffer))
            .await
            .expect("a packet")
            .unwrap();
        assert!(read > 0, "closed while a packet was expected");
    }
}

/// CONNECT and SUBSCRIBE as cluster `shop`, with QoS 1.
async fn subscribe(stream: &mut DuplexStream, keep_alive: u16) -> BytesMut {
    let mut buffer = BytesMut::new();
    let mut connect = Connect::new("shop");
    connect.keep_alive = keep_alive;
    write(stream, Packet::Connect(connect)).await;
    assert!(
        matches!(read(stream, &mut buffer).await, Packet::ConnAck(ack) if ack.code == ConnectReturnCode::Success)
    );
    let mut subscribe = Subscribe::new("pinnace/1/shop/d", QoS::AtLeastOnce);
    subscribe.pkid = 1;
    write(stream, Packet::Subscribe(subscribe)).await;
    assert!(matches!(read(stream, &mut buffer).await, Packet::SubAck(_)));
    buffer
}

async fn publish(stream: &mut DuplexStream, topic: &str, payload: Vec<u8>) {
    let mut publish = Publish::new(topic, QoS::AtLeastOnce, payload);
    publish.pkid = 9;
    write(stream, Packet::Publish(publish)).await;
}

/// Makes the raw peer's connection the proven one of its cluster.
async fn prove(hub: &mut Hub, stream: &mut DuplexStream, buffer: &mut BytesMut, epoch: u8) {
    publish(stream, "pinnace/1/shop/u", frame(epoch, 16)).await;
    assert!(matches!(read(stream, buffer).await, Packet::PubAck(ack) if ack.pkid == 9));
    hub.next().await;
    hub.send("shop", frame(epoch, 16)).await;
    match read(stream, buffer).await {
        Packet::Publish(publish) => write(stream, Packet::PubAck(PubAck::new(publish.pkid))).await,
        other => panic!("{other:?}"),
    }
}

/// TLS, ALPN `mqtt` and rumqttc, as the agent has it.
struct Tls {
    hub: Hub,
    address: SocketAddr,
    client: Arc<ClientConfig>,
    _stop: watch::Sender<bool>,
    _dir: tempfile::TempDir,
}

fn tls() -> Tls {
    let dir = tempfile::tempdir().unwrap();
    let now = UnixSeconds(crate::clock::wall().0);
    let settings = Settings::new(vec![], "127.0.0.1:0".parse().unwrap());
    Keys::create(dir.path(), FleetId([1; 16]), &settings, now).unwrap();
    let keys = Keys::load(dir.path(), FleetId([1; 16])).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &keys, now).unwrap();
    let address = listener.address().unwrap();
    let hub = Hub::start(Patience::default());
    let (stop, stopped) = watch::channel(false);
    let http: crate::listen::ServeHttp = Arc::new(|_, _, _| Box::pin(async {}));
    tokio::spawn(listener.run(hub.gateway.clone(), http, stopped));
    let mut roots = RootCertStore::empty();
    roots.add(certificate_der(keys.ca_pem()).unwrap()).unwrap();
    let mut client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"mqtt".to_vec()];
    Tls {
        hub,
        address,
        client: Arc::new(client),
        _stop: stop,
        _dir: dir,
    }
}

impl Tls {
    fn agent(&self, cluster: &str) -> (AsyncClient, EventLoop) {
        let mut options = MqttOptions::new(cluster, "localhost", self.address.port());
        options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(
            self.client.clone(),
        )));
        options.set_max_packet_size(1 << 20, 1 << 20);
        AsyncClient::new(options, 16)
    }
}

/// Polls until a publish arrives, or says how the connection ended.
async fn receive(events: &mut EventLoop) -> Result<Publish, String> {
    loop {
        match timeout(WAIT, events.poll()).await.expect("an event") {
            Ok(Event::Incoming(Packet::Publish(publish))) => return Ok(publish),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[tokio::test]
async fn an_agent_talks_over_tls_and_a_newer_one_takes_over_only_when_proven() {
    let mut tls = tls();
    let (old, mut old_events) = tls.agent("shop");
    old.try_subscribe("pinnace/1/shop/d", QoS::AtLeastOnce).unwrap();
    let x1 = write_envelope(Kind::X1, &[7; 40]);
    old.try_publish("pinnace/1/shop/u", QoS::AtLeastOnce, false, x1.clone())
        .unwrap();
    let old_task = tokio::spawn(async move { (receive(&mut old_events).await, old_events) });
    let delivery = tls.hub.next().await;
    assert_eq!(
        (delivery.topic.as_str(), &delivery.payload[..]),
        ("pinnace/1/shop/u", &x1[..])
    );
    drop(delivery);
    tls.hub.send("shop", write_envelope(Kind::X2, &[7; 60])).await;
    let (answer, mut old_events) = old_task.await.unwrap();
    assert_eq!(
        &answer.unwrap().payload[..],
        &write_envelope(Kind::X2, &[7; 60])[..]
    );
    assert_eq!(tls.hub.gateway.counts().proven, 0);

    old.try_publish("pinnace/1/shop/u", QoS::AtLeastOnce, false, frame(1, 100))
        .unwrap();
    let old_task = tokio::spawn(async move { (receive(&mut old_events).await, old_events) });
    tls.hub.next().await;
    tls.hub.send("shop", frame(1, 200_000)).await;
    let (answer, mut old_events) = old_task.await.unwrap();
    assert_eq!(answer.unwrap().payload.len(), frame(1, 200_000).len());
    assert_eq!(tls.hub.gateway.counts().proven, 1);

    // A second connection of the same name, unproven: the first goes on.
    let (new, mut new_events) = tls.agent("shop");
    new.try_subscribe("pinnace/1/shop/d", QoS::AtLeastOnce).unwrap();
    new.try_publish("pinnace/1/shop/u", QoS::AtLeastOnce, false, frame(2, 100))
        .unwrap();
    let new_task = tokio::spawn(async move { receive(&mut new_events).await });
    tls.hub.next().await;
    let old_task = tokio::spawn(async move { (receive(&mut old_events).await, old_events) });
    tls.hub.send("shop", frame(1, 10)).await;
    let (answer, mut old_events) = old_task.await.unwrap();
    answer.expect("the older session lives while the newer one is unproven");

    let old_task = tokio::spawn(async move { receive(&mut old_events).await });
    tls.hub.send("shop", frame(2, 10)).await;
    new_task.await.unwrap().expect("the newer session is proven");
    old_task
        .await
        .unwrap()
        .expect_err("the older session was taken over");
    assert_eq!(tls.hub.gateway.counts().proven, 1);
    assert!(
        tls.hub.ends.try_recv().is_err(),
        "the cluster never lost its session"
    );
}

#[tokio::test]
async fn a_silent_tls_peer_hinders_nobody() {
    let tls = tls();
    let silent = tokio::net::TcpStream::connect(tls.address).await.unwrap();
    let (agent, mut events) = tls.agent("shop");
    agent.try_subscribe("pinnace/1/shop/d", QoS::AtLeastOnce).unwrap();
    loop {
        if let Event::Incoming(Packet::SubAck(ack)) = timeout(WAIT, events.poll()).await.unwrap().unwrap() {
            assert_eq!(ack.return_codes, [SubscribeReasonCode::Success(QoS::AtLeastOnce)]);
            break;
        }
    }
    drop(silent);
}

#[tokio::test]
async fn the_first_packet_is_a_small_connect_or_the_end() {
    let hub = Hub::start(Patience {
        connect: Duration::from_millis(50),
        ..Patience::default()
    });
    let (_silent, session) = hub.connect(1_024);
    assert_eq!(ended(session).await, CloseReason::Protocol("no CONNECT in time"));

    let (mut large, session) = hub.connect(1_024);
    let mut connect = Connect::new("shop");
    connect.set_login("x".repeat(5_000), "");
    write(&mut large, Packet::Connect(connect)).await;
    assert_eq!(
        ended(session).await,
        CloseReason::Protocol("CONNECT is larger than 4 KiB")
    );

    let (mut other, session) = hub.connect(1_024);
    write(&mut other, Packet::PingReq).await;
    assert_eq!(
        ended(session).await,
        CloseReason::Protocol("the first packet is no CONNECT")
    );

    let (mut misnamed, session) = hub.connect(1_024);
    write(&mut misnamed, Packet::Connect(Connect::new("Not/A/Cluster"))).await;
    let answer = read(&mut misnamed, &mut BytesMut::new()).await;
    assert!(matches!(answer, Packet::ConnAck(ack) if ack.code == ConnectReturnCode::BadClientId));
    assert!(matches!(ended(session).await, CloseReason::Protocol(_)));
    assert_eq!(hub.gateway.counts().unproven, 0);
}

#[tokio::test]
async fn an_agent_reads_and_writes_only_its_own_topics() {
    let mut hub = Hub::start(Patience::default());
    let (mut stream, session) = hub.connect(64 * 1_024);
    let mut buffer = subscribe(&mut stream, 60).await;
    for filter in ["pinnace/1/bank/d", "pinnace/1/+/d", "#", "pinnace/1/shop/u"] {
        let mut subscribe = Subscribe::new(filter, QoS::AtLeastOnce);
        subscribe.pkid = 3;
        write(&mut stream, Packet::Subscribe(subscribe)).await;
        match read(&mut stream, &mut buffer).await {
            Packet::SubAck(ack) => assert_eq!(ack.return_codes, [SubscribeReasonCode::Failure], "{filter}"),
            other => panic!("{other:?}"),
        }
    }
    write(&mut stream, Packet::PingReq).await;
    assert_eq!(read(&mut stream, &mut buffer).await, Packet::PingResp);
    publish(&mut stream, "pinnace/1/shop/u", b"not an envelope".to_vec()).await;
    assert!(matches!(read(&mut stream, &mut buffer).await, Packet::PubAck(_)));
    publish(&mut stream, "pinnace/1/bank/u", frame(1, 1)).await;
    assert!(matches!(ended(session).await, CloseReason::Protocol(_)));
    assert_eq!(hub.gateway.counts().not_an_envelope, 1);
    hub.send("bank", frame(1, 1)).await;
    assert!(
        timeout(Duration::from_millis(20), hub.up.next()).await.is_err(),
        "nothing reached the bus"
    );
}

#[tokio::test]
async fn an_unproven_connection_has_little_time_and_few_bytes() {
    let hub = Hub::start(Patience {
        unproven: Duration::from_millis(100),
        ..Patience::default()
    });
    let (mut slow, session) = hub.connect(64 * 1_024);
    subscribe(&mut slow, 60).await;
    assert_eq!(ended(session).await, CloseReason::UnprovenTooLong);

    let hub = Hub::start(Patience::default());
    let (mut chatty, session) = hub.connect(64 * 1_024);
    subscribe(&mut chatty, 60).await;
    for _ in 0..5 {
        publish(&mut chatty, "pinnace/1/shop/u", frame(1, 1_000)).await;
    }
    assert_eq!(ended(session).await, CloseReason::UnprovenBytes);
}

#[tokio::test]
async fn silence_beyond_the_keepalive_ends_the_session_and_the_courier_hears_of_it() {
    let mut hub = Hub::start(Patience::default());
    let (mut stream, session) = hub.connect(64 * 1_024);
    let mut buffer = subscribe(&mut stream, 1).await;
    prove(&mut hub, &mut stream, &mut buffer, 1).await;
    assert_eq!(ended(session).await, CloseReason::KeepaliveMissed);
    let end = timeout(WAIT, hub.ends.recv()).await.unwrap().unwrap();
    assert_eq!((end.cluster.as_str(), end.epochs), ("shop", vec![Epoch([1; 8])]));
}

#[tokio::test]
async fn a_slow_reader_is_dropped_and_delays_no_other() {
    let mut hub = Hub::start(Patience {
        write: Duration::from_millis(300),
        ..Patience::default()
    });
    let (mut stuck, session) = hub.connect(4 * 1_024);
    let mut buffer = subscribe(&mut stuck, 60).await;
    prove(&mut hub, &mut stuck, &mut buffer, 1).await;
    // Far more than a session may queue; the bus still takes all of it at once.
    for _ in 0..40 {
        timeout(WAIT, hub.send("shop", frame(1, 100_000)))
            .await
            .expect("the bus does not wait for one agent");
    }
    assert_eq!(ended(session).await, CloseReason::SlowReader);
    assert!(hub.gateway.counts().queue_full > 0);
    assert_eq!(hub.gateway.counts().proven, 0);
}

#[tokio::test]
async fn a_window_without_pubacks_ends_the_session() {
    let mut hub = Hub::start(Patience {
        puback: Duration::from_millis(200),
        ..Patience::default()
    });
    let (mut stream, session) = hub.connect(1024 * 1_024);
    let mut buffer = subscribe(&mut stream, 60).await;
    prove(&mut hub, &mut stream, &mut buffer, 1).await;
    for _ in 0..=limits::INFLIGHT_PUBLISHES {
        hub.send("shop", frame(1, 10)).await;
    }
    for _ in 0..limits::INFLIGHT_PUBLISHES {
        assert!(matches!(read(&mut stream, &mut buffer).await, Packet::Publish(_)));
    }
    assert_eq!(ended(session).await, CloseReason::SlowReader);
}

#[tokio::test]
async fn revocation_closes_every_connection_of_the_cluster() {
    let mut hub = Hub::start(Patience::default());
    let (mut stream, session) = hub.connect(64 * 1_024);
    let mut buffer = subscribe(&mut stream, 60).await;
    prove(&mut hub, &mut stream, &mut buffer, 1).await;
    hub.gateway
        .disconnect(&ClusterName::new("bank").unwrap(), CloseReason::Revoked);
    hub.gateway
        .disconnect(&ClusterName::new("shop").unwrap(), CloseReason::Revoked);
    assert_eq!(ended(session).await, CloseReason::Revoked);
    let id = ExchangeId([9; 32]);
    hub.send("shop", write_envelope(Kind::X2, &id.0)).await;
    hub.send("shop", write_envelope(Kind::Frame, &Epoch([1; 8]).0))
        .await;
    while hub.gateway.counts().no_connection < 2 {
        tokio::task::yield_now().await;
    }
}
