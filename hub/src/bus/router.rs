//! The embedded bus: rumqttd's router in this process, reached over its local links, without a listener.
//!
//! Its log drops the oldest entries when full and its local links are QoS 0, so [`Pool`]s of credit keep
//! what is in flight below half of the log. Inside the router there is one topic per direction and the full
//! topic travels in front of the payload: the router remembers every topic it has ever seen, and an
//! unauthenticated peer may claim any cluster name. The copy this costs also keeps a logged message from
//! holding a whole read buffer of the gateway.
//!
//! The links block, so each end has its own thread. When the router's thread ends, links fail, and
//! [`RouterEnd`] resolves: the process must end then.

use std::sync::{Arc, Mutex};
use std::thread;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::future::BoxFuture;
use rumqttd::local::{LinkBuilder, LinkRx, LinkTx};
use rumqttd::{Notification, Router, RouterConfig};
use shared::topics::Direction;
use tokio::sync::{mpsc, oneshot};

use super::credit::Pool;
use super::{Bus, BusError, Delivery, Subscription};
use crate::limits;

/// Resolves when the router or one of its links has ended, with the reason.
pub type RouterEnd = oneshot::Receiver<String>;

/// The embedded bus.
#[derive(Debug)]
pub struct RouterBus {
    up: Lane,
    down: Lane,
}

/// One direction: its credit, the queue of its publishing thread, and the stream of its receiving thread
/// until somebody asks for it.
#[derive(Debug)]
struct Lane {
    pool: Pool,
    publish: mpsc::Sender<Bytes>,
    subscription: Mutex<Option<Subscription>>,
}

/// Makes a link; the type of the router's sender is not exported, so it lives inside a closure.
type Links<'a> = &'a dyn Fn(&str) -> Result<(LinkTx, LinkRx), BusError>;

impl RouterBus {
    /// Starts the router and the publishing threads.
    pub fn start() -> Result<(Self, RouterEnd), BusError> {
        let router = Router::new(
            0,
            RouterConfig {
                max_connections: limits::ROUTER_LINKS,
                max_outgoing_packet_count: limits::ROUTER_READ_MESSAGES,
                max_segment_size: limits::ROUTER_SEGMENT_BYTES,
                max_segment_count: limits::ROUTER_SEGMENTS,
                ..RouterConfig::default()
            },
        )
        .spawn();
        let links = |name: &str| {
            LinkBuilder::new(name, router.clone())
                .build()
                .map(|(tx, rx, _ack)| (tx, rx))
                .map_err(|error| BusError::Router(error.to_string()))
        };
        let (ended, end) = oneshot::channel();
        let signal = Arc::new(EndSignal(Mutex::new(Some(ended))));
        let up = Lane::start("u", &links, &signal)?;
        let down = Lane::start("d", &links, &signal)?;
        Ok((Self { up, down }, end))
    }

