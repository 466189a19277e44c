//! What is drift, what is not, and what is done about it where the API server has its own mind.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::real::wait;

use super::bench::*;

/// Longer than a repair takes by far.
const QUIET: Duration = Duration::from_secs(6);

fn web(ports: &Value) -> Value {
    let mut object = deployment(1);
    object["metadata"]["name"] = json!("ported");
    object["spec"]["template"]["spec"]["containers"][0]["ports"] = ports.clone();
    object
}

/// Field reports F32 and F94. Red if drift were found by comparing values instead of the fields that we own: the API server
/// writes `1` for `1000m`, and fills atomic lists with defaults.
pub(super) fn what_the_api_server_normalises_is_no_drift(bench: &mut Bench) -> Result<()> {
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "store", "namespace": "shop"},
        "spec": {"replicas": 0, "serviceName": "store", "selector": {"matchLabels": {"app": "store"}},
            "template": {"metadata": {"labels": {"app": "store"}}, "spec": {"containers": [
                {"name": "db", "image": "registry.example/db:1", "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}]}});
    bench.run(&[wanted(namespace("shop")), wanted(set)], &[])?;
    let first = bench.see("statefulset", "shop", "store", |o| {
        let container = &o["spec"]["template"]["spec"]["containers"][0];
        equal(&container["resources"]["requests"]["cpu"], &json!("1"))?;
        let claim = &o["spec"]["volumeClaimTemplates"][0];
        equal(&claim["spec"]["volumeMode"], &json!("Filesystem")).map(|()| o.clone())
    })?;
    // Somebody touches it, so that it is read again.
    bench.kubectl.run(&[
        "-n",
        "shop",
        "annotate",
        "statefulset",
        "store",
        "example.org/seen=1",
    ])?;
    wait::throughout("nothing is repaired", QUIET, || {
        let status = bench.status().map_err(|e| e.to_string())?;
        let journal = status["journal"].as_array().cloned().unwrap_or_default();
        let repaired = journal
            .iter()
            .find(|l| l["object"] == "StatefulSet.apps shop/store" && l["what"] == "repaired");
        repaired.map_or(Ok(()), |line| Err(line.to_string()))
    })?;
    let after = bench.see("statefulset", "shop", "store", |o| Ok(o.clone()))?;
    ensure!(
        after["metadata"]["generation"] == first["metadata"]["generation"],
        "it was written again"
    );
    Ok(())
}

/// Field report F96. Red without `Applier::untangle`: the API refuses two ports of one name, for ever.
pub(super) fn a_renumbered_port_is_set_right(bench: &mut Bench) -> Result<()> {
    let wants = [
        wanted(namespace("shop")),
        wanted(web(&json!([{"name": "http", "containerPort": 80}]))),
    ];
    bench.run(&wants, &[])?;
    let ports = "/spec/template/spec/containers/0/ports";
    bench.see("deployment", "shop", "ported", |o| {
        equal(
            &o.pointer(ports).cloned().unwrap_or_default()[0]["containerPort"],
            &json!(80),
        )
    })?;
    let patch = format!(r#"[{{"op": "replace", "path": "{ports}/0/containerPort", "value": 8080}}]"#);
    bench.kubectl.run(&[
        "-n",
        "shop",
        "patch",
        "deployment",
        "ported",
        "--field-manager=rival",
        "--type=json",
        "-p",
        &patch,
    ])?;
    bench.see("deployment", "shop", "ported", |o| {
        let found = o.pointer(ports).cloned().unwrap_or_default();
        let numbers: Vec<&Value> = found
            .as_array()
            .into_iter()
            .flatten()
            .map(|p| &p["containerPort"])
            .collect();
        if numbers == [&json!(80)] {
            Ok(())
        } else {
            Err(found.to_string())
        }
    })?;
    bench.no_problem("Deployment.apps shop/ported")
}

/// Field report F36. Red if an apply took what others added, or left what we had written and want no longer.
pub(super) fn what_others_added_stays_and_what_we_gave_up_goes(bench: &mut Bench) -> Result<()> {
    let mut before = config("mixed", "1");
    before["data"]["given-up"] = json!("x");
    bench.run(&[wanted(namespace("shop")), wanted(before)], &[])?;
    bench.see("configmap", "shop", "mixed", |o| {
        equal(&o["data"]["given-up"], &json!("x"))
    })?;
    let patch = r#"{"data":{"theirs":"y"},"metadata":{"labels":{"theirs":"z"}}}"#;
    bench.kubectl.run(&[
        "-n",
        "shop",
        "patch",
        "configmap",
        "mixed",
        "--type=merge",
        "-p",
        patch,
    ])?;
    bench.run(&[wanted(namespace("shop")), wanted(config("mixed", "2"))], &[])?;
    bench.see("configmap", "shop", "mixed", |o| {
        equal(&o["data"], &json!({"a": "2", "theirs": "y"}))?;
        equal(&o["metadata"]["labels"]["theirs"], &json!("z"))
    })
}
