//! Behaviour of the fleet part: who may join, when sequences move, what leaves a tombstone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use shared::ids::{
    BootId, ClusterName, Digest, Incarnation, KeyNumber, ObjectKey, PublicKey, ReportSeq, Sequence, Session,
    Signature,
};
use shared::reason::Reason;
use shared::set::{ConflictResolution, DeleteMode, Entry, Head, Set, SignedHead};
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, Capacity, Health, ObjectReport, Report, TombstoneDone, TombstoneOutcome};

mod succession;

use super::super::{BindingRef, Note, Store};
use super::*;

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

fn cluster(name: &str) -> ClusterName {
    ClusterName::new(name).unwrap()
}

fn request(name: &str, token: u8, identity: u8) -> EnrolRequest {
    EnrolRequest {
        token: Digest([token; 32]),
        cluster: cluster(name),
        identity: PublicKey([identity; 32]),
        kube_system_uid: format!("uid-{name}"),
        incarnation: Incarnation([identity; 16]),
        now: NOW,
    }
}

async fn with_token(store: &Store, name: &str, token: u8) {
    let token = Token {
        digest: Digest([token; 32]),
        cluster: cluster(name),
        expires: NOW.plus(60),
        terms: Terms {
            region: "eu".into(),
            ..Terms::default()
        },
        used_by: None,
    };
    store.create_token(token, NOW).await.unwrap();
}

async fn fresh(names: &[&str]) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let store = Store::open(dir.path(), NOW).unwrap();
    for (n, name) in names.iter().enumerate() {
        let n = u8::try_from(n).unwrap() + 1;
        with_token(&store, name, n).await;
        store.enrol(request(name, n, n)).await.unwrap().unwrap();
    }
    (dir, store)
}

fn binding(name: &str) -> BindingRef {
    BindingRef {
        namespace: "d".into(),
        name: name.into(),
    }
}

fn work(name: &str, content: &str) -> (Arc<Entry>, Arc<[u8]>) {
    let content: Arc<[u8]> = content.as_bytes().into();
    let entry = Entry {
        key: ObjectKey::new("", "ConfigMap", "d", name),
        digest: Digest::of(&content),
        length: u32::try_from(content.len()).unwrap(),
        work: format!("{name}-work"),
        template_uid: "0d4e4c1e-93f8-4f1c-b8a1-6e1a6ac2a7a1".into(),
        template_generation: 1,
        conflict_resolution: ConflictResolution::Abort,
        suspended: false,
        delete_mode: DeleteMode::Delete,
        retain_replicas: false,
        dependencies: vec![],
        labels: BTreeMap::new(),
    };
    (Arc::new(entry), content)
}

fn put(name: &str, upserts: Vec<(Arc<Entry>, Arc<[u8]>)>) -> Vec<Adoption> {
    vec![Adoption {
        cluster: cluster(name),
        upserts,
        withdraw: vec![],
    }]
}

fn take(name: &str, keys: &[&str]) -> Vec<Adoption> {
    let withdraw = keys
        .iter()
        .map(|key| (ObjectKey::new("", "ConfigMap", "d", key), DeleteMode::Delete))
        .collect();
    vec![Adoption {
        cluster: cluster(name),
        upserts: vec![],
        withdraw,
    }]
}

async fn adopt(store: &Store, name: &str, adoptions: Vec<Adoption>) -> Sequence {
    store
        .adopt(&binding(name), adoptions)
        .await
        .unwrap()
        .remove(0)
        .1
        .unwrap()
}

fn object(name: &str, message: &str) -> ObjectReport {
    let (entry, _) = work(name, "{}");
    ObjectReport {
        key: entry.key.clone(),
        digest: entry.digest,
        template_generation: 1,
        applied: ApplyState::Applied,
        health: Health::Healthy,
        reason: Reason::Healthy.into(),
        message: message.into(),
        uid: "member-uid".into(),
        status: json!({"ready": true}).to_string().into_bytes(),
        age_ms: 5_000,
        age_is_lower_bound: false,
    }
}

fn report(seq: u64, objects: Vec<ObjectReport>) -> Report {
    Report {
        report_seq: ReportSeq(seq),
        boot: BootId([1; 16]),
        objects,
        tombstones_done: vec![],
        strays: None,
        capacity: None,
        full: false,
    }
}

