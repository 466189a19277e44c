//! Ownership over sequences of writes, and the properties that hold for all of them.

use super::table_versions::TableVersions;
use super::*;
use crate::types::TypeTable;
use proptest::prelude::*;
use serde_json::{Map, json};

fn versions(kind: &'static str) -> TableVersions<'static> {
    TableVersions {
        table: TypeTable::built_in(),
        kind,
        only: None,
    }
}

fn writer<'a>(manager: &'a str, api_version: &'a str, ignored: &'a FieldSet) -> Writer<'a> {
    Writer {
        manager,
        subresource: "",
        api_version,
        now: 1_800_000_000,
        ignored,
    }
}

fn apply_as(
    kind: &'static str,
    manager: &str,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    let none = FieldSet::default();
    let api_version = config["apiVersion"].as_str().expect("apiVersion");
    apply(
        &versions(kind),
        &writer(manager, api_version, &none),
        live,
        config,
        force,
    )
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "d"}, "data": data})
}

fn service(ports: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "d"},
        "spec": {"ports": ports}})
}

#[test]
fn an_apply_owns_what_it_says_and_drops_what_it_says_no_more() {
    let first = apply_as(
        "ConfigMap",
        "one",
        None,
        &config_map(json!({"a": "1", "b": "2"})),
        false,
    )
    .expect("created");
    assert_eq!(
        first["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:data": {"f:a": {}, "f:b": {}}})
    );
    let second = apply_as(
        "ConfigMap",
        "two",
        Some(&first),
        &config_map(json!({"b": "2", "c": "3"})),
        false,
    )
    .expect("b is equal");
    let third = apply_as(
        "ConfigMap",
        "one",
        Some(&second),
        &config_map(json!({"d": "4"})),
        false,
    )
    .expect("own");
    assert_eq!(third["data"], json!({"b": "2", "c": "3", "d": "4"}));
    let error = apply_as(
        "ConfigMap",
        "one",
        Some(&third),
        &config_map(json!({"b": "9"})),
        false,
    )
    .expect_err("two's");
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"two\": .data.b"
    );
    let forced = apply_as(
        "ConfigMap",
        "one",
        Some(&third),
        &config_map(json!({"b": "9"})),
        true,
    )
    .expect("forced");
    assert_eq!(forced["data"], json!({"b": "9", "c": "3"}));
    let again = apply_as(
        "ConfigMap",
        "one",
        Some(&forced),
        &config_map(json!({"b": "9"})),
        false,
    )
    .expect("same");
    assert_eq!(again, forced);
}

#[test]
fn keyed_lists_merge_by_all_keys_with_defaults() {
    let first = apply_as(
        "Service",
        "one",
        None,
        &service(json!([{"port": 80, "name": "a"}])),
        false,
    )
    .expect("made");
    assert_eq!(
        first["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:ports"],
        json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}})
    );
    let udp = service(json!([{"port": 80, "protocol": "UDP", "name": "b"}]));
    let both = apply_as("Service", "two", Some(&first), &udp, false).expect("another item");
    assert_eq!(both["spec"]["ports"].as_array().map(Vec::len), Some(2));
    let less = apply_as("Service", "one", Some(&both), &service(json!([])), false).expect("own item");
    assert_eq!(
        less["spec"]["ports"],
        json!([{"port": 80, "protocol": "UDP", "name": "b"}])
    );
    let twice = service(json!([{"port": 80, "name": "a"}, {"port": 80, "protocol": "TCP", "name": "b"}]));
    let error = apply_as("Service", "one", Some(&less), &twice, false).expect_err("twice");
    assert!(
        error
            .to_string()
            .contains(".spec.ports: duplicate entries for key [port=80,protocol=\"TCP\"]"),
        "{error}"
    );
}

#[test]
fn fields_that_are_not_declared_are_refused() {
    let wrong =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"port": 1}});
    let error = apply_as("Service", "one", None, &wrong, false).expect_err("no such field");
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (/a; /v1, Kind=Service): .spec.port: field not declared in schema"
    );
}

