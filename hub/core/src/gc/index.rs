//! The index of dependents and the queue of objects to look at.

use super::{Action, FOREGROUND, Item, Key, ORPHAN, Owner, OwnerRef, Propagation, What, World};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// Knows who depends on whom, and whom to look at.
#[derive(Debug, Default)]
pub struct Collector {
    /// Owners that each dependent names.
    owners: HashMap<Key, Vec<OwnerRef>>,
    /// Dependents by the uid of their owner.
    dependents: HashMap<String, BTreeSet<Key>>,
    queue: VecDeque<Key>,
    queued: HashSet<Key>,
    /// Warned about an owner in another namespace; once per reference.
    warned: HashSet<(Key, String)>,
}

impl Collector {
    /// An object was stored.
    pub fn stored(&mut self, world: &dyn World, item: &Item) {
        let before = self.owners.get(&item.key).cloned().unwrap_or_default();
        if before != item.owners {
            self.unlink(&item.key, &before);
            for owner in &item.owners {
                self.dependents
                    .entry(owner.uid.clone())
                    .or_default()
                    .insert(item.key.clone());
            }
            if item.owners.is_empty() {
                self.owners.remove(&item.key);
            } else {
                self.owners.insert(item.key.clone(), item.owners.clone());
                self.again(item.key.clone());
            }
            // Whoever lost a dependent may go on.
            self.look_at_owners(world, &item.key, &before);
        }
        if item.deleting && (item.foreground || item.orphan) {
            self.again(item.key.clone());
            if item.foreground {
                self.look_at_dependents(&item.uid);
            }
        }
    }

    /// An object is gone.
    pub fn removed(&mut self, world: &dyn World, key: &Key, uid: &str) {
        if let Some(before) = self.owners.remove(key) {
            self.unlink(key, &before);
            self.look_at_owners(world, key, &before);
        }
        self.warned.retain(|(other, _)| other != key);
        self.look_at_dependents(uid);
    }

    /// Looks at an object again: what was decided could not be done.
    pub fn again(&mut self, key: Key) {
        if self.queued.insert(key.clone()) {
            self.queue.push_back(key);
        }
    }

    /// Whether nothing waits to be looked at.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    fn unlink(&mut self, key: &Key, owners: &[OwnerRef]) {
        for owner in owners {
            if let Some(keys) = self.dependents.get_mut(&owner.uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }

    fn look_at_owners(&mut self, world: &dyn World, key: &Key, owners: &[OwnerRef]) {
        for owner in owners {
            if let Some(owner) = world.owner_key(owner, &key.namespace) {
                self.again(owner);
            }
        }
    }

    fn look_at_dependents(&mut self, uid: &str) {
        let keys: Vec<Key> = self.dependents.get(uid).into_iter().flatten().cloned().collect();
        for key in keys {
            self.again(key);
        }
    }

    fn dependents_of(&self, world: &dyn World, uid: &str) -> Vec<Item> {
        let keys = self.dependents.get(uid).into_iter().flatten();
        let items = keys.filter_map(|key| world.item(key));
        // The index may be behind: who was detached counts no longer.
        items
            .filter(|item| item.owners.iter().any(|o| o.uid == uid))
            .collect()
    }

    /// Looks at up to `limit` objects and decides about them.
    pub fn step(&mut self, world: &dyn World, limit: usize) -> Vec<Action> {
        let mut actions = Vec::new();
        for _ in 0..limit {
            let Some(key) = self.queue.pop_front() else {
                break;
            };
            self.queued.remove(&key);
            if let Some(item) = world.item(&key) {
                self.look(world, &item, &mut actions);
            }
        }
        actions
    }

    fn look(&mut self, world: &dyn World, item: &Item, actions: &mut Vec<Action>) {
        let mut act = |item: &Item, what: What| {
            actions.push(Action {
                key: item.key.clone(),
                uid: item.uid.clone(),
                revision: item.revision,
                what,
            });
        };
        if item.deleting {
            if item.orphan {
                let dependents = self.dependents_of(world, &item.uid);
                if dependents.is_empty() {
                    act(item, What::Release(ORPHAN));
                } else {
                    for dependent in &dependents {
                        act(dependent, What::Detach(vec![item.uid.clone()]));
                    }
                    // Until all are: one of them may have changed meanwhile.
                    self.again(item.key.clone());
                }
            } else if item.foreground && !self.is_held(world, item) {
                act(item, What::Release(FOREGROUND));
            }
            return;
        }
        if item.owners.is_empty() {
            return;
        }
        let (mut solid, mut gone, mut waiting) = (false, Vec::new(), Vec::new());
        for reference in &item.owners {
            match world.owner(reference, &item.key.namespace) {
                // Better to keep what should go than to delete what should stay.
                Owner::Unknown | Owner::Present { waits: false } => solid = true,
                Owner::Present { waits: true } => waiting.push(reference.uid.clone()),
                Owner::Absent => gone.push(reference.uid.clone()),
                Owner::Elsewhere => {
                    if self.warned.insert((item.key.clone(), reference.uid.clone())) {
                        act(item, What::WarnNamespace(reference.clone()));
                    }
                    gone.push(reference.uid.clone());
                }
            }
        }
        if solid {
            gone.extend(waiting);
            if !gone.is_empty() {
                act(item, What::Detach(gone));
            }
            return;
        }
        let dependents = self.dependents_of(world, &item.uid);
        if waiting.is_empty() || dependents.is_empty() {
            let policy = match (item.orphan, item.foreground) {
                (true, _) => Propagation::Orphan,
                (false, true) => Propagation::Foreground,
                (false, false) => Propagation::Background,
            };
            act(item, What::Delete(policy));
            return;
        }
        // An owner waits for this one, which has dependents of its own: they go first. In a circle one has to give way.
        let is_circle = dependents.iter().any(Item::waits) && item.owners.iter().any(|o| o.blocks);
        if is_circle {
            act(item, What::Unblock);
            self.again(item.key.clone());
        } else {
            act(item, What::Delete(Propagation::Foreground));
        }
    }

    /// Whether a dependent holds an owner back that waits.
    fn is_held(&self, world: &dyn World, item: &Item) -> bool {
        self.dependents_of(world, &item.uid)
            .iter()
            .filter(|dependent| dependent.key != item.key)
            .any(|dependent| dependent.owners.iter().any(|o| o.uid == item.uid && o.blocks))
    }
}
