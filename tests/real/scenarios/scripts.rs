//! Scripts of a customization: a kind without a rule of its own gets replicas, health and status from them, and the agent
//! has them after a power cut without the hub.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use interpreter::{Customization, Customized, Interpreter, Native};
use serde_json::{Value, json};
use shared::time::UnixSeconds;
use tests::real::fleet::{AGREE, Fleet};
use tests::real::wait;

use super::{World, manifests};

/// Scripts for ReplicationController, which no built-in rule knows.
const SCRIPTS: &str = r#"apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata:
  name: replication-controllers
spec:
  target:
    apiVersion: v1
    kind: ReplicationController
  customizations:
    replicaResource:
      luaScript: |
        local kube = require("kube")
        function GetReplicas(object)
          return object.spec.replicas, kube.accuratePodRequirements(object.spec.template)
        end
    replicaRevision:
      luaScript: |
        function ReviseReplica(object, count)
          object.spec.replicas = count
          return object
        end
    statusReflection:
      luaScript: |
        function ReflectStatus(object)
          if object.status == nil then return {} end
          return {ready = object.status.readyReplicas or 0, wanted = object.spec.replicas}
        end
    healthInterpretation:
      luaScript: |
        function InterpretHealth(object)
          return object.status ~= nil and object.status.readyReplicas == object.spec.replicas
        end
    statusAggregation:
      luaScript: |
        function AggregateStatus(template, items)
          local ready = 0
          for _, item in ipairs(items) do
            if item.status ~= nil then ready = ready + (item.status.ready or 0) end
          end
          template.status = {replicas = template.spec.replicas, readyReplicas = ready}
          return template
        end
    retention:
      luaScript: |
        function Retain(desired, observed)
          desired.spec.minReadySeconds = observed.spec.minReadySeconds
          return desired
        end
"#;

fn controller(namespace: &str, name: &str, replicas: u64) -> String {
    format!(
        "apiVersion: v1
kind: ReplicationController
metadata:
  name: {name}
  namespace: {namespace}
spec:
  replicas: {replicas}
  minReadySeconds: 1
  selector: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      containers:
      - name: main
        image: nginx:1.27
"
    )
}

fn policy(namespace: &str, name: &str, weights: &[(&str, u64)]) -> String {
    manifests::divide(namespace, name, weights)
        .replace("kind: Deployment", "kind: ReplicationController")
        .replace("apiVersion: apps/v1", "apiVersion: v1")
}

pub(crate) fn a_script_reads_a_kind_without_a_rule(world: &mut World) -> Result<()> {
    let namespace = world.fleet.random.name("press");
    let paper = world.fleet.random.name("paper");
    let clusters = world.clusters();
    let kubectl = world.fleet.kubectl();
    the_page_works_as_written(world)?;
    kubectl.apply(SCRIPTS)?;
    let bad = SCRIPTS
        .replace("replication-controllers", "bad")
        .replace("kind: ReplicationController", "kind: Other")
        .replace("return object\n", "return object return\n");
    let refused = kubectl
        .apply(&bad)
        .err()
        .context("a script that is no Lua was stored")?;
    ensure!(format!("{refused:#}").contains("luaScript"), "{refused:#}");
    kubectl.apply(&manifests::file(&[
        manifests::namespace(&namespace),
        policy(
            &namespace,
            &paper,
            &[(clusters[0].as_str(), 2), (clusters[1].as_str(), 1)],
        ),
        controller(&namespace, &paper, 6),
    ]))?;
    for (site, replicas) in [(0, 4), (1, 2)] {
        wait_replicas(&world.fleet, site, &namespace, &paper, replicas)?;
    }
    wait_status(&world.fleet, &namespace, &paper, 6)?;
    wait_health(&world.fleet, &namespace, &paper, &clusters[..2])?;

    // No hub, and the agent starts anew: what the script keeps is kept, everything else is repaired.
    world.fleet.hub.stop()?;
    world.fleet.sites[0].kill_agent()?;
    let patch = r#"{"spec":{"replicas":7,"minReadySeconds":9}}"#;
    let member = world.fleet.sites[0].kubectl();
    member.run(&[
        "patch", "rc", &paper, "-n", &namespace, "--type", "merge", "-p", patch,
    ])?;
    world.fleet.sites[0].start_agent(&[])?;
    wait_replicas(&world.fleet, 0, &namespace, &paper, 4)?;
    let object = world.fleet.sites[0]
        .kubectl()
        .get("rc", &namespace, &paper)?
        .context("it is gone")?;
    ensure!(
        object["spec"]["minReadySeconds"] == 9,
        "not retained: {}",
        object["spec"]
    );
    world.fleet.hub.start(&[])?;
    wait_health(&world.fleet, &namespace, &paper, &clusters[..2])?;

    // A script that hangs is named on its objects and costs nobody else.
    let hung = SCRIPTS.replace(
        "return object.status ~= nil",
        "while true do end return object.status ~= nil",
    );
    world.fleet.kubectl().apply(&hung)?;
    let hub = &world.fleet.hub;
    wait::until("why names the script", AGREE, || {
        let why = hub
            .pinnace(&["why", &format!("rc/{paper}"), "-n", &namespace])
            .map_err(|error| error.to_string())?;
        let named = why.contains("ScriptFailed") && why.contains("replication-controllers");
        if named { Ok(()) } else { Err(why) }
    })?;
    let fresh = world.fleet.random.name("fresh");
    let all: Vec<&str> = clusters.iter().map(String::as_str).collect();
    world.fleet.kubectl().apply(&manifests::file(&[
        manifests::duplicate(&namespace, &fresh, "v1", "ConfigMap", &fresh, &all),
        manifests::config_map(&namespace, &fresh, "hello"),
    ]))?;
    for site in 0..clusters.len() {
        world
            .fleet
            .wait_member(site, "configmap", &namespace, &fresh, |object| {
                object.map(drop).ok_or_else(|| "absent".to_owned())
            })?;
    }

    // Without the customization the scripts are gone everywhere, and an object of a kind without a rule is whole.
    let kubectl = world.fleet.kubectl();
    kubectl.run(&[
        "delete",
        "resourceinterpretercustomizations",
        "replication-controllers",
        "certificates",
    ])?;
    let works = |cluster: &str| format!("karmada-es-{cluster}");
    wait::until("the scripts are withdrawn", AGREE, || {
        let left = kubectl
            .list("works", &works(&clusters[0]))
            .map_err(|error| error.to_string())?;
        let left = left
            .iter()
            .filter(|work| {
                work["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .contains("replication-controllers")
            })
            .count();
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left} works"))
        }
    })?;
    for site in [0, 1] {
        wait_replicas(&world.fleet, site, &namespace, &paper, 6)?;
    }
    kubectl
        .run(&["delete", "namespace", &namespace, "--wait=false"])
        .map(drop)
}

