//! `pinnace token create NAME --manifest`: all that a cluster needs to join, ready for `kubectl apply -f -` there. The
//! objects are those of `packaging/manifests`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use shared::join::JoinLine;

const RBAC: &str = include_str!("../../../packaging/manifests/rbac.yaml");
const DEPLOYMENT: &str = include_str!("../../../packaging/manifests/deployment.yaml");
const DAEMON_SET: &str = include_str!("../../../packaging/manifests/daemonset.yaml");
/// Where the agent finds the authority that must have signed the hub's certificate.
const AUTHORITY: &str = "/etc/pinnace/ca/ca.crt";
/// Bytes of a file of authorities; a ConfigMap takes a mebibyte.
const AUTHORITY_BYTES_MAX: u64 = 512 << 10;

/// What runs the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Install {
    /// One Pod with its ledger on a volume.
    Deployment,
    /// One Pod on each node, which lead in turn; no volume is needed.
    #[value(name = "daemonset")]
    DaemonSet,
}

/// How the agent is installed.
#[derive(Debug, Args)]
pub(super) struct ManifestArgs {
    /// Print a manifest for `kubectl apply -f -` in the cluster instead of the join line.
    #[arg(long)]
    pub(super) manifest: bool,
    /// What runs the agent: one Pod with a volume, or one on each node, which lead in turn.
    #[arg(long, requires = "manifest", value_enum, default_value_t = Install::Deployment)]
    kind: Install,
    /// Image of the agent.
    #[arg(long, requires = "manifest", default_value_t = format!("pinnace-agent:{}", env!("CARGO_PKG_VERSION")))]
    image: String,
    /// Secret in the namespace pinnace-agent with which the image is pulled.
    #[arg(long, requires = "manifest", value_name = "NAME")]
    pull_secret: Vec<String>,
    /// CA certificates, PEM, one of which must have signed the hub's certificate.
    #[arg(long, requires = "manifest", value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// The manifest for a join line.
///
/// # Errors
/// When the line, the image or the file of authorities cannot be used.
pub(super) fn of(line: &str, args: &ManifestArgs) -> Result<String> {
    let line: JoinLine = line.parse().context("the hub's join line")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ':' | '@');
    ensure!(
        !args.image.is_empty() && args.image.chars().all(fits),
        "{:?} is not the name of an image",
        args.image
    );
    let template = match args.kind {
        Install::Deployment => DEPLOYMENT,
        Install::DaemonSet => DAEMON_SET,
    };
    let filled = template
        .replace("{{token}}", line.token.expose())
        .replace("{{image}}", &args.image)
        .replace("{{hub}}", &line.hub)
        .replace("{{cluster}}", line.cluster.as_str())
        .replace("{{root}}", &line.root.0.to_string());
    let mut objects = documents(&filled)?;
    let authority = args.ca.as_deref().map(read).transpose()?;
    for object in &mut objects {
        if object.pointer("/spec/template").is_some() {
            adjust(
                &mut object["spec"]["template"]["spec"],
                &args.pull_secret,
                authority.is_some(),
            )?;
        }
    }
    if let Some(text) = authority {
        objects.insert(
            0,
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "pinnace-hub-ca", "namespace": "pinnace-agent"}, "data": {"ca.crt": text}}),
        );
    }
    let mut out = RBAC.to_owned();
    for object in &objects {
        out.push_str("---\n");
        out.push_str(&serde_json::to_string_pretty(object)?);
        out.push('\n');
    }
    Ok(out)
}

fn documents(text: &str) -> Result<Vec<Value>> {
    text.split("\n---\n")
        .map(|document| serde_saphyr::from_str(document).context("packaging/manifests"))
        .collect()
}

fn read(path: &Path) -> Result<String> {
    let what = || format!("the authorities in {}", path.display());
    let length = std::fs::metadata(path).with_context(what)?.len();
    if length > AUTHORITY_BYTES_MAX {
        bail!("{} have more than {AUTHORITY_BYTES_MAX} bytes", what());
    }
    let text = std::fs::read_to_string(path).with_context(what)?;
    ensure!(
        text.contains("-----BEGIN CERTIFICATE-----"),
        "{} are not PEM",
        what()
    );
    Ok(text)
}

