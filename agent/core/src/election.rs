//! Which of several agents of one cluster acts: the decisions around one Kubernetes Lease.
//!
//! No machine's wall clock is trusted, least of all another's. An agent that does not lead notes when *it* first saw the
//! lease in its present version, by its own monotonic clock, and takes it only when it stayed the same for its whole
//! length since. The one that leads counts from before it sent its last accepted renewal, and stops acting a margin
//! earlier: whoever follows begins to count later, so it ends after.

use shared::time::Millis;

use crate::limits::{LEASE_LENGTH, LEASE_LENGTH_MAX, LEASE_MARGIN, LEASE_RENEW, LEASE_RETRY};

/// What a Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// `metadata.resourceVersion`: another one with every write.
    pub version: String,
    /// `spec.holderIdentity`; empty: nobody.
    pub holder: String,
    /// `spec.leaseDurationSeconds`.
    pub length: Millis,
    /// `spec.leaseTransitions`.
    pub transitions: u32,
}

/// What is to be done about the Lease now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Another holds it.
    Wait,
    /// There is none: create it in our name.
    Create,
    /// Write our name into exactly this version of it.
    Write {
        /// The version that is replaced.
        version: String,
        /// `leaseTransitions` to write.
        transitions: u32,
        /// We did not hold it before.
        takes: bool,
    },
}

/// The standing of one agent among its like.
#[derive(Debug)]
pub struct Election {
    me: String,
    seen: Option<(Record, Millis)>,
    until: Option<Millis>,
    next: Millis,
}

impl Election {
    /// An agent that leads nothing; `me` is a name that no other start of any agent has.
    #[must_use]
    pub fn new(me: String) -> Self {
        Self {
            me,
            seen: None,
            until: None,
            next: Millis(0),
        }
    }

    /// When the Lease is to be looked at again.
    #[must_use]
    pub fn next(&self) -> Millis {
        self.next
    }

    /// Until when we may act; none: not at all.
    #[must_use]
    pub fn until(&self) -> Option<Millis> {
        self.until
    }

