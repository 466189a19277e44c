//! What the fleet holds: enrolments, the works of each cluster, their sets, and what agents reported.
//!
//! Writes go through the one writer and are durable when answered; reads see everything that was answered.

mod adopt;
mod behind;
mod carried;
mod enrolment;
mod facts;
mod gc;
mod intern;
mod reports;
mod sets;
mod standing;
mod succession;
mod targets;
mod tokens;
mod undone;

pub use adopt::{AdoptRefusal, Adoption};
pub use behind::{HeldSet, PushRefusal};
pub use carried::CarriedRefusal;
pub use enrolment::{BootRecord, EnrolRefusal, EnrolRequest, Enrolment, SessionGrant, Terms, Token};
pub use facts::{ClusterFacts, ClusterRow, ReadyFact};
pub(super) use gc::collect;
pub use reports::{Ingested, TargetReport};
pub use sets::CurrentSet;
pub(super) use sets::{close_sets, content_digests, noted_digest, set_of_rows};
pub(super) use standing::{Sets, Standings};
pub use succession::{Before, RemoveRefusal};
pub use targets::{Target, TargetState, Tombstoned};
pub use tokens::OpenToken;
pub use undone::HeldDeletion;

#[cfg(test)]
mod tests;