#[tokio::test]
async fn a_token_enrols_one_key_under_its_name() {
    let (_dir, store) = fresh(&[]).await;
    with_token(&store, "a", 1).await;
    let enrol = async |request: EnrolRequest| store.enrol(request).await.unwrap();
    assert_eq!(
        enrol(request("a", 9, 1)).await.unwrap_err(),
        EnrolRefusal::TokenUnknown
    );
    assert_eq!(
        enrol(request("b", 1, 1)).await.unwrap_err(),
        EnrolRefusal::TokenOfOther(cluster("a"))
    );
    let late = EnrolRequest {
        now: NOW.plus(60),
        ..request("a", 1, 1)
    };
    assert_eq!(enrol(late).await.unwrap_err(), EnrolRefusal::TokenExpired);
    let made = enrol(request("a", 1, 1)).await.unwrap();
    assert_eq!(
        (made.terms.region.as_str(), made.incarnation),
        ("eu", Incarnation([1; 16]))
    );
    let again = EnrolRequest {
        incarnation: Incarnation([7; 16]),
        ..request("a", 1, 1)
    };
    assert_eq!(enrol(again).await.unwrap(), made, "a lost answer burns nothing");
    assert_eq!(
        enrol(request("a", 1, 2)).await.unwrap_err(),
        EnrolRefusal::TokenUsed
    );
    with_token(&store, "a", 2).await;
    assert_eq!(
        enrol(request("a", 2, 2)).await.unwrap_err(),
        EnrolRefusal::NameTaken(cluster("a"))
    );
    let other = EnrolRequest {
        kube_system_uid: "other".into(),
        ..request("a", 2, 2)
    };
    assert_eq!(
        enrol(other).await.unwrap_err(),
        EnrolRefusal::OtherCluster {
            cluster: cluster("a"),
            uid: "uid-a".into()
        }
    );
    assert!(store.revoke(&cluster("a")).await.unwrap());
    assert_eq!(
        enrol(request("a", 1, 1)).await.unwrap_err(),
        EnrolRefusal::Revoked(cluster("a"))
    );
    assert!(!store.revoke(&cluster("a")).await.unwrap());
}

