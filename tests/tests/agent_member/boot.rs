//! What every agent does: order, drift, foreign objects, tombstones, crashes, held deletions.

use std::time::{Duration, Instant};

use agent::identity;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use shared::set::{ConflictResolution, DeleteMode};
use tests::real::wait;

use super::bench::*;

pub(super) fn created_in_order(bench: &mut Bench) -> Result<()> {
    let started = Instant::now();
    bench.run(
        &[
            wanted(namespace("shop")),
            wanted(config("one", "1")),
            wanted(deployment(2)),
            wanted(definition()),
            wanted(widget()),
        ],
        &[],
    )?;
    bench.see("configmap", "shop", "one", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    println!("boot to first object: {} ms", started.elapsed().as_millis());
    bench.see("deployment", "shop", "web", |o| {
        equal(&o["status"]["availableReplicas"], &json!(2))
    })?;
    println!("boot to available: {} ms", started.elapsed().as_millis());
    bench.see("widgets.example.org", "shop", "w", |o| {
        equal(&o["spec"]["size"], &json!(3))
    })?;
    let status = bench.status()?;
    let objects = status["objects"].as_array().context("objects")?;
    ensure!(
        objects.len() == 5
            && objects
                .iter()
                .all(|o| o["origin"] == "created" && o["current"] == true),
        "{status}"
    );
    Ok(())
}

pub(super) fn drift_is_repaired(bench: &mut Bench) -> Result<()> {
    let before = uid(&bench.see("configmap", "shop", "one", |o| Ok(o.clone()))?);
    bench.kubectl.run(&["-n", "shop", "delete", "configmap", "one"])?;
    bench.see("configmap", "shop", "one", |o| {
        equal(&o["data"]["a"], &json!("1"))?;
        if uid(o) == before {
            Err("not deleted yet".into())
        } else {
            Ok(())
        }
    })?;
    bench.kubectl.run(&[
        "-n",
        "shop",
        "patch",
        "configmap",
        "one",
        "--type=merge",
        "-p",
        r#"{"data":{"a":"9","b":"kept"}}"#,
    ])?;
    bench.see("configmap", "shop", "one", |o| {
        equal(&o["data"], &json!({"a": "1", "b": "kept"}))
    })?;
    bench
        .kubectl
        .run(&["-n", "shop", "scale", "deployment", "web", "--replicas=4"])?;
    bench.see("deployment", "shop", "web", |o| {
        equal(&o["spec"]["replicas"], &json!(2))
    })?;
    // Everything repaired, nothing left to do: the object's version stands still although a quantity was
    // normalised ("1000m" is kept by the server as "1").
    let version = |o: &Value| o["metadata"]["generation"].clone();
    let settled = bench.see("deployment", "shop", "web", |o| {
        equal(&o["status"]["availableReplicas"], &json!(2))?;
        Ok(version(o))
    })?;
    wait::throughout("the Deployment is left alone", Duration::from_secs(3), || {
        let object = bench
            .kubectl
            .get("deployment", "shop", "web")
            .map_err(|e| e.to_string())?
            .unwrap_or_default();
        equal(&version(&object), &settled)
    })
}

pub(super) fn foreign_objects_stay(bench: &mut Bench) -> Result<()> {
    for name in ["theirs", "taken"] {
        bench.kubectl.run(&[
            "-n",
            "shop",
            "create",
            "configmap",
            name,
            "--from-literal=a=theirs",
        ])?;
    }
    let mut taken = wanted(config("taken", "ours"));
    taken.conflict = ConflictResolution::Overwrite;
    bench.run(
        &[
            wanted(namespace("shop")),
            wanted(config("one", "2")),
            wanted(deployment(2)),
            wanted(definition()),
            wanted(widget()),
            wanted(config("theirs", "ours")),
            taken,
        ],
        &[],
    )?;
    bench.see("configmap", "shop", "one", |o| {
        equal(&o["data"]["a"], &json!("2"))
    })?;
    bench.see("configmap", "shop", "taken", |o| {
        equal(&o["data"]["a"], &json!("ours"))
    })?;
    wait::until("the conflict is named", SOON, || {
        let log = std::fs::read_to_string(&bench.log).map_err(|e| e.to_string())?;
        if log.contains("reason=Conflict") && log.contains("it differs in data.a") {
            Ok(())
        } else {
            Err("not yet".into())
        }
    })?;
    bench.see("configmap", "shop", "theirs", |o| {
        equal(&o["data"]["a"], &json!("theirs"))?;
        equal(&o["metadata"]["labels"], &Value::Null)
    })
}

pub(super) fn tombstones_delete_only_our_own(bench: &mut Bench) -> Result<()> {
    let shop = uid(&bench.see("namespace", "", "shop", |o| Ok(o.clone()))?);
    bench.run(
        &[wanted(namespace("shop")), wanted(deployment(3))],
        &[
            (&config("one", ""), DeleteMode::Delete),
            (&config("taken", ""), DeleteMode::Delete),
            (&config("theirs", ""), DeleteMode::Delete),
            (&widget(), DeleteMode::Release),
            (&definition(), DeleteMode::Release),
        ],
    )?;
    bench.see_gone("configmap", "shop", "one")?;
    bench.see("configmap", "shop", "taken", |o| {
        equal(&o["data"]["a"], &json!("ours"))?;
        equal(
            &o["metadata"]["labels"]["fleet.pinnace.dev/managed-by"],
            &Value::Null,
        )
    })?;
    bench.see("configmap", "shop", "theirs", |o| {
        equal(&o["data"]["a"], &json!("theirs"))
    })?;
    bench.see("widgets.example.org", "shop", "w", |o| {
        equal(&o["metadata"]["annotations"], &Value::Null)?;
        equal(&o["spec"]["size"], &json!(3))
    })?;
    bench.see("deployment", "shop", "web", |o| {
        equal(&o["spec"]["replicas"], &json!(3))
    })?;
    bench.see("namespace", "", "shop", |o| equal(&json!(uid(o)), &json!(shop)))
}

/// Killed between intent and apply, between apply and record, and after a delete: nothing is doubled, lost or taken
/// for foreign.
pub(super) fn crashes_settle(bench: &mut Bench) -> Result<()> {
    for (n, point) in ["intent-apply", "apply-record"].into_iter().enumerate() {
        let name = format!("crash{n}");
        bench.run(
            &[
                wanted(namespace("shop")),
                wanted(deployment(3)),
                wanted(config(&name, "1")),
            ],
            &[],
        )?;
        bench.see("configmap", "shop", &name, |o| {
            equal(&o["data"]["a"], &json!("1"))
        })?;
        bench.stop()?;
        bench.kubectl.run(&["-n", "shop", "delete", "configmap", &name])?;
        bench.start(&[("PINNACE_CRASH_AT", point)])?;
        let status = bench.agent.as_mut().context("started")?.wait_end(SOON)?;
        ensure!(!status.success(), "{point} was not reached");
        bench.agent = None;
        bench.start(&[])?;
        bench.see("configmap", "shop", &name, |o| {
            equal(&o["data"]["a"], &json!("1"))
        })?;
        wait::until("the object is recorded as created", SOON, || {
            let status = bench.status().map_err(|e| e.to_string())?;
            let line = format!("ConfigMap shop/{name}");
            let found = status["objects"]
                .as_array()
                .and_then(|all| all.iter().find(|o| o["object"] == line.as_str()));
            equal(&found.cloned().unwrap_or_default()["origin"], &json!("created"))
        })?;
    }
    Ok(())
}

pub(super) fn foreign_content_holds_a_namespace(bench: &mut Bench) -> Result<()> {
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "configmap", "theirs", "taken"])?;
    bench.kubectl.run(&[
        "-n",
        "shop",
        "create",
        "configmap",
        "precious",
        "--from-literal=a=1",
    ])?;
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "widgets.example.org", "w"])?;
    let all = [
        namespace("shop"),
        deployment(0),
        config("crash0", ""),
        config("crash1", ""),
    ];
    let buried: Vec<(&Value, DeleteMode)> = all.iter().map(|o| (o, DeleteMode::Delete)).collect();
    bench.run(&[], &buried)?;
    bench.see_gone("deployment", "shop", "web")?;
    wait::until("the deletion is held", SOON, || {
        let log = std::fs::read_to_string(&bench.log).map_err(|e| e.to_string())?;
        if log.contains("reason=ForeignContent") {
            Ok(())
        } else {
            Err("not yet".into())
        }
    })?;
    bench.see("configmap", "shop", "precious", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "configmap", "precious"])?;
    bench.see_gone("namespace", "", "shop")?;
    let (peak, now) = bench.memory()?;
    println!("resident: peak {peak} KiB, now {now} KiB");
    // The text of a program for development is larger; `cargo xtask bench agent` holds a release to 20 MiB.
    ensure!(peak <= 21 << 10, "peak resident memory is {peak} KiB");
    Ok(())
}

pub(super) fn another_cluster_is_left_alone(bench: &mut Bench) -> Result<()> {
    bench.stop()?;
    let mut enrolment = identity::load(&bench.data)?;
    enrolment.receipt.receipt.kube_system_uid = "another".into();
    std::fs::remove_file(bench.data.join("identity.json"))?;
    identity::save(&bench.data, &enrolment)?;
    bench.run(&[wanted(namespace("never"))], &[])?;
    wait::until("it says so", SOON, || {
        let log = std::fs::read_to_string(&bench.log).map_err(|e| e.to_string())?;
        if log.contains("reason=ClusterChanged") {
            Ok(())
        } else {
            Err("not yet".into())
        }
    })?;
    ensure!(
        bench.kubectl.get("namespace", "", "never")?.is_none(),
        "it acted on another cluster"
    );
    ensure!(bench.member.name().starts_with("agent-"), "the member is ours");
    bench.stop()
}
