//! What is known of a cluster beyond its enrolment: versions, capacity, readiness, when it was last heard.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use shared::ids::{ClusterName, ObjectKey};
use shared::time::UnixSeconds;
use shared::wire::{Capacity, Room};

use super::super::Store;
use super::super::error::StoreError;
use super::super::object::Revision;
use super::enrolment::{cluster_changed, of_json, to_json};
use super::intern;
use super::undone::HeldDeletion;

/// Facts of one cluster. Stored as JSON; fields a newer program adds are defaulted here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterFacts {
    /// `gitVersion` of the member, empty if never told.
    pub kubernetes_version: String,
    /// Version of the agent, empty if never told.
    pub agent_version: String,
    /// What the hub shows as condition Ready; none before the first hello.
    pub ready: Option<ReadyFact>,
    /// Last capacity reported.
    pub capacity: Option<Capacity>,
    /// Free room by node, as last told.
    pub room: Option<Room>,
    /// Objects the agent no longer manages though nobody ordered their deletion.
    pub strays: Vec<ObjectKey>,
    /// Ordered deletions that the agent has not carried out, by key; see [`Store::held_deletions`].
    pub held_deletions: Vec<HeldDeletion>,
    /// The last set the agent refused: code and detail, until it acknowledges one.
    pub refused: Option<(String, String)>,
    /// The last receipt that came in a file: sequence, session and journal number.
    pub carried: Option<(u64, u64, u64)>,
}

/// State of the condition Ready of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyFact {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Stable code.
    pub reason: String,
    /// For people.
    pub message: String,
    /// When the status last changed.
    pub since: UnixSeconds,
}

/// A cluster's facts with what belongs to the row.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterRow {
    /// Its name.
    pub cluster: ClusterName,
    /// Revision of the last visible change.
    pub revision: Revision,
    /// When the agent was last heard; none if never.
    pub last_seen: Option<UnixSeconds>,
    /// The hub is behind what this agent holds; nothing is shipped.
    pub behind: bool,
    /// Nobody speaks for it: it was revoked, or waits for a successor.
    pub revoked: bool,
    /// The facts.
    pub facts: ClusterFacts,
}

impl Store {
    /// Changes facts. `seen`: the agent was heard at that time. Watchers hear of it only if a fact changed, not for
    /// the time alone. Returns whether a fact changed; false also if the cluster is not enrolled.
    ///
    /// # Errors
    /// The store.
    pub async fn update_facts(
        &self,
        cluster: &ClusterName,
        seen: Option<UnixSeconds>,
        change: impl FnOnce(&mut ClusterFacts) + Send + 'static,
    ) -> Result<bool, StoreError> {
        let cluster = cluster.clone();
        self.call(false, move |batch| {
            let Some(row) = read_one(batch.db, &cluster)? else {
                return Ok(Ok(false));
            };
            let mut facts = row.facts.clone();
            change(&mut facts);
            if let Some(seen) = seen {
                batch
                    .db
                    .prepare_cached(
                        "UPDATE cluster SET last_seen = max(coalesce(last_seen, 0), ?2) WHERE name = ?1",
                    )?
                    .execute(params![cluster.as_str(), seen.0])?;
            }
            if facts == row.facts {
                return Ok(Ok(false));
            }
            batch
                .db
                .prepare_cached("UPDATE cluster SET facts = ?2 WHERE name = ?1")?
                .execute(params![cluster.as_str(), to_json(&facts)?])?;
            cluster_changed(batch, &cluster)?;
            Ok(Ok(true))
        })
        .await
    }

    /// Facts of one cluster; none if it is not enrolled.
    ///
    /// # Errors
    /// The store.
    pub fn facts(&self, cluster: &ClusterName) -> Result<Option<ClusterRow>, StoreError> {
        read_one(&self.reader(), cluster)
    }

    /// Facts of every enrolled cluster, by name.
    ///
    /// # Errors
    /// The store.
    pub fn all_facts(&self) -> Result<Vec<ClusterRow>, StoreError> {
        let db = self.reader();
        let mut statement = db.prepare_cached(&format!("{SELECT} ORDER BY name"))?;
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(of_row(row)?);
        }
        Ok(all)
    }
}

const SELECT: &str = "SELECT name, revision, last_seen, held IS NOT NULL, facts, revoked FROM cluster";

fn read_one(db: &Connection, cluster: &ClusterName) -> Result<Option<ClusterRow>, StoreError> {
    let mut statement = db.prepare_cached(&format!("{SELECT} WHERE name = ?1"))?;
    let mut rows = statement.query(params![cluster.as_str()])?;
    rows.next()?.map(of_row).transpose()
}

fn of_row(row: &rusqlite::Row<'_>) -> Result<ClusterRow, StoreError> {
    let facts: Option<String> = row.get(4)?;
    Ok(ClusterRow {
        cluster: intern::cluster_name(&row.get::<_, String>(0)?)?,
        revision: Revision(row.get::<_, i64>(1)?.cast_unsigned()),
        last_seen: row.get::<_, Option<i64>>(2)?.map(UnixSeconds),
        behind: row.get(3)?,
        revoked: row.get(5)?,
        facts: facts.map_or_else(
            || Ok(ClusterFacts::default()),
            |text| of_json("facts of a cluster", &text),
        )?,
    })
}
