//! A hub that exists only as its keys, a real member, and the agent between: it runs under the least RBAC that
//! `pinnace-agent rbac` prints, through a line that can be cut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use agent::identity::{self, Enrolment};
use agent::ledger::Ledger;
use agent_core::holdings::Content;
use agent_core::intake::Held;
use anyhow::{Context, Result, ensure};
use ring::rand::SystemRandom;
use serde_json::{Value, json};
use shared::bundle::Descriptor;
use shared::ids::{ClusterName, Digest, FleetId, Incarnation, KeyNumber, Sequence};
use shared::keys::{HubKeys, KeyStatement, Receipt, RootPin, SigningKey};
use shared::object::{canonical, key};
use shared::set::{ConflictResolution, DeleteMode, Entry, Head, Set, Tombstone};
use tests::real::kubectl::Kubectl;
use tests::real::process::{Process, binary};
use tests::real::wait;
use xtask::member::{Binary, Scoped};
use xtask::proxy::Line;

/// A state that is waited for is there within this, also on a busy machine.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// A hub that exists only as its keys, and the agent of one member.
pub(super) struct Bench {
    pub(super) keys: HubKeys,
    enrolment: Enrolment,
    folder: PathBuf,
    pub(super) data: PathBuf,
    pub(super) log: PathBuf,
    pub(super) member: Scoped,
    pub(super) kubectl: Kubectl,
    pub(super) agent: Option<Process>,
    pub(super) sequence: u64,
}

/// One wanted object.
pub(super) struct Wanted {
    pub(super) object: Value,
    pub(super) conflict: ConflictResolution,
    pub(super) template_uid: &'static str,
}

pub(super) fn wanted(object: Value) -> Wanted {
    Wanted {
        object,
        conflict: ConflictResolution::Abort,
        template_uid: "t1",
    }
}

impl Bench {
    pub(super) fn up(folder: &Path) -> Result<Self> {
        let random = SystemRandom::new();
        let fleet = FleetId([7; 16]);
        let (root, _) = SigningKey::generate(&random)?;
        let (signer, _) = SigningKey::generate(&random)?;
        let statement = KeyStatement::issue(&root, fleet, KeyNumber(1), signer.public());
        let keys = HubKeys::new(root.public(), statement, signer)?;
        let member = Scoped::up(&format!("agent-{}", std::process::id()), 1)?;
        let kubectl = Kubectl::new(
            &Binary::get()?.kubectl(),
            &member.kubeconfig(),
            &folder.join("kubectl-cache"),
        );
        let own = restricted(folder, &member, &kubectl)?;
        let system = kubectl
            .get("namespace", "", "kube-system")?
            .context("kube-system")?;
        let (_, pkcs8) = SigningKey::generate(&random)?;
        let data = folder.join("agent");
        identity::make_dir(&data)?;
        let receipt = Receipt {
            fleet,
            cluster: ClusterName::new("shop")?,
            incarnation: Incarnation([3; 16]),
            identity: SigningKey::from_pkcs8(&pkcs8)?.public(),
            kube_system_uid: system["metadata"]["uid"].as_str().context("uid")?.to_owned(),
            labels: BTreeMap::new(),
            provider: String::new(),
            region: String::new(),
            zones: vec![],
        };
        let enrolment = Enrolment {
            format: 1,
            // Nobody listens there.
            hub: "127.0.0.1:9".into(),
            pin: RootPin::of(&root.public()),
            key: pkcs8,
            receipt: receipt.sign(&keys),
            ring: keys.ring(),
            kubeconfig: Some(own),
        };
        identity::save(&data, &enrolment)?;
        Ok(Self {
            keys,
            enrolment,
            folder: folder.to_owned(),
            log: folder.join("agent.log"),
            data,
            member,
            kubectl,
            agent: None,
            sequence: 0,
        })
    }

    /// Puts the next set into the ledger of the stopped agent, and starts the agent.
    pub(super) fn run(&mut self, wants: &[Wanted], buried: &[(&Value, DeleteMode)]) -> Result<()> {
        self.stop()?;
        self.put(wants, buried)?;
        self.start(&[])
    }

    /// Puts the next set into the ledger of the agent, which does not run.
    pub(super) fn put(&mut self, wants: &[Wanted], buried: &[(&Value, DeleteMode)]) -> Result<()> {
        let (held, contents) = self.next_set(wants, buried)?;
        Ok(Ledger::open(&self.data)?.commit(&held, &contents)?)
    }

