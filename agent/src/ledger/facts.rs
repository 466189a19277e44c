//! The named small values and their forms.

use shared::ids::Session;
use shared::keys::KeyRing;
use shared::time::UnixSeconds;
use shared::wire::SealingKey;

use super::{Ledger, LedgerError, corrupt};

const SESSION: &str = "session";
const RING: &str = "keys";
const CONFIRMED: &str = "confirmed";
const BOUND: &str = "bound";
const SEALING: &str = "sealing";
/// A set was accepted at least once.
pub(super) const ACCEPTED: &str = "accepted";

/// The highest session ever proposed or agreed; zero if none.
///
/// # Errors
/// The ledger's.
pub fn session(ledger: &Ledger) -> Result<Session, LedgerError> {
    number(ledger, SESSION).map(|n| Session(n.unwrap_or(0)))
}

/// Raises the highest session.
///
/// # Errors
/// The ledger's.
pub fn put_session(ledger: &Ledger, session: Session) -> Result<(), LedgerError> {
    if session > self::session(ledger)? {
        ledger.put(SESSION, &session.0.to_be_bytes())
    } else {
        Ok(())
    }
}

/// The keys learnt since enrolment, if any.
///
/// # Errors
/// The ledger's.
pub fn ring(ledger: &Ledger) -> Result<Option<KeyRing>, LedgerError> {
    let Some(bytes) = ledger.get(RING)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|e| corrupt(format!("the keys are unreadable ({e})")))
}

/// Keeps the keys.
///
/// # Errors
/// The ledger's.
pub fn put_ring(ledger: &Ledger, ring: &KeyRing) -> Result<(), LedgerError> {
    let bytes = serde_json::to_vec(ring).map_err(|e| corrupt(format!("the keys cannot be written ({e})")))?;
    ledger.put(RING, &bytes)
}

/// The latest time that the hub confirmed; zero if never.
///
/// # Errors
/// The ledger's.
pub fn confirmed(ledger: &Ledger) -> Result<UnixSeconds, LedgerError> {
    let seconds = number(ledger, CONFIRMED)?.and_then(|n| i64::try_from(n).ok());
    Ok(UnixSeconds(seconds.unwrap_or(0)))
}

/// Raises the confirmed time.
///
/// # Errors
/// The ledger's.
pub fn put_confirmed(ledger: &Ledger, time: UnixSeconds) -> Result<(), LedgerError> {
    match u64::try_from(time.0) {
        Ok(seconds) if time > confirmed(ledger)? => ledger.put(CONFIRMED, &seconds.to_be_bytes()),
        _ => Ok(()),
    }
}

/// uid of `kube-system` of the cluster that `rebind` chose instead of the enrolled one, if it ever ran.
///
/// # Errors
/// The ledger's.
pub fn bound(ledger: &Ledger) -> Result<Option<String>, LedgerError> {
    let Some(bytes) = ledger.get(BOUND)? else {
        return Ok(None);
    };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| corrupt("the bound cluster is unreadable"))
}

/// Keeps the cluster that `rebind` chose.
///
/// # Errors
/// The ledger's.
pub fn put_bound(ledger: &Ledger, uid: &str) -> Result<(), LedgerError> {
    ledger.put(BOUND, uid.as_bytes())
}

/// The key under which sets come in files, if the hub ever told it.
///
/// # Errors
/// The ledger's.
pub fn sealing(ledger: &Ledger) -> Result<Option<SealingKey>, LedgerError> {
    let Some(bytes) = ledger.get(SEALING)? else {
        return Ok(None);
    };
    let key = bytes
        .try_into()
        .map_err(|_| corrupt("the key for files is unreadable"))?;
    Ok(Some(SealingKey(key)))
}

/// Keeps that key; writes only what is new.
///
/// # Errors
/// The ledger's.
pub fn put_sealing(ledger: &Ledger, key: &SealingKey) -> Result<(), LedgerError> {
    if sealing(ledger)?.as_ref() == Some(key) {
        return Ok(());
    }
    ledger.put(SEALING, &key.0)
}

fn number(ledger: &Ledger, name: &'static str) -> Result<Option<u64>, LedgerError> {
    let Some(bytes) = ledger.get(name)? else {
        return Ok(None);
    };
    let bytes =
        <[u8; 8]>::try_from(bytes.as_slice()).map_err(|_| corrupt(format!("{name} is not a number")))?;
    Ok(Some(u64::from_be_bytes(bytes)))
}
