//! A TCP proxy between an agent and the hub, with a line that can be cut: what the network does to a shop or a ship,
//! without touching agent or hub.

mod control;
mod pump;

use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

pub use control::{Remote, serve};

use crate::limits::{PROXY_CONNECT, PROXY_CONNECTIONS};

/// What the line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// Bytes pass.
    #[default]
    Open,
    /// Cut so that both sides notice: connections are closed, new ones are closed at once.
    Cut,
    /// Cut so that nobody is told: connections stay, new ones are accepted, no byte passes. What waits passes when
    /// the line is open again, as TCP would send it again.
    Silent,
}

/// What a proxy has done since it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Where connections go, if that is known.
    pub target: Option<SocketAddr>,
    /// What the line does.
    pub line: Line,
    /// Connections now.
    pub connections: usize,
    /// Connections accepted since the start, refused ones included.
    pub accepted: u64,
    /// Bytes from those who dialled to the target.
    pub up: u64,
    /// Bytes from the target to those who dialled.
    pub down: u64,
    /// Milliseconds each byte is on its way, in each direction.
    #[serde(default)]
    pub delay_ms: u64,
    /// Bytes a second that pass in each direction of a connection; 0: as many as there are.
    #[serde(default)]
    pub rate: u64,
}

#[derive(Default)]
struct State {
    target: Option<SocketAddr>,
    line: Line,
    /// Both ends of each connection, by number.
    connections: Vec<(u64, [TcpStream; 2])>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    accepted: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
    delay_ms: AtomicU64,
    rate: AtomicU64,
}

impl Shared {
    /// The state stays consistent between statements, so a thread that panicked leaves nothing half done.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until bytes may pass; `false` when the line was cut instead.
    fn pass(&self) -> bool {
        let state = self
            .changed
            .wait_while(self.state(), |state| state.line == Line::Silent)
            .unwrap_or_else(PoisonError::into_inner);
        state.line == Line::Open
    }

    fn forget(&self, number: u64) {
        let mut state = self.state();
        state.connections.retain(|(known, ends)| {
            if *known == number {
                close(ends);
            }
            *known != number
        });
    }
}

fn close(ends: &[TcpStream; 2]) {
    for end in ends {
        // Fails when the other side was faster.
        let _ = end.shutdown(Shutdown::Both);
    }
}

/// A running proxy. It lives as long as its process; clones are handles to the same one.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Proxy {
    /// Listens on a loopback port (0: any) and forwards to `target`, which can also be given later.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn start(port: u16, target: Option<SocketAddr>) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("the proxy cannot listen on port {port}"))?;
        let address = listener
            .local_addr()
            .context("the proxy does not know its own address")?;
        let proxy = Proxy {
            shared: Arc::new(Shared::default()),
            address,
        };
        proxy.shared.state().target = target;
        let accepting = proxy.clone();
        std::thread::spawn(move || accepting.accept(&listener));
        Ok(proxy)
    }

    /// The address to dial.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends connections to another target from now on; existing ones stay where they are.
    pub fn link(&self, target: SocketAddr) {
        self.shared.state().target = Some(target);
    }

    /// Cuts or heals the line.
    pub fn set(&self, line: Line) {
        let mut state = self.shared.state();
        state.line = line;
        if line == Line::Cut {
            for (_, ends) in state.connections.drain(..) {
                close(&ends);
            }
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Every byte is this long on its way from now on, in each direction; zero: it is not held up.
    pub fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.shared.delay_ms.store(millis, Ordering::Relaxed);
    }

    /// At most this many bytes a second pass from now on, in each direction of a connection; zero: no limit.
    pub fn throttle(&self, bytes_per_second: u64) {
        self.shared.rate.store(bytes_per_second, Ordering::Relaxed);
    }

    /// What it does and has done.
    pub fn status(&self) -> Status {
        let state = self.shared.state();
        Status {
            target: state.target,
            line: state.line,
            connections: state.connections.len(),
            accepted: self.shared.accepted.load(Ordering::Relaxed),
            up: self.shared.up.load(Ordering::Relaxed),
            down: self.shared.down.load(Ordering::Relaxed),
            delay_ms: self.shared.delay_ms.load(Ordering::Relaxed),
            rate: self.shared.rate.load(Ordering::Relaxed),
        }
    }

    fn accept(&self, listener: &TcpListener) {
        for stream in listener.incoming() {
            // A failed accept is the failure of who dialled.
            let Ok(stream) = stream else { continue };
            let number = self.shared.accepted.fetch_add(1, Ordering::Relaxed);
            let proxy = self.clone();
            std::thread::spawn(move || proxy.carry(number, stream));
        }
    }

    /// Carries one connection to its end. A silent line delays the dial as well: no byte passes, also not a SYN.
    fn carry(&self, number: u64, near: TcpStream) {
        if !self.shared.pass() {
            return;
        }
        let target = self.shared.state().target;
        let Some(target) = target else { return };
        let Ok(far) = TcpStream::connect_timeout(&target, PROXY_CONNECT) else {
            return;
        };
        let (Ok(near_end), Ok(far_end)) = (near.try_clone(), far.try_clone()) else {
            return;
        };
        {
            let mut state = self.shared.state();
            if state.line == Line::Cut || state.connections.len() >= PROXY_CONNECTIONS {
                return;
            }
            state.connections.push((number, [near_end, far_end]));
        }
        pump::both(&self.shared, near, far);
        self.shared.forget(number);
    }
}

#[cfg(test)]
mod tests;
