//! Which changes of bindings and templates are the planner's own, so that storing a plan does not start the next one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::limits;
use crate::store::Revision;

/// Writes under way, and those done whose event has not come by yet.
#[derive(Debug)]
pub(super) struct OwnWrites<K> {
    known: Mutex<HashMap<K, Write>>,
}

impl<K> Default for OwnWrites<K> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
        }
    }
}

#[derive(Debug)]
enum Write {
    /// The store has not answered; events that came by meanwhile.
    Under(Vec<Revision>),
    /// Done, the event is still to come.
    Done(Revision),
}

impl<K: Clone + Eq + Hash> OwnWrites<K> {
    fn known(&self) -> MutexGuard<'_, HashMap<K, Write>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write begins.
    pub(super) fn begin(&self, key: &K) {
        let mut known = self.known();
        if known.len() >= limits::MARKED_KEYS {
            // An event that is then taken for somebody else's costs one plan that changes nothing.
            known.retain(|_, write| matches!(write, Write::Under(_)));
        }
        known.insert(key.clone(), Write::Under(Vec::new()));
    }

    /// It ended with this revision, or without one. True: somebody else's change came by meanwhile.
    pub(super) fn end(&self, key: &K, revision: Option<Revision>) -> bool {
        let mut known = self.known();
        let seen = match known.remove(key) {
            Some(Write::Under(seen)) => seen,
            Some(Write::Done(_)) | None => Vec::new(),
        };
        if let Some(revision) = revision
            && !seen.contains(&revision)
        {
            known.insert(key.clone(), Write::Done(revision));
        }
        seen.iter().any(|seen| Some(*seen) != revision)
    }

    /// Whether a change is our own, or is decided when the write under way ends.
    pub(super) fn is_own(&self, key: &K, revision: Revision) -> bool {
        let mut known = self.known();
        match known.get_mut(key) {
            Some(Write::Under(seen)) => {
                seen.push(revision);
                true
            }
            Some(Write::Done(own)) if *own == revision => {
                known.remove(key);
                true
            }
            Some(Write::Done(_)) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::BindingRef;

    fn binding() -> BindingRef {
        BindingRef {
            namespace: "d".to_owned(),
            name: "web-deployment".to_owned(),
        }
    }

    #[test]
    fn our_own_change_is_known_before_and_after_the_answer() {
        let writes = OwnWrites::default();
        writes.begin(&binding());
        assert!(writes.is_own(&binding(), Revision(7)));
        assert!(!writes.end(&binding(), Some(Revision(7))));
        assert!(!writes.is_own(&binding(), Revision(8)));
        writes.begin(&binding());
        assert!(!writes.end(&binding(), Some(Revision(9))));
        assert!(writes.is_own(&binding(), Revision(9)));
        assert!(!writes.is_own(&binding(), Revision(9)));
    }

    #[test]
    fn somebody_elses_change_is_never_taken_for_ours() {
        let writes = OwnWrites::default();
        assert!(!writes.is_own(&binding(), Revision(1)));
        writes.begin(&binding());
        assert!(writes.is_own(&binding(), Revision(2)));
        assert!(writes.is_own(&binding(), Revision(3)));
        assert!(writes.end(&binding(), Some(Revision(2))), "3 is not ours");
        writes.begin(&binding());
        assert!(writes.is_own(&binding(), Revision(4)));
        assert!(writes.end(&binding(), None), "ours failed, so 4 is not ours");
        assert!(!writes.is_own(&binding(), Revision(5)));
    }
}
