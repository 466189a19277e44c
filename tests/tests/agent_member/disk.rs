//! A ledger whose disk is full, or whose file was torn by a power cut or is damaged.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use shared::set::DeleteMode;
use tests::real::disk::Disk;
use tests::real::wait;

use super::bench::*;

fn map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
        "data": {"a": "1"}})
}

fn is_there(bench: &Bench, namespace: &str, name: &str) -> Result<String> {
    bench.see("configmap", namespace, name, |o| {
        equal(&o["data"]["a"], &json!("1"))?;
        Ok(uid(o))
    })
}

fn drift(bench: &Bench, namespace: &str, name: &str) -> Result<()> {
    let patch = r#"{"data":{"a":"9"}}"#;
    bench
        .kubectl
        .run(&[
            "-n",
            namespace,
            "patch",
            "configmap",
            name,
            "--type=merge",
            "-p",
            patch,
        ])
        .map(drop)
}

/// Runs a story with a copy of the data directory elsewhere, and puts everything back: the namespace of the story
/// goes, so that the ledger of the other stories meets nothing that it does not know.
fn with_other_data(
    bench: &mut Bench,
    folder: &std::path::Path,
    namespace: &str,
    story: impl FnOnce(&mut Bench) -> Result<()>,
) -> Result<()> {
    bench.stop()?;
    let home = bench.move_data(folder)?;
    let told = story(bench);
    bench.agent = None;
    bench.data = home;
    bench
        .kubectl
        .run(&["delete", "namespace", namespace, "--ignore-not-found"])?;
    told
}

