//! The tasks of this workspace, as a library: the binary `xtask` and the tests use the same members, proxies, ports
//! and processes.

pub mod debian;
pub mod go;
pub mod kubectl;
pub mod limits;
pub mod member;
pub mod packages;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod wait;
pub mod workspace;
