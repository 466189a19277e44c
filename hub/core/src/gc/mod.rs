//! Garbage collection over owner references: what has lost all its owners goes, what waits for its dependents is let go
//! when they are gone (source: the garbage collector controller of Kubernetes). Decisions only: the shell tells what it
//! sees and carries out what is decided; what comes of it is seen again.

mod index;
mod item;

pub use index::Collector;
pub use item::{Item, Key, OwnerRef, apply, may_matter};

/// Finalizer of an object that waits for its dependents to be deleted.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object that waits for its dependents to be let go.
pub const ORPHAN: &str = "orphan";

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay and lose the reference to it.
    Orphan,
}

impl Propagation {
    /// Reads `propagationPolicy`.
    pub fn parse(text: &str) -> Option<Propagation> {
        match text {
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            "Orphan" => Some(Propagation::Orphan),
            _ => None,
        }
    }

    /// The finalizers of an object when its deletion starts. Without a policy, finalizers that stand there decide.
    pub fn finalizers(policy: Option<Propagation>, present: &[&str]) -> Vec<String> {
        let Some(policy) = policy else {
            return present.iter().map(|f| (*f).to_owned()).collect();
        };
        let others = present.iter().filter(|f| **f != FOREGROUND && **f != ORPHAN);
        let mut all: Vec<String> = others.map(|f| (*f).to_owned()).collect();
        match policy {
            Propagation::Background => {}
            Propagation::Foreground => all.push(FOREGROUND.to_owned()),
            Propagation::Orphan => all.push(ORPHAN.to_owned()),
        }
        all
    }
}

/// What is to be done to one object, which must still be at the revision that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// The object.
    pub key: Key,
    /// Its uid.
    pub uid: String,
    /// Its revision.
    pub revision: u64,
    /// What.
    pub what: What,
}

/// See [`Action`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Take the references to these owners (uids) off.
    Detach(Vec<String>),
    /// Let it no longer hold its owners back.
    Unblock,
    /// Delete it.
    Delete(Propagation),
    /// Take a finalizer off.
    Release(&'static str),
    /// Tell who looks at it that an owner is in another namespace.
    WarnNamespace(OwnerRef),
}

/// What the shell knows of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The kind is not served: nothing can be said.
    Unknown,
    /// It does not exist, or another one has its name.
    Absent,
    /// As absent, but an object with that uid is in another namespace.
    Elsewhere,
    /// It is there.
    Present {
        /// It waits for its dependents to be deleted.
        waits: bool,
    },
}

/// What the shell can look up.
pub trait World {
    /// The owner that a reference of an object in a namespace means.
    fn owner(&self, reference: &OwnerRef, namespace: &str) -> Owner;
    /// Where the owner would be found.
    fn owner_key(&self, reference: &OwnerRef, namespace: &str) -> Option<Key>;
    /// An object as it is now.
    fn item(&self, key: &Key) -> Option<Item>;
}

#[cfg(test)]
mod tests;