/// Design, section 8: repairs go on, creates wait. Red without `Owed` (a start on a full disk ended at once), with a
/// long pause for `DiskFull` in `pace::ceiling`, or if an intent that could not be written did not hold its create.
pub(super) fn a_full_disk_delays_creates_alone(bench: &mut Bench) -> Result<()> {
    let folder = bench.folder().join("full");
    std::fs::create_dir_all(&folder)?;
    let disk = Disk::mount(&folder, 8)?;
    with_other_data(bench, &disk.path().join("agent"), "full", |bench| {
        let kept = || [wanted(namespace("full")), wanted(map("full", "kept"))];
        bench.run(&kept(), &[])?;
        is_there(bench, "full", "kept")?;
        bench.stop()?;
        let more: Vec<String> = (0..10).map(|n| format!("new-{n}")).collect();
        let mut wants = Vec::from(kept());
        wants.extend(more.iter().map(|name| wanted(map("full", name))));
        bench.put(&wants, &[])?;
        // It must have its ledger open before the disk is full, and nothing to do before that.
        bench.cut()?;
        let seen = bench.log_length()?;
        bench.start(&[])?;
        bench.logged(seen, "the member does not answer")?;
        disk.fill()?;
        let seen = bench.log_length()?;
        bench.heal()?;
        bench.logged(seen, "reason=DiskFull")?;
        drift(bench, "full", "kept")?;
        is_there(bench, "full", "kept").context("repaired on a full disk")?;
        let none = |bench: &Bench| -> Result<()> {
            let all = bench.kubectl.list("configmap", "full")?;
            let created = all.iter().find(|o| {
                o["metadata"]["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with("new-"))
            });
            ensure!(created.is_none(), "created without an intent: {created:?}");
            Ok(())
        };
        none(bench)?;
        bench.kill()?;
        let seen = bench.log_length()?;
        bench.start(&[])?;
        bench.logged(seen, "reason=DiskFull")?;
        drift(bench, "full", "kept")?;
        is_there(bench, "full", "kept").context("repaired after a power cut on a full disk")?;
        none(bench)?;
        disk.free()?;
        for name in &more {
            is_there(bench, "full", name).context("created when there was room again, without a restart")?;
        }
        bench.no_problem("ConfigMap full/new-0")?;
        let process = bench.agent.as_mut().context("it runs")?;
        ensure!(process.ended()?.is_none(), "the agent ended");
        bench.stop()
    })
}

/// A power cut that tears the end of the ledger's log, anywhere. Red if an object whose record was lost were created
/// again, deleted, or left alone as another's for good.
pub(super) fn a_torn_ledger_loses_no_object(bench: &mut Bench) -> Result<()> {
    let folder = bench.folder().join("torn");
    with_other_data(bench, &folder, "torn", |bench| {
        let names: Vec<String> = (0..6).map(|n| format!("torn-{n}")).collect();
        let mut wants = vec![wanted(namespace("torn"))];
        wants.extend(names.iter().map(|name| wanted(map("torn", name))));
        bench.run(&wants, &[])?;
        let mut before = Vec::new();
        for name in &names {
            before.push(is_there(bench, "torn", name)?);
        }
        bench.kill()?;
        let log = bench.data.join("ledger.db-wal");
        let whole = std::fs::read(&log)?;
        ensure!(whole.len() > 32, "nothing is in the ledger's log");
        let ledger = std::fs::read(bench.data.join("ledger.db"))?;
        // In the middle of a frame each time: all of the log, most, half, and its header alone.
        for keep in [whole.len() - 7, whole.len() * 3 / 4 + 5, whole.len() / 2 + 3, 32] {
            std::fs::write(bench.data.join("ledger.db"), &ledger)?;
            std::fs::write(&log, &whole[..keep.min(whole.len())])?;
            drop(std::fs::remove_file(bench.data.join("ledger.db-shm")));
            // Whatever of the set was lost comes again, as from a hub.
            bench.put(&wants, &[])?;
            bench.start(&[])?;
            drift(bench, "torn", &names[0])?;
            for (name, before) in names.iter().zip(&before) {
                let now = is_there(bench, "torn", name)?;
                ensure!(
                    now == *before,
                    "{name} was made anew after {keep} of {} bytes of the log",
                    whole.len()
                );
            }
            bench.kill()?;
        }
        Ok(())
    })
}

/// Damage is never absence: the file is set aside, the agent says so and ends, and what it once created is adopted
/// afterwards, so that no order deletes it. Red if a damaged ledger were taken for an empty one.
pub(super) fn a_damaged_ledger_is_set_aside(bench: &mut Bench) -> Result<()> {
    let folder = bench.folder().join("damaged");
    with_other_data(bench, &folder, "damaged", |bench| {
        let wants = || [wanted(namespace("damaged")), wanted(map("damaged", "mine"))];
        bench.run(&wants(), &[])?;
        let before = is_there(bench, "damaged", "mine")?;
        bench.stop()?;
        let ledger = bench.data.join("ledger.db");
        let mut bytes = std::fs::read(&ledger)?;
        for byte in bytes.iter_mut().skip(4_096).step_by(61) {
            *byte ^= 0xa5;
        }
        std::fs::write(&ledger, &bytes)?;
        let seen = bench.log_length()?;
        bench.start(&[])?;
        let status = bench.agent.as_mut().context("started")?.wait_end(SOON)?;
        bench.agent = None;
        ensure!(!status.success(), "it went on with a damaged ledger");
        bench.logged(seen, "is set aside as")?;
        ensure!(
            bench.data.join("ledger.damaged-1").is_file(),
            "the damaged file is gone"
        );
        // The next start has an empty ledger and nobody to ask: it touches nothing.
        bench.start(&[])?;
        wait::throughout(
            "nothing is touched",
            std::time::Duration::from_secs(2),
            || match bench.kubectl.get("configmap", "damaged", "mine") {
                Ok(Some(o)) => equal(&json!(uid(&o)), &json!(before)),
                other => Err(format!("{other:?}")),
            },
        )?;
        bench.run(&wants(), &[])?;
        drift(bench, "damaged", "mine")?;
        is_there(bench, "damaged", "mine")?;
        bench.origin("ConfigMap damaged/mine", "adopted")?;
        bench.run(
            &[wanted(namespace("damaged"))],
            &[(&map("damaged", "mine"), DeleteMode::Delete)],
        )?;
        bench.see("configmap", "damaged", "mine", |o| {
            equal(&o["metadata"]["labels"], &Value::Null)?;
            equal(&json!(uid(o)), &json!(before))
        })
    })
}
