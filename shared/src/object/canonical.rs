//! Canonical JSON: the bytes under a content digest.
//!
//! Keys sorted by their UTF-8 bytes, no whitespace, strings and numbers as `serde_json` prints them. Keys are
//! sorted here, so the result is the same whether or not `serde_json` keeps insertion order.

use serde_json::Value;

/// The canonical bytes of a value.
#[must_use]
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_canonical(value, &mut out);
    out
}

/// Appends the canonical bytes of a value.
pub fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_unstable_by_key(|(k, _)| k.as_bytes());
            out.push(b'{');
            for (i, (key, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_scalar(key, out);
                out.push(b':');
                write_canonical(value, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_canonical(item, out);
            }
            out.push(b']');
        }
        scalar => write_scalar(scalar, out),
    }
}

fn write_scalar<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a string, number, bool or null always serialises into memory");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn sorted_and_without_whitespace() {
        let value = json!({"b": [1, 2.5, null, true], "a": {"z": "x\"\n", "é": -1}, "": 0});
        assert_eq!(
            String::from_utf8(canonical(&value)).unwrap(),
            r#"{"":0,"a":{"z":"x\"\n","é":-1},"b":[1,2.5,null,true]}"#
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "[ -~é\\n]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-zA-Z./é-]{0,6}", inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_back_to_the_same_value_and_is_stable(value in any_json()) {
            let bytes = canonical(&value);
            let back: Value = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(&back, &value);
            prop_assert_eq!(canonical(&back), bytes);
        }
    }
}
