//! Policies against writes.

use super::*;
use crate::access::Attributes;
use crate::types::TypeTable;
use serde_json::json;

struct Empty;

impl Authorize for Empty {
    fn decide(&self, _account: Option<(&str, &str)>, wish: &Attributes) -> (bool, String) {
        (wish.verb == "get", String::new())
    }

    fn request(&self) -> Attributes {
        Attributes::resource("", "", "configmaps", "ns", "a")
    }
}

impl World for Empty {
    fn namespace(&self, name: &str) -> Option<Value> {
        Some(json!({"metadata": {"name": name, "labels": {"team": "a"}}}))
    }

    fn is_namespaced(&self, _api_version: &str, kind: &str) -> Option<bool> {
        (kind == "ConfigMap").then_some(true)
    }

    fn object(&self, _api_version: &str, _kind: &str, _namespace: &str, name: &str) -> Option<Value> {
        (name == "limits").then(|| json!({"metadata": {"name": name}, "data": {"max": "3"}}))
    }

    fn objects(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Vec<Value> {
        self.object(api_version, kind, namespace.unwrap_or_default(), "limits")
            .into_iter()
            .collect()
    }
}

fn set(sort: Sort, spec: Value, binding: Value) -> Set {
    let mut object = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]}}});
    for (key, value) in spec.as_object().expect("members") {
        object["spec"][key] = value.clone();
    }
    assert_eq!(check(sort, &object), []);
    let mut bound =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    for (key, value) in binding.as_object().expect("members") {
        bound["spec"][key] = value.clone();
    }
    assert_eq!(check_binding(sort, &bound), []);
    let policy = Policy::compile(sort, &object).expect("compiles");
    Set::new(vec![Arc::new(policy)], &[Arc::new(Binding::read(&bound))])
}

fn ask<T>(object: &Value, then: impl FnOnce(&Request<'_>) -> T) -> T {
    let resource = TypeTable::built_in()
        .resource("", "v1", "configmaps")
        .expect("known");
    let user = User {
        name: "ann".to_owned(),
        ..User::default()
    };
    then(&Request {
        operation: "CREATE",
        resource,
        kind: ("", "v1", "ConfigMap"),
        subresource: "",
        namespace: "ns",
        name: "a",
        user: &user,
        is_dry: false,
        object: Some(object),
        old: None,
    })
}

fn denied(set: &Set, object: &Value) -> Option<String> {
    ask(object, |request| validate(set, request, &Empty))
        .denied
        .map(|e| e.message)
}

#[test]
fn a_policy_refuses_what_it_is_about() {
    let object = json!({"metadata": {"name": "a"}, "data": {"n": "4"}});
    let prefix =
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
    let table = [
        (
            json!({"validations": [{"expression": "object.data.n == '4'"}]}),
            json!({}),
            None,
        ),
        (
            json!({"validations": [{"expression": "object.data.n == '5'"}]}),
            json!({}),
            Some("failed expression: object.data.n == '5'"),
        ),
        (
            json!({"validations": [{"expression": "false", "messageExpression": "request.userInfo.username + '!'"}]}),
            json!({}),
            Some("ann!"),
        ),
        (
            json!({"validations": [{"expression": "object.data.x == '5'"}]}),
            json!({}),
            Some("expression 'object.data.x == '5'' resulted in error: no such key: x"),
        ),
        (
            json!({"validations": [{"expression": "object.data.x == '5'"}], "failurePolicy": "Ignore"}),
            json!({}),
            None,
        ),
        (
            json!({"validations": [{"expression": "false"}], "matchConditions": [{"name": "c", "expression": "false"}]}),
            json!({}),
            None,
        ),
        (
            json!({"validations": [{"expression": "variables.v < 3", "message": "m"}], "variables": [{"name": "v", "expression": "int(object.data.n)"}]}),
            json!({}),
            Some("m"),
        ),
        (
            json!({"validations": [{"expression": "int(object.data.n) <= int(params.data.max)", "message": "m"}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}),
            json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}}),
            Some("m"),
        ),
        (
            json!({"validations": [{"expression": "true"}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}),
            json!({"paramRef": {"name": "none", "parameterNotFoundAction": "Deny"}}),
            Some(
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
            ),
        ),
        (
            json!({"validations": [{"expression": "false"}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}),
            json!({"paramRef": {"name": "none", "parameterNotFoundAction": "Allow"}}),
            None,
        ),
        (
            json!({"validations": [{"expression": "authorizer.group('').resource('x').check('get').allowed() && !authorizer.requestResource.check('put').allowed()"}]}),
            json!({}),
            None,
        ),
        (
            json!({"validations": [{"expression": "false"}]}),
            json!({"matchResources": {"namespaceSelector": {"matchLabels": {"team": "b"}}}}),
            None,
        ),
        (
            json!({"validations": [{"expression": "false", "message": "m"}]}),
            json!({"matchResources": {"namespaceSelector": {"matchLabels": {"team": "a"}}}}),
            Some("m"),
        ),
        (
            json!({"validations": [{"expression": "namespaceObject.metadata.labels['team'] == 'a' && request.operation == 'CREATE'"}]}),
            json!({}),
            None,
        ),
    ];
    for (spec, binding, expected) in table {
        let set = set(Sort::Validating, spec.clone(), binding);
        let expected = expected.map(|text| format!("{prefix}{text}"));
        assert_eq!(denied(&set, &object), expected, "{spec}");
    }
}

#[test]
fn warnings_and_notes() {
    let spec = json!({"validations": [{"expression": "false", "message": "m"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'v of ' + object.metadata.name"}]});
    let set = set(
        Sort::Validating,
        spec,
        json!({"validationActions": ["Warn", "Audit"]}),
    );
    let object = json!({"metadata": {"name": "a"}});
    let verdict = ask(&object, |request| validate(&set, request, &Empty));
    assert!(verdict.denied.is_none());
    assert_eq!(
        verdict.warnings,
        ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m"]
    );
    assert_eq!(verdict.annotations[0], ("p/k".to_owned(), "v of a".to_owned()));
    assert_eq!(
        verdict.annotations[1].0,
        "validation.policy.admission.k8s.io/validation_failure"
    );
}

#[test]
fn mutations_change_the_object() {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"n": "4"}});
    let versions = crate::ownership::TableVersions {
        table: TypeTable::built_in(),
        kind: "ConfigMap",
        only: None,
    };
    let merge = |live: &Value, config: &Value| crate::ownership::merged(&versions, "v1", live, config);
    let spec = json!({"mutations": [
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'x': 'y'}}, data: {'m': object.data.n}}"}},
        {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'replace', path: '/data/n', value: object.data.m + '!'}]"}},
        {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'test', path: '/data/n', value: 'none'}, JSONPatch{op: 'remove', path: '/data'}]"}}]});
    let set = set(Sort::Mutating, spec, json!({}));
    let made = ask(&object, |request| mutate(&set, request, &Empty, &merge)).expect("works");
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}},
        "data": {"n": "4!", "m": "4"}});
    assert_eq!(made, Some(expected));
}