#[tokio::test]
async fn sessions_only_rise() {
    let (_dir, store) = fresh(&["a"]).await;
    let begin = async |boot: u8, proposed: u64| {
        store
            .begin_session(&cluster("a"), BootId([boot; 16]), Session(proposed), NOW)
            .await
            .unwrap()
            .unwrap()
    };
    let first = begin(1, 1).await;
    assert_eq!(
        (first.session, first.known_boot, first.went_back),
        (Session(1), false, false)
    );
    let again = begin(1, 1).await;
    assert_eq!(
        (again.session, again.known_boot, again.boots.len()),
        (Session(1), true, 1)
    );
    let second = begin(2, 9).await;
    assert_eq!((second.session, second.went_back), (Session(9), false));
    let restored = begin(3, 2).await;
    assert_eq!((restored.session, restored.went_back), (Session(10), true));
    let clone = begin(2, 10).await;
    assert_eq!(
        (clone.session, clone.known_boot),
        (Session(11), false),
        "an older life gets a new number"
    );
    assert_eq!(clone.boots.len(), 4);
    assert!(
        store
            .begin_session(&cluster("x"), BootId([1; 16]), Session(1), NOW)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn a_sequence_moves_only_when_something_changed() {
    let (_dir, store) = fresh(&["a", "b"]).await;
    let mut notes = store.subscribe_changes();
    assert_eq!(
        adopt(&store, "x", put("a", vec![work("x", "{}")])).await,
        Sequence(1)
    );
    let told = [notes.next().await, notes.next().await];
    assert!(told.contains(&Some(Note::Binding(binding("x")))));
    assert!(told.contains(&Some(Note::Set(cluster("a")))));
    assert_eq!(
        adopt(&store, "x", put("a", vec![work("x", "{}")])).await,
        Sequence(1)
    );
    assert_eq!(
        adopt(&store, "x", put("a", vec![work("x", "{1}")])).await,
        Sequence(2)
    );
    assert_eq!(adopt(&store, "x", take("a", &["nothing"])).await, Sequence(2));
    let set = store.current_set(&cluster("a")).unwrap().unwrap();
    assert_eq!((set.sequence, set.set.entries().len()), (Sequence(2), 1));
    assert_eq!(set.digest, set.set.digest());
    assert_eq!(
        store.content(&Digest::of(b"{1}")).unwrap().unwrap(),
        b"{1}".as_slice()
    );
    let other = store.current_set(&cluster("b")).unwrap().unwrap();
    assert_eq!(
        (other.sequence, other.digest),
        (Sequence(0), Set::default().digest())
    );

    let taken = store
        .adopt(&binding("y"), put("a", vec![work("x", "{}")]))
        .await
        .unwrap()
        .remove(0)
        .1;
    assert!(matches!(taken, Err(AdoptRefusal::KeyTaken { by, .. }) if by == binding("x")));
    let mut wrong = work("y", "{}");
    wrong.1 = b"{other}".as_slice().into();
    let wrong = store
        .adopt(&binding("y"), put("a", vec![wrong]))
        .await
        .unwrap()
        .remove(0)
        .1;
    assert!(matches!(wrong, Err(AdoptRefusal::Content { .. })));
    let both = [
        put("nobody", vec![work("y", "{}")]),
        put("b", vec![work("y", "{}")]),
    ]
    .concat();
    let answers = store.adopt(&binding("y"), both).await.unwrap();
    assert!(matches!(&answers[0].1, Err(AdoptRefusal::NotEnrolled(_))));
    assert_eq!(
        answers[1].1,
        Ok(Sequence(1)),
        "one cluster's trouble delays no other"
    );
}

#[tokio::test]
async fn a_tombstone_is_not_lost_under_an_entry_that_came_and_went_unseen() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    assert!(store.mark_published(&a, Sequence(1)).await.unwrap());
    adopt(&store, "x", take("a", &["x"])).await;
    adopt(&store, "x", put("a", vec![work("x", "{2}")])).await;
    adopt(&store, "x", take("a", &["x"])).await;
    let left = store.tombstones_on(&a).unwrap().remove(0).tombstone;
    assert_eq!(
        left.sequence,
        Sequence(4),
        "the agent holds the object of the first set"
    );
}

#[tokio::test]
async fn only_what_was_published_leaves_a_tombstone() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    adopt(&store, "x", take("a", &["x"])).await;
    let set = store.current_set(&a).unwrap().unwrap();
    assert_eq!(
        (set.sequence, set.set.clone()),
        (Sequence(2), Arc::new(Set::default())),
        "it came and went unseen"
    );

    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    assert!(
        !store.mark_published(&a, Sequence(2)).await.unwrap(),
        "not the newest any more"
    );
    assert!(store.mark_published(&a, Sequence(3)).await.unwrap());
    assert_eq!(adopt(&store, "x", take("a", &["x"])).await, Sequence(4));
    let tombstone = store.tombstones_on(&a).unwrap().remove(0).tombstone;
    assert_eq!(
        (tombstone.sequence, tombstone.mode),
        (Sequence(4), DeleteMode::Delete)
    );
    assert_eq!(
        store.current_set(&a).unwrap().unwrap().set.tombstones(),
        std::slice::from_ref(&tombstone)
    );

    adopt(&store, "x", put("a", vec![work("x", "{2}")])).await;
    assert!(
        store.tombstones_on(&a).unwrap().is_empty(),
        "a new entry replaces the tombstone"
    );
    assert!(store.mark_published(&a, Sequence(5)).await.unwrap());
    adopt(&store, "x", take("a", &["x"])).await;
    let late = store
        .tombstones_done(&a, vec![(tombstone.key.clone(), Sequence(4))])
        .await
        .unwrap();
    assert_eq!(late, None, "a late word about the older tombstone ends nothing");
    let done = store
        .tombstones_done(&a, vec![(tombstone.key.clone(), Sequence(6))])
        .await
        .unwrap();
    assert_eq!(done, Some(Sequence(7)));
    assert_eq!(
        store.current_set(&a).unwrap().unwrap().set,
        Arc::new(Set::default())
    );
}

