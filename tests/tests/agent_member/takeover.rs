//! Objects that others made or also write: taken over, adopted again, or left to whom they belong.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use shared::set::{ConflictResolution, DeleteMode};
use tests::real::wait;

use super::bench::*;

fn overwriting(object: Value) -> Wanted {
    Wanted {
        conflict: ConflictResolution::Overwrite,
        ..wanted(object)
    }
}

fn service(ports: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "old", "namespace": "shop"},
        "spec": {"selector": {"app": "old"}, "ports": ports}})
}

/// Red without `adoption::moved_managers`: what a tool wrote as an update is never removed by an apply.
pub(super) fn an_object_of_a_tool_is_taken_over(bench: &mut Bench) -> Result<()> {
    bench.run(&[wanted(namespace("shop"))], &[])?;
    bench.see("namespace", "", "shop", |o| {
        equal(&o["status"]["phase"], &json!("Active"))
    })?;
    let port = |n: u16| json!({"name": format!("p{n}"), "port": n, "protocol": "TCP", "targetPort": n});
    let mine = service(&json!([port(80), port(9999)]));
    bench
        .kubectl
        .with_input(&["create", "-f", "-"], &mine.to_string())?;
    let two = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "namespace": "shop"},
        "data": {"a": "1", "b": "2"}});
    bench.kubectl.apply(&two.to_string())?;
    let before = bench.see("service", "shop", "old", |o| Ok(o.clone()))?;
    let one = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "namespace": "shop"},
        "data": {"a": "1"}});
    let wants = [
        wanted(namespace("shop")),
        overwriting(service(&json!([port(80)]))),
        overwriting(one.clone()),
    ];
    bench.run(&wants, &[])?;
    bench.see("service", "shop", "old", |o| {
        equal(&o["spec"]["ports"].as_array().map(Vec::len).into(), &json!(1))?;
        equal(&o["spec"]["clusterIP"], &before["spec"]["clusterIP"])?;
        equal(&json!(uid(o)), &json!(uid(&before)))
    })?;
    bench.see("configmap", "shop", "applied", |o| {
        equal(&o["data"], &json!({"a": "1"}))
    })?;
    let why = bench.agent_says(&["why", "Service", "shop/old"])?;
    ensure!(
        why.contains("adopted from kubectl-create; it differs in spec.ports"),
        "the take-over is not told before it happens: {why}"
    );
    // Adopted, never created: a tombstone lets go of it.
    let gone = service(&json!([]));
    bench.run(
        &[wanted(namespace("shop"))],
        &[(&gone, DeleteMode::Delete), (&one, DeleteMode::Delete)],
    )?;
    bench.see("service", "shop", "old", |o| {
        equal(&o["metadata"]["labels"], &Value::Null)?;
        equal(&json!(uid(o)), &json!(uid(&before)))
    })
}

/// Red if `decide` took a mark for a record: an object from a backup of etcd would be deletable.
pub(super) fn an_object_with_our_marks_and_another_uid_is_adopted(bench: &mut Bench) -> Result<()> {
    let wants = || [wanted(namespace("shop")), wanted(config("saved", "1"))];
    bench.run(&wants(), &[])?;
    let mut saved = bench.see("configmap", "shop", "saved", |o| {
        equal(&o["data"]["a"], &json!("1"))?;
        Ok(o.clone())
    })?;
    bench.stop()?;
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "configmap", "saved"])?;
    let metadata = saved["metadata"].as_object_mut().context("metadata")?;
    for name in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(name);
    }
    bench
        .kubectl
        .with_input(&["create", "-f", "-"], &saved.to_string())?;
    bench.run(&wants(), &[])?;
    bench.origin("ConfigMap shop/saved", "adopted")?;
    let again = config("saved", "");
    bench.run(&[wanted(namespace("shop"))], &[(&again, DeleteMode::Delete)])?;
    bench.see("configmap", "shop", "saved", |o| {
        equal(
            &o["metadata"]["annotations"]["fleet.pinnace.dev/work"],
            &Value::Null,
        )?;
        equal(&o["data"]["a"], &json!("1"))
    })
}

