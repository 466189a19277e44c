//! Property: whatever the member looks like and whoever meddles, running the engine's actions to completion
//! reaches what the set says, and never deletes an object that our own create did not make.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agent_core::action::{Action, Outcome};
use agent_core::decide::{self, Step};
use agent_core::engine::Engine;
use agent_core::facts::ContentFacts;
use agent_core::live::Live;
use agent_core::record::{Intent, ObjectRecord, Origin};
use agent_core::target::Phase;
use proptest::prelude::*;
use shared::ids::{Digest, Nonce, ObjectKey, Sequence};
use shared::owned::Mark;
use shared::reason::Reason;
use shared::set::{ConflictResolution, DeleteMode, Entry, Set, Tombstone};
use shared::time::Millis;

/// An object in the made-up member.
#[derive(Debug, Clone)]
struct Object {
    uid: String,
    mark: Mark,
    content: Digest,
    /// Changes whenever somebody else touches what we own.
    fields: u64,
    version: u64,
}

/// Member, ledger and engine of one agent.
struct World {
    objects: BTreeMap<ObjectKey, Object>,
    records: BTreeMap<ObjectKey, ObjectRecord>,
    intents: BTreeMap<ObjectKey, Intent>,
    engine: Engine,
    set: Set,
    now: Millis,
    counter: u64,
    /// uids that our own create made: the truth that records must not go beyond.
    ours: BTreeSet<String>,
    deleted: Vec<String>,
}

