//! A small Debian with systemd, made once and kept in the user's cache: what machines of tests boot from.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{go, packages, process};

/// The release; also the name of its folder.
const RELEASE: &str = "bookworm";

/// The folder that holds the system, made if it is not there yet. It is only read: whoever boots from it lays an
/// overlay over it.
///
/// # Errors
/// When the packages that make it cannot be had, or we are not root.
pub fn system() -> Result<PathBuf> {
    packages::need_programs(
        &["debootstrap", "systemd-container"],
        &["debootstrap", "systemd-nspawn"],
    )?;
    let folder = go::cache()?.join("debian");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let _lock = process::lock(&folder.join("lock"))?;
    let ready = folder.join(RELEASE);
    if ready.exists() {
        return Ok(ready);
    }
    eprintln!("making a Debian {RELEASE} with systemd: minutes, once");
    let unfinished = folder.join("unfinished");
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished).context("an unfinished system cannot be removed")?;
    }
    process::output(
        Command::new("debootstrap")
            .args([
                "--variant=minbase",
                "--include=systemd,systemd-sysv,dbus",
                RELEASE,
            ])
            .arg(&unfinished),
    )?;
    std::fs::rename(&unfinished, &ready).context("the system cannot be put into its place")?;
    Ok(ready)
}
