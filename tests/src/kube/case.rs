//! The case files.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One request. `{ns}` in path and body is the case's namespace; `{{2.metadata.uid}}` is taken from the answer to the
/// second step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// HTTP method.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Content-Type; none means JSON.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Accept; none means JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// User-Agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The user to act as.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// A body that is not JSON, or JSON that must be sent as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What a server may take a moment for: the request is sent again until it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
}

/// What an answer must come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// This HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// Something at this JSON pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has: Option<String>,
    /// At this JSON pointer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

impl Until {
    pub(super) fn is_met(&self, code: u16, body: &Value) -> bool {
        self.code.is_none_or(|wanted| wanted == code)
            && self
                .has
                .as_ref()
                .is_none_or(|pointer| body.pointer(pointer).is_some())
            && self
                .at
                .as_ref()
                .is_none_or(|pointer| body.pointer(pointer) == self.value.as_ref())
    }
}

/// What a server answered, blanked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// HTTP status.
    pub code: u16,
    /// The JSON; the list of events of a watch; text if it is neither.
    pub body: Value,
    /// `Warning` headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A request and what the real server answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What is asked.
    pub request: Request,
    /// None until it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// A sequence of requests in a namespace of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// What is tried; unique within the file.
    pub name: String,
    /// In order.
    pub steps: Vec<Step>,
}

/// A file of cases.
#[derive(Debug, Clone)]
pub struct File {
    /// Name without ending.
    pub stem: String,
    path: PathBuf,
    /// Its cases.
    pub cases: Vec<Case>,
}

impl File {
    /// The namespace of a case.
    pub fn namespace(&self, case: &Case) -> String {
        let text = format!("{}-{}", self.stem, case.name).to_lowercase();
        let mut out = String::new();
        for c in text.chars() {
            let c = if c.is_ascii_alphanumeric() { c } else { '-' };
            if c != '-' || !out.ends_with('-') {
                out.push(c);
            }
        }
        out.truncate(63);
        out.trim_matches('-').to_owned()
    }

    /// Writes the file with its answers.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn save(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.cases)? + "\n";
        // One step of indentation as one blank keeps the files small.
        let lines = text.lines().map(|line| {
            let blanks = line.len() - line.trim_start().len();
            format!("{}{}\n", " ".repeat(blanks / 2), line.trim_start())
        });
        std::fs::write(&self.path, lines.collect::<String>())
            .with_context(|| format!("write {}", self.path.display()))
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/kube")
}

/// All case files whose name contains `filter`, by name.
///
/// # Errors
/// One that cannot be read.
pub fn files(filter: &str) -> Result<Vec<File>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder()).context("the cases")? {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut out = Vec::new();
    for path in paths {
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_cases = path.extension().is_some_and(|e| e == "json") && stem != "deviations";
        if is_cases && stem.contains(filter) {
            let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            let cases = serde_json::from_slice(&text).with_context(|| format!("in {}", path.display()))?;
            out.push(File { stem, path, cases });
        }
    }
    Ok(out)
}

/// Cases that the hub decides otherwise: `FILE: CASE` and why.
pub(super) fn deviations() -> Result<BTreeMap<String, String>> {
    let text = std::fs::read(folder().join("deviations.json")).context("deviations.json")?;
    serde_json::from_slice(&text).context("in deviations.json")
}
