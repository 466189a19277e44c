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
