//! Admission policies in the write path: those that are stored, compiled once, asked for every write.

use super::decode::{self, Validation};
use super::source::Served;
use super::write::Write;
use super::{Api, namespace_id};
use crate::store::{Object, ResourceId, Revision, Store};
use hub_core::access::{Attributes, User};
use hub_core::admission_policy::{self, Binding, GROUP, Policy, Request, Set, Sort, World, sees};
use hub_core::cel::Authorize;
use hub_core::limits::MAX_ADMISSION_POLICIES;
use hub_core::ownership;
use hub_core::scale;
use hub_core::status_error::StatusError;
use hub_core::strict::Findings;
use serde_json::Value;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

tokio::task_local! {
    /// What policies note about the request of this task.
    pub(super) static NOTES: RefCell<Notes>;
}

/// What policies say beside the answer.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// For the audit log.
    pub(super) annotations: Vec<(String, String)>,
    /// For the client whose write another policy refuses.
    pub(super) warnings: Vec<String>,
}

/// The policies of both sorts as they were compiled last.
#[derive(Debug, Default)]
pub(super) struct Policies {
    validating: Mutex<Compiled>,
    mutating: Mutex<Compiled>,
}

#[derive(Debug, Default)]
struct Compiled {
    /// Revisions of the objects it was made of.
    of: Vec<Revision>,
    set: Arc<Set>,
}

impl Policies {
    /// The policies as they are stored now.
    fn current(&self, store: &Store, sort: Sort) -> Arc<Set> {
        let ids = [sort.policies(), sort.bindings()].map(|plural| ResourceId::new(GROUP, plural));
        let listings = store.list_many(&ids);
        let [policies, bindings] = listings.as_slice() else {
            return Arc::default();
        };
        if policies.items.is_empty() || bindings.items.is_empty() {
            return Arc::default();
        }
        let of: Vec<Revision> = policies
            .items
            .iter()
            .chain(&bindings.items)
            .map(|o| o.revision)
            .collect();
        let slot = match sort {
            Sort::Validating => &self.validating,
            Sort::Mutating => &self.mutating,
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.of != of {
            slot.set = Arc::new(compiled(sort, &policies.items, &bindings.items));
            slot.of = of;
        }
        slot.set.clone()
    }
}

fn compiled(sort: Sort, policies: &[Arc<Object>], bindings: &[Arc<Object>]) -> Set {
    let policies = policies.iter().filter_map(|object| match Policy::compile(sort, &object.value()) {
        Ok(policy) => Some(Arc::new(policy)),
        Err(error) => {
            // It was checked when it was written; an older hub may have checked less.
            tracing::error!(%error, policy = object.name, "an admission policy does not act: write it anew");
            None
        }
    });
    let bindings: Vec<Arc<Binding>> = bindings
        .iter()
        .map(|o| Arc::new(Binding::read(&o.value())))
        .collect();
    Set::new(policies.collect(), &bindings)
}

/// Whose write of what, for policies.
#[derive(Clone, Copy)]
pub(super) struct Policed<'a> {
    pub(super) served: &'a Served,
    pub(super) namespace: &'a str,
    pub(super) subresource: &'a str,
    pub(super) user: &'a User,
    pub(super) is_dry: bool,
}

impl<'a> Policed<'a> {
    /// Of a write that is no delete.
    ///
    /// # Errors
    /// 400 for an unknown `dryRun`.
    pub(super) fn of(write: &'a Write<'_>) -> Result<Policed<'a>, StatusError> {
        Ok(Policed {
            served: write.served,
            namespace: write.namespace,
            subresource: write.subresource.unwrap_or_default(),
            user: write.user,
            is_dry: write.dry_run()?,
        })
    }

    fn is_scale(&self) -> bool {
        self.subresource == "scale"
    }
}

/// What one request's policies can ask.
struct Asked<'a> {
    api: &'a Api,
    user: &'a User,
    wish: Attributes,
}

impl Authorize for Asked<'_> {
    fn decide(&self, service_account: Option<(&str, &str)>, wish: &Attributes) -> (bool, String) {
        let account = service_account.map(|(namespace, name)| User::service_account(namespace, name, ""));
        let decision = self
            .api
            .access
            .decide(account.as_ref().unwrap_or(self.user), wish);
        (decision.allowed, decision.reason)
    }

    fn request(&self) -> Attributes {
        self.wish.clone()
    }
}

impl Asked<'_> {
    fn served(&self, api_version: &str, kind: &str) -> Option<Served> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.api.catalog.of_kind(group, version, kind)
    }
}

impl World for Asked<'_> {
    fn namespace(&self, name: &str) -> Option<Value> {
        self.api.store.get(&namespace_id(), "", name).map(|o| o.value())
    }

    fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool> {
        self.served(api_version, kind)
            .map(|served| served.resource.namespaced)
    }

    fn object(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let served = self.served(api_version, kind)?;
        self.api.store.get(&served.id, namespace, name).map(|o| o.value())
    }

    fn objects(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Vec<Value> {
        let Some(served) = self.served(api_version, kind) else {
            return Vec::new();
        };
        let listing = self.api.store.list(&served.id, namespace);
        listing.items.iter().map(|o| o.value()).collect()
    }
}

