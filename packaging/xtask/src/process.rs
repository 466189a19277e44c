//! Processes that outlive the task which started them: found again by number *and* start time, never by name.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::limits::{GRACE, KILLED};
use crate::wait::{self, Look};

/// A started process. The kernel gives numbers again, and after a reboot from the beginning, so a number alone says
/// nothing: start time (ticks since boot) and boot are kept with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// What it is, for messages.
    pub name: String,
    /// Process number.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub started: u64,
    /// The kernel's random name of this boot.
    pub boot: String,
}

impl Process {
    /// Starts `command` in a process group of its own, without input, with all output appended to the file `log`.
    ///
    /// # Errors
    /// When the program or the log cannot be opened.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Process> {
        use std::os::unix::process::CommandExt;
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("the log {} cannot be opened", log.display()))?;
        let errors = output.try_clone().context("the log cannot be opened twice")?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .with_context(|| {
                format!(
                    "{name} cannot be started ({})",
                    command.get_program().to_string_lossy()
                )
            })?;
        let pid = child.id();
        let process = Process {
            name: name.to_owned(),
            pid,
            started: stat(pid).map(|stat| stat.started).unwrap_or_default(),
            boot: boot()?,
        };
        // Reaped by a thread, so that a test that starts and stops members leaves no zombies behind.
        std::thread::spawn(move || child.wait());
        Ok(process)
    }

    /// Whether this very process still runs.
    pub fn alive(&self) -> bool {
        boot().is_ok_and(|boot| boot == self.boot)
            && stat(self.pid).is_some_and(|stat| stat.started == self.started && !stat.ended)
    }

    /// Sends `signal` (a name without SIG) if the process still runs.
    ///
    /// # Errors
    /// When the shell that sends it cannot be started.
    pub fn signal(&self, signal: &str) -> Result<()> {
        if self.alive() {
            // The shell's own kill: present on every machine, and no foreign function call is needed.
            Command::new("sh")
                .arg("-c")
                .arg(format!("kill -{signal} {} 2>/dev/null || true", self.pid))
                .status()
                .context("sh cannot be started to send a signal")?;
        }
        Ok(())
    }

    /// Asks the process to end and, after a grace, makes it.
    ///
    /// # Errors
    /// When it still runs after SIGKILL.
    pub fn stop(&self) -> Result<()> {
        self.signal("TERM")?;
        if self.wait_end(GRACE).is_ok() {
            return Ok(());
        }
        self.signal("KILL")?;
        self.wait_end(KILLED)
    }

    /// Ends the process at once.
    ///
    /// # Errors
    /// When it still runs after SIGKILL.
    pub fn kill(&self) -> Result<()> {
        self.signal("KILL")?;
        self.wait_end(KILLED)
    }

    fn wait_end(&self, patience: std::time::Duration) -> Result<()> {
        wait::until(
            &format!("the end of {} ({})", self.name, self.pid),
            patience,
            || {
                Ok(if self.alive() {
                    Look::NotYet("it runs".into())
                } else {
                    Look::There(())
                })
            },
        )
    }

    /// Resident memory in bytes, 0 if it has ended.
    pub fn resident(&self) -> u64 {
        if !self.alive() {
            return 0;
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .map_or(0, |kib| kib * 1024)
    }
}

struct Stat {
    started: u64,
    ended: bool,
}

/// State and start time (fields 3 and 22 of `/proc/PID/stat`; the name before them may hold any character, so fields
/// are counted from the last closing parenthesis).
fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        ended: matches!(*fields.first()?, "Z" | "X"),
        started: fields.get(19)?.parse().ok()?,
    })
}

fn boot() -> Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .context("/proc is needed to recognise processes")?
        .trim()
        .to_owned())
}

/// Takes from a command's environment what an enclosing cargo has put there for the package it runs.
///
/// Build scripts (ring's among them) are run again when these differ, so a cargo started from within `cargo xtask` or
/// from a test would otherwise build half the workspace a second time.
pub fn outside_cargo(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let of_package = name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
                || ["CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"].contains(&name)
        });
        if of_package {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end and gives back what it printed.
///
/// # Errors
/// When it cannot be started or fails; the message holds the command and what it said on its error output.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{shown}` cannot be started"))?;
    if !output.status.success() {
        bail!(
            "`{shown}` failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command to its end, letting it write to the terminal.
///
/// # Errors
/// When it cannot be started or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command
        .status()
        .with_context(|| format!("`{shown}` cannot be started"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

/// An exclusive lock on a file, held until dropped: two tasks do not build the same thing twice.
///
/// # Errors
/// When the file cannot be made or locked.
pub fn lock(file: &Path) -> Result<File> {
    let lock = File::create(file).with_context(|| format!("{} cannot be made", file.display()))?;
    lock.lock()
        .with_context(|| format!("{} cannot be locked", file.display()))?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        let stat = parse_stat(text).unwrap();
        assert_eq!(stat.started, 777);
        assert!(!stat.ended);
    }

    #[test]
    fn a_process_is_known_by_start_time_and_boot() {
        let log = std::env::temp_dir().join(format!("xtask-process-{}.log", std::process::id()));
        let process = Process::start("sleep", Command::new("sleep").arg("60"), &log).unwrap();
        assert!(process.alive());
        let other_start = Process {
            started: process.started + 1,
            ..process.clone()
        };
        assert!(!other_start.alive(), "another process that got the same number");
        let other_boot = Process {
            boot: "before".into(),
            ..process.clone()
        };
        assert!(!other_boot.alive(), "a process from before a reboot");
        process.stop().unwrap();
        assert!(!process.alive());
        std::fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_process_that_ignores_the_request_is_killed() {
        let log = std::env::temp_dir().join(format!("xtask-process-kill-{}.log", std::process::id()));
        let process = Process::start("sleep", Command::new("sleep").arg("60"), &log).unwrap();
        process.kill().unwrap();
        assert!(!process.alive());
        std::fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_failing_command_says_why() {
        let error = output(Command::new("sh").arg("-c").arg("echo no luck >&2; exit 3"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("no luck") && error.contains('3'), "{error}");
    }
}