impl World {
    fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            records: BTreeMap::new(),
            intents: BTreeMap::new(),
            engine: Engine::new(vec![], vec![], Millis(0)),
            set: Set::default(),
            now: Millis(0),
            counter: 0,
            ours: BTreeSet::new(),
            deleted: Vec::new(),
        }
    }

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn live(&self, key: &ObjectKey) -> Option<Box<Live>> {
        let object = self.objects.get(key)?;
        Some(Box::new(Live {
            uid: object.uid.clone(),
            resource_version: object.version.to_string(),
            deleting: false,
            mark: object.mark.clone(),
            fields: Some(Digest::of(&object.fields.to_be_bytes())),
            established: true,
            completed: false,
            other_manager: None,
        }))
    }

    fn accept(&mut self, set: Set) {
        self.set = set;
        self.show_set();
    }

    fn show_set(&mut self) {
        let facts: BTreeMap<Digest, ContentFacts> = self
            .set
            .entries()
            .iter()
            .map(|e| {
                (
                    e.digest,
                    ContentFacts {
                        api_version: "v1".into(),
                        defines: None,
                    },
                )
            })
            .collect();
        self.engine.handle_set(&self.set, &facts, self.now);
    }

    /// The process dies and starts again from the ledger.
    fn restart(&mut self) {
        self.now = self.now.plus(1);
        let records = self.records.values().cloned().collect();
        let intents = self.intents.values().cloned().collect();
        self.engine = Engine::new(records, intents, self.now);
        self.show_set();
    }

    fn create_foreign(&mut self, key: &ObjectKey) {
        let n = self.next();
        let object = Object {
            uid: format!("foreign-{n}"),
            mark: Mark::None,
            content: Digest([0; 32]),
            fields: 0,
            version: n,
        };
        if !self.objects.contains_key(key) {
            self.objects.insert(key.clone(), object);
            self.engine.handle_changed(key, None);
        }
    }

    /// Somebody deletes it, or changes a field of ours.
    fn meddle(&mut self, key: &ObjectKey, delete: bool) {
        let n = self.next();
        if delete {
            self.objects.remove(key);
        } else if let Some(object) = self.objects.get_mut(key) {
            object.fields = n;
            object.content = Digest([9; 32]);
            object.version = n;
        }
        self.engine.handle_changed(key, None);
    }

    /// Carries out an action as the applier does. `crash` stops it at a place, as a kill would: nothing is
    /// answered then.
    fn carry_out(&mut self, action: Action, crash: Option<u8>) -> Option<(ObjectKey, Outcome)> {
        let key = action.key().clone();
        let outcome = match action {
            Action::Read { record, .. } => Outcome::Read {
                live: self.live(&key),
                observation: None,
                record,
            },
            Action::Apply {
                entry,
                record,
                intent,
                ..
            } => {
                return self.apply(&entry, record, intent, crash).map(|o| (key, o));
            }
            Action::Delete { uid, .. } => {
                if self.objects.get(&key).is_some_and(|o| o.uid == uid) {
                    self.objects.remove(&key);
                    self.deleted.push(uid);
                }
                if crash == Some(2) {
                    return None;
                }
                Outcome::Deleted
            }
            Action::Release { uid, .. } => {
                if let Some(object) = self.objects.get_mut(&key).filter(|o| o.uid == uid) {
                    object.mark = Mark::None;
                }
                self.records.remove(&key);
                self.intents.remove(&key);
                Outcome::Released
            }
            Action::Claim { intent, record } => {
                let live = self.live(&key);
                self.intents.remove(&key);
                match live.as_deref().filter(|l| decide::claims(&intent, l)) {
                    Some(found) => {
                        let record = claimed(&intent, found);
                        self.records.insert(key.clone(), record.clone());
                        Outcome::Seen {
                            live,
                            record: Some(record),
                            intent: None,
                        }
                    }
                    None => Outcome::Seen {
                        live,
                        record,
                        intent: None,
                    },
                }
            }
            Action::Bury { how, .. } => {
                self.records.remove(&key);
                self.intents.remove(&key);
                Outcome::Buried(how)
            }
        };
        Some((key, outcome))
    }

    fn apply(
        &mut self,
        entry: &Entry,
        record: Option<ObjectRecord>,
        intent: Option<Intent>,
        crash: Option<u8>,
    ) -> Option<Outcome> {
        let key = entry.key.clone();
        let live = self.live(&key);
        match decide::decide(entry, record.as_ref(), intent.as_ref(), live.as_deref()) {
            Step::Create => {
                let n = self.next();
                let mut nonce = [0; 16];
                nonce[..8].copy_from_slice(&n.to_be_bytes());
                let intent = Intent {
                    key: key.clone(),
                    api_version: "v1".into(),
                    nonce: Nonce(nonce),
                    template_uid: entry.template_uid.clone(),
                };
                self.intents.insert(key.clone(), intent.clone());
                if crash == Some(0) {
                    return None;
                }
                let uid = format!("ours-{n}");
                self.ours.insert(uid.clone());
                let mark = Mark::Ours {
                    nonce: Some(intent.nonce),
                };
                self.objects.insert(
                    key.clone(),
                    Object {
                        uid,
                        mark,
                        content: entry.digest,
                        fields: n,
                        version: n,
                    },
                );
                if crash == Some(1) {
                    return None;
                }
                Some(self.recorded(entry, Origin::Created, Some(intent.nonce)))
            }
            Step::Update { origin, nonce } => Some(self.force(entry, origin, nonce, crash)?),
            Step::Take => Some(self.force(entry, Origin::Adopted, None, crash)?),
            Step::Conflict => Some(Outcome::Failed {
                reason: Reason::Conflict,
                message: "foreign".into(),
                live,
                intent: None,
                pause: None,
            }),
            Step::Yield => Some(Outcome::Failed {
                reason: Reason::Superseded,
                message: "taken over".into(),
                live,
                intent,
                pause: None,
            }),
            Step::Wait | Step::Completed => Some(Outcome::Seen { live, record, intent }),
            Step::Replace { .. } => {
                let record = record.or_else(|| Some(claimed(intent.as_ref()?, live.as_deref()?)));
                if let Some(record) = &record {
                    self.records.insert(key.clone(), record.clone());
                }
                self.intents.remove(&key);
                Some(Outcome::Seen {
                    live,
                    record,
                    intent: None,
                })
            }
        }
    }

    fn force(
        &mut self,
        entry: &Entry,
        origin: Origin,
        nonce: Option<Nonce>,
        crash: Option<u8>,
    ) -> Option<Outcome> {
        let n = self.next();
        if let Some(object) = self.objects.get_mut(&entry.key) {
            object.mark = Mark::Ours { nonce };
            object.content = entry.digest;
            object.fields = n;
            object.version = n;
        }
        if crash == Some(1) {
            return None;
        }
        Some(self.recorded(entry, origin, nonce))
    }

    fn recorded(&mut self, entry: &Entry, origin: Origin, nonce: Option<Nonce>) -> Outcome {
        let live = self.live(&entry.key).expect("it was just applied");
        let record = ObjectRecord {
            key: entry.key.clone(),
            api_version: "v1".into(),
            uid: live.uid.clone(),
            nonce,
            origin,
            content: entry.digest,
            template_uid: entry.template_uid.clone(),
            fields: live.fields,
            completed: false,
        };
        self.records.insert(entry.key.clone(), record.clone());
        self.intents.remove(&entry.key);
        Outcome::Applied {
            record,
            live,
            observation: None,
        }
    }

    /// Runs until nothing is left to do, or the bound says that it never ends.
    fn settle(&mut self, crashes: &mut Vec<u8>) {
        for _ in 0..4_000 {
            let mut random = || 1;
            if let Some(action) = self.engine.poll_action(self.now, &mut random) {
                let crash = crashes.pop().filter(|c| *c < 3);
                match self.carry_out(action, crash) {
                    Some((key, outcome)) => self.engine.handle_outcome(&key, outcome, self.now, 1),
                    None => self.restart(),
                }
                continue;
            }
            let settled = self.engine.targets().all(|(_, t)| {
                matches!(
                    t.phase(),
                    Phase::InSync | Phase::Stray | Phase::Suspended | Phase::Buried(_)
                ) || matches!(
                    t.phase(),
                    Phase::Failed {
                        reason: Reason::Conflict,
                        ..
                    }
                )
            });
            match self.engine.next_wake() {
                Some(at) if !settled => self.now = Millis(at.0.max(self.now.0 + 1)),
                _ => return,
            }
        }
        panic!(
            "never settles: {:#?}",
            self.engine
                .targets()
                .map(|(k, t)| (k, t.phase()))
                .collect::<Vec<_>>()
        );
    }
}

