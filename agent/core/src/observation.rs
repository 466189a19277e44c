//! What an object in the member says of itself, as the interpreter reads it.

use std::sync::Arc;

use interpreter::Health;

/// Health and reflected status of one object at one reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Whether it does what it is for.
    pub health: Health,
    /// The reflected status as canonical JSON; none when the kind reflects nothing or it has none yet.
    pub status: Option<Arc<[u8]>>,
    /// The script of a customization could not say: which one and why.
    pub trouble: Option<String>,
}
