//! Argo Workflows.

use serde_json::{Value, json};

use super::general::{dependencies, keep, revise};
use super::{NONE, Read, Rules};
use crate::fields::{get, int, list, text};
use crate::native::{Names, add_name, node_claim, pod_names};
use crate::{Dependency, ReplicaRequirements, Replicas};

pub(super) static WORKFLOW: Rules = Rules {
    replicas: Some(replicas),
    revise: Some(|template, count| revise(template, "spec.parallelism", count)),
    retain: Some(|desired, observed| keep(desired, observed, &["spec.suspend", "status"])),
    health: Some(|object| Ok(!matches!(text(object, "status.phase")?, "" | "Error" | "Failed"))),
    dependencies: Some(needs),
    ..NONE
};

/// A workflow's pods differ; what they have in common is where they may run.
fn replicas(template: &Value) -> Read<Replicas> {
    let claim = match get(template, "spec")? {
        Some(spec) => node_claim(spec)?,
        None => None,
    };
    Ok(Replicas {
        replicas: int(template, "spec.parallelism")?.unwrap_or(1),
        requirements: claim.map(|claim| ReplicaRequirements {
            node_claim: Some(claim),
            ..ReplicaRequirements::default()
        }),
    })
}

/// The spec of a workflow has the volumes, pull secrets and account of a pod's.
fn needs(template: &Value) -> Read<Vec<Dependency>> {
    let mut names = Names::new();
    if let Some(spec) = get(template, "spec")? {
        let pod = json!({"volumes": spec["volumes"], "imagePullSecrets": spec["imagePullSecrets"],
                         "serviceAccountName": spec["serviceAccountName"]});
        pod_names(&mut names, Some(&pod))?;
        add_name(&mut names, "ServiceAccount", spec, "executor.serviceAccountName")?;
        for claim in list(spec, "volumeClaimTemplates")? {
            add_name(&mut names, "PersistentVolumeClaim", claim, "metadata.name")?;
        }
    }
    dependencies(template, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_secret_volume_is_a_dependency() {
        let template = json!({"metadata": {"namespace": "demo"}, "spec": {
            "volumes": [{"name": "s", "secret": {"secretName": "keys"}}], "executor": {"serviceAccountName": "run"}}});
        let found = needs(&template).expect("readable");
        let names: Vec<_> = found
            .iter()
            .map(|d| (d.kind.as_str(), d.name.as_deref()))
            .collect();
        assert_eq!(names, [("Secret", Some("keys")), ("ServiceAccount", Some("run"))]);
    }
}
