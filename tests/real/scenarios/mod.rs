//! The scenarios, and what they share: the fleet and the objects that an earlier one made.

pub(crate) mod apply;
pub(crate) mod conflict;
pub(crate) mod crash;
pub(crate) mod cut;
pub(crate) mod edit;
pub(crate) mod manifests;
pub(crate) mod reports;
pub(crate) mod restore;
pub(crate) mod scripts;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tests::real::fleet::Fleet;

/// The running fleet and what is on it.
pub(crate) struct World {
    pub(crate) fleet: Fleet,
    /// Namespace of this run.
    pub(crate) namespace: String,
    /// Deployment that is divided 2:1 over the first two members.
    pub(crate) divided: String,
    /// Deployment that is duplicated over all members.
    pub(crate) duplicated: String,
    /// ConfigMap on all members.
    pub(crate) config: String,
    /// Copy of the hub's directory from before the edits.
    pub(crate) saved_hub: Option<std::path::PathBuf>,
}

impl World {
    pub(crate) fn new(mut fleet: Fleet) -> Self {
        let namespace = fleet.random.name("shop");
        let divided = fleet.random.name("web");
        let duplicated = fleet.random.name("agentless");
        let config = fleet.random.name("settings");
        Self {
            fleet,
            namespace,
            divided,
            duplicated,
            config,
            saved_hub: None,
        }
    }

    /// Starts what a failed scenario left down, so that the next one is judged by itself.
    pub(crate) fn recover(&mut self) -> Result<()> {
        if self.fleet.hub.pid().is_none() {
            self.fleet.hub.start(&[])?;
        }
        for site in &mut self.fleet.sites {
            site.heal()?;
            if !site.has_agent() {
                site.start_agent(&[])?;
            }
        }
        Ok(())
    }

    /// Names of the members in order.
    pub(crate) fn clusters(&self) -> Vec<String> {
        self.fleet
            .sites
            .iter()
            .map(|site| site.name().to_owned())
            .collect()
    }

    /// uid of every object of interest in a member, by `kind/name`.
    pub(crate) fn uids(&self, site: usize) -> Result<BTreeMap<String, String>> {
        let site = self.fleet.sites.get(site).context("no such site")?;
        let mut uids = BTreeMap::new();
        for kind in ["deployments", "configmaps", "services"] {
            for object in site.kubectl().list(kind, &self.namespace)? {
                let name = object["metadata"]["name"]
                    .as_str()
                    .context("object without a name")?;
                if name == "kube-root-ca.crt" {
                    continue;
                }
                let uid = object["metadata"]["uid"]
                    .as_str()
                    .context("object without a uid")?;
                uids.insert(format!("{kind}/{name}"), uid.to_owned());
            }
        }
        Ok(uids)
    }

    /// Waits until a Deployment in a member has the replicas and the image, and as many Pods are Running.
    pub(crate) fn wait_deployment(&self, site: usize, name: &str, replicas: u64, image: &str) -> Result<()> {
        self.fleet
            .wait_member(site, "deployment", &self.namespace, name, |object| {
                let object = object.ok_or("absent")?;
                let spec = &object["spec"];
                let container = &spec["template"]["spec"]["containers"][0];
                if spec["replicas"] != replicas || container["image"] != image {
                    return Err(format!(
                        "replicas {} and image {}",
                        spec["replicas"], container["image"]
                    ));
                }
                let status = &object["status"];
                if replicas > 0
                    && (status["readyReplicas"] != replicas || status["updatedReplicas"] != replicas)
                {
                    return Err(format!("status {status}"));
                }
                Ok(())
            })?;
        let site = &self.fleet.sites[site];
        let namespace = &self.namespace;
        tests::real::wait::until(
            &format!("{replicas} Running Pods of {name} in {}", site.name()),
            tests::real::fleet::AGREE,
            || {
                let pods = site
                    .kubectl()
                    .list("pods", namespace)
                    .map_err(|error| error.to_string())?;
                let running = pods
                    .iter()
                    .filter(|pod| is_running_pod_of(pod, name, image))
                    .count() as u64;
                if running == replicas {
                    Ok(())
                } else {
                    Err(format!("{running} Running"))
                }
            },
        )
    }

    /// Waits until the hub's own Deployment says that `replicas` are ready and all are of the newest content.
    pub(crate) fn wait_hub_status(&self, name: &str, replicas: u64) -> Result<()> {
        let kubectl = self.fleet.kubectl();
        tests::real::wait::until(
            &format!("status of Deployment {name} on the hub"),
            tests::real::fleet::AGREE,
            || {
                let object = kubectl
                    .get("deployment", &self.namespace, name)
                    .map_err(|error| error.to_string())?
                    .ok_or("absent")?;
                let status = &object["status"];
                let caught_up = status["observedGeneration"] == object["metadata"]["generation"];
                if caught_up && status["readyReplicas"] == replicas && status["updatedReplicas"] == replicas {
                    Ok(())
                } else {
                    Err(format!(
                        "generation {} status {status}",
                        object["metadata"]["generation"]
                    ))
                }
            },
        )
    }
}

fn is_running_pod_of(pod: &Value, deployment: &str, image: &str) -> bool {
    let owned = pod["metadata"]["labels"]["app"] == deployment;
    let running = pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
    owned && running && pod["spec"]["containers"][0]["image"] == image
}

/// Every uid of `before` is in `after`, unchanged.
pub(crate) fn ensure_unchanged(
    what: &str,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Result<()> {
    for (key, uid) in before {
        ensure!(
            after.get(key) == Some(uid),
            "{what}: {key} was {uid} and is {:?}",
            after.get(key)
        );
    }
    Ok(())
}
