//! One agent's connection: a reader and a writer that wait for nothing but this agent and the bus.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use rumqttc::mqttbytes::{Error as CodecError, QoS};
use rumqttc::{
    Packet, PingResp, PubAck, Publish, SubAck, Subscribe, SubscribeReasonCode, UnsubAck, Unsubscribe,
};
use shared::ids::ClusterName;
use shared::topics::{self, Direction};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Shared;
use super::outbox::{CloseReason, Control, Outbox, Outgoing};
use super::quota::Quota;
use super::registry::ConnectionId;
use crate::{clock, limits};

/// Acknowledgements and small frames are collected up to this many bytes before a write.
const WRITE_BATCH_BYTES: usize = 4 * 1024;

/// What reader and writer of one connection know.
pub(super) struct Session<'a> {
    pub(super) shared: &'a Shared,
    pub(super) outbox: &'a Outbox,
    pub(super) id: ConnectionId,
    pub(super) up: String,
    pub(super) down: String,
    pub(super) keepalive: Duration,
    pub(super) unproven_until: Instant,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        outbox: &'a Outbox,
        id: ConnectionId,
        cluster: &ClusterName,
    ) -> Self {
        Self {
            shared,
            outbox,
            id,
            up: topics::topic(cluster, Direction::Up),
            down: topics::topic(cluster, Direction::Down),
            keepalive: Duration::from_secs(u64::from(limits::KEEPALIVE_MAX_SECONDS)),
            unproven_until: Instant::now() + shared.patience.unproven,
        }
    }

    /// Reads packets until the connection must end. `received` bytes came with CONNECT.
    pub(super) async fn read<R>(
        &self,
        mut stream: R,
        mut buffer: BytesMut,
        mut received: usize,
    ) -> CloseReason
    where
        R: AsyncRead + Unpin,
    {
        let mut quota = Quota::new(clock::monotonic());
        let mut silent_since = Instant::now();
        received += buffer.len();
        loop {
            let proven = self.outbox.is_proven();
            if !proven && received > limits::UNPROVEN_BYTES {
                return CloseReason::UnprovenBytes;
            }
            let largest = if proven {
                limits::PUBLISH_BYTES
            } else {
                limits::UNPROVEN_BYTES
            };
            let before = buffer.len();
            match Packet::read(&mut buffer, largest) {
                Ok(packet) => {
                    if let Err(end) = self.handle(packet).await {
                        return end;
                    }
                    let pause = quota.spend(before - buffer.len(), clock::monotonic());
                    if !pause.is_zero() {
                        sleep(pause).await;
                    }
                    silent_since = Instant::now();
                    continue;
                }
                Err(CodecError::InsufficientBytes(missing)) => {
                    if buffer.is_empty() && buffer.capacity() > limits::READ_BUFFER_BYTES {
                        buffer = BytesMut::new();
                    }
                    buffer.reserve(missing.clamp(limits::READ_BUFFER_BYTES, 32 * limits::READ_BUFFER_BYTES));
                }
                Err(CodecError::PayloadSizeLimitExceeded(_)) if !proven => return CloseReason::UnprovenBytes,
                Err(CodecError::PayloadSizeLimitExceeded(_)) => {
                    return CloseReason::Protocol("a packet is too large");
                }
                Err(_) => return CloseReason::Protocol("malformed packet"),
            }
            let dead_at = silent_since + self.keepalive.mul_f32(1.5);
            let wake_at = if proven {
                dead_at
            } else {
                dead_at.min(self.unproven_until)
            };
            match timeout_at(wake_at, stream.read_buf(&mut buffer)).await {
                Ok(Ok(0) | Err(_)) => return CloseReason::PeerGone,
                Ok(Ok(bytes)) => received = received.saturating_add(bytes),
                Err(_) if Instant::now() >= dead_at => return CloseReason::KeepaliveMissed,
                Err(_) if !self.outbox.is_proven() => return CloseReason::UnprovenTooLong,
                Err(_) => {}
            }
        }
    }

    async fn handle(&self, packet: Packet) -> Result<(), CloseReason> {
        match packet {
            Packet::Publish(publish) => self.publish(publish).await?,
            Packet::Subscribe(subscribe) => self.subscribe(subscribe).await,
            Packet::Unsubscribe(unsubscribe) => self.unsubscribe(unsubscribe).await,
            Packet::PubAck(ack) => self.outbox.acknowledged(ack.pkid),
            Packet::PingReq => self.outbox.owe(Control::PingResp).await,
            Packet::Disconnect => return Err(CloseReason::Disconnected),
            _ => return Err(CloseReason::Protocol("a packet that no client sends, or QoS 2")),
        }
        Ok(())
    }

    /// Hands one message to the bus; waits for its credit, and so does this socket. Then acknowledges.
    async fn publish(&self, publish: Publish) -> Result<(), CloseReason> {
        if publish.topic != self.up {
            return Err(CloseReason::Protocol(
                "PUBLISH on a topic that is not the cluster's own",
            ));
        }
        if publish.qos == QoS::ExactlyOnce || publish.retain {
            return Err(CloseReason::Protocol(
                "QoS 2 and retained messages are not supported",
            ));
        }
        if self.shared.notes_up(self.id, &publish.payload)
            && self
                .shared
                .bus
                .publish(Direction::Up, &self.up, publish.payload)
                .await
                .is_err()
        {
            // The process is about to end with the bus; the agent must not believe the message arrived.
            return Err(CloseReason::Shutdown);
        }
        if publish.qos == QoS::AtLeastOnce {
            self.outbox.owe(Control::PubAck(publish.pkid)).await;
        }
        Ok(())
    }

    async fn subscribe(&self, subscribe: Subscribe) {
        let mut codes = Vec::with_capacity(subscribe.filters.len());
        for filter in &subscribe.filters {
            if filter.path == self.down {
                let qos = if filter.qos == QoS::AtMostOnce {
                    QoS::AtMostOnce
                } else {
                    QoS::AtLeastOnce
                };
                codes.push(SubscribeReasonCode::Success(qos));
            } else {
                codes.push(SubscribeReasonCode::Failure);
            }
        }
        let granted = codes.iter().rev().find_map(|code| match code {
            SubscribeReasonCode::Success(qos) => Some(*qos),
            SubscribeReasonCode::Failure => None,
        });
        self.outbox.owe(Control::SubAck(subscribe.pkid, codes)).await;
        if granted.is_some() {
            self.outbox.subscribe(granted);
        }
    }

    async fn unsubscribe(&self, unsubscribe: Unsubscribe) {
        if unsubscribe.topics.contains(&self.down) {
            self.outbox.subscribe(None);
        }
        self.outbox.owe(Control::UnsubAck(unsubscribe.pkid)).await;
    }

    /// Writes what the outbox holds until the agent stops reading.
    pub(super) async fn write<W>(&self, stream: &mut W) -> CloseReason
    where
        W: AsyncWrite + Unpin,
    {
        let mut buffer = BytesMut::new();
        let mut full_since: Option<Instant> = None;
        let patience = self.shared.patience;
        loop {
            let written = match self.outbox.pop() {
                Some(next) => {
                    full_since = None;
                    self.encode(next, &mut buffer, stream).await
                }
                None if !buffer.is_empty() => {
                    let written = async {
                        write_all(stream, &buffer, patience.write).await?;
                        flush(stream, patience.write).await
                    }
                    .await;
                    buffer = BytesMut::new();
                    written
                }
                None if self.outbox.window_full() => {
                    let since = *full_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= patience.puback {
                        return CloseReason::SlowReader;
                    }
                    // A timeout only looks again.
                    drop(timeout_at(since + patience.puback, self.outbox.work()).await);
                    Ok(())
                }
                None => {
                    full_since = None;
                    self.outbox.work().await;
                    Ok(())
                }
            };
            if let Err(end) = written {
                return end;
            }
        }
    }

    async fn encode<W>(
        &self,
        next: Outgoing,
        buffer: &mut BytesMut,
        stream: &mut W,
    ) -> Result<(), CloseReason>
    where
        W: AsyncWrite + Unpin,
    {
        let patience = self.shared.patience.write;
        let written = match next {
            Outgoing::Control(Control::PubAck(packet)) => PubAck::new(packet).write(buffer).map(drop),
            Outgoing::Control(Control::SubAck(packet, codes)) => {
                SubAck::new(packet, codes).write(buffer).map(drop)
            }
            Outgoing::Control(Control::UnsubAck(packet)) => UnsubAck::new(packet).write(buffer).map(drop),
            Outgoing::Control(Control::PingResp) => PingResp.write(buffer).map(drop),
            Outgoing::Frame(frame, packet) => {
                publish_header(buffer, &self.down, frame.len(), packet);
                if buffer.len() + frame.len() <= WRITE_BATCH_BYTES {
                    buffer.put_slice(&frame);
                } else {
                    write_all(stream, buffer, patience).await?;
                    buffer.clear();
                    write_all(stream, &frame, patience).await?;
                }
                Ok(())
            }
        };
        written.map_err(|_codec| CloseReason::Protocol("an acknowledgement could not be written"))?;
        if buffer.len() >= WRITE_BATCH_BYTES {
            write_all(stream, buffer, patience).await?;
            buffer.clear();
        }
        Ok(())
    }
}

