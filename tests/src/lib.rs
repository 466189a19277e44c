//! Support for the test rings: real members, scenarios, simulation, conformance.

pub mod conformance;
pub mod kube;
pub mod real;
pub mod sim;
pub mod simulated;
