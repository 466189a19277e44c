//! Which objects go along with another (`propagateDeps`): a binding names what its template needs, and those objects get
//! attached bindings that follow its clusters.
//!
//! Source: the reference's dependencies distributor. Only namespaced bindings carry dependencies along.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use interpreter::Dependency;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::divide::Share;
use crate::matching::Subject;
use crate::naming;
use crate::plan::BINDING_ID_LABEL;
use crate::policy::LabelSelector;

/// Annotation on a binding: the objects its template needs, as a JSON list of references.
pub const DEPENDENCIES_ANNOTATION: &str = "resourcebinding.karmada.io/dependencies";
/// First part of the labels of an attached binding; the rest is the reference key of the binding that needs it, the
/// value that binding's permanent id.
pub const DEPENDED_BY_LABEL_PREFIX: &str = "resourcebinding.karmada.io/depended-by-";

/// Namespace and name of a binding.
type Place = (String, String);

/// A binding that carries along what its template needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Referrer {
    /// Namespace of the binding.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its permanent id.
    pub id: String,
    /// Where its template runs, clusters that it is about to leave included.
    pub clusters: Vec<Share>,
    /// Its policy takes foreign objects over.
    pub overwrites: bool,
    /// Its policy keeps the members' objects.
    pub preserves: bool,
    /// Where nothing is sent at the moment.
    pub suspension: Value,
    /// What its template needs.
    pub needs: Vec<Dependency>,
}

impl Referrer {
    /// Reads a stored binding; `None` if it carries nothing along.
    pub fn read(binding: &Value) -> Option<Self> {
        let (metadata, spec) = (&binding["metadata"], &binding["spec"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let needs: Vec<Dependency> =
            serde_json::from_str(metadata["annotations"][DEPENDENCIES_ANNOTATION].as_str()?).ok()?;
        let mut clusters: Vec<Share> = spec["clusters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|target| Share {
                cluster: text(&target["name"]),
                replicas: target["replicas"].as_i64().unwrap_or(0),
            })
            .collect();
        // What runs on needs what it runs with, also while it is on its way out.
        for task in spec["gracefulEvictionTasks"].as_array().into_iter().flatten() {
            let leaving = text(&task["fromCluster"]);
            let stays = !matches!(task["purgeMode"].as_str(), Some("Directly" | "Immediately"));
            if stays && clusters.iter().all(|share| share.cluster != leaving) {
                clusters.push(Share {
                    cluster: leaving,
                    replicas: task["replicas"].as_i64().unwrap_or(0),
                });
            }
        }
        let namespace = text(&metadata["namespace"]);
        let acts = spec["propagateDeps"] == true && !namespace.is_empty();
        (acts && !needs.is_empty() && !clusters.is_empty()).then(|| Self {
            namespace,
            name: text(&metadata["name"]),
            id: text(&metadata["labels"][BINDING_ID_LABEL]),
            clusters,
            overwrites: spec["conflictResolution"] == "Overwrite",
            preserves: spec["preserveResourcesOnDeletion"] == true,
            suspension: spec["suspension"].clone(),
            needs,
        })
    }

    /// The key of the label by which an attached binding names this one.
    pub fn label(&self) -> String {
        let key = naming::binding_reference_key(&self.namespace, &self.name);
        format!("{DEPENDED_BY_LABEL_PREFIX}{key}")
    }

    /// Its entry in `spec.requiredBy`.
    pub fn snapshot(&self) -> Value {
        let clusters: Vec<Value> = self
            .clusters
            .iter()
            .map(|share| match share.replicas {
                0 => json!({"name": share.cluster}),
                replicas => json!({"name": share.cluster, "replicas": replicas}),
            })
            .collect();
        json!({"namespace": self.namespace, "name": self.name, "clusters": clusters})
    }
}

/// Does a reference mean this object?
pub fn means(dependency: &Dependency, subject: &Subject<'_>) -> bool {
    if dependency.api_version != subject.api_version
        || dependency.kind != subject.kind
        || dependency.namespace.as_deref().unwrap_or_default() != subject.namespace
    {
        return false;
    }
    match (&dependency.name, &dependency.label_selector) {
        (Some(name), _) if !name.is_empty() => name == subject.name,
        (_, Some(selector)) => {
            LabelSelector::deserialize(selector).is_ok_and(|selector| selector.matches(subject.labels))
        }
        _ => false,
    }
}

/// All bindings that carry something along, found by what they need.
#[derive(Clone, Debug, Default)]
pub struct DependencyIndex {
    referrers: BTreeMap<Place, Referrer>,
    by_kind: HashMap<(String, String), BTreeSet<Place>>,
}

fn kind_of(dependency: &Dependency) -> (String, String) {
    (
        dependency.kind.clone(),
        dependency.namespace.clone().unwrap_or_default(),
    )
}

impl DependencyIndex {
    /// Notes a stored binding; `None`: it is gone. Answers what may have to be planned again: everything it needs or
    /// needed, if anything about it changed.
    pub fn note(&mut self, namespace: &str, name: &str, binding: Option<&Value>) -> Vec<Dependency> {
        let at = (namespace.to_owned(), name.to_owned());
        let new = binding.and_then(Referrer::read);
        if self.referrers.get(&at) == new.as_ref() {
            return Vec::new();
        }
        let mut touched = Vec::new();
        if let Some(old) = self.referrers.remove(&at) {
            for dependency in &old.needs {
                if let Some(places) = self.by_kind.get_mut(&kind_of(dependency)) {
                    places.remove(&at);
                }
            }
            touched.extend(old.needs);
        }
        if let Some(new) = new {
            for dependency in &new.needs {
                self.by_kind
                    .entry(kind_of(dependency))
                    .or_default()
                    .insert(at.clone());
                if !touched.contains(dependency) {
                    touched.push(dependency.clone());
                }
            }
            self.referrers.insert(at, new);
        }
        self.by_kind.retain(|_, places| !places.is_empty());
        touched
    }

