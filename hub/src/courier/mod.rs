//! The courier: takes what agents say off the bus, proves who says it, and runs one task per connected cluster that
//! carries out what its ship decides.
//!
//! The dispatcher here waits for nobody: it opens no store transaction and no frame of a proven channel. Exchanges
//! are answered in place (0.3 ms each); a join or a forgotten cluster is worked on in its own short task.

mod agent;
mod arrivals;
mod desk;
mod effects;
mod exchanges;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use hub_core::ship::{Boots, Winner};
use shared::ids::{ClusterName, Epoch, Incarnation, PublicKey, Sequence};
use shared::keys::HubKeys;
use shared::seal::{Channel, HubExchange};
use shared::time::Millis;
use shared::topics::{self, Direction};
use shared::wire::{self, Up, X1, X3};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};

use crate::bus::{Bus, Delivery, Subscription};
use crate::gateway::{CloseReason, Gateway, SessionEnded};
use crate::reconcile::Presence;
use crate::store::fleet::Enrolment;
use crate::store::{Note, Notes, Store};
use crate::{clock, limits};
use agent::{Agent, Input};
use arrivals::Verdict;
use desk::Office;
use exchanges::{Arrival, Exchanges};

/// How often what is late is looked for.
const SWEEP: Duration = Duration::from_secs(10);

/// What the rest of the hub asks of the courier.
#[derive(Debug)]
enum Request {
    PushHub(ClusterName, Winner, oneshot::Sender<Result<Sequence, String>>),
}

/// Handle of the courier.
#[derive(Debug, Clone)]
pub struct Courier {
    requests: mpsc::Sender<Request>,
}

impl Courier {
    /// Ends `HubBehind` as somebody decided; the sequence that says so.
    ///
    /// # Errors
    /// Why not, for the operator.
    pub async fn push_hub(&self, cluster: &ClusterName, winner: Winner) -> Result<Sequence, String> {
        let (answer, answered) = oneshot::channel();
        let ending = || "the hub is shutting down".to_owned();
        self.requests
            .send(Request::PushHub(cluster.clone(), winner, answer))
            .await
            .map_err(|_| ending())?;
        answered.await.map_err(|_| ending())?
    }
}

/// The dispatcher's state.
pub struct Dispatcher {
    office: Arc<Office>,
    exchanges: Exchanges,
    agents: BTreeMap<ClusterName, AgentTask>,
    verdicts: mpsc::Sender<Verdict>,
    verdicts_in: mpsc::Receiver<Verdict>,
    requests: mpsc::Receiver<Request>,
    joins: Arc<Semaphore>,
    /// Frames dropped: of unknown channels, or for a cluster whose task is behind.
    dropped: u64,
}

/// A cluster's running task.
#[derive(Debug)]
struct AgentTask {
    inputs: mpsc::Sender<Input>,
    epoch: Epoch,
    away_since: Option<Millis>,
    missed_look: bool,
    /// A look is in the queue already: many changes of a set are one look, and leave the queue to frames.
    asked_to_look: Arc<AtomicBool>,
    incarnation: Incarnation,
}

impl Dispatcher {
    /// A courier and its handle.
    #[must_use]
    pub fn new(
        store: Store,
        keys: Arc<HubKeys>,
        bus: Arc<dyn Bus>,
        gateway: Gateway,
        presence: Arc<Presence>,
    ) -> (Self, Courier) {
        let office = Arc::new(Office::new(store, keys, bus, gateway, presence));
        let (verdicts, verdicts_in) = mpsc::channel(limits::COURIER_QUEUE);
        let (requests_out, requests) = mpsc::channel(limits::COURIER_QUEUE);
        let dispatcher = Self {
            office,
            exchanges: Exchanges::default(),
            agents: BTreeMap::new(),
            verdicts,
            verdicts_in,
            requests,
            joins: Arc::new(Semaphore::new(limits::JOINS)),
            dropped: 0,
        };
        (
            dispatcher,
            Courier {
                requests: requests_out,
            },
        )
    }

