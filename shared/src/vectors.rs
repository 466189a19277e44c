//! Frozen bytes of wire format 1: every file under `tests/vectors/wire/v1` must decode to its value and verdict, and
//! what is written today must be what was written then. `UPDATE=1` only adds files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::bundle::{Descriptor, SignedDescriptor};
use crate::ids::*;
use crate::keys::tests::{hub_keys, seed};
use crate::keys::{HubKeys, KeyRing, KeyStatement, Receipt, SignedReceipt};
use crate::reason::Reason;
use crate::seal::exchange::{Secrets, agent_signs, derive, hub_signs, transcript};
use crate::seal::{Channel, OpenError};
use crate::set::{ConflictResolution, DeleteMode, Delta, Entry, Head, Set, SignedHead, Tombstone};
use crate::time::UnixSeconds;
use crate::topics::Direction;
use crate::wire::*;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/wire/v1"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(value: &Value) -> Vec<u8> {
    from_hex(value.as_str().unwrap()).unwrap()
}

fn cluster() -> ClusterName {
    ClusterName::new("shop-1").unwrap()
}

fn keys() -> HubKeys {
    hub_keys(1, 1)
}

/// The ring that the vectors are checked with: root and statement of `keys()`, as in `statement.json`.
fn ring() -> KeyRing {
    keys().ring()
}

/// What decoding and verifying says: `ok` and the readable value, or the reason code.
fn judge(kind: &str, bytes: &[u8]) -> (String, Value) {
    fn shown<T: serde::Serialize>(result: Result<T, Reason>) -> (String, Value) {
        match result {
            Ok(value) => ("ok".into(), serde_json::to_value(value).unwrap()),
            Err(reason) => (reason.code().into(), Value::Null),
        }
    }
    match kind {
        "up" => shown(decode_up(bytes).map_err(|e| e.reason())),
        "down" => shown(decode_down(bytes).map_err(|e| e.reason())),
        "carried" => shown(
            decode_carried(bytes, &cluster(), Incarnation([2; 16]), &agent_key().public())
                .map_err(|e| e.reason()),
        ),
        "export" => shown(
            decode_export(bytes, &cluster(), head().head.incarnation, &SealingKey([6; 32]))
                .map(|e| (e.head, e.statements, e.contents))
                .map_err(|e| e.reason()),
        ),
        "x1" => shown(X1::decode(bytes).map_err(|e| e.reason())),
        "x2" => shown(X2::decode(bytes).map_err(|e| e.reason()).and_then(|x2| {
            let t = transcript(&cluster(), &x1(), &x2);
            let ok = ring().verify(KeyNumber(1), hub_signs(&t).as_slice(), &x2.signature, "exchange");
            ok.map(|()| x2).map_err(|e| e.reason())
        })),
        "x3" => shown(X3::decode(bytes).map_err(|e| e.reason()).and_then(|x3| {
            let signs = agent_signs(
                &transcript(&cluster(), &x1(), &x2()),
                &x3.identity,
                &secrets().confirm,
            );
            let ok = crate::keys::verifies(&x3.identity, signs.as_slice(), &x3.signature);
            if ok { Ok(x3) } else { Err(Reason::BadSignature) }
        })),
        "set" => shown(
            decode_set(bytes)
                .map_err(|e| e.reason())
                .map(|s| s.digest().to_string()),
        ),
        "frame" => shown(open_frame(bytes).map(|plain| hex(&plain))),
        "head" => shown(signed(bytes, |v: &SignedHead| {
            v.verify(&ring()).map_err(|e| e.reason())
        })),
        "receipt" => shown(signed(bytes, |v: &SignedReceipt| {
            v.verify(&ring()).map_err(|e| e.reason())
        })),
        "descriptor" => shown(signed(bytes, |v: &SignedDescriptor| {
            v.verify(&ring()).map_err(|e| e.reason())
        })),
        "statement" => shown(signed(bytes, |v: &KeyStatement| {
            v.verify(&keys().root).map_err(|e| e.reason())
        })),
        other => panic!("unknown kind {other}"),
    }
}

