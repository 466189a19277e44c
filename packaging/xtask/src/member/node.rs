//! A real node of a member: kubelet, containerd and runc in a network namespace of their own, so that pods are
//! processes. Needs root and Debian's packages, which are installed when they are missing.
//!
//! The only Service that answers in pods is `kubernetes`: a rule in the namespace leads 10.96.0.1 to the API server.
//! Control groups are version 1 or 2 as the machine has them; every node has its own root in them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Member;
use crate::limits::MEMBER_READY;
use crate::process::Process;
use crate::wait::{self, Look};
use crate::{go, packages, process, workspace};

/// Address of the Service `kubernetes`; the certificate of the API server names it.
const KUBERNETES: &str = "10.96.0.1";
/// Where Debian puts the plug-ins of the pod network.
const CNI: &str = "/usr/lib/cni";
/// Controllers that a kubelet wants under its root where they are version 1.
const CONTROLLERS: &[&str] = &[
    "cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd", "unified",
];
/// Name of the image that holds a pod's namespaces.
const PAUSE: &str = "localhost/pause:1";

/// What is written down about a node, so that another task can take it away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealNode {
    /// Tells its addresses and names from those of other nodes on this machine.
    pub number: u8,
}

impl RealNode {
    /// A node of a member whose API server listens on this port.
    #[must_use]
    pub fn of(port: u16) -> Self {
        Self {
            number: u8::try_from(port % 250).unwrap_or_default() + 1,
        }
    }

    /// Name of the node, its network namespace and its root among the control groups.
    #[must_use]
    pub fn name(&self) -> String {
        format!("pinnace-node-{}", self.number)
    }

    /// Address of the host as the node and its pods reach it.
    #[must_use]
    pub fn host(&self) -> String {
        format!("10.233.{}.1", self.number)
    }

    /// Address of the node.
    #[must_use]
    pub fn address(&self) -> String {
        format!("10.233.{}.2", self.number)
    }

    fn link(&self) -> String {
        format!("pnode{}", self.number)
    }

    fn inside(&self, program: &Path) -> Command {
        // Not `ip netns exec`: that hides the control groups.
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.name()))
            .arg(program)
            .env_remove("KUBECONFIG")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    fn groups(&self) -> Vec<PathBuf> {
        let base = Path::new("/sys/fs/cgroup");
        if base.join("cgroup.controllers").exists() {
            return vec![base.join(self.name())];
        }
        CONTROLLERS
            .iter()
            .map(|controller| base.join(controller))
            .filter(|folder| folder.is_dir())
            .map(|folder| folder.join(self.name()))
            .collect()
    }
}

/// Kubelet and pause, built once per content of their module.
struct Programs(PathBuf);

impl Programs {
    fn get() -> Result<Self> {
        let module = workspace::root()?.join("tests/node");
        let folder = go::built("node", &module, "pause", |folder| {
            eprintln!("building the kubelet of real nodes: minutes, once");
            let version = "k8s.io/component-base/version";
            for (package, name) in [(".", "kubelet"), ("./pause", "pause")] {
                process::run(
                    Command::new("go")
                        .current_dir(&module)
                        .env("CGO_ENABLED", "0")
                        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags"])
                        .arg(format!(
                            "-s -w -X {version}.gitVersion=v1.36.3 -X {version}.gitMajor=1 -X {version}.gitMinor=36"
                        ))
                        .arg("-o")
                        .arg(folder.join(name))
                        .arg(package),
                )?;
            }
            Ok(())
        })?;
        Ok(Self(folder))
    }
}

/// Arguments that the API server of a member with a real node gets besides the usual ones: it listens where the node
/// can reach it, and shows the kubelet a certificate.
pub(super) fn apiserver_arguments(directory: &Path) -> Vec<String> {
    let file = |name: &str| directory.join(name).to_string_lossy().into_owned();
    vec![
        "--bind-address=0.0.0.0".into(),
        "--kubelet-preferred-address-types=InternalIP".into(),
        format!("--kubelet-client-certificate={}", file("admin.crt")),
        format!("--kubelet-client-key={}", file("admin.key")),
    ]
}

/// Puts the administrator's certificate, which the kubeconfig holds, into files of its own.
pub(super) fn split_kubeconfig(directory: &Path) -> Result<()> {
    let text = std::fs::read_to_string(directory.join("kubeconfig")).context("the kubeconfig")?;
    for (field, name) in [
        ("client-certificate-data:", "admin.crt"),
        ("client-key-data:", "admin.key"),
    ] {
        let data = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(field))
            .with_context(|| format!("the kubeconfig has no {field}"))?;
        let encoded = directory.join(format!("{name}.base64"));
        std::fs::write(&encoded, data.trim())?;
        let decoded = process::output(Command::new("base64").arg("-d").arg(&encoded))?;
        std::fs::write(directory.join(name), decoded)?;
        std::fs::remove_file(encoded)?;
    }
    Ok(())
}

