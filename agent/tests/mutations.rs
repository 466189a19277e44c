//! Seeded mutations of what the agent reads from disk: the ledger's files and the site's guard. See `mutation`
//! for `PINNACE_SEED` and longer runs.

// A test program: what cannot be set up fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use agent::ledger::{Ledger, OpenError};
use agent_core::guard::Verb;
use agent_core::holdings::Content;
use agent_core::intake::Held;
use agent_core::record::{ObjectRecord, Origin};
use mutation::{Random, mutate_text, seeds};
use shared::bundle::Descriptor;
use shared::ids::{ClusterName, Digest, FleetId, Incarnation, KeyNumber, Nonce, ObjectKey, Sequence};
use shared::keys::{HubKeys, KeyStatement, SigningKey};
use shared::set::{ConflictResolution, DeleteMode, Entry, Head, Set};

/// Damaged ledgers that are opened.
const LEDGERS: u64 = 400;
/// Guards that are read.
const GUARDS: u64 = 2_000;

fn keys() -> HubKeys {
    let root = SigningKey::from_seed(&[1; 32]).unwrap();
    let signer = SigningKey::from_seed(&[2; 32]).unwrap();
    let statement = KeyStatement::issue(&root, FleetId([1; 16]), KeyNumber(1), signer.public());
    HubKeys::new(root.public(), statement, signer).unwrap()
}

