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
    use super::*;

    #[test]
    fn ports_differ_and_can_be_bound() {
        let ports = free(8).unwrap();
        let listeners: Vec<_> = ports
            .iter()
            .map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).unwrap())
            .collect();
        assert_eq!(listeners.len(), 8);
    }
}
