//! What was measured, as a person and as a program reads it.

use std::fmt;

use serde::Serialize;

/// Smallest, middle and largest of some numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// How many there were.
    pub(crate) count: usize,
    /// Smallest.
    pub(crate) min: f64,
    /// Middle.
    pub(crate) median: f64,
    /// Largest.
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one number.
    pub(crate) fn of(mut numbers: Vec<f64>) -> Option<Spread> {
        numbers.sort_by(f64::total_cmp);
        Some(Spread {
            count: numbers.len(),
            min: *numbers.first()?,
            median: *numbers.get(numbers.len() / 2)?,
            max: *numbers.last()?,
        })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread {
            count,
            min,
            median,
            max,
        } = self;
        write!(
            f,
            "min {min:.0}  median {median:.0}  max {max:.0}  ({count} times)"
        )
    }
}

/// Resident memory of one process in KiB.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Memory {
    /// Which process.
    pub(crate) process: String,
    /// Now.
    pub(crate) resident_kib: u64,
    /// At most, so far.
    pub(crate) peak_kib: u64,
}

/// Everything that `bench path` found.
#[derive(Debug, Serialize)]
pub(crate) struct PathNumbers {
    /// Build profile of this run: numbers of different profiles do not compare.
    pub(crate) profile: &'static str,
    /// Members in the run.
    pub(crate) members: usize,
    /// Hub and agents, before anything was applied.
    pub(crate) memory_idle: Vec<Memory>,
    /// Hub and agents, at the end.
    pub(crate) memory_after: Vec<Memory>,
    /// Milliseconds from the create call to Available on the hub's object, through all members.
    pub(crate) apply_to_available_ms: Spread,
    /// Size of the edited object.
    pub(crate) object_bytes: usize,
    /// Bytes per member for one changed line: TCP payload, so TLS, MQTT, acknowledgement and reports included.
    pub(crate) bytes_per_change: Spread,
    /// Milliseconds from the edit until every member has the line.
    pub(crate) change_ms: Spread,
}

impl fmt::Display for PathNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "path, {} members, {} build", self.members, self.profile)?;
        for (when, memory) in [("idle", &self.memory_idle), ("after", &self.memory_after)] {
            for one in memory {
                writeln!(
                    f,
                    "  resident {when:<6} {:<12} {:>7.1} MiB (peak {:.1})",
                    one.process,
                    one.resident_kib as f64 / 1024.0,
                    one.peak_kib as f64 / 1024.0
                )?;
            }
        }
        for (what, spread) in [
            ("apply -> Available, ms", &self.apply_to_available_ms),
            ("one line -> in all members, ms", &self.change_ms),
            ("one line, bytes per member", &self.bytes_per_change),
        ] {
            writeln!(f, "  {what:<31} {spread}")?;
        }
        writeln!(f, "  (the edited object has {} bytes)", self.object_bytes)
    }
}
