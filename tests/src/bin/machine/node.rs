//! The shipped manifests on a node with a real kubelet, containerd and runc: the agent in pods.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::real::hub::Hub;
use tests::real::kubectl::Kubectl;
use tests::real::wait;
use xtask::member::{Binary, Scoped};
use xtask::{packages, process, workspace};

use crate::bed::{CLUSTER, NAMESPACE, SOON, arrived, send};

const IMAGE: &str = "localhost/pinnace-agent:test";
const TARGET: &str = "x86_64-unknown-linux-musl";
/// Namespace of the agent, and the user and group of its pod.
const OWN: &str = "pinnace-agent";
const USER: u32 = 65_532;

/// The Deployment, as a user installs it: `pinnace token create NAME --manifest | kubectl apply -f -`. Red if the
/// manifest asked for what a cluster refuses, if the printed RBAC were too little, or if a new pod needed the hub.
pub(crate) fn the_deployment_runs_in_pods(folder: &Path) -> Result<()> {
    runs_in_pods(folder, &[])
}

/// The DaemonSet: the same, and its ledger goes with the pod, so that the next one starts from the mirror in the
/// cluster.
pub(crate) fn the_daemon_set_runs_in_pods(folder: &Path) -> Result<()> {
    runs_in_pods(folder, &["--kind", "daemonset"])
}

fn runs_in_pods(folder: &Path, kind: &[&str]) -> Result<()> {
    let program = static_agent()?;
    let kubectl = Binary::get()?.kubectl();
    let member = Scoped::up_real(&format!("node-{}", std::process::id()))?;
    let host = member.real_node().context("a real node")?.host();
    let mut hub = Hub::start_at(folder, &kubectl, &host)?;
    let cluster = Kubectl::new(&kubectl, &member.kubeconfig(), &folder.join("member-cache"));
    member.import_agent(IMAGE, &program)?;
    volume(folder, &cluster)?;
    let mut words = vec!["token", "create", CLUSTER, "--manifest", "--image", IMAGE];
    words.extend(kind);
    cluster.apply(&hub.pinnace(&words)?)?;
    let first = running(&cluster, "")?;
    send(&hub, &["one", "two"])?;
    arrived(&cluster, "one").with_context(|| logs(&cluster))?;
    arrived(&cluster, "two")?;
    let uid = |name: &str| -> Result<serde_json::Value> {
        let object = cluster
            .get("configmap", NAMESPACE, name)?
            .context("it is there")?;
        Ok(object["metadata"]["uid"].clone())
    };
    let two = uid("two")?;
    // The pod goes, and so does the hub: another pod takes over from what the cluster keeps.
    hub.stop()?;
    cluster.run(&["delete", "pod", &first, "-n", OWN, "--grace-period=0", "--force"])?;
    cluster.run(&["delete", "configmap", "one", "-n", NAMESPACE])?;
    running(&cluster, &first)?;
    arrived(&cluster, "one").with_context(|| format!("without a hub; {}", logs(&cluster)))?;
    ensure!(uid("two")? == two, "an object that was there was made anew");
    cluster.run(&["delete", "configmap", "two", "-n", NAMESPACE])?;
    arrived(&cluster, "two").with_context(|| logs(&cluster))?;
    let said = logs(&cluster);
    ensure!(said.contains("agent starts"), "kubectl logs: {said}");
    ensure!(
        !said.contains("Forbidden"),
        "the printed RBAC is too little: {said}"
    );
    Ok(())
}

/// The release build of the agent, which needs no library of the image: the file that `PINNACE_STATIC_AGENT` names, or
/// what cargo makes.
fn static_agent() -> Result<PathBuf> {
    if let Some(file) = std::env::var_os("PINNACE_STATIC_AGENT") {
        return Ok(file.into());
    }
    packages::need_programs(&["musl-tools"], &["musl-gcc"])?;
    let root = workspace::root()?;
    process::run(
        Command::new("rustup")
            .current_dir(&root)
            .args(["target", "add", TARGET]),
    )?;
    let mut build = Command::new("cargo");
    build
        .current_dir(&root)
        .env("CC_x86_64_unknown_linux_musl", "musl-gcc")
        .args([
            "build",
            "--quiet",
            "--profile",
            "dist",
            "-p",
            "agent",
            "--target",
            TARGET,
        ]);
    process::run(process::outside_cargo(&mut build))?;
    Ok(workspace::target()?.join(TARGET).join("dist/pinnace-agent"))
}

/// A volume for the claim of the manifest, as an administrator without a provisioner makes one.
fn volume(folder: &Path, cluster: &Kubectl) -> Result<()> {
    let path = folder.join("volume");
    std::fs::create_dir_all(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
    std::os::unix::fs::chown(&path, Some(USER), Some(USER))?;
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "ledger"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "hostPath": {"path": path, "type": "Directory"}}});
    cluster.apply(&volume.to_string()).map(drop)
}

/// Waits until a pod of the agent other than `not` is ready; gives its name.
fn running(cluster: &Kubectl, not: &str) -> Result<String> {
    wait::until("a pod of the agent is ready", SOON, || {
        let pods = cluster.list("pods", OWN).map_err(|e| e.to_string())?;
        let ready = pods.iter().find(|pod| {
            pod["metadata"]["name"] != not
                && pod["metadata"]["deletionTimestamp"].is_null()
                && pod["status"]["containerStatuses"][0]["ready"] == true
        });
        match ready.and_then(|pod| pod["metadata"]["name"].as_str()) {
            Some(name) => Ok(name.to_owned()),
            None => {
                let events = cluster.run(&["get", "events", "-n", OWN, "-o", "custom-columns=M:.message"]);
                let states: Vec<String> = pods
                    .iter()
                    .map(|p| {
                        let status = &p["status"];
                        format!(
                            "{} {} {}",
                            status["phase"], status["initContainerStatuses"], status["containerStatuses"]
                        )
                    })
                    .collect();
                Err(format!(
                    "{states:?}\n{}\n{}",
                    events.unwrap_or_default(),
                    logs(cluster)
                ))
            }
        }
    })
}

fn logs(cluster: &Kubectl) -> String {
    let words = [
        "logs",
        "-n",
        OWN,
        "-l",
        "app.kubernetes.io/name=pinnace-agent",
        "--all-containers",
        "--tail=60",
    ];
    cluster.run(&words).unwrap_or_else(|e| e.to_string())
}
