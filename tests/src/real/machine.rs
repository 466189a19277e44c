//! A machine that boots Debian with systemd in a container (systemd-nspawn): units run as they do on a user's machine,
//! and the power can be cut. It shares the network with the host, so that loopback addresses are the same. Needs root
//! and version 1 control groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use xtask::{debian, process};

use super::process::Process;
use super::wait;

/// A machine has booted within this.
const BOOTED: Duration = Duration::from_secs(60);
/// The controllers that the units' limits need. Where they are mounted version 1, nspawn makes them read-only.
const CONTROLLERS: [&str; 4] = ["memory", "cpu", "cpuacct", "pids"];

/// A machine whose disk outlives its boots.
#[derive(Debug)]
pub struct Machine {
    name: String,
    folder: PathBuf,
    running: Option<Process>,
}

impl Machine {
    /// A machine with a fresh disk below `folder`, not yet booted.
    ///
    /// # Errors
    /// When the system cannot be made, or the disk cannot be mounted.
    pub fn new(folder: &Path) -> Result<Machine> {
        let system = debian::system()?;
        for part in ["upper", "work", "root"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let layers = format!(
            "lowerdir={},upperdir={},workdir={}",
            system.display(),
            folder.join("upper").display(),
            folder.join("work").display()
        );
        process::output(
            Command::new("mount")
                .args(["-t", "overlay", "overlay", "-o", &layers])
                .arg(folder.join("root")),
        )
        .context("the disk of a machine cannot be mounted; root is needed")?;
        Ok(Machine {
            name: format!("pinnace-{}", std::process::id()),
            folder: folder.to_owned(),
            running: None,
        })
    }

    /// A path on its disk.
    #[must_use]
    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.join("root").join(inside.trim_start_matches('/'))
    }

    /// Boots, and waits until systemd has started everything.
    ///
    /// # Errors
    /// When it does not come up; the message names the log.
    pub fn boot(&mut self) -> Result<()> {
        ensure!(self.running.is_none(), "the machine runs already");
        let log = self.folder.join("console.log");
        // Its own control groups first, or its slices would appear inside the caller's.
        let script = "for c in $1; do mkdir -p /sys/fs/cgroup/$c/$2 && echo $$ > /sys/fs/cgroup/$c/$2/cgroup.procs \
                      || exit 1; done; exec systemd-nspawn --directory \"$3\" --boot --register=no --keep-unit \
                      --machine=$2 --link-journal=no --console=pipe --resolv-conf=off";
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh", &CONTROLLERS.join(" "), &self.name])
            .arg(self.path("/"));
        self.running = Some(Process::start(command, &log)?);
        wait::until(&format!("the machine boots ({})", log.display()), BOOTED, || {
            match self.run(&["systemctl", "is-system-running"]) {
                Ok(_) => Ok(()),
                // A unit that failed at the boot is the test's to find.
                Err(error) if error.to_string().contains("degraded") => Ok(()),
                Err(error) => Err(format!("{error:#}")),
            }
        })?;
        let init = self.init()?.to_string();
        for controller in CONTROLLERS {
            process::output(Command::new("nsenter").args([
                "-t",
                &init,
                "-m",
                "mount",
                "-o",
                "remount,rw,bind",
                &format!("/sys/fs/cgroup/{controller}"),
            ]))?;
        }
        self.run(&["systemctl", "daemon-reexec"]).map(drop)
    }

    /// Cuts the power: everything in it is gone at once, the disk stays as it is.
    ///
    /// # Errors
    /// When it does not run.
    pub fn cut_power(&mut self) -> Result<()> {
        let init = self.init()?;
        process::output(Command::new("kill").args(["-KILL", &init.to_string()]))?;
        let mut running = self.running.take().context("the machine runs")?;
        running.wait_end(BOOTED)?;
        self.forget_groups();
        Ok(())
    }

    /// Runs a command inside and gives what it printed.
    ///
    /// # Errors
    /// When it fails; the message has what it said on both outputs.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        let init = self.init()?.to_string();
        let output = Command::new("nsenter")
            .args(["-t", &init, "-m", "-u", "-i", "-n", "-p", "-C", "--root", "--wd"])
            .args(["env", "-i", "PATH=/usr/sbin:/usr/bin"])
            .args(words)
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}{}", words.join(" "), said.trim(), errors.trim());
        }
        Ok(said)
    }

    /// One property of a unit.
    ///
    /// # Errors
    /// When systemd does not answer.
    pub fn property(&self, unit: &str, name: &str) -> Result<String> {
        let value = self.run(&["systemctl", "show", unit, "--property", name, "--value"])?;
        Ok(value.trim().to_owned())
    }

    /// Number of its first process, as the host sees it.
    fn init(&self) -> Result<u32> {
        let outside = self.running.as_ref().context("the machine does not run")?.pid();
        let file = format!("/proc/{outside}/task/{outside}/children");
        let children = fs::read_to_string(&file).with_context(|| file.clone())?;
        let first = children
            .split_whitespace()
            .next()
            .context("it has not started yet")?;
        Ok(first.parse()?)
    }

    /// What a machine that is gone left among the control groups.
    fn forget_groups(&self) {
        for controller in CONTROLLERS {
            let group = format!("/sys/fs/cgroup/{controller}/{}", self.name);
            // Deepest first; one that is not there is what is wanted.
            let _ = Command::new("find")
                .args([&group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"])
                .stderr(Stdio::null())
                .status();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.running.is_some()
            && let Err(error) = self.cut_power()
        {
            eprintln!("the machine could not be stopped: {error:#}");
        }
        let root = self.path("/");
        if let Err(error) = process::output(Command::new("umount").arg("-l").arg(root)) {
            eprintln!("{error:#}");
        }
    }
}
