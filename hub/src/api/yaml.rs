//! YAML: bodies of requests, and answers for clients that ask for it.

use super::request::Place;
use super::respond;
use axum::body::Body;
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use hub_core::status_error::StatusError;
use hub_core::yaml::write;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};

/// A text that was read as YAML.
pub(super) struct Read {
    /// What it says; of a key that stands twice the last counts.
    pub(super) value: Value,
    /// The first key that stands twice in one object, in the words of Go's reader.
    pub(super) duplicate: Option<String>,
}

/// Reads YAML.
///
/// # Errors
/// Text that is no YAML, or too much of it.
pub(super) fn read(text: &str) -> Result<Read, Error> {
    let found = match serde_saphyr::from_str(text) {
        Ok(value) => {
            return Ok(Read {
                value,
                duplicate: None,
            });
        }
        Err(error) => error,
    };
    let (Error::DuplicateMappingKey { key, .. }, Some(place)) = (found.without_snippet(), found.location())
    else {
        return Err(found);
    };
    let key = key.as_deref().unwrap_or_default();
    let duplicate = format!(
        "yaml: unmarshal errors:\n  line {}: key {key:?} already set in map",
        place.line()
    );
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    Ok(Read {
        value: serde_saphyr::from_str_with_options(text, options)?,
        duplicate: Some(duplicate),
    })
}

/// Whether a client takes YAML before JSON there. Then it is asked for JSON from here on, which [`answer`] translates. There
/// is no stream of YAML: who wants nothing else of a watch is told so in it.
pub(super) fn is_wanted(place: &Place, verb: &str, headers: &mut HeaderMap) -> bool {
    const YAML: &str = "application/yaml";
    const JSON: &str = "application/json";
    let is_served = matches!(
        place,
        Place::Groups(_) | Place::Group(_) | Place::Resources(..) | Place::Resource(_)
    );
    if !is_served {
        return false;
    }
    let Some(accept) = headers.get(ACCEPT).and_then(|v| v.to_str().ok()) else {
        return false;
    };
    let known = [YAML, JSON, "application/*", "*/*"];
    let ranges = accept
        .split(',')
        .map(|range| range.split(';').next().unwrap_or_default().trim());
    let known: Vec<&str> = ranges.filter(|media| known.contains(media)).collect();
    if verb == "watch" {
        return !known.is_empty() && known.iter().all(|media| *media == YAML);
    }
    if known.first() != Some(&YAML) {
        return false;
    }
    let Ok(translated) = HeaderValue::from_str(&accept.replace(YAML, JSON)) else {
        return false;
    };
    headers.insert(ACCEPT, translated);
    headers.remove(ACCEPT_ENCODING);
    true
}

/// An answer in JSON as YAML; any other stays as it is.
pub(super) async fn answer(made: Response<Body>) -> Response<Body> {
    let json = HeaderValue::from_static("application/json");
    if made.headers().get(CONTENT_TYPE) != Some(&json) {
        return made;
    }
    let (mut head, body) = made.into_parts();
    let text = match body.collect().await {
        Ok(body) => serde_json::from_slice(&body.to_bytes()).map(|value| write(&value)),
        Err(error) => return respond::error(&StatusError::internal(error)),
    };
    match text {
        Ok(text) => {
            let yaml = HeaderValue::from_static("application/yaml");
            head.headers.insert(CONTENT_TYPE, yaml);
            Response::from_parts(head, Body::from(Bytes::from(text)))
        }
        Err(error) => respond::error(&StatusError::internal(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn of_a_key_that_stands_twice_the_last_counts() {
        let found = read("a: 1\nb:\n  c: 1\n  c: 2\n").expect("YAML");
        assert_eq!(found.value, json!({"a": 1, "b": {"c": 2}}));
        assert_eq!(
            found.duplicate.as_deref(),
            Some("yaml: unmarshal errors:\n  line 4: key \"c\" already set in map")
        );
        assert!(read("a: 1\n").expect("YAML").duplicate.is_none());
        assert!(read("a: [").is_err());
    }

    #[test]
    fn what_looks_like_json_may_be_yaml() {
        let text = "{\n\t\t\"a\": \"b\",\n\t\t\"c\": [{\n\t\t\t\"d\":  \"e\",\n\t\t\t\"f\": 1,\n\t\t}]\n\t}";
        assert_eq!(
            read(text).expect("YAML").value,
            json!({"a": "b", "c": [{"d": "e", "f": 1}]})
        );
    }

    #[test]
    fn yaml_is_given_to_those_who_take_it_first() {
        let resources = Place::Resources("apps".into(), "v1".into());
        let table = [
            (&resources, "application/yaml", "get", true),
            (&resources, "application/yaml, application/json", "get", true),
            (&resources, "application/json, application/yaml", "get", false),
            (&resources, "*/*, application/yaml", "get", false),
            (&resources, "application/yaml, application/json", "watch", false),
            (&Place::Version, "application/yaml", "get", false),
        ];
        for (place, accept, verb, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(is_wanted(place, verb, &mut headers), expected, "{accept}");
            assert_eq!(headers[ACCEPT] == accept, !expected);
        }
        // It is refused as such, and the refusal is YAML.
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/yaml"));
        assert!(is_wanted(&resources, "watch", &mut headers));
        assert_eq!(headers[ACCEPT], "application/yaml");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[ 0-9a-z:#.,&*!|>'~-]{0,6}".prop_map(Value::from),
            prop::sample::select(vec![
                "yes", "Null", "~", "0x1f", "1_000", ".inf", "1e3", "=", "<<"
            ])
            .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ a-z0-9:#-]{0,5}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in any_value()) {
            let text = write(&value);
            let found = read(&text).map_err(|why| TestCaseError::fail(format!("{why}: {text}")))?;
            prop_assert_eq!(found.value, value);
        }
    }
}
