//! Shell of the hub: HTTP, SQLite, MQTT and time around the decisions of hub-core.

pub mod bus;
pub mod clock;
pub mod crash;
pub mod gateway;
pub mod keys;
pub mod limits;
pub mod listen;
pub mod store;
