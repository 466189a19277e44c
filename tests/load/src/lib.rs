//! A load generator that costs little: HTTP/1.1 over TLS with requests that were made before, answers that are counted
//! and thrown away. It shares the machine with the server that it measures, so what it spends, the server lacks.
//!
//! The same bytes go to every server. One connection is one client: it has one request on its way at a time.

mod connection;
mod drive;
mod target;
mod watch;

pub use connection::{Answer, Connection, request};
pub use drive::{Measured, connect_all, drive, paced};
pub use target::Target;
pub use watch::Watchers;
