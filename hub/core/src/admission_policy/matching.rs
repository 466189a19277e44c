//! Which writes a policy or binding is about.

use super::compile::{items, text};
use super::{Request, World};
use crate::policy::LabelSelector;
use crate::types::TypeTable;
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

    fn matches(&self, request: &Request<'_>, is_exact: bool) -> bool {
        let has = |list: &[String], word: &str| list.iter().any(|w| w == "*" || w == word);
        let resource = request.resource;
        let is_in_scope = match self.scope.as_str() {
            "Cluster" => !resource.namespaced,
            "Namespaced" => resource.namespaced,
            _ => true,
        };
        // A version stands for all in which the same objects are served.
        let stands_for = |version: &String| {
            !is_exact
                && TypeTable::built_in()
                    .resource(&resource.group, version, &resource.plural)
                    .is_some()
        };
        is_in_scope
            && has(&self.operations, request.operation)
            && has(&self.groups, &resource.group)
            && (has(&self.versions, &resource.version) || self.versions.iter().any(stands_for))
            && self
                .resources
                .iter()
                .any(|pattern| is_meant(pattern, &resource.plural, request.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }
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

    /// Whether the write is meant. `all` says what no rules at all mean.
    pub(super) fn matches(&self, request: &Request<'_>, world: &dyn World, all: bool) -> bool {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(request, self.is_exact));
        let is_named = any(&self.rules) || (all && self.rules.is_empty());
        is_named && !any(&self.excluded) && self.is_in_namespace(request, world) && self.is_selected(request)
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
