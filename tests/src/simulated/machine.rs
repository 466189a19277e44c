//! What the kernel says of processes and files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Build profile of this run: numbers of different profiles do not compare.
pub fn profile() -> &'static str {
    if cfg!(debug_assertions) { "dev" } else { "dist" }
}

/// One-minute load average of the machine.
///
/// # Errors
/// The kernel does not say.
pub fn load() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    let first = text.split_whitespace().next().context("/proc/loadavg is empty")?;
    Ok(first.parse()?)
}

/// Resident and peak memory of a process, in KiB.
///
/// # Errors
/// The process is gone.
pub fn resident_kib(pid: u32) -> Result<(u64, u64)> {
    let path = PathBuf::from(format!("/proc/{pid}/status"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let field = |name: &str| -> Result<u64> {
        let line = text.lines().find(|line| line.starts_with(name));
        let number = line
            .and_then(|line| line.split_whitespace().nth(1))
            .and_then(|word| word.parse().ok());
        number.with_context(|| format!("{} has no {name}", path.display()))
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}

/// CPU that a process has used so far, in seconds, user and system together.
///
/// # Errors
/// The process is gone.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    /// Ticks per second in `/proc`; the same on every Linux we run on.
    const TICKS: f64 = 100.0;
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    // The name of the program may hold anything; what counts begins behind it.
    let rest = text.rsplit_once(')').context("no program name")?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| -> Result<f64> { Ok(fields.get(at).context("too few fields")?.parse()?) };
    Ok((ticks(11)? + ticks(12)?) / TICKS)
}

/// Bytes of all files below a folder whose name contains `part`.
///
/// # Errors
/// The folder cannot be read.
pub fn bytes_of(folder: &Path, part: &str) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().contains(part) {
            sum += entry.metadata()?.len();
        }
    }
    Ok(sum)
}
