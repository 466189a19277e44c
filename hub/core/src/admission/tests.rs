//! Cases of admission.

use super::*;
use crate::types::TypeTable;

const NOW: i64 = 1_796_040_000;

fn target(group: &str, plural: &str) -> Target<'static> {
    let resource = TypeTable::built_in()
        .preferred(group, plural)
        .unwrap_or_else(|| panic!("{plural}"));
    Target {
        resource,
        namespace: if resource.namespaced { "ns" } else { "" },
        now: NOW,
    }
}

fn created(group: &str, plural: &str, object: Value) -> Result<Value, StatusError> {
    create(target(group, plural), object, "uid-1", &mut || "abcde".to_owned())
}

fn web() -> Value {
    let object = json!({"metadata": {"name": "web", "labels": {"a": "b"}}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}}}, "status": {"replicas": 9}});
    created("apps", "deployments", object).expect("a good deployment")
}

#[test]
fn a_created_object_has_the_metadata_of_the_server() {
    let object = web();
    assert_eq!(object["apiVersion"], "apps/v1");
    assert_eq!(
        object["metadata"],
        json!({"name": "web", "namespace": "ns", "uid": "uid-1", "generation": 1, "labels": {"a": "b"},
            "creationTimestamp": "2026-11-30T12:00:00Z"})
    );
    assert_eq!(
        object.get("status"),
        Some(&json!({})),
        "status is written through its subresource"
    );
    let config =
        created("", "configmaps", json!({"metadata": {"generateName": "c-"}})).expect("a config map");
    assert_eq!(config["metadata"]["name"], "c-abcde");
    assert_eq!(config["metadata"].get("generation"), None);
}

#[test]
fn a_node_registers_with_its_status() {
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let node = created("", "nodes", json!({"metadata": {"name": "n"}, "status": ready})).expect("a node");
    assert_eq!(node["status"]["conditions"], ready["conditions"]);
}

#[test]
fn broken_creates_are_refused() {
    let table = [
        (json!({"kind": "Pod", "metadata": {"name": "a"}}), 400),
        (json!({"apiVersion": "v2", "metadata": {"name": "a"}}), 400),
        (json!({"metadata": {"name": "a", "namespace": "other"}}), 400),
        (json!({"metadata": {"name": "a", "resourceVersion": "1"}}), 500),
        (json!({"metadata": {}}), 422),
        (json!({"metadata": {"name": "A"}}), 422),
        (json!({"metadata": {"name": "a", "labels": {"a b": "c"}}}), 422),
        (json!({"metadata": {"name": "a", "labels": {"a": "-"}}}), 422),
        (
            json!({"metadata": {"name": "a", "annotations": {"big": "x".repeat(300_000)}}}),
            422,
        ),
        (json!({"metadata": {"name": "a"}, "data": {"a/b": ""}}), 422),
    ];
    for (object, code) in table {
        let error = created("", "configmaps", object).expect_err("refused");
        assert_eq!(error.code(), code, "{error}");
    }
}

#[test]
fn secrets_fold_string_data() {
    let object =
        json!({"metadata": {"name": "s"}, "data": {"a": "MQ=="}, "stringData": {"b": "2", "a": "3"}});
    let secret = created("", "secrets", object).expect("a secret");
    assert_eq!(secret["data"], json!({"a": "Mw==", "b": "Mg=="}));
    assert_eq!(
        (secret.get("stringData"), &secret["type"]),
        (None, &json!("Opaque"))
    );
}

#[test]
fn what_changes_nothing_is_no_change() {
    let mut old = web();
    old["metadata"]["managedFields"] = json!([{"manager": "a", "time": "2026-11-30T12:00:00Z"}]);
    let mut new = old.clone();
    new["metadata"]["resourceVersion"] = json!("7");
    new["metadata"]["managedFields"] = json!([{"manager": "a", "time": "2026-11-30T12:00:01Z"}]);
    new["status"] = json!({"replicas": 5});
    assert_eq!(
        update(target("apps", "deployments"), &old, new, Part::Main),
        Ok(Updated::Unchanged)
    );
}

