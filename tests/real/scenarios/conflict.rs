//! Check 6, first half: an object of the same name that somebody else made is named as a conflict and not touched.

use anyhow::{Context, Result, ensure};
use tests::real::fleet::AGREE;
use tests::real::wait;

use super::{World, manifests};

pub(crate) fn a_foreign_object_is_named_and_untouched(world: &mut World) -> Result<()> {
    let namespace = world.namespace.clone();
    let clusters = world.clusters();
    let name = world.fleet.random.name("taken");
    let member = world.fleet.sites[1].kubectl();
    member.apply(&manifests::config_map(&namespace, &name, "made-in-the-shop"))?;
    let foreign = member
        .get("configmap", &namespace, &name)?
        .context("the foreign ConfigMap")?;

    world
        .fleet
        .kubectl()
        .apply(&manifests::config_map(&namespace, &name, "from-the-hub"))?;
    for site in [0, 2] {
        world
            .fleet
            .wait_member(site, "configmap", &namespace, &name, |object| match object {
                Some(map) if map["data"]["greeting"] == "from-the-hub" => Ok(()),
                other => Err(format!("{other:?}")),
            })?;
    }
    let binding = format!("{name}-configmap");
    wait::until("the conflict is named on the binding", AGREE, || {
        let object = world
            .fleet
            .kubectl()
            .get("resourcebinding", &namespace, &binding)
            .map_err(|error| error.to_string())?
            .ok_or("no binding")?;
        let items = object["status"]["aggregatedStatus"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let item = items
            .iter()
            .find(|item| item["clusterName"] == clusters[1].as_str());
        match item {
            Some(item)
                if item["applied"] != true
                    && item["appliedMessage"]
                        .as_str()
                        .is_some_and(|text| text.contains("Conflict")) =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })?;
    let why = world
        .fleet
        .hub
        .pinnace(&["why", &format!("configmap/{name}"), "-n", &namespace])?;
    ensure!(
        why.contains("Conflict"),
        "`pinnace why` does not name the conflict:\n{why}"
    );
    let after = world.fleet.sites[1]
        .kubectl()
        .get("configmap", &namespace, &name)?
        .context("it is gone")?;
    ensure!(
        after["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"],
        "the foreign object was touched:\n{foreign}\n{after}"
    );

    // Withdrawn again, the foreign object stays.
    world
        .fleet
        .kubectl()
        .run(&["delete", "configmap", &name, "-n", &namespace])?;
    for site in [0, 2] {
        world.fleet.wait_gone(site, "configmap", &namespace, &name)?;
    }
    let after = world.fleet.sites[1]
        .kubectl()
        .get("configmap", &namespace, &name)?
        .context("it was deleted")?;
    ensure!(
        after["metadata"]["uid"] == foreign["metadata"]["uid"],
        "the foreign object was replaced"
    );
    Ok(())
}