#[tokio::test]
async fn acknowledgements_name_a_published_set() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    let set = store.current_set(&a).unwrap().unwrap();
    assert!(
        !store.acked(&a, Sequence(1), set.digest).await.unwrap(),
        "never published"
    );
    store.mark_published(&a, Sequence(1)).await.unwrap();
    assert_eq!(
        store.targets_of(&binding("x")).unwrap()[0].state,
        TargetState::Published
    );
    assert!(
        !store.acked(&a, Sequence(1), Digest([0; 32])).await.unwrap(),
        "another digest"
    );
    assert!(store.acked(&a, Sequence(1), set.digest).await.unwrap());
    assert_eq!(
        store.targets_of(&binding("x")).unwrap()[0].state,
        TargetState::Accepted
    );
    for n in 0..150_u64 {
        let sequence = adopt(&store, "x", put("a", vec![work("x", &format!("{{{n}}}"))])).await;
        store.mark_published(&a, sequence).await.unwrap();
    }
    let heads = store.heads(&a).unwrap();
    assert_eq!(heads.len(), 151, "all since the acknowledged one");
    let (newest, digest) = *heads.last().unwrap();
    store.acked(&a, newest, digest).await.unwrap();
    let sequence = adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    store.mark_published(&a, sequence).await.unwrap();
    assert_eq!(store.heads(&a).unwrap().len(), shared::limits::HEADS_KEPT);
}

#[tokio::test]
async fn a_report_counts_once() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}"), work("y", "{}")])).await;
    let ingest = async |session: u64, report: Report| {
        store
            .ingest_report(&a, Session(session), report, NOW)
            .await
            .unwrap()
    };
    assert_eq!(
        ingest(1, report(1, vec![])).await,
        Ingested::Unknown,
        "no session was agreed"
    );
    store
        .begin_session(&a, BootId([1; 16]), Session(1), NOW)
        .await
        .unwrap();
    let said = vec![object("x", "fine"), object("stranger", "")];
    let new = Ingested::New {
        bindings: vec![binding("x")],
        set: None,
    };
    assert_eq!(ingest(1, report(1, said.clone())).await, new);
    assert_eq!(ingest(1, report(1, said.clone())).await, Ingested::Old);
    let unchanged = Ingested::New {
        bindings: vec![],
        set: None,
    };
    assert_eq!(
        ingest(1, report(2, said)).await,
        unchanged,
        "the same again is no change"
    );
    let targets = store.targets_of(&binding("x")).unwrap();
    let told = targets[0].report.clone().unwrap();
    assert_eq!(
        (told.applied, told.health),
        (ApplyState::Applied, Health::Healthy)
    );
    assert_eq!((told.message.as_str(), told.observed), ("fine", NOW.plus(-5)));
    assert_eq!(told.reason, Reason::Healthy.into());
    assert_eq!(told.status.unwrap(), json!({"ready": true}).to_string());
    assert_eq!(targets[1].report, None);
    assert_eq!(
        store.binding_revision(&binding("x")).unwrap(),
        Some(targets[0].revision)
    );

    store
        .begin_session(&a, BootId([2; 16]), Session(2), NOW)
        .await
        .unwrap();
    assert_eq!(ingest(1, report(3, vec![])).await, Ingested::Old, "an older life");
    let capacity = Capacity {
        kubernetes_version: "v1.36.0".into(),
        nodes_total: 3,
        ..Capacity::default()
    };
    let facts = Report {
        capacity: Some(capacity),
        ..report(1, vec![object("x", "worse")])
    };
    assert_eq!(ingest(2, facts).await, new);
    let row = store.facts(&a).unwrap().unwrap();
    assert_eq!(
        (row.facts.kubernetes_version.as_str(), row.last_seen),
        ("v1.36.0", Some(NOW))
    );

    store.mark_published(&a, Sequence(1)).await.unwrap();
    adopt(&store, "x", take("a", &["x"])).await;
    let (entry, _) = work("x", "{}");
    let done = TombstoneDone {
        key: entry.key.clone(),
        sequence: Sequence(2),
        outcome: TombstoneOutcome::Deleted,
    };
    let done = Report {
        tombstones_done: vec![done],
        ..report(2, vec![])
    };
    assert_eq!(
        ingest(2, done).await,
        Ingested::New {
            bindings: vec![],
            set: Some(Sequence(3))
        }
    );
}

