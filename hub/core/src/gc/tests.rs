//! The collector over a world in memory.

use super::*;
use crate::admission;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Objects by name; all of one kind in one namespace. The uid is the name with a generation.
#[derive(Debug, Default, Clone)]
struct Objects {
    all: BTreeMap<String, (u64, Value)>,
    revision: u64,
    events: VecDeque<Event>,
}

#[derive(Debug, Clone)]
enum Event {
    Stored(Item),
    Removed(Key, String),
}

fn key(name: &str) -> Key {
    Key {
        group: String::new(),
        plural: "configmaps".to_owned(),
        namespace: "n".to_owned(),
        name: name.to_owned(),
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

impl World for Objects {
    fn owner(&self, reference: &OwnerRef, _namespace: &str) -> Owner {
        match reference.kind.as_str() {
            "ConfigMap" => match self.item(&key(&reference.name)) {
                Some(item) if item.uid == reference.uid => Owner::Present { waits: item.waits() },
                _ => Owner::Absent,
            },
            "Far" => Owner::Elsewhere,
            _ => Owner::Unknown,
        }
    }

    fn owner_key(&self, reference: &OwnerRef, _namespace: &str) -> Option<Key> {
        Some(key(&reference.name))
    }

    fn item(&self, wanted: &Key) -> Option<Item> {
        let (revision, object) = self.all.get(&wanted.name)?;
        Some(Item::read(wanted.clone(), &uid(object), *revision, object))
    }
}

impl Objects {
    fn put(&mut self, name: &str, object: Value) {
        self.revision += 1;
        self.events.push_back(Event::Stored(Item::read(
            key(name),
            &uid(&object),
            self.revision,
            &object,
        )));
        self.all.insert(name.to_owned(), (self.revision, object));
    }

    /// Stores an object, or removes it when it is being deleted and nothing holds it.
    fn settle(&mut self, name: &str, object: Value) {
        if admission::is_deleting(&object) && admission::finalizers(&object).is_empty() {
            self.all.remove(name);
            self.events.push_back(Event::Removed(key(name), uid(&object)));
        } else {
            self.put(name, object);
        }
    }

    fn delete(&mut self, name: &str, policy: Option<Propagation>) {
        let Some((_, mut object)) = self.all.get(name).cloned() else {
            return;
        };
        let finalizers = Propagation::finalizers(policy, &admission::finalizers(&object));
        object["metadata"]["finalizers"] = json!(finalizers);
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        self.settle(name, object);
    }

    fn carry_out(&mut self, action: &Action) -> bool {
        let name = &action.key.name;
        let Some((revision, object)) = self.all.get(name).cloned() else {
            return true;
        };
        if revision != action.revision {
            return false;
        }
        match &action.what {
            What::Delete(policy) => self.delete(name, Some(*policy)),
            What::WarnNamespace(_) => {}
            other => self.settle(name, apply(other, object)),
        }
        true
    }

    /// Lets the collector work until nothing is left to do; the number of steps is bounded.
    fn collect(&mut self, collector: &mut Collector) {
        for _ in 0..10_000 {
            while let Some(event) = self.events.pop_front() {
                match event {
                    Event::Stored(item) => collector.stored(self, &item),
                    Event::Removed(key, uid) => collector.removed(self, &key, &uid),
                }
            }
            if collector.is_idle() {
                return;
            }
            for action in collector.step(self, 3) {
                if !self.carry_out(&action) {
                    collector.again(action.key);
                }
            }
        }
        panic!("the collector does not come to rest: {self:?}");
    }

    fn names(&self) -> String {
        self.all.keys().cloned().collect::<Vec<_>>().join(" ")
    }
}

fn object(name: &str, owners: &[(&str, bool)]) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|(owner, blocks)| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": format!("u-{owner}"),
                "blockOwnerDeletion": blocks})
        })
        .collect();
    json!({"metadata": {"name": name, "uid": format!("u-{name}"), "ownerReferences": references}})
}

fn world(objects: &[(&str, &[(&str, bool)])]) -> (Objects, Collector) {
    let (mut world, mut collector) = (Objects::default(), Collector::default());
    for (name, owners) in objects {
        world.put(name, object(name, owners));
    }
    world.collect(&mut collector);
    (world, collector)
}

#[test]
fn dependents_follow_their_owners() {
    let family: &[(&str, &[(&str, bool)])] = &[
        ("a", &[]),
        ("b", &[("a", true)]),
        ("c", &[("b", true)]),
        ("d", &[("a", true), ("e", false)]),
        ("e", &[]),
    ];
    for policy in [None, Some(Propagation::Background), Some(Propagation::Foreground)] {
        let (mut world, mut collector) = world(family);
        assert_eq!(world.names(), "a b c d e");
        world.delete("a", policy);
        world.collect(&mut collector);
        assert_eq!(world.names(), "d e", "{policy:?}");
        let owners = &world.all["d"].1["metadata"]["ownerReferences"];
        assert_eq!(
            owners.as_array().map(Vec::len),
            Some(1),
            "the dead owner is taken off"
        );
    }
    let (mut world, mut collector) = world(family);
    world.delete("a", Some(Propagation::Orphan));
    world.collect(&mut collector);
    assert_eq!(world.names(), "b c d e");
    assert!(world.all["b"].1["metadata"].get("ownerReferences").is_none());
}

