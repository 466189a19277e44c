//! Keeps the ledger's list of problems in step with the engine, writing only what changed.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::engine::Engine;
use agent_core::report;
use agent_core::target::Phase;
use shared::ids::ObjectKey;
use shared::reason::Reason;

use crate::clock::wall_seconds;
use crate::ledger::{Ledger, LedgerError};

/// What the ledger lists now.
#[derive(Debug, Default)]
pub struct Problems {
    listed: BTreeMap<String, (String, String)>,
}

impl Problems {
    /// What an earlier life listed, without objects that nobody speaks of any more.
    ///
    /// # Errors
    /// The ledger's.
    pub fn load(ledger: &Ledger, engine: &Engine) -> Result<Self, LedgerError> {
        let known: BTreeSet<String> = engine.targets().map(|(key, _)| key.to_string()).collect();
        let mut listed = BTreeMap::new();
        for problem in ledger.problems()? {
            if known.contains(&problem.object) {
                listed.insert(problem.object, (problem.reason, problem.message));
            } else if let Err(e) = ledger.drop_problem(&problem.object)
                && !e.is_disk_full()
            {
                return Err(e);
            }
        }
        Ok(Self { listed })
    }

    /// Looks at targets whose phase changed. A full disk is no reason to stop: the list is for people.
    ///
    /// # Errors
    /// Only when the ledger is damaged.
    pub fn follow(
        &mut self,
        ledger: &Ledger,
        engine: &Engine,
        changed: &BTreeSet<ObjectKey>,
    ) -> Result<(), LedgerError> {
        for key in changed {
            let found = match engine.target(key).map(|t| (t, t.phase())) {
                // Not looked at yet: what was known is the best there is.
                Some((_, Phase::Pending)) => continue,
                Some((t, Phase::Failed { .. } | Phase::Waiting { .. } | Phase::Terminating)) => {
                    let (_, reason, message) = report::state(t);
                    Some((reason, message))
                }
                _ => None,
            };
            let written = match found {
                Some((reason, message)) => self.put(ledger, key, reason, message),
                None => self.drop(ledger, key),
            };
            match written {
                Err(e) if e.is_corrupt() => return Err(e),
                Err(e) => tracing::debug!(object = %key, error = %e, "a problem could not be written down"),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn put(
        &mut self,
        ledger: &Ledger,
        key: &ObjectKey,
        reason: Reason,
        message: String,
    ) -> Result<(), LedgerError> {
        let now = (reason.code().to_owned(), message);
        if self.listed.get(&key.to_string()) == Some(&now) {
            return Ok(());
        }
        ledger.put_problem(key, &now.0, &now.1, wall_seconds().0)?;
        self.listed.insert(key.to_string(), now);
        Ok(())
    }

    fn drop(&mut self, ledger: &Ledger, key: &ObjectKey) -> Result<(), LedgerError> {
        if self.listed.contains_key(&key.to_string()) {
            ledger.drop_problem(&key.to_string())?;
            self.listed.remove(&key.to_string());
        }
        Ok(())
    }
}
