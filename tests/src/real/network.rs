//! A network namespace at the end of a veth: what runs in it is reached over a line whose bytes the kernel counts.
//! Needs root.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use xtask::process;

/// A namespace and its line to the host; gone when it is dropped.
#[derive(Debug)]
pub struct Network {
    name: String,
    link: String,
    number: u8,
}

/// What passed over the line, both ways together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP: headers and payload, without those of the link.
    pub bytes: u64,
}

/// Bytes of the header of a packet on a veth that are none of IP's.
const LINK_HEADER: u64 = 14;

impl Network {
    /// Makes a namespace. The neighbours know each other and IPv6 is off, so that only IP packets of the programs pass.
    ///
    /// # Errors
    /// When this is not root's machine, or `ip` is missing.
    pub fn new() -> Result<Network> {
        xtask::packages::need_programs(&["iproute2"], &["ip"])?;
        let pid = std::process::id();
        // Low numbers of processes repeat late; a number of its own for every run at the same time is enough.
        let number = u8::try_from(pid % 250 + 1).context("a byte")?;
        let network = Network {
            name: format!("pinnace-{pid}"),
            link: format!("pin{pid}"),
            number,
        };
        let (name, link) = (&network.name, &network.link);
        let (host, inside) = (network.host(), network.inside());
        ip(&["netns", "add", name]).context("a network namespace needs root")?;
        ip(&[
            "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name,
        ])?;
        for (file, namespace) in [(link.as_str(), None), ("eth0", Some(name))] {
            let setting = format!("echo 1 > /proc/sys/net/ipv6/conf/{file}/disable_ipv6");
            let mut command = match namespace {
                None => Command::new("sh"),
                Some(name) => within(name, Path::new("sh")),
            };
            process::output(command.args(["-c", &setting]))?;
        }
        ip(&["address", "add", &format!("{host}/30"), "dev", link])?;
        ip(&[
            "-n",
            name,
            "address",
            "add",
            &format!("{inside}/30"),
            "dev",
            "eth0",
        ])?;
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        ip(&["link", "set", link, "up"])?;
        ip(&["-n", name, "link", "set", "eth0", "up"])?;
        let near = address_of(&format!("/sys/class/net/{link}/address"), None)?;
        let far = address_of("/sys/class/net/eth0/address", Some(name))?;
        ip(&[
            "neighbour",
            "replace",
            &inside,
            "lladdr",
            &far,
            "dev",
            link,
            "nud",
            "permanent",
        ])?;
        ip(&[
            "-n",
            name,
            "neighbour",
            "replace",
            &host,
            "lladdr",
            &near,
            "dev",
            "eth0",
            "nud",
            "permanent",
        ])?;
        Ok(network)
    }

    /// Address of the host's end.
    #[must_use]
    pub fn host(&self) -> String {
        format!("10.231.{}.1", self.number)
    }

    /// Address of the end in the namespace.
    #[must_use]
    pub fn inside(&self) -> String {
        format!("10.231.{}.2", self.number)
    }

    /// A command that runs a program in the namespace, ready to get arguments; the process is the program's own.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        within(&self.name, program)
    }

    /// What has passed over the line so far.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn traffic(&self) -> Result<Traffic> {
        let read = |what: &str| -> Result<u64> {
            let file = PathBuf::from(format!("/sys/class/net/{}/statistics/{what}", self.link));
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            Ok(text.trim().parse()?)
        };
        let packets = read("rx_packets")? + read("tx_packets")?;
        let bytes = read("rx_bytes")? + read("tx_bytes")?;
        Ok(Traffic {
            packets,
            bytes: bytes.saturating_sub(packets * LINK_HEADER),
        })
    }
}

impl Traffic {
    /// What passed since an earlier look.
    #[must_use]
    pub fn since(self, earlier: Traffic) -> Traffic {
        Traffic {
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The line goes with the namespace.
        if let Err(error) = ip(&["netns", "delete", &self.name]) {
            eprintln!("{error:#}");
        }
    }
}

fn ip(arguments: &[&str]) -> Result<String> {
    process::output(Command::new("ip").args(arguments))
}

fn within(namespace: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

fn address_of(file: &str, namespace: Option<&str>) -> Result<String> {
    let mut command = match namespace {
        None => Command::new("cat"),
        Some(name) => within(name, Path::new("cat")),
    };
    Ok(process::output(command.arg(file))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_link_are_not_counted_and_differences_never_negative() {
        let earlier = Traffic {
            packets: 2,
            bytes: 100,
        };
        let later = Traffic {
            packets: 5,
            bytes: 300,
        };
        assert_eq!(
            later.since(earlier),
            Traffic {
                packets: 3,
                bytes: 200
            }
        );
        assert_eq!(earlier.since(later).bytes, 0);
    }
}
