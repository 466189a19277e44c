//! GetDependencies: ConfigMaps, Secrets, claims and accounts that a template refers to.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Builtin;
use crate::fields::{get, list, text};
use crate::{Dependency, InterpretError};

/// Kind and name of one reference.
pub(crate) type Names = BTreeSet<(&'static str, String)>;

/// Everything a template refers to, sorted, each once.
pub(super) fn list_of(kind: Builtin, template: &Value) -> Result<Vec<Dependency>, InterpretError> {
    let namespace = Some(text(template, "metadata.namespace")?.to_owned()).filter(|ns| !ns.is_empty());
    let mut names = Names::new();
    match kind {
        Builtin::ServiceImport => return service_import(template, namespace),
        Builtin::Ingress => {
            for entry in list(template, "spec.tls")? {
                // An entry without a name uses the controller's certificate and needs nothing.
                add(&mut names, "Secret", entry, "secretName")?;
            }
        }
        Builtin::Pod => pod(&mut names, get(template, "spec")?)?,
        Builtin::CronJob => pod(&mut names, get(template, "spec.jobTemplate.spec.template.spec")?)?,
        _ => pod(&mut names, get(template, "spec.template.spec")?)?,
    }
    if kind == Builtin::StatefulSet {
        for claim in list(template, "spec.volumeClaimTemplates")? {
            names.remove(&("PersistentVolumeClaim", text(claim, "metadata.name")?.to_owned()));
        }
    }
    Ok(named(names, namespace.as_deref()))
}

/// References by name in one namespace.
pub(crate) fn named(names: Names, namespace: Option<&str>) -> Vec<Dependency> {
    names
        .into_iter()
        .map(|(kind, name)| Dependency {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: Some(name),
            label_selector: None,
        })
        .collect()
}

/// Notes the name at `path`, unless there is none.
pub(crate) fn add(
    names: &mut Names,
    kind: &'static str,
    value: &Value,
    path: &str,
) -> Result<(), InterpretError> {
    let name = text(value, path)?;
    if !name.is_empty() {
        names.insert((kind, name.to_owned()));
    }
    Ok(())
}

/// Notes everything a pod with this `spec` refers to.
pub(crate) fn pod(names: &mut Names, spec: Option<&Value>) -> Result<(), InterpretError> {
    let Some(spec) = spec else { return Ok(()) };
    for path in ["containers", "initContainers", "ephemeralContainers"] {
        for container in list(spec, path)? {
            for source in list(container, "envFrom")? {
                add(names, "ConfigMap", source, "configMapRef.name")?;
                add(names, "Secret", source, "secretRef.name")?;
            }
            for variable in list(container, "env")? {
                add(names, "ConfigMap", variable, "valueFrom.configMapKeyRef.name")?;
                add(names, "Secret", variable, "valueFrom.secretKeyRef.name")?;
            }
        }
    }
    for secret in list(spec, "imagePullSecrets")? {
        add(names, "Secret", secret, "name")?;
    }
    if text(spec, "serviceAccountName")? != "default" {
        add(names, "ServiceAccount", spec, "serviceAccountName")?;
    }
    for volume in list(spec, "volumes")? {
        add(names, "ConfigMap", volume, "configMap.name")?;
        add(names, "Secret", volume, "secret.secretName")?;
        add(
            names,
            "PersistentVolumeClaim",
            volume,
            "persistentVolumeClaim.claimName",
        )?;
        for source in list(volume, "projected.sources")? {
            add(names, "ConfigMap", source, "configMap.name")?;
            add(names, "Secret", source, "secret.name")?;
        }
        add(names, "Secret", volume, "azureFile.secretName")?;
        add(names, "Secret", volume, "csi.nodePublishSecretRef.name")?;
        for driver in [
            "cephfs",
            "cinder",
            "flexVolume",
            "rbd",
            "scaleIO",
            "iscsi",
            "storageos",
        ] {
            add(names, "Secret", volume, &format!("{driver}.secretRef.name"))?;
        }
    }
    Ok(())
}

fn service_import(template: &Value, namespace: Option<String>) -> Result<Vec<Dependency>, InterpretError> {
    let derived = format!("derived-{}", text(template, "metadata.name")?);
    let slices = Dependency {
        api_version: "discovery.k8s.io/v1".to_owned(),
        kind: "EndpointSlice".to_owned(),
        namespace: namespace.clone(),
        name: None,
        label_selector: Some(json!({"matchLabels": {"kubernetes.io/service-name": derived}})),
    };
    let service = Dependency {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        namespace,
        name: Some(derived),
        label_selector: None,
    };
    Ok(vec![slices, service])
}