fn held(keys: &HubKeys, sequence: u64, count: usize) -> (Held, Vec<Content>) {
    let contents: Vec<Content> = (0..count)
        .map(|n| {
            let body = format!(
                r#"{{"apiVersion":"v1","data":{{"a":"{}"}},"kind":"ConfigMap","metadata":{{"name":"n{n}","namespace":"a"}}}}"#,
                "x".repeat(n * 37)
            );
            Content {
                descriptor: Descriptor::sign(body.as_bytes(), keys).unwrap(),
                bytes: body.into_bytes(),
            }
        })
        .collect();
    let entries = contents
        .iter()
        .enumerate()
        .map(|(n, content)| {
            Arc::new(Entry {
                key: ObjectKey::new("", "ConfigMap", "a", &format!("n{n}")),
                digest: content.digest(),
                length: u32::try_from(content.bytes.len()).unwrap(),
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
    let held = Held {
        head: head.sign(keys),
        set: Arc::new(set),
    };
    (held, contents)
}

fn record(n: usize) -> ObjectRecord {
    ObjectRecord {
        key: ObjectKey::new("", "ConfigMap", "a", &format!("n{n}")),
        api_version: "v1".into(),
        uid: format!("uid-{n}"),
        nonce: Some(Nonce([7; 16])),
        origin: Origin::Created,
        content: Digest::of(b"x"),
        template_uid: "t".into(),
        fields: Some(Digest::of(b"f")),
        completed: false,
    }
}

/// The files of a ledger as a power cut leaves them: a set in the main file, and a log with another set and records.
struct Files {
    main: Vec<u8>,
    log: Vec<u8>,
}

impl Files {
    fn make(keys: &HubKeys) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(dir.path()).unwrap();
        let (first, contents) = held(keys, 1, 12);
        ledger.commit(&first, &contents).unwrap();
        drop(ledger);
        let mut ledger = Ledger::open(dir.path()).unwrap();
        let (second, contents) = held(keys, 2, 14);
        ledger.commit(&second, &contents).unwrap();
        for n in 0..14 {
            ledger.put_record(&record(n), 7, "created").unwrap();
        }
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        Self {
            main: read("ledger.db"),
            log: read("ledger.db-wal"),
        }
    }

    fn write(&self, dir: &Path) {
        fs::write(dir.join("ledger.db"), &self.main).unwrap();
        fs::write(dir.join("ledger.db-wal"), &self.log).unwrap();
    }
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.index(bytes.len());
    let end = (at + 1 + random.index(600)).min(bytes.len());
    match random.index(6) {
        0 => bytes[at] ^= 1 << random.index(8),
        1 => bytes[at..end].fill(0),
        2 => bytes[at..end].iter_mut().for_each(|b| *b ^= 0xa5),
        // Never to nothing: an empty file is a new ledger, and only its owner's hand makes one.
        3 => bytes.truncate(at.max(1)),
        4 => {
            // A block that was never written, or one of another place.
            let from = random.index(bytes.len() / 512 + 1) * 512;
            let to = random.index(bytes.len() / 512 + 1) * 512;
            let block: Vec<u8> = bytes[from..(from + 512).min(bytes.len())].to_vec();
            let room = block.len().min(bytes.len() - to);
            bytes[to..to + room].copy_from_slice(&block[..room]);
        }
        _ => bytes.extend(std::iter::repeat_n(0xff, random.index(5_000))),
    }
}

#[test]
fn a_damaged_ledger_is_whole_or_refused() {
    let keys = keys();
    let files = Files::make(&keys);
    let (mut whole, mut set_aside, mut refused, mut older) = (0, 0, 0, 0);
    for seed in seeds(LEDGERS) {
        let mut random = Random::new(seed);
        let mut broken = Files {
            main: files.main.clone(),
            log: files.log.clone(),
        };
        for _ in 0..1 + random.index(3) {
            match random.index(5) {
                0 | 1 => damage(&mut broken.log, &mut random),
                2 | 3 => damage(&mut broken.main, &mut random),
                _ => broken.log.clear(),
            }
        }
        let dir = tempfile::tempdir().unwrap();
        broken.write(dir.path());
        let ledger = match Ledger::open(dir.path()) {
            Ok(ledger) => ledger,
            Err(OpenError::SetAside { aside, .. }) => {
                assert!(aside.is_file(), "seed {seed}: what was set aside is gone");
                assert!(!dir.path().join("ledger.db").exists(), "seed {seed}");
                set_aside += 1;
                continue;
            }
            Err(_) => {
                assert!(
                    dir.path().join("ledger.db").is_file(),
                    "seed {seed}: the file is gone"
                );
                refused += 1;
                continue;
            }
        };
        // What opens is used as the agent uses it at its start.
        let (held, records, intents) = (ledger.held(&keys.ring()), ledger.records(), ledger.intents());
        if [held.is_err(), records.is_err(), intents.is_err()].contains(&true) {
            refused += 1;
            continue;
        }
        let held = held
            .unwrap()
            .unwrap_or_else(|| panic!("seed {seed}: damage was taken for absence"));
        let sequence = held.held.head.head.sequence.0;
        assert!([1, 2].contains(&sequence), "seed {seed}: sequence {sequence}");
        for entry in held.held.set.entries() {
            match ledger.content_bytes(&entry.digest) {
                Ok(Some(bytes)) => assert_eq!(Digest::of(&bytes), entry.digest, "seed {seed}"),
                Ok(None) => panic!("seed {seed}: {} has no content", entry.key),
                Err(_) => refused += 1,
            }
        }
        if sequence == 1 { older += 1 } else { whole += 1 }
    }
    println!("{whole} whole, {older} as before the last write, {set_aside} set aside, {refused} refused");
    assert!(
        whole > 0 && older > 0 && set_aside > 0,
        "the mutations try too little: {whole} {older} {set_aside} {refused}"
    );
}

const GUARD: &str = "allow:
- kinds: [Deployment.apps, Service, ConfigMap, '*.example.org']
  namespaces: [\"shop-*\", other]
  exceptNamespaces: [shop-till]
  verbs: [apply, delete]
- kinds: ['*']
  namespaces: ['*']
- kinds: [Namespace]
  names: [\"shop-*\"]
";

const PIECES: &[&str] = &[
    "allow:",
    "- ",
    "kinds: ['*']",
    "namespaces: ['*']",
    "*",
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    ":",
    "\n",
    "\t",
    "&a ",
    "*a",
    "!!binary ",
    "<<: ",
    "---\n",
    "|\n",
    ">\n",
    "%YAML 9\n",
    "null",
    "~",
    "verbs: [everything]",
    "\u{0}",
    "\u{feff}",
    "[[[[[[[[[[[[[[[[",
    "- - - - - - - -",
    "? ",
    "#",
    "1e999",
    "ClusterRole.rbac.authorization.k8s.io",
];

/// Whatever a guard says, what the agent lives by stays out of reach, and a broken one lets nothing through.
#[test]
fn no_guard_lets_a_hub_touch_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("guard.yaml");
    let own = ObjectKey::new("", "Secret", "pinnace-agent", "anchor");
    let roles = ObjectKey::new("rbac.authorization.k8s.io", "ClusterRole", "", "pinnace-agent");
    let lease = ObjectKey::new("coordination.k8s.io", "Lease", "kube-system", "kube-scheduler");
    let (mut accepted, mut refused) = (0, 0);
    for seed in seeds(GUARDS) {
        let mut random = Random::new(seed);
        let text = mutate_text(GUARD, PIECES, 3, &mut random);
        fs::write(&file, &text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        match agent::guard::read(&file) {
            Err(_) => refused += 1,
            Ok(guard) => {
                accepted += 1;
                for key in [&own, &roles, &lease] {
                    for verb in [Verb::Apply, Verb::Delete] {
                        assert!(
                            guard.check(verb, key).is_err(),
                            "seed {seed}: {key} may be touched"
                        );
                    }
                }
            }
        }
    }
    println!("{accepted} guards accepted, {refused} refused");
    assert!(refused > 0, "no mutation broke a guard: the test tries nothing");
}
