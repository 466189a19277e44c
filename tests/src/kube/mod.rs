//! Differential cases: sequences of requests with the answers of a real kube-apiserver, played against the hub.
//!
//! The cases are JSON files in `tests/conformance/kube`. `target/debug/kube record` asks the API server of a member and
//! writes its answers into them; replaying needs no member. What is blanked before two answers are compared stands in
//! `blank.rs`, all of it; cases that the hub decides otherwise stand in `deviations.json` with the reason.

mod blank;
mod case;
mod play;

pub use case::{Answer, Case, File, Step, files};
pub use play::{Difference, Server, play, record, replay};
