//! The command lines of a member's processes. A member shares two cores with others and with what is tested on it:
//! only controllers that a user of a small cluster would miss are on, and nothing is kept safe from a power cut.

use std::path::Path;
use std::process::Command;

use super::state::Ports;

/// Controllers that run. Absent are those for clouds, dynamic resources, certificates and API migrations.
const CONTROLLERS: &[&str] = &[
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
];

/// The command of one component, with its files in `directory`.
fn component(binary: &Path, name: &str, directory: &Path) -> Command {
    let mut command = Command::new(binary);
    // A member must not find the user's clusters.
    command.arg(name).current_dir(directory).env_remove("KUBECONFIG");
    command
}

fn in_directory(directory: &Path, file: &str) -> String {
    directory.join(file).to_string_lossy().into_owned()
}

/// etcd, without waiting for the disk.
pub(super) fn etcd(binary: &Path, directory: &Path, ports: &Ports) -> Command {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    let mut command = component(binary, "etcd", directory);
    command
        .args([
            "--name=member",
            "--unsafe-no-fsync",
            "--log-level=warn",
            "--snapshot-count=10000",
        ])
        .arg(format!("--data-dir={}", in_directory(directory, "etcd")))
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=member={peer}"));
    command
}

/// The API server. The Service `kubernetes` gets no endpoints, since nothing runs in the pods that could use it.
pub(super) fn apiserver(binary: &Path, directory: &Path, ports: &Ports) -> Command {
    let mut command = component(binary, "kube-apiserver", directory);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd))
        .arg(format!("--secure-port={}", ports.api))
        .args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
        ])
        .args([
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
        ])
        .args([
            "--enable-priority-and-fairness=false",
            "--profiling=false",
            "--etcd-compaction-interval=0",
        ])
        .args([
            "--service-account-issuer=https://kubernetes.default.svc",
            "--allow-privileged=true",
        ])
        .arg(format!("--client-ca-file={}", in_directory(directory, "ca.crt")))
        .arg(format!(
            "--tls-cert-file={}",
            in_directory(directory, "apiserver.crt")
        ))
        .arg(format!(
            "--tls-private-key-file={}",
            in_directory(directory, "apiserver.key")
        ))
        .arg(format!(
            "--service-account-key-file={}",
            in_directory(directory, "sa.pub")
        ))
        .arg(format!(
            "--service-account-signing-key-file={}",
            in_directory(directory, "sa.key")
        ));
    command
}

/// The controller manager.
pub(super) fn controllers(binary: &Path, directory: &Path, ports: &Ports) -> Command {
    let mut command = component(binary, "kube-controller-manager", directory);
    command
        .arg(format!("--kubeconfig={}", in_directory(directory, "kubeconfig")))
        .args([
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--profiling=false",
        ])
        .args([
            "--concurrent-gc-syncs=4",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ])
        .arg(format!("--secure-port={}", ports.controllers))
        .arg(format!("--cert-dir={}", in_directory(directory, "controllers")))
        .arg(format!("--root-ca-file={}", in_directory(directory, "ca.crt")))
        .arg(format!(
            "--service-account-private-key-file={}",
            in_directory(directory, "sa.key")
        ))
        .arg(format!("--controllers={}", CONTROLLERS.join(",")));
    command
}

/// The scheduler.
pub(super) fn scheduler(binary: &Path, directory: &Path, ports: &Ports) -> Command {
    let mut command = component(binary, "kube-scheduler", directory);
    command
        .arg(format!("--kubeconfig={}", in_directory(directory, "kubeconfig")))
        .args([
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--profiling=false",
        ])
        .args(["--kube-api-qps=200", "--kube-api-burst=400"])
        .arg(format!("--secure-port={}", ports.scheduler))
        .arg(format!("--cert-dir={}", in_directory(directory, "scheduler")));
    command
}

/// kwok, which plays the kubelets of the nodes.
pub(super) fn kwok(binary: &Path, directory: &Path, ports: &Ports) -> Command {
    let mut command = component(binary, "kwok", directory);
    command
        .arg(format!("--kubeconfig={}", in_directory(directory, "kubeconfig")))
        .arg(format!("--config={}", in_directory(directory, "stages.yaml")))
        .args([
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--cidr=10.0.0.1/16",
        ])
        .args(["--node-lease-duration-seconds=40", "--node-ip=127.0.0.1"])
        .arg(format!("--server-address=127.0.0.1:{}", ports.kwok))
        .arg(format!("--node-port={}", ports.kwok));
    command
}
