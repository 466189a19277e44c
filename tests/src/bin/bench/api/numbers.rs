//! What `bench api` found, as a person and as a program reads it.

use std::fmt;

use serde::Serialize;

use super::super::summary::Spread;
use super::{Run, speed};

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct ApiNumbers {
    /// Build profile of the hub: numbers of different profiles do not compare.
    pub(crate) profile: &'static str,
    /// Runs of each kind of write.
    pub(crate) rounds: usize,
    /// JSON of one Deployment as it is sent.
    pub(crate) object_bytes: usize,
    /// One-minute load average of the machine.
    pub(crate) load_before: f64,
    /// The same at the end; the runs themselves are in it.
    pub(crate) load_after: f64,
    /// The hub.
    pub(crate) hub: Side,
    /// The real server, if it was asked.
    pub(crate) real: Option<Side>,
    /// Many definitions.
    pub(crate) crds: Option<Definitions>,
    /// Writes while clusters report.
    pub(crate) reports: Option<Reports>,
}

/// Memory of the hub with many definitions.
#[derive(Debug, Serialize)]
pub(crate) struct Definitions {
    /// How many.
    pub(crate) count: usize,
    /// JSON of each.
    pub(crate) bytes_each: usize,
    /// Resident before.
    pub(crate) before_kib: u64,
    /// Resident with them, after somebody looked at discovery and OpenAPI.
    pub(crate) after_kib: u64,
}

/// Writes to the hub while clusters report over its gateway.
#[derive(Debug, Serialize)]
pub(crate) struct Reports {
    /// Simulated clusters.
    pub(crate) clusters: usize,
    /// Statuses that they mean to report.
    pub(crate) wanted_per_second: f64,
    /// Statuses that the hub took.
    pub(crate) statuses_per_second: f64,
    /// Creates at a steady rate.
    pub(crate) writes_per_second: f64,
    /// Before anybody reported.
    pub(crate) quiet_p50_ms: f64,
    /// Before anybody reported.
    pub(crate) quiet_p99_ms: f64,
    /// While they report, from the moment a write was due.
    pub(crate) p50_ms: f64,
    /// The same.
    pub(crate) p99_ms: f64,
    /// CPU of the hub meanwhile.
    pub(crate) hub_cores: f64,
    /// One-minute load average at the end.
    pub(crate) load: f64,
}

/// Memory at rest.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Resident {
    /// Deployments stored.
    pub(crate) objects: usize,
    /// All processes of the server.
    pub(crate) kib: u64,
}

/// Writes with so many clients.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Speed {
    /// Requests on their way at a time.
    pub(crate) clients: usize,
    /// Over the rounds.
    pub(crate) per_second: Spread,
    /// Over the rounds.
    pub(crate) p50_ms: Spread,
    /// Over the rounds.
    pub(crate) p99_ms: Spread,
    /// CPU of the server for one request.
    pub(crate) server_cpu_ms: Spread,
}

/// One of the two.
#[derive(Serialize)]
pub(crate) struct Side {
    /// Which.
    pub(crate) name: &'static str,
    #[serde(serialize_with = "speeds")]
    pub(crate) creates: Vec<(usize, Vec<Run>)>,
    #[serde(serialize_with = "speeds")]
    pub(crate) patches: Vec<(usize, Vec<Run>)>,
    /// A list of 10,000 Deployments.
    pub(crate) list_ms: Vec<f64>,
    /// CPU of the server for it.
    pub(crate) list_cpu_s: Vec<f64>,
    /// Its size.
    pub(crate) list_bytes: usize,
    /// Watchers in the next line.
    pub(crate) watchers: usize,
    /// From the sending of an update until the last watcher has it.
    pub(crate) last_watcher_ms: Vec<f64>,
    /// CPU of the server for all updates together.
    pub(crate) watch_cpu_s: f64,
    /// Memory.
    pub(crate) resident: Vec<Resident>,
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Side")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn speeds<S: serde::Serializer>(runs: &[(usize, Vec<Run>)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().filter_map(|(clients, runs)| speed(*clients, runs)))
}

impl Side {
    /// Nothing measured yet.
    pub(crate) fn new(name: &'static str) -> Side {
        Side {
            name,
            creates: Vec::new(),
            patches: Vec::new(),
            list_ms: Vec::new(),
            list_cpu_s: Vec::new(),
            list_bytes: 0,
            watchers: 0,
            last_watcher_ms: Vec::new(),
            watch_cpu_s: 0.0,
            resident: Vec::new(),
        }
    }
}

/// Adds one round.
pub(crate) fn note(list: &mut Vec<(usize, Vec<Run>)>, clients: usize, run: Run) {
    match list.iter_mut().find(|(known, _)| *known == clients) {
        Some((_, runs)) => runs.push(run),
        None => list.push((clients, vec![run])),
    }
}

fn middle(numbers: &[f64]) -> f64 {
    Spread::of(numbers.to_vec()).map_or(f64::NAN, |spread| spread.median)
}

