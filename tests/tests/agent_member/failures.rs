//! Every class of failure on a real member: named on its object, in words that say what to do, delaying nobody else,
//! and over as soon as its cause is.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use shared::set::DeleteMode;
use tests::real::wait;
use xtask::proxy::Line;

use super::bench::*;

fn in_namespace(namespace: &str, name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"a": value}})
}

/// Red if `ApiError::classify` did not know a quota, or one failing object held the engine up.
pub(super) fn a_used_up_quota_is_named_and_delays_nobody(bench: &mut Bench) -> Result<()> {
    bench.kubectl.run(&["create", "namespace", "full"])?;
    // `kube-root-ca.crt` takes the one place there is.
    bench.see("configmap", "full", "kube-root-ca.crt", |o| {
        equal(&o["kind"], &json!("ConfigMap"))
    })?;
    bench.kubectl.run(&[
        "-n",
        "full",
        "create",
        "quota",
        "few",
        "--hard=count/configmaps=1",
    ])?;
    bench.see("quota", "full", "few", |o| {
        equal(&o["status"]["used"]["count/configmaps"], &json!("1"))
    })?;
    bench.run(
        &[
            wanted(in_namespace("full", "more", "1")),
            wanted(namespace("shop")),
            wanted(config("beside", "1")),
        ],
        &[],
    )?;
    let message = bench.problem("ConfigMap full/more", "QuotaExceeded")?;
    ensure!(message.contains("few"), "the quota is not named: {message}");
    bench.see("configmap", "shop", "beside", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    bench.kubectl.run(&["-n", "full", "delete", "quota", "few"])?;
    bench.see("configmap", "full", "more", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    bench.no_problem("ConfigMap full/more")
}

/// Red if the words of admission policies or of webhooks that do not answer were taken for another class.
pub(super) fn a_denial_is_named_with_its_policy(bench: &mut Bench) -> Result<()> {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"]}]);
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-denied"}, "spec": {"failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules}, "validations": [
            {"expression": "!object.metadata.name.startsWith('denied')", "message": "names must be friendly"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-denied"}, "spec": {"policyName": "no-denied", "validationActions": ["Deny"]}});
    let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "silent"}, "webhooks": [{"name": "silent.example.org", "failurePolicy": "Fail",
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1, "rules": rules,
            "objectSelector": {"matchLabels": {"hook": "yes"}},
            "clientConfig": {"url": "https://127.0.0.1:1/"}}]});
    for object in [&policy, &binding, &hook] {
        bench.kubectl.apply(&object.to_string())?;
    }
    wait::until("the policy is in force", SOON, || {
        let dry = [
            "-n",
            "shop",
            "create",
            "configmap",
            "denied-try",
            "--dry-run=server",
        ];
        match bench.kubectl.run(&dry) {
            Err(e) if e.to_string().contains("friendly") => Ok(()),
            Err(e) => Err(e.to_string()),
            Ok(_) => Err("it lets everything pass".into()),
        }
    })?;
    let mut hooked = config("hooked", "1");
    hooked["metadata"]["labels"] = json!({"hook": "yes"});
    bench.run(
        &[
            wanted(namespace("shop")),
            wanted(config("denied", "1")),
            wanted(hooked),
        ],
        &[],
    )?;
    let message = bench.problem("ConfigMap shop/denied", "AdmissionDenied")?;
    ensure!(
        message.contains("friendly"),
        "the policy's words are missing: {message}"
    );
    let message = bench.problem("ConfigMap shop/hooked", "AdmissionDenied")?;
    ensure!(
        message.contains("silent.example.org"),
        "the webhook is not named: {message}"
    );
    let kind = "validatingadmissionpolicybinding,validatingadmissionpolicy,validatingwebhookconfiguration";
    bench
        .kubectl
        .run(&["delete", kind, "no-denied", "silent", "--ignore-not-found"])?;
    for name in ["denied", "hooked"] {
        bench.see("configmap", "shop", name, |o| equal(&o["data"]["a"], &json!("1")))?;
    }
    Ok(())
}

fn late_definition() -> Value {
    let mut crd = definition();
    crd["metadata"]["name"] = json!("boats.late.example.org");
    crd["spec"]["group"] = json!("late.example.org");
    crd["spec"]["names"] = json!({"kind": "Boat", "plural": "boats", "singular": "boat"});
    crd
}

