//! Commands that work without a hub.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use shared::set::ConflictResolution;
use tests::real::wait;

use super::bench::*;

/// Follows the story in which the enrolment names another cluster.
pub(super) fn rebind_accepts_another_cluster(bench: &mut Bench) -> Result<()> {
    let said = bench.agent_says(&["rebind"])?;
    ensure!(said.contains("instead of another"), "{said}");
    bench.run(&[wanted(namespace("shop")), wanted(config("rebound", "1"))], &[])?;
    bench.see("configmap", "shop", "rebound", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    let refused = bench.agent_refuses(&["rebind"])?;
    ensure!(
        refused.contains("stop it first"),
        "beside a running agent: {refused}"
    );
    Ok(())
}

pub(super) fn doctor_finds_what_is_wrong(bench: &mut Bench) -> Result<()> {
    let findings = |text: &str| -> Result<Vec<Value>> { Ok(serde_json::from_str(text)?) };
    bench.run(&[wanted(namespace("shop")), wanted(config("well", "1"))], &[])?;
    bench.see("configmap", "shop", "well", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    bench.no_problem("ConfigMap shop/well")?;
    wait::until("all is well", SOON, || {
        bench.agent_says(&["doctor"]).map(drop).map_err(|e| e.to_string())
    })?;
    let ledger = bench.data.join("ledger.db");
    bench.stop()?;
    let whole = std::fs::read(&ledger)?;
    let mut broken = whole.clone();
    for byte in broken.iter_mut().skip(4096).step_by(97) {
        *byte ^= 0x55;
    }
    std::fs::write(&ledger, &broken)?;
    let all = findings(&bench.agent_prints_and_fails(&["doctor", "--json"])?)?;
    let bad: Vec<&Value> = all.iter().filter(|f| f["good"] == false).collect();
    ensure!(bad.iter().any(|f| f["what"] == "ledger"), "{all:?}");
    std::fs::write(&ledger, &whole)?;
    bench.agent_says(&["doctor"]).map(drop)
}

/// F58 for what is ours. Red if `leave` deleted, or left marks behind by which a later agent would claim the objects.
pub(super) fn leave_keeps_the_workloads(bench: &mut Bench) -> Result<()> {
    let before = bench.see("configmap", "shop", "rebound", |o| Ok(o.clone()))?;
    bench.stop()?;
    let said = bench.agent_says(&["leave"])?;
    ensure!(said.contains("left the fleet"), "{said}");
    bench.see("configmap", "shop", "rebound", |o| {
        equal(&json!(uid(o)), &json!(uid(&before)))?;
        equal(&o["metadata"]["labels"], &Value::Null)?;
        equal(&o["metadata"]["annotations"], &Value::Null)?;
        equal(&o["data"]["a"], &json!("1"))
    })?;
    let marked = bench.kubectl.run(&[
        "get",
        "configmaps,deployments,services,namespaces",
        "-A",
        "-l",
        "fleet.pinnace.dev/managed-by",
        "-o",
        "name",
    ])?;
    ensure!(marked.trim().is_empty(), "marks are left on {marked}");
    let refused = bench.agent_refuses(&["status"])?;
    ensure!(refused.contains("no enrolment"), "{refused}");
    bench
        .kubectl
        .get("namespace", "", "shop")?
        .context("the namespace went")?;
    Ok(())
}

/// The commands of `docs/agent.md`, as they stand there.
pub(super) fn the_page_about_the_agent_works_as_written(bench: &mut Bench) -> Result<()> {
    bench.enrol_again()?;
    // The namespace was released by the `leave` before: it is taken over, or doctor would find a conflict.
    let mut shop = wanted(namespace("shop"));
    shop.conflict = ConflictResolution::Overwrite;
    bench.run(&[shop, wanted(config("again", "1"))], &[])?;
    bench.see("configmap", "shop", "again", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    bench.stop()?;
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/agent.md"))?;
    let mut script = String::from("set -euo pipefail\n");
    let mut inside = false;
    for line in page.lines() {
        match (inside, line) {
            (false, "```sh") => inside = true,
            (true, "```") => inside = false,
            (true, line) => script.push_str(&format!("{line}\n")),
            (false, _) => {}
        }
    }
    let output = bench.shell(&script)?;
    ensure!(output.contains("bound already"), "{output}");
    ensure!(output.contains("left the fleet"), "{output}");
    Ok(())
}
