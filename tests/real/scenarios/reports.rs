//! Field reports that arise between hub, agents and members. Each says which change of the code turns it red.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tests::real::fleet::AGREE;
use tests::real::wait;

use super::{World, ensure_unchanged, manifests};

/// Objects that are made and deleted again; 500 with PINNACE_SLOW.
const ROUNDS: u64 = 60;

/// Red if a work could be adopted from a template that is gone, or if a withdrawal before the first publish were lost:
/// the plan reads the template from the store, and adoption and withdrawal are rows of one transaction.
pub(crate) fn field_report_46_47_53_and_59_made_and_deleted_at_once_leaves_nothing(
    world: &mut World,
) -> Result<()> {
    let rounds = match std::env::var_os("PINNACE_SLOW") {
        Some(_) => 500,
        None => ROUNDS,
    };
    let pauses: Vec<u64> = (0..rounds).map(|_| world.fleet.random.between(0, 101)).collect();
    let kubeconfig = world.fleet.kubectl().kubeconfig().to_path_buf();
    let namespace = world.namespace.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let read = Kubeconfig::read_from(&kubeconfig)?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        // One connection, so that nothing but the hub orders the calls.
        let client = Client::try_from(config)?;
        let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
        let maps: Api<DynamicObject> =
            Api::namespaced_with(client, &namespace, &kube::api::ApiResource::from_gvk(&kind));
        for (n, pause) in pauses.iter().enumerate() {
            let name = format!("brief-{n}");
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "labels": {"part": "shop"}}, "data": {"n": n.to_string()}});
            maps.create(&PostParams::default(), &serde_json::from_value(object)?)
                .await?;
            tokio::time::sleep(Duration::from_millis(*pause)).await;
            maps.delete(&name, &DeleteParams::default()).await?;
        }
        anyhow::Ok(())
    })?;
    let left = |objects: Vec<Value>| {
        let name = |o: &Value| o["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let left: Vec<String> = objects
            .iter()
            .map(name)
            .filter(|name| name.starts_with("brief-"))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(" "))
        }
    };
    for site in &world.fleet.sites {
        wait::until(&format!("nothing is left in {}", site.name()), AGREE, || {
            left(
                site.kubectl()
                    .list("configmaps", &namespace)
                    .map_err(|e| e.to_string())?,
            )
        })?;
        let works = format!("karmada-es-{}", site.name());
        left(world.fleet.kubectl().list("works", &works)?).map_err(anyhow::Error::msg)?;
    }
    left(world.fleet.kubectl().list("resourcebindings", &namespace)?).map_err(anyhow::Error::msg)
}

/// Red if planning after a start asked only what templates exist, not what clusters hold.
pub(crate) fn field_report_49_and_140_what_is_deleted_while_nobody_acts_goes(
    world: &mut World,
) -> Result<()> {
    let namespace = world.namespace.clone();
    let name = world.fleet.random.name("unseen");
    world
        .fleet
        .kubectl()
        .apply(&manifests::config_map(&namespace, &name, "hello"))?;
    let present = |object: Option<&Value>| object.map(drop).ok_or_else(|| "absent".to_owned());
    for site in 0..3 {
        world
            .fleet
            .wait_member(site, "configmap", &namespace, &name, present)?;
    }
    world.fleet.sites[0].stop_agent()?;
    world
        .fleet
        .kubectl()
        .run(&["delete", "configmap", &name, "-n", &namespace, "--wait=false"])?;
    world.fleet.hub.kill()?;
    world.fleet.hub.start(&[])?;
    for site in 1..3 {
        world.fleet.wait_gone(site, "configmap", &namespace, &name)?;
    }
    let kept = world.fleet.sites[0]
        .kubectl()
        .get("configmap", &namespace, &name)?;
    ensure!(kept.is_some(), "nobody was there to delete it");
    world.fleet.sites[0].start_agent(&[])?;
    world.fleet.wait_gone(0, "configmap", &namespace, &name)
}

/// Red if garbage collection on the hub deleted otherwise than a user does, or works followed only users' deletions.
pub(crate) fn field_report_52_what_the_hub_collects_goes_in_members_too(world: &mut World) -> Result<()> {
    let namespace = world.namespace.clone();
    let (parent, child) = (
        world.fleet.random.name("parent"),
        world.fleet.random.name("child"),
    );
    let kubectl = world.fleet.kubectl();
    kubectl.run(&["create", "secret", "generic", &parent, "-n", &namespace])?;
    let owner = kubectl
        .get("secret", &namespace, &parent)?
        .context("the parent")?;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": child, "namespace": namespace,
        "labels": {"part": "shop"}, "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": parent,
            "uid": owner["metadata"]["uid"]}]}, "data": {"greeting": "hello"}});
    kubectl.apply(&object.to_string())?;
    world
        .fleet
        .wait_member(0, "configmap", &namespace, &child, |object| {
            let object = object.ok_or("absent")?;
            // The owner is on the hub only: the member's own collector would delete the object.
            match object["metadata"]["ownerReferences"].is_null() {
                true => Ok(()),
                false => Err(object["metadata"].to_string()),
            }
        })?;
    world
        .fleet
        .kubectl()
        .run(&["delete", "secret", &parent, "-n", &namespace])?;
    for site in 0..3 {
        world.fleet.wait_gone(site, "configmap", &namespace, &child)?;
    }
    Ok(())
}