#[test]
fn generation_follows_the_spec_alone() {
    let old = web();
    let change = |part: Part, pointer: &str, value: Value| {
        let mut new = old.clone();
        new["status"] = json!({});
        *new.pointer_mut(pointer).expect("a field") = value;
        match update(target("apps", "deployments"), &old, new, part) {
            Ok(Updated::Changed(object)) => object["metadata"]["generation"].clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(change(Part::Main, "/spec/replicas", json!(3)), 2);
    assert_eq!(change(Part::Main, "/metadata/labels", json!({"x": "y"})), 1);
    assert_eq!(change(Part::Status, "/status", json!({"replicas": 2})), 1);
}

#[test]
fn updates_keep_what_belongs_to_the_server() {
    let old = web();
    let mut new = old.clone();
    new["metadata"] = json!({"labels": {"c": "d"}});
    new["spec"]["replicas"] = json!(4);
    let Ok(Updated::Changed(object)) = update(target("apps", "deployments"), &old, new, Part::Main) else {
        panic!("a change");
    };
    assert_eq!(object["metadata"]["uid"], "uid-1");
    assert_eq!(object["metadata"]["creationTimestamp"], "2026-11-30T12:00:00Z");
    assert_eq!(
        (&object["metadata"]["name"], &object["metadata"]["namespace"]),
        (&json!("web"), &json!("ns"))
    );
}

#[test]
fn broken_updates_are_refused() {
    let old = web();
    let table = [
        ("/metadata/name", json!("other"), 400),
        ("/metadata/uid", json!("other"), 409),
        ("/spec/selector", json!({"matchLabels": {"app": "x"}}), 422),
        ("/metadata/labels", json!({"": ""}), 422),
    ];
    for (pointer, value, code) in table {
        let mut new = old.clone();
        *new.pointer_mut(pointer).expect("a field") = value;
        let error = update(target("apps", "deployments"), &old, new, Part::Main).expect_err(pointer);
        assert_eq!(error.code(), code, "{error}");
    }
}

#[test]
fn finalizers_hold_a_deleted_object() {
    let mut held = web();
    held["metadata"]["finalizers"] = json!(["example.com/a"]);
    let target = target("apps", "deployments");
    let Ok(Deleted::Waiting(waiting)) = delete(target, &held, None) else {
        panic!("it waits")
    };
    assert_eq!(waiting["metadata"]["deletionTimestamp"], "2026-11-30T12:00:00Z");
    assert_eq!(waiting["metadata"]["generation"], 2);
    assert_eq!(delete(target, &waiting, None), Ok(Deleted::AlreadyWaiting));

    let mut more = waiting.clone();
    more["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    assert_eq!(
        update(target, &waiting, more, Part::Main)
            .expect_err("no new ones")
            .code(),
        422
    );
    let mut none = waiting.clone();
    none["metadata"]["finalizers"] = json!([]);
    assert!(matches!(
        update(target, &waiting, none, Part::Main),
        Ok(Updated::Removed(_))
    ));
    assert_eq!(delete(target, &web(), None), Ok(Deleted::Now));
}

#[test]
fn namespaces_label_and_hold_themselves() {
    let namespace = created("", "namespaces", new_namespace("a")).expect("a namespace");
    assert_eq!(
        namespace["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": "a"})
    );
    assert_eq!(namespace["status"]["phase"], "Active");
    let target = target("", "namespaces");
    let Ok(Deleted::Waiting(ending)) = delete(target, &namespace, None) else {
        panic!("it waits")
    };
    assert_eq!(ending["status"]["phase"], "Terminating");
    let default = created("", "namespaces", new_namespace("default")).expect("a namespace");
    assert_eq!(delete(target, &default, None).expect_err("protected").code(), 403);
}

#[test]
fn immutable_data_stays() {
    let object = json!({"metadata": {"name": "c"}, "data": {"a": "1"}, "immutable": true});
    let old = created("", "configmaps", object).expect("a config map");
    let mut new = old.clone();
    new["data"]["a"] = json!("2");
    let error = update(target("", "configmaps"), &old, new, Part::Main).expect_err("immutable");
    assert!(error.message.contains("immutable"), "{error}");
}

#[test]
fn preconditions_name_the_object() {
    let target = target("apps", "deployments");
    assert_eq!(check_preconditions(target, &web(), Some("uid-1"), None), Ok(()));
    assert_eq!(
        check_preconditions(target, &web(), Some("x"), None)
            .expect_err("another uid")
            .code(),
        409
    );
    assert_eq!(
        check_preconditions(target, &web(), None, Some("5"))
            .expect_err("another version")
            .code(),
        409
    );
}

#[test]
fn dependents_are_waited_for_or_let_go() {
    use crate::gc::Propagation;
    let target = target("apps", "deployments");
    for (policy, finalizer) in [
        (Propagation::Foreground, "foregroundDeletion"),
        (Propagation::Orphan, "orphan"),
    ] {
        let Ok(Deleted::Waiting(waiting)) = delete(target, &web(), Some(policy)) else {
            panic!("it waits for the collector");
        };
        assert_eq!(finalizers(&waiting), [finalizer]);
        assert!(is_deleting(&waiting));
        assert_eq!(delete(target, &waiting, None), Ok(Deleted::AlreadyWaiting));
        assert_eq!(
            delete(target, &waiting, Some(Propagation::Background)),
            Ok(Deleted::Now)
        );
    }
    assert_eq!(
        delete(target, &web(), Some(Propagation::Background)),
        Ok(Deleted::Now)
    );
}