#[test]
fn foreground_waits_for_those_that_block() {
    let (mut world, mut collector) = world(&[("a", &[]), ("b", &[("a", true)]), ("c", &[("a", false)])]);
    for held in ["b", "c"] {
        let mut object = world.all[held].1.clone();
        object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        world.put(held, object);
    }
    world.collect(&mut collector);
    world.delete("a", Some(Propagation::Foreground));
    world.collect(&mut collector);
    assert_eq!(world.names(), "a b c", "b holds a");
    let mut b = world.all["b"].1.clone();
    b["metadata"]["finalizers"] = json!([]);
    world.settle("b", b);
    world.collect(&mut collector);
    assert_eq!(world.names(), "c", "c does not block");
}

#[test]
fn circles_end_and_what_is_not_known_stays() {
    for policy in [Propagation::Background, Propagation::Foreground] {
        let (mut world, mut collector) = world(&[
            ("a", &[("c", true)]),
            ("b", &[("a", true)]),
            ("c", &[("b", true)]),
            ("s", &[("s", true)]),
        ]);
        assert_eq!(world.names(), "a b c s");
        world.delete("a", Some(policy));
        world.delete("s", Some(policy));
        world.collect(&mut collector);
        assert_eq!(world.names(), "", "{policy:?}");
    }
    let (mut world, mut collector) = world(&[]);
    for (name, kind) in [("known", "ConfigMap"), ("unknown", "Widget"), ("far", "Far")] {
        let reference = json!({"apiVersion": "v1", "kind": kind, "name": "x", "uid": "gone"});
        world.put(
            name,
            json!({"metadata": {"name": name, "uid": name, "ownerReferences": [reference]}}),
        );
    }
    let mut warned = Vec::new();
    while let Some(Event::Stored(item)) = world.events.pop_front() {
        collector.stored(&world, &item);
    }
    for action in collector.step(&world, 10) {
        if let What::WarnNamespace(reference) = &action.what {
            warned.push(reference.kind.clone());
        }
        world.carry_out(&action);
    }
    assert_eq!(
        (world.names().as_str(), warned.as_slice()),
        ("unknown", &["Far".to_owned()][..])
    );
}

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

proptest! {
    /// Whatever the graph and whatever is deleted in which way: it comes to rest, nobody with a living owner is
    /// deleted, nobody whose owners are all gone stays, nobody waits for ever.
    #[test]
    fn random_graphs(
        edges in proptest::collection::vec((0..7_usize, 0..7_usize, any::<bool>()), 0..16),
        deletes in proptest::collection::vec((0..7_usize, 0..4_u8, 0..40_usize), 0..5),
    ) {
        let (mut world, mut collector) = (Objects::default(), Collector::default());
        for (at, name) in NAMES.iter().enumerate() {
            let mut owners: Vec<(&str, bool)> = Vec::new();
            for (from, to, blocks) in &edges {
                if *from == at && !owners.iter().any(|(n, _)| *n == NAMES[*to]) {
                    owners.push((NAMES[*to], *blocks));
                }
            }
            world.put(name, object(name, &owners));
        }
        world.collect(&mut collector);
        prop_assert_eq!(world.all.len(), NAMES.len(), "everybody's owners are there");
        let mut asked = Vec::new();
        for (at, policy, steps) in deletes {
            let policy = [None, Some(Propagation::Background), Some(Propagation::Foreground), Some(Propagation::Orphan)]
                [usize::from(policy)];
            asked.push((NAMES[at], policy));
            world.delete(NAMES[at], policy);
            // The next deletion comes in the middle of the work.
            for _ in 0..steps {
                if let Some(event) = world.events.pop_front() {
                    match event {
                        Event::Stored(item) => collector.stored(&world, &item),
                        Event::Removed(key, uid) => collector.removed(&world, &key, &uid),
                    }
                }
                for action in collector.step(&world, 1) {
                    if !world.carry_out(&action) {
                        collector.again(action.key);
                    }
                }
            }
        }
        world.collect(&mut collector);
        for (name, (_, object)) in &world.all {
            prop_assert!(!admission::is_deleting(object), "{} waits for ever", name);
            let item = world.item(&key(name)).expect("it is there");
            for owner in &item.owners {
                prop_assert!(world.all.contains_key(&owner.name), "{} names a dead owner", name);
            }
        }
        // With plain deletions alone exactly those that hang on the deleted ones go.
        if asked.iter().all(|(_, policy)| policy.is_none()) {
            let mut alive: Vec<&str> = NAMES.iter().copied().filter(|n| !asked.iter().any(|(a, _)| a == n)).collect();
            loop {
                let before = alive.len();
                let snapshot = alive.clone();
                alive.retain(|name| {
                    let at = NAMES.iter().position(|n| n == name).expect("a name");
                    let owners: Vec<&str> = edges.iter().filter(|(f, ..)| *f == at).map(|(_, t, _)| NAMES[*t]).collect();
                    owners.is_empty() || owners.iter().any(|o| snapshot.contains(o))
                });
                if alive.len() == before {
                    break;
                }
            }
            prop_assert_eq!(world.names(), alive.join(" "));
        }
    }
}
