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
    /// The real server.
    pub(crate) real: Side,
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
    pub(crate) p99_ms: Spread,
}

/// One of the two.
#[derive(Serialize)]
pub(crate) struct Side {
    /// Which.
    pub(crate) name: &'static str,
    #[serde(serialize_with = "speeds")]
    creates: Vec<(usize, Vec<Run>)>,
    #[serde(serialize_with = "speeds")]
    patches: Vec<(usize, Vec<Run>)>,
    /// A list of 10,000 Deployments.
    pub(crate) list_ms: Vec<f64>,
    /// Its size.
    pub(crate) list_bytes: usize,
    /// Watchers in the next line.
    pub(crate) watchers: usize,
    /// From the sending of an update until the last watcher has it.
    pub(crate) last_watcher_ms: Vec<f64>,
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
            list_bytes: 0,
            watchers: 0,
            last_watcher_ms: Vec::new(),
            resident: Vec::new(),
        }
    }

    /// Adds one round.
    pub(crate) fn note(&mut self, clients: usize, creates: Run, patches: Run) {
        for (list, run) in [(&mut self.creates, creates), (&mut self.patches, patches)] {
            match list.iter_mut().find(|(known, _)| *known == clients) {
                Some((_, runs)) => runs.push(run),
                None => list.push((clients, vec![run])),
            }
        }
    }
}

fn middle(numbers: &[f64]) -> f64 {
    Spread::of(numbers.to_vec()).map_or(f64::NAN, |spread| spread.median)
}

impl fmt::Display for ApiNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hub, real) = (&self.hub, &self.real);
        writeln!(
            f,
            "api, {} build, Deployments of {} bytes, {} rounds, load {:.1} before and {:.1} after",
            self.profile, self.object_bytes, self.rounds, self.load_before, self.load_after
        )?;
        writeln!(f, "  {:<34}{:>12}{:>24}{:>9}", "", hub.name, real.name, "factor")?;
        for (what, ours, theirs) in [
            ("creates", &hub.creates, &real.creates),
            ("patches", &hub.patches, &real.patches),
        ] {
            for ((clients, ours), (_, theirs)) in ours.iter().zip(theirs) {
                let (Some(ours), Some(theirs)) = (speed(*clients, ours), speed(*clients, theirs)) else {
                    continue;
                };
                let (a, b) = (ours.per_second.median, theirs.per_second.median);
                let label = format!("{what}/s, {clients} clients");
                writeln!(f, "  {label:<34}{a:>12.0}{b:>24.0}{:>9.1}", a / b)?;
                let (a, b) = (ours.p99_ms.median, theirs.p99_ms.median);
                writeln!(f, "  {:<34}{a:>12.1}{b:>24.1}{:>9.1}", "  p99, ms", b / a)?;
            }
        }
        let (a, b) = (middle(&hub.list_ms), middle(&real.list_ms));
        writeln!(
            f,
            "  {:<34}{a:>12.0}{b:>24.0}{:>9.1}",
            "list of 10,000, ms",
            b / a
        )?;
        let (a, b) = (middle(&hub.last_watcher_ms), middle(&real.last_watcher_ms));
        let label = format!("update to last of {} watchers, ms", hub.watchers);
        writeln!(f, "  {label:<34}{a:>12.1}{b:>24.1}{:>9.1}", b / a)?;
        for (ours, theirs) in hub.resident.iter().zip(&real.resident) {
            let (a, b) = (ours.kib as f64 / 1024.0, theirs.kib as f64 / 1024.0);
            let label = format!("resident, {} objects, MiB", ours.objects);
            writeln!(f, "  {label:<34}{a:>12.1}{b:>24.1}{:>9.1}", b / a)?;
        }
        Ok(())
    }
}
