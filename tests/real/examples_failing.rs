//! `failover-application.yaml`: a member that is silent, one that flaps, and the last copy.
//!
//! The file's 120 s are shortened to [`TOLERATED_S`] here; that the number of the file is meant as it stands is checked over
//! simulated time beside the code (`plan::tests::failing`).

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{BINDING, PROPAGATION, Stage, condition, example, shares};

/// Seconds of silence that are tolerated here.
const TOLERATED_S: i64 = 8;

pub(super) async fn all(stage: &Stage) -> Result<()> {
    moved_and_removed(stage).await.context("Graciously")?;
    kept_and_decided(stage).await.context("Never")?;
    at_once(stage).await.context("Immediately")?;
    the_last_copy(stage).await.context("the last copy")
}

async fn begin(stage: &Stage, mode: &str) -> Result<()> {
    stage.clear().await?;
    let text = String::from_utf8(example("failover-application.yaml")?)?;
    ensure!(text.contains("tolerationSeconds: 120"), "{text}");
    let mut text = text
        .replace(
            "tolerationSeconds: 120",
            &format!("tolerationSeconds: {TOLERATED_S}"),
        )
        .replace("purgeMode: Graciously", &format!("purgeMode: {mode}"));
    if mode != "Graciously" {
        text = text.replace("    gracePeriodSeconds: 60\n", "");
    }
    stage.api.create_yaml(PROPAGATION, text.into_bytes()).await?;
    stage
        .api
        .create_yaml(super::DEPLOYMENTS, example("web.yaml")?)
        .await?;
    stage.placed("the primary group", &[("us-prod", 3)]).await?;
    stage.run(&[("us-prod", 3), ("cn-prod", 0)]).await
}

/// Looks at the binding for some time: it must stay where it is.
async fn stays(stage: &Stage, cluster: &str, span: Duration) -> Result<Value> {
    let end = tokio::time::Instant::now() + span;
    loop {
        let binding = stage.api.get(BINDING).await?;
        ensure!(
            shares(&binding) == [(cluster.to_owned(), 3)],
            "it moved: {}",
            binding["spec"]
        );
        if tokio::time::Instant::now() > end {
            return Ok(binding);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn moved_and_removed(stage: &Stage) -> Result<()> {
    begin(stage, "Graciously").await?;
    // A flap of half the time does nothing.
    stage.site("us-prod")?.cut()?;
    stays(
        stage,
        "us-prod",
        Duration::from_secs(TOLERATED_S.unsigned_abs() / 2),
    )
    .await?;
    stage.site("us-prod")?.heal()?;
    let ready = |cluster: &Value| super::is_true(cluster, "Ready");
    stage
        .until(
            "/apis/cluster.karmada.io/v1alpha1/clusters/us-prod",
            "Ready",
            ready,
        )
        .await?;
    stays(stage, "us-prod", Duration::from_secs(TOLERATED_S.unsigned_abs())).await?;
    // Silence beyond it moves the Deployment; what runs in the silent member runs on.
    stage.site("us-prod")?.cut()?;
    stays(
        stage,
        "us-prod",
        Duration::from_secs(TOLERATED_S.unsigned_abs() / 2),
    )
    .await?;
    let binding = stage.placed("the backup group", &[("cn-prod", 3)]).await?;
    ensure!(
        binding["status"]["schedulerObservingAffinityName"] == "backup",
        "{binding}"
    );
    stage.run(&[("us-prod", 3), ("cn-prod", 3)]).await?;
    // It is back: the old copy is removed, and nothing moves again.
    stage.site("us-prod")?.heal()?;
    stage.run(&[("us-prod", 0), ("cn-prod", 3)]).await?;
    stays(stage, "cn-prod", Duration::from_secs(2)).await?;
    Ok(())
}

async fn kept_and_decided(stage: &Stage) -> Result<()> {
    begin(stage, "Never").await?;
    stage.site("us-prod")?.cut()?;
    let binding = stage.placed("the backup group", &[("cn-prod", 3)]).await?;
    let task = &binding["spec"]["gracefulEvictionTasks"][0];
    ensure!(
        task["suppressDeletion"] == true && task["fromCluster"] == "us-prod",
        "{binding}"
    );
    stage.run(&[("cn-prod", 3)]).await?;
    stage.site("us-prod")?.heal()?;
    let ready = |cluster: &Value| super::is_true(cluster, "Ready");
    stage
        .until(
            "/apis/cluster.karmada.io/v1alpha1/clusters/us-prod",
            "Ready",
            ready,
        )
        .await?;
    stays(stage, "cn-prod", Duration::from_secs(3)).await?;
    stage.run(&[("us-prod", 3), ("cn-prod", 3)]).await?;
    // A person decides.
    let mut tasks = binding["spec"]["gracefulEvictionTasks"].clone();
    tasks[0]["suppressDeletion"] = json!(false);
    stage
        .api
        .merge(BINDING, &json!({"spec": {"gracefulEvictionTasks": tasks}}))
        .await?;
    stage.run(&[("us-prod", 0), ("cn-prod", 3)]).await
}

async fn at_once(stage: &Stage) -> Result<()> {
    begin(stage, "Immediately").await?;
    stage.site("us-prod")?.cut()?;
    stage.placed("the backup group", &[("cn-prod", 3)]).await?;
    stage.run(&[("cn-prod", 3)]).await?;
    stage.site("us-prod")?.heal()?;
    stage.run(&[("us-prod", 0), ("cn-prod", 3)]).await
}

/// From where the former scenario left it: in cn-prod, whose place nobody can take.
async fn the_last_copy(stage: &Stage) -> Result<()> {
    for cluster in ["us-prod", "cn-prod"] {
        stage.site(cluster)?.cut()?;
    }
    let held =
        |binding: &Value| condition(binding, "Moved").is_some_and(|moved| moved["reason"] == "NoReplacement");
    stage
        .until(BINDING, "a condition that nothing replaces it", held)
        .await?;
    stays(stage, "cn-prod", Duration::from_secs(2)).await?;
    for cluster in ["us-prod", "cn-prod"] {
        stage.site(cluster)?.heal()?;
    }
    let mended = |binding: &Value| condition(binding, "Moved").is_some_and(|moved| moved["status"] == "True");
    stage
        .until(BINDING, "that nothing waits any more", mended)
        .await?;
    stage.run(&[("cn-prod", 3)]).await?;
    let web = stage.api.get(&format!("{}/nginx", super::DEPLOYMENTS)).await?;
    ensure!(web["status"]["readyReplicas"] == 3, "{web}");
    Ok(())
}
