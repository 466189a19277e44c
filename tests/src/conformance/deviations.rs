//! Reads `deviations.toml`: cases in which we differ from the reference on purpose.
//!
//! Only what the file needs of TOML: `[[deviation]]` headers, `key = "text"` lines and comments.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

/// Listed deviations.
#[derive(Clone, Debug, Default)]
pub struct Deviations {
    by_case: BTreeMap<(String, String), String>,
}

impl Deviations {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, has a line of another form, or an entry without set, case, rule or reason.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{}", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut entries: Vec<BTreeMap<&str, String>> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line == "[[deviation]]" {
                entries.push(BTreeMap::new());
                continue;
            }
            let pair = line
                .split_once('=')
                .map(|(key, value)| (key.trim(), value.trim()));
            match (entries.last_mut(), pair) {
                (Some(entry), Some((key, value))) => {
                    let value: String = serde_json::from_str(value)
                        .with_context(|| format!("line {}: the value is no quoted text", number + 1))?;
                    entry.insert(key, value);
                }
                _ => bail!("line {}: neither [[deviation]] nor key = \"text\"", number + 1),
            }
        }
        let mut by_case = BTreeMap::new();
        for mut entry in entries {
            let mut take = |key: &str| {
                entry
                    .remove(key)
                    .with_context(|| format!("an entry without {key}"))
            };
            let (set, case, rule, reason) = (take("set")?, take("case")?, take("rule")?, take("reason")?);
            by_case.insert((set, case), format!("{rule}: {reason}"));
        }
        Ok(Self { by_case })
    }

    /// The reason why a case may differ.
    #[must_use]
    pub fn reason(&self, set: &str, case: &str) -> Option<&str> {
        self.by_case
            .get(&(set.to_owned(), case.to_owned()))
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_entries_and_refuses_the_rest() {
        let good = "# why\n[[deviation]]\nset = \"a/b\"\ncase = \"c \\\"d\\\"\"\nrule = \"r\"\nreason = \"because\"\n";
        let read = Deviations::parse(good).unwrap();
        assert_eq!(read.reason("a/b", "c \"d\""), Some("r: because"));
        assert_eq!(read.reason("a/b", "other"), None);
        assert!(Deviations::parse("set = \"a\"").is_err());
        assert!(Deviations::parse("[[deviation]]\nset = \"a\"").is_err());
        assert!(Deviations::parse("[[deviation]]\nset = a").is_err());
    }
}
