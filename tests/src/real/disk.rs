//! A disk so small that a test can fill it: a file system of its own in an image (loop mount), or, where the machine
//! has no loop devices, a tmpfs of that size. Both refuse a write with the same error as any full disk.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::process;

/// Name of the file that takes the room.
const BALLAST: &str = "ballast";

/// A mounted small disk; unmounted when it is dropped.
#[derive(Debug)]
pub struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Makes and mounts one below `folder`.
    ///
    /// # Errors
    /// When this machine can mount neither an image nor a tmpfs: whoever runs the tests has to be root.
    pub fn mount(folder: &Path, mebibytes: u32) -> Result<Disk> {
        let at = folder.join("disk");
        fs::create_dir_all(&at)?;
        let kind = match image(folder, &at, mebibytes) {
            Ok(()) => "ext4 in an image",
            Err(no_image) => match tmpfs(&at, mebibytes) {
                Ok(()) => "tmpfs",
                Err(no_tmpfs) => bail!(
                    "this machine cannot mount a small disk, which the checks with a full disk need; run the tests as \
                     root ({no_image:#}; {no_tmpfs:#})"
                ),
            },
        };
        println!("small disk: {mebibytes} MiB, {kind}");
        Ok(Disk { at })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Takes all room that is left, to the last byte.
    ///
    /// # Errors
    /// When a write fails for another reason than a full disk.
    pub fn fill(&self) -> Result<()> {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.at.join(BALLAST))?;
        for size in [1 << 16, 1 << 12, 1 << 9, 1] {
            let piece = vec![0x5a; size];
            loop {
                match file.write_all(&piece) {
                    Ok(()) => {}
                    Err(e) if e.kind() == ErrorKind::StorageFull => break,
                    Err(e) => return Err(e).context("fill the small disk"),
                }
            }
        }
        file.sync_all().context("fill the small disk")
    }

    /// Gives the room back.
    ///
    /// # Errors
    /// When the ballast cannot be removed.
    pub fn free(&self) -> Result<()> {
        fs::remove_file(self.at.join(BALLAST)).context("free the small disk")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, so that a file that is still open somewhere does not keep the mount.
        if let Err(error) = process::output(Command::new("umount").arg("-l").arg(&self.at)) {
            eprintln!("{error:#}");
        }
    }
}

fn image(folder: &Path, at: &Path, mebibytes: u32) -> Result<()> {
    let image = folder.join("disk.image");
    let file = fs::File::create(&image)?;
    file.set_len(u64::from(mebibytes) << 20)?;
    // Nothing reserved for root, who runs the tests; no journal, so that small is small; blocks as on a larger disk
    // (SQLite maps its index of the log in pages of 4 KiB, and a page of which only a part has a block kills).
    process::output(
        Command::new("mkfs.ext4")
            .args(["-q", "-F", "-m", "0", "-b", "4096", "-O", "^has_journal"])
            .arg(&image),
    )?;
    process::output(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(at)).map(drop)
}

fn tmpfs(at: &Path, mebibytes: u32) -> Result<()> {
    let size = format!("size={mebibytes}m,mode=0700");
    process::output(
        Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at),
    )
    .map(drop)
}
