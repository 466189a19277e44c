//! The hub on a disk that fills up: what was answered stays, reads go on, and room is all that is needed to go on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mutation::Random;
use serde_json::json;
use tests::real::disk::Disk;
use tests::real::hub::Hub;
use tests::real::wait;
use xtask::member::Binary;

/// Creates on a full disk before one must be refused: the log may have room in itself for some.
const TRIES: usize = 400;
/// When there is room again, a write is answered within this.
const SOON: Duration = Duration::from_secs(30);

struct Story {
    hub: Hub,
    random: Random,
    answered: Vec<String>,
}

impl Story {
    /// Creates a ConfigMap that does not compress.
    fn create(&mut self) -> Result<()> {
        let name = format!("map-{}", self.answered.len());
        let noise: String = (0..2_000)
            .map(|_| format!("{:016x}", self.random.next_u64()))
            .collect();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"}, "data": {"noise": noise}});
        self.hub
            .kubectl()
            .with_input(&["create", "-f", "-"], &object.to_string())?;
        self.answered.push(name);
        Ok(())
    }

    /// Everything that was answered is there, and nothing that was refused.
    fn check(&self) -> Result<()> {
        let mut found: Vec<String> = self
            .hub
            .kubectl()
            .list("configmaps", "default")?
            .iter()
            .filter_map(|o| o["metadata"]["name"].as_str())
            .filter(|name| name.starts_with("map-"))
            .map(str::to_owned)
            .collect();
        let mut wanted = self.answered.clone();
        found.sort();
        wanted.sort();
        ensure!(found == wanted, "answered {wanted:?}, found {found:?}");
        Ok(())
    }

    fn newest_version(&self) -> Result<u64> {
        let name = self.answered.last().context("nothing was answered")?;
        let object = self
            .hub
            .kubectl()
            .get("configmap", "default", name)?
            .context("it is there")?;
        Ok(object["metadata"]["resourceVersion"]
            .as_str()
            .context("resourceVersion")?
            .parse()?)
    }
}

/// Issue 4, part 2. Red if a commit were answered before it is durable, if a failed one stayed visible, or if the
/// writer did not try again.
#[test]
fn a_full_disk_loses_nothing_and_needs_no_restart() {
    story().expect("the story");
}

fn story() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = Disk::mount(folder.path(), 24)?;
    // The hub's log is not on the small disk: a service manager takes it.
    std::fs::create_dir(disk.path().join("hub"))?;
    std::os::unix::fs::symlink(disk.path().join("hub"), folder.path().join("hub"))?;
    let mut story = Story {
        hub: Hub::start_new(folder.path(), &Binary::get()?.kubectl())?,
        random: Random::from_environment(),
        answered: Vec::new(),
    };
    for round in 0..2 {
        for _ in 0..3 {
            story.create()?;
        }
        disk.fill()?;
        let refusal = (0..TRIES).find_map(|_| story.create().err());
        let refusal = refusal.context("a full disk refused nothing")?.to_string();
        println!(
            "round {round}: {} answered, then: {refusal}",
            story.answered.len()
        );
        ensure!(
            refusal.contains("full") || refusal.contains("read-only"),
            "the refusal does not say why: {refusal}"
        );
        story.check().context("reads on a full disk")?;
        let kubectl = story.hub.kubectl().clone();
        kubectl.run(&["get", "--raw", "/livez"])?;
        let version = story.newest_version()?;
        disk.free()?;
        wait::until("a write is answered again", SOON, || {
            story.create().map_err(|e| e.to_string())
        })?;
        ensure!(story.newest_version()? > version, "a revision went back");
        story.check().context("after there was room again")?;
        story.hub.kill()?;
        story.hub.start(&[])?;
        story.check().context("after a power cut")?;
        ensure!(
            story.newest_version()? > version,
            "a revision went back over a restart"
        );
    }
    story.hub.stop()
}
