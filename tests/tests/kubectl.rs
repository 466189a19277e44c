//! The real kubectl against the hub's API: in this process, over TLS, as the administrator of `pinnace-hub init`.
//! What kubectl prints is what a user sees, so that is what is compared.

use anyhow::{Context, Result};
use tests::real::api::{ApiServer, Caller};

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

/// One field of an object of the namespace `shop`.
async fn field(kubectl: &Caller<'_>, object: &str, path: &str) -> Result<String> {
    let jsonpath = format!("jsonpath={{{path}}}");
    kubectl.ok(&["-n", "shop", "get", object, "-o", &jsonpath]).await
}

fn columns(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_creates_changes_and_leaves_alone() -> Result<()> {
    let api = ApiServer::start().await?;
    let kubectl = api.admin();
    let created = kubectl.apply(WEB).await?;
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
    let revision = field(&kubectl, "deployment/web", ".metadata.resourceVersion").await?;
    let same = kubectl.apply(WEB).await?;
    assert!(same.iter().all(|line| line.ends_with("unchanged")), "{same:?}");
    assert_eq!(
        field(&kubectl, "deployment/web", ".metadata.resourceVersion").await?,
        revision
    );

    let changed = kubectl
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
        field(
            &kubectl,
            "deployment/web",
            ".spec.template.spec.containers[0].image"
        )
        .await?,
        "example.com/web:2"
    );
    assert_eq!(
        field(&kubectl, "deployment/web", ".metadata.generation").await?,
        "2"
    );
    let (differs, text) = kubectl
        .run(&["diff", "-f", "-"], &WEB.replace("blue", "green"))
        .await?;
    assert!(!differs && text.contains("+  color: green"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_describe_and_watch() -> Result<()> {
    let api = ApiServer::start().await?;
    let kubectl = api.admin();
    kubectl.apply(WEB).await?;
    let table = kubectl.ok(&["-n", "shop", "get", "deploy", "-o", "wide"]).await?;
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
    let service = kubectl
        .ok(&["-n", "shop", "get", "service", "web", "--no-headers"])
        .await?;
    assert_eq!(
        columns(&service)[..5],
        ["web", "ClusterIP", "<none>", "<none>", "80/TCP"]
    );
    let policies = kubectl.ok(&["-n", "shop", "get", "pp", "--no-headers"]).await?;
    assert_eq!(columns(&policies)[..3], ["web", "Abort", "0"]);
    assert_eq!(
        kubectl
            .ok(&["get", "deploy", "-A", "-l", "app in (web)", "-o", "name"])
            .await?,
        "deployment.apps/web\n"
    );

    let mut watch = kubectl.lines(&["-n", "shop", "get", "deploy", "-w", "--no-headers"])?;
    assert_eq!(columns(&watch.until("web").await?)[1], "0/3");
    kubectl
        .ok(&["-n", "shop", "scale", "deploy/web", "--replicas=5"])
        .await?;
    assert_eq!(columns(&watch.until("0/5").await?)[0], "web");
    drop(watch);

    let uid = field(&kubectl, "deployment/web", ".metadata.uid").await?;
    let event = serde_json::json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1",
        "namespace": "shop"}, "involvedObject": {"kind": "Deployment", "name": "web", "namespace": "shop", "uid": uid},
        "reason": "Placed", "message": "on two clusters", "type": "Normal", "source": {"component": "hub"}});
    kubectl.apply(&event.to_string()).await?;
    let described = kubectl.ok(&["-n", "shop", "describe", "deploy", "web"]).await?;
    for text in ["5 desired", "example.com/web:1", "Placed", "on two clusters"] {
        assert!(described.contains(text), "{text} is not in\n{described}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edit_label_annotate_patch_and_set() -> Result<()> {
    let api = ApiServer::start().await?;
    let kubectl = api.admin();
    kubectl.apply(WEB).await?;
    kubectl
        .ok(&["-n", "shop", "label", "deploy/web", "tier=front"])
        .await?;
    kubectl
        .ok(&["-n", "shop", "annotate", "deploy/web", "note=hello"])
        .await?;
    assert_eq!(
        field(&kubectl, "deployment/web", ".metadata.labels.tier").await?,
        "front"
    );
    assert_eq!(
        field(&kubectl, "deployment/web", ".metadata.annotations.note").await?,
        "hello"
    );
    kubectl
        .ok(&[
            "-n",
            "shop",
            "set",
            "image",
            "deploy/web",
            "web=example.com/web:3",
        ])
        .await?;
    let editor = "sed -i s/web:3/web:4/";
    let mut edit = kubectl.command(&["-n", "shop", "edit", "deploy", "web"]);
    let edited = edit.env("KUBE_EDITOR", editor).output().await?;
    assert!(
        edited.status.success(),
        "{}",
        String::from_utf8_lossy(&edited.stderr)
    );
    assert_eq!(
        field(
            &kubectl,
            "deployment/web",
            ".spec.template.spec.containers[0].image"
        )
        .await?,
        "example.com/web:4"
    );
    let operations = r#"[{"op": "replace", "path": "/spec/replicas", "value": 7}]"#;
    kubectl
        .ok(&[
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
    assert_eq!(field(&kubectl, "deployment/web", ".spec.replicas").await?, "7");
    assert_eq!(
        field(&kubectl, "deployment/web", ".metadata.generation").await?,
        "4"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_status_and_wait_end_with_the_status() -> Result<()> {
    let api = ApiServer::start().await?;
    let kubectl = api.admin();
    kubectl.apply(WEB).await?;
    let mut rollout = kubectl.lines(&["-n", "shop", "rollout", "status", "deploy/web"])?;
    rollout.until("Waiting").await?;
    let status = r#"{"status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
        "availableReplicas": 3, "conditions": [{"type": "Available", "status": "True"}]}}"#;
    kubectl
        .ok(&[
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
    assert!(rollout.end().await?);
    kubectl
        .ok(&[
            "-n",
            "shop",
            "wait",
            "deploy/web",
            "--for=condition=Available",
            "--timeout=60s",
        ])
        .await?;
    assert_eq!(
        field(&kubectl, "deployment/web", ".metadata.generation").await?,
        "1"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_waits_and_namespaces_end() -> Result<()> {
    let api = ApiServer::start().await?;
    let kubectl = api.admin();
    // Without its policy, which would stay until the planner, absent here, has taken its claims back.
    let (workloads, _) = WEB.rsplit_once("---").context("the policy comes last")?;
    kubectl.apply(workloads).await?;
    kubectl.ok(&["-n", "shop", "delete", "cm", "settings"]).await?;
    assert!(
        kubectl
            .refused(&["-n", "shop", "get", "cm", "settings"])
            .await?
            .contains("NotFound")
    );
    kubectl.ok(&["delete", "ns", "shop"]).await?;
    assert!(
        kubectl
            .refused(&["get", "ns", "shop"])
            .await?
            .contains("\"shop\" not found")
    );
    assert_eq!(
        kubectl.ok(&["get", "all", "-n", "shop"]).await?.trim(),
        "No resources found in shop namespace."
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discovery_explain_and_refusals() -> Result<()> {
    let api = ApiServer::start().await?;
    let kubectl = api.admin();
    let resources = kubectl.ok(&["api-resources", "--no-headers"]).await?;
    for line in [
        "deployments deploy apps/v1 true Deployment",
        "propagationpolicies pp policy.karmada.io/v1alpha1 true \
                 PropagationPolicy",
    ] {
        let found = resources.lines().any(|r| columns(r) == columns(line));
        assert!(found, "{line} is not in\n{resources}");
    }
    let explained = kubectl.ok(&["explain", "deployment.spec.strategy"]).await?;
    assert!(
        explained.contains("rollingUpdate\t<RollingUpdateDeployment>"),
        "{explained}"
    );
    assert!(
        kubectl
            .ok(&["explain", "pp.spec.placement"])
            .await?
            .contains("clusterAffinity")
    );
    assert!(kubectl.ok(&["version"]).await?.contains("+pinnace"));

    let typo = WEB.replace("replicas: 3", "replicaz: 3");
    let (_, text) = kubectl.run(&["apply", "-f", "-"], &typo).await?;
    assert!(text.contains("unknown field \"spec.replicaz\""), "{text}");
    // kubectl sends a generated object as protobuf.
    kubectl
        .ok(&["create", "configmap", "x", "--from-literal=a=b"])
        .await?;
    assert_eq!(
        kubectl
            .ok(&["get", "configmap", "x", "-o", "jsonpath={.data.a}"])
            .await?,
        "b"
    );
    Ok(())
}
