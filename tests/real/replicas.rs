//! Several agents of one cluster, as the DaemonSet runs them: three processes that find only the files of a Pod, under the
//! RBAC and with the arguments of the printed manifest. The one that leads is killed again and again, with a hub and
//! without; another leads, and no object of the fleet is made anew.
//!
//! Red without the fence (two write at once), without intents or records in the mirror (objects are made twice or become
//! conflicts), or if a follower could not catch up without a hub.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests::real::fleet::{AGREE, condition};
use tests::real::hub::Hub;
use tests::real::kubectl::Kubectl;
use tests::real::process::{Process, binary};
use tests::real::wait;
use xtask::member::{Binary, Scoped};
use xtask::proxy::Line;

/// Another must lead and have repaired something within this.
const GAP_MAX: Duration = Duration::from_secs(60);
const OWN: &str = "pinnace-agent";

/// One agent of the cluster.
struct Replica {
    name: String,
    folder: PathBuf,
    process: Option<Process>,
}

struct Site {
    hub: Hub,
    member: Scoped,
    kubectl: Kubectl,
    folder: PathBuf,
    join: Vec<String>,
    run: Vec<String>,
    pod_files: PathBuf,
    replicas: Vec<Replica>,
}

/// A command that sees the files of a Pod's ServiceAccount, and the API where a Pod looks for it.
fn in_pod(site_files: &Path, api_port: u16, words: &[String]) -> Result<Command> {
    let script = "mount -t tmpfs none /var/run && mkdir -p /var/run/secrets/kubernetes.io && \
                  cp -r \"$0\" /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";
    let root = Command::new("id").arg("-u").output()?.stdout == b"0\n";
    let mut command = Command::new("unshare");
    command
        .arg(if root { "-m" } else { "-rm" })
        .args(["sh", "-c", script])
        .arg(site_files)
        .arg(binary("pinnace-agent")?)
        .args(words)
        .env_remove("KUBECONFIG")
        .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        .env("KUBERNETES_SERVICE_PORT", api_port.to_string());
    Ok(command)
}

impl Site {
    fn up(folder: &Path) -> Result<Self> {
        let hub = Hub::start_new(folder, &Binary::get()?.kubectl())?;
        let member = Scoped::up(&format!("replicas-{}", std::process::id()), 3)?;
        member.proxy().link(hub.address())?;
        let kubectl = Kubectl::new(
            &Binary::get()?.kubectl(),
            &member.kubeconfig(),
            &folder.join("member-cache"),
        );
        let manifest = hub.pinnace(&["token", "create", "shop", "--manifest", "--kind", "daemonset"])?;
        kubectl.apply(&manifest)?;
        let set = kubectl.get("daemonset", OWN, OWN)?.context("the DaemonSet")?;
        let words = |part: &str| -> Vec<String> {
            let all = set["spec"]["template"]["spec"][part][0]["args"].as_array();
            let texts = all.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        let (join, run) = (words("initContainers"), words("containers"));
        let pod_files = folder.join("pod");
        std::fs::create_dir_all(&pod_files)?;
        let token = kubectl.run(&["-n", OWN, "create", "token", OWN, "--duration=2h"])?;
        std::fs::write(pod_files.join("token"), token.trim())?;
        std::fs::copy(member.directory().join("ca.crt"), pod_files.join("ca.crt"))?;
        std::fs::write(pod_files.join("namespace"), OWN)?;
        let secret = kubectl.get("secret", OWN, "pinnace-join")?.context("the token")?;
        let token = STANDARD.decode(secret["data"]["token"].as_str().context("token")?)?;
        std::fs::write(folder.join("token"), token)?;
        Ok(Self {
            hub,
            member,
            kubectl,
            folder: folder.to_owned(),
            join,
            run,
            pod_files,
            replicas: Vec::new(),
        })
    }

    /// The arguments of the manifest with the paths of this test.
    fn adapted(&self, words: &[String], replica: &Replica) -> Vec<String> {
        let adapt = |word: &String| match word.split_once('=').map_or(word.as_str(), |(name, _)| name) {
            "--data" => format!("--data={}", replica.folder.join("data").display()),
            "--token-file" => format!("--token-file={}", self.folder.join("token").display()),
            "--hub" => format!("--hub={}", self.member.proxy_address()),
            _ => word.clone(),
        };
        words.iter().map(adapt).collect()
    }

    fn command(&self, words: &[String], replica: &Replica) -> Result<Command> {
        let mut command = in_pod(
            &self.pod_files,
            self.member.state().ports.api,
            &self.adapted(words, replica),
        )?;
        command.env("PINNACE_REPLICA", &replica.name);
        Ok(command)
    }

    fn new_replica(&mut self, name: &str) -> Result<usize> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        self.replicas.push(Replica {
            name: name.to_owned(),
            folder,
            process: None,
        });
        Ok(self.replicas.len() - 1)
    }

