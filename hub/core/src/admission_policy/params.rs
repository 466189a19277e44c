//! Objects that a binding hands to its policy as `params`.

use super::compile::{Binding, Policy};
use super::{Request, World};
use crate::limits::MAX_POLICY_PARAMS;
use serde_json::Value;
use std::collections::BTreeMap;

const NONE: &str = "no params found for policy binding with `Deny` parameterNotFoundAction";

/// What the policy is asked with, once for each: nothing, or parameters.
///
/// # Errors
/// Why the policy or the binding cannot act.
pub(super) fn of(
    policy: &Policy,
    binding: &Binding,
    request: &Request<'_>,
    world: &dyn World,
) -> Result<Vec<Option<Value>>, String> {
    let Some((api_version, kind)) = &policy.param_kind else {
        return Ok(vec![None]);
    };
    let Some(reference) = &binding.param else {
        // Nothing is referred to: `params` is null.
        return Ok(vec![Some(Value::Null)]);
    };
    let Some(is_namespaced) = world.is_namespaced(api_version, kind) else {
        return Err(format!(
            "failed to configure policy: failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'"
        ));
    };
    let wrong = |why: &str| Err(format!("failed to configure binding: {why}"));
    let namespace = match (is_namespaced, reference.namespace.as_str()) {
        (true, "") if request.namespace.is_empty() => {
            return wrong(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources",
            );
        }
        (true, "") => request.namespace,
        (false, given) if !given.is_empty() => {
            return wrong("paramRef.namespace must not be provided for a cluster-scoped `paramKind`");
        }
        (_, given) => given,
    };
    let found: Vec<Value> = match &reference.selector {
        Some(selector) => {
            let all = world.objects(api_version, kind, is_namespaced.then_some(namespace));
            let labels = |object: &Value| -> BTreeMap<String, String> {
                let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
                let pairs = labels.into_iter().flatten();
                pairs
                    .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
                    .collect()
            };
            let selected = all.into_iter().filter(|object| selector.matches(&labels(object)));
            selected.take(MAX_POLICY_PARAMS + 1).collect()
        }
        None => world
            .object(api_version, kind, namespace, &reference.name)
            .into_iter()
            .collect(),
    };
    if found.len() > MAX_POLICY_PARAMS {
        return wrong(&format!("more than {MAX_POLICY_PARAMS} params are selected"));
    }
    if found.is_empty() {
        return if reference.is_needed {
            wrong(NONE)
        } else {
            Ok(Vec::new())
        };
    }
    Ok(found.into_iter().map(Some).collect())
}
