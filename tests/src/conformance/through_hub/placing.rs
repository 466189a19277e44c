//! Cases of scheduling through a hub: a template and a policy, and the binding that comes of them.
//!
//! A former result is brought about as it comes about in life: another scheduler (`schedulerName`) placed the object and
//! wrote that on the binding; then a policy of the hub's own scheduler takes over.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hub_core::divide::TieRule;
use serde_json::{Map, Value, json};

use super::{Answer, Case, PLANNED, POLICIES, Place, compare, items, plural, text, visible};

/// Tries for a uid by which ties fall as in the case.
const UID_TRIES: usize = 24;
/// How long the planner may take to know what clusters reported and what an operator wrote on them.
const KNOWN: Duration = Duration::from_secs(10);
/// The scheduler that leaves a former result behind.
const OTHER_SCHEDULER: &str = "by-hand";

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces";

impl Place {
    /// Places the case's object, and again while the planner may not know everything of the clusters yet.
    pub(super) async fn schedule(&mut self, case: &Case) -> Result<Option<Answer>> {
        let wanted = visible(case);
        let began = Instant::now();
        loop {
            let answer = self.attempt(case).await?;
            let holds = |answer: &Answer| compare::check(&wanted, answer).is_ok();
            if answer.as_ref().is_none_or(holds) || began.elapsed() > KNOWN {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn attempt(&mut self, case: &Case) -> Result<Option<Answer>> {
        let spec = &case.input["spec"];
        let former = Former::of(case);
        let namespace = self.namespace().await?;
        let template = self.template(&namespace, spec).await?;
        let scheduler = if former.is_some() { OTHER_SCHEDULER } else { "" };
        let mut policy = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "case", "namespace": namespace},
            "spec": {"placement": spec["placement"], "schedulerName": scheduler, "resourceSelectors": [
                {"apiVersion": template["apiVersion"], "kind": template["kind"], "name": template["metadata"]["name"]}]},
        });
        let policies = format!("{POLICIES}/namespaces/{namespace}/propagationpolicies");
        if self.api.try_post(&policies, &policy).await?.is_err() {
            // The reference's scheduler takes what its own admission would refuse.
            return Ok(None);
        }
        if let Some(former) = former {
            let binding = self.binding(&namespace, |_| true).await?;
            let path = format!(
                "{BINDINGS}/{namespace}/resourcebindings/{}",
                text(&binding["metadata"]["name"])
            );
            self.api
                .merge(&path, &json!({"spec": former.spec}))
                .await
                .context("the former result")?;
            if !former.status.is_empty() {
                self.api
                    .merge(&format!("{path}/status"), &json!({"status": former.status}))
                    .await
                    .context("the former status")?;
            }
            // The scheduler of a policy cannot change: another policy takes over.
            self.api.delete(&format!("{policies}/case")).await?;
            policy["metadata"]["name"] = json!("own");
            policy["spec"]["schedulerName"] = json!("default-scheduler");
            self.api.post(&policies, &policy).await?;
        }
        let binding = self.scheduled(&namespace).await?;
        let condition = items(&binding["status"]["conditions"]).find(|c| c["type"] == "Scheduled");
        let condition = condition.cloned().unwrap_or_default();
        if condition["status"] == "True" {
            let row = |target: &Value| {
                let mut row = target.clone();
                // Zero is left out on the binding.
                if row["replicas"].is_null() {
                    row["replicas"] = json!(0);
                }
                row
            };
            let rows: Vec<Value> = items(&binding["spec"]["clusters"]).map(row).collect();
            return Ok(Some(Answer::Result(json!({"targets": rows}))));
        }
        let kind = match text(&condition["reason"]) {
            "NoClusterFit" => "NoFit",
            "Unschedulable" => "Unschedulable",
            _ => "Other",
        };
        Ok(Some(Answer::Error { kind, code: "" }))
    }

    /// A template of the case's resource; again until ties fall by its uid as by the case's.
    async fn template(&self, namespace: &str, spec: &Value) -> Result<Value> {
        let resource = &spec["resource"];
        let mut object = json!({
            "apiVersion": resource["apiVersion"], "kind": resource["kind"],
            "metadata": {"name": resource["name"], "namespace": namespace},
        });
        if resource["kind"] == "Deployment" {
            let labels = json!({"app": resource["name"]});
            let mut container = json!({"name": "main", "image": "example.com/main:1"});
            let requests = &spec["replicaRequirements"]["resourceRequest"];
            if requests.is_object() {
                container["resources"] = json!({"requests": requests});
            }
            object["spec"] = json!({
                "replicas": spec["replicas"].as_i64().unwrap_or(0), "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            });
        }
        let (root, plural) = plural(&object).context("a kind that is not applied here")?;
        let path = format!("{root}/namespaces/{namespace}/{plural}");
        let wanted = TieRule::for_uid(text(&resource["uid"]));
        for _ in 0..UID_TRIES {
            let made = self.api.post(&path, &object).await?;
            if TieRule::for_uid(text(&made["metadata"]["uid"])) == wanted {
                return Ok(made);
            }
            self.api
                .delete(&format!("{path}/{}", text(&resource["name"])))
                .await?;
        }
        bail!("no uid by which ties fall as in the case")
    }

    /// The only binding of a namespace, once the hub scheduled it.
    pub(super) async fn scheduled(&self, namespace: &str) -> Result<Value> {
        self.binding(namespace, |binding| {
            binding["spec"]["schedulerName"] != OTHER_SCHEDULER
                && items(&binding["status"]["conditions"]).any(|condition| condition["type"] == "Scheduled")
        })
        .await
    }

    async fn binding(&self, namespace: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let path = format!("{BINDINGS}/{namespace}/resourcebindings");
        let began = Instant::now();
        loop {
            let list = self.api.get(&path).await?;
            if let Some(binding) = items(&list["items"]).find(|binding| wanted(binding)) {
                return Ok(binding.clone());
            }
            if began.elapsed() > PLANNED {
                bail!("no such binding: {list}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What another scheduler left on a binding.
struct Former {
    spec: Map<String, Value>,
    status: Map<String, Value>,
}

impl Former {
    fn of(case: &Case) -> Option<Self> {
        let spec = ["clusters", "rescheduleTriggeredAt"]
            .into_iter()
            .filter_map(|key| {
                let value = &case.input["spec"][key];
                (!value.is_null()).then(|| (key.to_owned(), value.clone()))
            });
        let former = Self {
            spec: spec.collect(),
            status: case.input["status"].as_object().cloned().unwrap_or_default(),
        };
        (!former.spec.is_empty() || !former.status.is_empty()).then_some(former)
    }
}
