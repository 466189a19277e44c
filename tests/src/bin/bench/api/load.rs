//! The requests of `bench api`, made before they are sent and the same for both servers.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::config::Kubeconfig;
use load::{Answer, Connection, Target, request};
use serde_json::{Value, json};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// The server of a kubeconfig, as its first user.
pub(super) fn target(kubeconfig: &Path) -> Result<Target> {
    let config = serde_json::to_value(Kubeconfig::read_from(kubeconfig)?)?;
    let text = |pointer: &str| {
        let found = config.pointer(pointer).and_then(Value::as_str);
        found.with_context(|| format!("{}: no {pointer}", kubeconfig.display()))
    };
    let pem = |pointer: &str| Ok::<_, anyhow::Error>(BASE64.decode(text(pointer)?)?);
    Target::new(
        text("/clusters/0/cluster/server")?,
        &pem("/clusters/0/cluster/certificate-authority-data")?,
        &pem("/users/0/user/client-certificate-data")?,
        &pem("/users/0/user/client-key-data")?,
    )
}

/// Path of the Deployments of a namespace.
pub(super) fn path(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments")
}

/// A Deployment of about 2.8 kB, as people write them.
pub(super) fn deployment(namespace: &str, n: usize) -> Vec<u8> {
    let name = format!("web-{n:06}");
    let labels =
        json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop", "tier": "front"});
    let probe = |path: &str| {
        json!({"httpGet": {"path": path, "port": "http", "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 2,
            "failureThreshold": 3, "initialDelaySeconds": 5})
    };
    let container = |name: &str, image: &str| {
        json!({"name": name, "image": image, "imagePullPolicy": "IfNotPresent",
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "REGION", "value": "eu-central"},
                {"name": "POD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
            "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
            "readinessProbe": probe("/ready"), "livenessProbe": probe("/live"),
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/config", "readOnly": true},
                {"name": "cache", "mountPath": "/var/cache"}]})
    };
    let spread = json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels}});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels,
            "annotations": {"example.com/owner": "team-shop@example.com", "example.com/revision": "3f2a9c1d0b7e4a58"}},
        "spec": {"replicas": 3, "revisionHistoryLimit": 5, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels, "annotations": {"example.com/config": "9b1c7e"}},
                "spec": {"serviceAccountName": "shop", "terminationGracePeriodSeconds": 30,
                    "containers": [container("main", "registry.example.com/shop/web:1.27.3"),
                        container("proxy", "registry.example.com/shop/proxy:4.1.0")],
                    "topologySpreadConstraints": [spread],
                    "volumes": [{"name": "config", "configMap": {"name": "shop-config"}},
                        {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}}]}}}});
    object.to_string().into_bytes()
}

/// Sends a request and wants a status.
pub(super) async fn expect(connection: &mut Connection, request: &[u8], wanted: u16) -> Result<Answer> {
    let answer = connection.send(request, true).await?;
    ensure!(
        answer.status == wanted,
        "{}: {} {}",
        String::from_utf8_lossy(request)
            .lines()
            .next()
            .unwrap_or_default(),
        answer.status,
        String::from_utf8_lossy(&answer.body)
    );
    Ok(answer)
}

/// Makes a namespace.
pub(super) async fn namespace(connection: &mut Connection, name: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
    let made = request("POST", "/api/v1/namespaces", JSON, object.as_bytes());
    expect(connection, &made, 201).await?;
    Ok(())
}

/// Creates of Deployments.
pub(super) fn creates(namespace: &str, first: usize, count: usize) -> Arc<Vec<Vec<u8>>> {
    let path = path(namespace);
    let numbers = first..first + count;
    Arc::new(
        numbers
            .map(|n| request("POST", &path, JSON, &deployment(namespace, n)))
            .collect(),
    )
}

/// Changes of an annotation of each.
pub(super) fn patches(namespace: &str, count: usize) -> Arc<Vec<Vec<u8>>> {
    Arc::new(
        (0..count)
            .map(|n| patch(namespace, n, &format!("patched-{n}")))
            .collect(),
    )
}

