//! The Go binary that holds a whole control plane: built once per content of its module, kept in the user's cache.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::{go, process, workspace};

/// The release that is linked in; `go.mod` pins the same one.
const KUBERNETES: &str = "v1.36.3";

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
        let directory = go::built("member", &module, "kubectl", |directory| {
            Binary {
                directory: directory.into(),
            }
            .build(&module)
        })?;
        Ok(Binary { directory })
    }

    /// The control plane: the first argument names the component.
    pub fn member(&self) -> PathBuf {
        self.directory.join("member")
    }

    /// The same file under the name by which it is kubectl.
    pub fn kubectl(&self) -> PathBuf {
        self.directory.join("kubectl")
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
        // Made last: it says that all is there.
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
    go::check(&module)?;
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
