//! The same cases through a running hub: its process, its API, and clusters that joined and reported as real ones do.
//! What is compared is what a user sees: the binding, the Work view, or the answer to a write.
//!
//! A case that the way of a user cannot produce (a former result out of nowhere, a switched-off feature, a kind that
//! the hub does not serve) counts as unsupported, never as passed.

mod placing;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hub_core::policy::{self, Operation, Request, Switches};
use serde_json::{Map, Value, json};
use shared::wire::{ApiEnablement, Capacity, ModelCount};

use super::adapters::Existing;
use super::cases::{self, Case, CaseSet, Compare};
use super::{Answer, Deviations, Report, SetResult, Verdict, compare, matches};
use crate::simulated::agents::Clusters;
use crate::simulated::hub::{Api, Hub};

/// How long the hub may take to plan one object.
const PLANNED: Duration = Duration::from_secs(20);
/// How long clusters may take to join and report.
const REPORTED: Duration = Duration::from_secs(60);

/// A hub with the clusters of some cases.
struct Place {
    api: Api,
    /// Names of namespaces used so far.
    used: usize,
    // The clusters end before their hub.
    _clusters: Clusters,
    _hub: Hub,
}

/// Runs the sets that can run so; `globs` as in [`super::run`].
///
/// # Errors
/// A file cannot be read, or a hub does not start.
pub fn run(cases: &Path, globs: &[String], deviations: &Deviations) -> Result<Report> {
    let folder = std::env::temp_dir().join(format!("pinnace-conformance-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ran = runtime.block_on(run_in(&folder, cases, globs, deviations));
    if ran.is_ok() {
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    ran
}

async fn run_in(folder: &Path, cases: &Path, globs: &[String], deviations: &Deviations) -> Result<Report> {
    let mut report = Report::default();
    let mut number = 0;
    for path in cases::files(cases)? {
        let name = cases::set_name(cases, &path);
        let wanted = globs.is_empty() || globs.iter().any(|glob| matches(glob, &name));
        if !wanted || !is_for_hubs(&name) {
            continue;
        }
        let set = CaseSet::read(&name, &path).with_context(|| format!("case file {}", path.display()))?;
        let mut result = SetResult::new(&name);
        let mut by_clusters: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
        for case in &set.cases {
            by_clusters
                .entry(clusters_of(case).to_string())
                .or_default()
                .push(case);
        }
        for (clusters, cases) in by_clusters {
            let clusters: Value = serde_json::from_str(&clusters)?;
            if !cases.iter().any(|case| supported(case)) {
                cases.iter().for_each(|case| {
                    result.count(case, Verdict::Unsupported, None);
                });
                continue;
            }
            number += 1;
            let mut place = Place::start(&folder.join(number.to_string()), &clusters)
                .await
                .with_context(|| format!("hub for {name}"))?;
            for case in cases {
                let verdict = match place.answer(case).await {
                    Ok(None) => Verdict::Unsupported,
                    Ok(Some(answer)) => match compare::check(&visible(case), &answer) {
                        Ok(()) => Verdict::Passed,
                        Err(difference) => Verdict::Failed(difference),
                    },
                    Err(error) => Verdict::Failed(format!("{error:#}")),
                };
                let listed = match verdict {
                    // What cannot be brought about through a hub is no deviation.
                    Verdict::Unsupported => None,
                    _ => deviations.reason(&name, &case.name),
                };
                result.count(case, verdict, listed);
            }
        }
        report.sets.push(result);
    }
    Ok(report)
}

fn is_for_hubs(set: &str) -> bool {
    set.starts_with("scheduler/schedule-") || set.starts_with("overrides/") || set.starts_with("validation/")
}

/// What of a case a user can see: a condition tells the kind of an error, not the code it has inside; a Work has no empty
/// lists and maps; a binding keeps the order of the clusters that it had.
fn visible(case: &Case) -> Case {
    let mut case = case.clone();
    if case.op == "override" {
        case.compare = Compare::IgnoreEmpty;
    }
    if case.op == "schedule" && items(&case.input["spec"]["clusters"]).next().is_some() {
        case.compare = Compare::Set;
    }
    if let Some(error) = case.expect.get_mut("error").and_then(Value::as_object_mut) {
        error.remove("code");
    }
    case
}

/// The clusters a case needs, in the compact form.
fn clusters_of(case: &Case) -> Value {
    match case.op.as_str() {
        "schedule" => case.input["clusters"].clone(),
        "override" => json!([case.input["cluster"]]),
        _ => json!([]),
    }
}

/// Can a user bring this case about?
fn supported(case: &Case) -> bool {
    let input = &case.input;
    match case.op.as_str() {
        "schedule" => {
            let spec = &input["spec"];
            let known = [
                "placement",
                "replicaRequirements",
                "replicas",
                "resource",
                "clusters",
                "rescheduleTriggeredAt",
            ];
            // What another scheduler wrote on the binding before.
            let former = ["lastScheduledTime", "schedulerObservingAffinityName"];
            let status = input["status"].as_object().into_iter().flatten();
            // A Deployment always says what a replica needs.
            let is_whole = spec["resource"]["kind"] != "Deployment"
                || spec["replicas"].as_i64().unwrap_or(0) > 0
                || spec["replicaRequirements"].is_object();
            let only_known = spec
                .as_object()
                .is_some_and(|spec| spec.keys().all(|key| known.contains(&key.as_str())));
            let plain = |value: &Value| value.as_object().is_none_or(Map::is_empty);
            let required = &spec["replicaRequirements"];
            let requests_only = required
                .as_object()
                .is_none_or(|r| r.keys().all(|key| key == "resourceRequest"));
            only_known
                && requests_only
                && is_whole
                && status.into_iter().all(|(key, _)| former.contains(&key.as_str()))
                && plain(&input["featureGates"])
                && input["emptyWorkloadPropagation"] != true
                && input["otherBindings"].is_null()
                && items(&input["clusters"]).all(can_join)
        }
        "override" => {
            let object = &input["object"];
            plural(object).is_some() && object["metadata"]["namespace"].is_string()
        }
        "validate" => {
            let kinds = [
                "PropagationPolicy",
                "ClusterPropagationPolicy",
                "OverridePolicy",
                "ClusterOverridePolicy",
            ];
            let switches = [&input["featureGates"], &input["flags"], &input["existing"]];
            kinds.contains(&text(&input["kind"]))
                && input["operation"] == "CREATE"
                && switches.iter().all(|s| s.is_null())
                && !is_filled_in(input)
        }
        _ => false,
    }
}

/// Is what the case wants refused filled in before anybody judges it? Then nobody can bring it about through the API.
fn is_filled_in(input: &Value) -> bool {
    let existing = Existing(&Value::Null);
    let request = Request {
        kind: text(&input["kind"]),
        operation: Operation::Create,
        namespace: text(&input["namespace"]),
        old: None,
        switches: Switches::default(),
        stored: &existing,
        now: 0,
    };
    let holds = |object: &Value| policy::validate(&request, object).is_ok();
    let mut filled = input["object"].clone();
    policy::mutate(&request, &mut filled, &mut || "made-by-the-test".to_owned());
    !holds(&input["object"]) && holds(&filled)
}

/// A cluster that a token and a report can bring about.
fn can_join(cluster: &Value) -> bool {
    let known = [
        "name", "labels", "provider", "region", "zones", "taints", "summary", "apis", "models",
    ];
    cluster
        .as_object()
        .is_some_and(|map| map.keys().all(|key| known.contains(&key.as_str())))
        && cluster["summary"].is_object()
        && items(&cluster["apis"]).next().is_some()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Path of a kind's objects, below group and version.
fn plural(object: &Value) -> Option<(&'static str, &'static str)> {
    Some(match (text(&object["apiVersion"]), text(&object["kind"])) {
        ("v1", "ConfigMap") => ("/api/v1", "configmaps"),
        ("v1", "Pod") => ("/api/v1", "pods"),
        ("apps/v1", "Deployment") => ("/apis/apps/v1", "deployments"),
        ("apps/v1", "StatefulSet") => ("/apis/apps/v1", "statefulsets"),
        ("apps/v1", "ReplicaSet") => ("/apis/apps/v1", "replicasets"),
        ("apps/v1", "DaemonSet") => ("/apis/apps/v1", "daemonsets"),
        ("batch/v1", "Job") => ("/apis/batch/v1", "jobs"),
        _ => return None,
    })
}

const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1";

/// What a cluster of a case reports.
fn capacity(cluster: &Value) -> Capacity {
    let amounts = |value: &Value| -> BTreeMap<String, String> {
        let entries = value.as_object().into_iter().flatten();
        entries
            .map(|(name, amount)| {
                (
                    name.clone(),
                    amount.as_str().map_or_else(|| amount.to_string(), str::to_owned),
                )
            })
            .collect()
    };
    let number = |value: &Value| u32::try_from(value.as_u64().unwrap_or(0)).unwrap_or(u32::MAX);
    let summary = &cluster["summary"];
    let apis = match cluster["apis"].as_array() {
        Some(apis) => apis.clone(),
        // Cases of overrides do not say: then it serves what they use.
        None => vec![
            json!({"groupVersion": "v1", "kinds": ["ConfigMap", "Pod", "Namespace"]}),
            json!({"groupVersion": "apps/v1", "kinds": ["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"]}),
            json!({"groupVersion": "batch/v1", "kinds": ["Job"]}),
        ],
    };
    Capacity {
        kubernetes_version: "v1.36.0".to_owned(),
        nodes_total: 1,
        nodes_ready: 1,
        allocatable: amounts(&summary["allocatable"]),
        allocated: amounts(&summary["allocated"]),
        allocating: amounts(&summary["allocating"]),
        models: items(&summary["modelCounts"])
            .map(|count| ModelCount {
                grade: number(&count["grade"]),
                count: number(&count["count"]),
            })
            .collect(),
        apis: apis
            .iter()
            .map(|group| ApiEnablement {
                group_version: text(&group["groupVersion"]).to_owned(),
                resources: items(&group["kinds"])
                    .map(|kind| (text(kind).to_owned(), format!("{}s", text(kind).to_lowercase())))
                    .collect(),
            })
            .collect(),
    }
}

/// What the operator writes on a Cluster that no token carries.
fn operators_part(cluster: &Value) -> Value {
    let grade = |grade: &Value| {
        let range =
            |range: &Value| json!({"name": range["resource"], "min": range["min"], "max": range["max"]});
        json!({"grade": grade["grade"], "ranges": items(&grade["ranges"]).map(range).collect::<Vec<_>>()})
    };
    let mut spec = json!({});
    if items(&cluster["taints"]).next().is_some() {
        spec["taints"] = cluster["taints"].clone();
    }
    if items(&cluster["models"]).next().is_some() {
        spec["resourceModels"] = items(&cluster["models"]).map(grade).collect();
    }
    json!({"spec": spec})
}

impl Place {
    async fn start(folder: &Path, clusters: &Value) -> Result<Self> {
        let hub = Hub::start(folder)?;
        let api = hub.client().await?;
        let address = hub.address()?;
        let mut joining = Vec::new();
        for cluster in items(clusters) {
            let line = api.token_for(cluster, &address).await?;
            joining.push((line.parse().context(line)?, capacity(cluster)));
        }
        let count = joining.len();
        let agents = Clusters::start(joining);
        let path = "/apis/cluster.karmada.io/v1alpha1/clusters";
        let began = Instant::now();
        loop {
            let list = api.get(path).await?;
            let known = |cluster: &&Value| cluster["status"]["apiEnablements"].is_array();
            if items(&list["items"]).filter(known).count() == count {
                break;
            }
            if began.elapsed() > REPORTED {
                bail!("the clusters did not report: {:?}", agents.progress().look()?);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for cluster in items(clusters) {
            let part = operators_part(cluster);
            if part["spec"].as_object().is_some_and(|spec| !spec.is_empty()) {
                api.merge(&format!("{path}/{}", text(&cluster["name"])), &part)
                    .await?;
            }
        }
        Ok(Self {
            api,
            used: 0,
            _clusters: agents,
            _hub: hub,
        })
    }

    /// `None`: not supported.
    async fn answer(&mut self, case: &Case) -> Result<Option<Answer>> {
        if !supported(case) {
            return Ok(None);
        }
        match case.op.as_str() {
            "schedule" => self.schedule(case).await,
            "override" => self.overridden(case).await,
            _ => self.validate(case).await,
        }
    }

    async fn namespace(&mut self) -> Result<String> {
        self.used += 1;
        let name = format!("case-{}", self.used);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api.post("/api/v1/namespaces", &namespace).await?;
        Ok(name)
    }

    async fn overridden(&mut self, case: &Case) -> Result<Option<Answer>> {
        let input = &case.input;
        let namespace = self.namespace().await?;
        let here = |value: &Value| -> Result<Value> {
            let of = text(&input["object"]["metadata"]["namespace"]);
            Ok(serde_json::from_str(
                &value
                    .to_string()
                    .replace(&format!("\"{of}\""), &format!("\"{namespace}\"")),
            )?)
        };
        let object = here(&input["object"])?;
        let (root, plural) = plural(&object).context("a kind that is not applied here")?;
        let mut cluster_wide = Vec::new();
        for (list, path, kind) in [
            (
                &input["clusterOverridePolicies"],
                format!("{POLICIES}/clusteroverridepolicies"),
                "ClusterOverridePolicy",
            ),
            (
                &input["overridePolicies"],
                format!("{POLICIES}/namespaces/{namespace}/overridepolicies"),
                "OverridePolicy",
            ),
        ] {
            for policy in items(list) {
                let mut policy = here(policy)?;
                policy["apiVersion"] = json!("policy.karmada.io/v1alpha1");
                policy["kind"] = json!(kind);
                if self.api.try_post(&path, &policy).await?.is_err() {
                    self.take_back(&cluster_wide).await?;
                    return Ok(None);
                }
                if kind == "ClusterOverridePolicy" {
                    cluster_wide.push(format!("{path}/{}", text(&policy["metadata"]["name"])));
                }
            }
        }
        let name = text(&object["metadata"]["name"]);
        let policy = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "case", "namespace": namespace},
            "spec": {"placement": {}, "resourceSelectors": [
                {"apiVersion": object["apiVersion"], "kind": object["kind"], "name": name}]},
        });
        self.api
            .post(
                &format!("{POLICIES}/namespaces/{namespace}/propagationpolicies"),
                &policy,
            )
            .await?;
        let path = format!("{root}/namespaces/{namespace}/{plural}");
        let answer = match self.api.try_post(&path, &object).await? {
            Err(_) => None,
            Ok(_) => {
                self.scheduled(&namespace).await?;
                Some(self.work(case, &namespace).await?)
            }
        };
        self.take_back(&cluster_wide).await?;
        Ok(answer)
    }

    async fn take_back(&self, paths: &[String]) -> Result<()> {
        for path in paths {
            self.api.delete(path).await?;
        }
        Ok(())
    }

    /// What the Work view of the cluster shows, or why it shows nothing.
    async fn work(&self, case: &Case, namespace: &str) -> Result<Answer> {
        let cluster = text(&case.input["cluster"]["name"]);
        let object = &case.input["object"];
        let path = format!("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{cluster}/works");
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let rendering =
            format!("/apis/fleet.pinnace.dev/v1alpha1/renderings/{kind}/{namespace}/{name}/{cluster}");
        let began = Instant::now();
        loop {
            let list = self.api.get(&path).await?;
            let manifests =
                items(&list["items"]).flat_map(|work| items(&work["spec"]["workload"]["manifests"]));
            let mut mine = manifests.filter(|manifest| {
                manifest["kind"] == kind
                    && manifest["metadata"]["namespace"].as_str().unwrap_or(namespace) == namespace
                    && kind != "Namespace"
            });
            if let Some(manifest) = mine.next() {
                let shown = as_written(manifest, namespace, text(&object["metadata"]["namespace"]))?;
                // Which policies were applied is not part of a Work.
                let mut result = case.expect.clone();
                result["object"] = shown;
                return Ok(Answer::Result(result));
            }
            let rendered = self.api.get(&rendering).await?;
            if rendered["wanted"].is_null() && rendered["problem"].is_string() {
                return Ok(Answer::error());
            }
            if began.elapsed() > PLANNED {
                bail!("no work and no reason: {rendered}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn validate(&mut self, case: &Case) -> Result<Option<Answer>> {
        let input = &case.input;
        let plural = match text(&input["kind"]) {
            "PropagationPolicy" => "propagationpolicies",
            "ClusterPropagationPolicy" => "clusterpropagationpolicies",
            "OverridePolicy" => "overridepolicies",
            _ => "clusteroverridepolicies",
        };
        let namespace = text(&input["object"]["metadata"]["namespace"]);
        let path = if plural.starts_with("cluster") {
            format!("{POLICIES}/{plural}?dryRun=All")
        } else {
            // The namespace is made once, whatever it is called.
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            drop(self.api.try_post("/api/v1/namespaces", &object).await?);
            format!("{POLICIES}/namespaces/{namespace}/{plural}?dryRun=All")
        };
        let (allowed, fields) = match self.api.try_post(&path, &input["object"]).await? {
            Ok(_) => (true, Vec::new()),
            Err(refused) => (false, refused.fields),
        };
        let expected = &case.expect;
        let mut wanted: Vec<&str> = items(&expected["errors"])
            .map(|error| text(&error["field"]))
            .collect();
        let mut found: Vec<&str> = fields.iter().map(String::as_str).collect();
        for list in [&mut wanted, &mut found] {
            list.sort_unstable();
            list.dedup();
        }
        let same = expected["allowed"] == allowed && wanted == found;
        Ok(Some(Answer::Result(if same {
            case.expect.clone()
        } else {
            json!({"allowed": allowed, "fields": found})
        })))
    }
}

/// A manifest of a Work without what belongs to the work, with the namespace as the case writes it.
fn as_written(manifest: &Value, namespace: &str, written: &str) -> Result<Value> {
    let mut object: Value = serde_json::from_str(
        &manifest
            .to_string()
            .replace(&format!("\"{namespace}\""), &format!("\"{written}\"")),
    )?;
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return Ok(object);
    };
    for field in ["labels", "annotations"] {
        let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) else {
            continue;
        };
        map.retain(|key, _| !key.contains("karmada.io/") && !key.contains("pinnace.dev/"));
        if map.is_empty() {
            metadata.remove(field);
        }
    }
    Ok(object)
}