#[test]
fn a_dear_policy_refuses_and_ends() {
    let dear = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true)))";
    let validations: Vec<Value> = (0..50).map(|_| json!({"expression": dear})).collect();
    let set = set(Sort::Validating, json!({"validations": validations}), json!({}));
    let told = denied(&set, &json!({"metadata": {"name": "a"}})).expect("refused");
    assert!(told.contains("cost limit exceeded"), "{told}");
}

/// The same objects through another version or group: the policy sees them as it named them, the client is told of its own.
#[test]
fn a_rule_means_the_same_objects_elsewhere() {
    let table = TypeTable::built_in();
    let resource = table
        .resource("autoscaling", "v2", "horizontalpodautoscalers")
        .expect("known");
    let object = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 9, "metrics": [{"type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
    let constraints = |policy: &str| {
        json!({"matchPolicy": policy, "resourceRules": [{"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["*"],
            "resources": ["horizontalpodautoscalers"]}]})
    };
    let user = User::default();
    let request = Request {
        operation: "CREATE",
        resource,
        kind: ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        subresource: "",
        namespace: "ns",
        name: "a",
        user: &user,
        is_dry: false,
        object: Some(&object),
        old: None,
    };
    let expression =
        "object.spec.targetCPUUtilizationPercentage == 51 && object.apiVersion == 'autoscaling/v1'";
    let message = "string(object.spec.targetCPUUtilizationPercentage) + request.kind.version + request.requestKind.version + \
                   request.resource.version + request.requestResource.version";
    for (policy, expected) in [
        ("Equivalent", Some("denied request: 50v1v2v1v2")),
        ("Exact", None),
    ] {
        let spec = json!({"matchConstraints": constraints(policy),
            "validations": [{"expression": expression, "messageExpression": message}]});
        let set = set(Sort::Validating, spec, json!({}));
        let told = validate(&set, &request, &Empty).denied.map(|e| e.message);
        assert_eq!(told.is_some(), expected.is_some(), "{policy}: {told:?}");
        assert!(
            told.unwrap_or_default().ends_with(expected.unwrap_or_default()),
            "{policy}"
        );
    }
    let patch = "[JSONPatch{op: 'replace', path: '/spec/targetCPUUtilizationPercentage', value: 60}]";
    let spec = json!({"matchConstraints": constraints("Equivalent"),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}], "reinvocationPolicy": "Never"});
    let set = set(Sort::Mutating, spec, json!({}));
    let merge = |_: &Value, _: &Value| Err(String::new());
    let made = mutate(&set, &request, &Empty, &merge)
        .expect("no error")
        .expect("a change");
    assert_eq!(made["apiVersion"], "autoscaling/v2");
    assert_eq!(
        made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
        60
    );
}