/// Starts the node of a member and waits until it is Ready.
pub(super) fn start(member: &mut Member, node: &RealNode) -> Result<()> {
    packages::need(
        &[
            "containerd",
            "runc",
            "containernetworking-plugins",
            "iptables",
            "iproute2",
        ],
        || {
            let programs = ["containerd", "runc", "ctr", "iptables", "ip"];
            programs.iter().all(|name| packages::program(name).is_some())
                && Path::new(CNI).join("bridge").is_file()
        },
    )?;
    let programs = Programs::get()?;
    let work = member.directory.join("node");
    for part in ["cni", "manifests", "kubelet"] {
        std::fs::create_dir_all(work.join(part)).context("the node's folder cannot be made")?;
    }
    network(node, member.state.ports.api)?;
    for group in node.groups() {
        std::fs::create_dir_all(&group)
            .with_context(|| format!("{} cannot be made; real nodes need root", group.display()))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Some(parent) = group.parent()
                && parent.join(file).is_file()
                && group.join(file).is_file()
            {
                std::fs::write(group.join(file), std::fs::read(parent.join(file))?)?;
            }
        }
    }
    write_files(node, member, &work)?;
    member.start("containerd", {
        let mut command = node.inside(Path::new("containerd"));
        command.arg("-c").arg(work.join("containerd.toml"));
        command
    })?;
    let socket = work.join("containerd.sock");
    wait::until("containerd to listen", MEMBER_READY, || {
        member.all_alive()?;
        let asked = process::output(Command::new("ctr").arg("-a").arg(&socket).arg("version"));
        Ok(asked.map_or_else(|e| Look::NotYet(format!("{e:#}")), |_| Look::There(())))
    })?;
    import(&work, PAUSE, &programs.0.join("pause"), "/pause")?;
    member.start("kubelet", {
        let mut command = node.inside(&programs.0.join("kubelet"));
        command
            .arg(format!("--config={}", work.join("kubelet.yaml").display()))
            .arg(format!("--kubeconfig={}", work.join("kubeconfig").display()))
            .arg(format!("--hostname-override={}", node.name()))
            .arg(format!("--node-ip={}", node.address()))
            .arg(format!("--root-dir={}", work.join("kubelet").display()))
            .arg(format!("--cert-dir={}", work.join("pki").display()));
        command
    })?;
    wait::until("the node to be Ready", MEMBER_READY, || {
        member.all_alive()?;
        let condition = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
        let ready = member.kubectl(&["get", "node", &node.name(), "-o", condition]);
        Ok(match ready {
            Ok(text) if text.trim() == "True" => Look::There(()),
            other => Look::NotYet(format!("{other:?}")),
        })
    })
}

fn ip(arguments: &[&str]) -> Result<String> {
    process::output(Command::new("ip").args(arguments))
}

fn network(node: &RealNode, port: u16) -> Result<()> {
    let (name, link, host, address) = (node.name(), node.link(), node.host(), node.address());
    ip(&["netns", "add", &name]).context("real nodes need root")?;
    ip(&[
        "link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &name,
    ])?;
    ip(&["address", "add", &format!("{host}/30"), "dev", &link])?;
    ip(&["link", "set", &link, "up"])?;
    ip(&[
        "-n",
        &name,
        "address",
        "add",
        &format!("{address}/30"),
        "dev",
        "eth0",
    ])?;
    for device in ["lo", "eth0"] {
        ip(&["-n", &name, "link", "set", device, "up"])?;
    }
    ip(&["-n", &name, "route", "add", "default", "via", &host])?;
    let script = "echo 1 > /proc/sys/net/ipv4/ip_forward";
    process::output(node.inside(Path::new("sh")).args(["-c", script]))?;
    for chain in ["PREROUTING", "OUTPUT"] {
        process::output(node.inside(Path::new("iptables")).args([
            "-t",
            "nat",
            "-A",
            chain,
            "-d",
            KUBERNETES,
            "-p",
            "tcp",
            "--dport",
            "443",
            "-j",
            "DNAT",
            "--to-destination",
            &format!("{host}:{port}"),
        ]))?;
    }
    Ok(())
}