#[tokio::test]
async fn the_hub_that_went_back_moves_above_both_sides() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    let theirs = Set::new(vec![work("x", "{newer}").0, work("late", "{}").0], vec![]).unwrap();
    let head = Head {
        fleet: store.fleet(),
        cluster: a.clone(),
        incarnation: Incarnation([1; 16]),
        sequence: Sequence(40),
        digest: theirs.digest(),
        key_number: KeyNumber(1),
    };
    let head = SignedHead {
        head,
        signature: Signature([0; 64]),
    };
    assert!(matches!(
        store.push_hub(&a, hub_core::ship::Winner::Hub).await.unwrap(),
        Err(PushRefusal::NotBehind(_))
    ));
    store
        .hold(
            &a,
            Some(HeldSet {
                head: head.clone(),
                set: None,
            }),
        )
        .await
        .unwrap();
    assert!(store.facts(&a).unwrap().unwrap().behind);
    assert!(matches!(
        store.push_hub(&a, hub_core::ship::Winner::Hub).await.unwrap(),
        Err(PushRefusal::NotFetched(_))
    ));
    let held = HeldSet {
        head,
        set: Some(theirs.clone()),
    };
    store.hold(&a, Some(held.clone())).await.unwrap();
    assert_eq!(store.held(&a).unwrap(), Some(held));
    assert_eq!(
        store
            .push_hub(&a, hub_core::ship::Winner::Hub)
            .await
            .unwrap()
            .unwrap(),
        Sequence(41)
    );
    assert_eq!(store.held(&a).unwrap(), None);
    let set = store.current_set(&a).unwrap().unwrap();
    assert_eq!(
        (set.sequence, set.acked, set.published),
        (Sequence(41), Sequence(40), Sequence(40))
    );
    assert_eq!(set.set.tombstones().len(), 1);
    assert_eq!(set.set.tombstones()[0].key.name, "late");
    adopt(&store, "x", take("a", &["x"])).await;
    let set = store.current_set(&a).unwrap().unwrap();
    assert_eq!(
        set.set.tombstones().len(),
        2,
        "what the agent held counts as published"
    );
}

#[tokio::test]
async fn contents_of_the_last_ten_adoptions_are_kept() {
    let (dir, store) = fresh(&["a"]).await;
    for n in 0..15 {
        adopt(&store, "x", put("a", vec![work("x", &format!("{{{n}}}"))])).await;
    }
    adopt(&store, "gone", put("a", vec![work("gone", "{gone}")])).await;
    adopt(&store, "gone", take("a", &["gone"])).await;
    store.close().await;
    let mut db = rusqlite::Connection::open(dir.path().join("hub.db")).unwrap();
    collect(&mut db).unwrap();
    drop(db);
    let store = Store::open(dir.path(), NOW).unwrap();
    let kept = |content: String| store.content(&Digest::of(content.as_bytes())).unwrap().is_some();
    assert!(!kept("{4}".into()) && kept("{5}".into()) && kept("{14}".into()) && !kept("{gone}".into()));
    assert_eq!(store.check().unwrap(), [], "doctor reads every content");
}

