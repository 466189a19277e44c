//! Debian packages that some checks need: found, or installed where this is a Debian machine and we are root.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::{process, workspace};

/// Makes sure that what these packages bring is there; `is_there` says whether it is. Two tasks do not install at the
/// same time.
///
/// # Errors
/// When it is not there and cannot be installed; the message says what a person would type.
pub fn need(packages: &[&str], is_there: impl Fn() -> bool) -> Result<()> {
    if is_there() {
        return Ok(());
    }
    std::fs::create_dir_all(workspace::target()?)?;
    let _lock = process::lock(&workspace::target()?.join("packages.lock"))?;
    if is_there() {
        return Ok(());
    }
    let names = packages.join(" ");
    eprintln!("installing {names}");
    let apt = |arguments: &[&str]| {
        process::output(
            Command::new("apt-get")
                .env("DEBIAN_FRONTEND", "noninteractive")
                .arg("-qq")
                .args(arguments),
        )
    };
    let install = || {
        let mut arguments = vec!["install", "-y", "--no-install-recommends"];
        arguments.extend(packages);
        apt(&arguments)
    };
    // A fresh machine has no list of packages yet, an old one may have an outdated list.
    let installed = install().or_else(|_| apt(&["update"]).and_then(|_| install()));
    let why = match installed {
        Ok(_) if is_there() => return Ok(()),
        Ok(_) => "they are installed and what is needed is still not there".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    bail!(
        "this check needs the Debian packages {names} and could not get them ({why}); as root: apt-get install {names}"
    )
}

/// A program on the path or where system programs are.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Makes sure that programs are there; see [`need`].
///
/// # Errors
/// As [`need`].
pub fn need_programs(packages: &[&str], programs: &[&str]) -> Result<()> {
    need(packages, || programs.iter().all(|name| program(name).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_installed() {
        assert!(program("sh").is_some());
        assert!(program("no-such-program").is_none());
        need_programs(&["no-such-package"], &["sh"]).unwrap();
    }
}
