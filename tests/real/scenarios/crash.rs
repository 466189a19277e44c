//! Check 4: the hub and an agent are killed under edits; every answered write is there, desired equals actual.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::real::process::binary;

use super::{World, manifests};

/// How long a process may take to reach a crash point that an edit leads to.
const REACHED: Duration = Duration::from_secs(60);

pub(crate) fn kills_lose_nothing(world: &mut World) -> Result<()> {
    let slow = std::env::var_os("PINNACE_SLOW").is_some();
    let mut round = 0;
    for point in crash_points("pinnace-hub")? {
        round += 1;
        world.fleet.hub.stop()?;
        world.fleet.hub.spawn(&[("PINNACE_CRASH_AT", &point)])?;
        // An edit that is answered must survive; one that is not answered may or may not be there.
        let name = world.fleet.random.name("crash");
        let answered = edit_until_answered_or_ended(world, &name, round)?;
        if point.starts_with("join.") {
            join_until_ended(world)?;
        } else {
            write_until_ended(world)?;
        }
        world
            .fleet
            .hub
            .wait_end(REACHED)
            .with_context(|| format!("crash point {point} of the hub"))?;
        world.fleet.hub.start(&[])?;
        if point.starts_with("join.") {
            // The lost answer burned nothing: the same agent joins with the same token.
            let site = &world.fleet.sites[0];
            tests::real::wait::until("the join that was cut short", REACHED, || {
                site.join_as(SPARE).map_err(|error| error.to_string())
            })?;
            world.fleet.hub.pinnace(&["cluster", "revoke", SPARE])?;
        }
        check_converges(world, &name, round, answered)
            .with_context(|| format!("after {point} of the hub"))?;
    }
    for point in crash_points("pinnace-agent")? {
        round += 1;
        world.fleet.sites[0].stop_agent()?;
        world.fleet.sites[0].start_agent(&[("PINNACE_CRASH_AT", &point)])?;
        let name = world.fleet.random.name("crash");
        apply(world, &name, round)?;
        if point.contains("delete") {
            // A deletion is what leads to these points.
            let victim = world.fleet.random.name("victim");
            apply(world, &victim, round)?;
            world
                .fleet
                .wait_member(1, "configmap", &world.namespace, &victim, present)?;
            delete_when_seen(world, &victim)?;
        }
        world.fleet.sites[0]
            .wait_agent_end(REACHED)
            .with_context(|| format!("crash point {point} of the agent"))?;
        world.fleet.sites[0].start_agent(&[])?;
        check_converges(world, &name, round, true).with_context(|| format!("after {point} of the agent"))?;
    }
    for _ in 0..if slow { 50 } else { 3 } {
        round += 1;
        let name = world.fleet.random.name("killed");
        apply(world, &name, round)?;
        let pause = Duration::from_millis(world.fleet.random.between(0, 400));
        std::thread::park_timeout(pause);
        world.fleet.hub.kill()?;
        world.fleet.hub.start(&[])?;
        let pause = Duration::from_millis(world.fleet.random.between(0, 400));
        std::thread::park_timeout(pause);
        world.fleet.sites[0].kill_agent()?;
        world.fleet.sites[0].start_agent(&[])?;
        check_converges(world, &name, round, true).with_context(|| format!("random kill, round {round}"))?;
    }
    Ok(())
}

/// Name under which a second agent of the first member joins.
const SPARE: &str = "spare";

/// Joins until the hub ends, which it does before it answers. A join that fails while the hub runs on (a busy machine lets
/// it run out of time) is repeated: it is not what the hub was to end at.
fn join_until_ended(world: &mut World) -> Result<()> {
    let fleet = &mut world.fleet;
    fleet.sites[0].prepare_join(SPARE, &fleet.hub)?;
    tests::real::wait::until("the end of the hub over a join", REACHED, || {
        let joined = fleet.sites[0].join_as(SPARE);
        match (joined, fleet.hub.has_ended()) {
            (Ok(()), _) => Ok(Err(anyhow::anyhow!(
                "the join was answered although the hub was to end before"
            ))),
            (Err(_), Ok(true)) => Ok(Ok(())),
            (Err(error), _) => Err(error.to_string()),
        }
    })?
}

