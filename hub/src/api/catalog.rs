//! All resources that are served: those of the type table, and custom resources as their definitions stand in the store.

use super::source::Served;
use crate::store::{Object, ResourceId, Store};
use hub_core::admission;
use hub_core::crd::{self, definition};
use hub_core::types::{Resource, TypeTable};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::watch;

/// Where definitions are stored.
pub(super) fn definitions_id() -> ResourceId {
    ResourceId::new(definition::GROUP, definition::PLURAL)
}

/// The resources at one time, in the order of discovery: those of the type table first.
pub(super) struct Kinds {
    served: Vec<Served>,
    /// By name of the definition.
    definitions: BTreeMap<String, Known>,
    /// Grows with every change.
    pub(super) number: u64,
}

/// A definition as it was read.
struct Known {
    uid: String,
    revision: u64,
    /// What of it decides how its objects are served.
    digest: u64,
    served: Vec<Served>,
}

impl Kinds {
    /// All resources.
    pub(super) fn resources(&self) -> Vec<&Resource> {
        self.served.iter().map(|s| &*s.resource).collect()
    }

    /// Groups that have custom resources.
    pub(super) fn custom_groups(&self) -> BTreeSet<String> {
        let custom = self.served.iter().filter(|s| s.resource.custom.is_some());
        custom.map(|s| s.resource.group.to_string()).collect()
    }

    /// What tells two states of the custom resources of a version apart; empty if there are none.
    pub(super) fn fingerprint(&self, group: &str, version: &str) -> String {
        let mut out = String::new();
        for served in &self.served {
            let resource = &served.resource;
            if let Some(custom) = resource
                .custom
                .as_ref()
                .filter(|_| &*resource.group == group && &*resource.version == version)
            {
                out.push_str(&format!("{} {};", custom.uid, custom.since));
            }
        }
        out
    }
}

/// The resources that are served now.
pub(super) struct Catalog {
    table: &'static TypeTable,
    built_in: Vec<Served>,
    now: RwLock<Arc<Kinds>>,
    /// Held while definitions are read: a later state is not overwritten by an earlier one.
    reading: Mutex<()>,
    changed: watch::Sender<u64>,
}

impl Catalog {
    pub(super) fn new(table: &'static TypeTable) -> Catalog {
        let served = table.resources().iter().map(serve);
        let built_in: Vec<Served> = served.collect();
        let kinds = Kinds {
            served: built_in.clone(),
            definitions: BTreeMap::new(),
            number: 0,
        };
        Catalog {
            table,
            built_in,
            now: RwLock::new(Arc::new(kinds)),
            reading: Mutex::new(()),
            changed: watch::Sender::new(0),
        }
    }

    /// The resources as they are now.
    pub(super) fn now(&self) -> Arc<Kinds> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells of changes.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn find(&self, is: impl Fn(&Served) -> bool) -> Option<Served> {
        self.now().served.iter().find(|s| is(s)).cloned()
    }

    pub(super) fn get(&self, group: &str, version: &str, plural: &str) -> Option<Served> {
        let is = |r: &Resource| &*r.plural == plural && &*r.group == group && &*r.version == version;
        self.find(|s| is(&s.resource))
    }

    /// Whether anything is served in that version.
    pub(super) fn has_version(&self, group: &str, version: &str) -> bool {
        self.find(|s| &*s.resource.group == group && &*s.resource.version == version)
            .is_some()
    }

    /// The served resource of a kind.
    pub(super) fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<Served> {
        let is = |r: &Resource| &*r.kind == kind && &*r.group == group && &*r.version == version;
        self.find(|s| is(&s.resource))
    }

    /// The served resource behind stored objects, in its preferred version.
    pub(super) fn stored(&self, id: &ResourceId) -> Option<Served> {
        self.find(|s| s.id == *id)
    }

    /// A resource that a definition serves.
    pub(super) fn of_definition(&self, name: &str) -> Option<Served> {
        self.now().definitions.get(name)?.served.first().cloned()
    }

    /// Reads the definitions in the store; what did not change is not compiled again.
    pub(super) fn refresh(&self, store: &Store) {
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = store.list(&definitions_id(), None).items;
        let before = self.now();
        let is_same = |object: &Arc<Object>| {
            let known = before.definitions.get(&object.name);
            known.is_some_and(|k| k.revision == object.revision.0 && k.uid == object.uid)
        };
        if stored.len() == before.definitions.len() && stored.iter().all(is_same) {
            return;
        }
        let mut definitions = BTreeMap::new();
        for object in &stored {
            let known = before
                .definitions
                .get(&object.name)
                .filter(|k| k.uid == object.uid);
            let value = object.value();
            let digest = digest(&value);
            let served = match known.filter(|k| k.digest == digest) {
                // A label or a condition changed: the objects are what they were.
                Some(known) => known.served.clone(),
                None => self.compile(&value, object.revision.0),
            };
            let known = Known {
                uid: object.uid.clone(),
                revision: object.revision.0,
                digest,
                served,
            };
            definitions.insert(object.name.clone(), known);
        }
        let mut custom: Vec<Served> = definitions.values().flat_map(|k| k.served.clone()).collect();
        custom.sort_by(|a, b| {
            (&a.resource.group, &a.resource.plural).cmp(&(&b.resource.group, &b.resource.plural))
        });
        let number = before.number + 1;
        let kinds = Kinds {
            served: self.built_in.iter().cloned().chain(custom).collect(),
            definitions,
            number,
        };
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(kinds);
        self.changed.send_replace(number);
    }

    fn compile(&self, definition: &Value, revision: u64) -> Vec<Served> {
        let resources = crd::resources(self.table, definition, revision);
        // Names of the hub's own kinds are never granted; a definition from an older database is held to it, too.
        let is_taken = |r: &Resource| {
            let own = self.table.resources().iter();
            let same = |own: &Resource| own.plural == r.plural || own.kind == r.kind;
            own.filter(|own| own.group == r.group).any(same)
        };
        resources.iter().filter(|r| !is_taken(r)).map(serve).collect()
    }
}

fn digest(definition: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    let established = crd::status::is_true(definition, crd::status::ESTABLISHED);
    let names = definition.pointer("/status/acceptedNames");
    (established, admission::is_deleting(definition)).hash(&mut hasher);
    for part in [definition.get("spec"), names] {
        part.map(Value::to_string).hash(&mut hasher);
    }
    hasher.finish()
}

fn serve(resource: &Resource) -> Served {
    Served {
        id: ResourceId::new(&resource.storage.0, &resource.storage.1),
        resource: Arc::new(resource.clone()),
    }
}
