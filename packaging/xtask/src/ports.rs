//! Free loopback ports.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Result, bail};

use crate::limits::PORTS;

/// `count` different loopback ports on which nothing listens. They are looked for from a random place on, so that
/// two tasks that start at the same time rarely meet; who loses the race sees its process end and is told so.
///
/// # Errors
/// When the range holds fewer free ports.
pub fn free(count: usize) -> Result<Vec<u16>> {
    let span = usize::from(PORTS.end - PORTS.start);
    let start = usize::try_from(RandomState::new().hash_one(std::process::id()) % span as u64)?;
    let mut held = Vec::new();
    for step in 0..span {
        let port = PORTS.start + u16::try_from((start + step) % span)?;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            held.push((port, listener));
        }
        if held.len() == count {
            return Ok(held.into_iter().map(|(port, _)| port).collect());
        }
    }
    bail!(
        "fewer than {count} free ports between {} and {}",
        PORTS.start,
        PORTS.end
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::wait::{self, Look};

    /// A child that another test of this process starts holds a copy of every descriptor between its fork and its
    /// exec, so a port that was given back may stay taken for that moment: the state to wait for is "can be bound".
    #[test]
    fn ports_differ_and_can_be_bound() {
        let ports = free(8).unwrap();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 8);
        assert!(ports.iter().all(|port| PORTS.contains(port)), "{ports:?}");
        let mut listeners = Vec::new();
        for port in ports {
            let listener = wait::until("the port", Duration::from_secs(10), || {
                Ok(match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                    Ok(listener) => Look::There(listener),
                    Err(error) => Look::NotYet(format!("{port}: {error}")),
                })
            });
            listeners.push(listener.unwrap());
        }
        assert_eq!(listeners.len(), 8);
    }
}
