//! Seeded mutations of whole requests: whatever comes, the answer is one, soon, and says what is wrong; and what was
//! stored can be read. See `mutation` for `PINNACE_SEED` and longer runs.

use super::{CONFIGS, Hub, admin, peer};
use crate::api::yaml;
use axum::body::Body;
use base64::Engine as _;
use http::Request;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http_body_util::BodyExt as _;
use mutation::{Random, mutate_json, mutate_text, seeds};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Requests of a usual run, if it has the time.
const REQUESTS: u64 = 4_000;
const REQUESTS_FOR: Duration = Duration::from_secs(20);
/// An answer comes within this, however busy the machine is.
const SOON: Duration = Duration::from_secs(60);
/// A watch is looked at for so long.
const LOOK: Duration = Duration::from_millis(20);

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.io/v1/namespaces/default/widgets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SIGNING: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

struct Asked {
    method: &'static str,
    path: String,
    kind: &'static str,
    body: String,
}

fn ask(method: &'static str, path: impl Into<String>, kind: &'static str, body: impl ToString) -> Asked {
    Asked {
        method,
        path: path.into(),
        kind,
        body: body.to_string(),
    }
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.io"},
        "spec": {"group": "example.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "selectableFields": [{"jsonPath": ".spec.name"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size >= 0"}],
                        "properties": {"name": {"type": "string"}, "size": {"type": "integer"},
                            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}},
                    "status": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}})
}

fn widget() -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"name": "n", "size": 2, "tags": ["a", "b"], "free": {"a": [1, {"b": null}]}}})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"x": "y"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "blockOwnerDeletion": true}]},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"x": "y"}}, "template": {"metadata": {"labels": {"x": "y"}},
            "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}}}})
}

fn policy() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["secrets"]}]}, "validations": [{"expression": "object.metadata.name != 'x'"}]}})
}

