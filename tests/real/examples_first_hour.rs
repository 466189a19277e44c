//! More that people ask for in their first hour.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{CLUSTERS, DEPLOYMENTS, OVERRIDES, PROPAGATION, Stage, example, items, name};

pub(super) async fn all(stage: &Stage) -> Result<()> {
    six_replicas(stage).await.context("6 replicas over 3 clusters")?;
    beside_a_daemon_set(stage).await.context("beside a DaemonSet")?;
    other_limits(stage).await.context("2 and 5 with other limits")?;
    by_region_and_provider(stage)
        .await
        .context("by region and provider")?;
    namespaces(stage).await.context("namespaces")?;
    a_hand_edit(stage).await.context("a hand edit in a member")
}

fn policy(scheduling: &Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "hour", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
            "placement": {"replicaScheduling": scheduling},
        },
    })
}

fn weights(of: &[(&str, i64)]) -> Value {
    let rule = |(cluster, weight): &(&str, i64)| json!({"targetCluster": {"clusterNames": [cluster]}, "weight": weight});
    json!({
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": of.iter().map(rule).collect::<Vec<_>>()},
    })
}

async fn begin(stage: &Stage, scheduling: &Value, replicas: i64) -> Result<()> {
    stage.clear().await?;
    stage.api.post(PROPAGATION, &policy(scheduling)).await?;
    stage.api.create_yaml(DEPLOYMENTS, example("web.yaml")?).await?;
    stage
        .api
        .merge(
            &format!("{DEPLOYMENTS}/nginx"),
            &json!({"spec": {"replicas": replicas}}),
        )
        .await?;
    Ok(())
}

async fn six_replicas(stage: &Stage) -> Result<()> {
    let equal = weights(&[("us-prod", 1), ("cn-prod", 1), ("eu-prod", 1)]);
    let uneven = weights(&[("us-prod", 4), ("cn-prod", 1), ("eu-prod", 1)]);
    for (scheduling, us, cn, eu) in [
        (json!({"replicaSchedulingType": "Duplicated"}), 6, 6, 6),
        (equal, 2, 2, 2),
        (uneven, 4, 1, 1),
    ] {
        begin(stage, &scheduling, 6).await?;
        let wanted = [("cn-prod", cn), ("eu-prod", eu), ("us-prod", us)];
        stage.placed("as asked", &wanted).await?;
        stage.run(&wanted).await?;
    }
    let aggregated = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    begin(stage, &aggregated, 6).await?;
    let in_one = |binding: &Value| super::shares(binding).iter().map(|(_, count)| *count).eq([6]);
    stage.until(super::BINDING, "all in one", in_one).await?;
    Ok(())
}

async fn beside_a_daemon_set(stage: &Stage) -> Result<()> {
    begin(stage, &weights(&[("us-prod", 1), ("cn-prod", 1)]), 4).await?;
    let daemon_sets = "/apis/apps/v1/namespaces/default/daemonsets";
    let labels = json!({"app": "logs"});
    stage
        .api
        .post(
            PROPAGATION,
            &json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
                "metadata": {"name": "logs", "namespace": "default"},
                "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs"}],
                         "placement": {}},
            }),
        )
        .await?;
    stage
        .api
        .post(
            daemon_sets,
            &json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "logs", "namespace": "default"},
                "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "logs", "image": "logs:1"}]}}},
            }),
        )
        .await?;
    stage
        .run(&[("us-prod", 2), ("cn-prod", 2), ("eu-prod", 0)])
        .await?;
    for cluster in ["us-prod", "cn-prod", "eu-prod"] {
        stage
            .in_member(
                cluster,
                ("daemonset", "default", "logs"),
                "the DaemonSet",
                |found| found.is_some(),
            )
            .await?;
    }
    stage.api.delete(&format!("{daemon_sets}/logs")).await?;
    Ok(())
}

async fn other_limits(stage: &Stage) -> Result<()> {
    begin(stage, &weights(&[("us-prod", 2), ("cn-prod", 5)]), 7).await?;
    let limits = json!({"limits": {"cpu": "250m"}});
    stage
        .api
        .post(
            OVERRIDES,
            &json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
                "metadata": {"name": "limits", "namespace": "default"},
                "spec": {
                    "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
                    "overrideRules": [{"targetCluster": {"clusterNames": ["cn-prod"]}, "overriders": {"plaintext": [
                        {"path": "/spec/template/spec/containers/0/resources", "operator": "add", "value": limits}]}}],
                },
            }),
        )
        .await?;
    for (cluster, replicas, limit) in [("us-prod", 2, None), ("cn-prod", 5, Some("250m"))] {
        let as_asked = |web: Option<&Value>| {
            web.is_some_and(|web| {
                let container = &web["spec"]["template"]["spec"]["containers"][0];
                web["spec"]["replicas"] == replicas
                    && container["resources"]["limits"]["cpu"].as_str() == limit
            })
        };
        stage
            .in_member(
                cluster,
                ("deployment", "default", "nginx"),
                "its share and limit",
                as_asked,
            )
            .await?;
    }
    Ok(())
}

