//! Pure decisions of the hub.

pub mod admission;
pub mod affinity;
pub mod aggregate;
pub mod cluster;
pub mod convert;
pub mod discovery;
pub mod divide;
pub mod explain;
pub mod limits;
pub mod liveness;
pub mod matching;
pub mod names;
pub mod naming;
pub mod openapi;
pub mod overrides;
pub mod patch;
pub mod policy;
pub mod schedule;
pub mod schema;
pub mod select;
pub mod status_error;
pub mod strict;
pub mod table;
pub mod templates;
pub mod timestamp;
pub mod types;
