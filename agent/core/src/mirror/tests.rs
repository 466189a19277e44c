//! Documents of the mirror: what goes in comes out, and nothing else is taken.

use std::sync::Arc;

use shared::bundle::Descriptor;
use shared::ids::{ClusterName, FleetId, Incarnation, KeyNumber, Sequence};
use shared::keys::{HubKeys, KeyStatement, SigningKey};
use shared::set::{ConflictResolution, DeleteMode, Entry};

use super::*;

fn keys(seed: u8) -> HubKeys {
    let root = SigningKey::from_seed(&[seed; 32]).unwrap();
    let signer = SigningKey::from_seed(&[seed + 1; 32]).unwrap();
    let statement = KeyStatement::issue(&root, FleetId([1; 16]), KeyNumber(1), signer.public());
    HubKeys::new(root.public(), statement, signer).unwrap()
}

fn content(body: &str, keys: &HubKeys) -> Content {
    Content {
        descriptor: Descriptor::sign(body.as_bytes(), keys).unwrap(),
        bytes: body.as_bytes().to_vec(),
    }
}

fn set(bodies: &[String]) -> Set {
    let entries = bodies.iter().enumerate().map(|(n, body)| {
        Arc::new(Entry {
            key: ObjectKey::new("", "ConfigMap", "a", &format!("n{n:05}")),
            digest: Digest::of(body.as_bytes()),
            length: u32::try_from(body.len()).unwrap(),
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
    });
    Set::new(entries.collect(), vec![]).unwrap()
}

fn owner() -> Owner {
    Owner {
        fleet: FleetId([1; 16]),
        cluster: ClusterName::new("shop").unwrap(),
        incarnation: Incarnation([3; 16]),
    }
}

fn head(set: &Set, keys: &HubKeys) -> SignedHead {
    let o = owner();
    let head = Head {
        fleet: o.fleet,
        cluster: o.cluster,
        incarnation: o.incarnation,
        sequence: Sequence(9),
        digest: set.digest(),
        key_number: KeyNumber(0),
    };
    head.sign(keys)
}

#[test]
fn contents_come_back_and_forged_ones_do_not() {
    let (ours, theirs) = (keys(1), keys(9));
    let contents = vec![content("{\"a\":1}", &ours), content("\"ü\"", &ours)];
    let bytes = encode_contents("d", contents.clone()).unwrap();
    assert_eq!(decode_contents("d", &bytes, &ours.ring()).unwrap(), contents);
    let forged = encode_contents("d", vec![content("1", &theirs)]).unwrap();
    assert!(decode_contents("d", &forged, &ours.ring()).is_err());
    let mut swapped = contents;
    swapped[0].bytes = b"{\"a\":2}".to_vec();
    let bytes = encode_contents("d", swapped).unwrap();
    assert!(decode_contents("d", &bytes, &ours.ring()).is_err());
    assert!(decode_contents("d", b"no zstd", &ours.ring()).is_err());
}

#[test]
fn a_set_is_taken_under_its_own_head_only() {
    let (ours, theirs) = (keys(1), keys(9));
    let (one, other) = (set(&["1".into()]), set(&["2".into()]));
    let bytes = encode_set_document("s", &one).unwrap();
    let read = |head: &SignedHead, owner: &Owner| decode_set_document("s", &bytes, head, owner, &ours.ring());
    assert_eq!(read(&head(&one, &ours), &owner()).unwrap(), one);
    assert!(read(&head(&other, &ours), &owner()).is_err(), "another digest");
    assert!(read(&head(&one, &theirs), &owner()).is_err(), "another signer");
    let neighbour = Owner {
        incarnation: Incarnation([4; 16]),
        ..owner()
    };
    assert!(read(&head(&one, &ours), &neighbour).is_err(), "another cluster");
}

#[test]
fn one_edit_changes_one_document_of_many() {
    let bodies: Vec<String> = (0..600)
        .map(|n| format!("\"{n}{}\"", "x".repeat(2_000)))
        .collect();
    let before = content_documents(&set(&bodies));
    assert!(before.len() >= 4, "{}", before.len());
    let mut edited = bodies;
    edited[7].push(' ');
    let after = content_documents(&set(&edited));
    let kept = before.keys().filter(|name| after.contains_key(*name)).count();
    assert!(kept + 2 >= before.len(), "{kept} of {} are kept", before.len());
    let small = content_documents(&set(&["1".into(), "2".into()]));
    assert_eq!(small.len(), 1, "little is one document");
    let all: usize = after.values().map(BTreeSet::len).sum();
    assert_eq!(all, 600);
}

#[test]
fn rows_come_back_in_the_frozen_form() {
    let key = ObjectKey::new("apps", "Deployment", "shop", "web");
    let row = Row {
        record: Some(ObjectRecord {
            key: key.clone(),
            api_version: "apps/v1".into(),
            uid: "u".into(),
            nonce: None,
            origin: Origin::Created,
            content: Digest([2; 32]),
            template_uid: "t".into(),
            fields: None,
            completed: false,
        }),
        intent: Some(Intent {
            key: key.clone(),
            api_version: "apps/v1".into(),
            nonce: Nonce([9; 16]),
            template_uid: "t".into(),
        }),
    };
    let rows = Rows::from([(key.clone(), row)]);
    let bytes = encode_rows("o", &rows).unwrap();
    assert_eq!(decode_rows("o", &bytes).unwrap(), rows);
    // What a released version wrote is read for ever.
    let frozen = r#"{"format":1,"rows":[{"key":{"group":"","kind":"ConfigMap","namespace":"a","name":"b"},"record":{"version":"v1","uid":"u","nonce":null,"created":false,"content":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"template":"t","fields":null,"completed":true}}]}"#;
    let old = decode_rows("o", &shared::bundle::compress(frozen.as_bytes(), &[]).unwrap()).unwrap();
    let record = old.values().next().and_then(|r| r.record.clone()).unwrap();
    assert_eq!((record.origin, record.completed), (Origin::Adopted, true));
    let newer =
        shared::bundle::compress(frozen.replace("\"format\":1", "\"format\":2").as_bytes(), &[]).unwrap();
    assert!(matches!(decode_rows("o", &newer), Err(MirrorError::Newer(_))));
}

#[test]
fn only_what_could_delete_or_create_wrongly_counts_as_a_change() {
    let key = ObjectKey::new("", "ConfigMap", "a", "b");
    let record = ObjectRecord {
        key: key.clone(),
        api_version: "v1".into(),
        uid: "u".into(),
        nonce: Some(Nonce([1; 16])),
        origin: Origin::Created,
        content: Digest([1; 32]),
        template_uid: "t".into(),
        fields: None,
        completed: false,
    };
    let row = |record: ObjectRecord| Row {
        record: Some(record),
        intent: None,
    };
    let before = row(record.clone());
    let edited = ObjectRecord {
        content: Digest([2; 32]),
        fields: Some(Digest([3; 32])),
        ..record.clone()
    };
    assert!(before.is_as_good_as(&row(edited)));
    for other in [
        ObjectRecord {
            uid: "v".into(),
            ..record.clone()
        },
        ObjectRecord {
            origin: Origin::Adopted,
            ..record.clone()
        },
        ObjectRecord {
            template_uid: "s".into(),
            ..record.clone()
        },
        ObjectRecord {
            completed: true,
            ..record
        },
    ] {
        assert!(!before.is_as_good_as(&row(other)));
    }
    assert!(!before.is_as_good_as(&Row::default()));
}

#[test]
fn parts_put_together_are_the_document() {
    let document = vec![7_u8; MIRROR_PART_BYTES + 5];
    let cut = parts(&document);
    assert_eq!(cut.len(), 2);
    assert_eq!(cut.concat(), document);
    assert_eq!(parts(&[]).len(), 1);
}
