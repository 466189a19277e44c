//! The task *status*: what clusters reported of a binding becomes the status of its template.
//!
//! Only status (and the count of silent clusters) changes, on top of the newest object; nothing is written when
//! nothing differs, and the generation stays. It never restarts planning.

use std::collections::HashMap;
use std::sync::PoisonError;

use futures::StreamExt;
use hub_core::aggregate::{self, Seen, Target as Wanted};
use hub_core::plan::bound_object;
use interpreter::Health;
use serde_json::Value;
use shared::ids::ClusterName;
use shared::reason::Reason;
use shared::wire::{ApplyState, Health as ReportedHealth};

use super::dirty::{Backoff, Marked};
use super::{BindingRef, Reconciler, TemplateKey, binding_resource, limits, noise, report_trouble};
use crate::store::fleet::Target;
use crate::store::{CommitError, Expect, Op, ResourceId, StoreError};
use crate::{clock, crash};

/// What a cluster last said of its copy, as aggregation reads it; `None`: nothing yet.
///
/// A report about an older content says nothing about the newest one: the copy is then not applied yet, while
/// its status still counts.
pub fn seen(target: &Target) -> Option<Seen> {
    let report = target.report.as_ref()?;
    let current = report.digest == target.entry.digest;
    let applied = current && report.applied == ApplyState::Applied;
    let message = match (applied, current) {
        (true, _) => String::new(),
        (false, true) if report.message.is_empty() => report.reason.to_string(),
        (false, true) => format!("{}: {}", report.reason, report.message),
        (false, false) => format!(
            "{}: the newest content is not applied yet",
            Reason::AwaitingCluster
        ),
    };
    let health = match report.health {
        ReportedHealth::Healthy => Some(Health::Healthy),
        ReportedHealth::Unhealthy => Some(Health::Unhealthy),
        ReportedHealth::Unknown => None,
    };
    let mut status: Option<Value> = report
        .status
        .as_ref()
        .and_then(|bytes| serde_json::from_slice(bytes).ok());
    if let Some(Value::Object(status)) = &mut status
        && current
        && status.contains_key("generation")
    {
        // The same content stands for every generation it was rendered from; the object in the member still
        // names the first one. A report about the newest content speaks for the newest generation.
        let named = status
            .get("resourceTemplateGeneration")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        let stands_for = named.max(report.template_generation);
        status.insert("resourceTemplateGeneration".to_owned(), stands_for.into());
    }
    Some(Seen {
        applied,
        message,
        health,
        status,
    })
}

/// The clusters a binding is assigned to, with what they reported, by name.
pub(super) fn wanted(binding: &Value, targets: &[Target], silent: impl Fn(&str) -> bool) -> Vec<Wanted> {
    let key = bound_object(binding);
    let of_object = targets.iter().filter(|target| target.entry.key == key);
    let by_cluster: HashMap<&str, &Target> = of_object
        .map(|target| (target.cluster.as_str(), target))
        .collect();
    let mut wanted: Vec<Wanted> = binding["spec"]["clusters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|share| {
            let cluster = share["name"].as_str()?;
            Some(Wanted {
                cluster: cluster.to_owned(),
                replicas: share["replicas"].as_i64().unwrap_or(0),
                silent: silent(cluster),
                seen: by_cluster.get(cluster).and_then(|target| seen(target)),
            })
        })
        .collect();
    wanted.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    wanted
}

impl Reconciler {
    /// Aggregates by timer and poke, until dropped.
    pub(super) async fn status_forever(&self) {
        let mut backoff = Backoff::default();
        let mut resync = tokio::time::Instant::now() + self.settings.resync_every;
        let mut wait = self.settings.resync_every;
        loop {
            self.bindings.wait(wait).await;
            if tokio::time::Instant::now() >= resync {
                self.bindings.mark_all();
                resync = tokio::time::Instant::now() + self.settings.resync_every;
            }
            let began = tokio::time::Instant::now();
            let failed = self.status_pass(self.bindings.take()).await;
            // Half of the time at most: while much happens, many changes of a binding become one status.
            tokio::time::sleep(began.elapsed().min(limits::STATUS_PAUSE)).await;
            wait = if failed.is_empty() {
                backoff.reset();
                self.settings.resync_every
            } else {
                let pause = backoff.next(noise());
                self.bindings.remember(failed);
                pause
            };
        }
    }

