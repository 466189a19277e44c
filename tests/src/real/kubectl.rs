//! The real kubectl, against the hub or straight against a member.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A kubectl bound to one kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    /// `binary` is a kubectl, `kubeconfig` names the server, `cache` is a folder of its own for discovery.
    pub fn new(binary: &Path, kubeconfig: &Path, cache: &Path) -> Self {
        Self {
            binary: binary.into(),
            kubeconfig: kubeconfig.into(),
            cache: cache.into(),
        }
    }

    /// The kubeconfig that this kubectl uses.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A command that is ready to get more arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null());
        command
    }

    /// Runs kubectl and gives its standard output.
    ///
    /// # Errors
    /// When kubectl cannot be started or exits with another code than 0 (with its standard error).
    pub fn run(&self, args: &[&str]) -> Result<String> {
        let output = self.command().args(args).output().context("start kubectl")?;
        if !output.status.success() {
            bail!(
                "kubectl {}: {}: {}",
                args.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// `kubectl apply -f -` with `manifest` as input.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn apply(&self, manifest: &str) -> Result<String> {
        self.with_input(&["apply", "-f", "-"], manifest)
    }

    /// Runs kubectl with `input` on standard input.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn with_input(&self, args: &[&str], input: &str) -> Result<String> {
        let mut child = self
            .command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start kubectl")?;
        child
            .stdin
            .take()
            .context("stdin of kubectl")?
            .write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!(
                "kubectl {}: {}",
                args.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// One object as JSON, or `None` when the server says NotFound.
    ///
    /// # Errors
    /// On any other answer.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>> {
        let mut args = vec!["get", kind, name, "-o", "json", "--ignore-not-found"];
        if !namespace.is_empty() {
            args.extend(["-n", namespace]);
        }
        let text = self.run(&args)?;
        if text.trim().is_empty() {
            Ok(None)
        } else {
            Ok(Some(serde_json::from_str(&text)?))
        }
    }

    /// All objects of a kind in a namespace as JSON.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>> {
        let mut args = vec!["get", kind, "-o", "json"];
        if !namespace.is_empty() {
            args.extend(["-n", namespace]);
        }
        let list: Value = serde_json::from_str(&self.run(&args)?)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
}
