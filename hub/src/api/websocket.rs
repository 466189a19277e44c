//! Watches over WebSocket (RFC 6455), as programs in browsers and Headlamp ask for them: each event is one text frame.
//! The client sends nothing but pings and its farewell.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hub_core::status_error::StatusError;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use std::convert::Infallible;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::limits;
use axum::body::Body;

/// Appended to the client's key (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Name of the protocol that carries a bearer token.
const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    values
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .map(str::trim)
        .filter(|p| !p.is_empty())
}

/// Whether a request wants to go on as a WebSocket.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let has = |name, word: &str| {
        let text = headers
            .get(name)
            .and_then(|v: &HeaderValue| v.to_str().ok())
            .unwrap_or_default();
        text.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "websocket")
}

/// The bearer token that a browser hands over as the name of a protocol, for it cannot set headers.
pub(super) fn bearer(headers: &HeaderMap) -> Option<String> {
    let encoded = protocols(headers).find_map(|p| p.strip_prefix(BEARER_PROTOCOL))?;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(encoded)
        .ok()?;
    String::from_utf8(bytes).ok()
}

/// Switches over to a WebSocket and sends a watch through it.
///
/// # Errors
/// 400 if the request is none of this kind.
pub(super) fn answer(
    mut head: Parts,
    watch: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Result<Response<Body>, StatusError> {
    let bad = |why: &str| StatusError::bad_request(format!("the WebSocket handshake is not valid: {why}"));
    let header = |name| head.headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
    if header(SEC_WEBSOCKET_VERSION) != Some("13") {
        return Err(bad("the version is not 13"));
    }
    let key = header(SEC_WEBSOCKET_KEY).ok_or_else(|| bad("there is no key"))?;
    let accept = BASE64.encode(digest(
        &SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{GUID}").as_bytes(),
    ));
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let accept = HeaderValue::from_str(&accept).map_err(|_| bad("the key is not text"))?;
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    let chosen = protocols(&head.headers).find(|p| !p.starts_with(BEARER_PROTOCOL));
    if let Some(protocol) = chosen.and_then(|p| HeaderValue::from_str(p).ok()) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    let upgrade = head
        .extensions
        .remove::<OnUpgrade>()
        .ok_or_else(|| bad("this connection cannot be switched (HTTP/1.1 can)"))?;
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                if let Err(error) = carry(TokioIo::new(upgraded), watch).await {
                    tracing::debug!(%error, "the WebSocket broke");
                }
            }
            Err(error) => tracing::debug!(%error, "the connection was not switched"),
        }
    });
    Ok(answer)
}

/// Sends every event until the watch ends or the client leaves.
async fn carry(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    watch: impl Stream<Item = Result<Bytes, Infallible>>,
) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(socket);
    let mut watch = std::pin::pin!(watch);
    let mut incoming = Incoming::default();
    loop {
        tokio::select! {
            event = watch.next() => match event {
                Some(Ok(event)) => {
                    let text = event.strip_suffix(b"\n").unwrap_or(&event);
                    to.write_all(&frame(TEXT, text)).await?;
                }
                Some(Err(never)) => match never {},
                None => {
                    // 1000: done.
                    to.write_all(&frame(CLOSE, &1_000_u16.to_be_bytes())).await?;
                    return to.shutdown().await;
                }
            },
            read = incoming.next(&mut from) => match read? {
                None => return Ok(()),
                Some((CLOSE, content)) => {
                    to.write_all(&frame(CLOSE, content.get(..2).unwrap_or_default())).await?;
                    return to.shutdown().await;
                }
                Some((PING, content)) => to.write_all(&frame(PONG, &content)).await?,
                Some(_) => {}
            },
        }
    }
}

/// A whole frame from the server: final, not masked.
fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | kind];
    match content.len() {
        length @ 0..126 => out.push(length as u8),
        length @ 126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(content);
    out
}

/// Bytes of the client that are no whole frame yet; kept here, so that a dropped read loses nothing.
#[derive(Default)]
struct Incoming(Vec<u8>);