fn signed<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    verify: impl Fn(&T) -> Result<(), Reason>,
) -> Result<T, Reason> {
    let value: T = postcard::from_bytes(bytes).map_err(|_| Reason::Malformed)?;
    verify(&value)?;
    Ok(value)
}

/// A hub that has already seen counter 0 opens a frame.
fn open_frame(bytes: &[u8]) -> Result<Vec<u8>, Reason> {
    let (mut agent, mut hub) = channels();
    hub.open(&agent.seal(b"first").unwrap()).unwrap();
    hub.open(bytes).map_err(|e| match e {
        OpenError::Wire(e) => e.reason(),
        OpenError::OtherEpoch { .. } => Reason::StaleSession,
        OpenError::Replay(_) => Reason::StaleSequence,
        OpenError::Forged => Reason::BadSignature,
        OpenError::Exhausted => Reason::OverLimit,
    })
}

fn x1() -> X1 {
    X1 {
        exchange: ExchangeId([0x11; 32]),
        join: false,
        incarnation: Some(Incarnation([2; 16])),
        highest_key_number: KeyNumber(1),
    }
}

fn x2() -> X2 {
    let keys = keys();
    let mut x2 = X2 {
        exchange: x1().exchange,
        ephemeral: PublicKey([0x22; 32]),
        root: keys.root,
        statements: vec![keys.statement.clone()],
        signature: Signature([0; 64]),
    };
    x2.signature = keys
        .signer
        .sign(hub_signs(&transcript(&cluster(), &x1(), &x2)).as_slice());
    x2
}

/// Keys from a made-up shared secret, so that the derivation is frozen too.
fn secrets() -> Secrets {
    derive(&transcript(&cluster(), &x1(), &x2()), &[0x33; 32])
}

fn x3() -> X3 {
    let identity = seed(7);
    let signs = agent_signs(
        &transcript(&cluster(), &x1(), &x2()),
        &identity.public(),
        &secrets().confirm,
    );
    X3 {
        exchange: x1().exchange,
        identity: identity.public(),
        signature: identity.sign(signs.as_slice()),
    }
}

fn channels() -> (Channel, Channel) {
    let s = secrets();
    let make = |d| Channel::new(&cluster(), s.epoch, d, &s.up, &s.down);
    (make(Direction::Up), make(Direction::Down))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("apps", "Deployment", "prod", name)
}

fn entry(name: &str, content: &[u8]) -> Entry {
    Entry {
        key: key(name),
        digest: Digest::of(content),
        length: content.len() as u32,
        work: format!("{name}-work"),
        template_uid: "0b5a7c1e-1111-2222-3333-444455556666".into(),
        template_generation: 3,
        conflict_resolution: ConflictResolution::Overwrite,
        suspended: true,
        delete_mode: DeleteMode::Release,
        retain_replicas: true,
        dependencies: vec![ObjectKey::new("", "ConfigMap", "prod", "settings")],
        labels: [("team".to_string(), "a".to_string())].into(),
    }
}

fn sets() -> (Set, Set) {
    let plain = Entry {
        conflict_resolution: ConflictResolution::Abort,
        suspended: false,
        delete_mode: DeleteMode::Delete,
        retain_replicas: false,
        dependencies: vec![],
        labels: BTreeMap::new(),
        ..entry("db", b"{\"kind\":\"Deployment\"}")
    };
    let tombstone = |name: &str, sequence| Tombstone {
        key: key(name),
        mode: DeleteMode::Delete,
        template_uid: "gone".into(),
        sequence: Sequence(sequence),
    };
    let old = Set::new(
        vec![Arc::new(plain.clone()), Arc::new(entry("web", b"{\"a\":1}"))],
        vec![tombstone("old", 2)],
    );
    let edited = Entry {
        template_generation: 4,
        ..entry("web", b"{\"a\":2}")
    };
    let new = Set::new(
        vec![Arc::new(edited), Arc::new(entry("zoo", b"{}"))],
        vec![tombstone("db", 5)],
    );
    (old.unwrap(), new.unwrap())
}

