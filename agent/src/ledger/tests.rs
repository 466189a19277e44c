//! The ledger on a real disk: what comes back after a start, and what happens to a damaged file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use agent_core::holdings::{Content, Holdings};
use agent_core::intake::Held;
use agent_core::record::{Intent, ObjectRecord, Origin};
use shared::bundle::Descriptor;
use shared::ids::{
    ClusterName, Digest, FleetId, Incarnation, KeyNumber, Nonce, ObjectKey, Sequence, Session,
};
use shared::keys::{HubKeys, KeyStatement, SigningKey};
use shared::set::{ConflictResolution, DeleteMode, Entry, Head, Set};

use super::{Ledger, LedgerError, OpenError, facts};

fn keys() -> HubKeys {
    let root = SigningKey::from_seed(&[1; 32]).unwrap();
    let signer = SigningKey::from_seed(&[2; 32]).unwrap();
    let statement = KeyStatement::issue(&root, FleetId([1; 16]), KeyNumber(1), signer.public());
    HubKeys::new(root.public(), statement, signer).unwrap()
}

fn held(keys: &HubKeys, sequence: u64, bodies: &[&str]) -> (Held, Vec<Content>) {
    let content = |body: &&str| Content {
        descriptor: Descriptor::sign(body.as_bytes(), keys).unwrap(),
        bytes: body.as_bytes().to_vec(),
    };
    let contents: Vec<Content> = bodies.iter().map(content).collect();
    let entries = contents
        .iter()
        .enumerate()
        .map(|(n, c)| {
            Arc::new(Entry {
                key: ObjectKey::new("", "ConfigMap", "a", &format!("n{n}")),
                digest: c.digest(),
                length: u32::try_from(c.bytes.len()).unwrap(),
                work: format!("w{n}"),
                template_uid: "t".into(),
                template_generation: 1,
                conflict_resolution: ConflictResolution::Abort,
                suspended: false,
                delete_mode: DeleteMode::Delete,
                retain_replicas: false,
                dependencies: vec![],
                labels: BTreeMap::new(),
            })
        })
        .collect();
    let set = Set::new(entries, vec![]).unwrap();
    let head = Head {
        fleet: keys.fleet(),
        cluster: ClusterName::new("shop").unwrap(),
        incarnation: Incarnation([3; 16]),
        sequence: Sequence(sequence),
        digest: set.digest(),
        key_number: KeyNumber(0),
    };
    (
        Held {
            head: head.sign(keys),
            set: Arc::new(set),
        },
        contents,
    )
}

fn record(name: &str) -> ObjectRecord {
    ObjectRecord {
        key: ObjectKey::new("", "ConfigMap", "a", name),
        api_version: "v1".into(),
        uid: format!("uid-{name}"),
        nonce: Some(Nonce([7; 16])),
        origin: Origin::Created,
        content: Digest::of(b"x"),
        template_uid: "t".into(),
        fields: Some(Digest::of(b"f")),
        completed: true,
    }
}

/// Changes bytes of the file where `needle` stands.
fn damage(dir: &Path, needle: &[u8]) {
    let path = dir.join("ledger.db");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes
        .windows(needle.len())
        .position(|w| w == needle)
        .expect("the bytes are in the file");
    bytes[at] ^= 0x20;
    fs::write(&path, bytes).unwrap();
}

/// Closes the ledger so that everything is in the main file.
fn close(ledger: Ledger) {
    ledger
        .db
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    ledger.db.close().unwrap();
}

