//! A real member: it does what tests of everything else count on, and leaves nothing behind. The committed type table
//! is compared with what its API server says.

// A test program: whatever cannot be done fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use serde_json::Value;
use xtask::member::{Health, Member, Scoped};
use xtask::proxy::Line;
use xtask::wait::{self, Look};
use xtask::workspace;

const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{
"replicas":3,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
"spec":{"containers":[{"name":"web","image":"example.com/web:1"}]}}}}"#;

/// A name that no other run on this machine uses at the same time.
fn name(role: &str) -> String {
    format!("xtask-{role}-{}", std::process::id())
}

#[test]
fn a_member_runs_workloads_and_its_line_is_cut_and_healed() {
    let member = Scoped::up(&name("work"), 1).unwrap();
    let file = member.directory().join("web.json");
    std::fs::write(&file, DEPLOYMENT).unwrap();
    member.kubectl(&["create", "-f", file.to_str().unwrap()]).unwrap();
    member
        .kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"])
        .unwrap();
    let pods = member
        .kubectl(&[
            "get",
            "pods",
            "-l",
            "app=web",
            "-o",
            "jsonpath={.items[*].status.phase}",
        ])
        .unwrap();
    assert_eq!(pods, "Running Running Running");
    // The tokens of service accounts, and the certificate authority in every namespace, are there for workloads.
    member.kubectl(&["get", "configmap", "kube-root-ca.crt"]).unwrap();
    assert!(
        member
            .kubectl(&["create", "token", "default"])
            .unwrap()
            .starts_with("ey")
    );

    // The API server plays the hub behind the proxy.
    let target = format!("127.0.0.1:{}", member.state().ports.api);
    assert_eq!(
        member.proxy().link(&target).unwrap().target.unwrap().to_string(),
        target
    );
    let server = format!("--server=https://{}", member.proxy_address());
    let through = || member.kubectl(&[&server, "--request-timeout=10s", "get", "--raw", "/readyz"]);
    assert_eq!(through().unwrap(), "ok");
    member.proxy().set(Line::Cut).unwrap();
    assert!(through().is_err());
    member.proxy().set(Line::Open).unwrap();
    assert_eq!(through().unwrap(), "ok");

    the_type_table_is_what_the_server_serves(&member);
}

#[test]
fn a_member_leaves_nothing_behind_and_a_dead_one_is_recognised() {
    let name = name("gone");
    let first = Member::up(&name, 1).unwrap();
    let again = Member::up(&name, 1).unwrap();
    assert_eq!(first.state(), again.state(), "a running member is taken as it is");
    for process in &first.state().processes {
        process.kill().unwrap();
    }
    let dead = Member::find(&name).unwrap().unwrap();
    assert_eq!(dead.health(), Health::Stale);
    assert!(Member::running(&name).is_err());

    let new = Member::up(&name, 1).unwrap();
    assert_eq!(new.health(), Health::Up);
    assert_ne!(new.state().processes, first.state().processes);
    new.down().unwrap();
    assert!(!new.directory().exists());
    assert!(Member::find(&name).unwrap().is_none());
    assert!(new.state().processes.iter().all(|process| !process.alive()));
    let ports = &new.state().ports;
    for port in [
        ports.etcd,
        ports.etcd_peer,
        ports.api,
        ports.controllers,
        ports.scheduler,
        ports.kwok,
        ports.proxy,
    ] {
        wait::until(
            &format!("port {port} to be free"),
            Duration::from_secs(10),
            || {
                Ok(match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                    Ok(_) => Look::There(()),
                    Err(error) => Look::NotYet(error.to_string()),
                })
            },
        )
        .unwrap();
    }
}

/// What both sides say about a resource or subresource.
type Said = BTreeMap<(String, String, String), Value>;

fn the_type_table_is_what_the_server_serves(member: &Member) {
    let raw = |path: &str| -> Value {
        serde_json::from_str(&member.kubectl(&["get", "--raw", path]).unwrap()).unwrap()
    };
    let file = workspace::root().unwrap().join("hub/core/data/kubernetes.json");
    let table: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();

    let mut versions = vec![(String::new(), "v1".to_owned())];
    for group in list(&raw("/apis")["groups"]) {
        versions.extend(
            list(&group["versions"])
                .iter()
                .map(|v| (text(&group["name"]), text(&v["version"]))),
        );
    }
    let mut order = Vec::new();
    let mut expected = Said::new();
    for r in list(&table["resources"]) {
        let version = (text(&r["group"]), text(&r["version"]));
        if !order.contains(&version) {
            order.push(version.clone());
        }
        let said = serde_json::json!([
            r["kind"],
            r["verbs"],
            r["singular"],
            r["namespaced"],
            r["shortNames"],
            r["categories"],
            r["storageVersionHash"]
        ]);
        expected.insert((version.0.clone(), version.1.clone(), text(&r["resource"])), said);
        for s in list(&r["subresources"]) {
            let name = format!("{}/{}", text(&r["resource"]), text(&s["name"]));
            expected.insert(
                (version.0.clone(), version.1.clone(), name),
                serde_json::json!([s["kind"], s["verbs"]]),
            );
        }
    }
    assert_eq!(order, versions, "groups and versions in the order of discovery");

    let mut served = Said::new();
    for (group, version) in versions {
        let path = if group.is_empty() {
            "/api/v1".to_owned()
        } else {
            format!("/apis/{group}/{version}")
        };
        for r in list(&raw(&path)["resources"]) {
            let said = if text(&r["name"]).contains('/') {
                serde_json::json!([r["kind"], r["verbs"]])
            } else {
                serde_json::json!([
                    r["kind"],
                    r["verbs"],
                    r["singularName"],
                    r["namespaced"],
                    r["shortNames"],
                    r["categories"],
                    r["storageVersionHash"]
                ])
            };
            served.insert((group.clone(), version.clone(), text(&r["name"])), said);
        }
    }
    let different: BTreeSet<_> = expected
        .iter()
        .filter(|(key, said)| served.get(*key) != Some(said))
        .chain(served.iter().filter(|(key, _)| !expected.contains_key(*key)))
        .map(|(key, _)| key)
        .collect();
    assert!(
        different.is_empty(),
        "the table and the server differ in {different:?}"
    );
}
