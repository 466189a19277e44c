//! Makes durable what a ship decided, before anything that follows from it leaves the hub.

use hub_core::ship::Effect;
use shared::ids::{ClusterName, Sequence};
use shared::time::UnixSeconds;

use crate::crash;
use crate::store::fleet::{HeldSet, Ingested};
use crate::store::{Store, StoreError};

/// What came of an effect.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Durable.
    Done,
    /// The set of this sequence is no longer the newest; its offer must not leave.
    Overtaken(Sequence),
    /// Store and ship see the cluster differently; the ship is built again.
    Disagrees(String),
}

/// Carries out one effect.
pub(super) async fn perform(
    store: &Store,
    cluster: &ClusterName,
    effect: Effect,
    now: UnixSeconds,
) -> Result<Outcome, StoreError> {
    match effect {
        Effect::Hello { session, hello } => {
            let granted = store.begin_session(cluster, hello.boot, session, now).await?;
            match granted {
                Some(grant) if grant.session == session => {}
                Some(grant) => {
                    return Ok(Outcome::Disagrees(format!(
                        "session {session} was agreed as {}",
                        grant.session
                    )));
                }
                None => {
                    return Ok(Outcome::Disagrees(
                        "the cluster is not enrolled any more".to_owned(),
                    ));
                }
            }
            let change = move |facts: &mut crate::store::fleet::ClusterFacts| {
                facts.agent_version = hello.agent_version;
                if !hello.kubernetes_version.is_empty() {
                    facts.kubernetes_version = hello.kubernetes_version;
                }
            };
            store.update_facts(cluster, Some(now), change).await?;
        }
        Effect::Published(sequence) => {
            crash::point("ship.before");
            if !store.mark_published(cluster, sequence).await? {
                return Ok(Outcome::Overtaken(sequence));
            }
            tracing::debug!(%cluster, %sequence, "set marked as sent");
        }
        Effect::Acked(sequence, digest) => {
            store.acked(cluster, sequence, digest).await?;
        }
        Effect::Refused(refused) => {
            let said = (refused.reason.as_str().to_owned(), refused.detail);
            store
                .update_facts(cluster, Some(now), move |facts| facts.refused = Some(said))
                .await?;
        }
        Effect::Report { session, report } => {
            if store.ingest_report(cluster, session, *report, now).await? == Ingested::Unknown {
                return Ok(Outcome::Disagrees(format!(
                    "the store does not know session {session}"
                )));
            }
        }
        Effect::Behind(head) => store.hold(cluster, Some(HeldSet { head, set: None })).await?,
        Effect::HeldSet(head, set) => {
            let set = Some(set.as_ref().clone());
            store.hold(cluster, Some(HeldSet { head, set })).await?;
        }
        Effect::PushHub(decided) => match store.push_hub(cluster, decided.winner).await? {
            // The store decides again over the same two sides, in the transaction that adopts.
            Ok(_sequence) => {}
            Err(refusal) => return Ok(Outcome::Disagrees(refusal.to_string())),
        },
        Effect::Clone => {
            let said = (
                shared::reason::Reason::Clone.code().to_owned(),
                "two agents run with the identity of this cluster; nothing new is sent to either".to_owned(),
            );
            store
                .update_facts(cluster, Some(now), move |facts| facts.refused = Some(said))
                .await?;
        }
    }
    Ok(Outcome::Done)
}
