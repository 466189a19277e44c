//! One cluster's half of the conversation: a task that owns the cluster's ship and sealed channel, and carries out
//! what the ship decides, in order. One cluster's trouble stays in its task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hub_core::liveness;
use hub_core::ship::{Boots, Current, Effect, Enrolled, Event, HeadRecord, Known, Output, Ship, Winner};
use shared::ids::{ClusterName, Incarnation, Sequence};
use shared::reason::Reason;
use shared::seal::Channel;
use shared::time::Millis;
use shared::wire::{Down, MemberApi, Revoked, Up, decode_up, encode_down};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::desk::Office;
use super::effects::{self, Outcome};
use crate::gateway::CloseReason;
use crate::store::StoreError;
use crate::{clock, crash, limits};

/// Time for the word of a revocation to reach the agent before its connection is closed.
const LAST_WORD: Duration = Duration::from_millis(500);

/// What the dispatcher tells a cluster's task.
#[derive(Debug)]
pub(super) enum Input {
    /// The identity was proven on a new channel; with the first message of it, if that is already opened.
    Channel(Box<Channel>, Option<(Box<Up>, u64)>),
    /// A frame of the current channel.
    Frame(bytes::Bytes),
    /// The connection that carried the current channel is gone.
    Disconnected,
    /// The cluster's set may have changed.
    Look,
    /// The operator lets the hub win.
    PushHub(Winner, oneshot::Sender<Result<Sequence, String>>),
    /// The enrolment is over.
    Revoked,
}

/// The task's state.
pub(super) struct Agent {
    office: Arc<Office>,
    cluster: ClusterName,
    incarnation: Incarnation,
    ship: Ship,
    channel: Option<Box<Channel>>,
    /// The newest set of these was overtaken before it could be marked; its offer must not leave.
    overtaken: Option<Sequence>,
    seen: Option<Millis>,
    shipped: Sequence,
    /// A look waits in the queue; taken down before the look.
    asked_to_look: Arc<AtomicBool>,
    /// A refusal may be written down, which the next acknowledgement ends.
    refused: bool,
}

/// Why a cluster's task gave up its state.
enum Halt {
    /// The store refused; state is rebuilt from it.
    Rebuild(StoreError),
    /// The hub is ending.
    End,
}

impl Agent {
    /// Builds the state of an enrolled cluster from the store; `None` if it is not enrolled or revoked.
    pub(super) fn open(
        office: Arc<Office>,
        cluster: &ClusterName,
        boots: Boots,
        asked_to_look: Arc<AtomicBool>,
    ) -> Result<Option<Self>, StoreError> {
        let Some((ship, incarnation)) = build(&office, cluster, boots)? else {
            return Ok(None);
        };
        let cluster = cluster.clone();
        Ok(Some(Self {
            incarnation,
            office,
            cluster,
            ship,
            channel: None,
            overtaken: None,
            seen: None,
            shipped: Sequence(0),
            asked_to_look,
            refused: true,
        }))
    }

