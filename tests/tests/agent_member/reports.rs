//! Field reports that arise between an agent and its member. Each says which change of the code turns it red.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use shared::set::DeleteMode;
use tests::real::wait;

use super::bench::*;

/// Longer than a repair takes by far.
const QUIET: std::time::Duration = std::time::Duration::from_secs(4);

fn merge(bench: &Bench, kind: &str, name: &str, patch: &Value) -> Result<()> {
    let patch = patch.to_string();
    bench
        .kubectl
        .run(&["-n", "shop", "patch", kind, name, "--type=merge", "-p", &patch])
        .map(drop)
}

/// The uid of an object once it is there.
fn uid_of(bench: &Bench, kind: &str, namespace: &str, name: &str) -> Result<String> {
    bench.see(kind, namespace, name, |o| match uid(o) {
        uid if uid.is_empty() => Err("absent".into()),
        uid => Ok(uid),
    })
}

/// Red if records or intents were kept by name or kind alone: group and namespace are part of what an object is.
pub(super) fn field_report_25_and_27_equal_names_do_not_meet(bench: &mut Bench) -> Result<()> {
    let mut crd = definition();
    crd["metadata"]["name"] = json!("configmaps.example.org");
    crd["spec"]["names"] = json!({"kind": "ConfigMap", "plural": "configmaps", "singular": "configmap"});
    let plain = |namespace: &str, value: &str| {
        let mut object = config("twin", value);
        object["metadata"]["namespace"] = json!(namespace);
        object
    };
    let custom = json!({"apiVersion": "example.org/v1", "kind": "ConfigMap",
        "metadata": {"name": "twin", "namespace": "shop"}, "spec": {"a": "custom"}});
    bench.run(
        &[
            wanted(namespace("shop")),
            wanted(namespace("shop-b")),
            wanted(crd.clone()),
            wanted(plain("shop", "1")),
            wanted(plain("shop-b", "2")),
            wanted(custom.clone()),
        ],
        &[],
    )?;
    let data = |value: &'static str| move |o: &Value| equal(&o["data"]["a"], &json!(value));
    let spec = |o: &Value| equal(&o["spec"]["a"], &json!("custom"));
    bench.see("configmaps.", "shop", "twin", data("1"))?;
    bench.see("configmaps.", "shop-b", "twin", data("2"))?;
    bench.see("configmaps.example.org", "shop", "twin", spec)?;
    let kept = uid_of(bench, "configmaps.example.org", "shop", "twin")?;
    bench.run(
        &[
            wanted(namespace("shop")),
            wanted(namespace("shop-b")),
            wanted(crd.clone()),
            wanted(custom.clone()),
        ],
        &[
            (&plain("shop", ""), DeleteMode::Delete),
            (&plain("shop-b", ""), DeleteMode::Delete),
        ],
    )?;
    bench.see_gone("configmaps.", "shop", "twin")?;
    bench.see_gone("configmaps.", "shop-b", "twin")?;
    ensure!(
        uid_of(bench, "configmaps.example.org", "shop", "twin")? == kept,
        "the object of the other group went too"
    );
    bench.run(
        &[wanted(namespace("shop"))],
        &[
            (&custom, DeleteMode::Delete),
            (&crd, DeleteMode::Delete),
            (&namespace("shop-b"), DeleteMode::Delete),
        ],
    )?;
    bench.see_gone("crd", "", "configmaps.example.org")?;
    // The next story's set knows nothing of this order: it must be carried out before.
    bench.see_gone("namespace", "", "shop-b")?;
    bench.no_problem("Namespace shop-b")
}

/// Red if what the set leaves out counted as drift, or an apply took it away.
pub(super) fn field_report_26_what_the_member_adds_to_a_service_account_stays(
    bench: &mut Bench,
) -> Result<()> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app", "namespace": "shop"},
        "imagePullSecrets": [{"name": "ours"}]});
    bench.run(&[wanted(namespace("shop")), wanted(account.clone())], &[])?;
    uid_of(bench, "serviceaccount", "shop", "app")?;
    for n in 0..3 {
        let secrets: Vec<Value> = (0..=n)
            .map(|n| json!({"name": format!("app-token-{n}")}))
            .collect();
        merge(bench, "serviceaccount", "app", &json!({"secrets": secrets}))?;
    }
    let mut next = account;
    next["metadata"]["labels"] = json!({"tier": "gold"});
    bench.run(&[wanted(namespace("shop")), wanted(next)], &[])?;
    let settled = bench.see("serviceaccount", "shop", "app", |o| {
        equal(&o["metadata"]["labels"]["tier"], &json!("gold"))?;
        equal(&json!(o["secrets"].as_array().map(Vec::len)), &json!(3))?;
        Ok(o["metadata"]["resourceVersion"].clone())
    })?;
    let kubectl = bench.kubectl.clone();
    wait::throughout("nobody writes it again", QUIET, || {
        let object = kubectl
            .get("serviceaccount", "shop", "app")
            .map_err(|e| e.to_string())?;
        equal(
            &object.unwrap_or_default()["metadata"]["resourceVersion"],
            &settled,
        )
    })
}

