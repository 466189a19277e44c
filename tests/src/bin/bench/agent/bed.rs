//! Hub, member and agent for the measurement: the hub at the far end of a veth, everything else on loopback.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tests::real::fleet::condition;
use tests::real::hub::Hub;
use tests::real::kubectl::Kubectl;
use tests::real::network::Network;
use tests::real::process::{Process, binary};
use tests::real::wait;
use xtask::member::{Binary, Scoped};

/// Name of the cluster on the hub.
const CLUSTER: &str = "lab";
/// Namespace of the works.
pub(crate) const NAMESPACE: &str = "bench";
/// Nodes; each takes 110 pods.
const NODES: u32 = 12;
/// Works that are Deployments of one replica; the others are ConfigMaps.
pub(crate) const DEPLOYMENTS: usize = 10;
/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// What is measured on.
pub(crate) struct Bed {
    // In the order in which they go: the agent before hub and member, the network last.
    agent: Option<Process>,
    pub(crate) hub: Hub,
    pub(crate) member: Scoped,
    kubectl: Kubectl,
    pub(crate) network: Arc<Network>,
    program: PathBuf,
    data: PathBuf,
    log: PathBuf,
    /// Of the agent's log; none: its own default.
    filter: Option<String>,
    /// It runs as one of several that lead in turn.
    replicated: bool,
}

impl Bed {
    /// Everything up; the agent is enrolled and does not run.
    pub(crate) fn up(folder: &Path, program: Option<PathBuf>, replicated: bool) -> Result<Bed> {
        let network = Arc::new(Network::new()?);
        let kubectl = Binary::get()?.kubectl();
        let hub = Hub::start_in(folder, &kubectl, Some(network.clone()))?;
        let member = Scoped::up(&format!("bench-{}", std::process::id()), NODES)?;
        let kubectl = Kubectl::new(&kubectl, &member.kubeconfig(), &folder.join("member-cache"));
        let program = match program {
            Some(file) => file,
            None => binary("pinnace-agent")?,
        };
        let bed = Bed {
            agent: None,
            hub,
            member,
            kubectl,
            network,
            program,
            data: folder.join("agent"),
            log: folder.join("agent.log"),
            filter: None,
            replicated,
        };
        if replicated {
            bed.kubectl.run(&["create", "namespace", "pinnace-agent"])?;
        }
        bed.join()?;
        Ok(bed)
    }

