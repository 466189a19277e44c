//! Check 5: a hub whose directory was copied back from an earlier day makes no agent go backwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tests::real::fleet::AGREE;
use tests::real::wait;

use super::{World, ensure_unchanged};

pub(crate) fn a_restored_hub_touches_nothing(world: &mut World) -> Result<()> {
    let saved = world
        .saved_hub
        .clone()
        .context("an earlier scenario saves the hub's directory")?;
    let clusters = world.clusters();
    let truth: Vec<_> = (0..3).map(|site| contents(world, site)).collect::<Result<_>>()?;
    let uids: Vec<_> = (0..3).map(|site| world.uids(site)).collect::<Result<_>>()?;

    world.fleet.hub.stop()?;
    let data = world.fleet.hub.data().to_path_buf();
    std::fs::remove_dir_all(&data)?;
    copy_folder(&saved, &data)?;
    world.fleet.hub.start(&[])?;

    for cluster in &clusters {
        wait::until(&format!("HubBehind is shown for {cluster}"), AGREE, || {
            let list = world
                .fleet
                .hub
                .pinnace(&["cluster", "list"])
                .map_err(|error| error.to_string())?;
            let line = list
                .lines()
                .find(|line| line.contains(cluster.as_str()))
                .unwrap_or_default();
            if line.contains("HubBehind") {
                Ok(())
            } else {
                Err(list.clone())
            }
        })?;
    }
    wait::throughout(
        "no member object changes while the hub is behind",
        Duration::from_secs(10),
        || {
            for (site, before) in truth.iter().enumerate() {
                let now = contents(world, site).map_err(|error| error.to_string())?;
                if now != *before {
                    return Err(format!("{} changed:\n{before:?}\n{now:?}", clusters[site]));
                }
            }
            Ok(())
        },
    )?;

    // The person decides: the hub wins, but in the last one nothing is to be deleted. Then they follow the hub again.
    let keeps = clusters.len() - 1;
    for (site, cluster) in clusters.iter().enumerate() {
        let how = if site == keeps {
            "--keep-member"
        } else {
            "--push-hub"
        };
        world.fleet.hub.pinnace(&["cluster", "reconcile", cluster, how])?;
    }
    for site in 0..3 {
        world.fleet.wait_member(
            site,
            "configmap",
            &world.namespace,
            &world.config,
            |object| match object {
                Some(map) if map["data"]["greeting"] == "hello" => Ok(()),
                Some(map) => Err(format!("data {}", map["data"])),
                None => Err("absent".into()),
            },
        )?;
        // What the hub of that day knew was never replaced; what it did not know is ordered away.
        let known = [&world.divided, &world.duplicated, &world.config];
        let (kept, unknown): (BTreeMap<_, _>, BTreeMap<_, _>) =
            uids[site].clone().into_iter().partition(|(key, _)| {
                key.split_once('/')
                    .is_some_and(|(_, name)| known.iter().any(|known| *known == name))
            });
        ensure!(
            !kept.is_empty(),
            "{} held nothing that the hub knew",
            clusters[site]
        );
        for key in unknown.keys().filter(|key| key.starts_with("configmaps/crash-")) {
            let name = key.trim_start_matches("configmaps/");
            if site == keeps {
                world.fleet.wait_member(
                    site,
                    "configmap",
                    &world.namespace,
                    name,
                    |object| match object {
                        Some(o) if o["metadata"]["labels"]["fleet.pinnace.dev/managed-by"].is_null() => {
                            Ok(())
                        }
                        Some(_) => Err("still managed".into()),
                        None => Err("deleted".into()),
                    },
                )?;
            } else {
                world.fleet.wait_gone(site, "configmap", &world.namespace, name)?;
            }
        }
        let kept = if site == keeps { &uids[site] } else { &kept };
        ensure_unchanged(&clusters[site], kept, &world.uids(site)?)?;
    }
    ensure!(
        world.fleet.sites[2]
            .kubectl()
            .get("namespace", "", &world.namespace)?
            .is_some(),
        "the namespace went away"
    );
    Ok(())
}

/// Spec and data of our objects in a member: what must not change.
fn contents(world: &World, site: usize) -> Result<Vec<(String, Value)>> {
    let mut all = Vec::new();
    for kind in ["deployments", "configmaps", "services"] {
        for object in world.fleet.sites[site].kubectl().list(kind, &world.namespace)? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            let content = serde_json::json!({"spec": object["spec"], "data": object["data"]});
            all.push((format!("{kind}/{name} {uid}"), content));
        }
    }
    Ok(all)
}

/// Copies a folder with everything in it, permissions included.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
