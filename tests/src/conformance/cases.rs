//! Case files of both layouts, read into one shape.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

/// How a result is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// Deep equality, order counts.
    #[default]
    Exact,
    /// The outermost list (of `errors`, or of a scheduler result) is unordered.
    Set,
    /// Null, empty texts, lists and objects do not count.
    IgnoreEmpty,
    /// The same, and zeros do not count either.
    IgnoreZero,
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Unique in its file, with `op`.
    pub name: String,
    /// The operation.
    pub op: String,
    /// Its input.
    pub input: Value,
    /// What is expected: the result, or an object with a member `error`.
    pub expect: Value,
    /// How to compare.
    pub compare: Compare,
}

/// All cases of a file.
#[derive(Clone, Debug)]
pub struct CaseSet {
    /// Folder and file, without the ending.
    pub name: String,
    /// The cases.
    pub cases: Vec<Case>,
}

impl CaseSet {
    /// Reads a file of either layout.
    ///
    /// # Errors
    /// It cannot be read, or misses a member that every case file has.
    pub fn read(name: &str, path: &Path) -> anyhow::Result<Self> {
        let file: Value = serde_json::from_slice(&std::fs::read(path)?)?;
        let list = file["cases"].as_array().context("no list of cases")?;
        let cases = list
            .iter()
            .map(|case| {
                let op = case["op"]
                    .as_str()
                    .or(file["operation"].as_str())
                    .context("no operation")?;
                let compare = match (case["compare"].as_str(), case["resultOrder"].as_str()) {
                    (Some("set"), _) | (None, Some("any")) => Compare::Set,
                    (Some("ignore-empty"), _) => Compare::IgnoreEmpty,
                    (Some("ignore-zero"), _) => Compare::IgnoreZero,
                    (None, _) => Compare::Exact,
                    (Some(other), _) => bail!("unknown comparison {other:?}"),
                };
                // One layout wraps the result, so that it can be told from an error.
                let wrapped = file["schema"].is_string() && case["expect"]["error"].is_null();
                let expect = if wrapped {
                    case["expect"]["result"].clone()
                } else {
                    case["expect"].clone()
                };
                Ok(Case {
                    name: case["name"].as_str().context("a case without a name")?.to_owned(),
                    op: op.to_owned(),
                    input: case["input"].clone(),
                    expect,
                    compare,
                })
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            name: name.to_owned(),
            cases,
        })
    }
}

/// All case files under a directory, sorted.
///
/// # Errors
/// A directory cannot be read.
pub(super) fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in
            std::fs::read_dir(&directory).with_context(|| format!("directory {}", directory.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "json") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Name of the set in a file: folder and file, without the ending.
#[must_use]
pub(super) fn set_name(root: &Path, file: &Path) -> String {
    let relative = file.strip_prefix(root).unwrap_or(file).with_extension("");
    relative
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}