    /// All three at once, as Pods start.
    fn join_all(&self) -> Result<()> {
        let started: Vec<Child> = self
            .replicas
            .iter()
            .map(|r| {
                Ok(self
                    .command(&self.join, r)?
                    .stdout(std::process::Stdio::piped())
                    .spawn()?)
            })
            .collect::<Result<_>>()?;
        for child in started {
            let output = child.wait_with_output()?;
            ensure!(
                output.status.success(),
                "join: {}",
                String::from_utf8_lossy(&output.stdout)
            );
        }
        Ok(())
    }

    fn start(&mut self, index: usize, env: &[(&str, &str)]) -> Result<()> {
        let mut command = self.command(&self.run, &self.replicas[index])?;
        command.envs(env.iter().copied());
        let log = self.folder.join(format!("{}.log", self.replicas[index].name));
        self.replicas[index].process = Some(Process::start(command, &log)?);
        Ok(())
    }

    fn kill(&mut self, index: usize) -> Result<()> {
        self.replicas[index].process.take().context("it runs")?.kill()
    }

    /// Which agent holds the lease now.
    fn leader(&self) -> Result<usize, String> {
        let lease = self.kubectl.get("lease", OWN, OWN).map_err(|e| e.to_string())?;
        let lease = lease.ok_or("no lease")?;
        let holder = lease["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.replicas
            .iter()
            .position(|r| r.process.is_some() && holder.starts_with(&format!("{}_", r.name)))
            .ok_or(format!("held by {holder:?}"))
    }

    fn wait_leader(&self) -> Result<usize> {
        wait::until("one leads", GAP_MAX, || self.leader())
    }

    fn uids(&self) -> Result<BTreeMap<String, String>> {
        let mut uids = BTreeMap::new();
        for object in self.kubectl.list("configmaps", "fleet")? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if name != "canary" && name != "kube-root-ca.crt" {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
                uids.insert(name.to_owned(), uid.to_owned());
            }
        }
        Ok(uids)
    }

    fn wait_config(&self, name: &str, value: &str) -> Result<()> {
        wait::until(&format!("{name} is {value}"), AGREE, || {
            let object = self
                .kubectl
                .get("configmap", "fleet", name)
                .map_err(|e| e.to_string())?;
            match object {
                Some(o) if o["data"]["greeting"] == value => Ok(()),
                Some(o) => Err(o["data"].to_string()),
                None => Err("absent".into()),
            }
        })
    }

    /// Kills the one that leads and something it keeps; the next one puts it back. Gives the time that took.
    fn kill_leader(&mut self) -> Result<(usize, Duration)> {
        let old = self.wait_leader()?;
        self.kill(old)?;
        let begun = Instant::now();
        self.kubectl
            .run(&["-n", "fleet", "delete", "configmap", "canary"])?;
        wait::until("the next one repairs", GAP_MAX, || {
            let object = self
                .kubectl
                .get("configmap", "fleet", "canary")
                .map_err(|e| e.to_string())?;
            object.map(drop).ok_or_else(|| "absent".to_owned())
        })?;
        let gap = begun.elapsed();
        ensure!(gap < GAP_MAX, "nobody led for {gap:?}");
        let next = self.wait_leader()?;
        ensure!(next != old, "the dead one leads");
        self.start(old, &[])?;
        Ok((next, gap))
    }

    fn wait_ready(&self) -> Result<()> {
        wait::until("the cluster is Ready on the hub", AGREE, || {
            let object = self
                .hub
                .kubectl()
                .get("cluster", "", "shop")
                .map_err(|e| e.to_string())?;
            match object.as_ref().and_then(|o| condition(o, "Ready")).as_deref() {
                Some("True") => Ok(()),
                other => Err(format!("Ready is {other:?}")),
            }
        })
    }

    /// Writes the newest set into a file; gives its number.
    fn export(&self, file: &Path) -> Result<u64> {
        let said = self
            .hub
            .pinnace(&["cluster", "export", "shop", &file.display().to_string()])?;
        let number = said.split_whitespace().nth(1).context("no number")?;
        Ok(number.parse()?)
    }

    fn edit(&self, name: &str, value: &str) -> Result<()> {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "fleet",
            "labels": {"part": "fleet"}}, "data": {"greeting": value}});
        self.hub.kubectl().apply(&map.to_string())?;
        Ok(())
    }
}