    fn lane(&self, direction: Direction) -> &Lane {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

impl Bus for RouterBus {
    fn publish<'a>(
        &'a self,
        direction: Direction,
        topic: &'a str,
        payload: Bytes,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(async move {
            let message = frame(topic, &payload)?;
            let lane = self.lane(direction);
            let credit = lane.pool.take(cost(&message)).await;
            // Given back at the other end, from the message's own length.
            credit.into_bytes();
            lane.publish
                .send(message)
                .await
                .map_err(|_closed| BusError::Ended)
        })
    }

    fn subscribe(&self, direction: Direction) -> Result<Subscription, BusError> {
        let mut slot = self
            .lane(direction)
            .subscription
            .lock()
            .map_err(|_poisoned| BusError::Ended)?;
        slot.take().ok_or(BusError::AlreadySubscribed(direction))
    }
}

impl Lane {
    /// Subscribes before anything can be published: a message that nobody takes would keep its credit.
    fn start(topic: &'static str, links: Links<'_>, end: &Arc<EndSignal>) -> Result<Self, BusError> {
        let pool = Pool::new(limits::BUS_CREDIT_BYTES);
        let subscription = receive_on(topic, links, &pool, end.clone())?;
        let (mut tx, rx) = links(&format!("publish-{topic}"))?;
        let (publish, mut queue) = mpsc::channel::<Bytes>(limits::BUS_QUEUE_MESSAGES);
        let end = end.clone();
        spawn(&format!("bus-{topic}-tx"), move || {
            // The receiving half of this link stays alive, unused, as long as the sending half.
            let _unused = rx;
            while let Some(message) = queue.blocking_recv() {
                if let Err(error) = tx.publish(topic, message) {
                    end.raise(format!("the router took no message: {error}"));
                    return;
                }
            }
        })?;
        Ok(Self {
            pool,
            publish,
            subscription: Mutex::new(Some(subscription)),
        })
    }
}

fn receive_on(
    topic: &'static str,
    links: Links<'_>,
    pool: &Pool,
    end: Arc<EndSignal>,
) -> Result<Subscription, BusError> {
    let (mut tx, rx) = links(&format!("subscribe-{topic}"))?;
    tx.subscribe(topic)
        .map_err(|error| BusError::Router(error.to_string()))?;
    let (deliver, deliveries) = mpsc::channel(limits::BUS_QUEUE_MESSAGES);
    let pool = pool.clone();
    spawn(&format!("bus-{topic}-rx"), move || {
        let _unused = tx;
        end.raise(receive(rx, &pool, &deliver));
    })?;
    Ok(Subscription { deliveries })
}

/// Moves messages from the router to the consumer until either is gone; returns why.
fn receive(mut rx: LinkRx, pool: &Pool, deliver: &mpsc::Sender<Delivery>) -> String {
    loop {
        let notification = match rx.recv() {
            Ok(Some(notification)) => notification,
            Ok(None) => continue,
            Err(error) => return format!("the router gave no message: {error}"),
        };
        match notification {
            Notification::Forward(forward) => {
                let message = forward.publish.payload;
                let credit = pool.restore(cost(&message));
                let Some((topic, payload)) = unframe(message) else {
                    tracing::error!("the router gave a message that this bus did not put in");
                    continue;
                };
                if deliver
                    .blocking_send(Delivery {
                        topic,
                        payload,
                        credit,
                    })
                    .is_err()
                {
                    return "the consumer of the bus is gone".to_owned();
                }
            }
            // The router stopped handing out after a full read; it goes on when told so.
            Notification::Unschedule => {
                if let Err(error) = rx.ready() {
                    return format!("the router is gone: {error}");
                }
            }
            _acknowledgements => {}
        }
    }
}

/// Topic length, topic, payload.
fn frame(topic: &str, payload: &Bytes) -> Result<Bytes, BusError> {
    if payload.len() > limits::BUS_PAYLOAD_BYTES || topic.len() > usize::from(u8::MAX) {
        return Err(BusError::TooLarge {
            bytes: payload.len(),
            limit: limits::BUS_PAYLOAD_BYTES,
        });
    }
    let mut message = BytesMut::with_capacity(1 + topic.len() + payload.len());
    message.put_u8(topic.len() as u8);
    message.put_slice(topic.as_bytes());
    message.put_slice(payload);
    Ok(message.freeze())
}

fn unframe(mut message: Bytes) -> Option<(String, Bytes)> {
    if message.is_empty() {
        return None;
    }
    let length = usize::from(message.get_u8());
    if message.len() < length {
        return None;
    }
    let topic = String::from_utf8(message.split_to(length).to_vec()).ok()?;
    Some((topic, message))
}

/// Credit of a framed message; at most `BUS_PAYLOAD_BYTES` and a little, so it fits `u32` and the pool.
fn cost(message: &Bytes) -> u32 {
    (message.len() + limits::BUS_MESSAGE_OVERHEAD_BYTES) as u32
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), BusError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map(drop)
        .map_err(|error| BusError::Router(format!("no thread {name}: {error}")))
}

