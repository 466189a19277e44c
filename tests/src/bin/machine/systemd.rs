//! The shipped unit under a booted systemd: start, kill -9, watchdog, power cut, upgrade of the binary.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tests::real::hub::Hub;
use tests::real::kubectl::Kubectl;
use tests::real::machine::Machine;
use tests::real::process::binary;
use tests::real::wait;
use xtask::member::{Binary, Scoped};

use crate::bed::{NAMESPACE, SOON, arrived, join, send};

const UNIT: &str = "pinnace-agent.service";
/// Where the shipped unit expects the program, and the kubeconfig unless told otherwise.
const PROGRAM: &str = "/usr/bin/pinnace-agent";
const KUBECONFIG: &str = "/etc/rancher/k3s/k3s.yaml";
const DATA: &str = "/var/lib/pinnace-agent";
/// As a user would with `systemctl edit`: the watchdog bites within the time of a test.
const DROP_IN: &str = "[Service]\nWatchdogSec=6\n";

struct Installed {
    machine: Machine,
    member: Kubectl,
}

/// Red if the unit's hardening took anything that the agent needs, if the agent told no watchdog, or if a start
/// needed a hub.
pub(crate) fn the_unit_lives_as_on_a_machine_of_a_user(folder: &Path) -> Result<()> {
    let kubectl = Binary::get()?.kubectl();
    let mut hub = Hub::start_new(folder, &kubectl)?;
    let member = Scoped::up(&format!("systemd-{}", std::process::id()), 1)?;
    let mut installed = Installed {
        machine: Machine::new(folder)?,
        member: Kubectl::new(&kubectl, &member.kubeconfig(), &folder.join("member-cache")),
    };
    installed.put_in_place(&hub, &member.kubeconfig())?;
    installed.machine.boot()?;
    installed.starts()?;
    send(&hub, &["one", "two"])?;
    arrived(&installed.member, "one")?;
    arrived(&installed.member, "two")?;
    // From here on there is no hub.
    hub.stop()?;
    installed.survives_a_kill()?;
    installed.is_bitten_when_it_hangs()?;
    installed.boots_after_a_power_cut()?;
    installed.is_upgraded()
}

impl Installed {
    /// What a package and an administrator put on the machine, which is not booted yet.
    fn put_in_place(&self, hub: &Hub, kubeconfig: &Path) -> Result<()> {
        let at = |inside: &str| self.machine.path(inside);
        let units = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/systemd"));
        let drop_ins = format!("/etc/systemd/system/{UNIT}.d");
        for folder in [
            "/etc/rancher/k3s",
            "/etc/systemd/system/multi-user.target.wants",
            &drop_ins,
        ] {
            fs::create_dir_all(at(folder))?;
        }
        fs::copy(binary("pinnace-agent")?, at(PROGRAM))?;
        fs::copy(units.join(UNIT), at("/etc/systemd/system").join(UNIT))?;
        fs::write(at(&drop_ins).join("test.conf"), DROP_IN)?;
        fs::copy(kubeconfig, at(KUBECONFIG))?;
        fs::set_permissions(at(KUBECONFIG), fs::Permissions::from_mode(0o600))?;
        // As `systemctl enable` does.
        std::os::unix::fs::symlink(
            format!("/etc/systemd/system/{UNIT}"),
            at("/etc/systemd/system/multi-user.target.wants").join(UNIT),
        )?;
        join(hub, &at(DATA), kubeconfig)
    }

    fn is_active(&self) -> Result<()> {
        wait::until("the unit is active", SOON, || {
            self.machine
                .run(&["systemctl", "is-active", UNIT])
                .map(drop)
                .map_err(|error| format!("{error:#}; {}", self.journal()))
        })
    }

    fn journal(&self) -> String {
        let words = ["journalctl", "--no-pager", "-n", "15", "-u", UNIT];
        self.machine.run(&words).unwrap_or_else(|e| format!("{e:#}"))
    }

    fn main_pid(&self) -> Result<String> {
        self.machine.property(UNIT, "MainPID")
    }

    fn signal(&self, name: &str) -> Result<()> {
        self.machine
            .run(&["systemctl", "kill", "--kill-who=main", "--signal", name, UNIT])
            .map(drop)
    }