#[test]
fn updates_take_what_they_change() {
    let none = FieldSet::default();
    let versions = versions("ConfigMap");
    let mut live = config_map(json!({"a": "1", "b": "2"}));
    live["metadata"]["uid"] = json!("u");
    let managed = track(
        &versions,
        &writer("creator", "v1", &none),
        None,
        &live,
        Tracked::ByItself,
    );
    set_managed(&mut live, managed);
    let mut next = live.clone();
    next["data"] = json!({"a": "1", "b": "3", "c": "4"});
    let managed = track(
        &versions,
        &writer("editor", "v1", &none),
        Some(&live),
        &next,
        Tracked::ByItself,
    );
    let sets: Vec<(&str, &Value)> = managed
        .as_array()
        .expect("entries")
        .iter()
        .map(|e| (e["manager"].as_str().expect("name"), &e["fieldsV1"]))
        .collect();
    assert_eq!(
        sets,
        [
            ("creator", &json!({"f:data": {".": {}, "f:a": {}}})),
            ("editor", &json!({"f:data": {"f:b": {}, "f:c": {}}})),
        ]
    );
    // The empty entry makes everyone forget; then nobody is tracked until an apply.
    next["metadata"]["managedFields"] = json!([{}]);
    assert_eq!(
        track(
            &versions,
            &writer("editor", "v1", &none),
            Some(&live),
            &next,
            Tracked::ByItself
        ),
        Value::Null
    );
    set_managed(&mut live, Value::Null);
    let applied = apply_as(
        "ConfigMap",
        "one",
        Some(&live),
        &config_map(json!({"a": "1"})),
        false,
    )
    .expect("applied");
    let names: Vec<&str> = applied["metadata"]["managedFields"]
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|e| e["manager"].as_str())
        .collect();
    assert_eq!(names, ["one", "before-first-apply"]);
}

#[test]
fn kubectl_takes_over_what_it_last_applied() {
    let none = FieldSet::default();
    let config = config_map(json!({"a": "1"}));
    let mut live = config.clone();
    live["metadata"]["annotations"] = json!({LAST_APPLIED: format!("{config}\n")});
    let managed = track(
        &versions("ConfigMap"),
        &writer("kubectl-client-side-apply", "v1", &none),
        None,
        &live,
        Tracked::ByItself,
    );
    set_managed(&mut live, managed);
    let wanted = config_map(json!({"a": "2"}));
    assert!(apply_as("ConfigMap", "other", Some(&live), &wanted, false).is_err());
    let applied = apply_as("ConfigMap", "kubectl", Some(&live), &wanted, false).expect("accounted for");
    assert_eq!(applied["data"]["a"], "2");
    assert_eq!(
        applied["metadata"]["annotations"][LAST_APPLIED],
        json!(format!("{wanted}\n"))
    );
}

