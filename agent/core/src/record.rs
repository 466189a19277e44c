//! What the ledger knows of one object in the member: how it came to us, what we last gave it, and whether
//! we may delete it. Diff and decide work on these values; only the ledger stores them.

use shared::ids::{Digest, Nonce, ObjectKey};

/// How an object came under our management. Only a created one may ever be deleted (invariant I4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Our own apply created it: the API server answered 201, or the object carries the nonce of our intent.
    Created,
    /// It was there before us and was taken over; it is never deleted by us.
    Adopted,
}

/// What is known of an object that we manage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRecord {
    /// Identity without a version.
    pub key: ObjectKey,
    /// The `apiVersion` of the content applied last; the object is read and deleted through it.
    pub api_version: String,
    /// `metadata.uid` in the member.
    pub uid: String,
    /// The nonce that our intent put on the object; none on an adopted one.
    pub nonce: Option<Nonce>,
    /// Created or adopted.
    pub origin: Origin,
    /// Digest of the content applied last.
    pub content: Digest,
    /// uid of the template that the content belongs to.
    pub template_uid: String,
    /// Digest of the set of fields that our field manager owned after the last apply. Another value in the
    /// member means that somebody changed or removed a field of ours.
    pub fields: Option<Digest>,
    /// A run-to-completion object that has ended. Its absence is then not drift (a TTL removed it).
    pub completed: bool,
}

/// Written before an object is created; settles who made an object when the answer or the record was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Identity without a version.
    pub key: ObjectKey,
    /// The `apiVersion` of the content that was about to be applied.
    pub api_version: String,
    /// Random value that the apply carries as an annotation.
    pub nonce: Nonce,
    /// uid of the template that the content belongs to.
    pub template_uid: String,
}