impl Api {
    fn asked<'a>(&'a self, policed: &Policed<'a>, name: &str) -> Asked<'a> {
        let resource = &policed.served.resource;
        let wish = Attributes::resource("", &resource.group, &resource.plural, policed.namespace, name);
        Asked {
            api: self,
            user: policed.user,
            wish: wish.with_subresource(policed.subresource),
        }
    }

    /// The object after MutatingAdmissionPolicies.
    ///
    /// # Errors
    /// A policy that fails, or makes something that is none of its kind.
    pub(super) fn mutate_by_policies(
        &self,
        write: &Write<'_>,
        operation: &'static str,
        object: Value,
        old: Option<&Value>,
    ) -> Result<Value, StatusError> {
        let policed = Policed::of(write)?;
        let resource = &policed.served.resource;
        if !sees(resource) || policed.is_scale() {
            return Ok(object);
        }
        let set = self.policies.current(&self.store, Sort::Mutating);
        if set.is_empty() {
            return Ok(object);
        }
        let name = hub_core::admission::name_of(old.unwrap_or(&object)).to_owned();
        let world = self.asked(&policed, &name);
        let request = request(&policed, operation, &name, Some(&object), old);
        let api_version = resource.api_version();
        let custom = self.custom_versions(write);
        let built_in = self.versions(write)?;
        let merge = |live: &Value, config: &Value| match &custom {
            Some(versions) => ownership::merged(versions, &api_version, live, config),
            None => ownership::merged(&built_in, &api_version, live, config),
        };
        let Some(mut made) = admission_policy::mutate(&set, &request, &world, &merge)? else {
            return Ok(object);
        };
        decode::check(
            self.table,
            resource,
            &mut made,
            Findings::default(),
            Validation::Ignore,
        )?;
        Ok(made)
    }

    /// Asks ValidatingAdmissionPolicies about a write; `object` is none for a delete, `old` for a create.
    ///
    /// # Errors
    /// The refusal of the first policy that refuses.
    pub(super) fn validate_by_policies(
        &self,
        policed: &Policed<'_>,
        operation: &'static str,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), StatusError> {
        if !sees(&policed.served.resource) {
            return Ok(());
        }
        let set = self.policies.current(&self.store, Sort::Validating);
        if set.is_empty() {
            return Ok(());
        }
        let scales = policed.is_scale().then(|| {
            [object, old].map(|state| state.map(|state| scale::of(&policed.served.resource, state)))
        });
        let (object, old) = match &scales {
            Some([object, old]) => (object.as_ref(), old.as_ref()),
            None => (object, old),
        };
        let named = object
            .or(old)
            .map(hub_core::admission::name_of)
            .unwrap_or_default();
        let world = self.asked(policed, named);
        let verdict =
            admission_policy::validate(&set, &request(policed, operation, named, object, old), &world);
        let mut said = Notes {
            annotations: verdict.annotations,
            warnings: Vec::new(),
        };
        match verdict.denied {
            Some(_) => said.warnings = verdict.warnings,
            None => warnings.extend(verdict.warnings),
        }
        // Outside of a request (tests of single calls) nobody reads notes.
        let _nobody_asks = NOTES.try_with(|notes| {
            let mut notes = notes.borrow_mut();
            notes.annotations.extend(said.annotations);
            notes.warnings.extend(said.warnings);
        });
        match verdict.denied {
            Some(refused) => Err(refused),
            None => Ok(()),
        }
    }

    /// Refuses more policies than a write can be asked about.
    ///
    /// # Errors
    /// 403.
    pub(super) fn check_number_of_policies(&self, served: &Served, name: &str) -> Result<(), StatusError> {
        let resource = &served.resource;
        let Some((sort, _)) = admission_policy::sort_of(&resource.group, &resource.plural) else {
            return Ok(());
        };
        let id = ResourceId::new(GROUP, &resource.plural);
        if self.store.list(&id, None).items.len() < MAX_ADMISSION_POLICIES {
            return Ok(());
        }
        let why = format!(
            "this hub keeps no more than {MAX_ADMISSION_POLICIES} {}; remove some",
            sort.policies()
        );
        Err(StatusError::forbidden(
            &resource.group,
            &resource.plural,
            name,
            why,
        ))
    }
}

fn request<'a>(
    policed: &'a Policed<'_>,
    operation: &'static str,
    name: &'a str,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
) -> Request<'a> {
    let resource = &*policed.served.resource;
    Request {
        operation,
        resource,
        kind: match policed.is_scale() {
            true => ("autoscaling", "v1", "Scale"),
            false => (&resource.group, &resource.version, &resource.kind),
        },
        subresource: policed.subresource,
        namespace: policed.namespace,
        name,
        user: policed.user,
        is_dry: policed.is_dry,
        object,
        old,
    }
}