/// Red if the absence of a kind were final, or remembered longer than it lasts (`Kinds::find`, `pace::ceiling`).
pub(super) fn an_absent_api_is_waited_for(bench: &mut Bench) -> Result<()> {
    let boat = json!({"apiVersion": "late.example.org/v1", "kind": "Boat",
        "metadata": {"name": "b", "namespace": "shop"}, "spec": {"size": 1}});
    bench.run(&[wanted(namespace("shop")), wanted(boat)], &[])?;
    let message = bench.problem("Boat.late.example.org shop/b", "ApiAbsent")?;
    ensure!(!message.is_empty(), "nothing is said");
    bench.kubectl.apply(&late_definition().to_string())?;
    bench.see("boats.late.example.org", "shop", "b", |o| {
        equal(&o["spec"]["size"], &json!(1))
    })?;
    bench.no_problem("Boat.late.example.org shop/b")
}

fn lease() -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "shop"},
        "spec": {"holderIdentity": "nobody"}})
}

/// Leases are not among the kinds that the printed RBAC covers. Red if a 403 were taken for another class.
pub(super) fn a_missing_right_is_named(bench: &mut Bench) -> Result<()> {
    bench.run(&[wanted(namespace("shop")), wanted(lease())], &[])?;
    let message = bench.problem("Lease.coordination.k8s.io shop/l", "Forbidden")?;
    ensure!(
        message.contains("cannot") && message.contains("leases"),
        "{message}"
    );
    bench.kubectl.run(&[
        "-n",
        "shop",
        "create",
        "role",
        "leases",
        "--verb=get,create,patch",
        "--resource=leases.coordination.k8s.io",
    ])?;
    bench.kubectl.run(&[
        "-n",
        "shop",
        "create",
        "rolebinding",
        "leases",
        "--role=leases",
        "--serviceaccount=pinnace-agent:pinnace-agent",
    ])?;
    bench.see("lease", "shop", "l", |o| {
        equal(&o["spec"]["holderIdentity"], &json!("nobody"))
    })
}