/// One line: ours, theirs if they were asked, and how much better ours is.
fn line(
    f: &mut fmt::Formatter<'_>,
    label: &str,
    digits: usize,
    ours: f64,
    theirs: Option<f64>,
    more: bool,
) -> fmt::Result {
    write!(f, "  {label:<40}{ours:>12.digits$}")?;
    if let Some(theirs) = theirs {
        let factor = if more { ours / theirs } else { theirs / ours };
        write!(f, "{theirs:>24.digits$}{factor:>9.1}")?;
    }
    writeln!(f)
}

impl ApiNumbers {
    fn writes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = Vec::new();
        let theirs = |of: fn(&Side) -> &Vec<(usize, Vec<Run>)>| self.real.as_ref().map_or(&none, of);
        for (what, ours, theirs) in [
            ("creates", &self.hub.creates, theirs(|side| &side.creates)),
            ("patches", &self.hub.patches, theirs(|side| &side.patches)),
        ] {
            for (clients, runs) in ours {
                let found = theirs.iter().find(|(known, _)| known == clients);
                let (Some(a), b) = (
                    speed(*clients, runs),
                    found.and_then(|(_, runs)| speed(*clients, runs)),
                ) else {
                    continue;
                };
                let b = b.as_ref();
                let label = format!("{what}/s, {clients} clients");
                line(
                    f,
                    &label,
                    0,
                    a.per_second.median,
                    b.map(|b| b.per_second.median),
                    true,
                )?;
                line(
                    f,
                    "  p50, ms",
                    1,
                    a.p50_ms.median,
                    b.map(|b| b.p50_ms.median),
                    false,
                )?;
                line(
                    f,
                    "  p99, ms",
                    1,
                    a.p99_ms.median,
                    b.map(|b| b.p99_ms.median),
                    false,
                )?;
                let cpu = b.map(|b| b.server_cpu_ms.median);
                line(
                    f,
                    "  CPU of the server each, ms",
                    2,
                    a.server_cpu_ms.median,
                    cpu,
                    false,
                )?;
            }
        }
        Ok(())
    }

    fn alone(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(crds) = &self.crds {
            writeln!(
                f,
                "  {} definitions of {} bytes: resident {:.1} MiB before, {:.1} with them",
                crds.count,
                crds.bytes_each,
                crds.before_kib as f64 / 1024.0,
                crds.after_kib as f64 / 1024.0
            )?;
        }
        if let Some(reports) = &self.reports {
            writeln!(
                f,
                "  {} clusters report {:.0} statuses/s (hub took {:.0}/s): {:.0} creates/s p50 {:.1} ms, p99 {:.1} ms; \
                 without reports p50 {:.1}, p99 {:.1}; hub used {:.2} cores",
                reports.clusters,
                reports.wanted_per_second,
                reports.statuses_per_second,
                reports.writes_per_second,
                reports.p50_ms,
                reports.p99_ms,
                reports.quiet_p50_ms,
                reports.quiet_p99_ms,
                reports.hub_cores
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for ApiNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hub, real) = (&self.hub, self.real.as_ref());
        writeln!(
            f,
            "api, {} build, Deployments of {} bytes, {} rounds, load {:.1} before and {:.1} after",
            self.profile, self.object_bytes, self.rounds, self.load_before, self.load_after
        )?;
        if let Some(real) = real {
            writeln!(f, "  {:<40}{:>12}{:>24}{:>9}", "", hub.name, real.name, "factor")?;
        }
        self.writes(f)?;
        if !hub.list_ms.is_empty() {
            let theirs = real.map(|real| middle(&real.list_ms));
            line(f, "list of 10,000, ms", 0, middle(&hub.list_ms), theirs, false)?;
            let theirs = real.map(|real| middle(&real.list_cpu_s));
            line(
                f,
                "  CPU of the server, s",
                2,
                middle(&hub.list_cpu_s),
                theirs,
                false,
            )?;
            let mib = |bytes: usize| bytes as f64 / 1048576.0;
            line(
                f,
                "  size, MiB",
                1,
                mib(hub.list_bytes),
                real.map(|r| mib(r.list_bytes)),
                false,
            )?;
        }
        if !hub.last_watcher_ms.is_empty() {
            let label = format!("update to last of {} watchers, ms", hub.watchers);
            let theirs = real.map(|real| middle(&real.last_watcher_ms));
            line(f, &label, 1, middle(&hub.last_watcher_ms), theirs, false)?;
            let each = |side: &Side| side.watch_cpu_s * 1000.0 / side.last_watcher_ms.len() as f64;
            line(
                f,
                "  CPU of the server each, ms",
                1,
                each(hub),
                real.map(each),
                false,
            )?;
        }
        for (at, ours) in hub.resident.iter().enumerate() {
            let mib = |kib: u64| kib as f64 / 1024.0;
            let theirs = real.and_then(|real| real.resident.get(at)).map(|r| mib(r.kib));
            let label = format!("resident, {} objects, MiB", ours.objects);
            line(f, &label, 1, mib(ours.kib), theirs, false)?;
        }
        self.alone(f)
    }
}
