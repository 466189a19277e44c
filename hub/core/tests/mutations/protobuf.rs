//! Protobuf bodies.

use super::{corpus, timed};
use hub_core::limits::MAX_PROTOBUF_VALUES;
use hub_core::protobuf::{decode, encode};
use hub_core::types::TypeTable;
use mutation::{Random, depth, mutate_bytes, seeds, size};

const BODIES: u64 = 20_000;

/// Lengths that lie, numbers without an end, groups, the kinds of other bodies.
const PIECES: &[&[u8]] = &[
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x0a\xff\xff\xff\xff\x07",
    b"\x0b\x0c",
    b"\x00",
    b"\x0a\x00",
    b"\x12\x02\x0a\x00",
    b"\x0a\x02v1\x12\x03Pod",
    b"\x1a\x04{}[]",
    b"\xc3\x28",
    b"\x09\x00\x00\x00\x00\x00\x00\xf8\x7f",
];

#[test]
fn what_is_read_is_what_would_be_written() {
    let table = TypeTable::built_in();
    let corpus: Vec<_> = corpus::built_in()
        .into_iter()
        .map(|(group, version, plural, object)| {
            let of = table.resource(group, version, plural).unwrap().of_type;
            encode(table, of, &object)
        })
        .collect();
    let (mut read, mut refused) = (0, 0);
    for seed in seeds(BODIES) {
        let mut random = Random::new(seed);
        let mut body = random.of(&corpus).clone();
        for _ in 0..1 + random.index(6) {
            mutate_bytes(&mut body, PIECES, &mut random);
        }
        match timed(seed, "reading", || decode(table, &body)) {
            Err(error) => {
                assert!(!error.to_string().is_empty(), "seed {seed}");
                refused += 1;
            }
            Ok(object) => {
                read += 1;
                assert!(
                    size(&object) <= MAX_PROTOBUF_VALUES * 4 + body.len() * 16,
                    "seed {seed}"
                );
                assert!(depth(&object) <= 400, "seed {seed}: {}", depth(&object));
                let text = |key: &str| object[key].as_str().unwrap().to_owned();
                let api_version = text("apiVersion");
                let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
                let of = table.type_of_kind(group, version, &text("kind")).unwrap();
                let again = decode(table, &encode(table, of, &object));
                assert_eq!(again.as_ref(), Ok(&object), "seed {seed}");
            }
        }
    }
    println!("{read} bodies read, {refused} refused");
    assert!(
        read > 0 && refused > 0,
        "the mutations try too little: {read} {refused}"
    );
}
