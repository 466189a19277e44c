//! What hub and agent must agree on.
//!
//! Everything here is pure: no clock, no environment, no files, no sockets; time and randomness are
//! arguments. Words follow the glossary of the design: *set*, *entry*, *tombstone*, *bundle*, *head*,
//! *report*, *sequence*, *session*, *incarnation*.
//!
//! | module | what it holds |
//! |---|---|
//! | [`ids`], [`time`] | newtypes for every id, number and unit that crosses a module edge |
//! | [`limits`] | the bounds both sides rely on |
//! | [`reason`] | stable reason codes |
//! | [`grading`] | resource models: nodes sorted into grades |
//! | [`object`] | a Kubernetes object as data: access, canonical form, quantities, selectors |
//! | [`owned`] | the marks on member objects that we own |
//! | [`keys`] | root pin, key statements, enrolment receipt, signatures |
//! | [`join`] | the join line |
//! | [`set`] | entries, tombstones, the set digest, signed heads, deltas |
//! | [`bundle`] | content digest, signed descriptor, encodings |
//! | [`seal`] | the exchange and the sealed channel |
//! | [`topics`], [`wire`] | topics, the envelope and the messages in it |

pub mod bundle;
pub mod grading;
pub mod ids;
pub mod join;
pub mod keys;
pub mod limits;
pub mod object;
pub mod owned;
pub mod reason;
pub mod seal;
pub mod set;
pub mod time;
pub mod topics;
pub mod wire;

mod layout;

#[cfg(test)]
mod vectors;
