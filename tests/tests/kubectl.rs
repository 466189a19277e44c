//! The real kubectl against the hub's API: in this process, over TLS, as the administrator of `pinnace-hub init`.
//! What kubectl prints is what a user sees, so that is what is compared.

use anyhow::{Context, Result, ensure};
use axum::Router;
use hub::api::{Api, Identity, serve_connection};
use hub::keys::Keys;
use hub::store::Store;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio_rustls::TlsAcceptor;
use xtask::member::Binary;

const WEB: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {color: blue}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "example.com/web:1", ports: [{containerPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}]
  placement: {clusterAffinity: {clusterNames: [a, b]}}
"#;

/// A hub's API and the kubectl that talks to it.
struct Hub {
    directory: TempDir,
    kubectl: PathBuf,
}

fn tls(keys: &Keys) -> Result<TlsAcceptor> {
    let (leaf, _renewed) = keys.leaf(hub::clock::wall())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(keys.ca_pem().as_bytes())?)?;
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(leaf.certificate().as_bytes())?],
            PrivateKeyDer::from_pem_slice(leaf.key().as_bytes())?,
        )?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl Hub {
    async fn start() -> Result<Hub> {
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("hub");
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let now = hub::clock::wall();
        hub::init::init(&data, &[], listener.local_addr()?, now).await?;
        let store = Store::open(&data, now)?;
        let keys = Keys::load(&data, store.fleet())?;
        let acceptor = tls(&keys)?;
        let api = Api::new(store, Router::new(), keys.authority()?);
        api.bootstrap().await?;
        tokio::spawn(api.clone().run());
        tokio::spawn(async move {
            // Every client was verified to be one of this hub's CA: the administrator.
            let admin = Identity {
                user: "admin".to_owned(),
                groups: vec!["system:masters".to_owned()],
                ..Identity::default()
            };
            while let Ok((stream, peer)) = listener.accept().await {
                let (acceptor, api, admin) = (acceptor.clone(), api.clone(), admin.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve_connection(api, stream, Some(admin), peer).await;
                    }
                });
            }
        });
        let kubectl = tokio::task::spawn_blocking(|| Binary::get().map(|binary| binary.kubectl())).await??;
        Ok(Hub { directory, kubectl })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .arg("--cache-dir")
            .arg(self.path("cache"))
            .args(arguments)
            .env("KUBECONFIG", self.path("hub/admin.kubeconfig"))
            .env("HOME", self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs kubectl to its end: whether it succeeded, and all it printed.
    async fn run(&self, arguments: &[&str], input: &str) -> Result<(bool, String)> {
        let mut child = self.command(arguments).spawn().context("kubectl")?;
        let mut stdin = child.stdin.take().context("a pipe")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        let text = [output.stdout, output.stderr].concat();
        Ok((
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        ))
    }

    /// Runs kubectl, which must succeed.
    async fn ok(&self, arguments: &[&str]) -> Result<String> {
        let (success, text) = self.run(arguments, "").await?;
        ensure!(success, "kubectl {arguments:?}: {text}");
        Ok(text)
    }

    /// Runs kubectl, which must fail.
    async fn refused(&self, arguments: &[&str]) -> Result<String> {
        let (success, text) = self.run(arguments, "").await?;
        ensure!(!success, "kubectl {arguments:?} succeeded: {text}");
        Ok(text)
    }

    async fn apply(&self, manifests: &str) -> Result<Vec<String>> {
        let (success, text) = self.run(&["apply", "-f", "-"], manifests).await?;
        ensure!(success, "kubectl apply: {text}");
        Ok(text.lines().map(str::to_owned).collect())
    }

    async fn field(&self, object: &str, path: &str) -> Result<String> {
        self.ok(&["-n", "shop", "get", object, "-o", &format!("jsonpath={{{path}}}")])
            .await
    }
}