fn signing() -> Value {
    let key = rcgen::KeyPair::generate().expect("a key");
    let request = rcgen::CertificateParams::new(Vec::<String>::new())
        .and_then(|params| params.serialize_request(&key))
        .and_then(|request| request.pem())
        .expect("a request");
    let request = base64::engine::general_purpose::STANDARD.encode(request);
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
        "spec": {"request": request, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
            "expirationSeconds": 3600}})
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Requests that are right.
fn corpus(token: &str) -> Vec<Asked> {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["e.io/f"]}, "data": {"a": "1"}});
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\n  labels: {a: b}\ndata:\n  a: \"1\"\n  b: |\n    text\n";
    let operations = json!([{"op": "test", "path": "/kind", "value": "Widget"}, {"op": "add", "path": "/spec/free/new", "value": {}},
        {"op": "copy", "from": "/spec/free", "path": "/spec/free/copy"}, {"op": "move", "from": "/spec/free", "path": "/spec/moved"}]);
    let merged =
        json!({"metadata": {"labels": {"a": "b", "c": null}}, "spec": {"replicas": 2, "free": {"x": 1}}});
    let strategic = json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}],
        "containers": [{"name": "d", "image": "j"}, {"name": "c", "$patch": "delete"}]}}}});
    let review = |kind: &str, spec: Value| json!({"kind": kind, "spec": spec});
    let at = |path: &str, rest: &str| format!("{path}{rest}");
    let managed = "?fieldManager=m&force=true&fieldValidation=Strict";
    vec![
        ask(
            "GET",
            at(CONFIGS, "?labelSelector=a%3Db%2Cc+in+%28d%29&limit=2"),
            JSON,
            "",
        ),
        ask(
            "GET",
            at(
                CONFIGS,
                "?fieldSelector=metadata.name%3Da&resourceVersion=1&resourceVersionMatch=NotOlderThan",
            ),
            JSON,
            "",
        ),
        ask(
            "GET",
            at(CONFIGS, &format!("?limit=1&continue={token}")),
            JSON,
            "",
        ),
        ask(
            "GET",
            at(
                CONFIGS,
                "?watch=1&resourceVersion=0&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
            ),
            JSON,
            "",
        ),
        ask(
            "GET",
            at(WIDGETS, "?fieldSelector=spec.name%3Dn&includeObject=Object"),
            JSON,
            "",
        ),
        ask("GET", "/openapi/v3/apis/example.io/v1", JSON, ""),
        ask("GET", "/apis/apps/v1/deployments", JSON, ""),
        ask("POST", CONFIGS, JSON, &config),
        ask("POST", CONFIGS, YAML, yaml),
        ask(
            "POST",
            at(CONFIGS, "?dryRun=All&fieldValidation=Warn"),
            JSON,
            &config,
        ),
        ask("PUT", at(CONFIGS, "/a"), JSON, &config),
        ask("POST", DEPLOYMENTS, JSON, deployment()),
        ask("PUT", at(DEPLOYMENTS, "/a?fieldManager=m"), JSON, deployment()),
        ask(
            "PUT",
            at(DEPLOYMENTS, "/a/scale"),
            JSON,
            json!({"kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}}),
        ),
        ask("PUT", at(DEPLOYMENTS, "/a/status"), JSON, deployment()),
        ask("PATCH", at(DEPLOYMENTS, "/a"), STRATEGIC, strategic),
        ask("PATCH", at(DEPLOYMENTS, "/a"), MERGE, &merged),
        ask(
            "PATCH",
            at(DEPLOYMENTS, &format!("/a{managed}")),
            APPLY,
            deployment(),
        ),
        ask(
            "PATCH",
            at(DEPLOYMENTS, "/a/scale"),
            MERGE,
            json!({"spec": {"replicas": 4}}),
        ),
        ask("POST", WIDGETS, JSON, widget()),
        ask("PUT", at(WIDGETS, "/w"), JSON, widget()),
        ask("PATCH", at(WIDGETS, "/w"), JSON_PATCH, operations),
        ask("PATCH", at(WIDGETS, "/w"), MERGE, merged),
        ask("PATCH", at(WIDGETS, &format!("/w{managed}")), APPLY, widget()),
        ask(
            "PATCH",
            at(WIDGETS, &format!("/w/status{managed}")),
            APPLY,
            json!({"apiVersion": "example.io/v1", "kind": "Widget", "status": {"size": 1}}),
        ),
        ask("PUT", at(DEFINITIONS, "/widgets.example.io"), JSON, definition()),
        ask("POST", DEFINITIONS, JSON, definition()),
        ask("POST", POLICIES, JSON, policy()),
        ask("PUT", at(POLICIES, "/p"), JSON, policy()),
        ask("POST", SIGNING, JSON, signing()),
        ask(
            "PATCH",
            at(SIGNING, "/r/approval"),
            MERGE,
            json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}}),
        ),
        ask("DELETE", at(SIGNING, "/r"), JSON, ""),
        ask(
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            JSON,
            review("TokenReview", json!({"token": TOKEN})),
        ),
        ask(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            JSON,
            review(
                "SubjectAccessReview",
                json!({"user": "a", "groups": ["b"], "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "d"}}),
            ),
        ),
        ask(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            JSON,
            review("SelfSubjectRulesReview", json!({"namespace": "d"})),
        ),
        ask(
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            JSON,
            review("TokenRequest", json!({"audiences": [], "expirationSeconds": 600})),
        ),
        ask(
            "DELETE",
            at(CONFIGS, "/a?propagationPolicy=Foreground"),
            JSON,
            json!({"preconditions": {"uid": "x"}, "gracePeriodSeconds": 0}),
        ),
        ask(
            "DELETE",
            at(CONFIGS, "?labelSelector=a%3Db"),
            JSON,
            json!({"kind": "DeleteOptions", "propagationPolicy": "Orphan"}),
        ),
        ask("DELETE", at(WIDGETS, "/w"), JSON, ""),
        ask(
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            JSON,
            json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], "aggregationRule": null}),
        ),
        ask(
            "POST",
            "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies",
            JSON,
            json!({"metadata": {"name": "p"}, "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
                "placement": {"clusterAffinity": {"clusterNames": ["m"]}, "spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1}]}}}),
        ),
    ]
}

/// Of the right form, signed by nobody.
const TOKEN: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJodHRwczovL2h1YiIsInN1YiI6InN5c3RlbTpzZXJ2aWNlYWNjb3VudDpkOmQiLCJleHAiOjQxMDI0NDQ4MDB9.c2ln";

const URL_PIECES: &[&str] = &[
    "/",
    "//",
    "%2F",
    "%",
    "%zz",
    "%00",
    "%C3%28",
    "..",
    "?",
    "&",
    "=",
    "+",
    ",",
    "%2C",
    "%28",
    "%29",
    "!",
    "namespaces/",
    "status",
    "/scale",
    "/token",
    "watch=1",
    "limit=-1",
    "limit=99999999999999999999",
    "continue=e30",
    "resourceVersion=18446744073709551616",
    "resourceVersion=x",
    "resourceVersionMatch=Exact",
    "dryRun=Some",
    "fieldValidation=Maybe",
    "labelSelector=a%20in%20(",
    "fieldSelector=%5C",
    "timeoutSeconds=0",
    "force=maybe",
    "fieldManager=",
    "propagationPolicy=No",
    "sendInitialEvents=true",
    "/apis/apps/v1",
    "v1beta1",
    "xxxxxxxxxxxxxxxxxxxxxxxx",
];

const BODY_PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "1e400",
    "-0",
    "9223372036854775808",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "é",
    "\u{feff}",
    "\"metadata\":{}",
    "\"name\":\"A_b\"",
    "\"uid\":\"x\"",
    "\"namespace\":\"other\"",
    "\"resourceVersion\":\"1\"",
    "\"generateName\":\"g-\"",
    "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"",
    "\"finalizers\":[\"x\"]",
    "\"managedFields\":[{}]",
    "\"spec\":null",
    "\"$patch\":\"delete\"",
    "---\n",
    "&a ",
    "*a",
    "!!binary ",
    "? ",
    "- ",
    "\n",
    "\t",
    "|\n",
    "<<: ",
    "{{{{{{{{{{{{{{{{",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":{\"a\":",
    "\"rule\":\"self.all(x, self.all(y, true))\"",
    "\"pattern\":\"(a*)*$\"",
    "kind: List",
    "apiVersion: v2",
];

