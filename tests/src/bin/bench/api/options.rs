//! What of `bench api` is wanted.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};

/// A part that can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Creates with different numbers of clients.
    Creates,
    /// Patches of what was created.
    Patches,
    /// A whole list.
    List,
    /// Updates to many watchers.
    Watch,
    /// Resident memory.
    Memory,
    /// Memory of the hub with many definitions.
    Crds,
    /// Writes to the hub while clusters report.
    Reports,
}

impl Part {
    const ALL: [(&'static str, Part); 7] = [
        ("creates", Part::Creates),
        ("patches", Part::Patches),
        ("list", Part::List),
        ("watch", Part::Watch),
        ("memory", Part::Memory),
        ("crds", Part::Crds),
        ("reports", Part::Reports),
    ];
}

/// What the command line says.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    parts: Vec<Part>,
    /// Rounds of creates, patches and lists, hub and real server in turn.
    pub(crate) rounds: usize,
    /// Leaves the real server out.
    pub(crate) hub_only: bool,
    /// Another binary of the hub.
    pub(crate) program: Option<PathBuf>,
    /// Also with 100,000 objects.
    pub(crate) large: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            parts: Part::ALL.map(|(_, part)| part).to_vec(),
            rounds: 5,
            hub_only: false,
            program: None,
            large: false,
        }
    }
}

impl Options {
    /// Only these parts, separated by commas.
    ///
    /// # Errors
    /// A word that is none.
    pub(crate) fn only(&mut self, words: &str) -> Result<()> {
        self.parts.clear();
        for word in words.split(',') {
            match Part::ALL.iter().find(|(name, _)| *name == word) {
                Some((_, part)) => self.parts.push(*part),
                None => bail!(
                    "no part {word:?}; there are {}",
                    Part::ALL.map(|(name, _)| name).join(", ")
                ),
            }
        }
        ensure!(!self.parts.is_empty(), "--only needs parts");
        Ok(())
    }

    /// Whether a part is wanted.
    pub(crate) fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Whether any of them is wanted.
    pub(crate) fn has_any(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.has(*part))
    }
}
