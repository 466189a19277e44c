//! A model of a member's API: server-side apply with field owners, uids, and other people.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::observation::Observation;
use serde_json::{Value, json};
use shared::ids::ObjectKey;
use shared::owned::FIELD_MANAGER;

/// One object.
#[derive(Clone, Debug)]
pub struct Object {
    /// `metadata.uid`.
    pub uid: String,
    version: u64,
    /// `data`.
    pub data: BTreeMap<String, String>,
    /// Managers by field; those that agree on a value own it together.
    owners: BTreeMap<String, BTreeSet<String>>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    /// Created by our own apply.
    pub made_by_us: bool,
    /// A release took our marks off.
    pub released: bool,
    /// A job that has ended.
    pub completed: bool,
}

/// A member cluster.
#[derive(Clone, Debug, Default)]
pub struct Member {
    objects: BTreeMap<ObjectKey, Object>,
    next: u64,
}

/// Why the API refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another manager owns a field with another value.
    Conflict,
    /// The namespace is not there.
    NoNamespace,
    /// The uid is another one.
    OtherUid,
    /// The object changed since it was read.
    OtherVersion,
}

fn by(manager: &str) -> BTreeSet<String> {
    [manager.to_owned()].into()
}

fn strings(value: &Value, pointer: &str) -> BTreeMap<String, String> {
    let map = value.pointer(pointer).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect()
}

