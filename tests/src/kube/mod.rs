//! Differential cases: sequences of requests with the answers of a real kube-apiserver, played against the hub.
//!
//! The cases are JSON files in `tests/conformance/kube`. `cargo xtask kube-cases record KUBECONFIG` asks the API server
//! of a new member, whose controllers are stopped (SIGSTOP), and writes its answers into them; replaying needs no member.
//! What is blanked before two answers are compared stands in `blank.rs`, all of it; cases that the hub decides otherwise
//! stand in `deviations.json` with the reason.

mod blank;
mod case;
mod play;

pub use case::{Answer, Case, File, Step, files};
pub use play::{Difference, Server, play, record, replay};
