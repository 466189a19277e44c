//! The agent against a real member, without any hub: sets are put into its ledger as a hub's would be, and it
//! reconciles them at boot from there. One member serves the whole story.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

const SOON: Duration = Duration::from_secs(60);

/// A hub that exists only as its keys, and the agent of one member.
struct Bench {
    keys: HubKeys,
    data: PathBuf,
    log: PathBuf,
    member: Scoped,
    kubectl: Kubectl,
    agent: Option<Process>,
    sequence: u64,
}

/// One wanted object.
struct Wanted {
    object: Value,
    conflict: ConflictResolution,
    template_uid: &'static str,
}

fn wanted(object: Value) -> Wanted {
    Wanted {
        object,
        conflict: ConflictResolution::Abort,
        template_uid: "t1",
    }
}

impl Bench {
    fn up(folder: &Path) -> Result<Self> {
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
        let system = kubectl
            .get("namespace", "", "kube-system")?
            .context("kube-system")?;
        let (_, pkcs8) = SigningKey::generate(&random)?;
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
        let data = folder.join("agent");
        identity::make_dir(&data)?;
        identity::save(
            &data,
            &Enrolment {
                format: 1,
                // Nobody listens there.
                hub: "127.0.0.1:9".into(),
                pin: RootPin::of(&root.public()),
                key: pkcs8,
                receipt: receipt.sign(&keys),
                ring: keys.ring(),
                kubeconfig: Some(member.kubeconfig()),
            },
        )?;
        Ok(Self {
            keys,
            log: folder.join("agent.log"),
            data,
            member,
            kubectl,
            agent: None,
            sequence: 0,
        })
    }

    /// Puts the next set into the ledger of the stopped agent, and starts the agent.
    fn run(&mut self, wants: &[Wanted], buried: &[(&Value, DeleteMode)]) -> Result<()> {
        self.stop()?;
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
        Ledger::open(&self.data)?.commit(&held, &contents)?;
        self.start(&[])
    }

    fn start(&mut self, env: &[(&str, &str)]) -> Result<()> {
        let mut command = Command::new(binary("pinnace-agent")?);
        command
            .args(["run", "--data"])
            .arg(&self.data)
            .envs(env.iter().copied());
        command.env("PINNACE_LOG", "debug,hyper=info,kube=info,rustls=info,tower=info");
        self.agent = Some(Process::start(command, &self.log)?);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.agent.take().map_or(Ok(()), Process::stop)
    }

    fn see<T>(
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

    fn see_gone(&self, kind: &str, namespace: &str, name: &str) -> Result<()> {
        self.see(kind, namespace, name, |o| {
            if o.is_null() {
                Ok(())
            } else {
                Err("still there".into())
            }
        })
    }

    fn status(&self) -> Result<Value> {
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

    /// Peak and present resident memory in KiB.
    fn memory(&self) -> Result<(u64, u64)> {
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

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn equal(found: &Value, want: &Value) -> Result<(), String> {
    if found == want {
        Ok(())
    } else {
        Err(found.to_string())
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn config(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": {"a": value}})
}

fn deployment(replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
                {"name": "web", "image": "registry.example/web:1", "resources": {"requests": {"cpu": "1000m"}}}]}}}})
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn widget() -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}, "spec": {"size": 3}})
}

#[test]
fn reconciles_from_its_ledger_without_any_hub() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut bench = Bench::up(folder.path()).expect("a member");
    if let Err(e) = story(&mut bench) {
        let log = std::fs::read_to_string(&bench.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(80).collect();
        panic!("{e:?}\nagent log, newest first:\n{}", tail.join("\n"));
    }
}

fn story(bench: &mut Bench) -> Result<()> {
    created_in_order(bench)?;
    drift_is_repaired(bench)?;
    foreign_objects_stay(bench)?;
    tombstones_delete_only_our_own(bench)?;
    crashes_settle(bench)?;
    foreign_content_holds_a_namespace(bench)?;
    another_cluster_is_left_alone(bench)
}

