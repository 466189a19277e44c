//! The real kubectl applying on the server's side: several managers, the move from client-side apply, diffs; and the
//! commands that send protobuf.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Stdio;
use tests::real::hub::Hub;
use tests::real::kubectl::Kubectl;
use xtask::member::Binary;

fn config(color: &str, size: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, namespace: default}}\ndata: {{color: {color}, size: {size}}}\n"
    )
}

const SERVER_SIDE: [&str; 4] = ["apply", "--server-side", "-f", "-"];

fn managers(kubectl: &Kubectl) -> Result<Vec<(String, String)>> {
    let text = kubectl.run(&[
        "get",
        "configmap",
        "settings",
        "-o",
        "json",
        "--show-managed-fields",
    ])?;
    let object: Value = serde_json::from_str(&text)?;
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .context("managedFields")?;
    let word = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    Ok(entries
        .iter()
        .map(|e| (word(e, "manager"), word(e, "operation")))
        .collect())
}

/// Exit code and output of `kubectl diff --server-side`.
fn diff(kubectl: &Kubectl, manifest: &str) -> Result<(Option<i32>, String)> {
    use std::io::Write as _;
    let mut child = kubectl
        .command()
        .args(["diff", "--server-side", "--force-conflicts", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    child
        .stdin
        .take()
        .context("stdin")?
        .write_all(manifest.as_bytes())?;
    let output = child.wait_with_output()?;
    Ok((output.status.code(), String::from_utf8(output.stdout)?))
}

#[test]
fn kubectl_applies_on_the_servers_side() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut hub = Hub::start_new(folder.path(), &Binary::get()?.kubectl())?;
    let kubectl = hub.kubectl().clone();

    // These send protobuf.
    kubectl.run(&["create", "namespace", "shop"])?;
    kubectl.run(&["create", "configmap", "made", "-n", "shop", "--from-literal=a=1"])?;
    kubectl.run(&[
        "create",
        "deployment",
        "web",
        "-n",
        "shop",
        "--image=example.com/web:1",
        "--replicas=2",
    ])?;
    let made = kubectl.get("configmap", "shop", "made")?.context("made")?;
    ensure!(made["data"]["a"] == "1", "{made}");
    let web = kubectl.get("deployment", "shop", "web")?.context("web")?;
    ensure!(web["spec"]["replicas"] == 2, "{web}");
    kubectl.run(&[
        "create",
        "secret",
        "generic",
        "s",
        "-n",
        "shop",
        "--from-literal=a=1",
    ])?;
    let secret = kubectl.get("secret", "shop", "s")?.context("s")?;
    ensure!(secret["data"]["a"] == "MQ==", "{secret}");

    // Client-side first: kubectl moves to the server's side by itself.
    kubectl.apply(&config("blue", "\"1\""))?;
    kubectl.with_input(&SERVER_SIDE, &config("green", "\"1\""))?;
    let after = managers(&kubectl)?;
    // The annotation stays with a manager of its own, as upstream.
    ensure!(
        after.iter().all(|(_, operation)| operation == "Apply") && after.iter().any(|(m, _)| m == "kubectl"),
        "client-side ownership is left: {after:?}"
    );

    // Another manager conflicts until it forces.
    let mut other = SERVER_SIDE.to_vec();
    other.push("--field-manager=other");
    let refused = kubectl.with_input(&other, &config("red", "\"1\""));
    let refusal = format!("{:#}", refused.err().context("a conflict")?);
    ensure!(
        refusal.contains("conflict with \"kubectl\": .data.color"),
        "{refusal}"
    );
    other.push("--force-conflicts");
    kubectl.with_input(&other, &config("red", "\"1\""))?;
    let both = managers(&kubectl)?;
    ensure!(
        ["kubectl", "other"]
            .iter()
            .all(|name| both.iter().any(|(m, _)| m == name)),
        "both own the size: {both:?}"
    );

    let mut forced = SERVER_SIDE.to_vec();
    forced.push("--force-conflicts");
    kubectl.with_input(&forced, &config("red", "\"1\""))?;
    let (code, shown) = diff(&kubectl, &config("red", "\"1\""))?;
    ensure!(code == Some(0), "nothing differs: {shown}");
    let (code, shown) = diff(&kubectl, &config("red", "\"2\""))?;
    ensure!(
        code == Some(1) && shown.contains("+  size: \"2\""),
        "{code:?}: {shown}"
    );

    // Old clients read v2.
    let v2: Value = serde_json::from_str(&kubectl.run(&["get", "--raw", "/openapi/v2"])?)?;
    ensure!(v2["swagger"] == "2.0", "openapi v2");
    hub.stop()
}
