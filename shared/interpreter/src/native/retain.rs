//! Retain: values of the member object that survive a new desired object.

use serde_json::{Map, Value};

use super::Builtin;
use crate::fields::{get, int, label, list, map, set, text};
use crate::{InterpretError, RETAIN_REPLICAS_LABEL};

/// An empty PEM bundle in base64 ("\n"): the placeholder that manifests ship for an injector to replace.
const CA_PLACEHOLDER: &str = "Cg==";

/// `desired` with what belongs to the member.
pub(super) fn retain(kind: Builtin, desired: &Value, observed: &Value) -> Result<Value, InterpretError> {
    let mut result = desired.clone();
    match kind {
        Builtin::Deployment if label(desired, RETAIN_REPLICAS_LABEL) == Some("true") => {
            let replicas = int(observed, "spec.replicas")?.ok_or_else(|| InterpretError::Missing {
                path: "spec.replicas".to_owned(),
                purpose: "keep the replicas of the member",
            })?;
            set(&mut result, "spec.replicas", replicas.into());
        }
        Builtin::Pod => pod(&mut result, observed)?,
        Builtin::Service => service(&mut result, observed)?,
        Builtin::ServiceAccount => {
            for path in ["secrets", "imagePullSecrets"] {
                let merged = with_new_names(list(desired, path)?, list(observed, path)?);
                if !merged.is_empty() {
                    set(&mut result, path, Value::Array(merged));
                }
            }
        }
        Builtin::PersistentVolumeClaim => {
            let name = text(observed, "spec.volumeName")?;
            if !name.is_empty() {
                set(&mut result, "spec.volumeName", name.into());
            }
        }
        Builtin::PersistentVolume => copy_map(&mut result, observed, "spec.claimRef")?,
        Builtin::Job => {
            copy_map(&mut result, observed, "spec.selector.matchLabels")?;
            copy_map(&mut result, observed, "spec.template.metadata.labels")?;
        }
        Builtin::Secret => token_data(&mut result, desired, observed)?,
        Builtin::WebhookConfiguration => {
            let webhooks = list(observed, "webhooks")?;
            for webhook in result
                .get_mut("webhooks")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                if let Some(other) = webhooks.iter().find(|other| other["name"] == webhook["name"]) {
                    ca_bundle(webhook, other, "clientConfig.caBundle")?;
                }
            }
        }
        Builtin::CustomResourceDefinition => {
            ca_bundle(
                &mut result,
                observed,
                "spec.conversion.webhook.clientConfig.caBundle",
            )?;
        }
        Builtin::ApiService => ca_bundle(&mut result, observed, "spec.caBundle")?,
        _ => {}
    }
    Ok(result)
}

fn copy_map(result: &mut Value, observed: &Value, path: &str) -> Result<(), InterpretError> {
    if let Some(value) = map(observed, path)? {
        set(result, path, Value::Object(value.clone()));
    }
    Ok(())
}

/// Tokens of a ServiceAccount are made by the member.
fn token_data(result: &mut Value, desired: &Value, observed: &Value) -> Result<(), InterpretError> {
    let is_token = text(desired, "type")? == "kubernetes.io/service-account-token";
    if is_token && map(observed, "data")?.is_some_and(|data| !data.is_empty()) {
        copy_map(result, observed, "data")?;
    }
    Ok(())
}

/// The bundle that an injector in the member wrote, unless the template brings a real one.
fn ca_bundle(result: &mut Value, observed: &Value, path: &str) -> Result<(), InterpretError> {
    let own = text(result, path)?;
    let theirs = text(observed, path)?;
    let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
    if matches!(own, "" | CA_PLACEHOLDER) && !theirs.is_empty() && get(result, parent)?.is_some() {
        let theirs = theirs.to_owned();
        set(result, path, theirs.into());
    }
    Ok(())
}

fn with_new_names(desired: &[Value], observed: &[Value]) -> Vec<Value> {
    let mut merged = desired.to_vec();
    for entry in observed {
        if !desired.iter().any(|other| other["name"] == entry["name"]) {
            merged.push(entry.clone());
        }
    }
    merged
}

