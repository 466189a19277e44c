//! The real kubectl with custom resources: from their definition to its end.

use anyhow::{Context, Result, ensure};
use tests::real::hub::Hub;
use tests::real::kubectl::Kubectl;
use xtask::member::Binary;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.io}
spec:
  group: example.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd], categories: [tools]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: A widget for testing.
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, default: 1, maximum: 9, description: How large it is.}
              color: {type: string, enum: [red, blue]}
          status: {type: object, properties: {size: {type: integer}}}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
"#;

fn widget(color: &str) -> String {
    format!(
        "apiVersion: example.io/v1\nkind: Widget\nmetadata: {{name: one, namespace: default}}\nspec: {{color: {color}}}\n"
    )
}

#[test]
fn kubectl_lives_with_custom_resources() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut hub = Hub::start_new(folder.path(), &Binary::get()?.kubectl())?;
    let kubectl = hub.kubectl().clone();
    let apply = |text: &str| kubectl.with_input(&["apply", "-f", "-"], text);
    apply(DEFINITION)?;
    kubectl.run(&[
        "wait",
        "--for=condition=Established",
        "crd/widgets.example.io",
        "--timeout=30s",
    ])?;

    apply(&widget("red"))?;
    let shown = kubectl.run(&["get", "wd", "-o", "wide"])?;
    ensure!(
        shown.contains("SIZE") && shown.contains("COLOR") && shown.contains("red"),
        "{shown}"
    );
    let told = kubectl.run(&["explain", "widget.spec.size"])?;
    ensure!(told.contains("How large it is."), "{told}");
    let kinds = kubectl.run(&["api-resources", "--api-group=example.io"])?;
    ensure!(kinds.contains("widgets") && kinds.contains("wd"), "{kinds}");
    let all = kubectl.run(&["get", "tools"])?;
    ensure!(all.contains("one"), "{all}");

    // A change by kubectl's own merge, one that the schema refuses, and one on the server's side.
    apply(&widget("blue"))?;
    refuses(&kubectl, &widget("green"), "Unsupported value: \"green\"")?;
    refuses(
        &kubectl,
        &widget("red").replace("color", "colour"),
        "unknown field \"spec.colour\"",
    )?;
    kubectl.with_input(
        &["apply", "--server-side", "--force-conflicts", "-f", "-"],
        &widget("red"),
    )?;
    kubectl.run(&["scale", "widget/one", "--replicas=3"])?;
    let one = kubectl.get("widget", "default", "one")?.context("the widget")?;
    ensure!(
        one["spec"] == serde_json::json!({"size": 3, "color": "red"}),
        "{one}"
    );
    kubectl.run(&[
        "patch",
        "widget",
        "one",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"size":3}}"#,
    ])?;

    kubectl.run(&["delete", "crd", "widgets.example.io", "--timeout=30s"])?;
    ensure!(
        kubectl.run(&["get", "widgets.example.io"]).is_err(),
        "the kind is gone"
    );
    apply(DEFINITION)?;
    let left = kubectl.run(&["get", "widgets.example.io", "-o", "name"])?;
    ensure!(left.trim().is_empty(), "its objects went with it: {left}");
    hub.stop()
}

fn refuses(kubectl: &Kubectl, manifest: &str, why: &str) -> Result<()> {
    let error = kubectl
        .with_input(&["apply", "-f", "-"], manifest)
        .err()
        .context("it must be refused")?;
    ensure!(format!("{error:#}").contains(why), "{error:#}");
    Ok(())
}
