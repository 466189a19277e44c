//! Which writes a policy or binding is about.

use super::compile::{items, text};
use super::{Request, World};
use crate::policy::LabelSelector;
use crate::types::{Resource, TypeTable};
use serde_json::Value;
use std::collections::BTreeMap;

/// `matchConstraints` or `matchResources`.
#[derive(Debug, Default)]
pub(super) struct Match {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    namespaces: LabelSelector,
    objects: LabelSelector,
    is_exact: bool,
}

#[derive(Debug)]
struct Rule {
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    operations: Vec<String>,
    names: Vec<String>,
    scope: String,
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    let list = items(value, key).iter();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

impl Rule {
    fn read(value: &Value) -> Rule {
        Rule {
            groups: texts(value, "/apiGroups"),
            versions: texts(value, "/apiVersions"),
            resources: texts(value, "/resources"),
            operations: texts(value, "/operations"),
            names: texts(value, "/resourceNames"),
            scope: text(value, "/scope").to_owned(),
        }
    }

    /// Whether the rule means the write, if it is one of that resource.
    fn matches(&self, request: &Request<'_>, resource: &Resource) -> bool {
        let has = |list: &[String], word: &str| list.iter().any(|w| w == "*" || w == word);
        let is_in_scope = match self.scope.as_str() {
            "Cluster" => !resource.namespaced,
            "Namespaced" => resource.namespaced,
            _ => true,
        };
        is_in_scope
            && has(&self.operations, request.operation)
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self
                .resources
                .iter()
                .any(|pattern| is_meant(pattern, &resource.plural, request.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }
}

/// How a write is meant.
#[derive(Debug)]
pub(super) enum Meant {
    /// Not at all.
    Not,
    /// As it is.
    AsIs,
    /// As a write of the same object through another version or group.
    Through(Box<Resource>),
}

/// The other resources through which the same objects are served.
fn others(resource: &Resource) -> Vec<Resource> {
    let is_other = |group: &str, version: &str| (group, version) != (&*resource.group, &*resource.version);
    if let Some(custom) = &resource.custom {
        let versions = custom.all.iter().filter_map(|(name, _)| name.split_once('/'));
        let others = versions.filter(|(group, version)| is_other(group, version));
        return others
            .map(|(_, version)| Resource {
                version: version.into(),
                ..resource.clone()
            })
            .collect();
    }
    let all = TypeTable::built_in().resources().iter();
    all.filter(|r| r.storage == resource.storage && is_other(&r.group, &r.version))
        .cloned()
        .collect()
}

/// `pods`, `pods/status`, `pods/*`, `*/scale`, `*` (no subresources) and `*/*`.
fn is_meant(pattern: &str, plural: &str, subresource: &str) -> bool {
    let (resource, below) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resource == "*" || resource == plural) && (below == subresource || below == "*")
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let pairs = labels.into_iter().flatten();
    pairs
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect()
}

fn selector(value: &Value, key: &str) -> LabelSelector {
    let given = value.get(key).filter(|s| s.is_object());
    given
        .and_then(|s| serde_json::from_value(s.clone()).ok())
        .unwrap_or_default()
}

fn is_open(selector: &LabelSelector) -> bool {
    selector.match_labels.is_empty() && selector.match_expressions.is_empty()
}

impl Match {
    pub(super) fn read(value: &Value) -> Match {
        Match {
            rules: items(value, "/resourceRules").iter().map(Rule::read).collect(),
            excluded: items(value, "/excludeResourceRules")
                .iter()
                .map(Rule::read)
                .collect(),
            namespaces: selector(value, "namespaceSelector"),
            objects: selector(value, "objectSelector"),
            is_exact: text(value, "/matchPolicy") == "Exact",
        }
    }

    /// How the write is meant. `all` says what no rules at all mean.
    pub(super) fn meant(&self, request: &Request<'_>, world: &dyn World, all: bool) -> Meant {
        let others = match self.is_exact {
            true => Vec::new(),
            false => others(request.resource),
        };
        let find = |rules: &[Rule]| {
            for rule in rules {
                if rule.matches(request, request.resource) {
                    return Meant::AsIs;
                }
                if let Some(other) = others.iter().find(|other| rule.matches(request, other)) {
                    return Meant::Through(Box::new(other.clone()));
                }
            }
            Meant::Not
        };
        let named = match all && self.rules.is_empty() {
            true => Meant::AsIs,
            false => find(&self.rules),
        };
        let is_meant = !matches!(named, Meant::Not)
            && matches!(find(&self.excluded), Meant::Not)
            && self.is_in_namespace(request, world)
            && self.is_selected(request);
        if is_meant { named } else { Meant::Not }
    }

    /// Whether the write is meant, however it is.
    pub(super) fn matches(&self, request: &Request<'_>, world: &dyn World, all: bool) -> bool {
        !matches!(self.meant(request, world, all), Meant::Not)
    }

    fn is_in_namespace(&self, request: &Request<'_>, world: &dyn World) -> bool {
        if is_open(&self.namespaces) {
            return true;
        }
        let resource = request.resource;
        if resource.group.is_empty() && &*resource.plural == "namespaces" {
            // A namespace stands for itself.
            let object = request.object.or(request.old);
            return object.is_some_and(|object| self.namespaces.matches(&labels(object)));
        }
        if !resource.namespaced {
            return true;
        }
        let namespace = world.namespace(request.namespace);
        namespace.is_some_and(|namespace| self.namespaces.matches(&labels(&namespace)))
    }

    fn is_selected(&self, request: &Request<'_>) -> bool {
        if is_open(&self.objects) {
            return true;
        }
        let mut states = [request.object, request.old].into_iter().flatten();
        states.any(|object| self.objects.matches(&labels(object)))
    }
}
