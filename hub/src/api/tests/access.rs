//! Who may do what, through the API: roles, reviews, tokens, impersonation, certificates.

use super::{CONFIGS, Hub, admin};
use crate::api::Identity;
use crate::keys::{certificate_der, fingerprint};
use axum::body::Body;
use base64::Engine as _;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const USERS: &str = "/apis/fleet.pinnace.dev/v1alpha1/users";

fn person(name: &str, groups: &[&str]) -> Identity {
    Identity {
        user: name.to_owned(),
        groups: groups.iter().map(|g| (*g).to_owned()).collect(),
        fingerprint: String::new(),
    }
}

impl Hub {
    async fn bind(&self, namespace: &str, role: &str, subject: Value) {
        let path = if namespace.is_empty() {
            format!("{RBAC}/clusterrolebindings")
        } else {
            format!("{RBAC}/namespaces/{namespace}/rolebindings")
        };
        let binding = json!({"metadata": {"generateName": "b-"}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}});
        let made = self.post(&path, &binding).await;
        assert_eq!(made.code, 201, "{}", made.body);
    }
}

fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

#[tokio::test]
async fn roles_count_at_once_and_no_longer_than_they_stand() {
    let hub = Hub::new().await;
    let ann = person("ann", &[]);
    let read = || hub.as_who(Some(&ann), "GET", CONFIGS, &[], &Value::Null);
    let refused = read().await;
    assert_eq!(
        (refused.code, refused.body["message"].as_str()),
        (
            403,
            Some(
                "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the \
                 namespace \"default\""
            )
        )
    );
    hub.bind("default", "view", user("ann")).await;
    assert_eq!(read().await.code, 200);
    let made = hub
        .as_who(
            Some(&ann),
            "POST",
            CONFIGS,
            &[],
            &json!({"metadata": {"name": "x"}}),
        )
        .await;
    assert_eq!(made.code, 403);
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(
        hub.as_who(Some(&ann), "GET", secrets, &[], &Value::Null)
            .await
            .code,
        403
    );
    let bindings = hub.get(&format!("{RBAC}/namespaces/default/rolebindings")).await;
    let name = bindings.body["items"][0]["metadata"]["name"]
        .as_str()
        .expect("the binding")
        .to_owned();
    hub.delete(
        &format!("{RBAC}/namespaces/default/rolebindings/{name}"),
        &Value::Null,
    )
    .await;
    assert_eq!(read().await.code, 403);
}

