//! kubectl with one kubeconfig, away from the user's own clusters and caches.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::member::Binary;
use crate::process;

/// kubectl for one cluster or hub.
#[derive(Debug, Clone)]
pub struct Kubectl {
    kubeconfig: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    /// With the kubeconfig and a directory for what kubectl remembers about the server.
    pub fn new(kubeconfig: &Path, cache: &Path) -> Kubectl {
        Kubectl {
            kubeconfig: kubeconfig.into(),
            cache: cache.into(),
        }
    }

    /// Runs it and gives back what it printed.
    ///
    /// # Errors
    /// When it fails; the message holds what it said.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        process::output(
            Command::new(Binary::get()?.kubectl())
                .env("KUBECONFIG", &self.kubeconfig)
                .arg(format!("--cache-dir={}", self.cache.display()))
                .args(arguments),
        )
    }
}