/// Red if a delete went by name: its uid is that of the object which the order was about.
pub(super) fn field_report_50_and_60_a_late_delete_spares_the_successor(bench: &mut Bench) -> Result<()> {
    bench.run(&[wanted(namespace("shop")), wanted(config("heir", "1"))], &[])?;
    let first = uid_of(bench, "configmap", "shop", "heir")?;
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}]);
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "keep"}, "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules},
        "validations": [{"message": "not by you", "expression":
            "request.name != 'heir' || request.userInfo.username != 'system:serviceaccount:pinnace-agent:pinnace-agent'"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "keep"}, "spec": {"policyName": "keep", "validationActions": ["Deny"]}});
    for object in [&policy, &binding] {
        bench.kubectl.apply(&object.to_string())?;
    }
    let impersonated = "--as=system:serviceaccount:pinnace-agent:pinnace-agent";
    wait::until("the policy is in force", SOON, || {
        let dry = [
            "-n",
            "shop",
            "delete",
            "configmap",
            "heir",
            "--dry-run=server",
            impersonated,
        ];
        match bench.kubectl.run(&dry) {
            Err(e) if e.to_string().contains("not by you") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    bench.run(
        &[wanted(namespace("shop"))],
        &[(&config("heir", ""), DeleteMode::Delete)],
    )?;
    bench.problem("ConfigMap shop/heir", "AdmissionDenied")?;
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "configmap", "heir"])?;
    bench.kubectl.run(&[
        "-n",
        "shop",
        "create",
        "configmap",
        "heir",
        "--from-literal=a=successor",
    ])?;
    let second = uid_of(bench, "configmap", "shop", "heir")?;
    ensure!(first != second, "it was never replaced");
    let kinds = "validatingadmissionpolicybinding,validatingadmissionpolicy";
    bench.kubectl.run(&["delete", kinds, "keep"])?;
    bench.no_problem("ConfigMap shop/heir")?;
    ensure!(
        uid_of(bench, "configmap", "shop", "heir")? == second,
        "the successor was deleted"
    );
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "configmap", "heir"])
        .map(drop)
}

/// Red if the intent were written after the create: what a killed agent may have made would be forgotten.
pub(super) fn field_report_55_what_an_unfinished_set_made_is_not_forgotten(bench: &mut Bench) -> Result<()> {
    for point in ["intent-apply", "apply-record"] {
        bench.stop()?;
        bench.put(&[wanted(namespace("shop")), wanted(config("half", "1"))], &[])?;
        bench.start(&[("PINNACE_CRASH_AT", point)])?;
        let status = bench.agent.as_mut().context("started")?.wait_end(SOON)?;
        ensure!(!status.success(), "{point} was not reached");
        bench.agent = None;
        bench.run(
            &[wanted(namespace("shop")), wanted(config("next", point))],
            &[(&config("half", ""), DeleteMode::Delete)],
        )?;
        bench.see("configmap", "shop", "next", |o| {
            equal(&o["data"]["a"], &json!(point))
        })?;
        bench.see_gone("configmap", "shop", "half")?;
    }
    Ok(())
}

