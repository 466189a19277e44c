//! `hub.json`: the names and addresses by which clients and agents reach this hub.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::certificates::check_name;
use super::{KeysError, files};

pub(super) const FILE: &str = "hub.json";

/// What was given at `init`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Host names and addresses in the TLS leaf; the first is the one to advertise.
    pub names: Vec<String>,
    /// Where `serve` listens unless told otherwise.
    pub listen: SocketAddr,
    /// URL in `admin.kubeconfig`, as the hub wrote it last.
    pub server: String,
    /// Where this process listens, if not there; the TLS leaf names it too.
    #[serde(skip)]
    pub(super) listens_on: Option<IpAddr>,
}

impl Settings {
    /// Settings of a new hub.
    #[must_use]
    pub fn new(names: Vec<String>, listen: SocketAddr) -> Self {
        let mut settings = Self {
            names,
            listen,
            server: String::new(),
            listens_on: None,
        };
        settings.server = settings.server_for(listen);
        settings
    }

    /// Refuses names that no certificate can carry.
    ///
    /// # Errors
    /// [`KeysError::Name`].
    pub fn check(&self) -> Result<(), KeysError> {
        self.names.iter().try_for_each(|name| check_name(name))
    }

    /// The URL clients use when the hub listens on `address`: the first name, else the address itself.
    #[must_use]
    pub fn server_for(&self, address: SocketAddr) -> String {
        let host = match self.names.first() {
            Some(name) => match name.parse::<IpAddr>() {
                Ok(IpAddr::V6(v6)) => format!("[{v6}]"),
                Ok(IpAddr::V4(_)) | Err(_) => name.clone(),
            },
            None => match reachable(address.ip()) {
                IpAddr::V6(v6) => format!("[{v6}]"),
                IpAddr::V4(v4) => v4.to_string(),
            },
        };
        format!("https://{host}:{}", address.port())
    }

    /// `HOST:PORT` for agents.
    #[must_use]
    pub fn advertised(&self) -> &str {
        self.server.strip_prefix("https://").unwrap_or(&self.server)
    }

    /// Names of the TLS leaf.
    pub(super) fn leaf_names(&self) -> Vec<String> {
        let mut names = self.names.clone();
        names.push(reachable(self.listens_on.unwrap_or(self.listen.ip())).to_string());
        names
    }

    pub(super) fn create(&self, dir: &Path) -> Result<(), KeysError> {
        files::create(&dir.join(FILE), &self.encode())
    }

    pub(super) fn replace(&self, dir: &Path) -> Result<(), KeysError> {
        files::replace(&dir.join(FILE), &self.encode())
    }

    pub(super) fn load(dir: &Path) -> Result<Self, KeysError> {
        let path = dir.join(FILE);
        serde_json::from_slice(&files::read(&path)?).map_err(|error| KeysError::Corrupt {
            path,
            cause: error.to_string(),
        })
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("strings always serialise")
    }
}

/// An address that listens on everything is reached, from here, by loopback.
fn reachable(address: IpAddr) -> IpAddr {
    if address.is_unspecified() {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    } else {
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_is_advertised() {
        let url = |names: &[&str], listen: &str| {
            Settings::new(
                names.iter().map(|n| (*n).to_owned()).collect(),
                listen.parse().unwrap(),
            )
            .server
        };
        assert_eq!(url(&[], "127.0.0.1:6443"), "https://127.0.0.1:6443");
        assert_eq!(url(&[], "0.0.0.0:443"), "https://127.0.0.1:443");
        assert_eq!(
            url(&["hub.example.com", "192.0.2.1"], "0.0.0.0:443"),
            "https://hub.example.com:443"
        );
        assert_eq!(url(&["2001:db8::1"], "[::]:443"), "https://[2001:db8::1]:443");
        assert_eq!(url(&[], "[::1]:443"), "https://[::1]:443");
        assert_eq!(
            Settings::new(vec![], "[::1]:443".parse().unwrap()).advertised(),
            "[::1]:443"
        );
    }
}