#[tokio::test]
async fn a_target_row_costs_at_most_200_bytes() {
    const CLUSTERS: usize = 40;
    const WORKS: usize = 50;
    let names: Vec<String> = (0..CLUSTERS).map(|n| format!("member-{n:04}")).collect();
    let (dir, store) = fresh(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for n in 0..WORKS {
        let name = format!("some-application-{n}");
        let adoptions = names
            .iter()
            .flat_map(|cluster| put(cluster, vec![work(&name, "{}")]))
            .collect();
        store.adopt(&binding(&name), adoptions).await.unwrap();
    }
    assert_eq!(store.all_targets().unwrap().len(), CLUSTERS * WORKS);
    store.close().await;
    let db = rusqlite::Connection::open(dir.path().join("hub.db")).unwrap();
    db.execute_batch("VACUUM").unwrap();
    drop(db);
    let bytes = std::fs::metadata(dir.path().join("hub.db")).unwrap().len() as usize;
    let per_row = bytes / (CLUSTERS * WORKS);
    assert!(
        per_row <= 200,
        "{per_row} bytes per target row, tables of shared parts included"
    );
}

#[tokio::test]
async fn a_member_that_keeps_what_it_has_is_ordered_to_delete_nothing() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}")])).await;
    let theirs = Set::new(vec![work("x", "{newer}").0, work("late", "{}").0], vec![]).unwrap();
    let head = SignedHead {
        head: Head {
            fleet: store.fleet(),
            cluster: a.clone(),
            incarnation: Incarnation([1; 16]),
            sequence: Sequence(40),
            digest: theirs.digest(),
            key_number: KeyNumber(1),
        },
        signature: Signature([0; 64]),
    };
    let set = Some(theirs);
    store.hold(&a, Some(HeldSet { head, set })).await.unwrap();
    let kept = store.push_hub(&a, hub_core::ship::Winner::Member).await.unwrap();
    assert_eq!(kept.unwrap(), Sequence(41));
    let set = store.current_set(&a).unwrap().unwrap().set;
    assert_eq!(set.tombstones().len(), 1);
    assert_eq!(set.tombstones()[0].mode, DeleteMode::Release);
    assert_eq!(set.entries().len(), 1, "what both want is the hub's");
}

#[tokio::test]
async fn receipts_from_files_count_once_and_never_backwards() {
    let (_dir, store) = fresh(&["a"]).await;
    let a = cluster("a");
    adopt(&store, "x", put("a", vec![work("x", "{}"), work("y", "{}")])).await;
    let first = store.current_set(&a).unwrap().unwrap();
    let carried = |set: &CurrentSet, journal: u64| shared::wire::Carried {
        cluster: a.clone(),
        incarnation: Incarnation([1; 16]),
        sequence: set.sequence,
        digest: set.digest,
        session: shared::ids::Session(3),
        journal,
        objects: vec![],
        tombstones_done: set
            .set
            .tombstones()
            .iter()
            .map(|t| shared::wire::TombstoneDone {
                key: t.key.clone(),
                sequence: t.sequence,
                outcome: shared::wire::TombstoneOutcome::Deleted,
            })
            .collect(),
    };
    let refused = store.take_carried(carried(&first, 1), NOW).await.unwrap();
    assert!(
        matches!(refused, Err(CarriedRefusal::UnknownSet(_))),
        "{refused:?}"
    );
    assert!(store.mark_published(&a, first.sequence).await.unwrap());
    store
        .take_carried(carried(&first, 5), NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(store.current_set(&a).unwrap().unwrap().acked, first.sequence);
    let refused = store.take_carried(carried(&first, 4), NOW).await.unwrap();
    assert!(
        matches!(refused, Err(CarriedRefusal::Older { .. })),
        "{refused:?}"
    );
    adopt(&store, "x", take("a", &["y"])).await;
    let second = store.current_set(&a).unwrap().unwrap();
    assert_eq!(second.set.tombstones().len(), 1);
    assert!(store.mark_published(&a, second.sequence).await.unwrap());
    store
        .take_carried(carried(&second, 6), NOW)
        .await
        .unwrap()
        .unwrap();
    let refused = store.take_carried(carried(&first, 7), NOW).await.unwrap();
    assert!(
        matches!(refused, Err(CarriedRefusal::Older { .. })),
        "{refused:?}"
    );
    let left = store.current_set(&a).unwrap().unwrap();
    assert!(
        left.set.tombstones().is_empty(),
        "a tombstone that is carried out ends"
    );
}

#[tokio::test]
async fn the_key_for_files_is_of_one_enrolment_and_survives_a_start() {
    let (dir, store) = fresh(&["a"]).await;
    let key = store.sealing_key(&cluster("a"), Incarnation([1; 16]));
    assert_ne!(key, store.sealing_key(&cluster("a"), Incarnation([2; 16])));
    assert_ne!(key, store.sealing_key(&cluster("b"), Incarnation([1; 16])));
    store.close().await;
    drop(store);
    let again = Store::open(dir.path(), NOW).unwrap();
    assert_eq!(key, again.sealing_key(&cluster("a"), Incarnation([1; 16])));
}
