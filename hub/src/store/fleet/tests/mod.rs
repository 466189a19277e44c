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

mod behind;
mod carried;
mod enrolment;
mod reports;
mod sets;
mod succession;
mod tokens;

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
