//! Patches of all kinds, and applies.

use super::{corpus, timed};
use hub_core::limits::{MAX_OBJECT_DEPTH, MAX_PATCH_GROWTH};
use hub_core::ownership::{
    ApplyError, FieldSet, Owners, TableVersions, Tracked, Writer, apply, managed, track,
};
use hub_core::patch::{json as json_patch, merge, strategic};
use hub_core::types::{TypeId, TypeTable};
use mutation::{Random, depth, mutate_json, odd, seeds, size};
use serde_json::{Value, json};

const PATCHES: u64 = 15_000;

struct Base {
    of: TypeId,
    kind: &'static str,
    object: Value,
}

fn bases() -> Vec<Base> {
    let table = TypeTable::built_in();
    corpus::built_in()
        .into_iter()
        .map(|(group, version, plural, object)| {
            let resource = table.resource(group, version, plural).unwrap();
            Base {
                of: resource.of_type,
                kind: &resource.kind,
                object,
            }
        })
        .collect()
}

fn mutated(object: &Value, random: &mut Random) -> Value {
    let mut out = object.clone();
    for _ in 0..1 + random.index(4) {
        mutate_json(&mut out, random);
    }
    out
}

/// A path that leads somewhere, or nearly.
fn pointer(object: &Value, random: &mut Random) -> String {
    let mut out = String::new();
    let mut at = object;
    while random.index(8) > 0 {
        match at {
            Value::Object(members) if !members.is_empty() => {
                let (key, inner) = members.iter().nth(random.index(members.len())).unwrap();
                out.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1")));
                at = inner;
            }
            Value::Array(items) if !items.is_empty() => {
                let place = random.index(items.len());
                out.push_str(&format!("/{place}"));
                at = &items[place];
            }
            _ => break,
        }
    }
    out.push_str(random.of::<&str>(&[
        "",
        "",
        "",
        "",
        "/-",
        "/new",
        "/0",
        "/01",
        "/-1",
        "/99999999999999999999",
        "//",
        "/~",
        "/~2",
        "/é",
        "x",
    ]));
    out
}

fn operations(object: &Value, random: &mut Random) -> Value {
    let most = if random.index(20) == 0 { 400 } else { 8 };
    let count = 1 + random.index(most);
    let operation = |_| {
        let mut one = json!({"op": random.of::<&str>(&["add", "remove", "replace", "move", "copy", "copy", "test", "spoil"]),
            "path": pointer(object, random), "from": pointer(object, random), "value": odd(random)});
        if random.index(10) == 0 {
            mutate_json(&mut one, random);
        }
        one
    };
    Value::Array((0..count).map(operation).collect())
}

#[test]
fn json_patches_stay_small_and_shallow() {
    let bases = bases();
    let (mut done, mut refused) = (0, 0);
    for seed in seeds(PATCHES) {
        let mut random = Random::new(seed);
        let base = random.of(&bases);
        let patch = operations(&base.object, &mut random);
        let mut object = base.object.clone();
        match timed(seed, "patching", || json_patch::apply(&mut object, &patch)) {
            Ok(()) => {
                done += 1;
                let most = size(&base.object) + size(&patch) + MAX_PATCH_GROWTH;
                assert!(size(&object) <= most, "seed {seed}: {}", size(&object));
                assert!(depth(&object) <= MAX_OBJECT_DEPTH, "seed {seed}");
            }
            Err(error) => {
                assert!(!error.to_string().is_empty(), "seed {seed}");
                refused += 1;
            }
        }
    }
    println!("{done} patches done, {refused} refused");
    assert!(
        done > 0 && refused > 0,
        "the mutations try too little: {done} {refused}"
    );
}

/// Few bytes that would be many, or deep.
#[test]
fn json_patches_that_grow_are_refused() {
    let copies: Vec<Value> = (0..40)
        .map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/k{n}")}))
        .collect();
    let turns: Vec<Value> = (0..3_000)
        .flat_map(|_| {
            [
                json!({"op": "add", "path": "/b", "value": {}}),
                json!({"op": "move", "from": "/a", "path": "/b/a"}),
                json!({"op": "move", "from": "/b", "path": "/a"}),
            ]
        })
        .collect();
    for patch in [copies, turns] {
        let mut object = json!({"data": {"a": "some text"}, "a": {}});
        let refused = timed(0, "patching", || {
            json_patch::apply(&mut object, &Value::Array(patch))
        });
        assert!(refused.is_err(), "it is done: {} values", size(&object));
    }
}

