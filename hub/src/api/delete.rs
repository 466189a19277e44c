//! delete and deletecollection.

use super::encode::{Encoder, More};
use super::policies::Policed;
use super::read::Selection;
use super::request::{Query, dry_run_error};
use super::rules::refusal;
use super::source::Served;
use super::write::Done;
use super::{Api, decode, limits};
use crate::clock;
use crate::store::{CommitError, Expect, Object, Op};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hub_core::access::User;
use hub_core::admission::{self, Deleted, Target};
use hub_core::breaker::Scope;
use hub_core::gc::Propagation;
use hub_core::guard::{self, Wish};
use hub_core::status_error::{Cause, StatusError};
use hub_core::strict::Findings;
use hub_core::types::Resource;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a client says about a deletion, in body or query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    uid: Option<String>,
    revision: Option<String>,
    is_dry: bool,
    propagation: Option<Propagation>,
}

impl Options {
    /// Reads body and query.
    ///
    /// # Errors
    /// 400, 415 or 422 for what is not understood.
    pub(super) fn parse(headers: &HeaderMap, body: &Bytes, query: &Query) -> Result<Options, StatusError> {
        let body = if body.is_empty() {
            json!({})
        } else {
            decode::parse(headers, body, &mut Findings::default())?
        };
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let mut is_dry = query.dry_run("DeleteOptions")?;
        for word in body.get("dryRun").and_then(Value::as_array).into_iter().flatten() {
            match word.as_str() {
                Some("All") => is_dry = true,
                other => return Err(dry_run_error(other.unwrap_or_default(), "DeleteOptions")),
            }
        }
        let policy = text("/propagationPolicy").or_else(|| query.get("propagationPolicy").map(str::to_owned));
        let orphans = body.get("orphanDependents").and_then(Value::as_bool);
        let orphans = orphans.or_else(|| query.get("orphanDependents").map(|t| t == "true"));
        let invalid = |cause| {
            Err(StatusError::invalid(
                "meta.k8s.io",
                "DeleteOptions",
                "",
                vec![cause],
            ))
        };
        let propagation = match (policy.as_deref(), orphans) {
            (None, None) => None,
            (None, Some(true)) => Some(Propagation::Orphan),
            (None, Some(false)) => Some(Propagation::Background),
            (Some(_), Some(_)) => {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                return invalid(Cause::invalid("propagationPolicy", &json!(policy), why));
            }
            (Some(text), None) => match Propagation::parse(text) {
                Some(policy) => Some(policy),
                None => {
                    let known = ["Foreground", "Background", "Orphan", "nil"];
                    return invalid(Cause::not_supported("propagationPolicy", &json!(text), &known));
                }
            },
        };
        Ok(Options {
            uid: text("/preconditions/uid"),
            revision: text("/preconditions/resourceVersion"),
            is_dry,
            propagation,
        })
    }
}

/// Outcome for one object.
enum Removal {
    Gone(Arc<Object>),
    Waiting(Bytes),
}

/// Kinds whose deletion is answered with the object (source: their registries).
fn answers_object(served: &Served) -> bool {
    match (&*served.resource.group, &*served.resource.plural) {
        ("", plural) => [
            "services",
            "serviceaccounts",
            "pods",
            "persistentvolumeclaims",
            "persistentvolumes",
            "resourcequotas",
            "podtemplates",
        ]
        .contains(&plural),
        ("storage.k8s.io", plural) => {
            ["storageclasses", "csidrivers", "csinodes", "volumeattachments"].contains(&plural)
        }
        _ => false,
    }
}

impl Api {
    /// Answers a delete.
    ///
    /// # Errors
    /// 404, a precondition that does not hold, an object that must stay.
    pub(super) async fn delete(
        &self,
        served: &Served,
        user: &User,
        namespace: &str,
        name: &str,
        encoder: &Encoder,
        options: Options,
    ) -> Result<Done, StatusError> {
        let resource = &*served.resource;
        let mut warnings = Vec::new();
        let removal = self
            .remove(served, user, namespace, name, &options, &mut warnings)
            .await?;
        let body = match removal {
            Removal::Waiting(body) => body,
            Removal::Gone(object) if answers_object(served) => encoder.one(&object),
            Removal::Gone(object) => {
                let mut details = json!({"name": name, "kind": resource.plural, "uid": object.uid});
                if !resource.group.is_empty() {
                    details["group"] = json!(resource.group);
                }
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": details});
                Bytes::from(status.to_string())
            }
        };
        Ok(Done {
            code: StatusCode::OK,
            body,
            warnings,
        })
    }