/// F24, F31. Red without the look for autoscalers in `Applier::is_autoscaled`.
pub(super) fn replicas_under_an_autoscaler_stay(bench: &mut Bench) -> Result<()> {
    bench.run(&[wanted(namespace("shop")), wanted(deployment(2))], &[])?;
    bench.see("deployment", "shop", "web", |o| {
        equal(&o["spec"]["replicas"], &json!(2))
    })?;
    bench.kubectl.run(&[
        "-n",
        "shop",
        "autoscale",
        "deployment",
        "web",
        "--min=1",
        "--max=10",
        "--cpu-percent=50",
    ])?;
    bench
        .kubectl
        .run(&["-n", "shop", "scale", "deployment", "web", "--replicas=6"])?;
    // A change of the rest is still applied.
    let mut changed = deployment(2);
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/web:2");
    bench.run(&[wanted(namespace("shop")), wanted(changed)], &[])?;
    bench.see("deployment", "shop", "web", |o| {
        equal(
            &o["spec"]["template"]["spec"]["containers"][0]["image"],
            &json!("registry.example/web:2"),
        )?;
        equal(&o["spec"]["replicas"], &json!(6))
    })?;
    let kubectl = bench.kubectl.clone();
    wait::throughout("the replicas stay", std::time::Duration::from_secs(3), || {
        let object = kubectl
            .get("deployment", "shop", "web")
            .map_err(|e| e.to_string())?;
        equal(&object.unwrap_or_default()["spec"]["replicas"], &json!(6))
    })?;
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "hpa", "web"])
        .map(drop)
}

/// F29. Red if `effective::marked` left a status in what is sent.
pub(super) fn a_status_without_subresource_stays(bench: &mut Bench) -> Result<()> {
    let mut sent = widget();
    sent["status"] = json!({"phase": "from the hub"});
    bench.run(
        &[wanted(namespace("shop")), overwriting(definition()), wanted(sent)],
        &[],
    )?;
    bench.see("widgets.example.org", "shop", "w", |o| {
        equal(&o["spec"]["size"], &json!(3))?;
        equal(&o["status"], &Value::Null)
    })?;
    let patch = r#"{"status":{"phase":"Ready"}}"#;
    bench.kubectl.run(&[
        "-n",
        "shop",
        "patch",
        "widgets.example.org",
        "w",
        "--type=merge",
        "-p",
        patch,
    ])?;
    bench.kubectl.run(&[
        "-n",
        "shop",
        "patch",
        "widgets.example.org",
        "w",
        "--type=merge",
        "-p",
        r#"{"spec":{"size":9}}"#,
    ])?;
    bench.see("widgets.example.org", "shop", "w", |o| {
        equal(&o["spec"]["size"], &json!(3))?;
        equal(&o["status"]["phase"], &json!("Ready"))
    })
}

/// F38, F30. Red without `ObjectRecord::completed`: the absence of a finished Job would be drift.
pub(super) fn a_finished_job_runs_once(bench: &mut Bench) -> Result<()> {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": "shop"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "t", "image": "registry.example/t:1"}]}}}});
    let first = [wanted(namespace("shop")), wanted(job.clone())];
    bench.run(&first, &[])?;
    bench.see("job", "shop", "once", |o| {
        equal(&o["status"]["succeeded"], &json!(1))
    })?;
    wait::until("the end is written down", SOON, || {
        let why = bench
            .agent_says(&["why", "Job.batch", "shop/once"])
            .map_err(|e| e.to_string())?;
        if why.contains("it ran to its end") {
            Ok(())
        } else {
            Err(why)
        }
    })?;
    // As a TTL does.
    bench.kubectl.run(&["-n", "shop", "delete", "job", "once"])?;
    let later = [
        wanted(namespace("shop")),
        wanted(job),
        wanted(config("after", "1")),
    ];
    bench.run(&later, &[])?;
    // An update of a set in which it is finished blocks nothing that comes after it.
    bench.see("configmap", "shop", "after", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    let kubectl = bench.kubectl.clone();
    wait::throughout(
        "it does not run again",
        std::time::Duration::from_secs(3),
        || match kubectl.get("job", "shop", "once").map_err(|e| e.to_string())? {
            None => Ok(()),
            Some(_) => Err("it is back".into()),
        },
    )
}