/// A change of status and writes that fill the log, until the hub is gone or enough was written to reach every point
/// that writes lead to.
fn write_until_ended(world: &mut World) -> Result<()> {
    let target = format!("deployment/{}", world.duplicated);
    let image = format!("main=busybox:{}", world.fleet.random.next_u64());
    // Here and below, the answer may be lost with the hub: that is what is wanted.
    let _ = world
        .fleet
        .kubectl()
        .run(&["set", "image", &target, &image, "-n", &world.namespace]);
    for number in 0..24 {
        let quiet = Duration::from_millis(500);
        if tests::real::wait::until("the end of the hub", quiet, || {
            match world.fleet.hub.has_ended() {
                Ok(true) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .is_ok()
        {
            return Ok(());
        }
        let noise: String = (0..40_000)
            .map(|_| format!("{:016x}", world.fleet.random.next_u64()))
            .collect();
        let name = world.fleet.random.name(&format!("bulk-{number}"));
        let file = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {}}}\ndata: {{noise: {noise}}}\n",
            world.namespace
        );
        let _ = world.fleet.kubectl().with_input(&["create", "-f", "-"], &file);
    }
    Ok(())
}

fn present(object: Option<&serde_json::Value>) -> Result<(), String> {
    object.map(|_| ()).ok_or_else(|| "absent".into())
}

/// Names of the crash points that are compiled in.
fn crash_points(program: &str) -> Result<Vec<String>> {
    let output = Command::new(binary(program)?).arg("crash-points").output()?;
    ensure!(
        output.status.success(),
        "{program} crash-points: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names: Vec<String> = String::from_utf8(output.stdout)?
        .lines()
        .map(str::to_owned)
        .collect();
    ensure!(
        !names.is_empty(),
        "{program} has no crash points; is it a build for tests?"
    );
    Ok(names)
}

fn apply(world: &World, name: &str, round: u64) -> Result<()> {
    world
        .fleet
        .kubectl()
        .apply(&manifests::config_map(
            &world.namespace,
            name,
            &format!("round-{round}"),
        ))
        .map(|_| ())
}

/// Edits until one write is answered or the hub is gone; says whether one was answered.
fn edit_until_answered_or_ended(world: &mut World, name: &str, round: u64) -> Result<bool> {
    tests::real::wait::until("an answer from the hub, or its end", REACHED, || {
        if apply(world, name, round).is_ok() {
            return Ok(true);
        }
        match world.fleet.hub.has_ended() {
            Ok(true) => Ok(false),
            Ok(false) => Err("neither an answer nor an end".into()),
            Err(error) => Err(error.to_string()),
        }
    })
}

/// Deletes the ConfigMap once the first member has it, or at once when the agent there is down already.
fn delete_when_seen(world: &World, name: &str) -> Result<()> {
    world
        .fleet
        .wait_member(0, "configmap", &world.namespace, name, present)?;
    world
        .fleet
        .kubectl()
        .run(&["delete", "configmap", name, "-n", &world.namespace])
        .map(|_| ())
}

/// What was answered is on the hub, and all members come to hold exactly that.
fn check_converges(world: &World, name: &str, round: u64, answered: bool) -> Result<()> {
    let on_hub = world.fleet.kubectl().get("configmap", &world.namespace, name)?;
    ensure!(
        on_hub.is_some() || !answered,
        "the answered write of {name} is lost"
    );
    if on_hub.is_none() {
        apply(world, name, round)?;
    }
    for site in 0..3 {
        world
            .fleet
            .wait_member(site, "configmap", &world.namespace, name, |object| match object {
                Some(map) if map["data"]["greeting"] == format!("round-{round}") => Ok(()),
                other => Err(format!("{other:?}")),
            })?;
    }
    // A second edit goes all the way, so no sequence went back.
    let again = format!("round-{round}-again");
    world
        .fleet
        .kubectl()
        .apply(&manifests::config_map(&world.namespace, name, &again))?;
    for site in 0..3 {
        world
            .fleet
            .wait_member(site, "configmap", &world.namespace, name, |object| match object {
                Some(map) if map["data"]["greeting"] == again => Ok(()),
                other => Err(format!("{other:?}")),
            })?;
    }
    Ok(())
}