fn pod(result: &mut Value, observed: &Value) -> Result<(), InterpretError> {
    let Some(spec) = result.get_mut("spec").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    // Scheduler and admission of the member fill these; all are immutable afterwards. Empty there is kept too.
    for name in ["nodeName", "serviceAccountName", "volumes"] {
        let value = get(observed, &format!("spec.{name}"))?.cloned();
        put_or_remove(spec, name, value);
    }
    for path in ["containers", "initContainers"] {
        let theirs = list(observed, &format!("spec.{path}"))?;
        for container in spec
            .get_mut(path)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let same = theirs.iter().find(|other| other["name"] == container["name"]);
            if let (Some(other), Some(container)) = (same, container.as_object_mut()) {
                let mounts = get(other, "volumeMounts")?.cloned();
                put_or_remove(container, "volumeMounts", mounts);
            }
        }
    }
    Ok(())
}

fn put_or_remove(map: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(name.to_owned(), value),
        None => map.remove(name),
    };
}

fn service(result: &mut Value, observed: &Value) -> Result<(), InterpretError> {
    let health_port = int(observed, "spec.healthCheckNodePort")?.unwrap_or(0);
    if health_port > 0 {
        set(result, "spec.healthCheckNodePort", health_port.into());
    }
    let address = text(observed, "spec.clusterIP")?;
    if !address.is_empty() {
        set(result, "spec.clusterIP", address.into());
        // The API refuses a clusterIPs list that does not begin with clusterIP.
        let addresses = list(observed, "spec.clusterIPs")?;
        if !addresses.is_empty() {
            set(result, "spec.clusterIPs", addresses.into());
        }
    }
    // A node port that the template does not choose was allocated by the member: a new one would break its users.
    let theirs = list(observed, "spec.ports")?;
    let Some(ports) = result.pointer_mut("/spec/ports").and_then(Value::as_array_mut) else {
        return Ok(());
    };
    for port in ports {
        let same = |other: &&Value| other["port"] == port["port"] && protocol(other) == protocol(port);
        let node_port = theirs
            .iter()
            .find(same)
            .and_then(|other| other["nodePort"].as_i64())
            .unwrap_or(0);
        if node_port > 0 && port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) == 0 && port.is_object()
        {
            port["nodePort"] = node_port.into();
        }
    }
    Ok(())
}

fn protocol(port: &Value) -> &str {
    port.get("protocol").and_then(Value::as_str).unwrap_or("TCP")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn allocated_node_ports_stay_and_chosen_ones_win() {
        let service = |ports: Value| json!({"spec": {"ports": ports}});
        let desired =
            service(json!([{"port": 80}, {"port": 81, "nodePort": 30081}, {"port": 80, "protocol": "UDP"}]));
        let observed = service(json!([{"port": 80, "protocol": "TCP", "nodePort": 30001},
                                      {"port": 81, "protocol": "TCP", "nodePort": 30002}]));
        let got = retain(Builtin::Service, &desired, &observed).expect("readable");
        let want = json!([{"port": 80, "nodePort": 30001}, {"port": 81, "nodePort": 30081}, {"port": 80, "protocol": "UDP"}]);
        assert_eq!(got["spec"]["ports"], want);
    }

    #[test]
    fn injected_ca_bundles_stay_unless_the_template_brings_one() {
        let hooks =
            |bundle: Value| json!({"webhooks": [{"name": "a", "clientConfig": {"caBundle": bundle}}]});
        let observed = hooks(json!("UkVBTA=="));
        for (own, want) in [
            (json!(null), "UkVBTA=="),
            (json!("Cg=="), "UkVBTA=="),
            (json!("T1dO"), "T1dO"),
        ] {
            let got = retain(Builtin::WebhookConfiguration, &hooks(own), &observed).expect("readable");
            assert_eq!(got, hooks(json!(want)));
        }
    }

    #[test]
    fn a_pod_without_lists_gets_no_nulls() {
        let desired = json!({"spec": {"containers": [{"name": "a"}]}});
        let got = retain(Builtin::Pod, &desired, &json!({"spec": {"nodeName": "n"}})).expect("readable");
        assert_eq!(
            got,
            json!({"spec": {"nodeName": "n", "containers": [{"name": "a"}]}})
        );
    }
}