    /// Runs until the bus, the store or the gateway ends; returns which.
    pub async fn run(
        mut self,
        mut up: Subscription,
        mut ended: mpsc::Receiver<SessionEnded>,
    ) -> &'static str {
        let mut notes = self.office.store.subscribe_changes();
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                delivery = up.next() => match delivery {
                    Ok(delivery) => self.deliver(delivery),
                    Err(_ended) => return "the bus has ended",
                },
                note = notes.next() => match note {
                    Some(note) => self.noted(note, &mut notes),
                    None => return "the store is closed",
                },
                end = ended.recv() => match end {
                    Some(end) => self.session_ended(&end),
                    None => return "the gateway is gone",
                },
                Some(verdict) = self.verdicts_in.recv() => self.judged(verdict),
                Some(request) = self.requests.recv() => self.requested(request),
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    /// One message from the bus. Its credit returns when this function ends: from here the bounded queue of the
    /// cluster's task holds.
    fn deliver(&mut self, delivery: Delivery) {
        let Some((cluster, Direction::Up)) = topics::parse(&delivery.topic) else {
            tracing::error!(
                topic = delivery.topic,
                "a message from an agent has a wrong topic"
            );
            return;
        };
        if let Some(epoch) = wire::peek_epoch(&delivery.payload) {
            self.frame(cluster, epoch, delivery.payload);
        } else if let Ok(x1) = X1::decode(&delivery.payload) {
            self.answer(cluster, &x1);
        } else if let Ok(x3) = X3::decode(&delivery.payload) {
            self.accept(cluster, &x3);
        } else {
            self.dropped += 1;
        }
    }

    /// First message of an exchange: answered, never trusted.
    fn answer(&mut self, cluster: ClusterName, x1: &X1) {
        if self.exchanges.knows(&x1.exchange) {
            return;
        }
        let office = self.office.clone();
        match HubExchange::answer(&office.random, cluster.clone(), x1, &office.keys) {
            Ok((exchange, x2)) => {
                self.exchanges.keep_exchange(exchange, clock::monotonic());
                tokio::spawn(async move {
                    // When the bus has ended so does the process.
                    drop(office.publish(&cluster, x2.encode()).await);
                });
            }
            Err(error) => tracing::debug!(%cluster, %error, "an exchange was not answered"),
        }
    }

    /// Last message of an exchange: the key is proven.
    fn accept(&mut self, cluster: ClusterName, x3: &X3) {
        let Some(exchange) = self.exchanges.take_exchange(&cluster, &x3.exchange) else {
            self.dropped += 1;
            return;
        };
        let (channel, identity) = match exchange.accept(x3) {
            Ok(proven) => proven,
            Err(error) => {
                tracing::debug!(%cluster, %error, "an exchange was refused");
                return;
            }
        };
        let enrolment = match self.office.store.enrolment(&cluster) {
            Ok(enrolment) => enrolment,
            Err(error) => {
                tracing::error!(%cluster, %error, "the store cannot be read");
                return;
            }
        };
        if !exchange.is_join() && enrolment.is_some_and(|enrolment| may_talk(&enrolment, identity)) {
            self.hand_over(&cluster, channel, None);
        } else {
            self.exchanges.keep_arrival(
                Arrival {
                    cluster,
                    channel,
                    identity,
                },
                clock::monotonic(),
            );
        }
    }

    /// A sealed frame: to the cluster's task, or the first word on a channel.
    fn frame(&mut self, cluster: ClusterName, epoch: Epoch, payload: bytes::Bytes) {
        if let Some(task) = self.agents.get(&cluster)
            && task.epoch == epoch
        {
            if task.inputs.try_send(Input::Frame(payload)).is_err() {
                self.dropped += 1;
            }
            return;
        }
        let Some(arrival) = self.exchanges.take_arrival(&cluster, epoch) else {
            self.dropped += 1;
            return;
        };
        match self.joins.clone().try_acquire_owned() {
            Ok(place) => {
                let (office, verdicts) = (self.office.clone(), self.verdicts.clone());
                tokio::spawn(async move {
                    let verdict = arrivals::judge(&office, arrival, &payload).await;
                    // The dispatcher only stops with the process.
                    drop(verdicts.send(verdict).await);
                    drop(place);
                });
            }
            Err(_busy) => {
                self.dropped += 1;
                self.exchanges.keep_arrival(*arrival, clock::monotonic());
            }
        }
    }