    fn join(&self) -> Result<()> {
        let printed = self.hub.pinnace(&["token", "create", CLUSTER])?;
        let line = printed
            .lines()
            .find(|line| line.contains("pinnace-agent join"))
            .context("no join line was printed")?;
        let words = line.split_whitespace().skip_while(|word| *word != "join");
        let output = Command::new(&self.program)
            .args(words.map(|word| word.trim_matches('\'')))
            .arg("--data")
            .arg(&self.data)
            .arg("--kubeconfig")
            .arg(self.member.kubeconfig())
            .args(self.replicated.then_some("--replicated"))
            .output()?;
        ensure!(
            output.status.success(),
            "join: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Starts hub and agent anew with logs of this filter.
    pub(crate) fn talk(&mut self, filter: &str) -> Result<()> {
        self.stop()?;
        self.hub.stop()?;
        self.hub.start(&[("PINNACE_LOG", filter)])?;
        self.filter = Some(filter.to_owned());
        self.start()
    }

    /// The agent's log.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Starts the agent.
    pub(crate) fn start(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["run", "--data"]).arg(&self.data);
        if self.replicated {
            command
                .args(["--replicated", "--replica-name", "bench", "--kubeconfig"])
                .arg(self.member.kubeconfig());
        }
        command.envs(self.filter.iter().map(|filter| ("PINNACE_LOG", filter)));
        self.agent = Some(Process::start(command, &self.log)?);
        Ok(())
    }

    /// Stops it in order.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.agent.take().map_or(Ok(()), Process::stop)
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> Result<u32> {
        Ok(self.agent.as_ref().context("the agent runs")?.pid())
    }

    /// The file that runs as the agent.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A policy that sends all that is labelled `bench=yes`, and `works` objects.
    pub(crate) fn deploy(&self, works: usize) -> Result<()> {
        let selector = |api: &str, kind: &str| json!({"apiVersion": api, "kind": kind, "labelSelector": {"matchLabels": {"bench": "yes"}}});
        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "here", "namespace": NAMESPACE},
            "spec": {"resourceSelectors": [selector("apps/v1", "Deployment"), selector("v1", "ConfigMap")],
                "placement": {"clusterAffinity": {"clusterNames": [CLUSTER]}}}});
        let mut all = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
            policy,
        ];
        all.extend((0..DEPLOYMENTS).map(deployment));
        all.extend((0..works - DEPLOYMENTS).map(|n| config_map(&format!("map-{n}"), "first")));
        self.apply(&all)
    }

    /// Applies objects on the hub.
    pub(crate) fn apply(&self, objects: &[Value]) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.hub.kubectl().apply(&list.to_string()).map(drop)
    }

    /// Waits until the hub calls all works of the first kind available and the member has all objects.
    pub(crate) fn settled(&self, works: usize) -> Result<()> {
        wait::until("the cluster is Ready", PATIENCE, || {
            let object = self.hub.kubectl().get("cluster", "", CLUSTER);
            match object.map_err(|e| e.to_string())? {
                Some(object) if condition(&object, "Ready").as_deref() == Some("True") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })?;
        wait::until("every Deployment is available on the hub", PATIENCE, || {
            let all = self
                .hub
                .kubectl()
                .list("deployments", NAMESPACE)
                .map_err(|e| e.to_string())?;
            let there = all
                .iter()
                .filter(|o| o["status"]["availableReplicas"].as_u64() == Some(1))
                .count();
            if there == DEPLOYMENTS {
                Ok(())
            } else {
                Err(format!("{there} of {DEPLOYMENTS}"))
            }
        })?;
        self.maps(works - DEPLOYMENTS)
    }

    /// Waits until the member has this many of our ConfigMaps.
    pub(crate) fn maps(&self, wanted: usize) -> Result<()> {
        wait::until("every ConfigMap is in the member", PATIENCE, || {
            let all = self.kubectl.run(&[
                "get",
                "configmaps",
                "-n",
                NAMESPACE,
                "-l",
                "bench=yes",
                "-o",
                "name",
            ]);
            let there = all.map_err(|e| e.to_string())?.lines().count();
            if there == wanted {
                Ok(())
            } else {
                Err(format!("{there} of {wanted}"))
            }
        })
    }

    /// Makes the member run about this many pods that are none of ours.
    pub(crate) fn crowd(&self, pods: usize) -> Result<()> {
        if pods == 0 {
            return Ok(());
        }
        let container = |n: usize| {
            json!({"name": format!("c{n}"), "image": "registry.example/app:1",
            "env": [{"name": "A", "value": "x".repeat(80)}, {"name": "B", "value": "y".repeat(80)}],
            "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}}})
        };
        let crowd = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "crowd", "namespace": "default"},
            "spec": {"replicas": pods, "selector": {"matchLabels": {"app": "crowd"}},
                "template": {"metadata": {"labels": {"app": "crowd"}},
                    "spec": {"containers": [container(1), container(2)]}}}});
        self.kubectl.apply(&crowd.to_string())?;
        wait::until("the crowd of pods runs", PATIENCE, || {
            let found = self
                .kubectl
                .get("deployment", "default", "crowd")
                .map_err(|e| e.to_string())?
                .unwrap_or_default();
            match found["status"]["availableReplicas"].as_u64() {
                Some(n) if n == pods as u64 => Ok(()),
                other => Err(format!("{other:?} of {pods}")),
            }
        })
    }
}

/// Objects of one kind of the namespace of the works.
pub(crate) fn api(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

fn deployment(n: usize) -> Value {
    let name = format!("web-{n}");
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"bench": "yes"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [
                {"name": "main", "image": "nginx:1.27", "ports": [{"containerPort": 80}],
                 "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
                 "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}}]}}}})
}

/// Two kilobytes of settings, one of which says `value`.
pub(crate) fn config_map(name: &str, value: &str) -> Value {
    let lines: Vec<String> = (0..40)
        .map(|n| format!("setting.{n:04} = value number {:08x}", n * 40_503))
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"bench": "yes"}},
        "data": {"value": value, "application.properties": lines.join("\n")}})
}
