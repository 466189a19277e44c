//! What a service manager is told: that the agent is ready, that its loop turns, and that it ends. Without one
//! (`NOTIFY_SOCKET` is not set) nothing happens.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The service manager, if there is one.
#[derive(Debug)]
pub struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// The loop must be seen turning this often.
    every: Option<Duration>,
    last: Instant,
}

impl Manager {
    /// As the environment says.
    #[must_use]
    pub fn from_env() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let own = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        Self::new(
            variable("NOTIFY_SOCKET").as_deref(),
            variable("WATCHDOG_USEC").filter(|_| own).as_deref(),
        )
    }

    fn new(address: Option<&str>, watchdog_usec: Option<&str>) -> Self {
        let socket = address.and_then(|text| {
            let address = match text.strip_prefix('@') {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(text),
            };
            Some((UnixDatagram::unbound().ok()?, address.ok()?))
        });
        let every = watchdog_usec
            .and_then(|t| t.parse().ok())
            .filter(|micros| *micros > 0)
            .map(|micros| Duration::from_micros(micros) / 3);
        Self {
            every: every.filter(|_| socket.is_some()),
            socket,
            last: Instant::now(),
        }
    }

    /// The agent works: enrolment and ledger are good.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// The agent ends in order.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The loop turns. A loop that hangs says nothing, and the manager starts the agent anew.
    pub fn turning(&mut self) {
        if self.every.is_some_and(|every| self.last.elapsed() >= every) {
            self.last = Instant::now();
            self.tell("WATCHDOG=1");
        }
    }

    /// The longest pause between two turns.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        self.every
    }

    /// Nobody can do anything about a manager that does not listen.
    fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(e) = socket.send_to_addr(state.as_bytes(), address)
        {
            tracing::debug!(error = %e, state, "the service manager does not listen");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let n = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    }

    #[test]
    fn the_manager_hears_of_start_turns_and_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut manager = Manager::new(path.to_str(), Some("3"));
        manager.ready();
        assert_eq!(heard(&socket), "READY=1");
        assert_eq!(manager.patience(), Some(Duration::from_micros(1)));
        std::thread::sleep(Duration::from_micros(2));
        manager.turning();
        assert_eq!(heard(&socket), "WATCHDOG=1");
        manager.stopping();
        assert_eq!(heard(&socket), "STOPPING=1");
    }

    #[test]
    fn a_name_in_the_abstract_space_is_taken() {
        let name = format!("pinnace-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        Manager::new(Some(&format!("@{name}")), None).ready();
        assert_eq!(heard(&socket), "READY=1");
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        let mut manager = Manager::new(None, Some("1000000"));
        assert_eq!(manager.patience(), None);
        manager.ready();
        manager.turning();
    }
}
