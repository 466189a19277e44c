//! The Lease in the member's API, kept as the core's election decides.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use agent_core::election::{Election, Record, Step};
use agent_core::limits::{LEASE_LENGTH, LEASE_RENEW};
use serde_json::{Value, json};
use shared::time::Millis;
use tokio::time::{sleep, timeout};

use crate::clock::{Monotonic, wall_seconds};
use crate::limits::LEASE_REQUEST;
use crate::member::api::Api;
use crate::member::errors::ApiError;
use crate::member::fence::Fence;

/// Name of the Lease; the printed RBAC names it too.
const LEASE: &str = "pinnace-agent";

/// One agent's seat at the table.
pub(super) struct Seat {
    api: Api,
    namespace: String,
    me: String,
    clock: Monotonic,
    election: RefCell<Election>,
    /// `spec.acquireTime` of our present term.
    acquired: RefCell<String>,
}

impl Seat {
    pub(super) fn new(api: Api, namespace: &str, me: String, clock: Monotonic) -> Self {
        Self {
            api,
            namespace: namespace.to_owned(),
            election: RefCell::new(Election::new(me.clone())),
            me,
            clock,
            acquired: RefCell::default(),
        }
    }

    /// Until when we may act; none: another does.
    pub(super) fn until(&self) -> Option<Millis> {
        let election = self.election.borrow();
        election
            .leads(self.clock.now())
            .then(|| election.until())
            .flatten()
    }

    /// Who leads, as last seen.
    pub(super) fn holder(&self) -> String {
        self.election.borrow().holder().to_owned()
    }

    /// Time until the Lease is to be looked at again, at most one renewal's.
    pub(super) fn pause(&self) -> Duration {
        let wait = self.election.borrow().next().since(self.clock.now());
        Duration::from_millis(wait.min(LEASE_RENEW.0))
    }

    /// Looks at the Lease, and takes or renews it if that is ours to do.
    pub(super) async fn look(&self) {
        let sent = self.clock.now();
        match timeout(LEASE_REQUEST, self.round(sent)).await {
            Ok(Ok(())) => {}
            Ok(Err(e)) => {
                tracing::debug!(error = %e, "the lease could not be read or written");
                self.election.borrow_mut().handle_failed(self.clock.now());
            }
            Err(_) => {
                tracing::debug!("the lease could not be read or written in time");
                self.election.borrow_mut().handle_failed(self.clock.now());
            }
        }
    }

    async fn round(&self, sent: Millis) -> Result<(), ApiError> {
        let found = self.api.find(&self.path()).await?;
        let record = found.as_ref().map(read);
        let step = self.election.borrow_mut().handle_read(record, self.clock.now());
        let written = match step {
            Step::Wait => return Ok(()),
            Step::Create => {
                self.acquired.replace(now());
                self.api.create(&self.collection(), &self.lease(0, None)).await?
            }
            Step::Write {
                version,
                transitions,
                takes,
            } => {
                if takes {
                    self.acquired.replace(now());
                }
                let object = self.lease(transitions, Some(&version));
                self.api.replace(&self.path(), &object).await?
            }
        };
        self.election
            .borrow_mut()
            .handle_written(read(&written), sent, self.clock.now());
        Ok(())
    }

    /// Renews the lease and moves the fence, until it is lost; then the fence ends.
    pub(super) async fn keep(&self, fence: Rc<Fence>) {
        while let Some(until) = self.until() {
            fence.raise(until);
            let left = until.since(self.clock.now());
            sleep(self.pause().min(Duration::from_millis(left))).await;
            if fence.is_over() && self.until().is_none() {
                break;
            }
            self.look().await;
        }
        fence.end();
    }

    /// Gives the lease back, so that another need not wait for its end.
    pub(super) async fn release(&self) {
        if self.until().is_none() {
            return;
        }
        let give = async {
            let Some(mut lease) = self.api.find(&self.path()).await? else {
                return Ok(());
            };
            if lease.pointer("/spec/holderIdentity").and_then(Value::as_str) == Some(&self.me) {
                lease["spec"]["holderIdentity"] = json!("");
                lease["spec"]["renewTime"] = json!(now());
                self.api.replace(&self.path(), &lease).await?;
            }
            Ok::<_, ApiError>(())
        };
        match timeout(LEASE_REQUEST, give).await {
            Ok(Ok(())) => {}
            _ => tracing::info!("the lease could not be given back; another agent takes it when it ends"),
        }
    }

    fn lease(&self, transitions: u32, version: Option<&str>) -> Value {
        let mut object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": self.namespace},
            "spec": {"holderIdentity": self.me, "leaseDurationSeconds": LEASE_LENGTH.0 / 1_000,
                "acquireTime": *self.acquired.borrow(), "renewTime": now(), "leaseTransitions": transitions}});
        if let Some(version) = version {
            object["metadata"]["resourceVersion"] = version.into();
        }
        object
    }

    fn collection(&self) -> String {
        format!(
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
            self.namespace
        )
    }

    fn path(&self) -> String {
        format!("{}/{LEASE}", self.collection())
    }
}

fn read(lease: &Value) -> Record {
    let text = |pointer: &str| {
        let found = lease.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let number = |pointer: &str| lease.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    Record {
        version: text("/metadata/resourceVersion"),
        holder: text("/spec/holderIdentity"),
        length: Millis(number("/spec/leaseDurationSeconds").saturating_mul(1_000)),
        transitions: u32::try_from(number("/spec/leaseTransitions")).unwrap_or(u32::MAX),
    }
}

/// The machine's clock, for people who look at the Lease; no agent decides by it.
fn now() -> String {
    wall_seconds().rfc3339().replace('Z', ".000000Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_of_others_is_read_as_it_is() {
        let lease = json!({"metadata": {"resourceVersion": "12"}, "spec": {"holderIdentity": "x",
            "leaseDurationSeconds": 15, "leaseTransitions": 2}});
        let record = read(&lease);
        assert_eq!((record.version.as_str(), record.holder.as_str()), ("12", "x"));
        assert_eq!((record.length, record.transitions), (Millis(15_000), 2));
        assert_eq!(read(&json!({"spec": null})).holder, "");
    }
}