fn head() -> SignedHead {
    Head {
        fleet: keys().fleet(),
        cluster: cluster(),
        incarnation: Incarnation([2; 16]),
        sequence: Sequence(5),
        digest: sets().1.digest(),
        key_number: KeyNumber(0),
    }
    .sign(&keys())
}

fn receipt() -> SignedReceipt {
    Receipt {
        fleet: keys().fleet(),
        cluster: cluster(),
        incarnation: Incarnation([2; 16]),
        identity: seed(7).public(),
        kube_system_uid: "9d2f".into(),
        labels: [("tier".to_string(), "shop".to_string())].into(),
        provider: "metal".into(),
        region: "eu".into(),
        zones: vec!["a".into(), "b".into()],
    }
    .sign(&keys())
}

fn ups() -> Vec<(&'static str, Up)> {
    let chunk = Chunk {
        what: What::Set(Sequence(5)),
        offset: 0,
        total: 3,
        sha256: Digest::of(b"abc"),
        encoding: crate::bundle::Encoding::Raw,
        length: 3,
        descriptor: None,
        bytes: b"abc".to_vec(),
    };
    let object = ObjectReport {
        key: key("web"),
        digest: Digest::of(b"{\"a\":2}"),
        template_generation: 4,
        applied: ApplyState::Failed,
        health: Health::Unhealthy,
        reason: Reason::QuotaExceeded.into(),
        message: "exceeded quota".into(),
        uid: "77aa".into(),
        status: b"{\"replicas\":1}".to_vec(),
        age_ms: 1500,
        age_is_lower_bound: true,
    };
    let report = Report {
        report_seq: ReportSeq(9),
        boot: BootId([6; 16]),
        objects: vec![object],
        tombstones_done: vec![TombstoneDone {
            key: key("db"),
            sequence: Sequence(5),
            outcome: TombstoneOutcome::Deleted,
        }],
        strays: Some(vec![key("stray")]),
        capacity: Some(Capacity {
            kubernetes_version: "v1.36.0".into(),
            nodes_total: 3,
            nodes_ready: 2,
            allocatable: [("cpu".to_string(), "4".to_string())].into(),
            allocated: [("cpu".to_string(), "1500m".to_string())].into(),
            allocating: BTreeMap::new(),
            models: vec![ModelCount { grade: 1, count: 2 }],
            apis: vec![ApiEnablement {
                group_version: "apps/v1".into(),
                resources: vec![("Deployment".into(), "deployments".into())],
            }],
        }),
        full: true,
    };
    let hello = Hello {
        boot: BootId([6; 16]),
        proposed_session: Session(4),
        held: Some(head()),
        highest_key_number: KeyNumber(1),
        receipt: receipt(),
        kube_system_uid: "9d2f".into(),
        kubernetes_version: "v1.36.0".into(),
        agent_version: "0.1.0".into(),
        confirmed_time_s: UnixSeconds(1_800_000_000),
    };
    let (sequence, digest) = (Sequence(5), sets().1.digest());
    vec![
        (
            "join",
            Up::Join(Join {
                token: "abc.def".into(),
                kube_system_uid: "9d2f".into(),
                agent_version: "0.1.0".into(),
            }),
        ),
        ("hello", Up::Hello(hello)),
        ("ack", Up::Ack(Ack { sequence, digest })),
        (
            "refused",
            Up::Refused(Refused {
                sequence,
                digest,
                reason: Reason::SequenceReused.into(),
                detail: "held with another digest".into(),
            }),
        ),
        (
            "want",
            Up::Want(Want {
                what: What::Content(digest),
                offset: 262_144,
                base: Some(Digest([8; 32])),
                raw: false,
            }),
        ),
        ("report", Up::Report(report)),
        (
            "beat",
            Up::Beat(Beat {
                sequence,
                digest,
                uptime_ms: 300_000,
            }),
        ),
        ("held", Up::Held(chunk)),
        (
            "member",
            Up::Member(MemberNote {
                api: MemberApi::Unreachable,
                reason: Reason::MemberUnreachable.into(),
                message: "connection refused".into(),
            }),
        ),
        (
            "room",
            Up::Room(Room {
                resources: vec!["cpu".into(), "memory".into(), "nvidia.com/gpu".into()],
                labels: vec![("zone".into(), "a".into())],
                nodes: vec![NodeRoom {
                    count: 3,
                    free: vec![7_500, 1 << 33, 2],
                    labels: vec![0],
                    taints: vec![Taint {
                        key: "gpu".into(),
                        value: String::new(),
                        effect: "NoSchedule".into(),
                    }],
                }],
                more: 1,
                addons: vec![Addon {
                    name: "metrics-server".into(),
                    version: "v0.8.0".into(),
                }],
            }),
        ),
    ]
}

