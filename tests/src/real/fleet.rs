//! A hub and three sites, and what a person would look at in them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::hub::Hub;
use super::kubectl::Kubectl;
use super::site::Site;
use super::wait;
use mutation::Random;

/// How long the fleet may take to agree with the hub in a test; on a busy machine with two cores.
pub const AGREE: Duration = Duration::from_secs(90);

/// A running fleet; everything goes away when it is dropped.
#[derive(Debug)]
pub struct Fleet {
    /// Names and counts of this run.
    pub random: Random,
    /// The members with their agents.
    pub sites: Vec<Site>,
    /// The hub.
    pub hub: Hub,
    folder: PathBuf,
}

impl Fleet {
    /// Starts a hub and `count` sites with running agents, and waits until all are Ready on the hub.
    ///
    /// # Errors
    /// When a part does not come up.
    pub fn up(folder: &Path, count: usize) -> Result<Self> {
        let mut random = Random::from_environment();
        std::fs::create_dir_all(folder)?;
        let hub = Hub::start_new(folder, &xtask::member::Binary::get()?.kubectl())?;
        let mut sites = Vec::new();
        for index in 0..count {
            let name = random.name("site");
            let labels = format!(
                "order=n{index},ring={}",
                if index == 0 { "first" } else { "later" }
            );
            let mut site = Site::join(folder, &name, &hub, &["--labels", &labels])?;
            site.start_agent(&[])?;
            sites.push(site);
        }
        let fleet = Self {
            random,
            sites,
            hub,
            folder: folder.into(),
        };
        for site in &fleet.sites {
            fleet.wait_ready(site.name())?;
        }
        Ok(fleet)
    }

    /// Folder that holds everything of this fleet.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// kubectl on the hub.
    pub fn kubectl(&self) -> &Kubectl {
        self.hub.kubectl()
    }

    /// Waits until the hub shows the cluster as Ready.
    ///
    /// # Errors
    /// When it does not within [`AGREE`].
    pub fn wait_ready(&self, cluster: &str) -> Result<()> {
        wait::until(&format!("cluster {cluster} is Ready"), AGREE, || {
            let object = self
                .kubectl()
                .get("cluster", "", cluster)
                .map_err(|error| error.to_string())?;
            let object = object.ok_or("no such Cluster")?;
            match condition(&object, "Ready").as_deref() {
                Some("True") => Ok(()),
                other => Err(format!("Ready is {other:?}")),
            }
        })
    }

    /// Waits until `look` agrees about an object read from the member itself.
    ///
    /// # Errors
    /// When it does not within [`AGREE`].
    pub fn wait_member<T>(
        &self,
        site: usize,
        kind: &str,
        namespace: &str,
        name: &str,
        look: impl Fn(Option<&Value>) -> Result<T, String>,
    ) -> Result<T> {
        let site = &self.sites[site];
        let what = format!("{kind} {namespace}/{name} in {}", site.name());
        wait::until(&what, AGREE, || {
            let object = site
                .kubectl()
                .get(kind, namespace, name)
                .map_err(|error| error.to_string())?;
            look(object.as_ref())
        })
        .with_context(|| {
            let why = self
                .hub
                .pinnace(&["why", &format!("{kind}/{name}"), "-n", namespace]);
            format!("why says: {}", why.unwrap_or_else(|error| error.to_string()))
        })
    }

    /// Waits until the object is gone from the member.
    ///
    /// # Errors
    /// When it is still there after [`AGREE`].
    pub fn wait_gone(&self, site: usize, kind: &str, namespace: &str, name: &str) -> Result<()> {
        self.wait_member(site, kind, namespace, name, |object| match object {
            None => Ok(()),
            Some(_) => Err("still there".into()),
        })
    }
}

/// Status of a condition of an object, if it has it.
pub fn condition(object: &Value, kind: &str) -> Option<String> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)?
        .get("status")?
        .as_str()
        .map(str::to_owned)
}