impl Member {
    /// Every object.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        self.objects.iter()
    }

    /// One object.
    #[must_use]
    pub fn object(&self, key: &ObjectKey) -> Option<&Object> {
        self.objects.get(key)
    }

    /// One object as the API returns it.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Value> {
        let o = self.objects.get(key)?;
        let mut managers: BTreeMap<&str, Value> = BTreeMap::new();
        for (field, owners) in &o.owners {
            for owner in owners {
                let fields = managers.entry(owner).or_insert_with(|| json!({"f:data": {}}));
                fields["f:data"][format!("f:{field}")] = json!({});
            }
        }
        let managed: Vec<Value> = managers
            .into_iter()
            .map(|(manager, fields)| {
                let operation = if manager == FIELD_MANAGER { "Apply" } else { "Update" };
                json!({"manager": manager, "operation": operation, "fieldsV1": fields, "time": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let api_version = if key.group.is_empty() {
            "v1".to_owned()
        } else {
            format!("{}/v1", key.group)
        };
        let mut value = json!({"apiVersion": api_version, "kind": key.kind, "data": o.data,
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": o.uid,
                "resourceVersion": o.version.to_string(), "labels": o.labels, "annotations": o.annotations,
                "managedFields": managed}});
        if o.completed {
            value["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        }
        Some(value)
    }

    /// What the object says of itself.
    #[must_use]
    pub fn observation(&self, key: &ObjectKey) -> Option<Observation> {
        let status = status_of(self.objects.get(key)?);
        let health = interpreter::Health::Healthy;
        Some(Observation {
            health,
            status: Some(status.into()),
            trouble: None,
        })
    }

    fn version(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Server-side apply as our manager, bound to the uid and the resourceVersion that were `read`, if any. True: it was
    /// created.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was written.
    pub fn apply(
        &mut self,
        key: &ObjectKey,
        desired: &Value,
        force: bool,
        read: Option<(&str, &str)>,
    ) -> Result<bool, Refusal> {
        let uid = read.map(|(uid, _)| uid);
        let namespace = ObjectKey::new("", "Namespace", "", &key.namespace);
        if !key.namespace.is_empty() && !self.objects.contains_key(&namespace) {
            return Err(Refusal::NoNamespace);
        }
        let (data, labels, annotations) = (
            strings(desired, "/data"),
            strings(desired, "/metadata/labels"),
            strings(desired, "/metadata/annotations"),
        );
        let version = self.version();
        let Some(object) = self.objects.get_mut(key) else {
            if uid.is_some() {
                return Err(Refusal::OtherUid);
            }
            let owners = data.keys().map(|k| (k.clone(), by(FIELD_MANAGER))).collect();
            let object = Object {
                uid: format!("uid-{version}"),
                version,
                data,
                owners,
                labels,
                annotations,
                made_by_us: true,
                released: false,
                completed: false,
            };
            self.objects.insert(key.clone(), object);
            return Ok(true);
        };
        if uid.is_some_and(|u| u != object.uid) {
            return Err(Refusal::OtherUid);
        }
        if read.is_some_and(|(_, version)| version != object.version.to_string()) {
            return Err(Refusal::OtherVersion);
        }
        let ours = |owners: &BTreeMap<String, BTreeSet<String>>, k: &str| {
            owners.get(k).is_some_and(|o| o.contains(FIELD_MANAGER))
        };
        let taken = data
            .iter()
            .any(|(k, v)| object.data.get(k).is_some_and(|have| have != v) && !ours(&object.owners, k));
        if taken && !force {
            return Err(Refusal::Conflict);
        }
        let dropped: Vec<String> = object
            .data
            .keys()
            .filter(|k| ours(&object.owners, k) && !data.contains_key(*k))
            .cloned()
            .collect();
        for k in dropped {
            let owners = object.owners.entry(k.clone()).or_default();
            owners.remove(FIELD_MANAGER);
            if owners.is_empty() {
                object.data.remove(&k);
                object.owners.remove(&k);
            }
        }
        for (k, v) in data {
            let same = object.data.get(&k) == Some(&v);
            let owners = object.owners.entry(k.clone()).or_default();
            if !same {
                owners.clear();
            }
            owners.insert(FIELD_MANAGER.to_owned());
            object.data.insert(k, v);
        }
        object.labels.extend(labels);
        if !annotations.contains_key(shared::owned::NONCE) {
            object.annotations.remove(shared::owned::NONCE);
        }
        object.annotations.extend(annotations);
        object.version = version;
        Ok(false)
    }

    /// Deletes whatever has the name.
    pub fn delete_by_name(&mut self, key: &ObjectKey) -> Option<Object> {
        self.objects.remove(key)
    }

    /// Deletes an object with a uid precondition.
    ///
    /// # Errors
    /// [`Refusal::OtherUid`].
    pub fn delete(&mut self, key: &ObjectKey, uid: &str) -> Result<Option<Object>, Refusal> {
        match self.objects.get(key) {
            Some(o) if o.uid != uid => Err(Refusal::OtherUid),
            _ => Ok(self.objects.remove(key)),
        }
    }

    /// Takes our marks and field manager off.
    pub fn release(&mut self, key: &ObjectKey, uid: &str) {
        let version = self.version();
        if let Some(o) = self.objects.get_mut(key).filter(|o| o.uid == uid) {
            o.labels.retain(|k, _| !k.starts_with(shared::owned::PREFIX));
            o.annotations.retain(|k, _| !k.starts_with(shared::owned::PREFIX));
            for owners in o.owners.values_mut() {
                owners.remove(FIELD_MANAGER);
            }
            o.owners.retain(|_, owners| !owners.is_empty());
            o.released = true;
            o.version = version;
        }
    }

    /// Somebody else creates an object.
    pub fn create_foreign(&mut self, key: &ObjectKey, value: &str) {
        let version = self.version();
        let data: BTreeMap<String, String> = [("v".to_owned(), value.to_owned())].into();
        let owners = data.keys().map(|k| (k.clone(), by("kubectl"))).collect();
        let object = Object {
            uid: format!("uid-{version}"),
            version,
            data,
            owners,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            made_by_us: false,
            released: false,
            completed: false,
        };
        self.objects.entry(key.clone()).or_insert(object);
    }

    /// Somebody else writes a field.
    pub fn edit_foreign(&mut self, key: &ObjectKey, field: &str, value: &str) {
        let version = self.version();
        if let Some(o) = self.objects.get_mut(key) {
            let same = o.data.insert(field.to_owned(), value.to_owned()).as_deref() == Some(value);
            let owners = o.owners.entry(field.to_owned()).or_default();
            if !same {
                owners.clear();
            }
            owners.insert("kubectl".to_owned());
            o.version = version;
        }
    }

    /// Somebody else deletes an object, or a controller removes an ended job.
    pub fn delete_foreign(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }

    /// A job ends.
    pub fn complete(&mut self, key: &ObjectKey) {
        let version = self.version();
        if let Some(o) = self.objects.get_mut(key).filter(|_| key.kind == "Job") {
            o.completed = true;
            o.version = version;
        }
    }

    /// `resourceVersion` of an object.
    #[must_use]
    pub fn version_of(&self, key: &ObjectKey) -> Option<String> {
        self.objects.get(key).map(|o| o.version.to_string())
    }
}

/// The reflected status of an object.
#[must_use]
pub fn status_of(object: &Object) -> Vec<u8> {
    let v = object.data.get("v").map(String::as_str).unwrap_or_default();
    format!("{{\"seen\":\"{v}\",\"done\":{}}}", object.completed).into_bytes()
}
