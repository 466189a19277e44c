//! What `bench fleet` found, as a person and as a program reads it.

use std::fmt;
use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct FleetNumbers {
    /// Build profile: numbers of different profiles do not compare.
    pub(crate) profile: &'static str,
    /// Simulated clusters.
    pub(crate) clusters: usize,
    /// Deployments, each with its policy.
    pub(crate) deployments: usize,
    /// One-minute load average of the machine.
    pub(crate) load_before: f64,
    /// The same at the end; the runs themselves are in it.
    pub(crate) load_after: f64,
    /// One for each way of placing.
    pub(crate) runs: Vec<Run>,
}

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    /// Its name.
    pub(crate) name: String,
    /// Nodes in each cluster.
    pub(crate) nodes_per_cluster: u32,
    /// CPUs of each node.
    pub(crate) cpus_per_node: u32,
    /// JSON of one Deployment.
    pub(crate) object_bytes: usize,
    /// Works of Deployments; the namespace's own are not counted.
    pub(crate) works: usize,
    /// From the first create (of a policy) to the last set in the ledger of its cluster.
    pub(crate) seconds: f64,
    /// From the first create to the answer of the last.
    pub(crate) created_seconds: f64,
    /// Deployments over `seconds`.
    pub(crate) bindings_per_second: f64,
    /// Works over `seconds`.
    pub(crate) works_per_second: f64,
    /// CPU of the hub.
    pub(crate) hub_cpu_seconds: f64,
    /// CPU of the clients and of the simulated clusters, which share the machine with the hub.
    pub(crate) clients_cpu_seconds: f64,
    /// CPU of the hub over Deployments.
    pub(crate) hub_cpu_ms_per_binding: f64,
    /// CPU of the hub over works.
    pub(crate) hub_cpu_us_per_work: f64,
    /// Resident memory of the hub with its clusters, before.
    pub(crate) resident_before_kib: u64,
    /// Resident memory of the hub at rest, after.
    pub(crate) resident_after_kib: u64,
    /// Most resident memory the hub ever had.
    pub(crate) resident_peak_kib: u64,
    /// Database with its log, at rest.
    pub(crate) database_bytes: u64,
    /// What is in it.
    pub(crate) rows: Rows,
    /// When every cluster has then reported every object.
    pub(crate) statuses: Statuses,
}

/// Rows of the database and their pages.
#[derive(Debug, Serialize)]
pub(crate) struct Rows {
    /// Target rows, the namespace's included.
    pub(crate) targets: u64,
    /// Pages of the table of targets and of its indexes, over the rows.
    pub(crate) bytes_per_target: f64,
    /// Contents, each stored once.
    pub(crate) contents: u64,
    /// Sets that were made for a cluster, on average: changes that come together are one set.
    pub(crate) sets_per_cluster: f64,
    /// Bytes by table, indexes included.
    pub(crate) tables: std::collections::BTreeMap<String, u64>,
}

impl Rows {
    /// Reads a database that a hub is working on.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(database: &Path) -> Result<Self> {
        let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let count = |table: &str| -> Result<u64> {
            let number: i64 = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
            Ok(number.cast_unsigned())
        };
        let mut statement = db.prepare(
            "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_schema m ON m.name = s.name
             GROUP BY m.tbl_name",
        )?;
        let sizes = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
        })?;
        let tables: std::collections::BTreeMap<String, u64> = sizes.collect::<Result<_, _>>()?;
        let targets = count("target")?;
        let sets: Option<f64> = db.query_row("SELECT avg(sequence) FROM cluster", [], |row| row.get(0))?;
        Ok(Self {
            sets_per_cluster: sets.unwrap_or_default(),
            targets,
            bytes_per_target: tables.get("target").copied().unwrap_or(0) as f64 / targets.max(1) as f64,
            contents: count("content")?,
            tables,
        })
    }
}

/// Reports with a status for every work.
#[derive(Debug, Serialize)]
pub(crate) struct Statuses {
    /// How many.
    pub(crate) count: usize,
    /// From the first to the acknowledgement of the last.
    pub(crate) seconds: f64,
    /// `count` over `seconds`.
    pub(crate) per_second: f64,
    /// CPU of the hub until it came to rest, aggregation included.
    pub(crate) hub_cpu_seconds: f64,
    /// Resident memory of the hub at rest.
    pub(crate) resident_kib: u64,
    /// Database with its log, at rest.
    pub(crate) database_bytes: u64,
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

impl fmt::Display for FleetNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "fleet, {} clusters, {} Deployments with a policy each, {} build, load {:.1} before, {:.1} after",
            self.clusters, self.deployments, self.profile, self.load_before, self.load_after
        )?;
        self.runs.iter().try_for_each(|run| write!(f, "{run}"))
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            " {} ({} nodes of {} CPUs in each cluster): {} works",
            self.name, self.nodes_per_cluster, self.cpus_per_node, self.works
        )?;
        writeln!(
            f,
            "  first create -> last target announced {:>9.2} s (creates answered after {:.2} s): {:.0} bindings/s, {:.0} works/s",
            self.seconds, self.created_seconds, self.bindings_per_second, self.works_per_second
        )?;
        writeln!(
            f,
            "  CPU of the hub {:.2} s: {:.2} ms per binding, {:.0} us per work (clients and clusters: {:.2} s)",
            self.hub_cpu_seconds,
            self.hub_cpu_ms_per_binding,
            self.hub_cpu_us_per_work,
            self.clients_cpu_seconds
        )?;
        writeln!(
            f,
            "  resident {:.1} MiB before, {:.1} MiB after, peak {:.1} MiB; database {:.1} MiB",
            mib(self.resident_before_kib),
            mib(self.resident_after_kib),
            mib(self.resident_peak_kib),
            mib(self.database_bytes / 1024)
        )?;
        writeln!(
            f,
            "  target row {:.0} bytes with its indexes; {} contents for {} targets; {:.1} sets for a cluster",
            self.rows.bytes_per_target, self.rows.contents, self.rows.targets, self.rows.sets_per_cluster
        )?;
        let statuses = &self.statuses;
        writeln!(
            f,
            "  then {} statuses in {:.2} s: {:.0}/s; CPU {:.2} s, resident {:.1} MiB, database {:.1} MiB",
            statuses.count,
            statuses.seconds,
            statuses.per_second,
            statuses.hub_cpu_seconds,
            mib(statuses.resident_kib),
            mib(statuses.database_bytes / 1024)
        )
    }
}