/// A change of an annotation of one.
pub(super) fn patch(namespace: &str, n: usize, text: &str) -> Vec<u8> {
    let patch = json!({"metadata": {"annotations": {"example.com/revision": text}}}).to_string();
    let path = format!("{}/web-{n:06}", path(namespace));
    request("PATCH", &path, MERGE, patch.as_bytes())
}

/// Creates of ConfigMaps, the writes of people while clusters report.
pub(super) fn configs(namespace: &str, prefix: &str, count: usize) -> Arc<Vec<Vec<u8>>> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let made = (0..count).map(|n| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{prefix}-{n:06}")},
            "data": {"settings": "a=1\nb=2\n".repeat(20)}});
        request("POST", &path, JSON, object.to_string().as_bytes())
    });
    Arc::new(made.collect())
}

/// Removes what a run made.
pub(super) async fn remove_all(connection: &mut Connection, namespace: &str) -> Result<()> {
    let gone = request(
        "DELETE",
        &path(namespace),
        JSON,
        b"{\"propagationPolicy\":\"Background\"}",
    );
    expect(connection, &gone, 200).await?;
    Ok(())
}

/// A list of a namespace.
pub(super) fn list(namespace: &str) -> Vec<u8> {
    request("GET", &path(namespace), JSON, b"")
}

/// A watch of a namespace from now on.
pub(super) async fn watch(connection: &mut Connection, namespace: &str) -> Result<Vec<u8>> {
    let path = path(namespace);
    let one = request("GET", &format!("{path}?limit=1"), JSON, b"");
    let listed: Value = serde_json::from_slice(&expect(connection, &one, 200).await?.body)?;
    let from = listed["metadata"]["resourceVersion"]
        .as_str()
        .context("no resourceVersion")?;
    let path = format!("{path}?watch=true&resourceVersion={from}&timeoutSeconds=600");
    Ok(request("GET", &path, JSON, b""))
}

/// A definition as large as those of grown operators: fields with sentences that say what they are for.
pub(super) fn definition(n: usize) -> Vec<u8> {
    let sentence = "says what the controller does when the backend answers later than the time that is given here, and how \
                    often it asks again before it gives up; a value of zero leaves the decision to the installation.";
    let leaf = |name: &str, n: usize| match n % 4 {
        0 => json!({"type": "string", "description": format!("{name} {sentence}"), "maxLength": 253}),
        1 => {
            json!({"type": "integer", "format": "int32", "minimum": 0, "description": format!("{name} {sentence}")})
        }
        2 => json!({"type": "boolean", "description": format!("{name} {sentence}")}),
        _ => {
            json!({"type": "array", "items": {"type": "string"}, "description": format!("{name} {sentence}")})
        }
    };
    let group = |group: usize| {
        let fields = (0..14).map(|n| {
            let name = format!("field{group:02}x{n:02}");
            let schema = leaf(&name, n);
            (name, schema)
        });
        json!({"type": "object", "description": format!("group {group} {sentence}"),
            "properties": fields.collect::<serde_json::Map<_, _>>()})
    };
    let groups = (0..14).map(|n| (format!("group{n:02}"), group(n)));
    let condition = json!({"type": "object", "required": ["status", "type"], "properties": {
        "type": {"type": "string"}, "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "lastTransitionTime": {"type": "string", "format": "date-time"}, "reason": {"type": "string"},
        "message": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": groups.collect::<serde_json::Map<_, _>>()},
        "status": {"type": "object", "properties": {"conditions": {"type": "array", "items": condition,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}}}}});
    let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things{n}.bench.example.com")},
        "spec": {"group": "bench.example.com", "scope": "Namespaced",
            "names": {"plural": format!("things{n}"), "singular": format!("thing{n}"), "kind": format!("Thing{n}"),
                "listKind": format!("Thing{n}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]}});
    object.to_string().into_bytes()
}

/// Creates of definitions.
pub(super) fn definitions(count: usize) -> Arc<Vec<Vec<u8>>> {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    Arc::new(
        (0..count)
            .map(|n| request("POST", path, JSON, &definition(n)))
            .collect(),
    )
}
