//! The real kubectl as people of different rights: whoami, can-i, tokens, certificates, impersonation.

use anyhow::{Result, ensure};
use tests::real::api::ApiServer;

#[tokio::test]
async fn people_and_programs_of_different_rights() -> Result<()> {
    let api = ApiServer::start().await?;
    let kubectl = api.admin();
    let who = kubectl.ok(&["auth", "whoami"]).await?;
    ensure!(
        who.contains("pinnace-admin") && who.contains("system:masters"),
        "{who}"
    );
    kubectl.ok(&["create", "namespace", "shop"]).await?;

    // A person's key never leaves them: a signing request, approved by the administrator.
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "ann");
    params
        .distinguished_name
        .push(rcgen::DnType::OrganizationName, "team");
    let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    let request = format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: ann}}\nspec:\n  \
         request: {}\n  signerName: kubernetes.io/kube-apiserver-client\n  usages: [client auth]\n",
        encode(&params.serialize_request(&key)?.pem()?)
    );
    let (made, text) = kubectl.run(&["apply", "-f", "-"], &request).await?;
    ensure!(made, "{text}");
    let pending = kubectl.ok(&["get", "csr"]).await?;
    ensure!(pending.contains("ann"), "{pending}");
    kubectl.ok(&["certificate", "approve", "ann"]).await?;
    let certificate = kubectl
        .ok(&["get", "csr", "ann", "-o", "jsonpath={.status.certificate}"])
        .await?;
    ensure!(!certificate.is_empty(), "the request is signed");
    let text = std::fs::read_to_string(api.path("hub/admin.kubeconfig"))?;
    let line = |name: &str, value: &str| format!("    {name}: {value}");
    let kubeconfig: Vec<String> = text
        .lines()
        .map(|l| match l.trim().split_once(": ") {
            Some(("client-certificate-data", _)) => line("client-certificate-data", &certificate),
            Some(("client-key-data", _)) => line("client-key-data", &encode(&key.serialize_pem())),
            _ => l.to_owned(),
        })
        .collect();
    std::fs::write(api.path("ann.kubeconfig"), kubeconfig.join("\n"))?;
    let ann = api.caller("ann.kubeconfig");
    let (known, text) = ann.run(&["auth", "whoami"], "").await?;
    ensure!(known && text.contains("ann") && text.contains("team"), "{text}");

    let may = ["auth", "can-i", "create", "deployments.apps", "-n", "shop"];
    let (allowed, text) = ann.run(&may, "").await?;
    ensure!(!allowed && text.contains("no"), "{text}");
    let (read, text) = ann.run(&["get", "configmaps", "-n", "shop"], "").await?;
    ensure!(
        !read && text.contains("User \"ann\" cannot list resource \"configmaps\""),
        "{text}"
    );
    kubectl
        .ok(&[
            "create",
            "rolebinding",
            "team",
            "-n",
            "shop",
            "--clusterrole=edit",
            "--group=team",
        ])
        .await?;
    let (allowed, text) = ann.run(&may, "").await?;
    ensure!(allowed && text.contains("yes"), "{text}");
    let (made, text) = ann
        .run(
            &["create", "configmap", "c", "-n", "shop", "--from-literal=a=1"],
            "",
        )
        .await?;
    ensure!(made, "{text}");
    let (listed, text) = ann.run(&["auth", "can-i", "--list", "-n", "shop"], "").await?;
    ensure!(listed && text.contains("deployments.apps"), "{text}");
    let more = [
        "create",
        "rolebinding",
        "more",
        "-n",
        "shop",
        "--clusterrole=admin",
        "--user=ann",
    ];
    let (grown, text) = ann.run(&more, "").await?;
    ensure!(!grown, "{text}");

    kubectl
        .ok(&["create", "serviceaccount", "robot", "-n", "shop"])
        .await?;
    let token = kubectl.ok(&["create", "token", "robot", "-n", "shop"]).await?;
    let bare: Vec<String> = std::fs::read_to_string(api.path("hub/admin.kubeconfig"))?
        .lines()
        .filter(|l| !l.trim().starts_with("client-"))
        .map(str::to_owned)
        .collect();
    std::fs::write(
        api.path("nobody.kubeconfig"),
        bare.join("\n")
            .replace("  user:\ncontexts", "  user: {}\ncontexts"),
    )?;
    let (known, text) = api
        .caller("nobody.kubeconfig")
        .run(&["--token", token.trim(), "auth", "whoami"], "")
        .await?;
    ensure!(
        known && text.contains("system:serviceaccount:shop:robot"),
        "{text}"
    );
    let acting = kubectl
        .ok(&[
            "auth",
            "can-i",
            "list",
            "pods",
            "-n",
            "shop",
            "--as=bob",
            "--as-group=team",
        ])
        .await?;
    ensure!(acting.contains("yes"), "{acting}");
    let logs = kubectl.run(&["logs", "p", "-n", "shop"], "").await?;
    ensure!(!logs.0 && logs.1.contains("not found"), "{}", logs.1);
    Ok(())
}