/// Red if one deletion that waits for a finalizer held up other deletions or what comes new.
pub(super) fn field_report_62_a_slow_deletion_delays_nobody(bench: &mut Bench) -> Result<()> {
    let mut slow = config("slow", "1");
    slow["metadata"]["finalizers"] = json!(["example.org/hold"]);
    bench.run(
        &[
            wanted(namespace("shop")),
            wanted(slow.clone()),
            wanted(config("quick", "1")),
        ],
        &[],
    )?;
    uid_of(bench, "configmap", "shop", "slow")?;
    uid_of(bench, "configmap", "shop", "quick")?;
    bench.run(
        &[wanted(namespace("shop")), wanted(config("fresh", "1"))],
        &[
            (&slow, DeleteMode::Delete),
            (&config("quick", ""), DeleteMode::Delete),
        ],
    )?;
    bench.see("configmap", "shop", "fresh", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    bench.see_gone("configmap", "shop", "quick")?;
    bench.see(
        "configmap",
        "shop",
        "slow",
        |o| match o["metadata"]["deletionTimestamp"].is_string() {
            true => Ok(()),
            false => Err(o["metadata"].to_string()),
        },
    )?;
    merge(
        bench,
        "configmap",
        "slow",
        &json!({"metadata": {"finalizers": null}}),
    )?;
    bench.see_gone("configmap", "shop", "slow")
}

/// Red if a delete named no propagation policy: a Job's Pods would be orphans that run on.
pub(super) fn field_report_63_a_deleted_job_leaves_no_pods(bench: &mut Bench) -> Result<()> {
    // Simulated nodes end the Pods of Jobs at once; this one waits for a node that is not there.
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "long", "namespace": "shop"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "nodeSelector": {"nobody": "has-this"},
            "containers": [{"name": "t", "image": "registry.example/t:1"}]}}}});
    bench.run(&[wanted(namespace("shop")), wanted(job.clone())], &[])?;
    let pods = |bench: &Bench| {
        let all = bench.kubectl.list("pods", "shop").map_err(|e| e.to_string())?;
        let ours = all
            .iter()
            .filter(|pod| pod["metadata"]["labels"]["job-name"] == "long");
        Ok::<usize, String>(ours.count())
    };
    wait::until("the Job has its Pod", SOON, || match pods(bench)? {
        1 => Ok(()),
        n => Err(format!("{n}")),
    })?;
    bench.run(&[wanted(namespace("shop"))], &[(&job, DeleteMode::Delete)])?;
    bench.see_gone("job", "shop", "long")?;
    wait::until("its Pod goes with it", SOON, || match pods(bench)? {
        0 => Ok(()),
        n => Err(format!("{n} left")),
    })
}

/// Red if deletion were left to owner references: an order and our record decide, whoever else owns the object.
pub(super) fn field_report_64_another_owner_does_not_keep_what_was_ordered_away(
    bench: &mut Bench,
) -> Result<()> {
    bench.run(&[wanted(namespace("shop")), wanted(config("owned", "1"))], &[])?;
    uid_of(bench, "configmap", "shop", "owned")?;
    bench
        .kubectl
        .run(&["-n", "shop", "create", "configmap", "owner", "--from-literal=a=1"])?;
    let owner = uid_of(bench, "configmap", "shop", "owner")?;
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}]);
    merge(
        bench,
        "configmap",
        "owned",
        &json!({"metadata": {"ownerReferences": reference}}),
    )?;
    bench.run(
        &[wanted(namespace("shop"))],
        &[(&config("owned", ""), DeleteMode::Delete)],
    )?;
    bench.see_gone("configmap", "shop", "owned")?;
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "configmap", "owner"])
        .map(drop)
}

/// Red if a start wrote what is there already, or kept rows beside those of the accepted set.
pub(super) fn field_report_143_ten_starts_change_and_gather_nothing(bench: &mut Bench) -> Result<()> {
    bench.run(
        &[
            wanted(namespace("shop")),
            wanted(config("still", "1")),
            wanted(deployment(1)),
        ],
        &[],
    )?;
    bench.see("configmap", "shop", "still", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    bench.origin("Deployment.apps shop/web", "created")?;
    let rows = |bench: &Bench| -> Result<BTreeMap<String, usize>> {
        let db = rusqlite::Connection::open(bench.data.join("ledger.db"))?;
        let mut names = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
        let names: Vec<String> = names.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        // The journal tells what happened, starts included; it has its own bound.
        let kept = names
            .into_iter()
            .filter(|name| name != "journal" && !name.starts_with("sqlite_"));
        kept.map(|name| {
            let count = format!("SELECT count(*) FROM {name}");
            let count: i64 = db.query_row(&count, [], |row| row.get(0))?;
            Ok((name, usize::try_from(count)?))
        })
        .collect()
    };
    let written = |bench: &Bench| -> Result<Vec<Value>> {
        let object = |kind, name| -> Result<Value> {
            let object = bench.kubectl.get(kind, "shop", name)?.context("it is gone")?;
            Ok(json!([
                object["metadata"]["uid"],
                object["metadata"]["generation"],
                object["metadata"]["managedFields"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|entry| entry["manager"] == "pinnace")
            ]))
        };
        Ok(vec![object("configmap", "still")?, object("deployment", "web")?])
    };
    let before = (rows(bench)?, written(bench)?);
    for _ in 0..10 {
        bench.stop()?;
        let seen = bench.log_length()?;
        bench.start(&[])?;
        bench.logged(seen, "the member is the cluster that was enrolled")?;
    }
    let after = (rows(bench)?, written(bench)?);
    ensure!(before == after, "before {before:?}\nafter {after:?}");
    Ok(())
}
