//! Where things are: the workspace and its target directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The top directory of the workspace: the first one, from cargo's manifest directory or else the working directory
/// upwards, whose `Cargo.toml` declares a workspace.
///
/// # Errors
/// When no directory above holds a workspace.
pub fn root() -> Result<PathBuf> {
    let start = match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => std::env::current_dir().context("the working directory cannot be read")?,
    };
    start
        .ancestors()
        .find(|directory| {
            std::fs::read_to_string(directory.join("Cargo.toml"))
                .is_ok_and(|manifest| manifest.lines().any(|line| line.trim() == "[workspace]"))
        })
        .map(Path::to_path_buf)
        .with_context(|| format!("{} is not inside the Pinnace workspace", start.display()))
}

/// Cargo's target directory: `CARGO_TARGET_DIR` or `target` in the workspace.
///
/// # Errors
/// When the workspace is not found.
pub fn target() -> Result<PathBuf> {
    let root = root()?;
    Ok(match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root.join(directory),
        None => root.join("target"),
    })
}

/// A binary of this workspace as the one profile for work builds it.
///
/// # Errors
/// When the workspace is not found.
pub fn binary(name: &str) -> Result<PathBuf> {
    Ok(target()?.join("debug").join(name))
}
