//! Stable reason codes: every decision, refusal and wait that a person can meet has one.
//!
//! A code never changes its meaning and is never reused. `docs/reasons.md` has a line for each: what it
//! means and what to do; a test keeps both lists equal.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $retry:ident,)*) => {
        /// Why something is as it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// The stable code, CamelCase.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Whether trying the same again later can succeed without anybody changing anything on the hub.
            #[must_use]
            pub const fn retryable(self) -> bool {
                match self { $(Self::$name => reasons!(@retry $retry),)* }
            }

            /// Every reason, in the order of this file.
            #[must_use]
            pub const fn all() -> &'static [Self] {
                &[$(Self::$name,)*]
            }
        }
    };
    (@retry retry) => { true };
    (@retry stays) => { false };
}

reasons! {
    // Planning.
    /// No policy selects the template.
    NoPolicy stays,
    /// The policy selects no cluster that exists.
    NoClusterFits stays,
    /// The clusters that may be used have too little free room.
    Unschedulable retry,
    /// The spread constraints of the policy cannot be met.
    SpreadNotMet stays,
    /// The policy uses a field that is not supported yet; the message names it.
    UnsupportedField stays,
    /// Two policies of equal rank match; the message names both.
    PolicyConflict stays,
    /// The planner placed the template.
    Scheduled stays,
    /// The binding, policy or work is suspended.
    Suspended stays,
    /// An override rule cannot be applied to the template.
    OverrideFailed stays,
    /// The policy names override policies that do not exist yet.
    AwaitingOverrides stays,
    /// The policy names a PriorityClass that is not on the hub; its priority counts as 0.
    AwaitingPriorityClass stays,
    /// The policy leaves scheduling to another scheduler; clusters and replicas are what that one writes.
    AwaitingScheduler stays,
    /// A lazy policy waits for the next change of the template.
    AwaitingChange stays,
    /// The template goes where others go that need it.
    Attached stays,
    /// A federated quota on the hub has no room for the template; it stays where it is.
    FederatedQuotaExceeded retry,
    /// The policy selects no object on the hub.
    MatchesNothing stays,
    /// The policy names clusters that have not joined.
    UnknownCluster stays,
    /// A copy is moved away from a cluster: it stayed unhealthy or silent there, or a taint drives it away.
    MovedAway stays,
    /// A copy would be moved away, and no other cluster fits; it stays.
    NoReplacement retry,
    /// The policy that placed the template is gone or selects it no longer; what runs goes on unchanged.
    PolicyGone stays,
    /// The template cannot be read or rendered for a cluster.
    RenderFailed stays,

    // Sets and bundles.
    /// Canonical content over 3 MiB.
    ContentTooLarge stays,
    /// The set of the cluster has no room for more entries.
    SetFull stays,
    /// The cluster holds an entry that vanished from its set without a tombstone.
    Stray stays,
    /// A deletion waits for `pinnace confirm`.
    MassDeleteHeld stays,
    /// A digest does not match the bytes it names.
    DigestMismatch retry,
    /// A sequence that the agent has already passed.
    StaleSequence stays,
    /// The same sequence with another digest.
    SequenceReused stays,
    /// A session that a newer one has replaced.
    StaleSession stays,
    /// A signature does not verify.
    BadSignature stays,
    /// A key number that does not reach the pinned root, or is older than one already seen.
    UnknownKey stays,
    /// A format version newer than this program knows.
    UnknownVersion stays,
    /// Bytes that do not follow their format.
    Malformed stays,
    /// Bytes for another cluster, fleet or incarnation.
    ForeignCluster stays,
    /// Over a limit of size, count or rate.
    OverLimit retry,

    // Link and enrolment.
    /// The hub knows less than the agent shows: it was restored from an older state.
    HubBehind stays,
    /// The agent's disk is older than what the hub knows of it; resynchronised.
    AgentRestored retry,
    /// Two agents run with the same identity.
    Clone stays,
    /// The enrolment was revoked.
    Revoked stays,
    /// The join token is unknown, expired, used by another key, or for another cluster name.
    TokenRefused stays,
    /// A member with another `kube-system` uid is already enrolled under this name.
    NameTaken stays,
    /// The member is enrolled under another name.
    MemberTaken stays,
    /// The identity key is not the one enrolled for the cluster.
    UnknownIdentity stays,
    /// The member's `kube-system` uid is not the recorded one.
    ClusterChanged stays,
    /// The cluster has not been heard of for longer than the limit.
    Silent retry,
    /// Sent to the cluster and not yet acknowledged, or not yet sent.
    AwaitingCluster retry,

    // Applying.
    /// Not tried yet.
    Pending retry,
    /// Applied and as wanted.
    Applied stays,
    /// A foreign object has the name; nothing was written.
    Conflict stays,
    /// Another manager keeps overwriting the same fields; backed off.
    Fighting retry,
    /// Another enrolment of this cluster took the object over; the agent that had it before leaves it alone.
    Superseded stays,
    /// A change of a field that the API never changes.
    ImmutableField stays,
    /// The member's API refuses the object as invalid.
    Invalid stays,
    /// The agent's own permissions in the member do not allow it.
    Forbidden retry,
    /// The local guard of the site does not allow it.
    GuardRefused stays,
    /// A quota in the member is used up.
    QuotaExceeded retry,
    /// An admission webhook or policy in the member refused it.
    AdmissionDenied retry,
    /// The member's API does not know the kind (yet).
    ApiAbsent retry,
    /// The namespace is being deleted.
    NamespaceTerminating retry,
    /// Waits for its namespace, CRD or a declared dependency.
    AwaitingDependency retry,
    /// Waits for the deletion of its former object to end.
    AwaitingDeletion retry,
    /// A namespace or CRD holds objects that are not ours; deletion is held.
    ForeignContent retry,
    /// Not created by us, so not deleted; only released.
    NotOurs stays,
    /// The API server refused for its own clock or certificate dates.
    MemberClock retry,
    /// The member's API cannot be reached.
    MemberUnreachable retry,
    /// The member's API answered with a server error or asked to slow down.
    MemberOverloaded retry,
    /// The agent's ledger is damaged and set aside; nothing is touched until it is rebuilt.
    LedgerCorrupt stays,
    /// The disk is full; creates wait.
    DiskFull retry,
    /// What agents that lead in turn share has no room for the set; the old one goes on.
    MirrorFull stays,

    // Health.
    /// Applied and found healthy.
    Healthy stays,
    /// Applied and not healthy (yet).
    Unhealthy retry,
    /// Health cannot be told.
    UnknownHealth retry,
    /// A script of the interpreter failed or ran out of its budget.
    ScriptFailed stays,
}