/// Tells the first reason of the end, once.
struct EndSignal(Mutex<Option<oneshot::Sender<String>>>);

impl EndSignal {
    fn raise(&self, reason: String) {
        let sender = self.0.lock().map(|mut slot| slot.take()).unwrap_or_default();
        if let Some(sender) = sender {
            // Nobody listens only when the process is already ending.
            drop(sender.send(reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn carries_both_directions_in_order() {
        let (bus, _end) = RouterBus::start().unwrap();
        let mut up = bus.subscribe(Direction::Up).unwrap();
        let mut down = bus.subscribe(Direction::Down).unwrap();
        for i in 0..1_000_u32 {
            bus.publish(
                Direction::Up,
                "pinnace/1/a/u",
                Bytes::from(i.to_be_bytes().to_vec()),
            )
            .await
            .unwrap();
            bus.publish(
                Direction::Down,
                "pinnace/1/b/d",
                Bytes::from(i.to_be_bytes().to_vec()),
            )
            .await
            .unwrap();
            let (u, d) = (up.next().await.unwrap(), down.next().await.unwrap());
            assert_eq!(
                (u.topic.as_str(), d.topic.as_str()),
                ("pinnace/1/a/u", "pinnace/1/b/d")
            );
            assert_eq!(
                (&u.payload[..], &d.payload[..]),
                (&i.to_be_bytes()[..], &i.to_be_bytes()[..])
            );
        }
    }

    #[tokio::test]
    async fn a_slow_consumer_makes_publishers_wait_and_loses_nothing() {
        let (bus, _end) = RouterBus::start().unwrap();
        let bus = Arc::new(bus);
        let mut up = bus.subscribe(Direction::Up).unwrap();
        // Forty times the log of the router.
        const MESSAGES: u32 = 320;
        let publisher = tokio::spawn({
            let bus = bus.clone();
            async move {
                for i in 0..MESSAGES {
                    let mut payload = vec![0_u8; 256 * 1024];
                    payload[..4].copy_from_slice(&i.to_be_bytes());
                    bus.publish(Direction::Up, "pinnace/1/a/u", payload.into())
                        .await
                        .unwrap();
                }
            }
        });
        let held = up.next().await.unwrap();
        while bus.up.pool.free() > 256 * 1024 + 1_024 {
            tokio::task::yield_now().await;
        }
        assert!(
            !publisher.is_finished(),
            "credit holds the publisher while nothing is taken"
        );
        drop(held);
        for i in 1..MESSAGES {
            let next = up.next().await.unwrap();
            assert_eq!(&next.payload[..4], &i.to_be_bytes());
        }
        publisher.await.unwrap();
    }

    #[tokio::test]
    async fn refuses_what_would_break_the_credit() {
        let (bus, _end) = RouterBus::start().unwrap();
        let _up = bus.subscribe(Direction::Up).unwrap();
        assert!(matches!(
            bus.subscribe(Direction::Up),
            Err(BusError::AlreadySubscribed(Direction::Up))
        ));
        let large = Bytes::from(vec![0; limits::BUS_PAYLOAD_BYTES + 1]);
        assert!(matches!(
            bus.publish(Direction::Up, "pinnace/1/a/u", large).await,
            Err(BusError::TooLarge { .. })
        ));
    }

    /// Prints the price of the router in the middle; the assertion only guards against seconds.
    #[tokio::test]
    async fn latency_through_the_router() {
        let (bus, _end) = RouterBus::start().unwrap();
        let mut up = bus.subscribe(Direction::Up).unwrap();
        let mut times = Vec::new();
        for _ in 0..2_000 {
            let start = Instant::now();
            bus.publish(Direction::Up, "pinnace/1/a/u", Bytes::from_static(&[0; 256]))
                .await
                .unwrap();
            up.next().await.unwrap();
            times.push(start.elapsed());
        }
        times.sort();
        let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("router: p50 {p50:?} p99 {p99:?}");
        assert!(p50 < Duration::from_millis(250), "p50 {p50:?}");
    }
}