fn downs() -> Vec<(&'static str, Down)> {
    let (old, new) = sets();
    let signed = head();
    let web = Descriptor::sign(b"{\"a\":2}", &keys()).unwrap();
    let time = UnixSeconds(1_800_000_000);
    let offer = Offer {
        sequence: Sequence(5),
        digest: new.digest(),
        key_number: KeyNumber(1),
        signature: signed.signature,
        base: Sequence(4),
        delta: Some(Delta::between(&old, &new)),
        inline: vec![InlineContent {
            entry: 0,
            key_number: KeyNumber(1),
            signature: web.signature,
            encoding: InlineEncoding::Raw,
            bytes: b"{\"a\":2}".to_vec(),
        }],
    };
    let chunk = Chunk {
        what: What::Content(Digest::of(b"{\"a\":2}")),
        offset: 0,
        total: 7,
        sha256: Digest::of(b"{\"a\":2}"),
        encoding: crate::bundle::Encoding::ZstdPrefix(Digest([8; 32])),
        length: 7,
        descriptor: Some((KeyNumber(1), web.signature)),
        bytes: b"{\"a\":2}".to_vec(),
    };
    vec![
        (
            "joined",
            Down::Joined(Joined {
                receipt: receipt(),
                confirmed_time_s: time,
            }),
        ),
        (
            "join-refused",
            Down::JoinRefused(JoinRefused {
                reason: Reason::TokenRefused.into(),
                detail: "expired".into(),
            }),
        ),
        (
            "welcome",
            Down::Welcome(Welcome {
                session: Session(4),
                confirmed_time_s: time,
                last_report: ReportSeq(8),
                behind: true,
            }),
        ),
        ("offer", Down::Offer(Box::new(offer))),
        ("chunk", Down::Chunk(chunk)),
        (
            "report-ack",
            Down::ReportAck(ReportAck {
                report_seq: ReportSeq(9),
            }),
        ),
        (
            "beat-ack",
            Down::BeatAck(BeatAck {
                confirmed_time_s: time,
                sequence: Sequence(5),
            }),
        ),
        (
            "ask",
            Down::Ask(Ask {
                what: What::Set(Sequence(5)),
                offset: 0,
            }),
        ),
        (
            "revoked",
            Down::Revoked(Revoked {
                reason: Reason::Revoked.into(),
            }),
        ),
        ("sealing-key", Down::SealingKey(SealingKey([6; 32]))),
    ]
}

fn carried() -> Carried {
    Carried {
        cluster: cluster(),
        incarnation: Incarnation([2; 16]),
        sequence: Sequence(5),
        digest: Digest([1; 32]),
        session: Session(4),
        journal: 17,
        objects: vec![],
        tombstones_done: vec![TombstoneDone {
            key: key("old"),
            sequence: Sequence(4),
            outcome: TombstoneOutcome::Deleted,
        }],
    }
}

