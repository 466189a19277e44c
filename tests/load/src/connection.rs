//! One connection: sends prepared bytes, reads answers of known length, in chunks, or without end.

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// First size of a connection's buffer: four TLS records.
const BUFFER_BYTES: usize = 64 * 1024;
/// A head longer than this is none.
const HEAD_BYTES: usize = 16 * 1024;

/// The bytes of a request.
pub fn request(method: &str, path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "{method} {path} HTTP/1.1\r\nHost: load\r\nUser-Agent: load\r\nAccept: application/json\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// What a server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Length of the body.
    pub bytes: usize,
    /// The body, or its beginning if it was not to be kept.
    pub body: Vec<u8>,
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Known(usize),
    Chunked,
}

/// One client of a server.
#[derive(Debug)]
pub struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were read and not yet taken.
    start: usize,
    end: usize,
}

impl Connection {
    pub(crate) fn new(stream: TlsStream<TcpStream>) -> Connection {
        Connection {
            stream,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// Sends a request and reads the whole answer; keeps its body if asked to.
    ///
    /// # Errors
    /// The connection breaks, or the answer is no HTTP/1.1.
    pub async fn send(&mut self, request: &[u8], keep: bool) -> Result<Answer> {
        let (status, length) = self.open(request).await?;
        let mut answer = Answer {
            status,
            bytes: 0,
            body: Vec::new(),
        };
        let is_kept = keep || status >= 300;
        match length {
            Length::Known(bytes) => self.take(bytes, &mut answer, is_kept).await?,
            Length::Chunked => loop {
                let size = self.chunk_size().await?;
                self.take(size, &mut answer, is_kept).await?;
                self.line_end().await?;
                if size == 0 {
                    break;
                }
            },
        }
        Ok(answer)
    }

    /// Sends a request and reads the head of its answer.
    async fn open(&mut self, request: &[u8]) -> Result<(u16, Length)> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        loop {
            let head = &self.buffer[self.start..self.end];
            if let Some(at) = find(head, b"\r\n\r\n") {
                let read = read_head(&head[..at])?;
                self.start += at + 4;
                return Ok(read);
            }
            ensure!(head.len() < HEAD_BYTES, "no end of the head");
            self.fill().await?;
        }
    }

    /// Sends the request of a watch.
    ///
    /// # Errors
    /// It is not answered with 200 and a stream.
    pub(crate) async fn open_watch(&mut self, request: &[u8]) -> Result<()> {
        let (status, length) = self.open(request).await?;
        ensure!(status == 200, "a watch is answered with {status}");
        ensure!(length == Length::Chunked, "a watch is answered with no stream");
        Ok(())
    }

    /// Waits for the end of the next line of a stream. Whoever sends a line only after everybody had the one before gets
    /// one return for each, however it was cut into pieces, without a look at every byte.
    ///
    /// # Errors
    /// The connection breaks or ends.
    pub(crate) async fn next_line(&mut self) -> Result<()> {
        loop {
            let held = &self.buffer[self.start..self.end];
            // A line ends its chunk: newline, then the end of the chunk.
            let is_whole = held.ends_with(b"}\n\r\n");
            // What is left of an unfinished line matters only at its very end.
            let kept = held.len().min(4);
            self.buffer.copy_within(self.end - kept..self.end, 0);
            (self.start, self.end) = (0, if is_whole { 0 } else { kept });
            if is_whole {
                return Ok(());
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            if self.start == 0 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            } else {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
        }
        let read = self.stream.read(&mut self.buffer[self.end..]).await?;
        ensure!(read > 0, "the server closed the connection");
        self.end += read;
        Ok(())
    }

    /// Takes so many bytes of the body.
    async fn take(&mut self, bytes: usize, answer: &mut Answer, keep: bool) -> Result<()> {
        let mut left = bytes;
        while left > 0 {
            if self.start == self.end {
                self.fill().await?;
            }
            let here = left.min(self.end - self.start);
            if keep {
                let taken = &self.buffer[self.start..self.start + here];
                answer.body.extend_from_slice(taken);
            }
            self.start += here;
            left -= here;
        }
        answer.bytes += bytes;
        Ok(())
    }

    async fn chunk_size(&mut self) -> Result<usize> {
        loop {
            let held = &self.buffer[self.start..self.end];
            if let Some(at) = find(&held[..held.len().min(64)], b"\r\n") {
                let text = std::str::from_utf8(&held[..at])?;
                let digits = text.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(digits, 16).context("the size of a chunk")?;
                self.start += at + 2;
                return Ok(size);
            }
            ensure!(held.len() < 64, "no size of a chunk");
            self.fill().await?;
        }
    }

    async fn line_end(&mut self) -> Result<()> {
        while self.end - self.start < 2 {
            self.fill().await?;
        }
        ensure!(
            &self.buffer[self.start..self.start + 2] == b"\r\n",
            "no end of a chunk"
        );
        self.start += 2;
        Ok(())
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn read_head(head: &[u8]) -> Result<(u16, Length)> {
    let head = std::str::from_utf8(head)?;
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let Some(rest) = first.strip_prefix("HTTP/1.1 ") else {
        bail!("not HTTP/1.1: {first:?}");
    };
    let status = rest.split(' ').next().unwrap_or_default().parse()?;
    let mut length = Length::Known(0);
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = Length::Known(value.trim().parse()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") && value.trim() == "chunked" {
            length = Length::Chunked;
        }
    }
    Ok((status, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_how_long_a_body_is() {
        let known = b"HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\ncontent-length: 12";
        assert_eq!(read_head(known).unwrap(), (201, Length::Known(12)));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked";
        assert_eq!(read_head(chunked).unwrap(), (200, Length::Chunked));
        assert_eq!(
            read_head(b"HTTP/1.1 204 No Content").unwrap(),
            (204, Length::Known(0))
        );
        assert!(read_head(b"SSH-2.0").is_err());
    }

    #[test]
    fn a_request_says_its_length() {
        let bytes = request("POST", "/a", "application/json", b"{}");
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("POST /a HTTP/1.1\r\n") && text.ends_with("Content-Length: 2\r\n\r\n{}"));
    }
}
