//! kubectl of one release: a day's work of an operator.

use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};

use super::{Server, holds};

const WEB: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "example.com/web:1"}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: job, image: "example.com/job:1"}]
"#;

/// Applies, looks, edits in every way and deletes.
pub(super) fn check(program: &Path, server: &Server) -> Result<()> {
    let file = server.folder.join("web.yaml");
    std::fs::write(&file, WEB).context("the manifest cannot be written")?;
    let file = file.to_string_lossy();
    let kubectl = |arguments: &[&str]| run(program, server, arguments);
    let ok = |arguments: &[&str]| -> Result<String> {
        let output = kubectl(arguments)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "kubectl {}: {}",
            arguments.join(" "),
            said.trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };

    holds(
        "api-resources",
        &ok(&["api-resources"])?,
        &["deployments", "serviceaccounts"],
    )?;
    holds(
        "explain",
        &ok(&["explain", "deployment.spec.replicas"])?,
        &["replicas", "integer"],
    )?;
    holds(
        "apply",
        &ok(&["apply", "-f", &file])?,
        &["deployment.apps/web created", "cronjob.batch/nightly created"],
    )?;
    holds(
        "apply again",
        &ok(&["apply", "-f", &file])?,
        &["deployment.apps/web unchanged"],
    )?;
    ensure!(
        kubectl(&["diff", "-f", &file])?.status.code() == Some(0),
        "diff of the same is not empty"
    );
    holds(
        "server-side apply",
        &ok(&["apply", "--server-side", "-f", &file])?,
        &["deployment.apps/web serverside-applied"],
    )?;

    std::fs::write(&*file, WEB.replace("replicas: 2", "replicas: 3"))
        .context("the manifest cannot be written")?;
    let diff = kubectl(&["diff", "-f", &file])?;
    ensure!(
        diff.status.code() == Some(1),
        "diff of a change exits with {:?}",
        diff.status.code()
    );
    holds("diff", &String::from_utf8_lossy(&diff.stdout), &["replicas: 3"])?;
    holds(
        "a dry run",
        &ok(&["apply", "--dry-run=server", "-f", &file])?,
        &["deployment.apps/web configured (server dry run)"],
    )?;
    ensure!(
        server.field("deployment/web", ".spec.replicas")? == "2",
        "a dry run changed something"
    );

    ok(&["scale", "deployment/web", "--replicas=5"])?;
    ok(&["set", "image", "deployment/web", "web=example.com/web:2"])?;
    ok(&["label", "deployment/web", "tier=front"])?;
    ok(&["annotate", "deployment/web", "note=kept"])?;
    ok(&["rollout", "restart", "deployment/web"])?;
    ok(&[
        "patch",
        "configmap/settings",
        "--type=merge",
        "-p",
        r#"{"data":{"color":"green"}}"#,
    ])?;
    ok(&[
        "patch",
        "configmap/settings",
        "--type=json",
        "-p",
        r#"[{"op":"add","path":"/data/size","value":"xl"}]"#,
    ])?;
    ensure!(
        server.field("deployment/web", ".spec.replicas")? == "5",
        "scale did not scale"
    );
    ensure!(
        server.field("deployment/web", ".spec.template.spec.containers[0].image")? == "example.com/web:2",
        "set image did not set it"
    );
    ensure!(
        server.field("configmap/settings", ".data")? == r#"{"color":"green","size":"xl"}"#,
        "patches are lost"
    );
    holds(
        "get -o wide",
        &ok(&["get", "deployment", "web", "-o", "wide"])?,
        &["UP-TO-DATE", "example.com/web:2"],
    )?;
    holds(
        "get by label",
        &ok(&["get", "all", "-l", "tier=front"])?,
        &["deployment.apps/web"],
    )?;
    holds(
        "describe",
        &ok(&["describe", "deployment", "web"])?,
        &["example.com/web:2", "note: kept"],
    )?;
    ok(&[
        "wait",
        "--for=jsonpath={.spec.replicas}=5",
        "deployment/web",
        "--timeout=30s",
    ])?;
    holds(
        "auth can-i",
        &ok(&["auth", "can-i", "create", "deployments"])?,
        &["yes"],
    )?;

    ok(&["create", "serviceaccount", "robot"])?;
    ensure!(
        ok(&["create", "token", "robot"])?.trim().split('.').count() == 3,
        "create token prints no token"
    );
    ok(&["create", "role", "reader", "--verb=get", "--resource=pods"])?;
    ok(&[
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        &format!("--serviceaccount={}:robot", server.namespace),
    ])?;
    let robot = format!("--as=system:serviceaccount:{}:robot", server.namespace);
    holds(
        "auth can-i as the robot",
        &ok(&["auth", "can-i", "get", "pods", &robot])?,
        &["yes"],
    )?;
    let no = kubectl(&["get", "secrets", &robot])?;
    ensure!(!no.status.success(), "the robot may read secrets");
    holds(
        "a refusal",
        &String::from_utf8_lossy(&no.stderr),
        &["Forbidden", "cannot list resource \"secrets\""],
    )?;

    let bad = kubectl(&["create", "configmap", "Not_A_Name"])?;
    ensure!(!bad.status.success(), "a bad name was taken");
    holds(
        "a bad name",
        &String::from_utf8_lossy(&bad.stderr),
        &["is invalid: metadata.name"],
    )?;
    holds("delete", &ok(&["delete", "-f", &file])?, &["\"web\" deleted"])?;
    ok(&["wait", "--for=delete", "deployment/web", "--timeout=30s"])?;
    let gone = kubectl(&["get", "deployment", "web"])?;
    holds(
        "get of a deleted one",
        &String::from_utf8_lossy(&gone.stderr),
        &["NotFound"],
    )
}

fn run(program: &Path, server: &Server, arguments: &[&str]) -> Result<Output> {
    server
        .client(program)
        .args(["--namespace", &server.namespace])
        .args(arguments)
        .output()
        .context("kubectl cannot be started")
}