fn write_files(node: &RealNode, member: &Member, work: &Path) -> Result<()> {
    let at = |name: &str| work.join(name).to_string_lossy().into_owned();
    let (name, root) = (node.name(), member.directory.display());
    let containerd = format!(
        r#"version = 2
root = "{root_dir}"
state = "{state}"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI}"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"#,
        root_dir = at("containerd"),
        state = at("run"),
        socket = at("containerd.sock"),
        cni = at("cni"),
    );
    let kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{name}"),
        "containerRuntimeEndpoint": format!("unix://{}", at("containerd.sock")),
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true},
            "x509": {"clientCAFile": format!("{root}/ca.crt")}},
        "authorization": {"mode": "Webhook"}, "failSwapOn": false, "oomScoreAdj": 0, "readOnlyPort": 0,
        "staticPodPath": at("manifests"), "podLogsDir": at("podlogs"), "volumePluginDir": at("volplugins"),
        "nodeStatusUpdateFrequency": "5s", "enforceNodeAllocatable": ["pods"],
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%",
            "nodefs.inodesFree": "1%"},
        "imageGCHighThresholdPercent": 99, "imageGCLowThresholdPercent": 98});
    // The name tells the remembered results of this node's pods from those of others.
    let cni = json!({"cniVersion": "1.0.0", "name": name, "plugins": [
        {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
            "ipam": {"type": "host-local", "dataDir": at("ipam"),
                "ranges": [[{"subnet": format!("10.244.{}.0/24", node.number)}]], "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": true}}]});
    // The administrator's, with the address that the node reaches.
    let admin = std::fs::read_to_string(member.kubeconfig())?;
    let own = admin.replace(
        &format!("https://127.0.0.1:{}", member.state.ports.api),
        &format!("https://{KUBERNETES}:443"),
    );
    for (file, text) in [
        ("containerd.toml", containerd),
        ("kubelet.yaml", kubelet.to_string()),
        ("cni/10-bridge.conflist", cni.to_string()),
        ("kubeconfig", own),
    ] {
        std::fs::write(work.join(file), text).with_context(|| format!("{file} cannot be written"))?;
    }
    Ok(())
}

/// Makes an image of one static program and gives it to the node's containerd.
pub(super) fn import(work: &Path, image: &str, program: &Path, inside: &str) -> Result<()> {
    let folder = work.join("image");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let layer = folder.join("layer");
    let target = layer.join(inside.trim_start_matches('/'));
    let parent = target.parent().context("a program is in a folder")?;
    std::fs::create_dir_all(parent)?;
    std::fs::create_dir_all(layer.join("tmp"))?;
    std::fs::copy(program, &target).with_context(|| format!("{} cannot be copied", program.display()))?;
    let tar = |file: &str, from: &Path, parts: &[&str]| {
        process::output(
            Command::new("tar")
                .args(["--owner=0", "--group=0", "-C"])
                .arg(from)
                .arg("-cf")
                .arg(folder.join(file))
                .args(parts),
        )
    };
    tar("layer.tar", &layer, &["."])?;
    let digest = process::output(Command::new("sha256sum").arg(folder.join("layer.tar")))?;
    let digest = digest
        .split_whitespace()
        .next()
        .context("sha256sum printed nothing")?;
    let config = json!({"architecture": std::env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64"),
        "os": "linux", "config": {"Entrypoint": [inside]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]}});
    let manifest = json!([{"Config": "config.json", "RepoTags": [image], "Layers": ["layer.tar"]}]);
    std::fs::write(folder.join("config.json"), config.to_string())?;
    std::fs::write(folder.join("manifest.json"), manifest.to_string())?;
    tar(
        "image.tar",
        &folder,
        &["manifest.json", "config.json", "layer.tar"],
    )?;
    process::output(
        Command::new("ctr")
            .arg("-a")
            .arg(work.join("containerd.sock"))
            .args(["-n", "k8s.io", "images", "import"])
            .arg(folder.join("image.tar")),
    )
    .with_context(|| format!("the image {image} cannot be imported"))?;
    std::fs::remove_dir_all(&folder).context("the image's folder cannot be removed")
}