/// Red without the question to the guard in `Applier::carry_out`.
pub(super) fn what_the_guard_forbids_is_not_tried(bench: &mut Bench) -> Result<()> {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "too-much"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let own = in_namespace("pinnace-agent", "inside", "1");
    let system = in_namespace("kube-system", "inside", "1");
    bench.run(
        &[
            wanted(namespace("shop")),
            wanted(role),
            wanted(own),
            wanted(system),
            wanted(config("free", "1")),
        ],
        &[],
    )?;
    let message = bench.problem("ConfigMap pinnace-agent/inside", "GuardRefused")?;
    ensure!(message.contains("own namespace"), "{message}");
    for object in [
        "ClusterRole.rbac.authorization.k8s.io too-much",
        "ConfigMap kube-system/inside",
    ] {
        let message = bench.problem(object, "GuardRefused")?;
        ensure!(message.contains("no rule of this site's guard"), "{message}");
    }
    bench.see("configmap", "shop", "free", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    ensure!(
        bench.kubectl.get("clusterrole", "", "too-much")?.is_none(),
        "it was written"
    );
    ensure!(
        bench.kubectl.get("configmap", "kube-system", "inside")?.is_none(),
        "it was written"
    );
    let why = bench.agent_says(&["why", "ConfigMap", "kube-system/inside"])?;
    ensure!(why.contains("guard: no rule"), "{why}");
    Ok(())
}

/// Red if `Applier::immutable` recreated without being asked, or did not when it is.
pub(super) fn an_immutable_field_waits_for_leave_to_recreate(bench: &mut Bench) -> Result<()> {
    let frozen = |value: &str, leave: bool| {
        let mut object = config("frozen", value);
        object["immutable"] = json!(true);
        if leave {
            object["metadata"]["annotations"] = json!({"fleet.pinnace.dev/recreate-immutable": "true"});
        }
        object
    };
    bench.run(&[wanted(namespace("shop")), wanted(frozen("1", false))], &[])?;
    let first = uid(&bench.see("configmap", "shop", "frozen", |o| {
        equal(&o["data"]["a"], &json!("1"))?;
        Ok(o.clone())
    })?);
    bench.run(&[wanted(namespace("shop")), wanted(frozen("2", false))], &[])?;
    let message = bench.problem("ConfigMap shop/frozen", "ImmutableField")?;
    ensure!(
        message.contains("recreate-immutable"),
        "the way out is not told: {message}"
    );
    bench.see("configmap", "shop", "frozen", |o| {
        equal(&o["data"]["a"], &json!("1"))?;
        equal(&json!(uid(o)), &json!(first))
    })?;
    bench.run(&[wanted(namespace("shop")), wanted(frozen("2", true))], &[])?;
    bench.see("configmap", "shop", "frozen", |o| {
        equal(&o["data"]["a"], &json!("2"))?;
        ensure_other(&uid(o), &first)
    })?;
    bench.origin("ConfigMap shop/frozen", "created")
}

fn ensure_other(found: &str, before: &str) -> Result<(), String> {
    if found == before {
        Err("the old one".into())
    } else {
        Ok(())
    }
}

/// F163. Red if `Pace::repair` did not count, or the other manager were not read off the object.
pub(super) fn a_fight_is_backed_off_and_the_other_named(bench: &mut Bench) -> Result<()> {
    bench.run(&[wanted(namespace("shop")), wanted(config("fought", "1"))], &[])?;
    bench.see("configmap", "shop", "fought", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    let patch = r#"{"data":{"a":"mine"}}"#;
    let fight = [
        "-n",
        "shop",
        "patch",
        "configmap",
        "fought",
        "--field-manager=rival",
        "--type=merge",
        "-p",
        patch,
    ];
    let message = wait::until("the fight is named", SOON, || {
        bench.kubectl.run(&fight).map_err(|e| e.to_string())?;
        bench.problem_now("ConfigMap shop/fought", "Fighting")
    })?;
    ensure!(message.contains("rival"), "the other is not named: {message}");
    bench.see("configmap", "shop", "fought", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })
}

/// F28. Red if a create in a terminating namespace were given up, or what went with it not counted as drift.
pub(super) fn a_namespace_deleted_in_the_member_comes_back_with_its_objects(bench: &mut Bench) -> Result<()> {
    let mut held = in_namespace("brief", "held", "1");
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    bench.run(
        &[
            wanted(namespace("brief")),
            wanted(in_namespace("brief", "a", "1")),
            wanted(in_namespace("brief", "b", "1")),
        ],
        &[],
    )?;
    bench.see("configmap", "brief", "b", |o| equal(&o["data"]["a"], &json!("1")))?;
    let before = uid(&bench.see("namespace", "", "brief", |o| Ok(o.clone()))?);
    bench
        .kubectl
        .with_input(&["create", "-f", "-"], &held.to_string())?;
    bench
        .kubectl
        .run(&["delete", "namespace", "brief", "--wait=false"])?;
    // What lives in a namespace of ours waits for it.
    let message = bench.problem("ConfigMap brief/a", "AwaitingDependency")?;
    ensure!(message.contains("Namespace brief"), "{message}");
    let free = [
        "-n",
        "brief",
        "patch",
        "configmap",
        "held",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ];
    bench.kubectl.run(&free)?;
    for name in ["a", "b"] {
        bench.see("configmap", "brief", name, |o| {
            equal(&o["data"]["a"], &json!("1"))
        })?;
    }
    let after = uid(&bench.see("namespace", "", "brief", |o| Ok(o.clone()))?);
    ensure!(before != after, "the namespace was never gone");
    Ok(())
}

/// A namespace of others that is going: red if that 403 were taken for a missing right.
pub(super) fn a_terminating_namespace_is_waited_for(bench: &mut Bench) -> Result<()> {
    bench.kubectl.run(&["create", "namespace", "leaving"])?;
    let mut held = in_namespace("leaving", "held", "1");
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    bench
        .kubectl
        .with_input(&["create", "-f", "-"], &held.to_string())?;
    bench
        .kubectl
        .run(&["delete", "namespace", "leaving", "--wait=false"])?;
    bench.run(&[wanted(in_namespace("leaving", "a", "1"))], &[])?;
    let message = bench.problem("ConfigMap leaving/a", "NamespaceTerminating")?;
    ensure!(message.contains("leaving"), "{message}");
    let free = [
        "-n",
        "leaving",
        "patch",
        "configmap",
        "held",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ];
    bench.kubectl.run(&free)?;
    bench.see_gone("namespace", "", "leaving")?;
    bench.problem("ConfigMap leaving/a", "AwaitingDependency")?;
    bench.kubectl.run(&["create", "namespace", "leaving"])?;
    bench.see("configmap", "leaving", "a", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })
}

