//! GetReplicas: replica count and what one replica requires of a node.

use std::collections::BTreeMap;

use serde_json::Value;
use shared::object::Quantity;

use super::Builtin;
use crate::fields::{get as field, int, list, map, text};
use crate::quantity::{Form, print};
use crate::{InterpretError, NodeClaim, ReplicaRequirements, Replicas};

/// Count and requirements of one template.
pub(super) fn get(kind: Builtin, template: &Value, quota: bool) -> Result<Replicas, InterpretError> {
    let pod = match kind {
        Builtin::Pod => field(template, "spec")?,
        _ => field(template, "spec.template.spec")?,
    };
    let replicas = match kind {
        Builtin::Pod => 1,
        Builtin::Job => {
            let parallelism = int(template, "spec.parallelism")?.unwrap_or(0);
            int(template, "spec.completions")?.map_or(parallelism, |completions| completions.min(parallelism))
        }
        _ => int(template, "spec.replicas")?.unwrap_or(0),
    };
    let requirements = match pod {
        None => None,
        Some(pod) => requirements(pod, quota)?,
    };
    Ok(Replicas {
        replicas,
        requirements,
    })
}

/// What a pod with this `spec` requires of a node; `None`: nothing.
pub(crate) fn requirements(pod: &Value, quota: bool) -> Result<Option<ReplicaRequirements>, InterpretError> {
    let node_claim = node_claim(pod)?;
    let resource_request = requests(pod)?;
    if node_claim.is_none() && resource_request.is_empty() {
        return Ok(None);
    }
    let mut requirements = ReplicaRequirements {
        node_claim,
        resource_request,
        namespace: None,
        priority_class_name: None,
    };
    if quota {
        let class = text(pod, "priorityClassName")?;
        requirements.priority_class_name = (!class.is_empty()).then(|| class.to_owned());
    }
    Ok(Some(requirements))
}

/// Which nodes a pod with these fields can run on.
pub(crate) fn node_claim(pod: &Value) -> Result<Option<NodeClaim>, InterpretError> {
    let hard = field(
        pod,
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    )?
    .cloned();
    let selector = map(pod, "nodeSelector")?;
    let tolerations = list(pod, "tolerations")?;
    if hard.is_none() && selector.is_none() && tolerations.is_empty() {
        return Ok(None);
    }
    let mut node_selector = BTreeMap::new();
    for (key, value) in selector.into_iter().flatten() {
        let value = value.as_str().ok_or_else(|| InterpretError::WrongType {
            path: format!("nodeSelector.{key}"),
            expected: "a string",
        })?;
        node_selector.insert(key.clone(), value.to_owned());
    }
    Ok(Some(NodeClaim {
        hard_node_affinity: hard,
        node_selector,
        tolerations: tolerations.to_vec(),
    }))
}

type Amounts = BTreeMap<String, Quantity>;

/// Sum over containers, per resource at least what each init container needs, plus overhead.
fn requests(pod: &Value) -> Result<BTreeMap<String, String>, InterpretError> {
    let mut total = Amounts::new();
    for container in list(pod, "containers")? {
        for (name, amount) in container_requests(container)? {
            let sum = total.entry(name).or_default();
            *sum = sum.plus(amount);
        }
    }
    for container in list(pod, "initContainers")? {
        for (name, amount) in container_requests(container)? {
            let most = total.entry(name).or_default();
            *most = amount.max(*most);
        }
    }
    for (name, amount) in amounts(pod, "overhead")? {
        let sum = total.entry(name).or_default();
        *sum = sum.plus(amount);
    }
    Ok(total
        .into_iter()
        .filter_map(|(name, amount)| {
            let printed = print(amount, form_of(&name)?);
            (amount > Quantity::default()).then_some((name, printed))
        })
        .collect())
}

/// Requests of a container; where one is missing, its limit.
fn container_requests(container: &Value) -> Result<Amounts, InterpretError> {
    let mut amounts_of = amounts(container, "resources.limits")?;
    amounts_of.extend(amounts(container, "resources.requests")?);
    Ok(amounts_of)
}

fn amounts(value: &Value, path: &str) -> Result<Amounts, InterpretError> {
    let mut result = Amounts::new();
    for (name, amount) in map(value, path)?.into_iter().flatten() {
        let wrong = || InterpretError::WrongType {
            path: format!("{path}.{name}"),
            expected: "a resource quantity",
        };
        let parsed = match amount {
            Value::String(text) => text.parse().map_err(|_| wrong())?,
            Value::Number(number) => number.to_string().parse().map_err(|_| wrong())?,
            _ => return Err(wrong()),
        };
        result.insert(name.clone(), parsed);
    }
    Ok(result)
}

/// How a resource is printed; `None`: a name that schedulers do not know (no prefix, not native).
fn form_of(name: &str) -> Option<Form> {
    match name {
        "cpu" | "pods" => Some(Form::Decimal),
        "memory" | "ephemeral-storage" => Some(Form::Binary),
        _ if name.starts_with("hugepages-") => Some(Form::Binary),
        _ if name.starts_with("attachable-volumes-") => Some(Form::Decimal),
        // Extended and prefixed native names; `requests.` is the spelling of quotas.
        _ if name.contains('/') && (!name.starts_with("requests.") || name.contains("kubernetes.io/")) => {
            Some(Form::Decimal)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn init_containers_raise_the_maximum_and_overhead_comes_on_top() {
        let pod = json!({
            "containers": [{"resources": {"requests": {"cpu": "100m", "memory": "1G"}}}],
            "initContainers": [{"resources": {"requests": {"cpu": "2"}}}, {"resources": {"limits": {"cpu": "1"}}}],
            "overhead": {"cpu": "50m", "odd": "1"},
        });
        let got = requests(&pod).expect("readable");
        let want = [("cpu", "2050m"), ("memory", "1000000000")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(got, BTreeMap::from(want));
    }
}