/// Lines that a running kubectl prints.
struct Lines {
    child: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Lines {
    fn start(hub: &Hub, arguments: &[&str]) -> Result<Lines> {
        let mut child = hub.command(arguments).spawn().context("kubectl")?;
        let stdout = child.stdout.take().context("a pipe")?;
        Ok(Lines {
            child,
            lines: BufReader::new(stdout).lines(),
        })
    }

    /// Reads on to a line with that text.
    async fn until(&mut self, text: &str) -> Result<String> {
        while let Some(line) = self.lines.next_line().await? {
            if line.contains(text) {
                return Ok(line);
            }
        }
        anyhow::bail!("kubectl ended without {text:?}")
    }
}

fn columns(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_creates_changes_and_leaves_alone() -> Result<()> {
    let hub = Hub::start().await?;
    let created = hub.apply(WEB).await?;
    assert_eq!(
        created,
        [
            "namespace/shop created",
            "configmap/settings created",
            "deployment.apps/web created",
            "service/web created",
            "propagationpolicy.policy.karmada.io/web created",
            "Warning: spec.placement: no cluster has joined under the name a, b; it is used once it does",
        ]
    );
    let revision = hub.field("deployment/web", ".metadata.resourceVersion").await?;
    let same = hub.apply(WEB).await?;
    assert!(same.iter().all(|line| line.ends_with("unchanged")), "{same:?}");
    assert_eq!(
        hub.field("deployment/web", ".metadata.resourceVersion").await?,
        revision
    );

    let changed = hub
        .apply(&WEB.replace("web:1", "web:2").replace("blue", "red"))
        .await?;
    let configured: Vec<&String> = changed
        .iter()
        .filter(|line| line.ends_with("configured"))
        .collect();
    assert_eq!(
        configured,
        ["configmap/settings configured", "deployment.apps/web configured"]
    );
    assert_eq!(
        hub.field("deployment/web", ".spec.template.spec.containers[0].image")
            .await?,
        "example.com/web:2"
    );
    assert_eq!(hub.field("deployment/web", ".metadata.generation").await?, "2");
    let (differs, text) = hub
        .run(&["diff", "-f", "-"], &WEB.replace("blue", "green"))
        .await?;
    assert!(!differs && text.contains("+  color: green"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_describe_and_watch() -> Result<()> {
    let hub = Hub::start().await?;
    hub.apply(WEB).await?;
    let table = hub.ok(&["-n", "shop", "get", "deploy", "-o", "wide"]).await?;
    let lines: Vec<Vec<&str>> = table.lines().map(columns).collect();
    assert_eq!(
        lines[0],
        [
            "NAME",
            "READY",
            "UP-TO-DATE",
            "AVAILABLE",
            "AGE",
            "CONTAINERS",
            "IMAGES",
            "SELECTOR"
        ]
    );
    assert_eq!(lines[1][..4], ["web", "0/3", "0", "0"]);
    assert_eq!(lines[1][5..], ["web", "example.com/web:1", "app=web"]);
    let service = hub
        .ok(&["-n", "shop", "get", "service", "web", "--no-headers"])
        .await?;
    assert_eq!(
        columns(&service)[..5],
        ["web", "ClusterIP", "<none>", "<none>", "80/TCP"]
    );
    let policies = hub.ok(&["-n", "shop", "get", "pp", "--no-headers"]).await?;
    assert_eq!(columns(&policies)[..3], ["web", "Abort", "0"]);
    assert_eq!(
        hub.ok(&["get", "deploy", "-A", "-l", "app in (web)", "-o", "name"])
            .await?,
        "deployment.apps/web\n"
    );

    let mut watch = Lines::start(&hub, &["-n", "shop", "get", "deploy", "-w", "--no-headers"])?;
    assert_eq!(columns(&watch.until("web").await?)[1], "0/3");
    hub.ok(&["-n", "shop", "scale", "deploy/web", "--replicas=5"])
        .await?;
    assert_eq!(columns(&watch.until("0/5").await?)[0], "web");
    watch.child.kill().await?;

    let uid = hub.field("deployment/web", ".metadata.uid").await?;
    let event = serde_json::json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1",
        "namespace": "shop"}, "involvedObject": {"kind": "Deployment", "name": "web", "namespace": "shop", "uid": uid},
        "reason": "Placed", "message": "on two clusters", "type": "Normal", "source": {"component": "hub"}});
    hub.apply(&event.to_string()).await?;
    let described = hub.ok(&["-n", "shop", "describe", "deploy", "web"]).await?;
    for text in ["5 desired", "example.com/web:1", "Placed", "on two clusters"] {
        assert!(described.contains(text), "{text} is not in\n{described}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edit_label_annotate_patch_and_set() -> Result<()> {
    let hub = Hub::start().await?;
    hub.apply(WEB).await?;
    hub.ok(&["-n", "shop", "label", "deploy/web", "tier=front"])
        .await?;
    hub.ok(&["-n", "shop", "annotate", "deploy/web", "note=hello"])
        .await?;
    assert_eq!(
        hub.field("deployment/web", ".metadata.labels.tier").await?,
        "front"
    );
    assert_eq!(
        hub.field("deployment/web", ".metadata.annotations.note").await?,
        "hello"
    );
    hub.ok(&[
        "-n",
        "shop",
        "set",
        "image",
        "deploy/web",
        "web=example.com/web:3",
    ])
    .await?;
    let editor = "sed -i s/web:3/web:4/";
    let mut edit = hub.command(&["-n", "shop", "edit", "deploy", "web"]);
    let edited = edit.env("KUBE_EDITOR", editor).output().await?;
    assert!(
        edited.status.success(),
        "{}",
        String::from_utf8_lossy(&edited.stderr)
    );
    assert_eq!(
        hub.field("deployment/web", ".spec.template.spec.containers[0].image")
            .await?,
        "example.com/web:4"
    );
    let operations = r#"[{"op": "replace", "path": "/spec/replicas", "value": 7}]"#;
    hub.ok(&[
        "-n",
        "shop",
        "patch",
        "deploy",
        "web",
        "--type=json",
        "-p",
        operations,
    ])
    .await?;
    assert_eq!(hub.field("deployment/web", ".spec.replicas").await?, "7");
    assert_eq!(hub.field("deployment/web", ".metadata.generation").await?, "4");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_status_and_wait_end_with_the_status() -> Result<()> {
    let hub = Hub::start().await?;
    hub.apply(WEB).await?;
    let mut rollout = Lines::start(&hub, &["-n", "shop", "rollout", "status", "deploy/web"])?;
    rollout.until("Waiting").await?;
    let status = r#"{"status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
        "availableReplicas": 3, "conditions": [{"type": "Available", "status": "True"}]}}"#;
    hub.ok(&[
        "-n",
        "shop",
        "patch",
        "deploy/web",
        "--subresource=status",
        "--type=merge",
        "-p",
        status,
    ])
    .await?;
    rollout.until("successfully rolled out").await?;
    assert!(rollout.child.wait().await?.success());
    hub.ok(&[
        "-n",
        "shop",
        "wait",
        "deploy/web",
        "--for=condition=Available",
        "--timeout=60s",
    ])
    .await?;
    assert_eq!(hub.field("deployment/web", ".metadata.generation").await?, "1");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_waits_and_namespaces_end() -> Result<()> {
    let hub = Hub::start().await?;
    // Without its policy, which would stay until the planner, absent here, has taken its claims back.
    let (workloads, _) = WEB.rsplit_once("---").context("the policy comes last")?;
    hub.apply(workloads).await?;
    hub.ok(&["-n", "shop", "delete", "cm", "settings"]).await?;
    assert!(
        hub.refused(&["-n", "shop", "get", "cm", "settings"])
            .await?
            .contains("NotFound")
    );
    hub.ok(&["delete", "ns", "shop"]).await?;
    assert!(
        hub.refused(&["get", "ns", "shop"])
            .await?
            .contains("\"shop\" not found")
    );
    assert_eq!(
        hub.ok(&["get", "all", "-n", "shop"]).await?.trim(),
        "No resources found in shop namespace."
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discovery_explain_and_refusals() -> Result<()> {
    let hub = Hub::start().await?;
    let resources = hub.ok(&["api-resources", "--no-headers"]).await?;
    for line in [
        "deployments deploy apps/v1 true Deployment",
        "propagationpolicies pp policy.karmada.io/v1alpha1 true \
                 PropagationPolicy",
    ] {
        let found = resources.lines().any(|r| columns(r) == columns(line));
        assert!(found, "{line} is not in\n{resources}");
    }
    let explained = hub.ok(&["explain", "deployment.spec.strategy"]).await?;
    assert!(
        explained.contains("rollingUpdate\t<RollingUpdateDeployment>"),
        "{explained}"
    );
    assert!(
        hub.ok(&["explain", "pp.spec.placement"])
            .await?
            .contains("clusterAffinity")
    );
    assert!(hub.ok(&["version"]).await?.contains("+pinnace"));

    let typo = WEB.replace("replicas: 3", "replicaz: 3");
    let (_, text) = hub.run(&["apply", "-f", "-"], &typo).await?;
    assert!(text.contains("unknown field \"spec.replicaz\""), "{text}");
    // kubectl sends a generated object as protobuf.
    hub.ok(&["create", "configmap", "x", "--from-literal=a=b"])
        .await?;
    assert_eq!(
        hub.ok(&["get", "configmap", "x", "-o", "jsonpath={.data.a}"])
            .await?,
        "b"
    );
    Ok(())
}