fn wait_replicas(fleet: &Fleet, site: usize, namespace: &str, name: &str, replicas: u64) -> Result<()> {
    fleet.wait_member(site, "rc", namespace, name, |object| {
        let object = object.ok_or("absent")?;
        if object["spec"]["replicas"] == replicas && object["status"]["readyReplicas"] == replicas {
            Ok(())
        } else {
            Err(format!(
                "spec {} status {}",
                object["spec"]["replicas"], object["status"]
            ))
        }
    })
}

/// The template's own status, which only the script can have made.
fn wait_status(fleet: &Fleet, namespace: &str, name: &str, ready: u64) -> Result<()> {
    wait::until("the status of the template", AGREE, || {
        let object = fleet
            .kubectl()
            .get("rc", namespace, name)
            .map_err(|error| error.to_string())?
            .ok_or("absent")?;
        if object["status"] == json!({"replicas": ready, "readyReplicas": ready}) {
            Ok(())
        } else {
            Err(format!("status {}", object["status"]))
        }
    })
}

/// Every cluster's copy is Healthy, with the status that the script picked.
fn wait_health(fleet: &Fleet, namespace: &str, name: &str, clusters: &[String]) -> Result<()> {
    let binding = format!("{name}-replicationcontroller");
    wait::until("health in the binding", AGREE, || {
        let object = fleet
            .kubectl()
            .get("resourcebinding", namespace, &binding)
            .map_err(|error| error.to_string())?
            .ok_or("absent")?;
        let items = object["status"]["aggregatedStatus"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let well = |cluster: &String| {
            let said = |item: &&Value| item["clusterName"] == cluster.as_str();
            items.iter().find(said).is_some_and(|item| {
                item["health"] == "Healthy" && item["status"]["ready"] == item["status"]["wanted"]
            })
        };
        if clusters.iter().all(well) {
            Ok(())
        } else {
            Err(format!("{items:?}"))
        }
    })
}

/// The example of docs/interpreters.md is accepted by the hub, and its scripts do what the page says.
fn the_page_works_as_written(world: &World) -> Result<()> {
    let page = include_str!("../../../docs/interpreters.md");
    let example = page
        .split("```yaml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .context("no example on the page")?;
    let kubectl = world.fleet.kubectl();
    kubectl.apply(example)?;
    let stored = kubectl
        .get("resourceinterpretercustomizations", "", "certificates")?
        .context("it is not stored")?;
    let chain = Customized::new(Native::default(), Arc::new(|| UnixSeconds(0)));
    chain.replace(vec![Customization::read(&stored)?]);
    let certificate = |ready: &str, serial: Value| {
        json!({"apiVersion": "example.org/v1", "kind": "Certificate", "spec": {"serial": serial},
               "status": {"conditions": [{"type": "Ready", "status": ready}], "notAfter": "2027", "junk": 1}})
    };
    let (good, bad) = (certificate("True", json!(7)), certificate("False", Value::Null));
    ensure!(
        chain.interpret_health(&good)? && !chain.interpret_health(&bad)?,
        "health"
    );
    let status = chain.reflect_status(&good)?.context("no status")?;
    ensure!(
        status["notAfter"] == "2027" && status["junk"].is_null(),
        "reflection {status}"
    );
    ensure!(chain.retain(&bad, &good)?["spec"]["serial"] == 7, "retention");
    let items = ["a", "b"].map(|cluster| interpreter::MemberItem {
        cluster: cluster.to_owned(),
        status: Some(status.clone()),
        silent: false,
    });
    let merged = chain.aggregate_status(&bad, Some(&items), "2026-01-01T00:00:00Z")?;
    ensure!(merged == Some(json!({"issued": 2})), "aggregation {merged:?}");
    Ok(())
}
