//! The agent's core, from what ledger and identity file hold.

use std::sync::Arc;

use agent_core::agent::Agent;
use agent_core::intake::Intake;
use agent_core::session::{Enrolled, Identity, Session};
use shared::keys::SigningKey;

use crate::clock::Monotonic;
use crate::identity::Enrolment;
use crate::ledger::{Ledger, LedgerError, facts};
use crate::random::Random;

/// Why it could not be put together.
pub(super) enum LoadError {
    /// The ledger.
    Ledger(LedgerError),
    /// The identity.
    Other(anyhow::Error),
}

impl From<LedgerError> for LoadError {
    fn from(e: LedgerError) -> Self {
        Self::Ledger(e)
    }
}

/// The core, from what ledger and identity file hold, and the session that it proposes; that is to be written down before
/// it is used, so that it is never proposed twice for two lives.
pub(super) fn load(
    ledger: &Ledger,
    enrolment: &Enrolment,
    random: &Random,
    clock: &Monotonic,
) -> Result<(Agent, shared::ids::Session), LoadError> {
    let ring = facts::ring(ledger)?.unwrap_or_else(|| enrolment.ring.clone());
    let highest = facts::session(ledger)?;
    let proposed = highest.next();
    let held = ledger.held(&ring)?;
    let key = SigningKey::from_pkcs8(&enrolment.key).map_err(|e| LoadError::Other(e.into()))?;
    let receipt = enrolment.receipt.clone();
    let identity = Identity {
        cluster: receipt.receipt.cluster.clone(),
        pin: enrolment.pin,
        key: Arc::new(key),
        boot: random.boot(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let (held, contents) = match held {
        Some(set) => (Some(set.held), set.facts),
        None => (None, std::collections::BTreeMap::new()),
    };
    let intake = Intake::new(Session::owner(&receipt), held, contents);
    let enrolled = Enrolled {
        receipt,
        ring,
        proposed,
        confirmed: facts::confirmed(ledger)?,
        intake,
    };
    let agent = Agent::new(
        identity,
        enrolled,
        ledger.records()?,
        ledger.intents()?,
        clock.now(),
    );
    Ok((agent, proposed))
}