    /// The enrolment that it talks for.
    pub(super) const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Runs until the dispatcher lets go of it.
    pub(super) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        loop {
            let wake = self
                .ship
                .wake_at()
                .map(|at| Duration::from_millis(at.since(clock::monotonic())));
            let input = tokio::select! {
                input = inputs.recv() => match input {
                    Some(input) => Some(input),
                    None => return,
                },
                () = sleep(wake.unwrap_or(Duration::MAX)), if wake.is_some() => None,
            };
            let revoked = matches!(input, Some(Input::Revoked));
            let result = match input {
                Some(input) => self.take(input).await,
                None => self.decide(Event::Tick).await,
            };
            match result {
                Ok(()) if revoked => return,
                Ok(()) => {}
                Err(Halt::End) => return,
                Err(Halt::Rebuild(error)) => {
                    tracing::error!(cluster = %self.cluster, %error, "the store refused; beginning anew with this agent");
                    if !self.rebuild() {
                        return;
                    }
                }
            }
        }
    }

    /// Starts again from the store; the agent is sent away and comes back with a new exchange.
    fn rebuild(&mut self) -> bool {
        self.office
            .gateway
            .disconnect(&self.cluster, CloseReason::Shutdown);
        self.channel = None;
        self.overtaken = None;
        self.shipped = Sequence(0);
        match build(&self.office, &self.cluster, self.ship.boots().clone()) {
            Ok(Some((ship, incarnation))) if incarnation == self.incarnation => {
                self.ship = ship;
                true
            }
            Ok(_) => false,
            Err(error) => {
                tracing::error!(cluster = %self.cluster, %error, "the store cannot be read");
                false
            }
        }
    }

    async fn take(&mut self, input: Input) -> Result<(), Halt> {
        match input {
            Input::Channel(channel, first) => {
                self.channel = Some(channel);
                self.decide(Event::Connected).await?;
                self.look().await?;
                if let Some((up, bytes)) = first {
                    self.hear(up, bytes).await?;
                }
                Ok(())
            }
            Input::Frame(payload) => self.open_frame(&payload).await,
            Input::Disconnected => {
                self.channel = None;
                self.office.presence.closed(&self.cluster, clock::monotonic());
                self.decide(Event::Disconnected).await
            }
            Input::Look => {
                self.asked_to_look.store(false, Ordering::SeqCst);
                self.look().await
            }
            Input::PushHub(winner, answer) => self.push_hub(winner, answer).await,
            Input::Revoked => {
                self.send(Down::Revoked(Revoked {
                    reason: Reason::Revoked.into(),
                }))
                .await?;
                sleep(LAST_WORD).await;
                self.office.presence.closed(&self.cluster, clock::monotonic());
                self.office
                    .gateway
                    .disconnect(&self.cluster, CloseReason::Revoked);
                Ok(())
            }
        }
    }

    async fn open_frame(&mut self, payload: &[u8]) -> Result<(), Halt> {
        let Some(channel) = &mut self.channel else {
            return Ok(());
        };
        let up = match channel.open(payload) {
            Ok(plain) => decode_up(&plain),
            Err(error) => {
                tracing::debug!(cluster = %self.cluster, %error, "a frame was dropped");
                return Ok(());
            }
        };
        match up {
            Ok(up) => self.hear(Box::new(up), payload.len() as u64).await,
            Err(error) => {
                tracing::warn!(cluster = %self.cluster, %error, "a message of the agent cannot be read");
                Ok(())
            }
        }
    }

    /// Takes in an opened message.
    async fn hear(&mut self, up: Box<Up>, bytes: u64) -> Result<(), Halt> {
        let now = clock::monotonic();
        self.office.presence.heard(&self.cluster, now);
        let due = self
            .seen
            .is_none_or(|seen| now.since(seen) >= limits::SEEN_EVERY_MS);
        if due && matches!(*up, Up::Beat(_)) {
            self.seen = Some(now);
            let seen = self
                .office
                .store
                .update_facts(&self.cluster, Some(clock::wall()), |_| {});
            seen.await.map_err(Halt::Rebuild)?;
        }
        match *up {
            Up::Member(note) => {
                self.office.presence.member_api(&self.cluster, api_of(note.api));
                if note.api != MemberApi::Healthy {
                    tracing::info!(cluster = %self.cluster, reason = note.reason.as_str(), "{}", note.message);
                }
                return Ok(());
            }
            Up::Room(room) => {
                let told = move |facts: &mut crate::store::fleet::ClusterFacts| facts.room = Some(room);
                let stored = self.office.store.update_facts(&self.cluster, None, told);
                stored.await.map_err(Halt::Rebuild)?;
                return Ok(());
            }
            _ => {}
        }
        self.decide(Event::Message { up, bytes }).await
    }

    /// Reads the cluster's newest set, if it is newer than what the ship knows.
    async fn look(&mut self) -> Result<(), Halt> {
        let current = self
            .office
            .store
            .current_set(&self.cluster)
            .map_err(Halt::Rebuild)?;
        match current {
            Some(current) if current.sequence > self.shipped => {
                self.shipped = current.sequence;
                let (sequence, digest, set) = (current.sequence, current.digest, current.set);
                self.decide(Event::Set(Current {
                    sequence,
                    digest,
                    set,
                }))
                .await
            }
            _ => Ok(()),
        }
    }

    async fn push_hub(
        &mut self,
        winner: Winner,
        answer: oneshot::Sender<Result<Sequence, String>>,
    ) -> Result<(), Halt> {
        let store = self.office.store.clone();
        // The store refuses by name what cannot be decided yet; only then does the ship leave its waiting state.
        let pushed = match store.held(&self.cluster).map_err(Halt::Rebuild)? {
            Some(held) if held.set.is_some() && self.ship.is_behind() => {
                self.decide(Event::PushHub(winner)).await?;
                self.look().await?;
                Ok(self.shipped)
            }
            _ => match store
                .push_hub(&self.cluster, winner)
                .await
                .map_err(Halt::Rebuild)?
            {
                Ok(sequence) => Ok(sequence),
                Err(refusal) => Err(refusal.to_string()),
            },
        };
        // The operator may have stopped waiting.
        drop(answer.send(pushed));
        Ok(())
    }

    /// Lets the ship decide and carries out everything that follows.
    async fn decide(&mut self, event: Event) -> Result<(), Halt> {
        let office = self.office.clone();
        office.with_desk(&mut self.ship, |ship, desk| {
            ship.handle(clock::monotonic(), event, desk)
        });
        while let Some(output) = self.ship.poll() {
            match output {
                Output::Send(Down::Offer(offer)) if self.overtaken == Some(offer.sequence) => {
                    office.with_desk(&mut self.ship, |ship, desk| {
                        ship.handle(clock::monotonic(), Event::Unsent(offer.sequence), desk)
                    });
                }
                Output::Send(down) => {
                    let greeted = matches!(down, Down::Welcome(_));
                    self.send(down).await?;
                    if greeted {
                        self.share_sealing_key().await?;
                    }
                }
                Output::Store(effect) => self.perform(effect).await?,
                Output::Hangup => {
                    // Without a channel nothing is answered, so the agent comes back even if its connection stayed.
                    self.channel = None;
                    self.office
                        .gateway
                        .disconnect(&self.cluster, CloseReason::HelloAgain);
                }
                Output::Note(reason, text) => {
                    tracing::info!(cluster = %self.cluster, reason = reason.code(), "{text}");
                }
            }
        }
        Ok(())
    }

    /// The agent keeps the key under which sets come to it in files, should the link be gone one day.
    async fn share_sealing_key(&mut self) -> Result<(), Halt> {
        let store = &self.office.store;
        let Some(enrolment) = store.enrolment(&self.cluster).map_err(Halt::Rebuild)? else {
            return Ok(());
        };
        let key = store.sealing_key(&self.cluster, enrolment.incarnation);
        self.send(Down::SealingKey(key)).await
    }

    async fn perform(&mut self, effect: Effect) -> Result<(), Halt> {
        let pushing = matches!(effect, Effect::PushHub(_));
        let acknowledged = matches!(effect, Effect::Acked(..));
        self.refused |= matches!(effect, Effect::Refused(_) | Effect::Clone);
        let outcome = effects::perform(&self.office.store, &self.cluster, effect, clock::wall()).await;
        match outcome.map_err(Halt::Rebuild)? {
            Outcome::Done => {}
            Outcome::Overtaken(sequence) => self.overtaken = Some(sequence),
            Outcome::Disagrees(cause) => return Err(Halt::Rebuild(StoreError::Database { cause })),
        }
        if acknowledged && self.refused {
            let ended = self
                .office
                .store
                .update_facts(&self.cluster, Some(clock::wall()), |facts| {
                    facts.refused = None;
                });
            ended.await.map_err(Halt::Rebuild)?;
            self.refused = false;
        }
        if pushing {
            // Adopted above both sides: the set of that sequence is new to the ship.
            self.shipped = Sequence(0);
        }
        Ok(())
    }

    async fn send(&mut self, down: Down) -> Result<(), Halt> {
        let Some(channel) = &mut self.channel else {
            return Ok(());
        };
        let offer = matches!(down, Down::Offer(_));
        match channel.seal(&encode_down(&down)) {
            Ok(payload) => {
                if offer {
                    crash::point("publish.before");
                }
                self.office
                    .publish(&self.cluster, payload)
                    .await
                    .map_err(|_ended| Halt::End)?;
                if offer {
                    crash::point("publish.after");
                    tracing::debug!(cluster = %self.cluster, "set offered");
                }
                Ok(())
            }
            Err(error) => {
                // Used up after 2^40 frames, or over a limit that the ship keeps: a new exchange heals the first.
                tracing::error!(cluster = %self.cluster, %error, "a message could not be sealed");
                self.office
                    .gateway
                    .disconnect(&self.cluster, CloseReason::Shutdown);
                Ok(())
            }
        }
    }
}