fn created_in_order(bench: &mut Bench) -> Result<()> {
    let started = Instant::now();
    bench.run(
        &[
            wanted(namespace("shop")),
            wanted(config("one", "1")),
            wanted(deployment(2)),
            wanted(definition()),
            wanted(widget()),
        ],
        &[],
    )?;
    bench.see("configmap", "shop", "one", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    println!("boot to first object: {} ms", started.elapsed().as_millis());
    bench.see("deployment", "shop", "web", |o| {
        equal(&o["status"]["availableReplicas"], &json!(2))
    })?;
    println!("boot to available: {} ms", started.elapsed().as_millis());
    bench.see("widgets.example.org", "shop", "w", |o| {
        equal(&o["spec"]["size"], &json!(3))
    })?;
    let status = bench.status()?;
    let objects = status["objects"].as_array().context("objects")?;
    ensure!(
        objects.len() == 5
            && objects
                .iter()
                .all(|o| o["origin"] == "created" && o["current"] == true),
        "{status}"
    );
    Ok(())
}

fn drift_is_repaired(bench: &mut Bench) -> Result<()> {
    let before = uid(&bench.see("configmap", "shop", "one", |o| Ok(o.clone()))?);
    bench.kubectl.run(&["-n", "shop", "delete", "configmap", "one"])?;
    bench.see("configmap", "shop", "one", |o| {
        equal(&o["data"]["a"], &json!("1"))?;
        if uid(o) == before {
            Err("not deleted yet".into())
        } else {
            Ok(())
        }
    })?;
    bench.kubectl.run(&[
        "-n",
        "shop",
        "patch",
        "configmap",
        "one",
        "--type=merge",
        "-p",
        r#"{"data":{"a":"9","b":"kept"}}"#,
    ])?;
    bench.see("configmap", "shop", "one", |o| {
        equal(&o["data"], &json!({"a": "1", "b": "kept"}))
    })?;
    bench
        .kubectl
        .run(&["-n", "shop", "scale", "deployment", "web", "--replicas=4"])?;
    bench.see("deployment", "shop", "web", |o| {
        equal(&o["spec"]["replicas"], &json!(2))
    })?;
    // Everything repaired, nothing left to do: the object's version stands still although a quantity was
    // normalised ("1000m" is kept by the server as "1").
    let version = |o: &Value| o["metadata"]["generation"].clone();
    let settled = bench.see("deployment", "shop", "web", |o| {
        equal(&o["status"]["availableReplicas"], &json!(2))?;
        Ok(version(o))
    })?;
    wait::throughout("the Deployment is left alone", Duration::from_secs(3), || {
        let object = bench
            .kubectl
            .get("deployment", "shop", "web")
            .map_err(|e| e.to_string())?
            .unwrap_or_default();
        equal(&version(&object), &settled)
    })
}

fn foreign_objects_stay(bench: &mut Bench) -> Result<()> {
    for name in ["theirs", "taken"] {
        bench.kubectl.run(&[
            "-n",
            "shop",
            "create",
            "configmap",
            name,
            "--from-literal=a=theirs",
        ])?;
    }
    let mut taken = wanted(config("taken", "ours"));
    taken.conflict = ConflictResolution::Overwrite;
    bench.run(
        &[
            wanted(namespace("shop")),
            wanted(config("one", "2")),
            wanted(deployment(2)),
            wanted(definition()),
            wanted(widget()),
            wanted(config("theirs", "ours")),
            taken,
        ],
        &[],
    )?;
    bench.see("configmap", "shop", "one", |o| {
        equal(&o["data"]["a"], &json!("2"))
    })?;
    bench.see("configmap", "shop", "taken", |o| {
        equal(&o["data"]["a"], &json!("ours"))
    })?;
    wait::until("the conflict is named", SOON, || {
        let log = std::fs::read_to_string(&bench.log).map_err(|e| e.to_string())?;
        if log.contains("reason=Conflict") && log.contains("it differs in data.a") {
            Ok(())
        } else {
            Err("not yet".into())
        }
    })?;
    bench.see("configmap", "shop", "theirs", |o| {
        equal(&o["data"]["a"], &json!("theirs"))?;
        equal(&o["metadata"]["labels"], &Value::Null)
    })
}

fn tombstones_delete_only_our_own(bench: &mut Bench) -> Result<()> {
    let shop = uid(&bench.see("namespace", "", "shop", |o| Ok(o.clone()))?);
    bench.run(
        &[wanted(namespace("shop")), wanted(deployment(3))],
        &[
            (&config("one", ""), DeleteMode::Delete),
            (&config("taken", ""), DeleteMode::Delete),
            (&config("theirs", ""), DeleteMode::Delete),
            (&widget(), DeleteMode::Release),
            (&definition(), DeleteMode::Release),
        ],
    )?;
    bench.see_gone("configmap", "shop", "one")?;
    bench.see("configmap", "shop", "taken", |o| {
        equal(&o["data"]["a"], &json!("ours"))?;
        equal(
            &o["metadata"]["labels"]["fleet.pinnace.dev/managed-by"],
            &Value::Null,
        )
    })?;
    bench.see("configmap", "shop", "theirs", |o| {
        equal(&o["data"]["a"], &json!("theirs"))
    })?;
    bench.see("widgets.example.org", "shop", "w", |o| {
        equal(&o["metadata"]["annotations"], &Value::Null)?;
        equal(&o["spec"]["size"], &json!(3))
    })?;
    bench.see("deployment", "shop", "web", |o| {
        equal(&o["spec"]["replicas"], &json!(3))
    })?;
    bench.see("namespace", "", "shop", |o| equal(&json!(uid(o)), &json!(shop)))
}

/// Killed between intent and apply, between apply and record, and after a delete: nothing is doubled, lost or taken
/// for foreign.
fn crashes_settle(bench: &mut Bench) -> Result<()> {
    for (n, point) in ["intent-apply", "apply-record"].into_iter().enumerate() {
        let name = format!("crash{n}");
        bench.run(
            &[
                wanted(namespace("shop")),
                wanted(deployment(3)),
                wanted(config(&name, "1")),
            ],
            &[],
        )?;
        bench.see("configmap", "shop", &name, |o| {
            equal(&o["data"]["a"], &json!("1"))
        })?;
        bench.stop()?;
        bench.kubectl.run(&["-n", "shop", "delete", "configmap", &name])?;
        bench.start(&[("PINNACE_CRASH_AT", point)])?;
        let status = bench.agent.as_mut().context("started")?.wait_end(SOON)?;
        ensure!(!status.success(), "{point} was not reached");
        bench.agent = None;
        bench.start(&[])?;
        bench.see("configmap", "shop", &name, |o| {
            equal(&o["data"]["a"], &json!("1"))
        })?;
        wait::until("the object is recorded as created", SOON, || {
            let status = bench.status().map_err(|e| e.to_string())?;
            let line = format!("ConfigMap shop/{name}");
            let found = status["objects"]
                .as_array()
                .and_then(|all| all.iter().find(|o| o["object"] == line.as_str()));
            equal(&found.cloned().unwrap_or_default()["origin"], &json!("created"))
        })?;
    }
    Ok(())
}

fn foreign_content_holds_a_namespace(bench: &mut Bench) -> Result<()> {
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "configmap", "theirs", "taken"])?;
    bench.kubectl.run(&[
        "-n",
        "shop",
        "create",
        "configmap",
        "precious",
        "--from-literal=a=1",
    ])?;
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "widgets.example.org", "w"])?;
    let all = [
        namespace("shop"),
        deployment(0),
        config("crash0", ""),
        config("crash1", ""),
    ];
    let buried: Vec<(&Value, DeleteMode)> = all.iter().map(|o| (o, DeleteMode::Delete)).collect();
    bench.run(&[], &buried)?;
    bench.see_gone("deployment", "shop", "web")?;
    wait::until("the deletion is held", SOON, || {
        let log = std::fs::read_to_string(&bench.log).map_err(|e| e.to_string())?;
        if log.contains("reason=ForeignContent") {
            Ok(())
        } else {
            Err("not yet".into())
        }
    })?;
    bench.see("configmap", "shop", "precious", |o| {
        equal(&o["data"]["a"], &json!("1"))
    })?;
    bench
        .kubectl
        .run(&["-n", "shop", "delete", "configmap", "precious"])?;
    bench.see_gone("namespace", "", "shop")?;
    let (peak, now) = bench.memory()?;
    println!("resident: peak {peak} KiB, now {now} KiB");
    ensure!(peak <= 20 << 10, "peak resident memory is {peak} KiB");
    Ok(())
}

fn another_cluster_is_left_alone(bench: &mut Bench) -> Result<()> {
    bench.stop()?;
    let mut enrolment = identity::load(&bench.data)?;
    enrolment.receipt.receipt.kube_system_uid = "another".into();
    std::fs::remove_file(bench.data.join("identity.json"))?;
    identity::save(&bench.data, &enrolment)?;
    bench.run(&[wanted(namespace("never"))], &[])?;
    wait::until("it says so", SOON, || {
        let log = std::fs::read_to_string(&bench.log).map_err(|e| e.to_string())?;
        if log.contains("reason=ClusterChanged") {
            Ok(())
        } else {
            Err("not yet".into())
        }
    })?;
    ensure!(
        bench.kubectl.get("namespace", "", "never")?.is_none(),
        "it acted on another cluster"
    );
    ensure!(bench.member.name().starts_with("agent-"), "the member is ours");
    bench.stop()
}