/// Red if anything were deleted for being absent: from a message, a cache that is not filled, a hub that just starts.
pub(crate) fn field_report_136_137_138_and_141_losing_contact_deletes_nothing(
    world: &mut World,
) -> Result<()> {
    let clusters = world.clusters();
    let before: Vec<_> = (0..3).map(|site| world.uids(site)).collect::<Result<_>>()?;
    ensure!(
        before.iter().all(|uids| !uids.is_empty()),
        "there is nothing to lose"
    );
    world.fleet.sites[0].cut()?;
    world.fleet.sites[1].kill_agent()?;
    for _ in 0..5 {
        world.fleet.hub.kill()?;
        world.fleet.hub.start(&[])?;
    }
    world.fleet.sites[0].kill_agent()?;
    world.fleet.sites[0].start_agent(&[])?;
    world.fleet.sites[0].heal()?;
    world.fleet.sites[1].start_agent(&[])?;
    // An edit that arrives everywhere says that all are together again.
    let greeting = world.fleet.random.name("together");
    let map = manifests::config_map(&world.namespace, &world.config, &greeting);
    world.fleet.kubectl().apply(&map)?;
    for site in 0..3 {
        world
            .fleet
            .wait_member(site, "configmap", &world.namespace, &world.config, |object| {
                let object = object.ok_or("absent")?;
                match object["data"]["greeting"] == greeting.as_str() {
                    true => Ok(()),
                    false => Err(object["data"].to_string()),
                }
            })?;
    }
    for (site, uids) in before.iter().enumerate() {
        ensure_unchanged(&clusters[site], uids, &world.uids(site)?)?;
    }
    world
        .fleet
        .kubectl()
        .apply(&manifests::config_map(&world.namespace, &world.config, "hello"))?;
    for site in 0..3 {
        world.fleet.wait_member(
            site,
            "configmap",
            &world.namespace,
            &world.config,
            |object| match object.is_some_and(|o| o["data"]["greeting"] == "hello") {
                true => Ok(()),
                false => Err("not yet".into()),
            },
        )?;
    }
    Ok(())
}

/// What an agent may not delete is named on the hub though template and binding are gone. Red if reports about
/// tombstones were dropped (`store::fleet::undone`), or `why` needed the template.
pub(crate) fn a_held_deletion_is_shown_though_its_template_is_gone(world: &mut World) -> Result<()> {
    let name = world.fleet.random.name("crowded");
    let site = world.fleet.sites[0].name().to_owned();
    world.fleet.kubectl().run(&["create", "namespace", &name])?;
    world.fleet.wait_member(0, "namespace", "", &name, |o| {
        o.map(drop).ok_or_else(|| "absent".to_owned())
    })?;
    world.fleet.sites[0].kubectl().run(&[
        "-n",
        &name,
        "create",
        "configmap",
        "theirs",
        "--from-literal=a=1",
    ])?;
    world.fleet.kubectl().run(&["delete", "namespace", &name])?;
    let target = format!("namespace/{name}");
    wait::until("why names what holds the deletion", AGREE, || {
        let why = world
            .fleet
            .hub
            .pinnace(&["why", &target])
            .map_err(|e| e.to_string())?;
        match why.contains("ForeignContent") && why.contains("theirs") {
            true => Ok(()),
            false => Err(why),
        }
    })?;
    let why = world.fleet.hub.pinnace(&["why", &format!("cluster/{site}")])?;
    ensure!(why.contains(&format!("not deleted: Namespace {name}")), "{why}");
    let shown = |world: &World| -> Result<Option<Value>> {
        let cluster = world
            .fleet
            .kubectl()
            .get("cluster", "", &site)?
            .context("the cluster")?;
        let conditions = cluster["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        Ok(conditions.into_iter().find(|c| c["type"] == "DeletionHeld"))
    };
    let condition = shown(world)?.context("no condition DeletionHeld")?;
    ensure!(condition["reason"] == "ForeignContent", "{condition}");
    world.fleet.sites[0]
        .kubectl()
        .run(&["-n", &name, "delete", "configmap", "theirs"])?;
    for site in 0..3 {
        world.fleet.wait_gone(site, "namespace", "", &name)?;
    }
    wait::until("the condition goes", AGREE, || match shown(world) {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    let gone = world.fleet.hub.pinnace(&["why", &target]);
    ensure!(gone.is_err(), "there is nothing to tell any more: {gone:?}");
    Ok(())
}