fn claimed(intent: &Intent, live: &Live) -> ObjectRecord {
    ObjectRecord {
        key: intent.key.clone(),
        api_version: intent.api_version.clone(),
        uid: live.uid.clone(),
        nonce: Some(intent.nonce),
        origin: Origin::Created,
        content: Digest([0; 32]),
        template_uid: intent.template_uid.clone(),
        fields: live.fields,
        completed: live.completed,
    }
}

fn key(n: u8) -> ObjectKey {
    match n {
        0 => ObjectKey::new("", "Namespace", "", "a"),
        1 => ObjectKey::new("", "ConfigMap", "a", "one"),
        2 => ObjectKey::new("batch", "Job", "a", "two"),
        3 => ObjectKey::new(
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            "",
            "three",
        ),
        4 => ObjectKey::new("apps", "Deployment", "b", "four"),
        _ => ObjectKey::new("", "Secret", "a", "five"),
    }
}

#[derive(Debug, Clone)]
enum Doing {
    /// A new set: per key absent, entry (content, template, overwrite, suspended) or tombstone (release).
    Set(Vec<Option<Result<(u8, u8, bool, bool), bool>>>),
    Meddle(u8, bool),
    Foreign(u8),
    Restart,
    Settle,
}

fn doing() -> impl Strategy<Value = Doing> {
    let entry = (0_u8..3, 0_u8..2, any::<bool>(), prop::bool::weighted(0.1)).prop_map(Ok);
    let one = prop::option::weighted(0.8, prop_oneof![3 => entry, 1 => any::<bool>().prop_map(Err)]);
    prop_oneof![
        3 => prop::collection::vec(one, 6).prop_map(Doing::Set),
        2 => (0_u8..6, any::<bool>()).prop_map(|(k, d)| Doing::Meddle(k, d)),
        1 => (0_u8..6).prop_map(Doing::Foreign),
        1 => Just(Doing::Restart),
        3 => Just(Doing::Settle),
    ]
}

fn make_set(parts: &[Option<Result<(u8, u8, bool, bool), bool>>]) -> Set {
    let (mut entries, mut tombstones) = (vec![], vec![]);
    for (n, part) in parts.iter().enumerate() {
        let key = key(u8::try_from(n).expect("six keys"));
        match part {
            Some(Ok((content, template, overwrite, suspended))) => entries.push(Arc::new(Entry {
                digest: Digest::of(&[u8::try_from(n).expect("six keys"), *content]),
                length: 2,
                work: format!("w{n}"),
                template_uid: format!("t{template}"),
                template_generation: 1,
                conflict_resolution: if *overwrite {
                    ConflictResolution::Overwrite
                } else {
                    ConflictResolution::Abort
                },
                suspended: *suspended,
                delete_mode: DeleteMode::Delete,
                retain_replicas: false,
                dependencies: vec![],
                labels: BTreeMap::new(),
                key,
            })),
            Some(Err(release)) => tombstones.push(Tombstone {
                key,
                mode: if *release {
                    DeleteMode::Release
                } else {
                    DeleteMode::Delete
                },
                template_uid: "t0".into(),
                sequence: Sequence(1),
            }),
            None => {}
        }
    }
    Set::new(entries, tombstones).expect("six different keys")
}