fn story(site: &mut Site) -> Result<()> {
    for name in ["node-a", "node-b", "node-c"] {
        site.new_replica(name)?;
    }
    site.join_all()?;
    let identity = |r: &Replica| -> Result<Value> {
        let text = std::fs::read_to_string(r.folder.join("data/identity.json"))?;
        Ok(serde_json::from_str::<Value>(&text)?["receipt"].clone())
    };
    let receipts: Vec<Value> = site.replicas.iter().map(identity).collect::<Result<_>>()?;
    ensure!(
        receipts.iter().all(|r| *r == receipts[0]),
        "they are not one agent"
    );
    for index in 0..3 {
        site.start(index, &[])?;
    }
    site.wait_ready()?;

    site.hub.kubectl().run(&["create", "namespace", "fleet"])?;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "all", "namespace": "fleet"}, "spec": {"resourceSelectors": [
            {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"part": "fleet"}}}],
            "placement": {"clusterAffinity": {"clusterNames": ["shop"]}}}});
    site.hub.kubectl().apply(&policy.to_string())?;
    for name in ["one", "two", "three", "canary"] {
        site.edit(name, "0")?;
    }
    for name in ["one", "two", "three", "canary"] {
        site.wait_config(name, "0")?;
    }
    let uids = site.uids()?;
    ensure!(uids.len() == 3, "{uids:?}");

    let rounds = if std::env::var_os("PINNACE_SLOW").is_some() {
        10
    } else {
        2
    };
    let mut gaps = Vec::new();
    for round in 1..=rounds {
        let (_, gap) = site.kill_leader()?;
        gaps.push(gap.as_secs_f64());
        // The next one also hears the hub.
        site.edit("two", &round.to_string())?;
        site.wait_config("two", &round.to_string())?;
    }
    // Between what is shared and what counts: the edit arrives once, through whoever leads next.
    let old = site.wait_leader()?;
    for index in 0..3 {
        site.replicas[index].process.take().context("it runs")?.stop()?;
    }
    site.start(old, &[("PINNACE_CRASH_AT", "mirror-anchor")])?;
    site.wait_leader()?;
    site.edit("three", "between")?;
    let mut process = site.replicas[old].process.take().context("it ran")?;
    process.wait_end(GAP_MAX)?;
    for index in 0..3 {
        site.start(index, &[])?;
    }
    site.wait_config("three", "between")?;

    // Without a hub.
    site.hub.stop()?;
    for _ in 0..rounds {
        let (_, gap) = site.kill_leader()?;
        gaps.push(gap.as_secs_f64());
    }
    // A node that was not there before, alone: it takes all from what is shared.
    let fourth = site.new_replica("node-d")?;
    let output = site.command(&site.join, &site.replicas[fourth])?.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success() && said.contains("with the other agents"),
        "{said}"
    );
    for index in 0..3 {
        site.kill(index)?;
    }
    site.start(fourth, &[])?;
    site.kubectl
        .run(&["-n", "fleet", "delete", "configmap", "canary"])?;
    site.wait_config("canary", "0")?;
    ensure!(
        site.leader().map_err(anyhow::Error::msg)? == fourth,
        "another leads"
    );
    ensure!(site.uids()? == uids, "{uids:?} became {:?}", site.uids()?);
    // The hub comes back to the same agent, and what it orders away goes: the new node has the records.
    site.hub.start(&[])?;
    site.wait_ready()?;
    site.hub
        .kubectl()
        .run(&["-n", "fleet", "delete", "configmap", "one"])?;
    wait::until("what is ordered away goes", AGREE, || {
        let object = site
            .kubectl
            .get("configmap", "fleet", "one")
            .map_err(|e| e.to_string())?;
        object.map_or(Ok(()), |_| Err("still there".to_owned()))
    })?;
    // A link that is cut for good: the set comes by hand, and what came of it goes back by hand.
    site.member.proxy().set(Line::Cut)?;
    let (set, receipt) = (site.folder.join("set.pnx"), site.folder.join("receipt.pnr"));
    let path = |p: &Path| p.display().to_string();
    let words = |verb: &str, file: &Path| vec![verb.to_owned(), path(file), "--data=".to_owned()];
    let before = site.export(&set)?;
    site.edit("two", "by-hand")?;
    wait::until("the edit is in a set", AGREE, || {
        let now = site.export(&set).map_err(|e| e.to_string())?;
        if now > before {
            Ok(())
        } else {
            Err(format!("set {now}"))
        }
    })?;
    site.replicas[fourth].process.take().context("it runs")?.stop()?;
    let output = site
        .command(&words("import", &set), &site.replicas[fourth])?
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    site.start(fourth, &[])?;
    site.wait_config("two", "by-hand")?;
    let output = site
        .command(&words("export", &receipt), &site.replicas[fourth])?
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let said = site
        .hub
        .pinnace(&["cluster", "receipt", "shop", &path(&receipt)])?;
    ensure!(said.contains("objects are reported"), "{said}");
    let mut forged = std::fs::read(&receipt)?;
    let last = forged.len() - 1;
    forged[last] ^= 1;
    std::fs::write(&receipt, forged)?;
    let refused = site.hub.pinnace(&["cluster", "receipt", "shop", &path(&receipt)]);
    ensure!(
        refused
            .as_ref()
            .is_err_and(|e| e.to_string().contains("BadSignature")),
        "{refused:?}"
    );
    site.member.proxy().set(Line::Open)?;
    site.wait_ready()?;
    let longest = gaps.iter().copied().fold(0.0, f64::max);
    println!(
        "{} leaders killed; seconds until the next one had repaired: {gaps:.1?}, at most {longest:.1}",
        gaps.len()
    );
    Ok(())
}

#[test]
fn agents_lead_in_turn_with_and_without_a_hub() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut site = Site::up(folder.path()).expect("a hub and a member");
    if let Err(e) = story(&mut site) {
        for replica in &site.replicas {
            let log = std::fs::read_to_string(folder.path().join(format!("{}.log", replica.name)));
            let log = log.unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(25).collect();
            println!("{}, newest first:\n{}\n", replica.name, tail.join("\n"));
        }
        panic!("{e:?}");
    }
}
