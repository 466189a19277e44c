//! Events of the hub's own API end after an hour, or when there are too many.
//!
//! Age is told by revision: once a minute the newest revision is noted, so an object at or below the note of an
//! hour ago has not changed since. After a restart that knowledge begins anew.

use std::collections::VecDeque;
use std::time::Instant;

use super::limits;
use super::memory::Memory;
use super::object::{Expect, Op, ResourceId, Revision};

/// When the newest revision was what.
#[derive(Debug, Default)]
pub(super) struct Clock {
    notes: VecDeque<(Instant, Revision)>,
}

impl Clock {
    /// Notes the newest revision, if the last note is old enough. Returns whether it did.
    pub(super) fn note(&mut self, now: Instant, newest: Revision) -> bool {
        let due = self
            .notes
            .back()
            .is_none_or(|(at, _)| now.duration_since(*at) >= limits::EXPIRY_EVERY);
        if due {
            self.notes.push_back((now, newest));
        }
        due
    }

    /// The newest revision that is older than events live; forgets older notes.
    fn cutoff(&mut self, now: Instant) -> Option<Revision> {
        let mut cutoff = None;
        while let Some((at, revision)) = self.notes.front()
            && now.duration_since(*at) >= limits::EVENTS_LIVE
        {
            cutoff = Some(*revision);
            self.notes.pop_front();
        }
        cutoff
    }
}

/// Deletions of events that are too old or too many, at most one commit's worth.
pub(super) fn due(memory: &Memory, clock: &mut Clock, now: Instant) -> Vec<Op> {
    let cutoff = clock.cutoff(now).unwrap_or_default();
    let mut ops = Vec::new();
    for resource in [
        ResourceId::new("", "events"),
        ResourceId::new("events.k8s.io", "events"),
    ] {
        let mut events = memory.list(&resource, None);
        events.sort_by_key(|event| event.revision);
        let surplus = events.len().saturating_sub(limits::EVENTS_KEPT);
        for (n, event) in events.iter().enumerate() {
            if n >= surplus && event.revision > cutoff {
                break;
            }
            ops.push(Op::Delete {
                resource: resource.clone(),
                namespace: event.namespace.clone(),
                name: event.name.clone(),
                expect: Expect::Revision(event.revision),
            });
        }
    }
    ops.truncate(limits::COMMIT_OPS);
    ops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::object::Object;
    use serde_json::json;

    fn with_events(revisions: impl Iterator<Item = u64>) -> Memory {
        let mut memory = Memory::new(Revision(0), Revision(0), Revision(0));
        for revision in revisions {
            let name = format!("e{revision}");
            let value = json!({"metadata": {"name": name}});
            let resource = ResourceId::new("", "events");
            memory
                .restore_object(Object::of_value(resource, "d", &name, &value, Revision(revision)).unwrap());
        }
        memory
    }

    fn names(ops: &[Op]) -> Vec<&str> {
        ops.iter()
            .map(|op| match op {
                Op::Delete { name, .. } | Op::Put { name, .. } => name.as_str(),
            })
            .collect()
    }

    #[test]
    fn what_did_not_change_for_an_hour_ends() {
        let (start, mut clock) = (Instant::now(), Clock::default());
        let memory = with_events([5, 10, 15].into_iter());
        assert!(clock.note(start, Revision(10)));
        assert!(!clock.note(start, Revision(11)), "once a minute");
        assert!(clock.note(start + limits::EXPIRY_EVERY, Revision(15)));
        assert!(due(&memory, &mut clock, start + limits::EXPIRY_EVERY).is_empty());
        assert_eq!(
            names(&due(&memory, &mut clock, start + limits::EVENTS_LIVE)),
            ["e5", "e10"]
        );
    }

    #[test]
    fn the_oldest_of_too_many_end() {
        let last = limits::EVENTS_KEPT as u64 + 2;
        let memory = with_events(1..=last);
        assert_eq!(
            names(&due(&memory, &mut Clock::default(), Instant::now())),
            ["e1", "e2"]
        );
    }
}
