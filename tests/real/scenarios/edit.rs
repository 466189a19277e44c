//! Check 2: edits of image, replicas and policy move only what they name.

use anyhow::{Result, ensure};

use super::apply::REGISTRY;
use super::{World, ensure_unchanged, manifests};

pub(crate) fn edits_move_only_what_they_name(world: &mut World) -> Result<()> {
    // The copy is for the scenario of the restored hub.
    world.fleet.hub.stop()?;
    let saved = world.fleet.folder().join("hub-saved");
    super::restore::copy_folder(world.fleet.hub.data(), &saved)?;
    world.saved_hub = Some(saved);
    world.fleet.hub.start(&[])?;

    let before: Vec<_> = (0..3).map(|site| world.uids(site)).collect::<Result<_>>()?;
    let share = world.fleet.random.between(2, 4);
    let total = 3 * share;
    let clusters = world.clusters();
    let namespace = world.namespace.clone();
    let kubectl = world.fleet.kubectl();
    let target = format!("deployment/{}", world.divided);
    kubectl.run(&["set", "image", &target, "main=nginx:1.28", "-n", &namespace])?;
    kubectl.run(&["scale", &target, &format!("--replicas={total}"), "-n", &namespace])?;
    world.wait_deployment(0, &world.divided, 2 * share, "nginx:1.28")?;
    world.wait_deployment(1, &world.divided, share, &format!("{REGISTRY}/nginx:1.28"))?;
    kubectl.run(&["rollout", "status", &target, "-n", &namespace, "--timeout=90s"])?;
    world.wait_hub_status(&world.divided, total)?;

    // One cluster leaves the policy: its copy goes, and nothing else anywhere.
    kubectl.apply(&manifests::duplicate(
        &namespace,
        "everywhere",
        "apps/v1",
        "Deployment",
        &world.duplicated,
        &[&clusters[0], &clusters[1]],
    ))?;
    world
        .fleet
        .wait_gone(2, "deployment", &namespace, &world.duplicated)?;
    for (site, mut uids) in before.into_iter().enumerate() {
        if site == 2 {
            let gone = uids.remove(&format!("deployments/{}", world.duplicated));
            ensure!(
                gone.is_some(),
                "the duplicated Deployment was not in the third member"
            );
        }
        ensure_unchanged(&clusters[site], &uids, &world.uids(site)?)?;
    }
    Ok(())
}
