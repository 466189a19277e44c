//! How the member stands with the agent: whether it may be acted on, and what is told to the hub about it.

use shared::limits::MESSAGE_BYTES_MAX;
use shared::reason::Reason;
use shared::wire::{MemberApi, MemberNote};

use crate::member::errors::ApiError;

/// Whether the member may be acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has not answered yet.
    Unknown,
    /// It answers and is the cluster that was enrolled.
    Right,
    /// It does not answer, or only with errors: actions wait, so that none is wasted and none hammers it.
    Away,
    /// It is another cluster: nothing is done.
    Changed,
}

/// What a look at the member means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing new.
    Same,
    /// It may be acted on for the first time.
    Found,
    /// It may be acted on again.
    Back,
    /// It may not be acted on any more.
    Lost,
}

/// The member as last seen.
#[derive(Debug)]
pub struct Standing {
    enrolled: String,
    state: State,
    seen: bool,
    note: Option<MemberNote>,
}

impl Standing {
    /// A member that has not answered yet; `enrolled` is the uid of its `kube-system`.
    #[must_use]
    pub fn new(enrolled: String) -> Self {
        Self {
            enrolled,
            state: State::Unknown,
            seen: false,
            note: None,
        }
    }

    /// Whether actions may be carried out.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.state == State::Right
    }

    /// What is to be told to the hub, once something is known.
    #[must_use]
    pub fn note(&self) -> Option<&MemberNote> {
        self.note.as_ref()
    }

    /// It answered with the uid of its `kube-system`, and says whether it is ready.
    pub fn answered(&mut self, uid: &str, unready: Option<String>) -> Turn {
        if uid != self.enrolled {
            let message = format!(
                "this is another cluster (kube-system {uid}) than the one enrolled ({}): nothing is done here until `pinnace-agent rebind`",
                self.enrolled
            );
            self.tell(MemberApi::Changed, Reason::ClusterChanged, message);
            return self.turn(State::Changed);
        }
        match unready {
            None => self.tell(MemberApi::Healthy, Reason::Healthy, String::new()),
            Some(why) => self.tell(MemberApi::NotHealthy, Reason::Unhealthy, why),
        }
        self.turn(State::Right)
    }

    /// It did not answer as it should.
    pub fn failed(&mut self, error: &ApiError) -> Turn {
        let api = match error.reason {
            Reason::MemberUnreachable | Reason::MemberClock => MemberApi::Unreachable,
            _ => MemberApi::NotHealthy,
        };
        self.tell(api, error.reason, error.message.clone());
        self.turn(State::Away)
    }

    fn tell(&mut self, api: MemberApi, reason: Reason, mut message: String) {
        let mut end = message.len().min(MESSAGE_BYTES_MAX);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        self.note = Some(MemberNote {
            api,
            reason: reason.into(),
            message,
        });
    }

    fn turn(&mut self, to: State) -> Turn {
        let from = std::mem::replace(&mut self.state, to);
        match (from, to) {
            (a, b) if a == b => Turn::Same,
            (_, State::Right) if std::mem::replace(&mut self.seen, true) => Turn::Back,
            (_, State::Right) => Turn::Found,
            _ => Turn::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> ApiError {
        ApiError::unreachable(&std::io::Error::other("connection refused"))
    }

    #[test]
    fn a_member_comes_goes_and_comes_back() {
        let mut s = Standing::new("u".into());
        assert!(!s.is_right() && s.note().is_none());
        assert_eq!(s.failed(&down()), Turn::Lost);
        assert_eq!(s.answered("u", None), Turn::Found);
        assert_eq!(s.answered("u", None), Turn::Same);
        assert!(s.is_right());
        assert_eq!(s.failed(&down()), Turn::Lost);
        let note = s.note().expect("something is known");
        assert_eq!(
            (note.api, note.reason.as_str()),
            (MemberApi::Unreachable, "MemberUnreachable")
        );
        assert_eq!(s.answered("u", Some("etcd is slow".into())), Turn::Back);
        assert_eq!(s.note().map(|n| n.api), Some(MemberApi::NotHealthy));
        assert!(
            s.is_right(),
            "a member that is not ready may still take what it takes"
        );
    }

    #[test]
    fn another_cluster_is_never_right() {
        let mut s = Standing::new("u".into());
        assert_eq!(s.answered("v", None), Turn::Lost);
        assert!(!s.is_right());
        assert_eq!(s.note().map(|n| n.api), Some(MemberApi::Changed));
        assert_eq!(s.answered("u", None), Turn::Found);
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let mut s = Standing::new("u".into());
        let _ = s.answered("u", Some("ä".repeat(MESSAGE_BYTES_MAX)));
        assert!(s.note().is_some_and(|n| n.message.len() <= MESSAGE_BYTES_MAX));
    }
}
