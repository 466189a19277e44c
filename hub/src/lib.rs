//! Shell of the hub: HTTP, SQLite, MQTT and time around the decisions of hub-core.

pub mod api;
pub mod bus;
pub mod cli;
pub mod clock;
pub mod config;
pub mod courier;
pub mod crash;
pub mod enroll;
pub mod fleet;
pub mod gateway;
pub mod init;
pub mod keys;
pub mod limits;
pub mod listen;
pub mod memory;
pub mod metrics;
pub mod ops;
pub mod reconcile;
pub mod run;
pub mod store;
mod tasks;
pub mod views;