impl Incoming {
    /// The next frame: its kind and content. None at the end.
    async fn next(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(u8, Vec<u8>)>> {
        loop {
            if let Some(found) = self.take()? {
                return Ok(Some(found));
            }
            let mut some = [0; 1_024];
            let read = from.read(&mut some).await?;
            if read == 0 {
                return Ok(None);
            }
            self.0.extend_from_slice(&some[..read]);
        }
    }

    fn take(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let [first, second, ..] = *self.0.as_slice() else {
            return Ok(None);
        };
        if second & 0x80 == 0 {
            return Err(wrong("a frame of a client is masked"));
        }
        let (length, start) = match second & 0x7f {
            126 => match self.0.get(2..4) {
                Some(bytes) => (usize::from(u16::from_be_bytes([bytes[0], bytes[1]])), 4),
                None => return Ok(None),
            },
            127 => return Err(wrong("a client of a watch has nothing to say that is so long")),
            short => (usize::from(short), 2),
        };
        if length > limits::WEBSOCKET_FRAME_BYTES {
            return Err(wrong("a client of a watch has nothing to say that is so long"));
        }
        let end = start + 4 + length;
        if self.0.len() < end {
            return Ok(None);
        }
        let frame: Vec<u8> = self.0.drain(..end).collect();
        let (mask, content) = frame[start..].split_at(4);
        let plain = content
            .iter()
            .zip(mask.iter().cycle())
            .map(|(b, m)| b ^ m)
            .collect();
        Ok(Some((first & 0x0f, plain)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(kind: u8, content: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut out = vec![0x80 | kind, 0x80 | content.len() as u8];
        out.extend_from_slice(&mask);
        out.extend(content.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m));
        out
    }

    #[tokio::test]
    async fn events_go_out_and_pings_are_answered() {
        let (client, server) = tokio::io::duplex(256);
        let (events, arriving) = futures::channel::mpsc::unbounded();
        let carrying = tokio::spawn(carry(server, arriving));
        let (mut from, mut to) = tokio::io::split(client);
        let long = Bytes::from(vec![b'x'; 70_000]);
        events
            .unbounded_send(Ok(Bytes::from_static(b"{}\n")))
            .expect("sent");
        let mut head = [0; 4];
        from.read_exact(&mut head).await.expect("a frame");
        assert_eq!(&head, &[0x81, 2, b'{', b'}']);
        // In two pieces.
        let ping = masked(PING, b"hi");
        to.write_all(&ping[..3]).await.expect("written");
        to.write_all(&ping[3..]).await.expect("written");
        from.read_exact(&mut head).await.expect("a frame");
        assert_eq!(&head, &[0x8a, 2, b'h', b'i']);
        events.unbounded_send(Ok(long)).expect("sent");
        let mut frame = vec![0; 10 + 70_000];
        from.read_exact(&mut frame).await.expect("a frame");
        assert_eq!(frame[..10], [0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
        to.write_all(&masked(CLOSE, &[3, 232])).await.expect("written");
        let mut rest = Vec::new();
        from.read_to_end(&mut rest).await.expect("the end");
        assert_eq!(rest, [0x88, 2, 3, 232]);
        carrying.await.expect("no panic").expect("in order");
    }

    #[test]
    fn what_no_client_may_send_is_refused() {
        for bytes in [&[0x81, 2, 0, 0][..], &[0x81, 0xff], &[0x81, 0xfe, 0xff, 0xff]] {
            assert!(Incoming(bytes.to_vec()).take().is_err(), "{bytes:?}");
        }
        for bytes in [&[][..], &[0x81], &[0x81, 0x82, 1], &[0x81, 0xfe, 0]] {
            assert!(matches!(Incoming(bytes.to_vec()).take(), Ok(None)), "{bytes:?}");
        }
    }

    #[test]
    fn tokens_come_as_protocols() {
        let mut headers = HeaderMap::new();
        let value = format!("{BEARER_PROTOCOL}YWJj, base64.binary.k8s.io");
        headers.insert(
            SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_str(&value).expect("text"),
        );
        assert_eq!(bearer(&headers).as_deref(), Some("abc"));
        assert!(!is_wanted(&headers));
    }
}
