//! Pure decisions of the hub.

pub mod discovery;
pub mod limits;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod select;
pub mod status_error;
pub mod strict;
pub mod table;
pub mod timestamp;
pub mod types;
pub mod affinity;
pub mod cluster;
pub mod divide;
pub mod matching;
pub mod naming;
pub mod overrides;
pub mod policy;
pub mod schedule;