/// Text that is no known reason code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a reason code of this version")]
pub struct UnknownReason(pub String);

impl FromStr for Reason {
    type Err = UnknownReason;
    fn from_str(s: &str) -> Result<Self, UnknownReason> {
        Self::all()
            .iter()
            .copied()
            .find(|r| r.code() == s)
            .ok_or_else(|| UnknownReason(s.chars().take(64).collect()))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A reason as it travels: a newer peer may send a code that this version does not know, and it is shown as
/// it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// A code of this version.
    Known(Reason),
    /// A code of a newer version: at most 64 ASCII letters and digits.
    Other(String),
}

impl Code {
    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(reason) => reason.code(),
            Self::Other(text) => text,
        }
    }

    /// The reason, if this version knows it.
    #[must_use]
    pub const fn known(&self) -> Option<Reason> {
        match self {
            Self::Known(reason) => Some(*reason),
            Self::Other(_) => None,
        }
    }
}

impl From<Reason> for Code {
    fn from(reason: Reason) -> Self {
        Self::Known(reason)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        if let Ok(reason) = text.parse() {
            return Ok(Self::Known(reason));
        }
        if text.is_empty() || text.len() > 64 || !text.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(D::Error::custom(
                "a reason code is 1 to 64 ASCII letters and digits",
            ));
        }
        Ok(Self::Other(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_unknown_ones_survive() {
        for reason in Reason::all() {
            assert_eq!(reason.code().parse(), Ok(*reason));
        }
        let other = postcard::to_stdvec("FromTheFuture").unwrap();
        let code: Code = postcard::from_bytes(&other).unwrap();
        assert_eq!(code, Code::Other("FromTheFuture".into()));
        assert_eq!(postcard::to_stdvec(&code).unwrap(), other);
        assert!(postcard::from_bytes::<Code>(&postcard::to_stdvec("no spaces").unwrap()).is_err());
    }

    #[test]
    fn every_code_has_a_line_in_the_docs_and_no_other_line_exists() {
        let page = include_str!("../../docs/reasons.md");
        let documented: Vec<&str> = page
            .lines()
            .filter_map(|l| l.strip_prefix("| `"))
            .filter_map(|l| l.split_once('`').map(|(code, _)| code))
            .collect();
        let mut codes: Vec<&str> = Reason::all().iter().map(|r| r.code()).collect();
        let mut sorted = documented.clone();
        codes.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(sorted, codes);
    }
}