#[test]
fn a_merge_patch_twice_is_one() {
    let bases = bases();
    for seed in seeds(PATCHES) {
        let mut random = Random::new(seed);
        let base = random.of(&bases);
        let patch = mutated(&base.object, &mut random);
        let mut once = base.object.clone();
        merge::apply(&mut once, &patch);
        let mut twice = once.clone();
        merge::apply(&mut twice, &patch);
        assert_eq!(once, twice, "seed {seed}");
        assert!(size(&once) <= size(&base.object) + size(&patch), "seed {seed}");
    }
}

const DIRECTIVES: &[(&str, &str)] = &[
    ("$patch", "\"delete\""),
    ("$patch", "\"replace\""),
    ("$patch", "\"merge\""),
    ("$patch", "7"),
    ("$retainKeys", "[\"name\"]"),
    ("$retainKeys", "{}"),
    ("$setElementOrder/containers", "[{\"name\": \"c\"}]"),
    ("$setElementOrder/finalizers", "[\"x\", \"e.io/f\"]"),
    ("$deleteFromPrimitiveList/finalizers", "[\"e.io/f\"]"),
    ("$deleteFromPrimitiveList/args", "null"),
    ("$nothing", "null"),
];

fn direct(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(members) => {
            if random.index(6) == 0 {
                let (key, text) = random.of(DIRECTIVES);
                members.insert((*key).to_owned(), serde_json::from_str(text).unwrap());
            }
            members.values_mut().for_each(|inner| direct(inner, random));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| direct(item, random)),
        _ => {}
    }
}

#[test]
fn strategic_patches_are_done_or_say_why_not() {
    let (bases, table) = (bases(), TypeTable::built_in());
    let (mut done, mut refused) = (0, 0);
    for seed in seeds(PATCHES) {
        let mut random = Random::new(seed);
        let base = random.of(&bases);
        let mut patch = mutated(&base.object, &mut random);
        direct(&mut patch, &mut random);
        let mut object = if random.index(3) == 0 {
            mutated(&base.object, &mut random)
        } else {
            base.object.clone()
        };
        let most = size(&object) + size(&patch);
        match timed(seed, "patching", || {
            strategic::apply(table, base.of, &mut object, &patch)
        }) {
            Ok(()) => {
                done += 1;
                assert!(size(&object) <= most, "seed {seed}: {} of {most}", size(&object));
            }
            Err(error) => {
                assert!(!error.to_string().is_empty(), "seed {seed}");
                refused += 1;
            }
        }
    }
    println!("{done} patches done, {refused} refused");
    assert!(
        done > 0 && refused > 0,
        "the mutations try too little: {done} {refused}"
    );
}

/// Applies of odd configurations to odd objects: what is taken once is taken twice and owned by someone.
#[test]
fn an_apply_twice_is_one() {
    let (bases, table, none) = (bases(), TypeTable::built_in(), FieldSet::default());
    let (mut done, mut refused) = (0, 0);
    for seed in seeds(PATCHES / 3) {
        let mut random = Random::new(seed);
        let base = random.of(&bases);
        let versions = TableVersions {
            table,
            kind: base.kind,
            only: None,
        };
        let mut config = mutated(&base.object, &mut random);
        let mut live = mutated(&base.object, &mut random);
        for object in [&mut config, &mut live] {
            // Who is not said to be an object of the kind is refused before.
            if !object.is_object() || !object["metadata"].is_object() {
                *object = base.object.clone();
            }
            for key in ["apiVersion", "kind"] {
                object[key] = base.object[key].clone();
            }
        }
        if random.index(20) > 0 {
            config["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("managedFields");
        }
        let api_version = base.object["apiVersion"].as_str().unwrap();
        let writer = Writer {
            manager: random.of::<&str>(&["m", "other", "kubectl", ""]),
            subresource: "",
            api_version,
            now: 1_800_000_000,
            ignored: &none,
        };
        let live = (random.index(4) > 0).then_some(&live);
        let tracked = track(&versions, &writer, live, &config, Tracked::ByItself);
        assert!(
            tracked.is_null() || Owners::decode(Some(&tracked)).is_ok(),
            "seed {seed}: {tracked}"
        );
        match timed(seed, "applying", || {
            apply(&versions, &writer, live, &config, true)
        }) {
            Err(error) => {
                refused += 1;
                assert!(!matches!(error, ApplyError::Conflicts(_)), "seed {seed}: forced");
                assert!(!error.to_string().is_empty(), "seed {seed}");
            }
            Ok(once) => {
                done += 1;
                let owners = Owners::decode(managed(&once)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                assert!(owners.0.keys().all(|id| !id.manager.is_empty()), "seed {seed}");
                let twice = apply(&versions, &writer, Some(&once), &config, true);
                assert_eq!(twice.as_ref(), Ok(&once), "seed {seed}");
            }
        }
    }
    println!("{done} applies done, {refused} refused");
    assert!(
        done > 0 && refused > 0,
        "the mutations try too little: {done} {refused}"
    );
}