    /// The next set, signed, with its contents.
    pub(super) fn next_set(
        &mut self,
        wants: &[Wanted],
        buried: &[(&Value, DeleteMode)],
    ) -> Result<(Held, Vec<Content>)> {
        self.sequence += 1;
        let mut entries = vec![];
        let mut contents = vec![];
        for want in wants {
            let bytes = canonical(&want.object);
            let key = key(&want.object).context("key")?;
            entries.push(Arc::new(Entry {
                digest: Digest::of(&bytes),
                length: u32::try_from(bytes.len())?,
                work: format!("{}-{}", key.name, key.kind.to_lowercase()),
                template_uid: want.template_uid.into(),
                template_generation: self.sequence,
                conflict_resolution: want.conflict,
                suspended: false,
                delete_mode: DeleteMode::Delete,
                retain_replicas: false,
                dependencies: vec![],
                labels: BTreeMap::new(),
                key,
            }));
            contents.push(Content {
                descriptor: Descriptor::sign(&bytes, &self.keys)?,
                bytes,
            });
        }
        let tombstones = buried
            .iter()
            .map(|(object, mode)| {
                Ok(Tombstone {
                    key: key(object).context("key")?,
                    mode: *mode,
                    template_uid: "t1".into(),
                    sequence: Sequence(self.sequence),
                })
            })
            .collect::<Result<_>>()?;
        let set = Set::new(entries, tombstones)?;
        let head = Head {
            fleet: self.keys.fleet(),
            cluster: ClusterName::new("shop")?,
            incarnation: Incarnation([3; 16]),
            sequence: Sequence(self.sequence),
            digest: set.digest(),
            key_number: KeyNumber(0),
        };
        let held = Held {
            head: head.sign(&self.keys),
            set: Arc::new(set),
        };
        Ok((held, contents))
    }

    /// The folder that everything of this bench is in.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Copies the data directory of the agent, which does not run, and uses the copy from now on; gives the old one.
    pub(super) fn move_data(&mut self, to: &Path) -> Result<PathBuf> {
        identity::make_dir(to)?;
        for entry in std::fs::read_dir(&self.data)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        Ok(std::mem::replace(&mut self.data, to.to_owned()))
    }

