//! Telling a proxy in another process what to do: one line of text on a loopback port, one line of JSON back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Line, Proxy, Status};
use crate::limits::{CONTROL_ANSWER, CONTROL_LINE, PROXY_CONNECT};

/// Answers control lines for `proxy` on a loopback port, for ever.
///
/// # Errors
/// When the port is taken.
pub fn serve(proxy: &Proxy, port: u16) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("the proxy's control port {port} is taken"))?;
    for stream in listener.incoming().flatten() {
        // One bad line or broken connection is the sender's trouble; it sees no answer.
        let _ = answer(proxy, &stream);
    }
    Ok(())
}

fn answer(proxy: &Proxy, mut stream: &TcpStream) -> Result<()> {
    stream.set_read_timeout(Some(CONTROL_ANSWER))?;
    stream.set_write_timeout(Some(CONTROL_ANSWER))?;
    let mut line = String::new();
    BufReader::new(stream.take(CONTROL_LINE)).read_line(&mut line)?;
    let reply = match obey(proxy, line.trim()) {
        Ok(()) => serde_json::to_string(&proxy.status())?,
        Err(error) => serde_json::json!({ "error": error.to_string() }).to_string(),
    };
    writeln!(stream, "{reply}")?;
    Ok(())
}

fn obey(proxy: &Proxy, line: &str) -> Result<()> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("status", "") => {}
        ("link", address) => proxy.link(address.parse().context("link wants ADDRESS:PORT")?),
        ("delay", millis) => proxy.delay(Duration::from_millis(
            millis.parse().context("delay wants milliseconds")?,
        )),
        ("throttle", rate) => proxy.throttle(rate.parse().context("throttle wants bytes a second")?),
        ("line", "open") => proxy.set(Line::Open),
        ("line", "cut") => proxy.set(Line::Cut),
        ("line", "silent") => proxy.set(Line::Silent),
        _ => bail!("unknown order {line:?}"),
    }
    Ok(())
}

/// A proxy in another process.
#[derive(Debug, Clone, Copy)]
pub struct Remote {
    /// Its control port.
    pub control: u16,
}

impl Remote {
    /// What it does and has done.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn status(&self) -> Result<Status> {
        self.order("status")
    }

    /// Sends connections to `target` (a name is looked up once, here) from now on.
    ///
    /// # Errors
    /// When the target is no address or the proxy does not answer.
    pub fn link(&self, target: &str) -> Result<Status> {
        let address: SocketAddr = target
            .to_socket_addrs()
            .with_context(|| format!("{target:?} is not ADDRESS:PORT"))?
            .next()
            .with_context(|| format!("{target:?} has no address"))?;
        self.order(&format!("link {address}"))
    }

    /// Cuts or heals the line.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn set(&self, line: Line) -> Result<Status> {
        self.order(match line {
            Line::Open => "line open",
            Line::Cut => "line cut",
            Line::Silent => "line silent",
        })
    }

    /// Every byte is this long on its way from now on, in each direction.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn delay(&self, delay: Duration) -> Result<Status> {
        self.order(&format!("delay {}", delay.as_millis()))
    }

    /// At most this many bytes a second pass from now on, in each direction of a connection; zero: no limit.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn throttle(&self, bytes_per_second: u64) -> Result<Status> {
        self.order(&format!("throttle {bytes_per_second}"))
    }

    fn order(&self, order: &str) -> Result<Status> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.control));
        let mut stream = TcpStream::connect_timeout(&address, PROXY_CONNECT)
            .with_context(|| format!("no proxy answers on control port {}", self.control))?;
        stream.set_read_timeout(Some(CONTROL_ANSWER))?;
        writeln!(stream, "{order}")?;
        let mut reply = String::new();
        BufReader::new(&stream)
            .read_line(&mut reply)
            .context("the proxy sent no answer")?;
        serde_json::from_str(&reply).with_context(|| format!("the proxy refused {order:?}: {}", reply.trim()))
    }
}
