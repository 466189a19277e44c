//! Kubeconfigs.

use base64::Engine;

use super::certificates::Pair;

/// A kubeconfig with one cluster, one user, one context.
pub(super) fn render(server: &str, ca: &str, name: &str, user: &Pair) -> String {
    // A JSON string is a YAML string, whatever the name holds.
    let name = serde_json::Value::from(name).to_string();
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: pinnace
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {name}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: pinnace
  context:
    cluster: pinnace
    user: {name}
current-context: pinnace
",
        ca = base64(ca),
        certificate = base64(&user.certificate),
        key = base64(&user.key),
    )
}

/// The file with another server; `None` if its server is not the one the hub wrote.
pub(super) fn with_server(text: &str, from: &str, to: &str) -> Option<String> {
    let line = |server: &str| format!("    server: {server}\n");
    let found = text.contains(&line(from));
    found.then(|| text.replace(&line(from), &line(to)))
}
