//! A real hub as a process with simulated clusters: their conversation is the agent's own, over the real gateway, and
//! only what lies behind it, ledger and member, is a model. For benchmarks and for cases that need many clusters.

pub mod agents;
pub mod hub;
pub mod machine;