/// What the agent says of its member, in the words of the condition Ready.
fn api_of(api: MemberApi) -> liveness::MemberApi {
    match api {
        MemberApi::Healthy => liveness::MemberApi::Healthy,
        MemberApi::NotHealthy | MemberApi::Changed => liveness::MemberApi::NotHealthy,
        MemberApi::Unreachable => liveness::MemberApi::Unreachable,
    }
}

/// A ship from what the store knows.
fn build(
    office: &Office,
    cluster: &ClusterName,
    boots: Boots,
) -> Result<Option<(Ship, Incarnation)>, StoreError> {
    let store = &office.store;
    let Some(enrolment) = store.enrolment(cluster)?.filter(|enrolment| !enrolment.revoked) else {
        return Ok(None);
    };
    let Some(current) = store.current_set(cluster)? else {
        return Ok(None);
    };
    let heads = store.heads(cluster)?.into_iter();
    let latest = enrolment
        .boots
        .last()
        .filter(|boot| boot.session == enrolment.session);
    let known = Known {
        session: enrolment.session,
        boot: latest.map(|boot| boot.boot),
        last_report: enrolment.report_seq,
        acked: current.acked,
        heads: heads
            .map(|(sequence, digest)| HeadRecord { sequence, digest })
            .collect(),
        published: current.published,
        clone: false,
    };
    let enrolled = Enrolled {
        fleet: store.fleet(),
        cluster: cluster.clone(),
        incarnation: enrolment.incarnation,
    };
    Ok(Some((Ship::new(enrolled, known, boots), enrolment.incarnation)))
}