    /// Waits until another process than `before` is the unit's, and it is active.
    fn comes_back(&self, before: &str) -> Result<()> {
        wait::until("systemd has started it again", SOON, || {
            match self.main_pid().map_err(|e| e.to_string())? {
                pid if pid == "0" || pid == before => Err(format!("MainPID is {pid}")),
                _ => Ok(()),
            }
        })?;
        self.is_active()
    }

    /// Somebody deletes an object in the member: the agent works if it comes back.
    fn repairs(&self, name: &str) -> Result<()> {
        self.member.run(&["delete", "configmap", name, "-n", NAMESPACE])?;
        arrived(&self.member, name).with_context(|| self.journal())
    }

    fn starts(&self) -> Result<()> {
        self.is_active()?;
        // Once more, now that the machine may write to its control groups (see `Machine::boot`): with its limits.
        self.machine.run(&["systemctl", "restart", UNIT])?;
        self.is_active()?;
        // Exposure times ten, as systemd counts it for the installed unit.
        self.machine.run(&[
            "systemd-analyze",
            "security",
            "--no-pager",
            "--threshold=25",
            UNIT,
        ])?;
        let said = self.machine.run(&["systemd-analyze", "verify", UNIT])?;
        ensure!(said.trim().is_empty(), "systemd-analyze verify: {said}");
        // The limits of the unit are in force, and the user is none of the machine's.
        let memory = self.machine.property(UNIT, "MemoryCurrent")?;
        let bytes: u64 = memory
            .parse()
            .with_context(|| format!("MemoryCurrent is {memory}"))?;
        println!(
            "in its control group: {:.1} MiB",
            bytes as f64 / f64::from(1 << 20)
        );
        let uid = self
            .machine
            .run(&["stat", "-c", "%u", &format!("/proc/{}", self.main_pid()?)])?;
        let uid: u32 = uid.trim().parse()?;
        ensure!((61_184..=65_519).contains(&uid), "it runs as user {uid}");
        Ok(())
    }

    fn survives_a_kill(&self) -> Result<()> {
        let before = self.main_pid()?;
        self.signal("KILL")?;
        self.comes_back(&before)?;
        self.repairs("one").context("after kill -9")
    }

    fn is_bitten_when_it_hangs(&self) -> Result<()> {
        let before = self.main_pid()?;
        let restarts: u32 = self.machine.property(UNIT, "NRestarts")?.parse()?;
        self.signal("STOP")?;
        self.comes_back(&before)?;
        let journal = self.machine.run(&["journalctl", "--no-pager", "-u", UNIT])?;
        ensure!(journal.contains("Watchdog timeout"), "no watchdog: {journal}");
        let now: u32 = self.machine.property(UNIT, "NRestarts")?.parse()?;
        ensure!(now > restarts, "{now} restarts");
        self.repairs("two").context("after the watchdog")
    }

    fn boots_after_a_power_cut(&mut self) -> Result<()> {
        self.machine.cut_power()?;
        self.member
            .run(&["delete", "configmap", "one", "two", "-n", NAMESPACE])?;
        self.machine.boot()?;
        self.is_active()?;
        for name in ["one", "two"] {
            arrived(&self.member, name).with_context(|| format!("after a power cut; {}", self.journal()))?;
        }
        Ok(())
    }

    /// As a package does it: the new file takes the old one's name, and the unit is restarted.
    fn is_upgraded(&self) -> Result<()> {
        let fresh = self.machine.path("/usr/bin/pinnace-agent.new");
        fs::copy(self.machine.path(PROGRAM), &fresh)?;
        fs::rename(&fresh, self.machine.path(PROGRAM))?;
        let wanted = fs::metadata(self.machine.path(PROGRAM))?.ino();
        let before = self.main_pid()?;
        self.machine.run(&["systemctl", "restart", UNIT])?;
        self.comes_back(&before)?;
        let exe = format!("/proc/{}/exe", self.main_pid()?);
        let inode = self.machine.run(&["stat", "-L", "-c", "%i", &exe])?;
        ensure!(
            inode.trim() == wanted.to_string(),
            "the old program still runs: inode {} and not {wanted}",
            inode.trim()
        );
        let journal = self
            .machine
            .run(&["journalctl", "--no-pager", "-b", "-u", UNIT])?;
        ensure!(
            journal.contains("agent ends"),
            "the old one was not stopped in order: {journal}"
        );
        self.repairs("one").context("after an upgrade")
    }
}
