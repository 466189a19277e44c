//! Taints of a Cluster as `pinnace cluster taint`, `cordon` and `uncordon` change them.

use hub_core::cluster::Taint;
use hub_core::policy::ParsedTaints;
use serde_json::{Value, json};

/// The taint by which a cordoned cluster gets nothing new.
const CORDON: &str = "cluster.karmada.io/unschedulable";

/// What `cordon` adds.
pub(super) fn cordon() -> ParsedTaints {
    ParsedTaints {
        add: vec![cordon_taint()],
        remove: Vec::new(),
    }
}

/// What `uncordon` removes.
pub(super) fn uncordon() -> ParsedTaints {
    ParsedTaints {
        add: Vec::new(),
        remove: vec![cordon_taint()],
    }
}

fn cordon_taint() -> Taint {
    Taint {
        key: CORDON.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    }
}

/// The taints of a Cluster after a change; what others wrote into one that stays is kept.
///
/// # Errors
/// One that is to be removed is not there; one that is to be added has another value and `overwrite` was not said.
pub(super) fn changed(cluster: &Value, change: &ParsedTaints, overwrite: bool) -> anyhow::Result<Vec<Value>> {
    let mut taints: Vec<Value> = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let is = |taint: &Value, other: &Taint| {
        taint["key"] == other.key && (other.effect.is_empty() || taint["effect"] == other.effect)
    };
    for gone in &change.remove {
        let before = taints.len();
        taints.retain(|taint| !is(taint, gone));
        let effect = Some(&gone.effect).filter(|effect| !effect.is_empty());
        let effect = effect.map_or(String::new(), |effect| format!(":{effect}"));
        anyhow::ensure!(taints.len() < before, "there is no taint {}{effect}", gone.key);
    }
    for new in &change.add {
        match taints.iter_mut().find(|taint| is(taint, new)) {
            Some(taint) if taint["value"].as_str().unwrap_or_default() == new.value => {}
            Some(taint) if overwrite => taint["value"] = json!(new.value),
            Some(taint) => anyhow::bail!(
                "there is a taint {}:{} with the value {}; say --overwrite to change it",
                new.key,
                new.effect,
                taint["value"]
            ),
            None => {
                let mut taint = json!({"key": new.key, "effect": new.effect});
                if !new.value.is_empty() {
                    taint["value"] = json!(new.value);
                }
                taints.push(taint);
            }
        }
    }
    Ok(taints)
}

#[cfg(test)]
mod tests {
    use hub_core::policy::parse_taints;

    use super::*;

    fn after(texts: &[&str], overwrite: bool) -> anyhow::Result<Vec<Value>> {
        let cluster = json!({"spec": {"taints": [
            {"key": "maintenance", "value": "true", "effect": "NoSchedule"},
            {"key": "maintenance", "value": "true", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
        ]}});
        changed(&cluster, &parse_taints(texts.iter().copied())?, overwrite)
    }

    #[test]
    fn one_effect_or_all_of_a_key() {
        assert_eq!(after(&["maintenance:NoSchedule-"], false).unwrap().len(), 1);
        assert!(after(&["maintenance-"], false).unwrap().is_empty());
        assert!(after(&["other-"], false).is_err());
        assert!(after(&["maintenance:PreferNoSchedule-"], false).is_err());
    }

    #[test]
    fn another_value_only_when_told() {
        let same = after(&["maintenance=true:NoExecute"], false).unwrap();
        assert_eq!(same[1]["timeAdded"], "2026-01-01T00:00:00Z");
        assert!(after(&["maintenance=soon:NoSchedule"], false).is_err());
        let changed = after(&["maintenance=soon:NoSchedule", "a:NoExecute"], true).unwrap();
        assert_eq!(changed[0]["value"], "soon");
        assert_eq!(changed[2], json!({"key": "a", "effect": "NoExecute"}));
    }

    #[test]
    fn cordon_and_back() {
        let cordoned = changed(&json!({}), &cordon(), false).unwrap();
        assert_eq!(cordoned, [json!({"key": CORDON, "effect": "NoSchedule"})]);
        let cluster = json!({"spec": {"taints": cordoned}});
        assert_eq!(changed(&cluster, &cordon(), false).unwrap().len(), 1);
        assert!(changed(&cluster, &uncordon(), false).unwrap().is_empty());
    }
}
