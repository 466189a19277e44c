//! Rules of roles and bindings (source: the validation of `rbac.authorization.k8s.io`).

use crate::access::RBAC_GROUP;
use crate::status_error::Cause;
use crate::types::Resource;
use serde_json::{Value, json};

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn check(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if &*resource.group != RBAC_GROUP {
        return causes;
    }
    match &*resource.plural {
        "roles" | "clusterroles" => {
            for (at, rule) in list(object, "rules").iter().enumerate() {
                check_rule(resource.namespaced, &format!("rules[{at}]"), rule, &mut causes);
            }
        }
        _ => check_binding(resource.namespaced, object, &mut causes),
    }
    causes
}

fn check_rule(namespaced: bool, at: &str, rule: &Value, causes: &mut Vec<Cause>) {
    if list(rule, "verbs").is_empty() {
        let why = "verbs must contain at least one value";
        causes.push(Cause::required(format!("{at}.verbs"), why));
    }
    let has = |key: &str| !list(rule, key).is_empty();
    if has("nonResourceURLs") {
        if namespaced {
            let why = "namespaced rules cannot apply to non-resource URLs";
            causes.push(Cause::invalid(
                format!("{at}.nonResourceURLs"),
                &json!(list(rule, "nonResourceURLs")),
                why,
            ));
        }
        if has("apiGroups") || has("resources") || has("resourceNames") {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            causes.push(Cause::invalid(
                format!("{at}.nonResourceURLs"),
                &json!(list(rule, "nonResourceURLs")),
                why,
            ));
        }
        return;
    }
    if !has("apiGroups") {
        let why = "resource rules must supply at least one api group";
        causes.push(Cause::required(format!("{at}.apiGroups"), why));
    }
    if !has("resources") {
        let why = "resource rules must supply at least one resource";
        causes.push(Cause::required(format!("{at}.resources"), why));
    }
}

fn check_binding(namespaced: bool, object: &Value, causes: &mut Vec<Cause>) {
    let role = object.get("roleRef").cloned().unwrap_or_default();
    let group = text(&role, "apiGroup");
    if !group.is_empty() && group != RBAC_GROUP {
        causes.push(Cause::not_supported(
            "roleRef.apiGroup",
            &json!(group),
            &[RBAC_GROUP],
        ));
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    let kind = text(&role, "kind");
    if !kinds.contains(&kind) {
        causes.push(Cause::not_supported("roleRef.kind", &json!(kind), kinds));
    }
    if text(&role, "name").is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    }
    for (at, subject) in list(object, "subjects").iter().enumerate() {
        let at = format!("subjects[{at}]");
        if text(subject, "name").is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        match text(subject, "kind") {
            "ServiceAccount" => {
                if !namespaced && text(subject, "namespace").is_empty() {
                    causes.push(Cause::required(format!("{at}.namespace"), ""));
                }
            }
            "User" | "Group" => {}
            other => {
                let known = ["ServiceAccount", "User", "Group"];
                causes.push(Cause::not_supported(format!("{at}.kind"), &json!(other), &known));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TypeTable;

    #[test]
    fn rules_and_bindings_are_checked() {
        let check = |plural: &str, object: Value| -> Vec<String> {
            let resource = TypeTable::built_in()
                .preferred(RBAC_GROUP, plural)
                .expect("a kind");
            check(resource, &object).into_iter().map(|c| c.field).collect()
        };
        let role = |rule: Value| json!({"rules": [rule]});
        let good = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        assert_eq!(check("roles", role(good)), [""; 0]);
        assert_eq!(
            check("roles", role(json!({}))),
            ["rules[0].verbs", "rules[0].apiGroups", "rules[0].resources"]
        );
        let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]});
        assert_eq!(check("clusterroles", role(paths.clone())), [""; 0]);
        assert_eq!(check("roles", role(paths)), ["rules[0].nonResourceURLs"]);
        let binding = |kind: &str, subject: Value| json!({"roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": "r"}, "subjects": [subject]});
        let account = json!({"kind": "ServiceAccount", "name": "a"});
        assert_eq!(check("rolebindings", binding("Role", account.clone())), [""; 0]);
        assert_eq!(
            check("clusterrolebindings", binding("Role", account)),
            ["roleRef.kind", "subjects[0].namespace"]
        );
        let odd = json!({"kind": "Robot"});
        assert_eq!(
            check("rolebindings", binding("ClusterRole", odd)),
            ["subjects[0].name", "subjects[0].kind"]
        );
    }
}