/// Takes away all that a node leaves when kubelet and containerd have ended: containers, mounts, networks, groups.
pub(super) fn clear(node: &RealNode, directory: &Path) -> Result<()> {
    let name = node.name();
    let mut pids: Vec<String> = Vec::new();
    if let Ok(text) = ip(&["netns", "pids", &name]) {
        pids.extend(text.split_whitespace().map(str::to_owned));
    }
    for group in node.groups().iter().filter(|group| group.exists()) {
        let found = process::output(Command::new("find").arg(group).args([
            "-name",
            "cgroup.procs",
            "-exec",
            "cat",
            "{}",
            "+",
        ]))?;
        pids.extend(found.split_whitespace().map(str::to_owned));
    }
    pids.sort();
    pids.dedup();
    let gone = |pid: &String| !Path::new("/proc").join(pid).exists();
    if !pids.is_empty() {
        // One that has ended by itself meanwhile is what is wanted.
        let _ = Command::new("kill")
            .arg("-KILL")
            .args(&pids)
            .stderr(std::process::Stdio::null())
            .status();
    }
    wait::until("the node's processes to be gone", crate::limits::KILLED, || {
        Ok(match pids.iter().find(|pid| !gone(pid) && !is_zombie(pid)) {
            Some(pid) => Look::NotYet(format!("{pid} runs")),
            None => Look::There(()),
        })
    })?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("the mounts")?;
    let below = directory.join("node").to_string_lossy().into_owned();
    let ours = mounts
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .filter(|path| path.starts_with(&below));
    for path in ours.collect::<Vec<_>>().into_iter().rev() {
        process::output(Command::new("umount").args(["-l", path]))?;
    }
    forget_logs(&below);
    for namespace in pod_networks(&name) {
        // It is gone when the pod ended in order.
        let _ = Command::new("ip")
            .args(["netns", "delete", &namespace])
            .stderr(std::process::Stdio::null())
            .status();
    }
    for group in node.groups().iter().filter(|group| group.exists()) {
        process::output(
            Command::new("find")
                .arg(group)
                .args(["-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]),
        )?;
    }
    if Path::new("/run/netns").join(&name).exists() {
        ip(&["netns", "delete", &name])?;
    }
    Ok(())
}

fn is_zombie(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|text| Some(text.rsplit_once(')')?.1.trim_start().starts_with('Z')))
        .unwrap_or(true)
}

/// Network namespaces of pods, as the plug-ins remember them under the name of the node's network; forgets them.
fn pod_networks(name: &str) -> Vec<String> {
    let remembered = |file: &Path| -> Value {
        let text = std::fs::read(file).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    };
    let files: Vec<PathBuf> = std::fs::read_dir("/var/lib/cni/results")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let ours: Vec<Value> = files
        .iter()
        .map(|file| remembered(file))
        .filter(|result| result["networkName"] == name)
        .collect();
    // The loopback device of a pod is remembered apart, under the same container.
    for file in &files {
        let container = &remembered(file)["containerId"];
        if ours.iter().any(|result| result["containerId"] == *container) {
            drop(std::fs::remove_file(file));
        }
    }
    let sandboxes = ours
        .iter()
        .filter_map(|result| result["result"]["interfaces"].as_array())
        .flatten()
        .filter_map(|interface| interface["sandbox"].as_str())
        .filter_map(|path| path.rsplit_once('/'))
        .map(|(_, namespace)| namespace.to_owned());
    sandboxes.collect()
}

/// Links to the logs of its pods, which a kubelet makes there whatever its root is.
fn forget_logs(below: &str) {
    for entry in std::fs::read_dir("/var/log/containers")
        .into_iter()
        .flatten()
        .flatten()
    {
        if std::fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(below)) {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

impl Member {
    /// Starts a member with one real node and no simulated ones. Needs root.
    ///
    /// # Errors
    /// As [`Member::up`]; also when packages are missing and cannot be installed.
    pub fn up_real(name: &str) -> Result<Member> {
        Member::bring(name, 0, None, true)
    }

    /// The real node, if the member was made with one.
    #[must_use]
    pub fn real_node(&self) -> Option<&RealNode> {
        self.state.real.as_ref()
    }

    /// Makes an image whose only content is this static program at `/usr/bin/pinnace-agent`, for pods of the real
    /// node.
    ///
    /// # Errors
    /// When the member has no real node, or its containerd refuses.
    pub fn import_agent(&self, image: &str, program: &Path) -> Result<()> {
        if self.state.real.is_none() {
            bail!("{} has no real node", self.name);
        }
        import(
            &self.directory.join("node"),
            image,
            program,
            "/usr/bin/pinnace-agent",
        )
    }
}

/// The processes of a node, in the order in which they are stopped.
pub(super) const PROCESSES: [&str; 2] = ["kubelet", "containerd"];

/// Stops them, as far as they run.
pub(super) fn stop(processes: &[Process]) -> Result<()> {
    PROCESSES
        .iter()
        .filter_map(|name| processes.iter().find(|process| process.name == *name))
        .try_for_each(Process::stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_make_addresses_and_short_names() {
        for port in [20_000, 20_249, 31_999] {
            let node = RealNode::of(port);
            assert!((1..=250).contains(&node.number), "{port}");
            assert!(node.link().len() < 16, "{}", node.link());
        }
        assert_eq!(RealNode { number: 7 }.host(), "10.233.7.1");
    }
}