    /// Refuses what would take too much out of clusters at once.
    fn check_losses(
        &self,
        resource: &Resource,
        name: &str,
        old: &Value,
        is_dry: bool,
    ) -> Result<(), StatusError> {
        let (Some(may_delete), Some(scope)) = (self.losses.get(), Scope::of(old)) else {
            return Ok(());
        };
        match may_delete(&scope, is_dry) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Err(StatusError::forbidden(
                &resource.group,
                &resource.plural,
                name,
                why,
            )),
            Err(error) => Err(StatusError::internal(error)),
        }
    }

    async fn remove(
        &self,
        served: &Served,
        user: &User,
        namespace: &str,
        name: &str,
        options: &Options,
        warnings: &mut Vec<String>,
    ) -> Result<Removal, StatusError> {
        let resource = &*served.resource;
        let target = Target {
            resource,
            namespace,
            now: clock::wall().0,
        };
        let mut tries = limits::WRITE_TRIES;
        loop {
            tries -= 1;
            let current = self.stored(served, Wish::Delete, namespace, name)?;
            let old = current.value();
            admission::check_preconditions(
                target,
                &old,
                options.uid.as_deref(),
                options.revision.as_deref(),
            )?;
            guard::check(resource, Wish::Delete, Some(&old), None)?;
            self.check_losses(resource, name, &old, options.is_dry)?;
            let policed = Policed {
                served,
                namespace,
                subresource: "",
                user,
                is_dry: options.is_dry,
            };
            self.validate_by_policies(&policed, "DELETE", None, Some(&old), warnings)?;
            warnings.dedup();
            let (id, namespace, name) = (served.id.clone(), namespace.to_owned(), name.to_owned());
            let expect = Expect::Revision(current.revision);
            let (op, waits) = match admission::delete(target, &old, options.propagation)? {
                Deleted::AlreadyWaiting => return Ok(Removal::Waiting(current.body.clone())),
                Deleted::Now if options.is_dry => return Ok(Removal::Gone(current)),
                Deleted::Waiting(object) if options.is_dry => {
                    return Ok(Removal::Waiting(Bytes::from(object.to_string())));
                }
                Deleted::Now => (
                    Op::Delete {
                        resource: id,
                        namespace,
                        name,
                        expect,
                    },
                    false,
                ),
                Deleted::Waiting(object) => (
                    Op::Put {
                        resource: id,
                        namespace,
                        name,
                        expect,
                        object,
                    },
                    true,
                ),
            };
            match self.store.commit(vec![op]).await {
                Ok(stored) => {
                    self.poke();
                    self.follow_up(served);
                    if waits
                        && hub_core::crd::is_definition(resource)
                        && let Err(error) = self.end_definition(&current.name).await
                    {
                        // Housekeeping tries again.
                        tracing::warn!(definition = current.name, %error, "the definition cannot end yet");
                    }
                    let object = stored.into_iter().next().unwrap_or(current);
                    return Ok(if waits {
                        Removal::Waiting(object.body.clone())
                    } else {
                        Removal::Gone(object)
                    });
                }
                Err(CommitError::Conflict { .. }) if tries > 0 => {}
                Err(error) => return Err(refusal(served, error)),
            }
        }
    }

    /// Answers a deletecollection: everything selected, each deletion its own event.
    ///
    /// # Errors
    /// What the query does wrong, or the first object that may not go.
    pub(super) async fn delete_collection(
        &self,
        served: &Served,
        user: &User,
        namespace: Option<&str>,
        encoder: &Encoder,
        query: &Query,
        options: Options,
    ) -> Result<Done, StatusError> {
        let selection = Selection::parse(query, served)?;
        let listing = self.snapshot(served, namespace, &selection)?;
        let selected: Vec<Arc<Object>> = listing
            .items
            .into_iter()
            .filter(|o| selection.matches(served, o))
            .collect();
        let mut warnings = Vec::new();
        for object in &selected {
            let (namespace, name) = (&object.namespace, &object.name);
            match self
                .remove(served, user, namespace, name, &options, &mut warnings)
                .await
            {
                Ok(_) => {}
                Err(error) if error.code() == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let body = encoder.list(
            selected.iter().map(Arc::as_ref),
            self.store.revision().0,
            &More::default(),
        );
        Ok(Done {
            code: StatusCode::OK,
            body,
            warnings,
        })
    }
}
