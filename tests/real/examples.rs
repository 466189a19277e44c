//! The files of `docs/examples` on a running hub with three real members: what people write first works as it is.
//!
//! One fleet serves all scenarios, in order. What the hub decides is read from the hub; what runs is read with kubectl from
//! the members themselves.

mod examples_failing;
mod examples_first_hour;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::real::hub::Hub;
use tests::real::process::binary;
use tests::real::site::Site;
use tests::simulated::hub::Api;

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/nginx-deployment";
const PROPAGATION: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies";
const OVERRIDES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/default/overridepolicies";
const WORK: &str = "nginx-687f7fb96f";
/// How long the hub and its members may take for one change, on a busy machine.
const SOON: Duration = Duration::from_secs(90);
/// The clusters of the examples: name, provider, region.
const FLEET: [(&str, &str, &str); 3] = [
    ("us-prod", "aws", "us-west-2"),
    ("cn-prod", "alibaba", "cn-hangzhou"),
    ("eu-prod", "gcp", "europe-west4"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn example(name: &str) -> Result<Vec<u8>> {
    let path = root().join("docs/examples").join(name);
    std::fs::read(&path).with_context(|| path.display().to_string())
}

struct Stage {
    api: Api,
    // The members end before their hub.
    sites: Vec<Site>,
    hub: Hub,
}

impl Stage {
    async fn up(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let hub = Hub::start_new(folder, &xtask::member::Binary::get()?.kubectl())?;
        let joined: Vec<Result<Site>> = std::thread::scope(|scope| {
            let join = |(name, provider, region): (&'static str, &'static str, &'static str)| {
                let hub = &hub;
                scope.spawn(move || {
                    let labels = format!("environment=production,region={region}");
                    let terms = ["--provider", provider, "--region", region, "--labels", &labels];
                    let member = format!("{name}-{}", std::process::id());
                    let mut site = Site::join_member(folder, &member, name, hub, &terms)?;
                    site.start_agent(&[])?;
                    Ok(site)
                })
            };
            let joining: Vec<_> = FLEET.map(join).into_iter().collect();
            let end = |one: std::thread::ScopedJoinHandle<'_, Result<Site>>| {
                one.join()
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("a member did not come up")))
            };
            joining.into_iter().map(end).collect()
        });
        let sites: Vec<Site> = joined.into_iter().collect::<Result<_>>()?;
        let api = Api::of(hub.kubectl().kubeconfig()).await?;
        let stage = Self { api, sites, hub };
        stage
            .until(CLUSTERS, "three clusters with a report", |list| {
                let reported =
                    |one: &&Value| one["status"]["resourceSummary"].is_object() && is_true(one, "Ready");
                items(list).filter(reported).count() == 3
            })
            .await?;
        Ok(stage)
    }

    fn site(&self, name: &str) -> Result<&Site> {
        let found = self.sites.iter().find(|site| site.name() == name);
        found.with_context(|| format!("no member {name}"))
    }

    /// Reads an object from a member until it is as wanted; `None`: it is not there.
    async fn in_member(
        &self,
        cluster: &str,
        (kind, namespace, name): (&str, &str, &str),
        what: &str,
        wanted: impl Fn(Option<&Value>) -> bool,
    ) -> Result<Option<Value>> {
        let kubectl = self.site(cluster)?.kubectl();
        let end = tokio::time::Instant::now() + SOON;
        loop {
            let seen = kubectl.get(kind, namespace, name);
            match seen {
                Ok(seen) if wanted(seen.as_ref()) => return Ok(seen),
                seen if tokio::time::Instant::now() > end => {
                    let why = self.pinnace(&["why", &format!("{kind}/{name}"), "-n", namespace]);
                    anyhow::bail!("{what} is not seen in {cluster}: {seen:?}\n{why:?}");
                }
                _ => tokio::time::sleep(Duration::from_millis(150)).await,
            }
        }
    }

    /// Waits until the members run as many Pods of the example's Deployment; 0: they do not have it.
    async fn run(&self, wanted: &[(&str, i64)]) -> Result<()> {
        for (cluster, replicas) in wanted {
            let as_wanted = |object: Option<&Value>| match object {
                None => *replicas == 0,
                Some(object) => {
                    object["spec"]["replicas"] == *replicas && object["status"]["readyReplicas"] == *replicas
                }
            };
            let what = format!("{replicas} running");
            self.in_member(cluster, ("deployment", "default", "nginx"), &what, as_wanted)
                .await?;
        }
        Ok(())
    }

    /// Reads a path until it is as wanted.
    async fn until(&self, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let end = tokio::time::Instant::now() + SOON;
        loop {
            let seen = self.api.get(path).await;
            match &seen {
                Ok(seen) if wanted(seen) => return Ok(seen.clone()),
                _ if tokio::time::Instant::now() > end => {
                    anyhow::bail!("{what} is not seen: {seen:?}");
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn placed(&self, what: &str, wanted: &[(&str, i64)]) -> Result<Value> {
        let mut wanted: Vec<(String, i64)> = wanted.iter().map(|(c, n)| ((*c).to_owned(), *n)).collect();
        wanted.sort();
        self.until(BINDING, what, |binding| shares(binding) == wanted)
            .await
    }

    /// A fresh start: no policy, no Deployment, nothing placed.
    async fn clear(&self) -> Result<()> {
        for list in [OVERRIDES, PROPAGATION] {
            for object in items(&self.api.get(list).await?) {
                self.api.delete(&format!("{list}/{}", name(object))).await?;
            }
        }
        if self.api.get(&format!("{DEPLOYMENTS}/nginx")).await.is_ok() {
            self.api.delete(&format!("{DEPLOYMENTS}/nginx")).await?;
        }
        let end = tokio::time::Instant::now() + SOON;
        while self.api.get(BINDING).await.is_ok() {
            ensure!(tokio::time::Instant::now() < end, "the binding stays");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // A policy goes once no claim is left.
        for list in [OVERRIDES, PROPAGATION] {
            self.until(list, "no policy", |list| items(list).next().is_none())
                .await?;
        }
        Ok(())
    }

    /// The policy of a file, then `web.yaml`.
    async fn begin(&self, policy: &str) -> Result<()> {
        self.clear().await?;
        self.api.create_yaml(PROPAGATION, example(policy)?).await?;
        self.api.create_yaml(DEPLOYMENTS, example("web.yaml")?).await?;
        Ok(())
    }

    async fn works(&self, cluster: &str) -> Result<Vec<Value>> {
        let path = format!("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{cluster}/works");
        Ok(items(&self.api.get(&path).await?).cloned().collect())
    }

    fn pinnace(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(binary("pinnace")?)
            .env("KUBECONFIG", self.hub.kubectl().kubeconfig())
            .args(arguments)
            .output()?;
        ensure!(
            output.status.success(),
            "pinnace {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn shares(binding: &Value) -> Vec<(String, i64)> {
    let one = |share: &Value| {
        let cluster = share["name"].as_str()?.to_owned();
        Some((cluster, share["replicas"].as_i64().unwrap_or(0)))
    };
    let list = binding["spec"]["clusters"].as_array().into_iter().flatten();
    let mut shares: Vec<_> = list.filter_map(one).collect();
    shares.sort();
    shares
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

#[test]
fn the_examples_work_as_they_are() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("pinnace-examples-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stage = Stage::up(&folder).await?;
        by_name(&stage).await.context("propagate-by-name.yaml")?;
        commands(&stage).context("docs/commands.md")?;
        by_label(&stage).await.context("propagate-by-label.yaml")?;
        by_group(&stage).await.context("propagate-by-group.yaml")?;
        tolerate(&stage).await.context("tolerate-maintenance.yaml")?;
        spread(&stage).await.context("spread-regions-providers.yaml")?;
        static_weights(&stage).await.context("divide-static.yaml")?;
        dynamic_weights(&stage).await.context("divide-dynamic.yaml")?;
        plaintext(&stage).await.context("override-plaintext.yaml")?;
        image(&stage).await.context("override-image.yaml")?;
        namespace(&stage).await.context("namespace-by-policy.yaml")?;
        service(&stage).await.context("multi-cluster-service.yaml")?;
        examples_first_hour::all(&stage).await?;
        examples_failing::all(&stage)
            .await
            .context("failover-application.yaml")
    })?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

async fn by_name(stage: &Stage) -> Result<()> {
    stage.begin("propagate-by-name.yaml").await?;
    stage
        .placed("3 in each of two", &[("cn-prod", 3), ("us-prod", 3)])
        .await?;
    for (cluster, count) in [("us-prod", 1), ("cn-prod", 1), ("eu-prod", 0)] {
        let path = format!("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{cluster}/works");
        let ours = |list: &Value| items(list).filter(|work| name(work) == WORK).count() == count;
        stage.until(&path, &format!("{count} works {WORK}"), ours).await?;
    }
    stage
        .run(&[("us-prod", 3), ("cn-prod", 3), ("eu-prod", 0)])
        .await?;
    let fully = |binding: &Value| is_true(binding, "Scheduled") && is_true(binding, "FullyApplied");
    stage.until(BINDING, "Scheduled and FullyApplied", fully).await?;
    let caught_up = |web: &Value| {
        web["status"]["readyReplicas"] == 6
            && web["status"]["observedGeneration"] == web["metadata"]["generation"]
    };
    stage
        .until(&format!("{DEPLOYMENTS}/nginx"), "6 ready on the hub", caught_up)
        .await?;
    let why = stage.pinnace(&["why", "Deployment/nginx", "-n", "default", "--cluster", "us-prod"])?;
    for part in [
        "nginx-propagation",
        "us-prod: passed the filters",
        "gets 3 replicas",
    ] {
        ensure!(why.contains(part), "{part} is not in\n{why}");
    }
    ensure!(!why.contains("eu-prod: "), "another cluster is in\n{why}");
    let diff = stage.pinnace(&[
        "diff",
        "Deployment/nginx",
        "-n",
        "default",
        "--cluster",
        "us-prod",
    ])?;
    ensure!(diff.contains("no difference"), "{diff}");
    let ready = |cluster: &Value| is_true(cluster, "Ready");
    stage
        .until(&format!("{CLUSTERS}/us-prod"), "Ready", ready)
        .await?;
    let metrics = stage.api.text("/metrics").await?;
    for part in [
        "karmada_schedule_attempts_total{result=\"scheduled\"}",
        "karmada_cluster_ready_condition{cluster_name=\"us-prod\",condition=\"True\"} 1",
        "karmada_work_status{status=\"applied\"} ",
    ] {
        ensure!(metrics.contains(part), "{part} is not in\n{metrics}");
    }
    Ok(())
}

/// The commands of the page, as they stand there.
fn commands(stage: &Stage) -> Result<()> {
    let page = std::fs::read_to_string(root().join("docs/commands.md"))?;
    let mut inside = false;
    let mut ran = 0;
    for line in page.lines() {
        match (inside, line) {
            (false, "```sh") => inside = true,
            (true, "```") => inside = false,
            (true, line) => {
                let words: Vec<&str> = line.split_whitespace().collect();
                ensure!(words.first() == Some(&"pinnace"), "{line}");
                stage.pinnace(&words[1..])?;
                ran += 1;
            }
            (false, _) => {}
        }
    }
    ensure!(ran > 8, "the page has {ran} commands");
    Ok(())
}

async fn by_label(stage: &Stage) -> Result<()> {
    stage.begin("propagate-by-label.yaml").await?;
    stage
        .placed("the matching clusters", &[("cn-prod", 3), ("us-prod", 3)])
        .await?;
    stage.pinnace(&["cluster", "label", "cn-prod", "environment=staging"])?;
    stage
        .placed("without the cluster that matches no more", &[("us-prod", 3)])
        .await?;
    stage.pinnace(&["cluster", "label", "cn-prod", "environment=production"])?;
    stage
        .placed("with it again", &[("cn-prod", 3), ("us-prod", 3)])
        .await?;
    stage.run(&[("us-prod", 3), ("cn-prod", 3), ("eu-prod", 0)]).await
}

async fn by_group(stage: &Stage) -> Result<()> {
    let group = |binding: &Value| binding["status"]["schedulerObservingAffinityName"] == "backup";
    stage.begin("propagate-by-group.yaml").await?;
    let binding = stage.placed("the first group", &[("us-prod", 3)]).await?;
    ensure!(!group(&binding), "{binding}");
    stage.pinnace(&["cluster", "cordon", "us-prod"])?;
    stage.begin("propagate-by-group.yaml").await?;
    let binding = stage
        .placed("the second group", &[("cn-prod", 3), ("eu-prod", 3)])
        .await?;
    ensure!(group(&binding), "the binding does not name the group: {binding}");
    stage.pinnace(&["cluster", "uncordon", "us-prod"])?;
    Ok(())
}

async fn tolerate(stage: &Stage) -> Result<()> {
    let taint = "maintenance=true:NoSchedule";
    stage.begin("propagate-by-name.yaml").await?;
    stage
        .placed("before the taint", &[("cn-prod", 3), ("us-prod", 3)])
        .await?;
    stage.pinnace(&["cluster", "taint", "cn-prod", taint])?;
    // Planned once more after the taint, it stays.
    stage
        .api
        .merge(&format!("{DEPLOYMENTS}/nginx"), &json!({"spec": {"replicas": 4}}))
        .await?;
    stage
        .placed("what is there stays", &[("cn-prod", 4), ("us-prod", 4)])
        .await?;
    stage.begin("propagate-by-name.yaml").await?;
    stage.placed("a new one is kept away", &[("us-prod", 3)]).await?;
    stage.begin("tolerate-maintenance.yaml").await?;
    stage
        .placed("one that tolerates it", &[("cn-prod", 3), ("us-prod", 3)])
        .await?;
    stage.pinnace(&["cluster", "taint", "cn-prod", "maintenance-"])?;
    Ok(())
}

async fn spread(stage: &Stage) -> Result<()> {
    stage.begin("spread-regions-providers.yaml").await?;
    let two = |binding: &Value| shares(binding).len() == 2 && is_true(binding, "Scheduled");
    stage.until(BINDING, "two regions, two providers", two).await?;
    for cluster in ["cn-prod", "eu-prod"] {
        stage.pinnace(&["cluster", "cordon", cluster])?;
    }
    stage.begin("spread-regions-providers.yaml").await?;
    let refused = |binding: &Value| {
        let scheduled = condition(binding, "Scheduled");
        scheduled
            .is_some_and(|c| c["status"] == "False" && !c["message"].as_str().unwrap_or_default().is_empty())
    };
    stage
        .until(BINDING, "a condition that says why nothing fits", refused)
        .await?;
    for cluster in ["cn-prod", "eu-prod"] {
        stage.pinnace(&["cluster", "uncordon", cluster])?;
    }
    Ok(())
}

async fn static_weights(stage: &Stage) -> Result<()> {
    stage.begin("divide-static.yaml").await?;
    stage
        .placed("3 as 2 and 1", &[("cn-prod", 1), ("us-prod", 2)])
        .await?;
    stage
        .run(&[("us-prod", 2), ("cn-prod", 1), ("eu-prod", 0)])
        .await?;
    for (replicas, us, cn) in [(10, 7, 3), (15, 10, 5)] {
        let change = json!({"spec": {"replicas": replicas}});
        stage.api.merge(&format!("{DEPLOYMENTS}/nginx"), &change).await?;
        stage
            .placed("by the weights", &[("cn-prod", cn), ("us-prod", us)])
            .await?;
    }
    stage
        .run(&[("us-prod", 10), ("cn-prod", 5), ("eu-prod", 0)])
        .await
}

async fn dynamic_weights(stage: &Stage) -> Result<()> {
    stage.begin("divide-dynamic.yaml").await?;
    let all = |binding: &Value| shares(binding).iter().map(|(_, replicas)| replicas).sum::<i64>() == 3;
    let before = shares(&stage.until(BINDING, "3 by free room", all).await?);
    stage
        .api
        .merge(
            &format!("{DEPLOYMENTS}/nginx"),
            &json!({"spec": {"replicas": 12}}),
        )
        .await?;
    let all = |binding: &Value| shares(binding).iter().map(|(_, replicas)| replicas).sum::<i64>() == 12;
    let after = shares(&stage.until(BINDING, "12 by free room", all).await?);
    for (cluster, had) in before {
        let has = after
            .iter()
            .find(|(other, _)| *other == cluster)
            .map_or(0, |(_, has)| *has);
        ensure!(has >= had, "{cluster} had {had} and has {has}");
    }
    Ok(())
}

/// Image of the Work of a cluster; empty: it has none.
async fn image_in(stage: &Stage, cluster: &str) -> Result<String> {
    let works = stage.works(cluster).await?;
    let ours = works.iter().find(|work| name(work) == WORK);
    let containers =
        ours.map(|work| &work["spec"]["workload"]["manifests"][0]["spec"]["template"]["spec"]["containers"]);
    Ok(containers
        .and_then(|list| list[0]["image"].as_str())
        .unwrap_or_default()
        .to_owned())
}

async fn image_is(stage: &Stage, cluster: &str, wanted: &str) -> Result<()> {
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let image = image_in(stage, cluster).await?;
        if image == wanted {
            return Ok(());
        }
        ensure!(
            tokio::time::Instant::now() < end,
            "{cluster} has {image:?} instead of {wanted:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn plaintext(stage: &Stage) -> Result<()> {
    stage.begin("propagate-by-name.yaml").await?;
    image_is(stage, "us-prod", "nginx:1.27").await?;
    stage
        .api
        .create_yaml(OVERRIDES, example("override-plaintext.yaml")?)
        .await?;
    image_is(stage, "cn-prod", "registry.cn.example.com/nginx:1.27").await?;
    let kept = image_in(stage, "us-prod").await?;
    ensure!(
        kept == "nginx:1.27",
        "us-prod has {kept}: a part of a rule that fails was applied"
    );
    let why = stage.pinnace(&["why", "Deployment/nginx", "-n", "default"])?;
    for part in [
        "OverrideFailed",
        "us-prod",
        "nginx-override",
        "/spec/template/spec/containers/0/env/0/value",
    ] {
        ensure!(why.contains(part), "{part} is not in\n{why}");
    }
    let env = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "nginx", "image": "nginx:1.27", "env": [{"name": "SITE", "value": "none"}]}]}}}});
    stage.api.merge(&format!("{DEPLOYMENTS}/nginx"), &env).await?;
    image_is(stage, "us-prod", "registry.us.example.com/nginx:1.27").await?;
    image_is(stage, "cn-prod", "registry.cn.example.com/nginx:1.27").await
}

