//! Discovery documents, plain and aggregated, made from the resources that are served: those of the type table and custom
//! resources.

use crate::types::{Resource, Subresource, groups};
use serde_json::{Value, json};

/// Which of the two roots of discovery is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Root {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all named groups.
    Named,
}

/// The plain document at `/api`.
pub fn core_versions(address: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]})
}

/// The plain document at `/apis`.
pub fn group_list(served: &[&Resource]) -> Value {
    let all = groups(served.iter().copied());
    let named = all.into_iter().filter(|(name, _)| !name.is_empty());
    let bodies: Vec<Value> = named
        .map(|(name, versions)| group_body(name, &versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": bodies})
}

/// The plain document at `/apis/GROUP`; `None` if there is no such group.
pub fn group(served: &[&Resource], name: &str) -> Option<Value> {
    let (name, versions) = groups(served.iter().copied())
        .into_iter()
        .find(|(n, _)| *n == name && !n.is_empty())?;
    let mut body = group_body(name, &versions);
    body["kind"] = json!("APIGroup");
    body["apiVersion"] = json!("v1");
    Some(body)
}

fn group_body(name: &str, versions: &[&str]) -> Value {
    let entry = |v: &str| json!({"groupVersion": format!("{name}/{v}"), "version": v});
    let all: Vec<Value> = versions.iter().map(|v| entry(v)).collect();
    json!({"name": name, "versions": all, "preferredVersion": versions.first().map(|v| entry(v))})
}

/// The plain document at `/api/v1` or `/apis/GROUP/VERSION`; `None` if there is no such version.
pub fn resource_list(served: &[&Resource], group: &str, version: &str) -> Option<Value> {
    let mut lines = Vec::new();
    let mut api_version = None;
    for resource in of_version(served, group, version) {
        api_version.get_or_insert_with(|| resource.api_version());
        lines.push(resource_line(resource));
        lines.extend(
            resource
                .subresources
                .iter()
                .map(|s| subresource_line(resource, s)),
        );
    }
    let api_version = api_version?;
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": lines}),
    )
}

fn of_version<'r>(served: &[&'r Resource], group: &str, version: &str) -> impl Iterator<Item = &'r Resource> {
    served
        .iter()
        .copied()
        .filter(move |r| &*r.group == group && &*r.version == version)
}

fn resource_line(r: &Resource) -> Value {
    let mut line = json!({"name": r.plural, "singularName": r.singular, "namespaced": r.namespaced, "kind": r.kind,
        "verbs": r.verbs});
    if !r.short_names.is_empty() {
        line["shortNames"] = json!(r.short_names);
    }
    if !r.categories.is_empty() {
        line["categories"] = json!(r.categories);
    }
    if !r.storage_version_hash.is_empty() {
        line["storageVersionHash"] = json!(r.storage_version_hash);
    }
    line
}

fn subresource_line(r: &Resource, s: &Subresource) -> Value {
    let mut line = json!({"name": format!("{}/{}", r.plural, s.name), "singularName": "", "namespaced": r.namespaced,
        "kind": s.kind, "verbs": s.verbs});
    if (&*s.group, &*s.version) != (&*r.group, &*r.version) {
        line["group"] = json!(s.group);
        line["version"] = json!(s.version);
    }
    line
}

/// The aggregated document; its shape is the same in `v2` and `v2beta1` of apidiscovery.k8s.io.
pub fn aggregated(served: &[&Resource], root: Root, version: &str) -> Value {
    let wanted = groups(served.iter().copied())
        .into_iter()
        .filter(|(name, _)| name.is_empty() == (root == Root::Core));
    let items: Vec<Value> = wanted
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|v| {
                    let resources: Vec<Value> = of_version(served, name, v).map(discovered).collect();
                    json!({"version": v, "freshness": "Current", "resources": resources})
                })
                .collect();
            let metadata = if name.is_empty() {
                json!({})
            } else {
                json!({"name": name})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {},
        "items": items})
}

fn discovered(r: &Resource) -> Value {
    let subresources: Vec<Value> = r
        .subresources
        .iter()
        .map(|s| {
            json!({"subresource": s.name, "verbs": s.verbs,
                "responseKind": {"group": s.group, "version": s.version, "kind": s.kind}})
        })
        .collect();
    let mut line = json!({"resource": r.plural, "singularResource": r.singular,
        "scope": if r.namespaced { "Namespaced" } else { "Cluster" }, "verbs": r.verbs,
        "responseKind": {"group": r.group, "version": r.version, "kind": r.kind}});
    for (key, list) in [("shortNames", &r.short_names), ("categories", &r.categories)] {
        if !list.is_empty() {
            line[key] = json!(list);
        }
    }
    if !subresources.is_empty() {
        line["subresources"] = Value::Array(subresources);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TypeTable;

    #[test]
    fn the_core_group_stands_alone() {
        let table: &[&Resource] = &TypeTable::built_in().resources().iter().collect::<Vec<_>>();
        let core = aggregated(table, Root::Core, "v2");
        assert_eq!(core["items"].as_array().map(Vec::len), Some(1));
        assert_eq!(core["items"][0]["versions"][0]["version"], "v1");
        let named = aggregated(table, Root::Named, "v2");
        assert!(named["items"][0]["metadata"]["name"].is_string());
        let names: Vec<&str> = named["items"]
            .as_array()
            .expect("items")
            .iter()
            .filter_map(|i| i["metadata"]["name"].as_str())
            .collect();
        assert!(
            names.contains(&"apps") && names.contains(&"policy.karmada.io"),
            "{names:?}"
        );
    }

    #[test]
    fn plain_documents_agree_with_the_aggregated_one() {
        let table: &[&Resource] = &TypeTable::built_in().resources().iter().collect::<Vec<_>>();
        let apps = resource_list(table, "apps", "v1").expect("apps/v1");
        let lines = apps["resources"].as_array().expect("resources");
        let deployment = lines
            .iter()
            .find(|l| l["name"] == "deployments")
            .expect("deployments");
        assert_eq!(deployment["shortNames"], json!(["deploy"]));
        assert_eq!(deployment["singularName"], "deployment");
        let scale = lines
            .iter()
            .find(|l| l["name"] == "deployments/scale")
            .expect("scale");
        assert_eq!(
            (&scale["group"], &scale["kind"]),
            (&json!("autoscaling"), &json!("Scale"))
        );
        assert!(
            lines
                .iter()
                .all(|l| !l["name"].as_str().unwrap_or_default().ends_with("/exec"))
        );
        assert_eq!(
            group(table, "autoscaling").expect("group")["preferredVersion"]["version"],
            "v2"
        );
        assert_eq!(resource_list(table, "apps", "v9"), None);
        assert_eq!(group(table, "none"), None);
    }
}
