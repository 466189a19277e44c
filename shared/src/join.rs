//! The join line that `pinnace token create` prints and an operator pastes on the member:
//! `pinnace-agent join --hub HOST:PORT --cluster NAME --root SHA256HEX --token TOKEN`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::ids::{ClusterName, IdError};
use crate::keys::RootPin;
use crate::limits;

/// Why a join line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JoinLineError {
    /// A part is missing.
    #[error("the join line has no {0}")]
    Missing(&'static str),
    /// A part that is not known or comes twice.
    #[error("the join line has an unexpected part {0:?}")]
    Unexpected(String),
    /// The address has no host or no port.
    #[error("--hub must be HOST:PORT")]
    Address,
    /// The token is empty, too long or has other characters than letters, digits, '-', '_' and '.'.
    #[error("--token is not a join token")]
    Token,
    /// Cluster name or root hash.
    #[error(transparent)]
    Id(#[from] IdError),
}

/// A join token: a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Checks and wraps a token.
    ///
    /// # Errors
    /// [`JoinLineError::Token`].
    pub fn new(text: &str) -> Result<Self, JoinLineError> {
        let ok = (1..=limits::TOKEN_BYTES_MAX).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if ok {
            Ok(Self(text.into()))
        } else {
            Err(JoinLineError::Token)
        }
    }

    /// The secret text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The parts of a join line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinLine {
    /// `HOST:PORT` of the hub; an IPv6 host is in brackets.
    pub hub: String,
    /// The cluster's name.
    pub cluster: ClusterName,
    /// SHA-256 of the hub's root public key.
    pub root: RootPin,
    /// The token.
    pub token: Token,
}

/// Checks `HOST:PORT`.
///
/// # Errors
/// [`JoinLineError::Address`].
pub fn check_address(address: &str) -> Result<(), JoinLineError> {
    let (host, port) = address.rsplit_once(':').ok_or(JoinLineError::Address)?;
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let host_ok = match bare {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
        }
    };
    let port_ok = port.parse::<u16>().is_ok_and(|p| p > 0) && port.bytes().all(|b| b.is_ascii_digit());
    if host_ok && port_ok {
        Ok(())
    } else {
        Err(JoinLineError::Address)
    }
}

impl fmt::Display for JoinLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pinnace-agent join --hub {} --cluster {} --root {} --token {}",
            self.hub,
            self.cluster,
            self.root.0,
            self.token.expose()
        )
    }
}

impl FromStr for JoinLine {
    type Err = JoinLineError;

    /// Reads a whole line; `pinnace-agent join` in front is optional.
    fn from_str(line: &str) -> Result<Self, JoinLineError> {
        let mut words = line.split_ascii_whitespace().peekable();
        if words.next_if_eq(&"pinnace-agent").is_some() {
            words.next_if_eq(&"join").ok_or(JoinLineError::Missing("join"))?;
        }
        let [mut hub, mut cluster, mut root, mut token] = [None; 4];
        while let Some(word) = words.next() {
            let slot = match word {
                "--hub" => &mut hub,
                "--cluster" => &mut cluster,
                "--root" => &mut root,
                "--token" => &mut token,
                other => return Err(JoinLineError::Unexpected(other.chars().take(32).collect())),
            };
            let value = words.next().ok_or(JoinLineError::Missing("value at its end"))?;
            if slot.replace(value).is_some() {
                return Err(JoinLineError::Unexpected(word.into()));
            }
        }
        let hub = hub.ok_or(JoinLineError::Missing("--hub"))?;
        check_address(hub)?;
        Ok(Self {
            hub: hub.into(),
            cluster: ClusterName::new(cluster.ok_or(JoinLineError::Missing("--cluster"))?)?,
            root: RootPin(root.ok_or(JoinLineError::Missing("--root"))?.parse()?),
            token: Token::new(token.ok_or(JoinLineError::Missing("--token"))?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Digest;

    #[test]
    fn prints_and_reads() {
        let line = JoinLine {
            hub: "hub.example.org:443".into(),
            cluster: ClusterName::new("shop-1").unwrap(),
            root: RootPin(Digest([9; 32])),
            token: Token::new("abc-DEF_1.2").unwrap(),
        };
        assert_eq!(line.to_string().parse(), Ok(line.clone()));
        let bare = line.to_string().replace("pinnace-agent join ", "");
        assert_eq!(bare.parse(), Ok(line.clone()));
        assert!(!format!("{line:?}").contains("abc-DEF"));
    }

    #[test]
    fn refusals() {
        let root = "0".repeat(64);
        let good = format!("--hub h:1 --cluster c --root {root} --token t");
        assert!(good.parse::<JoinLine>().is_ok());
        for (from, to) in [
            ("h:1", "h"),
            ("h:1", "h:0"),
            ("h:1", "[::x]:1"),
            ("--cluster c", "--cluster C"),
            ("--cluster c", ""),
            ("--token t", "--token"),
            ("--token t", "--token t --token t"),
            ("--token t", "--token t; rm"),
            (root.as_str(), "00"),
        ] {
            assert!(
                good.replace(from, to).parse::<JoinLine>().is_err(),
                "{from} -> {to}"
            );
        }
        assert!(check_address("[::1]:443").is_ok());
    }
}
