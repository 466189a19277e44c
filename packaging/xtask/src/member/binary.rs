//! The Go binary that holds a whole control plane: built once per content of its module, kept in the user's cache.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

/// The release that is linked in; `go.mod` pins the same one.
const KUBERNETES: &str = "v1.36.3";

/// Go must be at least this (major, minor): `go.mod` says so.
const GO: (u32, u32) = (1, 26);

/// A built binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    directory: PathBuf,
}

impl Binary {
    /// The binary of this state of the module, built if it is not there yet. Says so before it starts to build.
    ///
    /// # Errors
    /// When Go is absent or too old, or the build fails.
    pub fn get() -> Result<Binary> {
        let module = workspace::root()?.join("tests/member");
        let directory = cache()?.join(fingerprint(&module)?);
        let binary = Binary { directory };
        if binary.complete() {
            return Ok(binary);
        }
        check_go(&module)?;
        std::fs::create_dir_all(&binary.directory)
            .with_context(|| format!("{} cannot be made", binary.directory.display()))?;
        let _lock = process::lock(&binary.directory.join("lock"))?;
        if !binary.complete() {
            binary.build(&module)?;
        }
        Ok(binary)
    }

    /// The control plane: the first argument names the component.
    pub fn member(&self) -> PathBuf {
        self.directory.join("member")
    }

    /// The same file under the name by which it is kubectl.
    pub fn kubectl(&self) -> PathBuf {
        self.directory.join("kubectl")
    }

    fn complete(&self) -> bool {
        // The link is made last.
        self.kubectl().exists()
    }

    fn build(&self, module: &Path) -> Result<()> {
        eprintln!("building the control plane {KUBERNETES} of the members: minutes, once");
        let start = Instant::now();
        let version = "k8s.io/component-base/version";
        let (major, minor) = KUBERNETES
            .trim_start_matches('v')
            .split_once('.')
            .map(|(major, rest)| (major, rest.split('.').next().unwrap_or_default()))
            .context("the release has no minor version")?;
        let unfinished = self.directory.join("member.unfinished");
        process::run(
            Command::new("go")
                .current_dir(module)
                .env("CGO_ENABLED", "0")
                .args(["build", "-trimpath", "-buildvcs=false", "-ldflags"])
                .arg(format!(
                    "-s -w -X {version}.gitVersion={KUBERNETES} -X {version}.gitMajor={major} \
                     -X {version}.gitMinor={minor}"
                ))
                .arg("-o")
                .arg(&unfinished)
                .arg("."),
        )?;
        std::fs::rename(&unfinished, self.member())
            .context("the built binary cannot be put into its place")?;
        std::os::unix::fs::symlink("member", self.kubectl()).context("the link kubectl cannot be made")?;
        eprintln!(
            "built in {} s: {}",
            start.elapsed().as_secs(),
            self.member().display()
        );
        Ok(())
    }
}

/// The directory in the module cache that holds the sources of the linked release.
///
/// # Errors
/// When Go is absent or too old, or the module cannot be fetched.
pub fn kubernetes_sources() -> Result<PathBuf> {
    let module = workspace::root()?.join("tests/member");
    check_go(&module)?;
    let text = process::output(Command::new("go").current_dir(&module).args([
        "mod",
        "download",
        "-json",
        &format!("k8s.io/kubernetes@{KUBERNETES}"),
    ]))?;
    let answer: serde_json::Value =
        serde_json::from_str(&text).context("go mod download did not answer JSON")?;
    let directory = answer["Dir"]
        .as_str()
        .context("go mod download named no directory")?;
    Ok(PathBuf::from(directory))
}

/// Asks inside the module, where an older Go that may fetch the one named in `go.mod` answers with that one.
fn check_go(module: &Path) -> Result<()> {
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

fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?)
            .join(".cache"),
    };
    Ok(base.join("pinnace/member"))
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