fn check(world: &World) -> Result<(), TestCaseError> {
    for uid in &world.deleted {
        prop_assert!(world.ours.contains(uid), "{uid} was deleted and is not ours");
    }
    for record in world.records.values() {
        let claims = record.origin == Origin::Created;
        prop_assert!(
            !claims || world.ours.contains(&record.uid),
            "{record:?} claims what we did not make"
        );
    }
    Ok(())
}

/// Field report F22, the agent's part. Red if a change of scripts does not make what was read unknown again.
#[test]
fn f22_other_scripts_make_their_objects_read_again() {
    let mut world = World::new();
    world.accept(make_set(&[None, Some(Ok((1, 0, false, false)))]));
    world.settle(&mut vec![]);
    assert_eq!(
        world.engine.poll_action(world.now, &mut || 0),
        None,
        "nothing to do"
    );
    let kinds = |kind: &str| BTreeSet::from([("v1".to_owned(), kind.to_owned())]);
    world.engine.handle_customized(&kinds("Secret"));
    assert_eq!(
        world.engine.poll_action(world.now, &mut || 0),
        None,
        "another kind"
    );
    world.engine.handle_customized(&kinds("ConfigMap"));
    let action = world.engine.poll_action(world.now, &mut || 0);
    assert!(matches!(action, Some(Action::Read { .. })), "{action:?}");
}

#[test]
fn scripts_of_a_set_are_used_and_never_applied() {
    let rules = ObjectKey::new(
        "config.karmada.io",
        "ResourceInterpreterCustomization",
        "",
        "widgets",
    );
    let mut world = World::new();
    let mut entry = (*make_set(&[Some(Ok((1, 0, false, false)))]).entries()[0]).clone();
    entry.key = rules.clone();
    world.accept(Set::new(vec![Arc::new(entry)], vec![]).expect("a small set"));
    assert_eq!(world.engine.poll_action(world.now, &mut || 0), None);
    assert_eq!(
        world.engine.target(&rules).map(|t| t.phase().clone()),
        Some(Phase::InSync)
    );
    assert_eq!(
        world.engine.take_kinds_in_use(),
        Some(BTreeSet::new()),
        "nothing to watch"
    );
    assert!(world.engine.is_settled());
    let gone = Tombstone {
        key: rules.clone(),
        mode: DeleteMode::Delete,
        template_uid: String::new(),
        sequence: Sequence(2),
    };
    world.accept(Set::new(vec![], vec![gone]).expect("a small set"));
    let action = world.engine.poll_action(world.now, &mut || 0);
    assert!(matches!(action, Some(Action::Bury { .. })), "{action:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn reaches_the_set_and_deletes_only_our_own(
        doings in prop::collection::vec(doing(), 1..14),
        mut crashes in prop::collection::vec(0_u8..12, 0..60),
    ) {
        let mut world = World::new();
        for doing in doings {
            match doing {
                Doing::Set(parts) => world.accept(make_set(&parts)),
                Doing::Meddle(n, delete) => world.meddle(&key(n), delete),
                Doing::Foreign(n) => world.create_foreign(&key(n)),
                Doing::Restart => world.restart(),
                Doing::Settle => world.settle(&mut crashes),
            }
            check(&world)?;
        }
        world.settle(&mut crashes);
        world.settle(&mut vec![]);
        check(&world)?;
        for entry in world.set.entries() {
            let found = world.objects.get(&entry.key);
            let foreign = found.is_some_and(|o| o.mark == Mark::None);
            if entry.suspended || (foreign && entry.conflict_resolution == ConflictResolution::Abort) {
                continue;
            }
            prop_assert_eq!(found.map(|o| o.content), Some(entry.digest), "{}", entry.key);
        }
        for tombstone in world.set.tombstones() {
            prop_assert!(!world.records.contains_key(&tombstone.key), "{} is still managed", tombstone.key);
            let found = world.objects.get(&tombstone.key);
            let ours = found.is_some_and(|o| world.ours.contains(&o.uid) && o.mark != Mark::None);
            prop_assert!(!ours, "{} still carries our mark", tombstone.key);
        }
    }
}

