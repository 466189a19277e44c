//! What waits to be written to one agent: acknowledgements and frames, both bounded.
//!
//! Acknowledgements come from the session's reader: when they are full the reader waits. Frames come from the
//! bus, which serves every cluster and so never waits for one: a frame beyond the bound is dropped, the
//! courier sends it again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rumqttc::mqttbytes::QoS;
use tokio::sync::Notify;

use crate::limits;

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The agent closed the connection or it broke.
    PeerGone,
    /// The agent said DISCONNECT.
    Disconnected,
    /// A newer connection of the same cluster was proven.
    TakenOver,
    /// Too many unproven connections; this was the oldest of the busiest address.
    HalfOpenLimit,
    /// Not proven in time.
    UnprovenTooLong,
    /// More bytes than an unproven connection may send.
    UnprovenBytes,
    /// Nothing came for one and a half keepalives.
    KeepaliveMissed,
    /// The agent does not read: a write or a full window made no progress.
    SlowReader,
    /// The agent broke the protocol or touched a topic that is not its own.
    Protocol(&'static str),
    /// The hub revoked the cluster.
    Revoked,
    /// The agent is to say anew what it holds.
    HelloAgain,
    /// The hub is shutting down.
    Shutdown,
}

/// A packet the reader owes the agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Control {
    PubAck(u16),
    SubAck(u16, Vec<rumqttc::SubscribeReasonCode>),
    UnsubAck(u16),
    PingResp,
}

/// The next thing to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Control(Control),
    /// A frame; with a packet id for QoS 1.
    Frame(Bytes, Option<u16>),
}

/// Shared by a session's reader, its writer and the gateway.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    /// Wakes the writer.
    work: Notify,
    /// Wakes a reader that waits for room.
    room: Notify,
    /// Wakes the session when it must end.
    end: Notify,
}

#[derive(Debug, Default)]
struct State {
    controls: VecDeque<Control>,
    frames: VecDeque<Bytes>,
    frame_bytes: usize,
    subscribed: Option<QoS>,
    inflight: VecDeque<u16>,
    last_packet: u16,
    proven: bool,
    closed: Option<CloseReason>,
}

impl Outbox {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every critical section below leaves the state whole, so a poisoned lock is still good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the session; the first reason stays.
    pub(super) fn close(&self, reason: CloseReason) {
        let mut state = self.state();
        if state.closed.is_none() {
            state.closed = Some(reason);
            state.frames = VecDeque::new();
            state.frame_bytes = 0;
        }
        drop(state);
        self.end.notify_one();
    }

    /// Waits until [`Outbox::close`] was called.
    pub(super) async fn closed(&self) -> CloseReason {
        loop {
            if let Some(reason) = self.state().closed {
                return reason;
            }
            self.end.notified().await;
        }
    }

    /// The connection carried the first frame of its own channel.
    pub(super) fn prove(&self) {
        self.state().proven = true;
    }

    pub(super) fn is_proven(&self) -> bool {
        self.state().proven
    }

    /// Queues a frame; `false` if it was dropped because the queue is full or the session is ending.
    pub(super) fn push(&self, frame: Bytes) -> bool {
        let mut state = self.state();
        let fits = state.frames.len() < limits::OUTBOUND_FRAMES
            && state.frame_bytes + frame.len() <= limits::OUTBOUND_BYTES;
        if state.closed.is_some() || !fits {
            return false;
        }
        state.frame_bytes += frame.len();
        state.frames.push_back(frame);
        drop(state);
        self.work.notify_one();
        true
    }

    /// Queues an acknowledgement; waits while there are too many.
    pub(super) async fn owe(&self, control: Control) {
        loop {
            {
                let mut state = self.state();
                if state.controls.len() < limits::OUTBOUND_CONTROLS {
                    state.controls.push_back(control);
                    break;
                }
            }
            self.room.notified().await;
        }
        self.work.notify_one();
    }

    /// The agent reads its topic with this QoS (at most 1), or not any more.
    pub(super) fn subscribe(&self, qos: Option<QoS>) {
        self.state().subscribed = qos;
        self.work.notify_one();
    }

    /// A PUBACK came; an unknown packet id is ignored, as MQTT 3.1.1 leaves it open.
    pub(super) fn acknowledged(&self, packet: u16) {
        let mut state = self.state();
        state.inflight.retain(|inflight| *inflight != packet);
        drop(state);
        self.work.notify_one();
    }

    /// True while frames wait only for a PUBACK.
    pub(super) fn window_full(&self) -> bool {
        let state = self.state();
        !state.frames.is_empty()
            && state.subscribed.is_some()
            && state.inflight.len() >= limits::INFLIGHT_PUBLISHES
    }

