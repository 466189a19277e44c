//! The member's own API: requests, kinds, error classes, and what is done with them.

pub mod api;
pub mod applier;
#[cfg(test)]
mod applier_tests;
pub mod capacity;
pub mod connect;
pub mod content;
pub mod dates;
pub mod difference;
mod documents;
pub mod errors;
pub mod fence;
pub mod kinds;
pub mod observe;
pub mod observer;
pub mod probe;
pub mod release;
pub mod room;