const TYPES: &[&str] = &[
    "",
    "*/*",
    "application/json; charset=utf-8",
    YAML,
    "text/yaml",
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    APPLY,
    "application/cbor",
    "application/vnd.kubernetes.protobuf",
    "application/json;;;",
    "\u{e9}",
];

const ACCEPTS: &[&str] = &[
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml",
    "*/*;q=0",
    "application/json;as=",
    ";;,,",
    "text/html",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;stream=watch",
];

/// Changes a request somewhere.
fn mutate(asked: &Asked, random: &mut Random) -> (String, String, String) {
    let (mut path, mut kind, mut body) = (asked.path.clone(), asked.kind.to_owned(), asked.body.clone());
    for _ in 0..1 + random.index(2) {
        match random.index(12) {
            0..3 => path = mutate_text(&path, URL_PIECES, 2, random),
            3 => kind = (*random.of(TYPES)).to_owned(),
            4..8 => body = mutate_text(&body, BODY_PIECES, 3, random),
            _ => {
                if let Ok(mut value) = serde_json::from_str(&body) {
                    for _ in 0..1 + random.index(3) {
                        mutate_json(&mut value, random);
                    }
                    body = value.to_string();
                }
            }
        }
    }
    if !path.starts_with('/') {
        path.insert(0, '/');
    }
    (path, kind, body)
}

impl Hub {
    /// An answer as code and body.
    async fn ask(&self, request: Request<Body>) -> (u16, Value) {
        let identity = admin();
        let identity = (!request.headers().contains_key(AUTHORIZATION)).then_some(&identity);
        let answer = self.api.answer(request, identity, peer()).await;
        let code = answer.status().as_u16();
        let is_yaml = answer
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind == "application/yaml");
        let Ok(body) = answer.into_body().collect().await else {
            return (code, Value::Null);
        };
        let body = body.to_bytes();
        let read = if is_yaml {
            let text = std::str::from_utf8(&body).expect("YAML is text");
            Some(yaml::read(text).expect("an answer in YAML can be read").value)
        } else {
            serde_json::from_slice(&body).ok()
        };
        (code, read.unwrap_or(Value::Null))
    }

    /// Everything that is stored can be read: in lists, one by one, in tables.
    async fn read_all(&self, seed: u64) -> usize {
        let mut read = 0;
        for list in [CONFIGS, DEPLOYMENTS, WIDGETS, DEFINITIONS, SIGNING, POLICIES] {
            let found = self.get(list).await;
            if found.code == 404 {
                // The definition is gone.
                continue;
            }
            assert_eq!(found.code, 200, "seed {seed}: {list}: {}", found.body);
            let table = [(ACCEPT.as_str(), "application/json;as=Table;v=v1;g=meta.k8s.io")];
            let rows = self.call("GET", list, &table, &Value::Null).await;
            assert_eq!(rows.code, 200, "seed {seed}: {list}: {}", rows.body);
            for item in found.body["items"].as_array().expect("items") {
                let name = item["metadata"]["name"].as_str().expect("a name");
                let one = self.get(&format!("{list}/{}", escaped(name))).await;
                assert_eq!(one.code, 200, "seed {seed}: {list}/{name}: {}", one.body);
                read += 1;
            }
        }
        read
    }
}