#[tokio::test]
async fn nobody_gives_more_than_they_have() {
    let hub = Hub::new().await;
    hub.bind("default", "admin", user("ann")).await;
    let ann = person("ann", &[]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |name: &str, resource: &str| json!({"metadata": {"name": name}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]});
    let made = hub
        .as_who(Some(&ann), "POST", &roles, &[], &role("a", "pods"))
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    let refused = hub
        .as_who(Some(&ann), "POST", &roles, &[], &role("b", "nodes"))
        .await;
    assert_eq!(refused.code, 403);
    let message = refused.body["message"].as_str().expect("a message");
    assert!(
        message.contains("is attempting to grant RBAC permissions not currently held:")
            && message.contains("Resources:[\"nodes\"]"),
        "{message}"
    );
    let binding = |role: &str| {
        json!({"metadata": {"name": role}, "subjects": [user("bob")],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
    };
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    assert_eq!(
        hub.as_who(Some(&ann), "POST", &bindings, &[], &binding("view"))
            .await
            .code,
        201
    );
    assert_eq!(
        hub.as_who(Some(&ann), "POST", &bindings, &[], &binding("cluster-admin"))
            .await
            .code,
        403
    );
    let bind = json!({"metadata": {"name": "binder"},
        "rules": [{"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
            "resourceNames": ["cluster-admin"]}]});
    assert_eq!(hub.post(&format!("{RBAC}/clusterroles"), &bind).await.code, 201);
    hub.bind("default", "binder", user("ann")).await;
    assert_eq!(
        hub.as_who(Some(&ann), "POST", &bindings, &[], &binding("cluster-admin"))
            .await
            .code,
        201
    );
}

#[tokio::test]
async fn reviews_answer_what_roles_say() {
    let hub = Hub::new().await;
    hub.bind("default", "view", user("ann")).await;
    let ann = person("ann", &["dev"]);
    let ask = |who: Identity, kind: &'static str, body: Value| {
        let group = if kind == "selfsubjectreviews" {
            "authentication"
        } else {
            "authorization"
        };
        let path = format!("/apis/{group}.k8s.io/v1/{kind}");
        let hub = &hub;
        async move { hub.as_who(Some(&who), "POST", &path, &[], &body).await }
    };
    let pods = |verb: &str| json!({"spec": {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": "default"}}});
    let may = ask(ann.clone(), "selfsubjectaccessreviews", pods("list")).await;
    assert_eq!(
        (may.code, &may.body["status"]["allowed"]),
        (201, &json!(true)),
        "{}",
        may.body
    );
    let not = ask(ann.clone(), "selfsubjectaccessreviews", pods("delete")).await;
    assert_eq!(not.body["status"], json!({"allowed": false}));
    let mut about = pods("list");
    about["spec"]["user"] = json!("ann");
    assert_eq!(
        ask(ann.clone(), "subjectaccessreviews", about.clone()).await.code,
        403
    );
    let about = ask(admin(), "subjectaccessreviews", about).await;
    assert_eq!(about.body["status"]["allowed"], true, "{}", about.body);
    let rules = ask(
        ann.clone(),
        "selfsubjectrulesreviews",
        json!({"spec": {"namespace": "default"}}),
    )
    .await;
    let found = rules.body["status"]["resourceRules"].as_array().expect("rules");
    assert!(found.iter().any(|r| {
        r["resources"]
            .as_array()
            .is_some_and(|l| l.contains(&json!("configmaps")))
    }));
    let me = ask(ann, "selfsubjectreviews", json!({})).await;
    assert_eq!(
        me.body["status"]["userInfo"],
        json!({"username": "ann", "groups": ["dev", "system:authenticated"]})
    );
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(
        hub.as_who(Some(&admin()), "POST", path, &table, &pods("get"))
            .await
            .code,
        406
    );
    let discovery = hub.get("/apis/authorization.k8s.io/v1").await;
    let line = &discovery.body["resources"][1];
    assert_eq!(
        (&line["name"], &line["verbs"]),
        (&json!("selfsubjectaccessreviews"), &json!(["create"]))
    );
}

#[tokio::test]
async fn tokens_of_service_accounts() {
    let hub = Hub::new().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = hub.post(accounts, &json!({"metadata": {"name": "robot"}})).await;
    let path = format!("{accounts}/robot/token");
    let asked = hub
        .post(&path, &json!({"spec": {"expirationSeconds": 600}}))
        .await;
    assert_eq!(asked.code, 201, "{}", asked.body);
    let token = asked.body["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned();
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let me = hub
        .as_who(
            None,
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            &headers,
            &json!({}),
        )
        .await;
    let info = &me.body["status"]["userInfo"];
    assert_eq!(
        info["username"], "system:serviceaccount:default:robot",
        "{}",
        me.body
    );
    assert_eq!(info["uid"], account.body["metadata"]["uid"]);
    let list = || hub.as_who(None, "GET", CONFIGS, &headers, &Value::Null);
    assert_eq!(list().await.code, 403);
    hub.bind(
        "default",
        "view",
        json!({"kind": "ServiceAccount", "name": "robot", "namespace": "default"}),
    )
    .await;
    assert_eq!(list().await.code, 200);

    let review = |audiences: Value| {
        let body = json!({"spec": {"token": token, "audiences": audiences}});
        let hub = &hub;
        async move {
            hub.post("/apis/authentication.k8s.io/v1/tokenreviews", &body)
                .await
                .body["status"]
                .clone()
        }
    };
    assert_eq!(review(json!([])).await["authenticated"], true);
    assert_eq!(review(json!(["vault"])).await["authenticated"], false);

    for (name, body, code) in [
        ("robot", json!({"spec": {"expirationSeconds": 5}}), 422),
        ("nobody", json!({"spec": {}}), 404),
        (
            "robot",
            json!({"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "x"}}}),
            404,
        ),
    ] {
        assert_eq!(
            hub.post(&format!("{accounts}/{name}/token"), &body).await.code,
            code,
            "{body}"
        );
    }
    let bad = [("authorization", "Bearer x.y.z")];
    assert_eq!(
        hub.as_who(None, "GET", CONFIGS, &bad, &Value::Null).await.code,
        401
    );
    hub.delete(&format!("{accounts}/robot"), &Value::Null).await;
    hub.post(accounts, &json!({"metadata": {"name": "robot"}})).await;
    assert_eq!(
        list().await.code,
        401,
        "an account of the same name is another one"
    );
}

#[tokio::test]
async fn acting_as_somebody_else() {
    let hub = Hub::new().await;
    hub.bind(
        "default",
        "view",
        json!({"kind": "Group", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"}),
    )
    .await;
    let headers = [("impersonate-user", "ann"), ("impersonate-group", "dev")];
    assert_eq!(
        hub.as_who(Some(&admin()), "GET", CONFIGS, &headers, &Value::Null)
            .await
            .code,
        200
    );
    assert_eq!(
        hub.as_who(Some(&admin()), "DELETE", CONFIGS, &headers, &Value::Null)
            .await
            .code,
        403
    );
    let refused = hub
        .as_who(
            Some(&person("bob", &["dev"])),
            "GET",
            CONFIGS,
            &headers,
            &Value::Null,
        )
        .await;
    assert_eq!(refused.code, 403);
    let alone = [("impersonate-group", "dev")];
    assert_eq!(
        hub.as_who(Some(&admin()), "GET", CONFIGS, &alone, &Value::Null)
            .await
            .code,
        400
    );
}

#[tokio::test]
async fn namespaces_have_their_account_and_the_ca() {
    let hub = Hub::new().await;
    hub.post("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}}))
        .await;
    hub.api.furnish_namespaces().await.expect("furnished");
    for namespace in ["default", "shop"] {
        let at = format!("/api/v1/namespaces/{namespace}");
        assert_eq!(hub.get(&format!("{at}/serviceaccounts/default")).await.code, 200);
        let ca = hub.get(&format!("{at}/configmaps/kube-root-ca.crt")).await;
        assert!(
            ca.body["data"]["ca.crt"]
                .as_str()
                .is_some_and(|t| t.contains("BEGIN CERTIFICATE"))
        );
    }
    let edit = hub.get(&format!("{RBAC}/clusterroles/edit")).await;
    assert!(
        edit.body["rules"].as_array().is_some_and(|r| r.len() > 10),
        "gathered at the start"
    );
    hub.delete("/api/v1/namespaces/shop/serviceaccounts/default", &Value::Null)
        .await;
    hub.api.furnish_namespaces().await.expect("furnished");
    assert_eq!(
        hub.get("/api/v1/namespaces/shop/serviceaccounts/default")
            .await
            .code,
        200
    );
    let ca = "/api/v1/namespaces/shop/configmaps/kube-root-ca.crt";
    let before = hub.api.store.revision();
    let wrong = json!({"data": {"ca.crt": "", "more": "x"}});
    assert_eq!(hub.patch(ca, "merge", &wrong).await.code, 200);
    hub.api.mend_root_cas(before).await.expect("mended");
    let mended = hub.get(ca).await.body["data"].clone();
    assert!(mended.get("more").is_none(), "{mended}");
    assert!(
        mended["ca.crt"]
            .as_str()
            .is_some_and(|t| t.contains("BEGIN CERTIFICATE"))
    );
    let range = hub
        .get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
        .await;
    assert_eq!(range.body["spec"]["cidrs"], json!(["10.96.0.0/12"]));
}

/// The identity that the certificate of a kubeconfig or a signing request stands for.
fn identity(pem: &str, name: &str, groups: &[&str]) -> Identity {
    let der = certificate_der(pem).expect("a certificate");
    Identity {
        fingerprint: fingerprint(&der),
        ..person(name, groups)
    }
}

fn certificate_of(kubeconfig: &str) -> String {
    let line = kubeconfig
        .lines()
        .find_map(|l| l.trim().strip_prefix("client-certificate-data: "));
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(line.expect("a certificate"))
        .expect("base64");
    String::from_utf8(bytes).expect("PEM")
}

#[tokio::test]
async fn users_come_and_go_at_once() {
    let hub = Hub::new().await;
    hub.config("a", &json!({})).await;
    let running = tokio::spawn(hub.api.clone().run());
    let made = hub
        .post(
            USERS,
            &json!({"metadata": {"name": "eve"}, "spec": {"groups": ["dev"]}}),
        )
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    let kubeconfig = made.body["status"]["kubeconfig"].as_str().expect("a kubeconfig");
    let eve = identity(&certificate_of(kubeconfig), "eve", &["dev"]);
    hub.bind("default", "view", user("eve")).await;
    assert_eq!(
        hub.as_who(Some(&eve), "GET", CONFIGS, &[], &Value::Null)
            .await
            .code,
        200
    );
    let stranger = Identity {
        fingerprint: "00".to_owned(),
        ..eve.clone()
    };
    assert_eq!(
        hub.as_who(Some(&stranger), "GET", CONFIGS, &[], &Value::Null)
            .await
            .code,
        401
    );

    let request = Request::get(format!("{CONFIGS}?watch=true"))
        .body(Body::empty())
        .expect("a request");
    let mut watch = hub
        .api
        .answer(request, Some(&eve), super::peer())
        .await
        .into_body();
    let first = watch.frame().await.expect("a frame").expect("data");
    assert!(
        first
            .into_data()
            .is_ok_and(|d| d.starts_with(b"{\"type\":\"ADDED\""))
    );
    let taken = hub.post(&format!("{USERS}/eve/revoke"), &json!({})).await;
    assert_eq!(taken.code, 200, "{}", taken.body);
    let last = loop {
        let frame = watch.frame().await.expect("a frame").expect("data");
        let event: Value = serde_json::from_slice(&frame.into_data().expect("data")).expect("an event");
        if event["type"] != "ADDED" {
            break event;
        }
    };
    assert_eq!(
        (&last["type"], &last["object"]["code"]),
        (&json!("ERROR"), &json!(401))
    );
    assert!(watch.frame().await.is_none(), "the watch ended");
    assert_eq!(
        hub.as_who(Some(&eve), "GET", CONFIGS, &[], &Value::Null)
            .await
            .code,
        401
    );

    let again = hub.post(USERS, &json!({"metadata": {"name": "eve"}})).await;
    let fresh = again.body["status"]["kubeconfig"].as_str().expect("a kubeconfig");
    let fresh = identity(&certificate_of(fresh), "eve", &[]);
    assert_eq!(
        hub.as_who(Some(&fresh), "GET", CONFIGS, &[], &Value::Null)
            .await
            .code,
        200
    );
    assert_eq!(
        hub.as_who(Some(&eve), "GET", CONFIGS, &[], &Value::Null)
            .await
            .code,
        401,
        "the old one stays out"
    );
    for (path, body, code) in [
        (format!("{USERS}/nobody/revoke"), json!({}), 404),
        (format!("{USERS}/eve/revoke/x"), json!({}), 404),
        (USERS.to_owned(), json!({"metadata": {"name": "system:x"}}), 422),
        (
            USERS.to_owned(),
            json!({"metadata": {"name": "pinnace-admin"}}),
            422,
        ),
    ] {
        assert_eq!(hub.post(&path, &body).await.code, code, "{path} {body}");
    }
    let own = person("chief", &["system:masters"]);
    assert_eq!(
        hub.as_who(
            Some(&own),
            "POST",
            &format!("{USERS}/chief/revoke"),
            &[],
            &json!({})
        )
        .await
        .code,
        403
    );
    assert_eq!(
        hub.get(USERS).await.body["items"].as_array().map(Vec::len),
        Some(1)
    );
    running.abort();
}

#[tokio::test]
async fn signing_requests_are_approved_and_signed() {
    let hub = Hub::new().await;
    let key = rcgen::KeyPair::generate().expect("a key");
    let request = |group: &str| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "bob");
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, group);
        let pem = params
            .serialize_request(&key)
            .expect("a request")
            .pem()
            .expect("PEM");
        base64::engine::general_purpose::STANDARD.encode(pem)
    };
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let object = |name: &str, group: &str| {
        json!({"metadata": {"name": name}, "spec": {"request": request(group), "usages": ["client auth"],
            "signerName": "kubernetes.io/kube-apiserver-client", "username": "mallory"}})
    };
    let made = hub.post(path, &object("bob", "dev")).await;
    assert_eq!(
        (made.code, &made.body["spec"]["username"]),
        (201, &json!("ann")),
        "{}",
        made.body
    );
    let approval = format!("{path}/bob/approval");
    let mut approved = made.body.clone();
    approved["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]});
    hub.bind(
        "",
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        user("carl"),
    )
    .await;
    let role = json!({"metadata": {"name": "approval"}, "rules": [{"verbs": ["update"],
        "apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"]}]});
    hub.post(&format!("{RBAC}/clusterroles"), &role).await;
    for name in ["carl", "dora"] {
        hub.bind("", "approval", user(name)).await;
    }
    let dora = hub
        .as_who(Some(&person("dora", &[])), "PUT", &approval, &[], &approved)
        .await;
    assert_eq!(dora.code, 403, "{}", dora.body);
    let carl = hub
        .as_who(Some(&person("carl", &[])), "PUT", &approval, &[], &approved)
        .await;
    assert_eq!(carl.code, 200, "{}", carl.body);
    let signed = hub.get(&format!("{path}/bob")).await.body;
    let text = signed["status"]["certificate"].as_str().expect("a certificate");
    let pem = base64::engine::general_purpose::STANDARD
        .decode(text)
        .expect("base64");
    let bob = identity(&String::from_utf8(pem).expect("PEM"), "bob", &["dev"]);
    assert_eq!(
        hub.as_who(Some(&bob), "GET", "/api", &[], &Value::Null)
            .await
            .code,
        200
    );
    hub.post(&format!("{USERS}/bob/revoke"), &json!({})).await;
    assert_eq!(
        hub.as_who(Some(&bob), "GET", "/api", &[], &Value::Null)
            .await
            .code,
        401
    );

    let masters = hub.post(path, &object("chief", "system:masters")).await.body;
    let mut approved = masters;
    approved["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    hub.put(&format!("{path}/chief/approval"), &approved).await;
    let failed = hub.get(&format!("{path}/chief")).await.body;
    assert_eq!(failed["status"]["conditions"][1]["type"], "Failed", "{failed}");
    let mut broken = object("broken", "dev");
    broken["spec"]["request"] = json!("eA==");
    broken["spec"]["signerName"] = json!("x");
    let refused = hub.post(path, &broken).await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.body["details"]["causes"].as_array().map(Vec::len),
        Some(2)
    );
}

#[tokio::test]
async fn writes_are_logged_and_nobody_takes_all_places() {
    let hub = Hub::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    hub.api
        .log_to(crate::api::Audit::open(dir.path()).expect("an audit log"));
    let headers = [("impersonate-user", "eve"), ("user-agent", "kubectl")];
    hub.as_who(
        Some(&admin()),
        "POST",
        CONFIGS,
        &headers,
        &json!({"metadata": {"name": "x"}}),
    )
    .await;
    hub.post(CONFIGS, &json!({"metadata": {"generateName": "x-"}}))
        .await;
    hub.get(CONFIGS).await;
    let path = dir.path().join("audit.log");
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines()
            .filter_map(|l| serde_json::from_str(l).ok())
            .collect()
    };
    while lines().len() < 2 {
        tokio::task::yield_now().await;
    }
    let lines = lines();
    assert_eq!(lines.len(), 2, "reads are not logged");
    assert_eq!(lines[0]["impersonatedUser"]["username"], "eve");
    assert_eq!(
        (&lines[0]["user"]["username"], &lines[0]["responseStatus"]["code"]),
        (&json!("ann"), &json!(403))
    );
    assert_eq!(lines[1]["annotations"]["authorization.k8s.io/decision"], "allow");
    assert!(
        lines[1]["objectRef"]["name"]
            .as_str()
            .is_some_and(|n| n.starts_with("x-")),
        "{}",
        lines[1]
    );

    let places: Vec<_> = std::iter::from_fn(|| hub.api.requests.enter("ann")).collect();
    assert_eq!(places.len(), crate::api::limits::REQUESTS / 2);
    let busy = hub.get(CONFIGS).await;
    assert_eq!(
        (busy.code, busy.headers.get("retry-after").is_some()),
        (429, true)
    );
    drop(places);
    hub.bind("", "view", user("bob")).await;
    let _places: Vec<_> = std::iter::from_fn(|| hub.api.requests.enter("ann")).collect();
    assert_eq!(
        hub.as_who(Some(&person("bob", &[])), "GET", CONFIGS, &[], &Value::Null)
            .await
            .code,
        200
    );
}

#[tokio::test]
async fn bodies_are_bounded_in_depth() {
    let hub = Hub::new().await;
    let deep = format!(
        "{{\"metadata\":{{\"name\":\"x\"}},\"data\":{}{}}}",
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    for content_type in ["application/json", "application/yaml"] {
        let request = Request::post(CONFIGS)
            .header("content-type", content_type)
            .body(Body::from(deep.clone()))
            .expect("a request");
        assert_eq!(hub.raw(request, Some(&admin())).await.code, 400, "{content_type}");
    }
}
