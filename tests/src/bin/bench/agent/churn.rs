//! What goes on in every cluster and is nobody's business: leases are renewed, statuses of foreign objects change.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

/// Between two changes.
const EVERY: Duration = Duration::from_millis(500);

/// Changes something foreign twice a second for this long, besides what the control plane's own programs and the
/// nodes do; gives the number of changes.
pub(super) async fn during(member: &Client, window: Duration) -> Result<u64> {
    let resource = |group: &str, kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let leases: Api<DynamicObject> = Api::namespaced_with(
        member.clone(),
        "kube-system",
        &resource("coordination.k8s.io", "Lease"),
    );
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "churn"},
        "spec": {"holderIdentity": "nobody"}});
    leases
        .create(&Default::default(), &serde_json::from_value(lease)?)
        .await?;
    let pods: Api<DynamicObject> = Api::namespaced_with(member.clone(), "default", &resource("", "Pod"));
    let crowd = pods.list(&ListParams::default().limit(100)).await?;
    let names: Vec<String> = crowd
        .items
        .into_iter()
        .filter_map(|pod| pod.metadata.name)
        .collect();
    let begun = Instant::now();
    let mut changes = 0_u64;
    while begun.elapsed() < window {
        tokio::time::sleep(EVERY).await;
        changes += 1;
        if changes.is_multiple_of(2) {
            let patch = json!({"spec": {"leaseTransitions": changes}});
            leases
                .patch("churn", &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
        } else {
            let index = usize::try_from(changes).context("a count")? % names.len().max(1);
            let Some(name) = names.get(index) else { continue };
            let patch = json!({"status": {"conditions": [{"type": "Churn", "status": "True",
                "message": format!("change {changes}")}]}});
            pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&patch))
                .await?;
        }
    }
    Ok(changes)
}
