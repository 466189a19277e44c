//! `pinnace render`, `pinnace diff` and the judgement of clusters in `pinnace why`: plans one object once more and shows
//! what comes of it. Nothing is written.

use std::sync::Arc;

use hub_core::plan::{Around, NameIndex, Previous, Template, assess_template, plan_template};
use hub_core::prune::prune;
use serde_json::Value;
use shared::ids::ClusterName;

use super::feed::take_silence_off;
use super::{ExplainError, Reconciler};
use crate::clock;
use crate::fleet::wire::{Observed, Rendering, Verdict};
use crate::store::fleet::Target;
use crate::store::{Object, ResourceId};

/// A template with its stored binding.
struct Found {
    template: Template,
    binding: Option<Value>,
    targets: Vec<Target>,
}

fn find(
    reconciler: &Reconciler,
    resource: &ResourceId,
    namespace: &str,
    name: &str,
) -> Result<Found, ExplainError> {
    let not_found = || ExplainError::NotFound {
        resource: resource.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let object: Arc<Object> = reconciler
        .store
        .get(resource, namespace, name)
        .ok_or_else(not_found)?;
    let mut value = object.value();
    take_silence_off(&mut value);
    let template = Template::read(Arc::new(value)).ok_or_else(not_found)?;
    let (binding, stored) = reconciler.stored_binding(&template.key);
    let targets = match &binding {
        Some(binding) => reconciler.store.targets_of(binding)?,
        None => Vec::new(),
    };
    Ok(Found {
        targets: targets
            .into_iter()
            .filter(|target| target.entry.key == template.key)
            .collect(),
        binding: stored.map(|stored| stored.value()),
        template,
    })
}

/// What one cluster shall have of an object, and what it last said it has.
///
/// # Errors
/// There is no such object, or the store.
pub fn rendering(
    reconciler: &Reconciler,
    resource: &ResourceId,
    namespace: &str,
    name: &str,
    cluster: &ClusterName,
) -> Result<Rendering, ExplainError> {
    let found = find(reconciler, resource, namespace, name)?;
    let held = found
        .targets
        .iter()
        .map(|target| target.cluster.clone())
        .collect();
    let world = reconciler.read_world()?;
    let (required, used) = reconciler.around(&world, &found.template);
    let previous = Previous {
        binding: found.binding.as_ref(),
        held: &held,
        around: Around {
            required: &required,
            used: used.as_ref(),
        },
        // What would be sent now, with the copies where they are.
        copies: None,
    };
    let mut names = NameIndex::default();
    let plan = plan_template(
        &world,
        &found.template,
        previous,
        &*reconciler.interpreter,
        &mut names,
    );
    let mut template = (*found.template.object).clone();
    prune(&mut template);
    let work = plan.works.iter().find(|work| work.cluster == *cluster);
    let wanted = work.and_then(|work| serde_json::from_slice(&work.content).ok());
    let problem = wanted.is_none().then(|| {
        let here =
            |note: &&hub_core::plan::Note| note.cluster.as_deref().is_none_or(|c| c == cluster.as_str());
        let said: Vec<&str> = plan
            .notes
            .iter()
            .filter(here)
            .map(|note| note.message.as_str())
            .collect();
        format!("cluster {cluster} is no target: {}", said.join("; "))
    });
    let mut observed = None;
    let target = found.targets.iter().find(|target| target.cluster == *cluster);
    if let Some(report) = target.and_then(|target| target.report.as_ref()) {
        let content = reconciler.store.content(&report.digest)?;
        observed = Some(Observed {
            manifest: content.and_then(|bytes| serde_json::from_slice(&bytes).ok()),
            status: report
                .status
                .as_ref()
                .and_then(|bytes| serde_json::from_slice(bytes).ok()),
            reason: report.reason.to_string(),
            age_seconds: clock::wall().0.saturating_sub(report.observed.0).max(0),
            at_least: report.observed_is_bound,
        });
    }
    Ok(Rendering {
        object: found.template.key.to_string(),
        cluster: cluster.to_string(),
        template,
        wanted,
        problem,
        observed,
    })
}

/// What filters, score and estimate say about every cluster for an object, and what each gets by its binding.
///
/// # Errors
/// There is no such object, or the store.
pub fn verdicts(
    reconciler: &Reconciler,
    resource: &ResourceId,
    namespace: &str,
    name: &str,
) -> Result<Vec<Verdict>, ExplainError> {
    let found = find(reconciler, resource, namespace, name)?;
    let world = reconciler.read_world()?;
    let names = NameIndex::default();
    let (assessed, _unit) = assess_template(
        &world,
        &found.template,
        found.binding.as_ref(),
        &*reconciler.interpreter,
        &names,
    );
    let shares = found
        .binding
        .as_ref()
        .map_or(&Value::Null, |binding| &binding["spec"]["clusters"]);
    let share = |cluster: &str| {
        let shares = shares.as_array().into_iter().flatten();
        let mut mine = shares.filter(|share| share["name"] == cluster);
        mine.next().map(|share| share["replicas"].as_i64().unwrap_or(0))
    };
    let (now, wall) = (clock::monotonic(), clock::wall());
    let mut verdicts = Vec::with_capacity(assessed.len());
    for one in assessed {
        let row = match ClusterName::new(&one.cluster) {
            Ok(cluster) => reconciler.store.facts(&cluster)?.map(|row| (cluster, row)),
            Err(_) => None,
        };
        // In this life of the hub to the second; of a former one, as it was written down.
        let heard = row.and_then(|(cluster, row)| {
            let ago = reconciler.presence.heard_ago(&cluster, now);
            let seconds = ago.and_then(|ago| i64::try_from(ago.as_secs()).ok());
            seconds.or_else(|| Some(wall.0.saturating_sub(row.last_seen?.0).max(0)))
        });
        verdicts.push(Verdict {
            share: share(&one.cluster),
            refusal: one.refusal.map(|refusal| refusal.to_string()),
            score: one.score,
            room: one.allocatable,
            held: one.held,
            age_seconds: heard,
            cluster: one.cluster,
        });
    }
    verdicts.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    Ok(verdicts)
}