/// Identity key of the agent in the vectors of receipts.
fn agent_key() -> crate::keys::SigningKey {
    crate::keys::SigningKey::from_seed(&[7; 32]).unwrap()
}

fn export() -> Export {
    let (_, set) = sets();
    let content = b"{\"a\":2}".to_vec();
    Export {
        head: head(),
        statements: keys().ring().statements().cloned().collect(),
        set: Arc::new(set),
        contents: vec![(Descriptor::sign(&content, &keys()).unwrap(), content)],
    }
}

/// Postcard without the zstd step, so that the bytes do not depend on a compressor.
fn plain<T: serde::Serialize>(message: &T) -> Vec<u8> {
    [&[1, 0][..], &postcard::to_stdvec(message).unwrap()].concat()
}

/// Every case by file name: kind and bytes.
fn cases() -> Vec<(String, &'static str, Vec<u8>)> {
    let mut out: Vec<(String, &'static str, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, kind: &'static str, bytes: Vec<u8>| out.push((name.to_owned(), kind, bytes));
    let with = |bytes: &[u8], at: usize, value: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = value;
        bytes
    };
    for (name, up) in ups() {
        add(&format!("up-{name}"), "up", plain(&up));
    }
    for (name, down) in downs() {
        add(&format!("down-{name}"), "down", plain(&down));
    }
    let ack = plain(&ups().remove(2).1);
    add("bad-up-future-version", "up", with(&ack, 0, 2));
    add("bad-up-unknown-encoding", "up", with(&ack, 1, 9));
    add("bad-up-unknown-message", "up", with(&ack, 2, 99));
    add("bad-up-cut", "up", ack[..ack.len() - 1].to_vec());
    add("bad-up-trailing", "up", [&ack[..], &[0]].concat());
    let bomb = crate::bundle::compress(&vec![0; crate::limits::PAYLOAD_BYTES_MAX + 1], &[]).unwrap();
    add("bad-up-inflates-too-far", "up", [&[1, 1][..], &bomb].concat());
    add("x1", "x1", x1().encode());
    add("x2", "x2", x2().encode());
    add("x3", "x3", x3().encode());
    add("bad-x1-not-ours", "x1", with(&x1().encode(), 0, b'X'));
    add("bad-x1-future-version", "x1", with(&x1().encode(), 2, 2));
    add("bad-x1-unknown-flags", "x1", with(&x1().encode(), 4, 1));
    add("bad-x1-is-x3", "x1", x3().encode());
    add(
        "bad-x1-oversized",
        "x1",
        [x1().encode(), vec![0; crate::limits::EXCHANGE_BYTES_MAX]].concat(),
    );
    let mut forged = x2();
    forged.ephemeral.0[0] ^= 1;
    add("bad-x2-other-ephemeral", "x2", forged.encode());
    let other = X3 {
        identity: seed(8).public(),
        ..x3()
    };
    add("bad-x3-other-identity", "x3", other.encode());
    let (old, new) = sets();
    add("set-empty", "set", encode_set(&Set::default()));
    add("set-old", "set", encode_set(&old));
    add("set-new", "set", encode_set(&new));
    let bytes = encode_set(&new);
    add("bad-set-cut", "set", bytes[..bytes.len() - 3].to_vec());
    let (mut agent, _) = channels();
    let replay = agent.seal(b"first").unwrap();
    let second = agent.seal(b"second").unwrap();
    add("frame", "frame", second.clone());
    add("bad-frame-replay", "frame", replay);
    add(
        "bad-frame-forged",
        "frame",
        with(&second, second.len() - 1, !second[second.len() - 1]),
    );
    add("bad-frame-other-epoch", "frame", with(&second, 5, !second[5]));
    add("bad-frame-cut", "frame", second[..12].to_vec());
    add(
        "statement",
        "statement",
        postcard::to_stdvec(&keys().statement).unwrap(),
    );
    add(
        "bad-statement-other-root",
        "statement",
        postcard::to_stdvec(&hub_keys(2, 1).statement).unwrap(),
    );
    add("head", "head", postcard::to_stdvec(&head()).unwrap());
    let mut other = head();
    other.head.cluster = ClusterName::new("shop-2").unwrap();
    add(
        "bad-head-other-cluster",
        "head",
        postcard::to_stdvec(&other).unwrap(),
    );
    let mut unknown = head();
    unknown.head.key_number = KeyNumber(2);
    add(
        "bad-head-unknown-key",
        "head",
        postcard::to_stdvec(&unknown).unwrap(),
    );
    add("receipt", "receipt", postcard::to_stdvec(&receipt()).unwrap());
    let mut changed = receipt();
    changed.receipt.kube_system_uid = "other".into();
    add(
        "bad-receipt-changed",
        "receipt",
        postcard::to_stdvec(&changed).unwrap(),
    );
    let receipt_file = encode_carried(&carried(), &agent_key()).unwrap();
    add("carried", "carried", receipt_file.clone());
    let mut forged = receipt_file;
    *forged.last_mut().unwrap() ^= 1;
    add("bad-carried-forged", "carried", forged);
    let set_file = encode_export(&export(), &SealingKey([6; 32]), [4; 12]).unwrap();
    add("export", "export", set_file.clone());
    let mut changed_file = set_file;
    *changed_file.last_mut().unwrap() ^= 1;
    add("bad-export-changed", "export", changed_file);
    let descriptor = Descriptor::sign(b"{\"a\":2}", &keys()).unwrap();
    add(
        "descriptor",
        "descriptor",
        postcard::to_stdvec(&descriptor).unwrap(),
    );
    let mut long = descriptor.clone();
    long.descriptor.length += 1;
    add(
        "bad-descriptor-other-length",
        "descriptor",
        postcard::to_stdvec(&long).unwrap(),
    );
    let foreign = Descriptor::sign(b"{\"a\":2}", &hub_keys(2, 1)).unwrap();
    add(
        "bad-descriptor-other-fleet",
        "descriptor",
        postcard::to_stdvec(&foreign).unwrap(),
    );
    out
}