fn escaped(name: &str) -> String {
    name.bytes().map(|b| format!("%{b:02X}")).collect()
}

#[tokio::test]
async fn every_request_has_an_answer_and_what_is_stored_is_read() {
    let hub = Hub::new().await;
    let running = tokio::spawn(hub.api.clone().run());
    for name in ["one", "two"] {
        hub.config(name, &json!({"a": "b"})).await;
    }
    assert_eq!(hub.post(DEFINITIONS, &definition()).await.code, 201);
    let page = hub.get(&format!("{CONFIGS}?limit=1")).await;
    let corpus = corpus(page.body["metadata"]["continue"].as_str().expect("a token"));
    let (mut done, mut refused) = (0, 0);
    for seed in seeds(REQUESTS).within(REQUESTS_FOR) {
        let mut random = Random::new(seed);
        let asked = random.of(&corpus);
        let (path, kind, body) = mutate(asked, &mut random);
        let mut request = Request::builder()
            .method(asked.method)
            .uri(&path)
            .header(CONTENT_TYPE, &kind);
        if random.index(4) == 0 {
            request = request.header(ACCEPT, *random.of(ACCEPTS));
        }
        if random.index(12) == 0 {
            let token = mutate_text(TOKEN, &[".", "=", "..", "e30", "bnVsbA"], 2, &mut random);
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        // What is no request at all does not come this far.
        let Ok(request) = request.body(Body::from(body.clone())) else {
            continue;
        };
        let told = format!("seed {seed}: {} {path} {kind}\n{body}", asked.method);
        let is_watch = path.contains("watch") && asked.method == "GET";
        let begun = Instant::now();
        let (code, answer) = match is_watch {
            false => hub.ask(request).await,
            true => tokio::time::timeout(LOOK, hub.ask(request))
                .await
                .unwrap_or((200, Value::Null)),
        };
        assert!(begun.elapsed() < SOON, "{:?}: {told}", begun.elapsed());
        if code < 400 {
            done += 1;
        } else {
            refused += 1;
            let is_status = answer["kind"] == "Status" && answer["code"] == code;
            // A path that leads nowhere is answered in plain text.
            let is_told = is_status && answer["message"].as_str().is_some_and(|m| !m.is_empty());
            assert!(is_told || code == 404 && answer.is_null(), "{answer}: {told}");
            // What upstream answers so, it answers without a reason; ours are faults of the hub.
            assert!(code != 500 || answer.get("reason").is_none(), "{answer}: {told}");
        }
        if seed % 250 == 0 {
            hub.read_all(seed).await;
            let again = hub.post(DEFINITIONS, &definition()).await.code;
            assert!([201, 409].contains(&again), "seed {seed}: {again}");
        }
        assert!(!running.is_finished(), "the API's own tasks ended: {told}");
    }
    let read = hub.read_all(0).await;
    println!("{done} requests done, {refused} refused, {read} objects left");
    assert!(
        done > 0 && refused > 0 && read > 0,
        "the mutations try too little: {done} {refused} {read}"
    );
    running.abort();
}

/// Objects so deep that they could not be read back are not stored, however they come.
#[tokio::test]
async fn nothing_is_stored_that_is_too_deep_to_be_read() {
    let hub = Hub::new().await;
    assert_eq!(hub.post(DEFINITIONS, &definition()).await.code, 201);
    assert_eq!(hub.post(WIDGETS, &widget()).await.code, 201);
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({"a": inner}));
    let one = format!("{WIDGETS}/w");
    let mut pointer = "/spec".to_owned();
    let mut codes = Vec::new();
    for _ in 0..4 {
        let patch = json!([{"op": "add", "path": format!("{pointer}/free"), "value": nested(60)}]);
        codes.push(hub.patch(&one, "json", &patch).await.code);
        pointer.push_str("/free");
        pointer.push_str(&"/a".repeat(59));
        // The innermost becomes an object.
        let patch = json!([{"op": "add", "path": format!("{pointer}/a"), "value": {}}]);
        codes.push(hub.patch(&one, "json", &patch).await.code);
        pointer.push_str("/a");
    }
    assert_eq!(codes[..2], [200, 200]);
    assert!(codes[2..].iter().all(|code| *code == 422), "{codes:?}");
    assert_eq!(hub.get(&one).await.code, 200);
    let mut deep = widget();
    deep["metadata"]["name"] = json!("deep");
    deep["spec"]["free"] = nested(123);
    let refused = hub.post(WIDGETS, &deep).await;
    assert_eq!(refused.code, 400, "{}", refused.body);
    let text = json!({"a": 1}).to_string().replace('1', &"[".repeat(5_000));
    let request = Request::post(WIDGETS).body(Body::from(text)).expect("a request");
    assert_eq!(hub.raw(request, Some(&admin())).await.code, 400);
    let yaml = "- ".repeat(20_000);
    let request = Request::post(CONFIGS)
        .header(CONTENT_TYPE, YAML)
        .body(Body::from(yaml))
        .expect("a request");
    assert_eq!(hub.raw(request, Some(&admin())).await.code, 400);
    assert_eq!(
        hub.get(WIDGETS).await.body["items"].as_array().map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn bodies_that_are_too_large_and_aliases_that_grow_are_refused() {
    let hub = Hub::new().await;
    let large = json!({"metadata": {"name": "l"}, "data": {"a": "x".repeat(4 << 20)}});
    let answer = hub.post(CONFIGS, &large).await;
    assert_eq!(
        (answer.code, &answer.body["reason"]),
        (413, &json!("RequestEntityTooLarge"))
    );
    // Each line is ten times the one before.
    let mut yaml = "metadata: {name: y}\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n".to_owned();
    for n in 1..12 {
        let before = format!("*x{}, ", n - 1).repeat(10);
        yaml.push_str(&format!("x{n}: &x{n} [{}]\n", before.trim_end_matches(", ")));
    }
    let request = Request::post(CONFIGS)
        .header(CONTENT_TYPE, YAML)
        .body(Body::from(yaml))
        .expect("a request");
    let begun = Instant::now();
    assert_eq!(hub.raw(request, Some(&admin())).await.code, 400);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

/// Owners that own each other: deleting one ends, and takes all of them. One that owns itself stays until it is deleted.
#[tokio::test]
async fn owners_in_a_circle_go_together() {
    let hub = Hub::new().await;
    let running = tokio::spawn(hub.api.clone().run());
    let names = ["a", "b", "c", "own"];
    let mut uids = Vec::new();
    for name in names {
        let made = hub.config(name, &json!({})).await;
        uids.push(made["metadata"]["uid"].clone());
    }
    let owned_by = |of: usize| {
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": names[of], "uid": uids[of],
            "blockOwnerDeletion": true}]}})
    };
    for (at, name) in names.iter().enumerate() {
        let path = format!("{CONFIGS}/{name}");
        // The last one owns itself.
        let owners = owned_by(if at == 3 { 3 } else { (at + 1) % 3 });
        assert_eq!(hub.patch(&path, "merge", &owners).await.code, 200);
    }
    let options = json!({"propagationPolicy": "Foreground"});
    assert_eq!(hub.delete(&format!("{CONFIGS}/a"), &options).await.code, 200);
    for name in &names[..3] {
        hub.until(&format!("{CONFIGS}/{name}"), 404).await;
    }
    let own = format!("{CONFIGS}/own");
    assert_eq!(hub.get(&own).await.code, 200);
    assert_eq!(hub.delete(&own, &Value::Null).await.code, 200);
    hub.until(&own, 404).await;
    running.abort();
}
