//! The requests of `bench api`, the same for both servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Run;

/// Longest time for one event to reach all watchers.
const PATIENCE: Duration = Duration::from_secs(60);

fn path(namespace: &str) -> String {
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

/// Sends a request and reads the whole answer.
async fn send(client: &Client, request: http::Request<Body>) -> Result<(u16, Vec<u8>)> {
    let answer = client.send(request).await?;
    let code = answer.status().as_u16();
    Ok((code, answer.into_body().collect().await?.to_bytes().to_vec()))
}

async fn expect(client: &Client, request: http::Request<Body>, wanted: u16) -> Result<Vec<u8>> {
    let what = format!("{} {}", request.method(), request.uri());
    let (code, body) = send(client, request).await?;
    ensure!(
        code == wanted,
        "{what}: {code} {}",
        String::from_utf8_lossy(&body)
    );
    Ok(body)
}

fn request(method: &str, path: &str, of: &str, body: Vec<u8>) -> Result<http::Request<Body>> {
    let builder = http::Request::builder().method(method).uri(path);
    let builder = builder.header(http::header::CONTENT_TYPE, of);
    Ok(builder
        .header(http::header::ACCEPT, "application/json")
        .body(Body::from(body))?)
}

/// Makes a namespace.
pub(super) async fn namespace(client: &Client, name: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let made = request(
        "POST",
        "/api/v1/namespaces",
        "application/json",
        object.to_string().into_bytes(),
    )?;
    expect(client, made, 201).await?;
    Ok(())
}

/// Sends prepared requests with so many on their way at a time.
async fn all(
    client: &Client,
    requests: Vec<http::Request<Body>>,
    wanted: u16,
    clients: usize,
) -> Result<Run> {
    let count = requests.len();
    let started = Instant::now();
    let millis: Vec<f64> = futures::stream::iter(requests)
        .map(|request| async move {
            let started = Instant::now();
            expect(client, request, wanted).await?;
            anyhow::Ok(started.elapsed().as_secs_f64() * 1000.0)
        })
        .buffer_unordered(clients)
        .try_collect()
        .await?;
    Ok(Run::of(count, started.elapsed().as_secs_f64(), millis))
}

/// Creates Deployments.
pub(super) async fn create(
    client: &Client,
    namespace: &str,
    first: usize,
    count: usize,
    clients: usize,
) -> Result<Run> {
    let path = path(namespace);
    let made = |n| request("POST", &path, "application/json", deployment(namespace, n));
    let requests: Result<Vec<_>> = (first..first + count).map(made).collect();
    all(client, requests?, 201, clients).await
}

/// Changes an annotation of each.
pub(super) async fn patch(client: &Client, namespace: &str, count: usize, clients: usize) -> Result<Run> {
    let path = path(namespace);
    let made = |n: usize| {
        let patch = json!({"metadata": {"annotations": {"example.com/revision": format!("patched-{n}")}}});
        let path = format!("{path}/web-{n:06}");
        request(
            "PATCH",
            &path,
            "application/merge-patch+json",
            patch.to_string().into_bytes(),
        )
    };
    let requests: Result<Vec<_>> = (0..count).map(made).collect();
    all(client, requests?, 200, clients).await
}

/// Removes what the runs made.
pub(super) async fn remove_all(client: &Client, namespace: &str) -> Result<()> {
    let gone = request(
        "DELETE",
        &path(namespace),
        "application/json",
        b"{\"propagationPolicy\":\"Background\"}".to_vec(),
    )?;
    expect(client, gone, 200).await?;
    Ok(())
}

/// Milliseconds for a whole list, and its size.
pub(super) async fn list(client: &Client, namespace: &str) -> Result<(f64, usize)> {
    let asked = request("GET", &path(namespace), "application/json", Vec::new())?;
    let started = Instant::now();
    let body = expect(client, asked, 200).await?;
    Ok((started.elapsed().as_secs_f64() * 1000.0, body.len()))
}

/// Milliseconds from the sending of an update until the last watcher has it.
pub(super) async fn watch(
    client: &Client,
    namespace: &str,
    watchers: usize,
    updates: usize,
) -> Result<Vec<f64>> {
    let path = path(namespace);
    let one = request("GET", &format!("{path}?limit=1"), "application/json", Vec::new())?;
    let listed: Value = serde_json::from_slice(&expect(client, one, 200).await?)?;
    let from = listed["metadata"]["resourceVersion"]
        .as_str()
        .context("no resourceVersion")?;
    let (opened, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..watchers {
        let (client, opened, seen, tell) = (client.clone(), opened.clone(), seen.clone(), tell.clone());
        let path = format!("{path}?watch=true&resourceVersion={from}&timeoutSeconds=600");
        tasks.spawn(async move {
            let answer = client
                .send(request("GET", &path, "application/json", Vec::new())?)
                .await?;
            ensure!(answer.status() == 200, "watch: {}", answer.status());
            opened.fetch_add(1, Ordering::Relaxed);
            let mut body = answer.into_body().into_data_stream();
            while let Some(bytes) = body.try_next().await? {
                let events = bytes.iter().filter(|b| **b == b'\n').count();
                let sum = seen.fetch_add(events, Ordering::Relaxed) + events;
                if events > 0 && sum.is_multiple_of(watchers) && tell.send((sum, Instant::now())).is_err() {
                    break;
                }
            }
            anyhow::Ok(())
        });
    }
    let started = Instant::now();
    while opened.load(Ordering::Relaxed) < watchers {
        ensure!(
            started.elapsed() < PATIENCE,
            "{} of {watchers} watches are open",
            opened.load(Ordering::Relaxed)
        );
        if let Some(ended) = tasks.try_join_next() {
            ended??;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut out = Vec::new();
    for n in 0..updates {
        let patch = json!({"metadata": {"annotations": {"example.com/revision": format!("seen-{n}")}}});
        let patch = request(
            "PATCH",
            &format!("{path}/web-000000"),
            "application/merge-patch+json",
            patch.to_string().into_bytes(),
        )?;
        let sent = Instant::now();
        expect(client, patch, 200).await?;
        let wanted = (n + 1) * watchers;
        let last = tokio::time::timeout(PATIENCE, async {
            while let Some((sum, at)) = told.recv().await {
                if sum == wanted {
                    return Some(at);
                }
            }
            None
        });
        match last.await {
            Ok(Some(at)) => out.push(at.duration_since(sent).as_secs_f64() * 1000.0),
            _ => bail!("{} of {wanted} events arrived", seen.load(Ordering::Relaxed)),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tasks.abort_all();
    Ok(out)
}