#[test]
fn everything_comes_back_and_only_for_us() {
    let dir = tempfile::tempdir().unwrap();
    let keys = keys();
    let (set, contents) = held(&keys, 3, &[r#"{"apiVersion":"v1","kind":"ConfigMap"}"#, "[]"]);
    let intent = Intent {
        key: ObjectKey::new("", "ConfigMap", "a", "n1"),
        api_version: "v1".into(),
        nonce: Nonce([9; 16]),
        template_uid: "t".into(),
    };
    {
        let mut ledger = Ledger::open(dir.path()).unwrap();
        ledger.commit(&set, &contents).unwrap();
        ledger.put_record(&record("n0"), 5, "created").unwrap();
        ledger.put_intent(&intent).unwrap();
        facts::put_session(&ledger, Session(8)).unwrap();
        facts::put_session(&ledger, Session(4)).unwrap();
    }
    let ledger = Ledger::open(dir.path()).unwrap();
    let back = ledger.held(&keys.ring()).unwrap().expect("a set is held");
    assert_eq!(back.held, set);
    assert_eq!(back.facts.len(), 2);
    assert_eq!(ledger.records().unwrap(), [record("n0")]);
    assert_eq!(ledger.intents().unwrap(), [intent]);
    assert_eq!(
        facts::session(&ledger).unwrap(),
        Session(8),
        "a session never goes back"
    );
    assert_eq!(ledger.recent_journal(9).unwrap()[0].what, "created");
    let mode = fs::metadata(dir.path().join("ledger.db"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_new_set_drops_what_it_does_not_name_and_keeps_what_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let keys = keys();
    let mut ledger = Ledger::open(dir.path()).unwrap();
    let (first, contents) = held(&keys, 1, &["\"a\"", "\"b\""]);
    ledger.commit(&first, &contents).unwrap();
    let (second, contents) = held(&keys, 2, &["\"b\"", "\"c\""]);
    ledger.keep(&contents[1..]).unwrap();
    ledger.commit(&second, &[]).unwrap();
    let has = |body: &str| ledger.has(&Digest::of(body.as_bytes()));
    assert!(!has("\"a\"") && has("\"b\"") && has("\"c\""));
    assert_eq!(ledger.content(&contents[1].digest()), Some(contents[1].clone()));
}

#[test]
fn a_record_closes_its_intent() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(dir.path()).unwrap();
    let r = record("n0");
    let intent = Intent {
        key: r.key.clone(),
        api_version: "v1".into(),
        nonce: Nonce([9; 16]),
        template_uid: "t".into(),
    };
    ledger.put_intent(&intent).unwrap();
    ledger.put_record(&r, 0, "created").unwrap();
    assert!(ledger.intents().unwrap().is_empty());
    assert!(ledger.holds_uid("uid-n0").unwrap());
    ledger.drop_object(&r.key, 0, "gone").unwrap();
    assert!(ledger.records().unwrap().is_empty());
}

#[test]
fn a_damaged_content_is_told_and_not_taken_for_absent() {
    let dir = tempfile::tempdir().unwrap();
    let keys = keys();
    let mut ledger = Ledger::open(dir.path()).unwrap();
    let (set, contents) = held(&keys, 1, &["\"a content that is easy to find\""]);
    ledger.commit(&set, &contents).unwrap();
    close(ledger);
    damage(dir.path(), b"easy to find");
    let ledger = Ledger::open(dir.path()).unwrap();
    let error = ledger.held(&keys.ring()).unwrap_err();
    assert!(error.is_corrupt(), "{error}");
    let aside = ledger.quarantine(dir.path(), &error);
    let OpenError::SetAside { aside, .. } = aside else {
        panic!("{aside}")
    };
    assert!(aside.exists() && !dir.path().join("ledger.db").exists());
}

/// Found by damaging files at random: red with SQLite's quick check, which does not compare an index with its table.
#[test]
fn no_place_of_a_digest_can_be_damaged_unseen() {
    let dir = tempfile::tempdir().unwrap();
    let keys = keys();
    let (set, contents) = held(&keys, 1, &["1", "2", "3"]);
    let mut ledger = Ledger::open(dir.path()).unwrap();
    ledger.commit(&set, &contents).unwrap();
    close(ledger);
    let path = dir.path().join("ledger.db");
    let whole = fs::read(&path).unwrap();
    let digest = contents[1].digest().0;
    let places: Vec<usize> = (0..whole.len() - digest.len())
        .filter(|at| whole[*at..at + digest.len()] == digest)
        .collect();
    assert!(
        places.len() >= 3,
        "in the set, in the table and in its index: {places:?}"
    );
    for at in places {
        let mut broken = whole.clone();
        broken[at] ^= 0x20;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ledger.db"), broken).unwrap();
        match Ledger::open(folder.path()) {
            Err(error) => assert!(matches!(error, OpenError::SetAside { .. }), "{at}: {error}"),
            Ok(ledger) => assert!(ledger.held(&keys.ring()).unwrap_err().is_corrupt(), "{at}"),
        }
    }
}

/// Red without the note in another table: an emptied table looks like that of an agent that never had a set.
#[test]
fn a_set_that_is_gone_is_not_taken_for_none() {
    let dir = tempfile::tempdir().unwrap();
    let keys = keys();
    let (set, contents) = held(&keys, 1, &["1"]);
    let mut ledger = Ledger::open(dir.path()).unwrap();
    assert!(ledger.held(&keys.ring()).unwrap().is_none(), "a new one has none");
    ledger.keep(&contents).unwrap();
    assert!(ledger.held(&keys.ring()).unwrap().is_none(), "on its way");
    ledger.commit(&set, &contents).unwrap();
    ledger.db.execute("DELETE FROM held", []).unwrap();
    assert!(ledger.held(&keys.ring()).unwrap_err().is_corrupt());
}

#[test]
fn a_file_that_is_no_database_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ledger.db"), vec![0x55; 8192]).unwrap();
    let error = Ledger::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::SetAside { .. }), "{error}");
    assert!(Ledger::open(dir.path()).unwrap().records().unwrap().is_empty());
}

#[test]
fn a_forged_head_is_corrupt_and_a_newer_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let keys = keys();
    let mut ledger = Ledger::open(dir.path()).unwrap();
    let (mut set, contents) = held(&keys, 1, &["1"]);
    set.head.head.sequence = Sequence(2);
    ledger.commit(&set, &contents).unwrap();
    assert!(matches!(
        ledger.held(&keys.ring()),
        Err(LedgerError::Corrupt { .. })
    ));
    ledger.db.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(ledger);
    assert!(matches!(
        Ledger::open(dir.path()),
        Err(OpenError::Newer { found: 99 })
    ));
}

#[test]
fn rows_that_others_share_replace_those_they_speak_of() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(dir.path()).unwrap();
    ledger.put_record(&record("stays"), 0, "created").unwrap();
    ledger.put_record(&record("goes"), 0, "created").unwrap();
    let intent = Intent {
        key: ObjectKey::new("", "ConfigMap", "a", "comes"),
        api_version: "v1".into(),
        nonce: Nonce([9; 16]),
        template_uid: "t".into(),
    };
    let row = agent_core::mirror::Row {
        record: None,
        intent: Some(intent.clone()),
    };
    let shared = agent_core::mirror::Rows::from([(intent.key.clone(), row.clone())]);
    ledger.replace_rows(&shared, |key| key.name != "stays").unwrap();
    assert_eq!(ledger.records().unwrap(), [record("stays")]);
    assert_eq!(ledger.intents().unwrap(), std::slice::from_ref(&intent));
    assert_eq!(ledger.row(&intent.key).unwrap(), row);
    assert_eq!(
        ledger.row(&record("stays").key).unwrap().record,
        Some(record("stays"))
    );
    assert_eq!(ledger.rows().unwrap().len(), 2);
}