#[test]
fn replicas_move_between_object_and_scale() {
    let entry = |manager: &str, operation: &str, fields: Value| {
        json!({"manager": manager, "operation": operation,
        "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    };
    let parent = json!([
        entry(
            "a",
            "Apply",
            json!({"f:spec": {"f:replicas": {}, "f:paused": {}}})
        ),
        entry("b", "Update", json!({"f:spec": {"f:paused": {}}})),
    ]);
    let path = ["spec", "replicas"];
    let scale = to_scale(Some(&parent), &path).expect("entries");
    assert_eq!(scale[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    let taken = json!([{"manager": "c", "operation": "Update", "apiVersion": "autoscaling/v1", "subresource": "scale",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    let after = to_parent(Some(&parent), Some(&taken), &path, "apps/v1").expect("entries");
    assert_eq!(after[0]["fieldsV1"], json!({"f:spec": {"f:paused": {}}}));
    assert_eq!(
        (&after[2]["manager"], &after[2]["apiVersion"]),
        (&json!("c"), &json!("apps/v1"))
    );
    assert_eq!(
        to_parent(Some(&parent), Some(&scale), &path, "apps/v1").expect("entries"),
        parent
    );
}

/// A pod template with lists and maps of all sorts. None is empty: an empty one goes with the last item that another
/// manager takes out of it, as upstream.
fn template() -> impl Strategy<Value = Value> {
    let env = proptest::collection::btree_map("[a-c]", "[x-z]", 1..3).prop_map(|map| {
        let items: Vec<Value> = map.iter().map(|(k, v)| json!({"name": k, "value": v})).collect();
        Value::Array(items)
    });
    let ports = proptest::collection::btree_set(1_u16..4, 1..3).prop_map(|ports| {
        let items: Vec<Value> = ports
            .iter()
            .map(|p| json!({"containerPort": p, "protocol": "TCP"}))
            .collect();
        Value::Array(items)
    });
    let labels = proptest::collection::btree_map("[a-c]", "[x-z]", 1..3);
    let finalizers = proptest::collection::btree_set("e.io/[a-c]", 1..3);
    let containers = proptest::collection::btree_map("[a-b]", (env, ports), 1..3).prop_map(|map| {
        let items: Vec<Value> = map
            .into_iter()
            .map(|(name, (env, ports))| json!({"name": name, "env": env, "ports": ports}))
            .collect();
        Value::Array(items)
    });
    (labels, finalizers, containers).prop_map(|(labels, finalizers, containers)| {
        json!({"apiVersion": "v1", "kind": "PodTemplate",
            "metadata": {"name": "t", "namespace": "d", "labels": labels, "finalizers": finalizers},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}})
    })
}

fn value_at<'v>(object: &'v Value, element: &Element) -> Option<&'v Value> {
    match (element, object) {
        (Element::Field(name), Value::Object(map)) => map.get(&**name),
        (Element::Value(plain), Value::Array(items)) => {
            items.iter().find(|item| Plain::new((*item).clone()) == *plain)
        }
        (Element::Key(keys), Value::Array(items)) => items.iter().find(|item| {
            keys.iter()
                .all(|(k, v)| item.get(&**k).is_some_and(|have| Plain::new(have.clone()) == *v))
        }),
        _ => None,
    }
}

/// Every owned field is there.
fn check_owned(object: &Value, set: &FieldSet) -> Result<(), TestCaseError> {
    for (element, node) in set.iter() {
        let inner = value_at(object, element);
        prop_assert!(inner.is_some(), "{element} is owned and gone");
        if let Some(inner) = inner {
            check_owned(inner, &node.below)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn applying_twice_is_applying_once(a in template(), b in template(), force in any::<bool>()) {
        let first = apply_as("PodTemplate", "one", None, &a, false).expect("created");
        let Ok(second) = apply_as("PodTemplate", "two", Some(&first), &b, force) else { return Ok(()); };
        let again = apply_as("PodTemplate", "two", Some(&second), &b, force).expect("nothing new");
        prop_assert_eq!(&again, &second);
    }

    #[test]
    fn nobody_loses_a_field_it_alone_owns(steps in proptest::collection::vec((0..3_usize, template()), 1..6)) {
        let names = ["one", "two", "three"];
        let mut live: Option<Value> = None;
        for (who, config) in steps {
            let Ok(next) = apply_as("PodTemplate", names[who], live.as_ref(), &config, false) else { continue; };
            if let Some(before) = &live {
                let old = Owners::decode(managed(before)).expect("ours");
                let new = Owners::decode(managed(&next)).expect("ours");
                for (id, owned) in &old.0 {
                    if id.manager == names[who] {
                        continue;
                    }
                    // Without force nothing of another manager changes at all.
                    prop_assert_eq!(new.0.get(id).map(|o| &o.fields), Some(&owned.fields));
                    check_owned(&next, &owned.fields)?;
                }
            }
            live = Some(next);
        }
    }

    #[test]
    fn sets_survive_their_text(config in template()) {
        let object = apply_as("PodTemplate", "one", None, &config, false).expect("created");
        let owners = Owners::decode(managed(&object)).expect("ours");
        prop_assert_eq!(owners.encode(), managed(&object).cloned().unwrap_or_default());
    }

    #[test]
    fn hostile_entries_never_panic(text in "[fkvi.]{0,2}:?[\\[\\]{}\",a-z0-9:]{0,12}") {
        let mut map = Map::new();
        map.insert(text, json!({}));
        let _ = FieldSet::decode(&Value::Object(map));
    }
}