/// The head of a PUBLISH of at most 256 MiB, without its payload: the codec would copy that.
fn publish_header(buffer: &mut BytesMut, topic: &str, payload: usize, packet: Option<u16>) {
    let qos = u8::from(packet.is_some());
    buffer.put_u8(0b0011_0000 | qos << 1);
    let mut remaining = 2 + topic.len() + packet.map_or(0, |_| 2) + payload;
    loop {
        let low = (remaining % 128) as u8;
        remaining /= 128;
        buffer.put_u8(if remaining > 0 { low | 0x80 } else { low });
        if remaining == 0 {
            break;
        }
    }
    buffer.put_u16(topic.len() as u16);
    buffer.put_slice(topic.as_bytes());
    if let Some(packet) = packet {
        buffer.put_u16(packet);
    }
}

/// Writes everything; each step must make progress within `patience`.
async fn write_all<W>(stream: &mut W, mut bytes: &[u8], patience: Duration) -> Result<(), CloseReason>
where
    W: AsyncWrite + Unpin,
{
    while !bytes.is_empty() {
        match timeout(patience, stream.write(bytes)).await {
            Ok(Ok(0) | Err(_)) => return Err(CloseReason::PeerGone),
            Ok(Ok(written)) => bytes = &bytes[written..],
            Err(_) => return Err(CloseReason::SlowReader),
        }
    }
    Ok(())
}

async fn flush<W>(stream: &mut W, patience: Duration) -> Result<(), CloseReason>
where
    W: AsyncWrite + Unpin,
{
    match timeout(patience, stream.flush()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(CloseReason::PeerGone),
        Err(_) => Err(CloseReason::SlowReader),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_publish_head_is_what_the_codec_reads() {
        for (payload, packet) in [
            (0, None),
            (1, Some(7)),
            (127, Some(1)),
            (20_000, None),
            (300_000, Some(65_535)),
        ] {
            let mut buffer = BytesMut::new();
            publish_header(&mut buffer, "pinnace/1/shop/d", payload, packet);
            buffer.resize(buffer.len() + payload, 3);
            match Packet::read(&mut buffer, 1 << 20).unwrap() {
                Packet::Publish(publish) => {
                    assert_eq!(publish.topic, "pinnace/1/shop/d");
                    assert_eq!(publish.payload.len(), payload);
                    assert_eq!(publish.pkid, packet.unwrap_or(0));
                    assert!(!publish.retain && !publish.dup);
                }
                other => panic!("{other:?}"),
            }
            assert!(buffer.is_empty());
        }
    }
}