    /// The next thing to write, if any: acknowledgements first.
    pub(super) fn pop(&self) -> Option<Outgoing> {
        let mut state = self.state();
        let next = state.pop();
        let roomy = state.controls.len() == limits::OUTBOUND_CONTROLS - 1;
        drop(state);
        if roomy {
            self.room.notify_one();
        }
        next
    }

    /// Waits until [`Outbox::pop`] may have something new.
    pub(super) async fn work(&self) {
        self.work.notified().await;
    }

    /// Bytes of the frames that wait.
    #[cfg(test)]
    pub(super) fn queued_bytes(&self) -> usize {
        self.state().frame_bytes
    }
}

impl State {
    fn pop(&mut self) -> Option<Outgoing> {
        if let Some(control) = self.controls.pop_front() {
            return Some(Outgoing::Control(control));
        }
        let qos = self.subscribed?;
        if self.inflight.len() >= limits::INFLIGHT_PUBLISHES {
            return None;
        }
        let frame = self.frames.pop_front()?;
        self.frame_bytes -= frame.len();
        if self.frames.is_empty() {
            // An idle session keeps no high-water capacity.
            self.frames = VecDeque::new();
        }
        if qos == QoS::AtMostOnce {
            return Some(Outgoing::Frame(frame, None));
        }
        let packet = self.next_packet();
        self.inflight.push_back(packet);
        Some(Outgoing::Frame(frame, Some(packet)))
    }

    /// A packet id that is neither 0 nor in flight; the window is far smaller than the id space.
    fn next_packet(&mut self) -> u16 {
        loop {
            self.last_packet = self.last_packet.wrapping_add(1);
            if self.last_packet != 0 && !self.inflight.contains(&self.last_packet) {
                return self.last_packet;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(outgoing: Option<Outgoing>) -> u16 {
        match outgoing {
            Some(Outgoing::Frame(_, Some(packet))) => packet,
            other => panic!("no frame with a packet id: {other:?}"),
        }
    }

    #[test]
    fn frames_wait_for_the_subscription_and_the_window() {
        let outbox = Outbox::default();
        for _ in 0..limits::INFLIGHT_PUBLISHES + 1 {
            assert!(outbox.push(Bytes::from_static(b"x")));
        }
        assert_eq!(outbox.pop(), None, "nobody reads yet");
        outbox.subscribe(Some(QoS::AtLeastOnce));
        let packets: Vec<u16> = (0..limits::INFLIGHT_PUBLISHES)
            .map(|_| frame(outbox.pop()))
            .collect();
        assert!(outbox.window_full());
        assert_eq!(outbox.pop(), None);
        outbox.acknowledged(9_999);
        assert!(outbox.window_full(), "an unknown packet id opens nothing");
        outbox.acknowledged(packets[7]);
        assert!(
            !packets.contains(&frame(outbox.pop())),
            "no id is used twice while in flight"
        );
    }

    #[test]
    fn packet_ids_wrap_around_zero_and_what_is_in_flight() {
        let mut state = State {
            last_packet: u16::MAX,
            ..State::default()
        };
        state.inflight.push_back(1);
        assert_eq!(state.next_packet(), 2);
    }

    #[test]
    fn a_full_queue_drops_the_frame_and_keeps_the_session() {
        let outbox = Outbox::default();
        let large = Bytes::from(vec![0; limits::OUTBOUND_BYTES / 2 + 1]);
        assert!(outbox.push(large.clone()));
        assert!(!outbox.push(large.clone()));
        assert!(outbox.push(Bytes::from_static(b"small")));
        assert_eq!(outbox.queued_bytes(), large.len() + 5);
        outbox.close(CloseReason::Shutdown);
        assert_eq!(outbox.queued_bytes(), 0, "an ending session holds no bytes");
        assert!(!outbox.push(Bytes::from_static(b"late")));
    }

    #[tokio::test]
    async fn the_reader_waits_while_too_many_acknowledgements_are_owed() {
        let outbox = std::sync::Arc::new(Outbox::default());
        for packet in 0..limits::OUTBOUND_CONTROLS {
            outbox.owe(Control::PubAck(packet as u16)).await;
        }
        let waiting = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.owe(Control::PingResp).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        assert_eq!(outbox.pop(), Some(Outgoing::Control(Control::PubAck(0))));
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn the_first_reason_of_an_end_stays() {
        let outbox = Outbox::default();
        outbox.close(CloseReason::TakenOver);
        outbox.close(CloseReason::Shutdown);
        assert_eq!(outbox.closed().await, CloseReason::TakenOver);
    }
}