/// F67, F111. Red if `diff` applied to what is being deleted.
pub(super) fn a_terminating_object_is_left_alone(bench: &mut Bench) -> Result<()> {
    let mut object = config("going", "1");
    object["metadata"]["finalizers"] = json!(["example.org/hold"]);
    bench.run(&[wanted(namespace("shop")), wanted(object.clone())], &[])?;
    let first = uid(&bench.see("configmap", "shop", "going", |o| {
        equal(&o["data"]["a"], &json!("1"))?;
        Ok(o.clone())
    })?);
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "configmap", "going", "--wait=false"])?;
    object["data"]["a"] = json!("2");
    bench.run(&[wanted(namespace("shop")), wanted(object)], &[])?;
    bench.problem("ConfigMap shop/going", "AwaitingDeletion")?;
    bench.see("configmap", "shop", "going", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    let free = [
        "-n",
        "shop",
        "patch",
        "configmap",
        "going",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ];
    bench.kubectl.run(&free)?;
    bench.see("configmap", "shop", "going", |o| {
        equal(&o["data"]["a"], &json!("2"))?;
        ensure_other(&uid(o), &first)
    })?;
    bench.kubectl.run(&free).map(drop)
}

/// F141: deleting a CRD deletes all its objects. Red without `content::foreign_content`.
pub(super) fn a_definition_with_foreign_content_is_held(bench: &mut Bench) -> Result<()> {
    let mut crd = definition();
    crd["metadata"]["name"] = json!("crates.held.example.org");
    crd["spec"]["group"] = json!("held.example.org");
    crd["spec"]["names"] = json!({"kind": "Crate", "plural": "crates", "singular": "crate"});
    bench.run(&[wanted(namespace("shop")), wanted(crd.clone())], &[])?;
    let theirs = json!({"apiVersion": "held.example.org/v1", "kind": "Crate",
        "metadata": {"name": "theirs", "namespace": "shop"}, "spec": {}});
    wait::until("the kind is served", SOON, || {
        bench
            .kubectl
            .apply(&theirs.to_string())
            .map(drop)
            .map_err(|e| e.to_string())
    })?;
    bench.run(&[wanted(namespace("shop"))], &[(&crd, DeleteMode::Delete)])?;
    let message = bench.problem(
        "CustomResourceDefinition.apiextensions.k8s.io crates.held.example.org",
        "ForeignContent",
    )?;
    ensure!(message.contains("Crate shop/theirs"), "{message}");
    bench.see("crates.held.example.org", "shop", "theirs", |o| {
        equal(&o["kind"], &json!("Crate"))
    })?;
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "crates.held.example.org", "theirs"])?;
    bench.see_gone("crd", "", "crates.held.example.org")
}

/// F139, F144. Red if actions went on against an API that is away, or what failed for it waited out its pause.
pub(super) fn a_member_that_was_away_is_caught_up_with(bench: &mut Bench) -> Result<()> {
    bench.run(&[wanted(namespace("shop")), wanted(config("kept", "1"))], &[])?;
    bench.see("configmap", "shop", "kept", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    for _ in 0..3 {
        let seen = bench.log_length()?;
        bench.member.proxy().set(Line::Cut)?;
        bench
            .kubectl
            .run(&["-n", "shop", "delete", "configmap", "kept"])?;
        bench.member.proxy().set(Line::Open)?;
        bench.see("configmap", "shop", "kept", |o| {
            equal(&o["data"]["a"], &json!("1"))
        })?;
        ensure!(bench.log_length()? >= seen, "the log was cut");
    }
    // A start while the API is away: nothing is given up.
    bench.stop()?;
    bench.member.proxy().set(Line::Cut)?;
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "configmap", "kept"])?;
    let seen = bench.log_length()?;
    bench.start(&[])?;
    bench.logged(seen, "the member does not answer")?;
    bench.member.proxy().set(Line::Open)?;
    let begun = std::time::Instant::now();
    bench.see("configmap", "shop", "kept", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    println!("back after the API: {} ms", begun.elapsed().as_millis());
    ensure!(begun.elapsed() < Duration::from_secs(45), "it waited too long");
    bench.agent.as_ref().context("it runs on").map(drop)
}
