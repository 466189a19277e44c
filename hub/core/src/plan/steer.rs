//! Changes of single policies: an edit costs that policy, and what it concerns, not the world.

use std::sync::Arc;

use serde_json::Value;

use super::World;
use crate::policy::{AnyOverridePolicy, AnyPropagationPolicy, PolicyRef};

impl World {
    /// A propagation policy of either kind as it is stored now; none: it is gone.
    pub fn put_propagation(&mut self, reference: &PolicyRef, object: Option<&Value>) {
        let policies = Arc::make_mut(&mut self.policies);
        policies.remove(reference);
        let mut problem = None;
        match object.map(AnyPropagationPolicy::read) {
            Some(Ok(policy)) => policies.put(policy),
            Some(Err(error)) => problem = Some(error.to_string()),
            None => {}
        }
        self.note_unreadable(reference, problem);
    }

    /// An override policy of either kind as it is stored now; none: it is gone.
    pub fn put_override(&mut self, reference: &PolicyRef, object: Option<&Value>) {
        let mut rules: Vec<AnyOverridePolicy> = self.overrides.to_vec();
        rules.retain(|rule| rule.reference != *reference);
        let mut problem = None;
        match object.map(AnyOverridePolicy::read) {
            Some(Ok(rule)) => {
                let at = rules.partition_point(|other| other.reference < rule.reference);
                rules.insert(at, rule);
            }
            Some(Err(error)) => problem = Some(error.to_string()),
            None => {}
        }
        self.overrides = rules.into();
        self.note_unreadable(reference, problem);
    }

    fn note_unreadable(&mut self, reference: &PolicyRef, problem: Option<String>) {
        let known = self.unreadable.iter().any(|(other, _)| other == reference);
        if !known && problem.is_none() {
            return;
        }
        let mut unreadable = self.unreadable.to_vec();
        unreadable.retain(|(other, _)| other != reference);
        unreadable.extend(problem.map(|problem| (reference.clone(), problem)));
        self.unreadable = unreadable.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn policy(name: usize, version: usize) -> Value {
        let kinds = ["Deployment", "ConfigMap", "Service"];
        json!({
            "metadata": {"name": format!("p{name}"), "namespace": if name.is_multiple_of(3) { "" } else { "shop" }},
            "spec": {"priority": version, "resourceSelectors": [
                {"apiVersion": "v1", "kind": kinds[(name + version) % 3]}, {"apiVersion": "v1", "kind": kinds[version % 3]}]},
        })
    }

    fn reference(object: &Value) -> PolicyRef {
        PolicyRef {
            namespace: object["metadata"]["namespace"].as_str().unwrap().to_owned(),
            name: object["metadata"]["name"].as_str().unwrap().to_owned(),
        }
    }

    proptest! {
        #[test]
        fn changed_piece_by_piece_is_read_whole(steps in proptest::collection::vec((0..8_usize, 0..5_usize), 0..60)) {
            let mut world = World::default();
            let mut stored = std::collections::BTreeMap::new();
            for (name, version) in steps {
                let object = policy(name, version);
                // The last version means: deleted.
                let now = (version < 4).then_some(&object);
                world.put_propagation(&reference(&object), now);
                world.put_override(&reference(&object), now);
                match now {
                    Some(object) => stored.insert(reference(object), object.clone()),
                    None => stored.remove(&reference(&object)),
                };
            }
            let whole = World::read(stored.values(), stored.values(), [], Vec::new());
            prop_assert_eq!(format!("{:?}", world.overrides), format!("{:?}", whole.overrides));
            prop_assert_eq!(&*world.policies, &*whole.policies);
        }
    }
}
