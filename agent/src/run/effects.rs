//! Carries out what the core asks for, in its order.

use agent_core::session::Effect;
use shared::reason::Reason;

use super::shell::{Fatal, Shell};
use crate::crash;
use crate::ledger::{LedgerError, facts};
use crate::link::LinkCommand;
use crate::replica::Trouble;

/// What the hub is told of a set that did not fit.
const DISK_FULL: &str = "the agent's disk is full";

impl Shell {
    /// Says whether the disk was too full for contents of the set that is on its way.
    pub(super) async fn carry_out(&mut self, effect: Effect) -> Result<bool, Fatal> {
        match effect {
            Effect::Send(payload) => self.send(LinkCommand::Send(payload)),
            Effect::Reconnect => {
                if let Some(why) = self.agent.session().last_error() {
                    tracing::warn!(why, "the hub is not accepted or does not answer");
                }
                self.send(LinkCommand::Reconnect);
            }
            Effect::Learnt(ring) => {
                if let Some(office) = &self.office {
                    shared(office.mirror.learnt(&ring).await)?;
                }
                self.owed.ring(&self.ledger.borrow(), *ring)?;
            }
            Effect::Agreed(session) => {
                self.owed.session(&self.ledger.borrow(), session)?;
                if let Some(office) = &self.office {
                    shared(office.mirror.agreed(session).await)?;
                }
            }
            Effect::Confirmed(time) => {
                self.confirmed.raise(time);
                self.owed.confirmed(&self.ledger.borrow(), time)?;
            }
            Effect::Keep(contents) => {
                let kept = self.ledger.borrow_mut().keep(&contents);
                match kept {
                    Ok(()) => {}
                    Err(e) if e.is_disk_full() => {
                        self.agent.handle_commit_failed(Reason::DiskFull, DISK_FULL);
                        return Ok(true);
                    }
                    Err(e) => return Err(e.into()),
                }
            }
            Effect::Commit { held, contents } => {
                crash::point("accept-commit");
                let sequence = held.head.head.sequence;
                tracing::debug!(%sequence, "set verified");
                // A set without the key that signed it would not verify at the next start.
                if !self.owed.settle(&self.ledger.borrow())? {
                    self.agent.handle_commit_failed(Reason::DiskFull, DISK_FULL);
                    return Ok(false);
                }
                if let Some(office) = &self.office {
                    match office.mirror.commit(&held, &contents, &self.ledger).await {
                        // Nothing counts yet, and the set before goes on.
                        Err(e) if e.reason() == Reason::MirrorFull => {
                            self.agent
                                .handle_commit_failed(Reason::MirrorFull, &e.to_string());
                            return Ok(false);
                        }
                        other => shared(other)?,
                    }
                }
                let committed = self.ledger.borrow_mut().commit(&held, &contents);
                match committed {
                    Ok(()) => {
                        crash::point("commit-ack");
                        tracing::info!(%sequence, entries = held.set.entries().len(), "set accepted");
                        self.agent.handle_committed(self.clock.now());
                        self.take_customizations()?;
                    }
                    // What is shared is ahead of this disk: another one may have room.
                    Err(e) if e.is_disk_full() && self.office.is_some() => {
                        tracing::warn!(reason = %Reason::DiskFull, "the disk is full; another agent is to lead");
                        return Err(Fatal::Deposed);
                    }
                    Err(e) if e.is_disk_full() => {
                        self.agent.handle_commit_failed(Reason::DiskFull, DISK_FULL);
                    }
                    Err(e) => return Err(e.into()),
                }
            }
            Effect::Reported(_) | Effect::Forgotten | Effect::Joined(_) | Effect::JoinRefused { .. } => {}
            Effect::SealingKey(key) => {
                let kept = facts::put_sealing(&self.ledger.borrow(), &key);
                // It is told again with the next welcome.
                if let Err(e) = kept
                    && !e.is_disk_full()
                {
                    return Err(e.into());
                }
            }
            Effect::Revoked(reason) => {
                tracing::error!(%reason, "the enrolment was revoked; the workloads stay, the agent only keeps them");
                self.send(LinkCommand::Stop);
            }
        }
        Ok(false)
    }

    /// The scripts of the accepted set are the ones in use.
    pub(super) fn take_customizations(&mut self) -> Result<(), LedgerError> {
        let Some(held) = self.agent.session().held() else {
            return Ok(());
        };
        let set = held.set.clone();
        let concerned = crate::customizations::take(&self.customized, &self.ledger.borrow(), &set)?;
        if let Some(kinds) = concerned {
            self.agent.handle_customized(&kinds);
        }
        Ok(())
    }
}

/// What could not be shared may count or not: whoever leads next, also we, begins from what is found then.
fn shared(written: Result<(), Trouble>) -> Result<(), Fatal> {
    written.map_err(|e| {
        tracing::warn!(reason = %e.reason(), "giving the lead up: {e}");
        Fatal::Deposed
    })
}