#[test]
fn an_entry_that_vanishes_is_kept_and_a_later_tombstone_still_deletes_it() {
    let mut world = World::new();
    let wanted = |parts: [Option<Result<(u8, u8, bool, bool), bool>>; 2]| {
        make_set(&[None, parts[0], None, None, parts[1]])
    };
    world.accept(wanted([Some(Ok((0, 0, false, false))), None]));
    world.settle(&mut vec![]);
    assert!(world.objects.contains_key(&key(1)));
    world.accept(wanted([None, None]));
    world.settle(&mut vec![]);
    assert!(world.objects.contains_key(&key(1)), "absence deletes nothing");
    assert_eq!(
        world.engine.target(&key(1)).map(|t| t.phase().clone()),
        Some(Phase::Stray)
    );
    world.accept(wanted([Some(Err(false)), None]));
    world.settle(&mut vec![]);
    assert!(!world.objects.contains_key(&key(1)));
    assert_eq!(world.deleted.len(), 1);
}

/// Red if the outcome of an action were taken for the answer to what is wanted by then, or an order waited for more than the
/// action under way.
#[test]
fn field_report_56_an_order_that_comes_during_an_apply_supersedes_it() {
    let mut world = World::new();
    let mut random = || 1;
    world.accept(make_set(&[None, Some(Ok((0, 0, false, false)))]));
    // The object is read; then the apply begins and takes its time.
    let slow = loop {
        match world.engine.poll_action(world.now, &mut random).unwrap() {
            slow @ Action::Apply { .. } => break slow,
            action => {
                let (key, outcome) = world.carry_out(action, None).unwrap();
                world.engine.handle_outcome(&key, outcome, world.now, 1);
            }
        }
    };
    world.accept(make_set(&[None, Some(Err(false))]));
    assert!(
        world.engine.poll_action(world.now, &mut random).is_none(),
        "one action of an object at a time"
    );
    let (at, outcome) = world.carry_out(slow, None).unwrap();
    assert!(world.objects.contains_key(&key(1)), "the apply came through");
    world.engine.handle_outcome(&at, outcome, world.now, 1);
    world.settle(&mut vec![]);
    assert!(!world.objects.contains_key(&key(1)));
    assert_eq!(world.deleted.len(), 1);
}

#[test]
fn a_job_of_a_new_template_is_deleted_first_and_made_anew() {
    let mut world = World::new();
    let job = |template| make_set(&[None, None, Some(Ok((0, template, false, false)))]);
    world.accept(job(0));
    world.settle(&mut vec![]);
    let first = world.objects[&key(2)].uid.clone();
    world.accept(job(1));
    world.settle(&mut vec![]);
    assert_eq!(world.deleted, std::slice::from_ref(&first));
    assert_ne!(world.objects[&key(2)].uid, first);
}

#[test]
fn interceptors_come_last_and_namespaces_first() {
    let mut world = World::new();
    let entry = Some(Ok((0, 0, false, false)));
    world.accept(make_set(&[entry, entry, entry, entry, entry, entry]));
    world.settle(&mut vec![]);
    let order: Vec<u64> = (0..6).map(|n| world.objects[&key(n)].version).collect();
    assert!(
        [1, 2, 5].iter().all(|n| order[0] < order[*n]),
        "namespace before its content: {order:?}"
    );
    assert!(
        [0, 1, 2, 4, 5].iter().all(|n| order[3] > order[*n]),
        "webhook after all: {order:?}"
    );
}

#[test]
fn a_fight_is_backed_off_and_named() {
    let mut world = World::new();
    world.accept(make_set(&[None, Some(Ok((0, 0, false, false)))]));
    world.settle(&mut vec![]);
    for _ in 0..5 {
        world.meddle(&key(1), false);
        world.settle(&mut vec![]);
    }
    let before = world.now;
    world.meddle(&key(1), false);
    let read = world
        .engine
        .poll_action(world.now, &mut || 1)
        .expect("it is read");
    let (k, outcome) = world.carry_out(read, None).expect("no crash");
    world.engine.handle_outcome(&k, outcome, world.now, 1);
    assert_eq!(
        world.engine.poll_action(world.now, &mut || 1),
        None,
        "no repair at once"
    );
    let phase = world.engine.target(&key(1)).map(|t| t.phase().clone());
    assert!(
        matches!(
            phase,
            Some(Phase::Failed {
                reason: Reason::Fighting,
                ..
            })
        ),
        "{phase:?}"
    );
    world.settle(&mut vec![]);
    assert!(world.now > before);
    assert_eq!(
        world.objects[&key(1)].content,
        world.set.entries()[0].digest,
        "it is repaired in the end"
    );
}