/// Adds what only some installs need to the pod.
fn adjust(pod: &mut Value, pull_secrets: &[String], authority: bool) -> Result<()> {
    if !pull_secrets.is_empty() {
        let names: Vec<Value> = pull_secrets.iter().map(|n| json!({"name": n})).collect();
        pod["imagePullSecrets"] = names.into();
    }
    if !authority {
        return Ok(());
    }
    let push = |list: &mut Value, item: Value| -> Result<()> {
        list.as_array_mut().context("packaging/manifests")?.push(item);
        Ok(())
    };
    push(
        &mut pod["volumes"],
        json!({"name": "ca", "configMap": {"name": "pinnace-hub-ca"}}),
    )?;
    for part in ["initContainers", "containers"] {
        let container = &mut pod[part][0];
        push(&mut container["args"], json!(format!("--tls-ca={AUTHORITY}")))?;
        push(
            &mut container["volumeMounts"],
            json!({"name": "ca", "mountPath": "/etc/pinnace/ca", "readOnly": true}),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> String {
        format!(
            "pinnace-agent join --hub hub.example:6443 --cluster shop --root {} --token abc.def",
            "ab".repeat(32)
        )
    }

    fn args() -> ManifestArgs {
        ManifestArgs {
            manifest: true,
            kind: Install::Deployment,
            image: "registry.example/pinnace-agent:1".into(),
            pull_secret: vec![],
            ca: None,
        }
    }

    fn objects(text: &str) -> Vec<Value> {
        text.split("---\n")
            .filter(|d| !d.trim().is_empty())
            .map(|d| serde_json::from_str(d).expect("JSON"))
            .collect()
    }

    fn deployment(text: &str) -> Value {
        let all = objects(text);
        let kinds: Vec<&str> = all.iter().filter_map(|o| o["kind"].as_str()).collect();
        for kind in [
            "Namespace",
            "ServiceAccount",
            "ClusterRole",
            "Role",
            "Secret",
            "PersistentVolumeClaim",
        ] {
            assert!(kinds.contains(&kind), "{kind} is missing");
        }
        all.into_iter()
            .find(|o| o["kind"] == "Deployment")
            .expect("a Deployment")
    }

    #[test]
    fn the_manifest_names_hub_cluster_root_and_image() {
        let text = of(&line(), &args()).unwrap();
        assert!(!text.contains("{{"), "a place is left open");
        assert!(text.contains("\"token\": \"abc.def\""));
        let pod = deployment(&text)["spec"]["template"]["spec"].clone();
        let join = pod["initContainers"][0]["args"].to_string();
        assert!(
            join.contains("--hub=hub.example:6443") && join.contains("--cluster=shop"),
            "{join}"
        );
        assert!(!join.contains("abc.def"), "the token is no argument");
        assert_eq!(pod["containers"][0]["image"], "registry.example/pinnace-agent:1");
        assert_eq!(pod.get("imagePullSecrets"), None);
    }

    #[test]
    fn pull_secrets_and_authorities_are_added() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(
            &path,
            "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
        )
        .unwrap();
        let given = ManifestArgs {
            pull_secret: vec!["regcred".into()],
            ca: Some(path.clone()),
            ..args()
        };
        let pod = deployment(&of(&line(), &given).unwrap())["spec"]["template"]["spec"].clone();
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "regcred"}]));
        for part in ["initContainers", "containers"] {
            assert!(
                pod[part][0]["args"]
                    .to_string()
                    .contains("--tls-ca=/etc/pinnace/ca/ca.crt"),
                "{part}"
            );
        }
        std::fs::write(&path, "no certificate").unwrap();
        assert!(of(&line(), &given).is_err());
    }

    #[test]
    fn a_daemon_set_needs_no_volume_and_says_that_it_is_one_of_several() {
        let given = ManifestArgs {
            kind: Install::DaemonSet,
            pull_secret: vec!["regcred".into()],
            ..args()
        };
        let text = of(&line(), &given).unwrap();
        assert!(!text.contains("{{"), "a place is left open");
        let all = objects(&text);
        assert!(
            !all.iter()
                .any(|o| o["kind"] == "PersistentVolumeClaim" || o["kind"] == "Deployment")
        );
        let set = all
            .iter()
            .find(|o| o["kind"] == "DaemonSet")
            .expect("a DaemonSet");
        let pod = &set["spec"]["template"]["spec"];
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "regcred"}]));
        assert_eq!(pod["volumes"][0]["hostPath"], Value::Null);
        for part in ["initContainers", "containers"] {
            assert!(
                pod[part][0]["args"].to_string().contains("--replicated"),
                "{part}"
            );
        }
    }

    #[test]
    fn a_strange_image_is_refused() {
        let odd = ManifestArgs {
            image: "a\"b".into(),
            ..args()
        };
        assert!(of(&line(), &odd).is_err());
    }
}