    /// One pass. Answers the bindings to try again.
    pub(super) async fn status_pass(&self, marked: Marked<BindingRef>) -> Vec<BindingRef> {
        let bindings: Vec<BindingRef> = if marked.all {
            let of = |plural: &str| {
                self.store
                    .list(&ResourceId::new("work.karmada.io", plural), None)
                    .items
            };
            let all = of("resourcebindings")
                .into_iter()
                .chain(of("clusterresourcebindings"));
            all.map(|object| BindingRef {
                namespace: object.namespace.clone(),
                name: object.name.clone(),
            })
            .collect()
        } else {
            marked.keys.into_iter().collect()
        };
        let outcomes = futures::stream::iter(bindings)
            .map(|binding| async move { (self.status_of(&binding).await, binding) })
            .buffer_unordered(limits::STATUSES_TOGETHER)
            .collect::<Vec<_>>()
            .await;
        let mut failed = Vec::new();
        for (outcome, binding) in outcomes {
            if let Err(error) = outcome {
                report_trouble("status", &binding.to_string(), &error);
                failed.push(binding);
            }
        }
        failed
    }

    async fn status_of(&self, binding: &BindingRef) -> Result<(), StoreError> {
        let Some(stored) = self
            .store
            .get(&binding_resource(binding), &binding.namespace, &binding.name)
        else {
            return Ok(());
        };
        let stored = stored.value();
        let key = bound_object(&stored);
        let Some(resource) = self.resource_of(&key.group, &key.kind) else {
            return Ok(());
        };
        let targets = self.store.reported_of(binding)?;
        self.promises_applied(binding, &targets);
        let wanted = wanted(&stored, &targets, |cluster| self.is_dark(cluster));
        for _ in 0..limits::COMMIT_TRIES {
            let Some(newest) = self.store.get(&resource, &key.namespace, &key.name) else {
                return Ok(());
            };
            let template = newest.value();
            if shared::object::uid(&template)
                != stored["spec"]["resource"]["uid"].as_str().unwrap_or_default()
            {
                // Made again under its name; the plan binds it first and marks it then.
                return Ok(());
            }
            let now = clock::wall().rfc3339();
            let new = match aggregate::template_status(&*self.interpreter, &template, &wanted, &now) {
                Ok(Some(new)) => new,
                Ok(None) => return Ok(()),
                Err(problem) => {
                    tracing::warn!(%binding, %problem, "a reported status cannot be read; the template keeps its own");
                    self.tell_status_trouble(&template, &stored, &problem).await;
                    return Ok(());
                }
            };
            let Some(object) = aggregate::with_status(&template, &new) else {
                return Ok(());
            };
            crash::point("reconcile.status.before");
            let op = Op::Put {
                resource: resource.clone(),
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                expect: Expect::Revision(newest.revision),
                object,
            };
            let place = TemplateKey {
                resource: resource.clone(),
                namespace: key.namespace.clone(),
                name: key.name.clone(),
            };
            self.own_statuses.begin(&place);
            let written = self.store.commit(vec![op]).await;
            let revision = written.as_ref().ok().and_then(|written| written.first());
            if self
                .own_statuses
                .end(&place, revision.map(|stored| stored.revision))
            {
                self.templates.mark([place]);
            }
            match written {
                Ok(_) | Err(CommitError::NotFound { .. }) => return Ok(()),
                // The user was faster: once more, on top of the new state.
                Err(CommitError::Conflict { .. }) => {}
                Err(CommitError::Store(error)) => return Err(error),
                Err(problem) => {
                    tracing::warn!(%binding, %problem, "the status of the template cannot be stored");
                    return Ok(());
                }
            }
        }
        // Its own change marks the template's binding again.
        self.bindings.mark([binding.clone()]);
        Ok(())
    }

    /// Silent for longer than the grace, or revoked?
    pub(super) fn is_dark(&self, cluster: &str) -> bool {
        ClusterName::new(cluster).is_ok_and(|cluster| {
            let revoked = self.revoked.read().unwrap_or_else(PoisonError::into_inner);
            revoked.contains(&cluster)
                || self.presence.silent_for(&cluster, clock::monotonic()) > self.settings.status_grace
        })
    }
}
