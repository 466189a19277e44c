//! Seeded bugs: a harness that finds nothing is worth nothing, so each of these must be found.

/// A mistake that somebody could make in a shell around the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// The ledger acknowledges before it has committed.
    AcknowledgeBeforeCommit,
    /// An older signed set that comes late is committed over a newer one.
    NoSequenceCheck,
    /// A delete carries no uid, so it takes whatever has the name.
    DeleteByName,
    /// What a new set does not speak of is deleted.
    DeleteOnAbsence,
    /// After a lost answer the object that was found is thrown away and made anew.
    CreateTwice,
    /// The hub stores a report that was overtaken by a later one.
    ReportOutOfOrder,
    /// A create is begun without writing its intent down.
    ForgetIntent,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Self; 7] = [
        Self::AcknowledgeBeforeCommit,
        Self::NoSequenceCheck,
        Self::DeleteByName,
        Self::DeleteOnAbsence,
        Self::CreateTwice,
        Self::ReportOutOfOrder,
        Self::ForgetIntent,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AcknowledgeBeforeCommit => "acknowledge-before-commit",
            Self::NoSequenceCheck => "no-sequence-check",
            Self::DeleteByName => "delete-by-name",
            Self::DeleteOnAbsence => "delete-on-absence",
            Self::CreateTwice => "create-twice",
            Self::ReportOutOfOrder => "report-out-of-order",
            Self::ForgetIntent => "forget-intent",
        }
    }

    /// Words of the check that finds it.
    #[must_use]
    pub const fn found_by(self) -> &'static str {
        match self {
            Self::AcknowledgeBeforeCommit => "is acknowledged, but its ledger holds",
            Self::NoSequenceCheck => "goes back",
            Self::DeleteByName => "which others made",
            Self::DeleteOnAbsence | Self::CreateTwice => "is deleted without a tombstone",
            Self::ReportOutOfOrder => "is stored after report",
            Self::ForgetIntent => "its intent was forgotten",
        }
    }

    /// The bug of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|b| b.name() == name)
    }
}