async fn image(stage: &Stage) -> Result<()> {
    stage.begin("propagate-by-name.yaml").await?;
    stage
        .api
        .create_yaml(OVERRIDES, example("override-image.yaml")?)
        .await?;
    image_is(stage, "us-prod", "registry.us.example.com/nginx:1.27").await?;
    image_is(stage, "cn-prod", "nginx:1.27").await?;
    for (cluster, image) in [
        ("us-prod", "registry.us.example.com/nginx:1.27"),
        ("cn-prod", "nginx:1.27"),
    ] {
        let runs = |web: Option<&Value>| {
            web.is_some_and(|web| web["spec"]["template"]["spec"]["containers"][0]["image"] == image)
        };
        stage
            .in_member(cluster, ("deployment", "default", "nginx"), image, runs)
            .await?;
    }
    Ok(())
}

async fn namespace(stage: &Stage) -> Result<()> {
    stage.clear().await?;
    let policies = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies";
    stage
        .api
        .create_yaml(policies, example("namespace-by-policy.yaml")?)
        .await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app-prod"}});
    stage.api.post("/api/v1/namespaces", &namespace).await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inside", "namespace": "app-prod"}});
    stage
        .api
        .post("/api/v1/namespaces/app-prod/configmaps", &map)
        .await?;
    for cluster in ["us-prod", "cn-prod"] {
        let path = format!("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{cluster}/works");
        let manifests = |list: &Value| -> Vec<(String, String)> {
            let all = items(list).flat_map(|work| {
                work["spec"]["workload"]["manifests"]
                    .as_array()
                    .into_iter()
                    .flatten()
            });
            all.map(|m| {
                (
                    m["kind"].as_str().unwrap_or_default().to_owned(),
                    name(m).to_owned(),
                )
            })
            .collect()
        };
        let there = |list: &Value| manifests(list).contains(&("Namespace".to_owned(), "app-prod".to_owned()));
        let list = stage.until(&path, "the namespace", there).await?;
        let inside = manifests(&list)
            .iter()
            .any(|(kind, name)| kind == "ConfigMap" && name == "inside");
        ensure!(!inside, "the content of the namespace was carried along");
    }
    for (cluster, there) in [("us-prod", true), ("cn-prod", true)] {
        stage
            .in_member(cluster, ("namespace", "", "app-prod"), "the namespace", |found| {
                found.is_some() == there
            })
            .await?;
        let inside = stage
            .site(cluster)?
            .kubectl()
            .get("configmap", "app-prod", "inside")?;
        ensure!(inside.is_none(), "{cluster} has the content of the namespace");
    }
    Ok(())
}

async fn service(stage: &Stage) -> Result<()> {
    let services = "/apis/networking.karmada.io/v1alpha1/namespaces/default/multiclusterservices";
    stage
        .api
        .create_yaml(services, example("multi-cluster-service.yaml")?)
        .await?;
    let said = |service: &Value| {
        condition(service, "EndpointSliceDispatched").is_some_and(|condition| {
            condition["status"] == "False" && condition["reason"] == "PodNetworksNotJoined"
        })
    };
    stage
        .until(
            &format!("{services}/nginx"),
            "a condition that says what is not done",
            said,
        )
        .await?;
    stage.api.delete(&format!("{services}/nginx")).await?;
    Ok(())
}