#[test]
fn frozen() {
    what_is_written_today_is_what_was_written_then();
    every_file_is_read_as_it_was();
}

fn what_is_written_today_is_what_was_written_then() {
    let update = std::env::var_os("UPDATE").is_some();
    for (name, kind, bytes) in cases() {
        let path = folder().join(format!("{name}.json"));
        if !path.exists() {
            assert!(
                update,
                "{name}.json is missing: UPDATE=1 cargo test -p shared vectors"
            );
            let (verdict, value) = judge(kind, &bytes);
            let body = json!({"kind": kind, "bytes": hex(&bytes), "verify": keys().root.to_string(),
                "verdict": verdict, "value": value});
            std::fs::write(&path, serde_json::to_string_pretty(&body).unwrap() + "\n").unwrap();
        }
        let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        // Compressed bytes may change with the compressor; what was written once is read for ever.
        let compressed = ["bad-up-inflates-too-far", "export", "bad-export-changed"];
        if !compressed.contains(&name.as_str()) {
            assert_eq!(file["bytes"], hex(&bytes), "{name}: written differently now");
        }
        assert_eq!(file["kind"], kind, "{name}");
        assert_eq!(
            name.starts_with("bad-"),
            file["verdict"] != "ok",
            "{name}: {}",
            file["verdict"]
        );
    }
}

fn every_file_is_read_as_it_was() {
    let mut files = 0;
    for item in std::fs::read_dir(folder()).unwrap() {
        let path = item.unwrap().path();
        let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let (verdict, value) = judge(file["kind"].as_str().unwrap(), &unhex(&file["bytes"]));
        assert_eq!(file["verdict"], verdict, "{}", path.display());
        assert_eq!(file["value"], value, "{}", path.display());
        files += 1;
    }
    assert!(files >= cases().len());
}
