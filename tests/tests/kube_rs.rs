//! The Rust client (kube) against a running hub: typed and dynamic calls, server-side apply, pages, watch, errors,
//! discovery, as a controller of its users makes them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt as _;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, Discovery, discovery};
use serde_json::json;
use tests::real::hub::Hub;
use xtask::member::Binary;

/// An object of the kind `kind` of the core group.
fn core(client: &Client, kind: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("", "v1", kind);
    Api::namespaced_with(client.clone(), "default", &kube::api::ApiResource::from_gvk(&gvk))
}

fn object(body: serde_json::Value) -> Result<DynamicObject> {
    serde_json::from_value(body).context("the object does not read")
}

#[tokio::test]
async fn the_rust_client_finds_what_it_expects() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut hub = Hub::start_new(folder.path(), &Binary::get()?.kubectl())?;
    let result = drive(hub.kubectl().kubeconfig()).await;
    hub.stop()?;
    result
}

async fn drive(kubeconfig: &std::path::Path) -> Result<()> {
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default())
            .await?;
    let client = Client::try_from(config)?;

    let version = client.apiserver_version().await?;
    ensure!(version.major == "1", "the version is {version:?}");
    let all = Discovery::new(client.clone()).run_aggregated().await?;
    let apps = all.get("apps").context("no group apps")?;
    ensure!(
        apps.recommended_kind("Deployment").is_some(),
        "no Deployment in apps"
    );
    let policy = GroupVersionKind::gvk("policy.karmada.io", "v1alpha1", "PropagationPolicy");
    let (resource, capabilities) = discovery::pinned_kind(&client, &policy).await?;
    ensure!(
        resource.plural == "propagationpolicies" && capabilities.supports_operation("watch"),
        "{resource:?}"
    );

    let maps = core(&client, "ConfigMap");
    for index in 0..5 {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("map-{index}"), "labels": {"even": (index % 2 == 0).to_string()}},
            "data": {"index": index.to_string()}});
        maps.create(&PostParams::default(), &object(body)?).await?;
    }
    let even = maps.list(&ListParams::default().labels("even=true")).await?;
    ensure!(even.items.len() == 3, "{} even maps", even.items.len());
    let first = maps.list(&ListParams::default().labels("even").limit(2)).await?;
    let more = first
        .metadata
        .continue_
        .clone()
        .filter(|token| !token.is_empty())
        .context("no next page")?;
    let rest = maps
        .list(&ListParams::default().labels("even").continue_token(&more))
        .await?;
    ensure!(first.items.len() + rest.items.len() == 5, "pages lose objects");

    let since = maps
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .context("no version")?;
    let apply = PatchParams::apply("mine");
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map-0"}, "data": {"index": "7"}});
    match maps.patch("map-0", &apply, &Patch::Apply(&wanted)).await {
        Err(kube::Error::Api(status)) if status.is_conflict() => {}
        other => bail!("an apply over another's field gave {other:?}"),
    }
    let forced = maps
        .patch("map-0", &apply.clone().force(), &Patch::Apply(&wanted))
        .await?;
    ensure!(forced.data["data"]["index"] == "7", "{forced:?}");
    let merge = json!({"metadata": {"annotations": {"note": "kept"}}});
    maps.patch_metadata("map-0", &PatchParams::default(), &Patch::Merge(&merge))
        .await?;
    maps.delete("map-1", &DeleteParams::default()).await?;

    let mut seen = Vec::new();
    let params = WatchParams::default().timeout(60);
    let mut events = std::pin::pin!(maps.watch(&params, &since).await?);
    while seen.len() < 3 {
        let event = tokio::time::timeout(Duration::from_secs(60), events.try_next()).await??;
        seen.push(match event.context("the watch ended")? {
            WatchEvent::Modified(object) => format!("modified {}", object.metadata.name.unwrap_or_default()),
            WatchEvent::Deleted(object) => format!("deleted {}", object.metadata.name.unwrap_or_default()),
            WatchEvent::Bookmark(_) => continue,
            other => bail!("the watch saw {other:?}"),
        });
    }
    ensure!(
        seen == ["modified map-0", "modified map-0", "deleted map-1"],
        "the watch saw {seen:?}"
    );

    ensure!(
        maps.get_opt("map-1").await?.is_none(),
        "a deleted object is there"
    );
    let metadata = maps.get_metadata("map-0").await?;
    let wanted: BTreeMap<_, _> = [("note".to_owned(), "kept".to_owned())].into();
    ensure!(metadata.metadata.annotations == Some(wanted), "{metadata:?}");
    let mut stale = maps.get("map-2").await?;
    stale.data["data"]["index"] = json!("8");
    let stored = maps.replace("map-2", &PostParams::default(), &stale).await?;
    ensure!(
        stored.metadata.resource_version != stale.metadata.resource_version,
        "the version did not move"
    );
    match maps.replace("map-2", &PostParams::default(), &stale).await {
        Err(kube::Error::Api(status)) if status.is_conflict() => {}
        other => bail!("a stale replace gave {other:?}"),
    }
    match core(&client, "Secret")
        .create(
            &PostParams::default(),
            &object(json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "Not_A_Name"}}))?,
        )
        .await
    {
        Err(kube::Error::Api(status)) if status.is_invalid() => {
            let fields: Vec<_> = status
                .details
                .iter()
                .flat_map(|details| &details.causes)
                .map(|cause| cause.field.as_str())
                .collect();
            ensure!(fields == ["metadata.name"], "causes name {fields:?}");
        }
        other => bail!("a bad name gave {other:?}"),
    }
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("even"))
        .await?;
    let left = maps.list(&ListParams::default().labels("even")).await?;
    ensure!(left.items.is_empty(), "{} objects are left", left.items.len());
    Ok(())
}
