//! A hub and what is sent through it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tests::real::hub::Hub;
use tests::real::kubectl::Kubectl;
use tests::real::wait;

/// Longest wait for one state.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// Name of the cluster on the hub.
pub(crate) const CLUSTER: &str = "lab";
/// Namespace of what is sent.
pub(crate) const NAMESPACE: &str = "shop";

/// Sends ConfigMaps of these names to the cluster.
pub(crate) fn send(hub: &Hub, names: &[&str]) -> Result<()> {
    let mut items = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "all", "namespace": NAMESPACE},
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"send": "yes"}}}],
                "placement": {"clusterAffinity": {"clusterNames": [CLUSTER]}}}}),
    ];
    items.extend(names.iter().map(|name| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"send": "yes"}}, "data": {"a": "1"}})
    }));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    hub.kubectl().apply(&list.to_string()).map(drop)
}

/// Waits until the member has a ConfigMap as it was sent.
pub(crate) fn arrived(member: &Kubectl, name: &str) -> Result<()> {
    wait::until(
        &format!("ConfigMap {name} is in the member as sent"),
        SOON,
        || match member.get("configmap", NAMESPACE, name) {
            Ok(Some(object)) if object["data"]["a"] == "1" => Ok(()),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        },
    )
}

/// Enrols the agent with the hub; the cluster is the one of the kubeconfig.
pub(crate) fn join(hub: &Hub, data: &Path, kubeconfig: &Path) -> Result<()> {
    let printed = hub.pinnace(&["token", "create", CLUSTER])?;
    let line = printed
        .lines()
        .find(|line| line.contains("pinnace-agent join"))
        .unwrap_or_default();
    let words = line.split_whitespace().skip_while(|word| *word != "join");
    let output = std::process::Command::new(tests::real::process::binary("pinnace-agent")?)
        .args(words.map(|word| word.trim_matches('\'')))
        .arg("--data")
        .arg(data)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()?;
    ensure!(
        output.status.success(),
        "join: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
