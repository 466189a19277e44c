//! `pinnace render` and `pinnace diff`: plans one object once more and shows what comes of it. Nothing is written.

use std::sync::Arc;

use hub_core::plan::{Around, NameIndex, Previous, Template, plan_template};
use hub_core::prune::prune;
use serde_json::Value;
use shared::ids::ClusterName;

use super::feed::take_silence_off;
use super::{ExplainError, Reconciler};
use crate::clock;
use crate::fleet::wire::{Observed, Rendering};
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
