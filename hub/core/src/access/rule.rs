//! One rule of a role: what it allows, and whether it covers another one.

use super::Attributes;
use serde_json::{Map, Value, json};
use std::fmt;

/// Matches everything.
const ALL: &str = "*";

/// A policy rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// Verbs, or `*`.
    pub verbs: Vec<String>,
    /// API groups, or `*`.
    pub groups: Vec<String>,
    /// Resources, `resource/subresource`, `*/subresource` or `*`.
    pub resources: Vec<String>,
    /// Names; empty means every object.
    pub names: Vec<String>,
    /// Paths, also with a `*` at their end.
    pub paths: Vec<String>,
}

/// Whether a list has an entry.
fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == wanted)
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    has(list, ALL) || has(list, wanted)
}

fn covers_all(owner: &[String], wanted: &[String]) -> bool {
    has(owner, ALL) || wanted.iter().all(|w| has(owner, w))
}

fn resource_matches(resources: &[String], combined: &str, subresource: &str) -> bool {
    resources.iter().any(|rule| {
        rule == ALL
            || rule == combined
            || (!subresource.is_empty() && rule.strip_prefix("*/") == Some(subresource))
    })
}

fn path_matches(rule: &str, path: &str) -> bool {
    rule == ALL
        || rule == path
        || rule
            .strip_suffix('*')
            .is_some_and(|prefix| path.starts_with(prefix))
}

impl Rule {
    /// A rule about resources.
    pub fn of(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Rule {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        Rule {
            verbs: own(verbs),
            groups: own(groups),
            resources: own(resources),
            ..Rule::default()
        }
    }

    /// A rule about paths.
    pub fn of_paths(verbs: &[&str], paths: &[&str]) -> Rule {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        Rule {
            verbs: own(verbs),
            paths: own(paths),
            ..Rule::default()
        }
    }

    /// Reads a rule; what is not text is left out (the schema refuses it earlier).
    pub fn read(value: &Value) -> Rule {
        let list = |key: &str| -> Vec<String> {
            let items = value.get(key).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        Rule {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            paths: list("nonResourceURLs"),
        }
    }

    /// Reads the rules of a role.
    pub fn read_all(role: &Value) -> Vec<Rule> {
        let rules = role.get("rules").and_then(Value::as_array).into_iter().flatten();
        rules.map(Rule::read).collect()
    }

    /// The rule as it stands in a role or a review.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        out.insert("verbs".to_owned(), json!(self.verbs));
        for (key, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !list.is_empty() {
                out.insert(key.to_owned(), json!(list));
            }
        }
        Value::Object(out)
    }

    /// Whether it allows a wish.
    pub fn allows(&self, wish: &Attributes) -> bool {
        if !has_or_all(&self.verbs, &wish.verb) {
            return false;
        }
        if let Some(path) = &wish.path {
            return self.paths.iter().any(|rule| path_matches(rule, path));
        }
        has_or_all(&self.groups, &wish.group)
            && resource_matches(&self.resources, &wish.combined(), &wish.subresource)
            && (self.names.is_empty() || has(&self.names, &wish.name))
    }

    /// Whether everything another rule allows is allowed by this one alone.
    pub fn covers(&self, other: &Rule) -> bool {
        let resource = |wanted: &String| {
            has(&self.resources, wanted)
                || wanted
                    .split_once('/')
                    .is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")))
        };
        let resources = has(&self.resources, ALL) || other.resources.iter().all(resource);
        let names = if other.names.is_empty() {
            self.names.is_empty()
        } else {
            self.names.is_empty() || other.names.iter().all(|n| has(&self.names, n))
        };
        let paths = other.paths.iter().all(|wanted| {
            self.paths.iter().any(|owned| {
                owned == wanted
                    || owned
                        .strip_suffix('*')
                        .is_some_and(|prefix| wanted.starts_with(prefix))
            })
        });
        covers_all(&self.verbs, &other.verbs)
            && covers_all(&self.groups, &other.groups)
            && resources
            && names
            && paths
    }

    /// How many single permissions it consists of.
    pub(super) fn size(&self) -> usize {
        let at_least_one = |n: usize| n.max(1);
        let resources = self
            .groups
            .len()
            .saturating_mul(self.resources.len())
            .saturating_mul(at_least_one(self.names.len()));
        self.verbs
            .len()
            .saturating_mul(resources.saturating_add(self.paths.len()))
    }

    /// The rule as single permissions: one verb with one group, resource and name, or with one path.
    pub(super) fn single(&self) -> impl Iterator<Item = Rule> + '_ {
        let names: Vec<String> = if self.names.is_empty() {
            vec![String::new()]
        } else {
            self.names.clone()
        };
        let one = |s: &String| vec![s.clone()];
        let mut out = Vec::new();
        for verb in &self.verbs {
            for group in &self.groups {
                for resource in &self.resources {
                    for name in &names {
                        out.push(Rule {
                            verbs: one(verb),
                            groups: one(group),
                            resources: one(resource),
                            names: if name.is_empty() { Vec::new() } else { one(name) },
                            paths: Vec::new(),
                        });
                    }
                }
            }
            for path in &self.paths {
                out.push(Rule {
                    verbs: one(verb),
                    paths: one(path),
                    ..Rule::default()
                });
            }
        }
        out.into_iter()
    }
}

impl fmt::Display for Rule {
    /// As the API server lists what is missing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: &[String]| {
            let quoted: Vec<String> = items.iter().map(|i| format!("{i:?}")).collect();
            format!("[{}]", quoted.join(", "))
        };
        let mut parts = Vec::new();
        for (name, items) in [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.names),
            ("NonResourceURLs", &self.paths),
            ("Verbs", &self.verbs),
        ] {
            if !items.is_empty() {
                parts.push(format!("{name}:{}", list(items)));
            }
        }
        write!(f, "{{{}}}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_allows() {
        let wish = |verb: &str, group: &str, resource: &str, name: &str| {
            let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
            Attributes::resource(verb, group, resource, "ns", name).with_subresource(sub)
        };
        let pods = Rule::of(&["get", "list"], &[""], &["pods", "*/scale"]);
        let mut named = Rule::of(&["get"], &["*"], &["*"]);
        named.names = vec!["web".to_owned()];
        let table = [
            (&pods, wish("get", "", "pods", "a"), true),
            (&pods, wish("get", "", "pods/log", "a"), false),
            (&pods, wish("list", "", "deployments/scale", ""), true),
            (&pods, wish("delete", "", "pods", "a"), false),
            (&pods, wish("get", "apps", "pods", "a"), false),
            (&named, wish("get", "apps", "deployments/status", "web"), true),
            (&named, wish("get", "apps", "deployments", "other"), false),
            (&named, wish("get", "apps", "deployments", ""), false),
            (&named, Attributes::path("get", "/metrics"), false),
        ];
        for (rule, wish, expected) in table {
            assert_eq!(rule.allows(&wish), expected, "{rule} {wish:?}");
        }
        let paths = Rule::of_paths(&["get"], &["/healthz", "/apis/*"]);
        for (path, expected) in [
            ("/healthz", true),
            ("/healthz/x", false),
            ("/apis/apps", true),
            ("/api", false),
        ] {
            assert_eq!(paths.allows(&Attributes::path("get", path)), expected, "{path}");
        }
    }

    #[test]
    fn a_rule_that_was_written_is_read_back() {
        let mut rule = Rule::of(&["get"], &["", "apps"], &["pods"]);
        rule.names = vec!["a".to_owned()];
        assert_eq!(Rule::read(&rule.to_value()), rule);
        assert_eq!(rule.single().count(), rule.size());
    }
}
