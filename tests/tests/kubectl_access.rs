//! The real kubectl as people of different rights: whoami, can-i, tokens, certificates, impersonation.

use anyhow::{Context, Result, ensure};
use axum::Router;
use hub::api::{Api, Identity, serve_connection};
use hub::bus::{Bus, RouterBus};
use hub::gateway::{Gateway, Patience};
use hub::keys::Keys;
use hub::listen::{Listener, ServeHttp};
use hub::store::Store;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::watch;
use xtask::member::Binary;

/// A hub's port with its real handshake, and the kubectl that talks to it.
struct Hub {
    directory: TempDir,
    kubectl: PathBuf,
    _stop: watch::Sender<bool>,
}

impl Hub {
    async fn start() -> Result<Hub> {
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("hub");
        let now = hub::clock::wall();
        hub::init::init(&data, &[], "127.0.0.1:0".parse()?, now).await?;
        let store = Store::open(&data, now)?;
        let mut keys = Keys::load(&data, store.fleet())?;
        let listener = Listener::bind("127.0.0.1:0".parse()?, &keys, now)?;
        keys.adopt_address(listener.address()?)?;
        let (bus, _router) = RouterBus::start()?;
        let bus: Arc<dyn Bus> = Arc::new(bus);
        let (gateway, _ended) = Gateway::new(bus, Patience::default());
        let api = Api::new(store, Router::new(), keys.authority()?);
        api.bootstrap().await?;
        tokio::spawn(api.clone().run());
        let http: ServeHttp = Arc::new(move |stream, certificate, peer| {
            let api = api.clone();
            let identity = certificate.map(|c| Identity {
                user: c.user,
                groups: c.groups,
                fingerprint: c.fingerprint,
            });
            Box::pin(async move { serve_connection(api, stream, identity, peer).await })
        });
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(listener.run(gateway, http, stopped));
        let kubectl = tokio::task::spawn_blocking(|| Binary::get().map(|binary| binary.kubectl())).await??;
        Ok(Hub {
            directory,
            kubectl,
            _stop: stop,
        })
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    async fn run(&self, kubeconfig: &str, arguments: &[&str], input: &str) -> Result<(bool, String)> {
        let mut child = Command::new(&self.kubectl)
            .args(["--cache-dir", &self.path("cache"), "--kubeconfig", kubeconfig])
            .args(arguments)
            .env("HOME", self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("kubectl")?;
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

    /// Runs kubectl as the administrator, which must succeed.
    async fn admin(&self, arguments: &[&str]) -> Result<String> {
        let (success, text) = self
            .run(&self.path("hub/admin.kubeconfig"), arguments, "")
            .await?;
        ensure!(success, "kubectl {arguments:?}: {text}");
        Ok(text)
    }
}

#[tokio::test]
async fn people_and_programs_of_different_rights() -> Result<()> {
    let hub = Hub::start().await?;
    let who = hub.admin(&["auth", "whoami"]).await?;
    ensure!(
        who.contains("pinnace-admin") && who.contains("system:masters"),
        "{who}"
    );
    hub.admin(&["create", "namespace", "shop"]).await?;

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
    let admin = hub.path("hub/admin.kubeconfig");
    let (made, text) = hub.run(&admin, &["apply", "-f", "-"], &request).await?;
    ensure!(made, "{text}");
    let pending = hub.admin(&["get", "csr"]).await?;
    ensure!(pending.contains("ann"), "{pending}");
    hub.admin(&["certificate", "approve", "ann"]).await?;
    let certificate = hub
        .admin(&["get", "csr", "ann", "-o", "jsonpath={.status.certificate}"])
        .await?;
    ensure!(!certificate.is_empty(), "the request is signed");
    let text = std::fs::read_to_string(&admin)?;
    let line = |name: &str, value: &str| format!("    {name}: {value}");
    let kubeconfig: Vec<String> = text
        .lines()
        .map(|l| match l.trim().split_once(": ") {
            Some(("client-certificate-data", _)) => line("client-certificate-data", &certificate),
            Some(("client-key-data", _)) => line("client-key-data", &encode(&key.serialize_pem())),
            _ => l.to_owned(),
        })
        .collect();
    let ann = hub.path("ann.kubeconfig");
    std::fs::write(&ann, kubeconfig.join("\n"))?;
    let (known, text) = hub.run(&ann, &["auth", "whoami"], "").await?;
    ensure!(known && text.contains("ann") && text.contains("team"), "{text}");

    let may = ["auth", "can-i", "create", "deployments.apps", "-n", "shop"];
    let (allowed, text) = hub.run(&ann, &may, "").await?;
    ensure!(!allowed && text.contains("no"), "{text}");
    let (read, text) = hub.run(&ann, &["get", "configmaps", "-n", "shop"], "").await?;
    ensure!(
        !read && text.contains("User \"ann\" cannot list resource \"configmaps\""),
        "{text}"
    );
    hub.admin(&[
        "create",
        "rolebinding",
        "team",
        "-n",
        "shop",
        "--clusterrole=edit",
        "--group=team",
    ])
    .await?;
    let (allowed, text) = hub.run(&ann, &may, "").await?;
    ensure!(allowed && text.contains("yes"), "{text}");
    let (made, text) = hub
        .run(
            &ann,
            &["create", "configmap", "c", "-n", "shop", "--from-literal=a=1"],
            "",
        )
        .await?;
    ensure!(made, "{text}");
    let (listed, text) = hub
        .run(&ann, &["auth", "can-i", "--list", "-n", "shop"], "")
        .await?;
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
    let (grown, text) = hub.run(&ann, &more, "").await?;
    ensure!(!grown, "{text}");

    hub.admin(&["create", "serviceaccount", "robot", "-n", "shop"])
        .await?;
    let token = hub.admin(&["create", "token", "robot", "-n", "shop"]).await?;
    let nobody = hub.path("nobody.kubeconfig");
    let bare: Vec<String> = std::fs::read_to_string(&admin)?
        .lines()
        .filter(|l| !l.trim().starts_with("client-"))
        .map(str::to_owned)
        .collect();
    std::fs::write(
        &nobody,
        bare.join("\n")
            .replace("  user:\ncontexts", "  user: {}\ncontexts"),
    )?;
    let (known, text) = hub
        .run(&nobody, &["--token", token.trim(), "auth", "whoami"], "")
        .await?;
    ensure!(
        known && text.contains("system:serviceaccount:shop:robot"),
        "{text}"
    );
    let acting = hub
        .admin(&[
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
    let logs = hub.run(&admin, &["logs", "p", "-n", "shop"], "").await?;
    ensure!(!logs.0 && logs.1.contains("not found"), "{}", logs.1);
    Ok(())
}