    fn judged(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Keep(arrival) => self.exchanges.keep_arrival(*arrival, clock::monotonic()),
            Verdict::Enrolled(arrival, first, bytes) => {
                let Arrival { cluster, channel, .. } = *arrival;
                self.hand_over(&cluster, channel, Some((first, bytes)));
            }
            Verdict::Done => {}
        }
    }

    /// Gives a proven channel to the cluster's task, which is started if need be.
    fn hand_over(&mut self, cluster: &ClusterName, channel: Channel, first: Option<(Box<Up>, u64)>) {
        // A task of a former incarnation must not get it.
        self.look_for_revocation(cluster);
        let epoch = channel.epoch();
        let mut input = Input::Channel(Box::new(channel), first);
        if let Some(task) = self.agents.get_mut(cluster) {
            match task.inputs.try_send(input) {
                Ok(()) => {
                    (task.epoch, task.away_since) = (epoch, None);
                    return;
                }
                // Too far behind: the agent starts another exchange.
                Err(mpsc::error::TrySendError::Full(_)) => {
                    self.dropped += 1;
                    return;
                }
                Err(mpsc::error::TrySendError::Closed(returned)) => input = returned,
            }
        }
        let asked_to_look = Arc::new(AtomicBool::new(false));
        match Agent::open(
            self.office.clone(),
            cluster,
            Boots::default(),
            asked_to_look.clone(),
        ) {
            Ok(Some(agent)) => {
                let incarnation = agent.incarnation();
                let (inputs, queue) = mpsc::channel(limits::AGENT_QUEUE);
                // The queue is empty, so it takes the first input.
                drop(inputs.try_send(input));
                tokio::spawn(agent.run(queue));
                self.agents.insert(
                    cluster.clone(),
                    AgentTask {
                        inputs,
                        epoch,
                        away_since: None,
                        missed_look: false,
                        asked_to_look,
                        incarnation,
                    },
                );
            }
            Ok(None) => self.dropped += 1,
            Err(error) => tracing::error!(%cluster, %error, "the store cannot be read"),
        }
    }

    fn session_ended(&mut self, end: &SessionEnded) {
        if let Some(task) = self.agents.get_mut(&end.cluster)
            && end.epochs.contains(&task.epoch)
        {
            task.away_since = Some(clock::monotonic());
            if task.inputs.try_send(Input::Disconnected).is_err() {
                self.dropped += 1;
            }
        }
    }

    fn noted(&mut self, note: Note, notes: &mut Notes) {
        // Everything that is already waiting: many notes of one cluster are one look.
        let (mut sets, mut clusters) = (BTreeSet::new(), BTreeSet::new());
        let mut next = Some(note);
        while let Some(note) = next {
            match note {
                Note::Set(cluster) => {
                    sets.insert(cluster);
                }
                Note::Cluster(cluster) => {
                    clusters.insert(cluster);
                }
                Note::Everything => {
                    sets.extend(self.agents.keys().cloned());
                    clusters.extend(self.agents.keys().cloned());
                }
                Note::Binding(_) => {}
            }
            next = notes.next().now_or_never().flatten();
        }
        clusters
            .iter()
            .for_each(|cluster| self.look_for_revocation(cluster));
        for cluster in sets {
            if let Some(task) = self.agents.get_mut(&cluster)
                && !task.asked_to_look.swap(true, Ordering::SeqCst)
            {
                // The sweep repeats what a full queue did not take.
                task.missed_look |= task.inputs.try_send(Input::Look).is_err();
            }
        }
    }

    fn look_for_revocation(&mut self, cluster: &ClusterName) {
        let Some(task) = self.agents.get(cluster) else {
            return;
        };
        match self.office.store.enrolment(cluster) {
            // Another incarnation is another agent's.
            Ok(Some(enrolment)) if !enrolment.revoked && enrolment.incarnation == task.incarnation => return,
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%cluster, %error, "the store cannot be read");
                return;
            }
        }
        if task.inputs.try_send(Input::Revoked).is_err() {
            // No last word, but at once.
            self.office.gateway.disconnect(cluster, CloseReason::Revoked);
        }
        // Without its sender the task ends behind the last word.
        self.agents.remove(cluster);
    }

    fn requested(&mut self, request: Request) {
        let Request::PushHub(cluster, winner, answer) = request;
        if let Some(task) = self.agents.get(&cluster).filter(|task| task.away_since.is_none()) {
            let refused = match task.inputs.try_send(Input::PushHub(winner, answer)) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(input) | mpsc::error::TrySendError::Closed(input)) => {
                    input
                }
            };
            if let Input::PushHub(_, answer) = refused {
                drop(answer.send(Err("the cluster's task is busy; try again".to_owned())));
            }
            return;
        }
        let store = self.office.store.clone();
        tokio::spawn(async move {
            let pushed = match store.push_hub(&cluster, winner).await {
                Ok(pushed) => pushed.map_err(|refusal| refusal.to_string()),
                Err(error) => Err(error.to_string()),
            };
            // The operator may have stopped waiting.
            drop(answer.send(pushed));
        });
    }

    /// Looks at what is late.
    fn sweep(&mut self) {
        let now = clock::monotonic();
        self.exchanges.expire(now);
        let over = |task: &AgentTask| {
            task.away_since
                .is_some_and(|since| now.since(since) > limits::AGENT_KEEP_MS)
        };
        self.agents
            .retain(|_, task| !task.inputs.is_closed() && !over(task));
        for task in self.agents.values_mut().filter(|task| task.missed_look) {
            task.missed_look = task.inputs.try_send(Input::Look).is_err();
        }
    }
}

/// Whether an agent with this key speaks for an enrolment.
fn may_talk(enrolment: &Enrolment, identity: PublicKey) -> bool {
    enrolment.identity == identity && !enrolment.revoked
}