async fn by_region_and_provider(stage: &Stage) -> Result<()> {
    begin(stage, &json!({"replicaSchedulingType": "Duplicated"}), 1).await?;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    stage
        .api
        .post(
            PROPAGATION,
            &json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
                "metadata": {"name": "data", "namespace": "default"},
                "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data"}],
                         "placement": {}},
            }),
        )
        .await?;
    let field = |key: &str, value: &str| json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}});
    let class = |provider: &str, class: &str| {
        json!({"targetCluster": field("provider", provider), "overriders": {"plaintext": [
            {"path": "/spec/storageClassName", "operator": "replace", "value": class}]}})
    };
    for overriding in [
        json!({
            "metadata": {"name": "registry", "namespace": "default"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
                "overrideRules": [{"targetCluster": field("region", "cn-hangzhou"), "overriders": {"imageOverrider": [
                    {"component": "Registry", "operator": "add", "value": "registry.cn.example.com"}]}}],
            },
        }),
        json!({
            "metadata": {"name": "classes", "namespace": "default"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data"}],
                "overrideRules": [class("aws", "gp3"), class("alibaba", "alicloud-disk")],
            },
        }),
    ] {
        let mut overriding = overriding;
        overriding["apiVersion"] = json!("policy.karmada.io/v1alpha1");
        overriding["kind"] = json!("OverridePolicy");
        stage.api.post(OVERRIDES, &overriding).await?;
    }
    stage
        .api
        .post(
            claims,
            &json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
                         "resources": {"requests": {"storage": "1Gi"}}},
            }),
        )
        .await?;
    for (cluster, image, class) in [
        ("us-prod", "nginx:1.27", "gp3"),
        ("cn-prod", "registry.cn.example.com/nginx:1.27", "alicloud-disk"),
        ("eu-prod", "nginx:1.27", "standard"),
    ] {
        stage
            .in_member(cluster, ("deployment", "default", "nginx"), image, |web| {
                web.is_some_and(|web| web["spec"]["template"]["spec"]["containers"][0]["image"] == image)
            })
            .await?;
        stage
            .in_member(
                cluster,
                ("persistentvolumeclaim", "default", "data"),
                class,
                |claim| claim.is_some_and(|claim| claim["spec"]["storageClassName"] == class),
            )
            .await?;
    }
    stage.api.delete(&format!("{claims}/data")).await?;
    Ok(())
}

async fn namespaces(stage: &Stage) -> Result<()> {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    stage.api.post("/api/v1/namespaces", &namespace("app")).await?;
    let output = stage
        .hub
        .kubectl()
        .command()
        .args(["create", "namespace", "kube-app-prod"])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success() && said.contains("Warning"),
        "no warning: {said}"
    );
    let clusters = stage.api.get(CLUSTERS).await?;
    for cluster in items(&clusters).map(name) {
        stage
            .in_member(cluster, ("namespace", "", "app"), "the namespace", |found| {
                found.is_some()
            })
            .await?;
        let other = stage
            .site(cluster)?
            .kubectl()
            .get("namespace", "", "kube-app-prod")?;
        ensure!(other.is_none(), "{cluster} has a namespace that stays on the hub");
    }
    Ok(())
}

async fn a_hand_edit(stage: &Stage) -> Result<()> {
    begin(stage, &weights(&[("us-prod", 1)]), 2).await?;
    stage.run(&[("us-prod", 2)]).await?;
    let member = stage.site("us-prod")?.kubectl();
    member.run(&["scale", "deployment/nginx", "--replicas=5"])?;
    member.run(&["annotate", "deployment/nginx", "site.example.com/owner=shop"])?;
    let mended = |web: Option<&Value>| {
        web.is_some_and(|web| {
            web["spec"]["replicas"] == 2
                && web["status"]["readyReplicas"] == 2
                && web["metadata"]["annotations"]["site.example.com/owner"] == "shop"
        })
    };
    stage
        .in_member(
            "us-prod",
            ("deployment", "default", "nginx"),
            "our field mended, others kept",
            mended,
        )
        .await?;
    Ok(())
}