    /// Kills the agent as by a power cut.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.agent.take().context("the agent runs")?.kill()
    }

    /// Cuts the line between agent and member's API.
    pub(super) fn cut(&self) -> Result<()> {
        self.member.proxy().set(Line::Cut).map(drop)
    }

    /// Heals that line.
    pub(super) fn heal(&self) -> Result<()> {
        self.member.proxy().set(Line::Open).map(drop)
    }

    /// Public half of the agent's identity key.
    pub(super) fn identity(&self) -> shared::ids::PublicKey {
        self.enrolment.receipt.receipt.identity
    }

    pub(super) fn start(&mut self, env: &[(&str, &str)]) -> Result<()> {
        let mut command = Command::new(binary("pinnace-agent")?);
        command
            .args(["run", "--data"])
            .arg(&self.data)
            .envs(env.iter().copied());
        command.env("PINNACE_LOG", "debug,hyper=info,kube=info,rustls=info,tower=info");
        self.agent = Some(Process::start(command, &self.log)?);
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        self.agent.take().map_or(Ok(()), Process::stop)
    }

    pub(super) fn see<T>(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        look: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T> {
        wait::until(
            &format!("{kind} {namespace}/{name} (log: {})", self.log.display()),
            SOON,
            || {
                let object = self
                    .kubectl
                    .get(kind, namespace, name)
                    .map_err(|e| e.to_string())?;
                look(object.as_ref().unwrap_or(&Value::Null))
            },
        )
    }

    pub(super) fn see_gone(&self, kind: &str, namespace: &str, name: &str) -> Result<()> {
        self.see(kind, namespace, name, |o| {
            if o.is_null() {
                Ok(())
            } else {
                Err("still there".into())
            }
        })
    }

    pub(super) fn status(&self) -> Result<Value> {
        let output = Command::new(binary("pinnace-agent")?)
            .args(["status", "--json", "--data"])
            .arg(&self.data)
            .output()?;
        ensure!(
            output.status.success(),
            "status: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The enrolment as it was at first.
    pub(super) fn enrol_again(&mut self) -> Result<()> {
        self.stop()?;
        identity::save(&self.data, &self.enrolment)?;
        Ok(())
    }

    /// Runs a script with our programs, kubectl and this data directory.
    pub(super) fn shell(&self, script: &str) -> Result<String> {
        let kubectl = Binary::get()?.kubectl();
        let programs = binary("pinnace-agent")?;
        let folder = |path: &Path| path.parent().map(|p| p.display().to_string()).unwrap_or_default();
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("bash")
            .args(["-c", script])
            .current_dir(&self.folder)
            .env(
                "PATH",
                format!("{}:{}:{path}", folder(&programs), folder(&kubectl)),
            )
            .env("KUBECONFIG", self.member.kubeconfig())
            .env("DATA", &self.data)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(said)
    }

    /// What the agent's program prints for a command about this data directory.
    pub(super) fn agent_says(&self, words: &[&str]) -> Result<String> {
        let output = self.agent_output(words)?;
        ensure!(
            output.status.success(),
            "{words:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What a command says that must fail.
    pub(super) fn agent_refuses(&self, words: &[&str]) -> Result<String> {
        let output = self.agent_output(words)?;
        ensure!(!output.status.success(), "{words:?} did not fail");
        Ok(String::from_utf8(output.stderr)?)
    }

    /// What a command prints that must fail.
    pub(super) fn agent_prints_and_fails(&self, words: &[&str]) -> Result<String> {
        let output = self.agent_output(words)?;
        ensure!(!output.status.success(), "{words:?} did not fail");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn agent_output(&self, words: &[&str]) -> Result<std::process::Output> {
        Ok(Command::new(binary("pinnace-agent")?)
            .args(words)
            .arg("--data")
            .arg(&self.data)
            .output()?)
    }

    /// Waits until an object is listed with this reason; gives the message.
    pub(super) fn problem(&self, object: &str, reason: &str) -> Result<String> {
        let what = format!("{object}: {reason} (log: {})", self.log.display());
        wait::until(&what, SOON, || self.problem_now(object, reason))
    }

    /// The message of a listed problem, if it has this reason now.
    pub(super) fn problem_now(&self, object: &str, reason: &str) -> Result<String, String> {
        let status = self.status().map_err(|e| e.to_string())?;
        let all = status["problems"].as_array().cloned().unwrap_or_default();
        match all.iter().find(|p| p["object"] == object) {
            Some(p) if p["reason"] == reason => Ok(p["message"].as_str().unwrap_or_default().to_owned()),
            Some(p) => Err(p.to_string()),
            None => Err("it is in no trouble".into()),
        }
    }

    /// Waits until an object is not listed any more.
    pub(super) fn no_problem(&self, object: &str) -> Result<()> {
        wait::until(&format!("{object} is in no trouble"), SOON, || {
            let status = self.status().map_err(|e| e.to_string())?;
            let all = status["problems"].as_array().cloned().unwrap_or_default();
            match all.iter().find(|p| p["object"] == object) {
                Some(p) => Err(p.to_string()),
                None => Ok(()),
            }
        })
    }

    /// Waits until the record of an object says how it came to us.
    pub(super) fn origin(&self, object: &str, origin: &str) -> Result<()> {
        wait::until(&format!("{object} is {origin}"), SOON, || {
            let status = self.status().map_err(|e| e.to_string())?;
            let all = status["objects"].as_array().cloned().unwrap_or_default();
            match all.iter().find(|o| o["object"] == object) {
                Some(o) if o["origin"] == origin => Ok(()),
                Some(o) => Err(o.to_string()),
                None => Err("no record".into()),
            }
        })
    }

    /// Bytes of the agent's log.
    pub(super) fn log_length(&self) -> Result<u64> {
        Ok(std::fs::metadata(&self.log)?.len())
    }

    /// Waits until the log says something after its first `seen` bytes.
    pub(super) fn logged(&self, seen: u64, words: &str) -> Result<()> {
        wait::until(&format!("the log says {words:?}"), SOON, || {
            let log = std::fs::read(&self.log).map_err(|e| e.to_string())?;
            let new = log
                .get(usize::try_from(seen).unwrap_or(usize::MAX)..)
                .unwrap_or_default();
            if String::from_utf8_lossy(new).contains(words) {
                Ok(())
            } else {
                Err("not yet".into())
            }
        })
    }

    /// Peak and present resident memory in KiB.
    pub(super) fn memory(&self) -> Result<(u64, u64)> {
        let pid = self.agent.as_ref().context("the agent runs")?.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let read = |name: &str| {
            let line = status.lines().find(|l| l.starts_with(name)).unwrap_or_default();
            line.split_whitespace()
                .nth(1)
                .and_then(|n| n.parse().ok())
                .unwrap_or(0)
        };
        Ok((read("VmHWM:"), read("VmRSS:")))
    }
}

/// A kubeconfig of the agent's own: the printed RBAC, a token of its ServiceAccount, and the API through the member's
/// proxy.
fn restricted(folder: &Path, member: &Scoped, kubectl: &Kubectl) -> Result<PathBuf> {
    let output = Command::new(binary("pinnace-agent")?)
        .args([
            "rbac",
            "--group=example.org",
            "--group=late.example.org",
            "--group=held.example.org",
        ])
        .output()?;
    ensure!(
        output.status.success(),
        "rbac: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    kubectl.apply(&String::from_utf8(output.stdout)?)?;
    let token = kubectl.run(&[
        "-n",
        "pinnace-agent",
        "create",
        "token",
        "pinnace-agent",
        "--duration=2h",
    ])?;
    member
        .proxy()
        .link(&format!("127.0.0.1:{}", member.state().ports.api))?;
    let authority = std::fs::canonicalize(member.directory().join("ca.crt"))?;
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "m",
        "clusters": [{"name": "m", "cluster": {"server": format!("https://{}", member.proxy_address()),
            "certificate-authority": authority}}],
        "users": [{"name": "a", "user": {"token": token.trim()}}],
        "contexts": [{"name": "m", "context": {"cluster": "m", "user": "a"}}]});
    let path = folder.join("agent.kubeconfig");
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}

pub(super) fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn equal(found: &Value, want: &Value) -> Result<(), String> {
    if found == want {
        Ok(())
    } else {
        Err(found.to_string())
    }
}

pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub(super) fn config(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": {"a": value}})
}

pub(super) fn deployment(replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
                {"name": "web", "image": "registry.example/web:1", "resources": {"requests": {"cpu": "1000m"}}}]}}}})
}

pub(super) fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

pub(super) fn widget() -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}, "spec": {"size": 3}})
}
