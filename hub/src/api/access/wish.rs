//! What a request wants to do, in the words of roles.

use super::super::request::{Address, Place, Query};
use hub_core::access::Attributes;
use hub_core::select::FieldSelector;

/// Group of this product's own calls.
const FLEET_GROUP: &str = "fleet.pinnace.dev";

/// The wish of a request.
pub(in crate::api) fn wish(verb: &str, method: &str, place: &Place, path: &str, query: &Query) -> Attributes {
    match place {
        Place::Resource(address) => of_resource(verb, address, query),
        Place::Fleet => of_fleet(verb, path),
        _ => Attributes::path(&method.to_ascii_lowercase(), path),
    }
}

fn of_resource(verb: &str, address: &Address, query: &Query) -> Attributes {
    let own = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut name = own(&address.name);
    if name.is_empty() && matches!(verb, "list" | "watch" | "deletecollection") {
        // A list of one named object is allowed to who may read it.
        let text = query.get("fieldSelector").unwrap_or_default();
        let selector = FieldSelector::parse(text, &address.group, &address.plural);
        name = selector
            .ok()
            .and_then(|s| s.exact_name().map(str::to_owned))
            .unwrap_or_default();
    }
    let mut namespace = own(&address.namespace);
    if address.group.is_empty() && address.plural == "namespaces" {
        // As in Kubernetes: who may do something in a namespace with namespaces may do it with this one.
        namespace.clone_from(&name);
    }
    Attributes {
        verb: verb.to_owned(),
        group: address.group.clone(),
        version: address.version.clone(),
        resource: address.plural.clone(),
        subresource: own(&address.subresource),
        namespace,
        name,
        path: None,
    }
}

/// `/apis/fleet.pinnace.dev/v1alpha1/...`: explanations are of a namespace, everything else is of the cluster.
fn of_fleet(verb: &str, path: &str) -> Attributes {
    let parts: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).skip(3).collect();
    let verb = match verb {
        // One object is read, not a list.
        "list" if parts.len() > 1 => "get",
        other => other,
    };
    match parts.as_slice() {
        [
            about @ ("explanations" | "renderings"),
            _kind,
            namespace,
            name,
            ..,
        ] => Attributes::resource("get", FLEET_GROUP, about, namespace, name),
        [resource, name, action] => {
            Attributes::resource(verb, FLEET_GROUP, resource, "", name).with_subresource(action)
        }
        [resource, name, ..] => Attributes::resource(verb, FLEET_GROUP, resource, "", name),
        [resource] => Attributes::resource(verb, FLEET_GROUP, resource, "", ""),
        [] => Attributes::path(verb, path),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::request::place;
    use super::*;

    #[test]
    fn wishes_are_read_from_paths() {
        let table = [
            ("get", "/api/v1/namespaces/a/pods/p/log", "", "get  pods/log a p"),
            ("list", "/api/v1/namespaces/a/pods", "", "list  pods a "),
            (
                "watch",
                "/api/v1/namespaces/a/pods",
                "fieldSelector=metadata.name%3Dx",
                "watch  pods a x",
            ),
            ("get", "/api/v1/namespaces/a", "", "get  namespaces a a"),
            (
                "create",
                "/apis/apps/v1/deployments",
                "",
                "create apps deployments  ",
            ),
            (
                "list",
                "/apis/fleet.pinnace.dev/v1alpha1/explanations/deploy/shop/web",
                "",
                "get fleet.pinnace.dev explanations shop web",
            ),
            (
                "create",
                "/apis/fleet.pinnace.dev/v1alpha1/clusters/a/revoke",
                "",
                "create fleet.pinnace.dev clusters/revoke  a",
            ),
        ];
        for (verb, path, query, expected) in table {
            let found = wish(verb, "GET", &place(path), path, &Query::parse(query));
            let text = format!(
                "{} {} {} {} {}",
                found.verb,
                found.group,
                found.combined(),
                found.namespace,
                found.name
            );
            assert_eq!(text, expected, "{path}");
        }
        let path = wish(
            "get",
            "GET",
            &place("/openapi/v3"),
            "/openapi/v3",
            &Query::default(),
        );
        assert_eq!(path, Attributes::path("get", "/openapi/v3"));
    }
}
