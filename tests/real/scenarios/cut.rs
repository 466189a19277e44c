//! Check 3: a member without a link, without a hub, and after a power cut, keeps and repairs its workload; healed,
//! it has the newest content and nobody else's objects were replaced.

use anyhow::{Result, ensure};

use super::{World, ensure_unchanged, manifests};

/// Field reports F139 and F142. Red if a start waited for the hub, or if what was deleted meanwhile were not in the next set.
pub(crate) fn a_cut_member_lives_and_catches_up(world: &mut World) -> Result<()> {
    let namespace = world.namespace.clone();
    let clusters = world.clusters();
    let all: Vec<&str> = clusters.iter().map(String::as_str).collect();
    let doomed = world.fleet.random.name("doomed");
    world.fleet.kubectl().apply(&manifests::file(&[
        manifests::duplicate(&namespace, &doomed, "apps/v1", "Deployment", &doomed, &all),
        manifests::deployment(&namespace, &doomed, 1, "nginx:1.27"),
    ]))?;
    for site in 0..3 {
        world.wait_deployment(site, &doomed, 1, "nginx:1.27")?;
    }
    let before: Vec<_> = (0..3).map(|site| world.uids(site)).collect::<Result<_>>()?;

    // Cut the first member, edit, delete: the others follow, the cut one keeps what it has.
    world.fleet.sites[0].cut()?;
    let kubectl = world.fleet.kubectl();
    let greeting = world.fleet.random.clone().name("edited");
    kubectl.apply(&manifests::config_map(&namespace, &world.config, &greeting))?;
    kubectl.run(&["delete", "deployment", &doomed, "-n", &namespace, "--wait=false"])?;
    for site in 1..3 {
        world.fleet.wait_gone(site, "deployment", &namespace, &doomed)?;
        wait_greeting(world, site, &greeting)?;
    }
    let kept = world.fleet.sites[0]
        .kubectl()
        .get("deployment", &namespace, &doomed)?;
    ensure!(kept.is_some(), "the cut member lost its workload");
    let kept = world.fleet.sites[0]
        .kubectl()
        .get("configmap", &namespace, &world.config)?;
    ensure!(
        kept.is_some_and(|map| map["data"]["greeting"] == "hello"),
        "the cut member's ConfigMap changed"
    );

    // Power cut of the agent, no hub at all, and somebody deletes one of our objects by hand.
    world.fleet.sites[0].kill_agent()?;
    world.fleet.hub.stop()?;
    world.fleet.sites[0]
        .kubectl()
        .run(&["delete", "configmap", &world.config, "-n", &namespace])?;
    world.fleet.sites[0].start_agent(&[])?;
    wait_greeting(world, 0, "hello")?;

    // Back together: newest content, the deletion happens, no other uid changed.
    world.fleet.hub.start(&[])?;
    world.fleet.sites[0].heal()?;
    wait_greeting(world, 0, &greeting)?;
    world.fleet.wait_gone(0, "deployment", &namespace, &doomed)?;
    for (site, mut uids) in before.into_iter().enumerate() {
        uids.remove(&format!("deployments/{doomed}"));
        if site == 0 {
            uids.remove(&format!("configmaps/{}", world.config));
        }
        ensure_unchanged(&clusters[site], &uids, &world.uids(site)?)?;
    }
    Ok(())
}

fn wait_greeting(world: &World, site: usize, greeting: &str) -> Result<()> {
    world.fleet.wait_member(
        site,
        "configmap",
        &world.namespace,
        &world.config,
        |object| match object {
            Some(map) if map["data"]["greeting"] == greeting => Ok(()),
            Some(map) => Err(format!("data {}", map["data"])),
            None => Err("absent".into()),
        },
    )
}
