//! The first packet of a connection: CONNECT of MQTT 3.1.1, at most 4 KiB, and the answer to it.

use std::io;

use bytes::BytesMut;
use rumqttc::mqttbytes::{self, Error as CodecError};
use rumqttc::{ConnAck, Connect, ConnectReturnCode, Packet};
use shared::ids::ClusterName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::limits;

/// MQTT 3.1.1.
const PROTOCOL_LEVEL: u8 = 4;

/// What a good CONNECT says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// The client id.
    pub(super) cluster: ClusterName,
    /// Seconds; 0 and values beyond the limit are the limit.
    pub(super) keepalive_seconds: u16,
    /// Bytes of the packet.
    pub(super) bytes: usize,
}

/// Why no session starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Answered with this code.
    Code(ConnectReturnCode, &'static str),
    /// Not worth an answer: no CONNECT, or too large.
    Silent(&'static str),
    /// The connection broke.
    Gone,
}

/// Reads CONNECT and leaves what follows it in `buffer`.
pub(super) async fn read<S>(stream: &mut S, buffer: &mut BytesMut) -> Result<Claim, Refusal>
where
    S: AsyncRead + Unpin,
{
    loop {
        if buffer.first().is_some_and(|byte| *byte != 0x10) {
            return Err(Refusal::Silent("the first packet is no CONNECT"));
        }
        match mqttbytes::check(buffer.iter(), limits::CONNECT_BYTES) {
            Ok(header) => {
                let bytes = header.frame_length();
                return claim(buffer, bytes);
            }
            Err(CodecError::InsufficientBytes(_)) => {}
            Err(CodecError::PayloadSizeLimitExceeded(_)) => {
                return Err(Refusal::Silent("CONNECT is larger than 4 KiB"));
            }
            Err(_) => return Err(Refusal::Silent("malformed header")),
        }
        buffer.reserve(limits::READ_BUFFER_BYTES);
        match stream.read_buf(buffer).await {
            Ok(0) | Err(_) => return Err(Refusal::Gone),
            Ok(_) => {}
        }
    }
}

/// Writes CONNACK.
pub(super) async fn answer<S>(stream: &mut S, code: ConnectReturnCode) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let mut buffer = BytesMut::with_capacity(4);
    ConnAck::new(code, false)
        .write(&mut buffer)
        .map_err(io::Error::other)?;
    stream.write_all(&buffer).await?;
    stream.flush().await
}

fn claim(buffer: &mut BytesMut, bytes: usize) -> Result<Claim, Refusal> {
    // The codec reads only levels 4 and 5, and 5 as if it were 4.
    if protocol_level(&buffer[..bytes]) != Some(PROTOCOL_LEVEL) {
        return Err(Refusal::Code(
            ConnectReturnCode::RefusedProtocolVersion,
            "only MQTT 3.1.1 is spoken here",
        ));
    }
    match Packet::read(buffer, limits::CONNECT_BYTES) {
        Ok(Packet::Connect(connect)) => check(&connect, bytes),
        Ok(_) | Err(_) => Err(Refusal::Silent("malformed CONNECT")),
    }
}

fn check(connect: &Connect, bytes: usize) -> Result<Claim, Refusal> {
    let cluster = ClusterName::new(&connect.client_id).map_err(|_bad_name| {
        Refusal::Code(
            ConnectReturnCode::BadClientId,
            "the client id is not a cluster name",
        )
    })?;
    if connect.last_will.is_some() {
        return Err(Refusal::Code(
            ConnectReturnCode::NotAuthorized,
            "a will is not supported",
        ));
    }
    let keepalive_seconds = match connect.keep_alive {
        0 => limits::KEEPALIVE_MAX_SECONDS,
        seconds => seconds.min(limits::KEEPALIVE_MAX_SECONDS),
    };
    Ok(Claim {
        cluster,
        keepalive_seconds,
        bytes,
    })
}

/// The level byte behind the protocol name, for any name.
fn protocol_level(packet: &[u8]) -> Option<u8> {
    let length_bytes = packet
        .iter()
        .skip(1)
        .take_while(|byte| **byte & 0x80 != 0)
        .count()
        + 1;
    let variable = packet.get(1 + length_bytes..)?;
    let name = usize::from(u16::from_be_bytes([*variable.first()?, *variable.get(1)?]));
    variable.get(2 + name).copied()
}

#[cfg(test)]
mod tests {
    use rumqttc::{LastWill, QoS};

    use super::*;

    fn packet(change: impl FnOnce(&mut Connect)) -> Vec<u8> {
        let mut connect = Connect::new("shop-1");
        change(&mut connect);
        let mut buffer = BytesMut::new();
        connect.write(&mut buffer).unwrap();
        buffer.to_vec()
    }

    async fn check_bytes(bytes: &[u8]) -> Result<Claim, Refusal> {
        read(&mut &*bytes, &mut BytesMut::new()).await
    }

    #[tokio::test]
    async fn what_a_connect_is_answered() {
        let good = check_bytes(&packet(|_| {})).await.unwrap();
        assert_eq!((good.cluster.as_str(), good.keepalive_seconds), ("shop-1", 10));
        assert_eq!(
            check_bytes(&packet(|c| c.keep_alive = 0))
                .await
                .unwrap()
                .keepalive_seconds,
            600
        );
        let long = check_bytes(&packet(|c| c.keep_alive = 60_000)).await.unwrap();
        assert_eq!(long.keepalive_seconds, 600);

        let code = |result: Result<Claim, Refusal>| match result {
            Err(Refusal::Code(code, _)) => code,
            other => panic!("no code: {other:?}"),
        };
        for name in ["", "Shop", "a/b", "+", &"x".repeat(49)] {
            let refused = check_bytes(&packet(|c| c.client_id = name.to_owned())).await;
            assert_eq!(code(refused), ConnectReturnCode::BadClientId, "{name}");
        }
        let will = packet(|c| c.last_will = Some(LastWill::new("t", "m", QoS::AtMostOnce, false)));
        assert_eq!(code(check_bytes(&will).await), ConnectReturnCode::NotAuthorized);
        for level in [3, 5, 6] {
            let mut bytes = packet(|_| {});
            bytes[8] = level;
            assert_eq!(
                code(check_bytes(&bytes).await),
                ConnectReturnCode::RefusedProtocolVersion,
                "{level}"
            );
        }
    }

    #[tokio::test]
    async fn what_gets_no_answer() {
        let large = packet(|c| c.client_id = "x".repeat(5_000));
        assert_eq!(
            check_bytes(&large).await,
            Err(Refusal::Silent("CONNECT is larger than 4 KiB"))
        );
        assert_eq!(
            check_bytes(&[0xc0, 0]).await,
            Err(Refusal::Silent("the first packet is no CONNECT"))
        );
        assert_eq!(
            check_bytes(b"GET / HTTP/1.1\r\n").await,
            Err(Refusal::Silent("the first packet is no CONNECT"))
        );
        let good = packet(|_| {});
        for cut in 0..good.len() {
            assert_eq!(
                check_bytes(&good[..cut]).await,
                Err(Refusal::Gone),
                "cut at {cut}"
            );
        }
    }

    #[tokio::test]
    async fn what_follows_connect_stays_in_the_buffer() {
        let mut bytes = packet(|_| {});
        bytes.extend_from_slice(&[0xc0, 0]);
        let mut buffer = BytesMut::new();
        read(&mut &*bytes, &mut buffer).await.unwrap();
        assert_eq!(&buffer[..], &[0xc0, 0]);
    }
}