    /// Whether we may act.
    #[must_use]
    pub fn leads(&self, now: Millis) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Who holds the lease, as last seen.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |(record, _)| &record.holder)
    }

    /// The Lease was read; none: there is none.
    pub fn handle_read(&mut self, found: Option<Record>, now: Millis) -> Step {
        self.next = now.plus(LEASE_RENEW.0);
        let Some(record) = found else {
            self.seen = None;
            self.until = None;
            return Step::Create;
        };
        let since = match &self.seen {
            Some((seen, since)) if seen.version == record.version => *since,
            _ => now,
        };
        let ours = record.holder == self.me;
        let (version, transitions) = (record.version.clone(), record.transitions);
        let free_at = since.plus(record.length.0.clamp(LEASE_LENGTH.0, LEASE_LENGTH_MAX.0));
        let free = record.holder.is_empty() || now >= free_at;
        self.seen = Some((record, since));
        if ours {
            return Step::Write {
                version,
                transitions,
                takes: false,
            };
        }
        self.until = None;
        if free {
            return Step::Write {
                version,
                transitions: transitions.saturating_add(1),
                takes: true,
            };
        }
        self.next = self.next.min(free_at);
        Step::Wait
    }

    /// Our write was accepted; it was sent at `sent` or later.
    pub fn handle_written(&mut self, written: Record, sent: Millis, now: Millis) {
        self.until = (written.holder == self.me).then(|| sent.plus(LEASE_LENGTH.0 - LEASE_MARGIN.0));
        self.next = sent.plus(LEASE_RENEW.0);
        self.seen = Some((written, now));
    }

    /// The Lease could not be read or written, or somebody was faster. What we hold, we hold until its time is over.
    pub fn handle_failed(&mut self, now: Millis) {
        self.next = now.plus(LEASE_RETRY.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The Lease in the API server: versions count up.
    #[derive(Default)]
    struct Server {
        version: u64,
        lease: Option<(String, u32)>,
    }

    impl Server {
        fn read(&self) -> Option<Record> {
            self.lease.as_ref().map(|(holder, transitions)| Record {
                version: self.version.to_string(),
                holder: holder.clone(),
                length: LEASE_LENGTH,
                transitions: *transitions,
            })
        }

        fn write(&mut self, me: &str, step: &Step) -> Option<Record> {
            let transitions = match step {
                Step::Wait => return None,
                Step::Create if self.lease.is_some() => return None,
                Step::Create => 0,
                Step::Write {
                    version, transitions, ..
                } if *version == self.version.to_string() => *transitions,
                Step::Write { .. } => return None,
            };
            self.version += 1;
            self.lease = Some((me.to_owned(), transitions));
            self.read()
        }
    }

    #[test]
    fn a_lease_is_taken_only_when_it_stood_still_for_its_length() {
        let mut server = Server::default();
        let (mut a, mut b) = (Election::new("a".into()), Election::new("b".into()));
        let step = a.handle_read(server.read(), Millis(0));
        assert_eq!(step, Step::Create);
        let written = server.write("a", &step).unwrap();
        a.handle_written(written, Millis(0), Millis(5));
        assert!(a.leads(Millis(LEASE_LENGTH.0 - LEASE_MARGIN.0 - 1)));
        assert!(!a.leads(Millis(LEASE_LENGTH.0 - LEASE_MARGIN.0)));
        // b's clock has another zero.
        let zero = 1_000_000;
        assert_eq!(b.handle_read(server.read(), Millis(zero)), Step::Wait);
        assert_eq!(
            b.handle_read(server.read(), Millis(zero + LEASE_LENGTH.0 - 1)),
            Step::Wait
        );
        let step = b.handle_read(server.read(), Millis(zero + LEASE_LENGTH.0));
        assert!(
            matches!(
                step,
                Step::Write {
                    takes: true,
                    transitions: 1,
                    ..
                }
            ),
            "{step:?}"
        );
        assert!(server.write("b", &step).is_some());
        assert_eq!(a.handle_read(server.read(), Millis(20_000)), Step::Wait);
        assert!(
            !a.leads(Millis(0)),
            "what another holds is not ours, whatever our clock says"
        );
    }

    #[test]
    fn a_released_lease_is_free_at_once_and_a_lost_answer_is_found() {
        let mut b = Election::new("b".into());
        let record = |holder: &str| Record {
            version: "7".into(),
            holder: holder.into(),
            length: LEASE_LENGTH,
            transitions: 3,
        };
        let step = b.handle_read(Some(record("")), Millis(0));
        assert!(matches!(
            step,
            Step::Write {
                takes: true,
                transitions: 4,
                ..
            }
        ));
        // The write was accepted, its answer lost: the next look finds our name.
        b.handle_failed(Millis(10));
        assert!(!b.leads(Millis(11)));
        let step = b.handle_read(Some(record("b")), Millis(1_010));
        assert!(matches!(
            step,
            Step::Write {
                takes: false,
                transitions: 3,
                ..
            }
        ));
    }

    #[test]
    fn a_foreign_length_is_bounded_both_ways() {
        for (seconds, free) in [(0, LEASE_LENGTH), (1_000_000, LEASE_LENGTH_MAX)] {
            let mut b = Election::new("b".into());
            let record = Record {
                version: "1".into(),
                holder: "a".into(),
                length: Millis(seconds * 1_000),
                transitions: 0,
            };
            assert_eq!(b.handle_read(Some(record.clone()), Millis(0)), Step::Wait);
            assert_eq!(
                b.handle_read(Some(record.clone()), Millis(free.0 - 1)),
                Step::Wait
            );
            assert_ne!(b.handle_read(Some(record), free), Step::Wait);
        }
    }

    proptest! {
        /// Three agents with clocks of their own, answers that get lost, agents that stand still for a while: never do two
        /// act at the same time.
        #[test]
        fn never_do_two_act(steps in prop::collection::vec((0_usize..3, 0_u64..4_000, 0_u8..10), 1..200)) {
            let names = ["a", "b", "c"];
            let zeros = [0_u64, 77_777, 5_000_000];
            let mut server = Server::default();
            let mut all: Vec<Election> = names.iter().map(|n| Election::new((*n).into())).collect();
            let mut now = 0_u64;
            for (who, pause, luck) in steps {
                now += pause;
                let mine = |at: u64| Millis(at + zeros[who]);
                let step = all[who].handle_read(server.read(), mine(now));
                let sent = now;
                // A slow request: the server writes late, the answer comes later still, or never.
                now += u64::from(luck) * 200;
                match server.write(names[who], &step) {
                    Some(written) if luck % 3 != 0 => all[who].handle_written(written, mine(sent), mine(now)),
                    _ if step == Step::Wait => {}
                    _ => all[who].handle_failed(mine(now)),
                }
                let acting: Vec<&str> = (0..3)
                    .filter(|i| all[*i].leads(Millis(now + zeros[*i])))
                    .map(|i| names[i])
                    .collect();
                prop_assert!(acting.len() <= 1, "{acting:?} act at {now}");
            }
        }
    }
}
