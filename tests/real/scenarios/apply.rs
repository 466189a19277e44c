//! Check 1: a file of many documents over three members.

use anyhow::{Result, ensure};

use super::{World, manifests};

/// Registry that the override puts before the image in the second member.
pub(crate) const REGISTRY: &str = "registry.second.example.com";

pub(crate) fn one_file_over_three_members(world: &mut World) -> Result<()> {
    let share = world.fleet.random.between(1, 3);
    let copies = world.fleet.random.between(1, 3);
    let total = 3 * share;
    let clusters = world.clusters();
    let all: Vec<&str> = clusters.iter().map(String::as_str).collect();
    let namespace = world.namespace.clone();
    let file = manifests::file(&[
        manifests::namespace(&namespace),
        manifests::by_label(&namespace, "settings"),
        manifests::divide(&namespace, &world.divided, &[(all[0], 2), (all[1], 1)]),
        manifests::duplicate(
            &namespace,
            "everywhere",
            "apps/v1",
            "Deployment",
            &world.duplicated,
            &all,
        ),
        manifests::override_registry(&namespace, &world.divided, all[1], REGISTRY),
        manifests::config_map(&namespace, &world.config, "hello"),
        manifests::deployment(&namespace, &world.divided, total, "nginx:1.27"),
        manifests::deployment(&namespace, &world.duplicated, copies, "busybox:1.36"),
        manifests::service(&namespace, &world.divided),
    ]);
    let printed = world.fleet.kubectl().apply(&file)?;
    ensure!(
        printed.matches(" created").count() == 9,
        "not all nine were created:\n{printed}"
    );

    world.wait_deployment(0, &world.divided, 2 * share, "nginx:1.27")?;
    world.wait_deployment(1, &world.divided, share, &format!("{REGISTRY}/nginx:1.27"))?;
    for site in 0..3 {
        world.wait_deployment(site, &world.duplicated, copies, "busybox:1.36")?;
        world.fleet.wait_member(
            site,
            "configmap",
            &namespace,
            &world.config,
            |object| match object {
                Some(object) if object["data"]["greeting"] == "hello" => Ok(()),
                other => Err(format!("{other:?}")),
            },
        )?;
        world.fleet.wait_member(
            site,
            "service",
            &namespace,
            &world.divided,
            |object| match object {
                Some(object) if object["spec"]["ports"][0]["port"] == 80 => Ok(()),
                other => Err(format!("{other:?}")),
            },
        )?;
    }
    let elsewhere = world.fleet.sites[2]
        .kubectl()
        .get("deployment", &namespace, &world.divided)?;
    ensure!(
        elsewhere.is_none(),
        "the divided Deployment is in a member that the policy does not name"
    );

    world.wait_hub_status(&world.divided, total)?;
    world.wait_hub_status(&world.duplicated, 3 * copies)?;
    let kubectl = world.fleet.kubectl();
    for name in [&world.divided, &world.duplicated] {
        let target = format!("deployment/{name}");
        kubectl.run(&["rollout", "status", &target, "-n", &namespace, "--timeout=60s"])?;
        kubectl.run(&[
            "wait",
            "--for=condition=Available",
            &target,
            "-n",
            &namespace,
            "--timeout=60s",
        ])?;
    }
    let why =
        world
            .fleet
            .hub
            .pinnace(&["why", &format!("deployment/{}", world.divided), "-n", &namespace])?;
    for word in [world.divided.as_str(), all[0], all[1]] {
        ensure!(why.contains(word), "`pinnace why` does not name {word}:\n{why}");
    }
    let binding = format!("{}-deployment", world.divided);
    let columns = kubectl.run(&["get", "resourcebinding", &binding, "-n", &namespace])?;
    ensure!(
        columns.contains("SCHEDULED") && columns.contains("True"),
        "columns of the binding:\n{columns}"
    );
    let works = kubectl.list("work", &format!("karmada-es-{}", all[1]))?;
    ensure!(
        works.iter().any(
            |work| work["spec"]["workload"]["manifests"][0]["metadata"]["name"] == world.divided.as_str()
        ),
        "no Work of the divided Deployment in karmada-es-{}",
        all[1]
    );
    Ok(())
}
