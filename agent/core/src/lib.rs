//! Pure decisions of the agent: what a hub's bytes mean, what a member needs next, what the hub is told.
//!
//! No clock, no randomness, no files, no sockets: `now` and random numbers are arguments. The shell (crate
//! `agent`) carries out what is decided here and answers; the simulation runs the same code in a made-up world.
//!
//! | module | stage of the flow |
//! |---|---|
//! | [`agent`] | all of it, wired together |
//! | [`session`], [`intake`] | 12: bytes from the hub become a verified set, or a refusal with its reason |
//! | [`engine`] with [`diff`], [`order`], [`pace`], [`decide`] | 14: desired × record × seen × now → next actions |
//! | [`effective`], [`adoption`], [`collide`] | what an apply sends, whose fields become ours first, what is set right before |
//! | [`guard`] | what the site lets a hub do |
//! | [`election`], [`mirror`] | several agents of one cluster: who acts, and what they share |
//! | [`report`] | 17: what the hub is told |

#![forbid(unsafe_code)]

pub mod action;
pub mod adoption;
pub mod agent;
pub mod chunks;
pub mod collide;
pub mod decide;
pub mod diff;
pub mod effective;
pub mod election;
pub mod engine;
pub mod facts;
pub mod guard;
pub mod holdings;
pub mod intake;
pub mod limits;
pub mod live;
pub mod mirror;
pub mod observation;
pub mod order;
mod outcome;
pub mod pace;
pub mod record;
pub mod report;
pub mod session;
pub mod target;