    /// The bindings whose templates need the object, by namespace and name.
    pub fn required_by(&self, subject: &Subject<'_>) -> Vec<Referrer> {
        let at = (subject.kind.to_owned(), subject.namespace.to_owned());
        let referrers = self.by_kind.get(&at).into_iter().flatten();
        referrers
            .filter_map(|place| self.referrers.get(place))
            .filter(|referrer| referrer.needs.iter().any(|dependency| means(dependency, subject)))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(needs: &str, clusters: Value) -> Value {
        json!({"metadata": {"namespace": "shop", "name": "web-deployment", "labels": {BINDING_ID_LABEL: "id"},
            "annotations": {DEPENDENCIES_ANNOTATION: needs}},
            "spec": {"propagateDeps": true, "clusters": clusters}})
    }

    const CONFIG: &str = r#"[{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"cfg"}]"#;

    fn subject<'a>(name: &'a str, labels: &'a BTreeMap<String, String>) -> Subject<'a> {
        Subject {
            api_version: "v1",
            kind: "ConfigMap",
            namespace: "shop",
            name,
            labels,
        }
    }

    #[test]
    fn what_a_binding_needs_follows_it() {
        let none = BTreeMap::new();
        let mut index = DependencyIndex::default();
        let one = binding(CONFIG, json!([{"name": "m1", "replicas": 2}]));
        assert_eq!(index.note("shop", "web-deployment", Some(&one)).len(), 1);
        assert!(
            index.note("shop", "web-deployment", Some(&one)).is_empty(),
            "nothing changed"
        );
        let found = index.required_by(&subject("cfg", &none));
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].snapshot(),
            json!({"namespace": "shop", "name": "web-deployment", "clusters": [{"name": "m1", "replicas": 2}]})
        );
        assert!(index.required_by(&subject("other", &none)).is_empty());
        // no cluster: nothing is carried along, and what was is told to be looked at again
        let nowhere = binding(CONFIG, json!([]));
        assert_eq!(index.note("shop", "web-deployment", Some(&nowhere)).len(), 1);
        assert!(index.required_by(&subject("cfg", &none)).is_empty());
        assert!(index.note("shop", "web-deployment", None).is_empty());
    }

    #[test]
    fn references_by_label() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let dependency = Dependency {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: Some("shop".to_owned()),
            name: None,
            label_selector: Some(json!({"matchLabels": {"app": "web"}})),
        };
        assert!(means(&dependency, &subject("x", &labels)));
        assert!(!means(&dependency, &subject("x", &BTreeMap::new())));
        let elsewhere = Dependency {
            namespace: Some("other".to_owned()),
            ..dependency
        };
        assert!(!means(&elsewhere, &subject("x", &labels)));
    }

    #[test]
    fn a_copy_that_is_about_to_leave_keeps_what_it_needs() {
        let mut leaving = binding(CONFIG, json!([{"name": "m2"}]));
        leaving["spec"]["gracefulEvictionTasks"] = json!([{"fromCluster": "m1", "purgeMode": "Gracefully"}, {"fromCluster": "m3", "purgeMode": "Directly"}]);
        let clusters: Vec<String> = Referrer::read(&leaving)
            .unwrap()
            .clusters
            .into_iter()
            .map(|share| share.cluster)
            .collect();
        assert_eq!(clusters, ["m2", "m1"]);
    }
}
