//! Real parts for the tests: hub and agents as processes, whole member control planes, and the real kubectl.

pub mod api;
pub mod disk;
pub mod fleet;
pub mod hub;
pub mod kubectl;
pub mod machine;
pub mod network;
pub mod process;
pub mod site;
mod stranger;
pub mod wait;
