//! Programs in Go that the tasks need: built once per content of their module, kept in the user's cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// Go must be at least this (major, minor): the modules' `go.mod` say so.
const GO: (u32, u32) = (1, 26);

/// The directory in the cache that holds what `build` makes of this state of the module; `build` is called unless the
/// file `last`, which it must make last, is there already. `kind` names the module.
///
/// # Errors
/// When Go is absent or too old, or the build fails.
pub fn built(
    kind: &str,
    module: &Path,
    last: &str,
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let directory = cache()?.join(kind).join(fingerprint(module)?);
    let complete = || directory.join(last).exists();
    if complete() {
        return Ok(directory);
    }
    check(module)?;
    std::fs::create_dir_all(&directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    let _lock = process::lock(&directory.join("lock"))?;
    if !complete() {
        build(&directory)?;
    }
    Ok(directory)
}

/// Says no where Go is absent or too old. Asks inside the module, where an older Go that may fetch the one named in `go.mod` answers with that one.
///
/// # Errors
/// When `go` cannot be run there or is older than the modules need.
pub fn check(module: &Path) -> Result<()> {
    let (major, minor) = GO;
    match process::output(Command::new("go").current_dir(module).arg("version")) {
        Ok(text) if go_version(&text).is_some_and(|found| found >= GO) => Ok(()),
        Ok(text) => bail!(
            "real members need Go {major}.{minor} or newer; `go version` says: {}",
            text.trim()
        ),
        Err(error) => {
            bail!("real members need Go {major}.{minor} or newer (https://go.dev/dl/): {error:#}")
        }
    }
}

/// The numbers in `go version go1.26.8 linux/amd64`.
fn go_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text
        .split_whitespace()
        .nth(2)?
        .strip_prefix("go")?
        .split(['.', '-', 'r', 'b']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Where built things are kept between runs.
///
/// # Errors
/// When the user has no home.
pub fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?)
            .join(".cache"),
    };
    Ok(base.join("pinnace"))
}

/// A name for the content of all files of the module.
fn fingerprint(module: &Path) -> Result<String> {
    let mut files = Vec::new();
    collect(module, &mut files)?;
    files.sort();
    let mut hash = Fnv::default();
    for file in files {
        let content = std::fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        let name = file.strip_prefix(module).unwrap_or(&file);
        hash.part(name.to_string_lossy().as_bytes());
        hash.part(&content);
    }
    Ok(format!("{:016x}", hash.0))
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("{} cannot be read", directory.display()))?;
    for entry in entries {
        let path = entry.context("a directory entry cannot be read")?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "go" || extension == "mod" || extension == "sum")
        {
            files.push(path);
        }
    }
    Ok(())
}

/// FNV-1a, 64 bits: names a cache entry; nobody forges one here.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds a part with its length, so that moving a byte from one part to the next is another content.
    fn part(&mut self, bytes: &[u8]) {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_read() {
        for (text, expected) in [
            ("go version go1.26.8 linux/amd64", Some((1, 26))),
            ("go version go1.27rc1 linux/arm64", Some((1, 27))),
            ("go version go2.0 linux/arm64", Some((2, 0))),
            ("go version devel +abc linux/amd64", None),
            ("", None),
        ] {
            assert_eq!(go_version(text), expected, "{text}");
        }
    }

    #[test]
    fn the_fingerprint_follows_names_and_contents() {
        let name = |parts: &[&str]| {
            let mut hash = Fnv::default();
            parts.iter().for_each(|part| hash.part(part.as_bytes()));
            hash.0
        };
        assert_eq!(name(&["a.go", "x"]), name(&["a.go", "x"]));
        assert_ne!(name(&["a.go", "x"]), name(&["a.g", "ox"]));
        assert_ne!(name(&["a.go", "x"]), name(&["a.go", "y"]));
    }
}
