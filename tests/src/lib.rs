//! Support for the test rings: real members, scenarios, simulation, conformance.

pub mod real;
pub mod conformance;
