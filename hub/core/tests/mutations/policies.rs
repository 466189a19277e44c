//! Admission policies and bindings.

use super::{assert_told, timed};
use hub_core::admission_policy::{Policy, check_stored, sort_of};
use hub_core::strict::{self, Findings};
use hub_core::types::TypeTable;
use mutation::{Random, mutate_json, seeds};
use serde_json::{Value, json};

const POLICIES: u64 = 2_500;
const GROUP: &str = "admissionregistration.k8s.io";

fn corpus() -> Vec<(&'static str, Value)> {
    let rules = json!({"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments", "*/scale"], "resourceNames": ["a"], "scope": "Namespaced"}], "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}});
    vec![
        (
            "validatingadmissionpolicies",
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
                "spec": {"failurePolicy": "Fail", "matchConstraints": rules, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                    "variables": [{"name": "n", "expression": "object.spec.replicas"}],
                    "matchConditions": [{"name": "c", "expression": "request.operation == 'CREATE'"}],
                    "auditAnnotations": [{"key": "k", "valueExpression": "string(variables.n)"}],
                    "validations": [{"expression": "variables.n < 5", "message": "too many", "reason": "Forbidden"},
                        {"expression": "params.data.max == '5'", "messageExpression": "'max ' + params.data.max"}]}}),
        ),
        (
            "validatingadmissionpolicybindings",
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"},
                "spec": {"policyName": "p", "validationActions": ["Deny", "Audit"], "matchResources": rules,
                    "paramRef": {"name": "x", "namespace": "d", "parameterNotFoundAction": "Deny"}}}),
        ),
        (
            "mutatingadmissionpolicies",
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": "m"},
                "spec": {"failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": rules,
                    "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: 2}}"}},
                        {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]"}}]}}),
        ),
    ]
}

#[test]
fn a_policy_is_compiled_or_told_by_field() {
    let (table, corpus) = (TypeTable::built_in(), corpus());
    let (mut good, mut bad) = (0, 0);
    for seed in seeds(POLICIES) {
        let mut random = Random::new(seed);
        let (plural, base) = random.of(&corpus);
        let Some(resource) = table.resource(GROUP, "v1", plural) else {
            panic!("{plural} are not served")
        };
        let mut object = base.clone();
        for _ in 0..1 + random.index(3) {
            mutate_json(&mut object["spec"], &mut random);
        }
        if strict::check(table, resource.of_type, &mut object, &mut Findings::default()).is_err() {
            bad += 1;
            continue;
        }
        let causes = timed(seed, "checking", || check_stored(resource, &object));
        assert_told(seed, &causes);
        match causes.is_empty() {
            true => good += 1,
            false => bad += 1,
        }
        // What an older hub stored may be worse than what this one takes.
        if let Some((sort, true)) = sort_of(GROUP, plural) {
            drop(timed(seed, "compiling", || Policy::compile(sort, &object)));
        }
    }
    println!("{good} policies are right, {bad} are not");
    assert!(good > 0 && bad > 0, "the mutations try too little: {good} {bad}");
}
