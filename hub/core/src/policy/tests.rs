//! Field reports about policies that admission answers.

use serde_json::{Value, json};

use super::*;

struct Nothing;

impl Stored for Nothing {
    fn list(&self, _kind: &str, _namespace: &str) -> Vec<Value> {
        Vec::new()
    }
}

fn fields(kind: &str, spec: Value) -> Vec<String> {
    let request = Request {
        kind,
        operation: Operation::Create,
        namespace: "shop",
        old: None,
        switches: Switches::default(),
        stored: &Nothing,
        now: 0,
    };
    let object = json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": spec});
    match admit(&request, object, &mut || "id".to_owned()) {
        Ok(_) => Vec::new(),
        Err(Refused::Fields(errors)) => errors.into_iter().map(|error| error.field).collect(),
        Err(Refused::Quota(why)) => vec![why],
    }
}

/// Turns red when a policy whose objects never leave the hub is taken without a word.
#[test]
fn field_report_159_a_policy_whose_objects_stay_on_the_hub_is_warned_of() {
    for (namespace, warned) in [("kube-system", true), ("karmada-system", true), ("shop", false)] {
        let request = Request {
            kind: "PropagationPolicy",
            operation: Operation::Create,
            namespace,
            old: None,
            switches: Switches::default(),
            stored: &Nothing,
            now: 0,
        };
        let policy = json!({"metadata": {"name": "p", "namespace": namespace}, "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "name": "cloud-cred"}], "placement": {}}});
        let admitted = admit(&request, policy, &mut || "id".to_owned()).unwrap();
        let told = admitted
            .warnings
            .iter()
            .any(|warning| warning.contains("never sent"));
        assert_eq!(told, warned, "{namespace}");
    }
}

/// Turns red when groups are only looked at while scheduling.
#[test]
fn field_report_6_inverted_or_negative_groups_are_refused() {
    for constraint in [
        json!({"spreadByField": "cluster", "minGroups": -1, "maxGroups": 0}),
        json!({"spreadByField": "cluster", "minGroups": 3, "maxGroups": 2}),
    ] {
        let spec = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "placement": {"spreadConstraints": [constraint]}});
        assert_eq!(
            fields("PropagationPolicy", spec),
            ["spec.placement.spreadConstraints[0]"]
        );
    }
}

fn patching(path: &str) -> Value {
    json!({"overrideRules": [{"overriders": {"plaintext": [{"path": path, "operator": "replace", "value": "other"}]}}]})
}

/// Turns red when a member of the identity is missing from the list that cannot be overridden.
#[test]
fn field_report_15_the_identity_of_an_object_is_not_overridden() {
    for path in [
        "/metadata/namespace",
        "/metadata/name",
        "/kind",
        "/apiVersion",
        "/metadata",
    ] {
        assert_eq!(
            fields("OverridePolicy", patching(path)),
            ["spec.overrideRules[0].overriders.plaintext[0].path"],
            "{path}"
        );
    }
    assert!(fields("OverridePolicy", patching("/spec/replicas")).is_empty());
}

/// Turns red when the hub's own marks can be written by an override.
#[test]
fn field_report_17_the_hubs_own_marks_are_not_overridden() {
    let own = json!({"fleet.pinnace.dev/managed-by": "me"});
    for kind in ["labelsOverrider", "annotationsOverrider"] {
        let spec = json!({"overrideRules": [{"overriders": {kind: [{"operator": "add", "value": own}]}}]});
        assert_eq!(
            fields("OverridePolicy", spec),
            [format!("spec.overrideRules[0].overriders.{kind}[0].value")]
        );
    }
    assert_eq!(
        fields(
            "OverridePolicy",
            patching("/metadata/labels/fleet.pinnace.dev~1managed-by")
        )
        .len(),
        1
    );
    // the reference's label is not one of ours: what is sent never has it, so taking it off changes nothing
    let theirs = json!({"overrideRules": [{"overriders": {"labelsOverrider":
        [{"operator": "remove", "value": {"karmada.io/managed": "true"}}]}}]});
    assert!(fields("OverridePolicy", theirs).is_empty());
}

#[test]
fn a_new_no_execute_taint_is_stamped_and_keeps_its_stamp() {
    let taint =
        |added: Value| json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute", "timeAdded": added}]}});
    let old = taint(json!("2026-01-01T00:00:00Z"));
    let request = |old| Request {
        kind: "Cluster",
        operation: Operation::Update,
        namespace: "",
        old,
        switches: Switches::default(),
        stored: &Nothing,
        now: 60,
    };
    let mut fresh = taint(Value::Null);
    mutate(&request(None), &mut fresh, &mut String::new);
    assert_eq!(fresh["spec"]["taints"][0]["timeAdded"], "1970-01-01T00:01:00Z");
    let mut again = taint(Value::Null);
    mutate(&request(Some(&old)), &mut again, &mut String::new);
    assert_eq!(again["spec"]["taints"][0]["timeAdded"], "2026-01-01T00:00:00Z");
}

#[test]
fn taints_as_people_type_them() {
    let parsed = parse_taints(["a=b:NoSchedule", "c-", "d:NoExecute-"]).unwrap();
    assert_eq!((parsed.add.len(), parsed.remove.len()), (1, 2));
    for wrong in ["a", "a=b", "a:Maybe", "a b:NoSchedule", "a:-"] {
        assert!(parse_taints([wrong]).is_err(), "{wrong}");
    }
}
