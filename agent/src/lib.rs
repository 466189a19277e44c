//! Shell of the agent: the member's API, SQLite, MQTT and time around the decisions of `agent-core`.
//!
//! [`run`] wires everything together and is the only place that does; [`ledger`] is the only place with SQL,
//! [`link`] the only one that knows MQTT, [`replica`] lets several agents lead in turn, [`member`] the only one that talks to the member's API.

#![forbid(unsafe_code)]

pub mod carry;
pub mod clock;
pub mod crash;
pub mod customizations;
pub mod doctor;
pub mod guard;
pub mod identity;
pub mod join;
pub mod leave;
pub mod ledger;
pub mod limits;
pub mod link;
pub mod lock;
pub mod member;
pub mod owed;
pub mod problems;
pub mod random;
pub mod rbac;
pub mod replica;
pub mod run;
pub mod standing;
pub mod status;
pub mod systemd;
pub mod why;
