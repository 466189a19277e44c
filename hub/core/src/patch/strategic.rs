//! Strategic merge patch: a merge patch that knows from the type table which lists merge, by which key, and that obeys
//! the directives `$patch`, `$retainKeys`, `$setElementOrder/…` and `$deleteFromPrimitiveList/…`.
//! Behaviour follows apimachinery `strategicpatch.StrategicMergePatch`, order of list items included.

use super::PatchError;
use crate::ownership::go_text;
use crate::types::{Field, Patch, Shape, TypeId, TypeTable};
use serde_json::{Map, Value};

type Members = Map<String, Value>;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch to an object of that type.
///
/// # Errors
/// A patch that is no object, an unknown directive, or a list item without its merge key.
pub fn apply(table: &TypeTable, of: TypeId, object: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let (Value::Object(target), Value::Object(patch)) = (object, patch) else {
        return Err(PatchError::Malformed(
            "a strategic merge patch is a JSON object".to_owned(),
        ));
    };
    Merge { table }.members(target, patch.clone(), Schema::Type(of))
}

/// Where in the table the merge stands.
#[derive(Clone, Copy)]
enum Schema<'a> {
    Type(TypeId),
    Values(&'a Shape),
    Unknown,
}

struct Merge<'a> {
    table: &'a TypeTable,
}

static NO_PATCH: Patch = Patch {
    merge: false,
    replace: false,
    retain_keys: false,
    key: None,
    strategy: None,
};

fn malformed(text: impl Into<String>) -> PatchError {
    PatchError::Malformed(text.into())
}

impl<'a> Merge<'a> {
    fn field(&self, schema: Schema<'a>, key: &str) -> Option<&'a Field> {
        match schema {
            Schema::Type(of) => self.table.get(of).field(key),
            Schema::Values(_) | Schema::Unknown => None,
        }
    }

    /// Settings and inner schema of a member.
    fn member(&self, schema: Schema<'a>, key: &str) -> (&'a Patch, Schema<'a>) {
        if let Schema::Values(shape) = schema {
            return (&NO_PATCH, inner(shape));
        }
        match self.field(schema, key) {
            Some(field) => (&field.patch, inner(&field.shape)),
            None => (&NO_PATCH, Schema::Unknown),
        }
    }

    fn members(
        &self,
        target: &mut Members,
        mut patch: Members,
        schema: Schema<'a>,
    ) -> Result<(), PatchError> {
        if let Some(directive) = patch.remove(PATCH) {
            match directive.as_str() {
                Some("replace") => *target = patch,
                Some("delete") => target.clear(),
                other => {
                    let kind = other.unwrap_or_default().to_owned();
                    patch.insert(PATCH.to_owned(), directive);
                    let map = go_text(&Value::Object(patch));
                    return Err(PatchError::Internal(format!(
                        "unknown patch type: {kind} in map: {map}"
                    )));
                }
            }
            return Ok(());
        }
        retain_keys(target, &mut patch)?;
        self.ordered_lists(target, &mut patch, schema)?;
        for (key, value) in patch {
            if let Some(list) = key.strip_prefix(DELETE_FROM_LIST) {
                delete_from_list(target, list, &value)?;
                continue;
            }
            if value.is_null() {
                target.remove(&key);
                continue;
            }
            self.value(target, key, value, schema)?;
        }
        Ok(())
    }

    fn value(
        &self,
        target: &mut Members,
        key: String,
        value: Value,
        schema: Schema<'a>,
    ) -> Result<(), PatchError> {
        let (settings, below) = self.member(schema, &key);
        match (target.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                if settings.replace {
                    *old = new;
                    Ok(())
                } else {
                    self.members(old, new, below)
                }
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                if settings.merge {
                    *old = self.list(std::mem::take(old), new, settings, below)?;
                } else {
                    *old = new;
                }
                Ok(())
            }
            (_, value) => {
                match without_directives(value) {
                    Some(value) => target.insert(key, value),
                    None => target.remove(&key),
                };
                Ok(())
            }
        }
    }

    /// Lists whose order the patch gives: merged and ordered together.
    fn ordered_lists(
        &self,
        target: &mut Members,
        patch: &mut Members,
        schema: Schema<'a>,
    ) -> Result<(), PatchError> {
        let directives: Vec<String> = patch
            .keys()
            .filter(|k| k.starts_with(ELEMENT_ORDER))
            .cloned()
            .collect();
        for directive in directives {
            let Some(Value::Array(order)) = patch.remove(&directive) else {
                return Err(malformed(format!("{directive} must be a list")));
            };
            let key = directive[ELEMENT_ORDER.len()..].to_owned();
            let (settings, below) = self.member(schema, &key);
            let old = match target.get(&key) {
                None => None,
                Some(Value::Array(list)) => Some(list.clone()),
                Some(_) => return Err(malformed(format!("{key} is not a list"))),
            };
            let new = match patch.remove(&key) {
                None | Some(Value::Null) => None,
                Some(Value::Array(list)) => Some(list),
                Some(_) => return Err(malformed(format!("{key} is not a list in the patch"))),
            };
            check_order(new.as_deref().unwrap_or_default(), &order, settings)?;
            let merged = match (old.clone(), new) {
                (None, None) => continue,
                (Some(old), None) => old,
                (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
                (Some(old), Some(new)) if settings.merge => self.list(old, new, settings, below)?,
                (Some(_), Some(new)) => new,
            };
            let ordered = in_order(merged, &order, &old.unwrap_or_default(), settings);
            target.insert(key, Value::Array(ordered));
        }
        Ok(())
    }

    fn list(
        &self,
        mut old: Vec<Value>,
        new: Vec<Value>,
        settings: &Patch,
        below: Schema<'a>,
    ) -> Result<Vec<Value>, PatchError> {
        let before = old.clone();
        let is_plain = !old.iter().chain(&new).any(Value::is_object);
        if is_plain {
            for item in &new {
                if !old.contains(item) {
                    old.push(item.clone());
                }
            }
            return Ok(in_order(old, &new, &before, settings));
        }
        let Some(key) = settings.key.as_deref() else {
            return Err(malformed("cannot merge lists without merge key"));
        };
        let (mut plain, mut replace) = (Vec::new(), false);
        for item in new {
            let Some(directive) = item.get(PATCH) else {
                plain.push(item);
                continue;
            };
            match directive.as_str() {
                Some("delete") => {
                    let wanted = key_of(&item, key)?;
                    old.retain(|o| o.get(key) != Some(wanted));
                }
                Some("replace") => replace = true,
                other => {
                    let (kind, map) = (other.unwrap_or_default(), go_text(&item));
                    return Err(PatchError::Internal(format!(
                        "unknown patch type: {kind} in map: {map}"
                    )));
                }
            }
        }
        if replace {
            return Ok(plain);
        }
        let order = plain.clone();
        for item in plain {
            let wanted = key_of(&item, key)?.clone();
            let found = old.iter_mut().find(|o| o.get(key) == Some(&wanted));
            match (found, item) {
                (Some(Value::Object(target)), Value::Object(patch)) => self.members(target, patch, below)?,
                (_, item) => old.extend(without_directives(item)),
            }
        }
        Ok(in_order(old, &order, &before, settings))
    }
}

/// The schema inside a member: of its members if it is a map, of its items if it is a list.
fn inner(shape: &Shape) -> Schema<'_> {
    match shape {
        Shape::Ref { to, .. } => Schema::Type(*to),
        Shape::Map { values, .. } => Schema::Values(values),
        Shape::List { items, .. } => inner(items),
        Shape::Plain { .. } | Shape::Any => Schema::Unknown,
    }
}

fn key_of<'v>(item: &'v Value, key: &str) -> Result<&'v Value, PatchError> {
    item.get(key).ok_or_else(|| {
        let item = go_text(item);
        PatchError::Internal(format!("map: {item} does not contain declared merge key: {key}"))
    })
}

fn retain_keys(target: &mut Members, patch: &mut Members) -> Result<(), PatchError> {
    let Some(list) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(list) = list else {
        return Err(malformed(format!("{RETAIN_KEYS} must be a list")));
    };
    let kept = |key: &str| list.iter().any(|k| k.as_str() == Some(key));
    for (key, value) in patch.iter() {
        if !value.is_null() && !key.starts_with('$') && !kept(key) {
            return Err(malformed(format!(
                "{RETAIN_KEYS} does not list {key}, which the patch sets"
            )));
        }
    }
    target.retain(|key, _| kept(key));
    Ok(())
}

fn delete_from_list(target: &mut Members, list: &str, gone: &Value) -> Result<(), PatchError> {
    let Value::Array(gone) = gone else {
        return Err(malformed(format!("{DELETE_FROM_LIST}{list} must be a list")));
    };
    if let Some(Value::Array(items)) = target.get_mut(list) {
        items.retain(|item| !gone.contains(item));
    }
    Ok(())
}

/// The value without the parts that are directives; `None` if it is one itself. Nulls in it name nothing and go too.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(PATCH) => None,
        Value::Object(members) => {
            let kept = members
                .into_iter()
                .filter(|(key, value)| !value.is_null() && !key.starts_with(ELEMENT_ORDER));
            let kept = kept.filter(|(key, _)| key != RETAIN_KEYS && !key.starts_with(DELETE_FROM_LIST));
            Some(Value::Object(
                kept.filter_map(|(k, v)| Some((k, without_directives(v)?)))
                    .collect(),
            ))
        }
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_directives).collect(),
        )),
        plain => Some(plain),
    }
}

fn same(a: &Value, b: &Value, settings: &Patch) -> bool {
    match settings.key.as_deref() {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    }
}

/// The items of the patch must come in the order that it gives.
fn check_order(patch: &[Value], order: &[Value], settings: &Patch) -> Result<(), PatchError> {
    let mut rest = order.iter();
    if order.is_empty() {
        return Ok(());
    }
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        if !rest.any(|o| same(item, o, settings)) {
            return Err(malformed(format!(
                "the order in the patch does not match {ELEMENT_ORDER} list"
            )));
        }
    }
    Ok(())
}

/// Orders merged items: those in `order` as it says, the others as the server had them, woven together so that the
/// server's order holds where both know it.
fn in_order(merged: Vec<Value>, order: &[Value], server: &[Value], settings: &Patch) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| list.iter().position(|o| same(item, o, settings));
    let (mut patched, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(order, item).is_some());
    patched.sort_by_key(|item| place(order, item));
    others.sort_by_key(|item| place(server, item));
    let (mut patched, mut others) = (patched.into_iter().peekable(), others.into_iter().peekable());
    let mut out = Vec::new();
    loop {
        let take_other = match (others.peek(), patched.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(patch)) => match (place(server, other), place(server, patch)) {
                (Some(a), Some(b)) => a < b,
                _ => false,
            },
        };
        out.extend(if take_other { others.next() } else { patched.next() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(object: Value, patch: Value) -> Result<Value, PatchError> {
        let table = TypeTable::built_in();
        let of = table
            .resource("apps", "v1", "deployments")
            .expect("deployments")
            .of_type;
        let mut object = object;
        apply(table, of, &mut object, &patch).map(|()| object)
    }

    fn pod(spec: Value) -> Value {
        json!({"spec": {"template": {"spec": spec}}})
    }

    #[test]
    fn lists_with_a_key_merge() {
        let live = pod(json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}));
        let table = [
            (
                json!({"containers": [{"name": "b", "image": "2"}]}),
                json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]),
            ),
            (
                json!({"containers": [{"name": "a", "$patch": "delete"}]}),
                json!([{"name": "b", "image": "1"}]),
            ),
            (
                json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
                json!([{"name": "b", "image": "1"}, {"name": "a", "image": "1"}]),
            ),
            (
                json!({"containers": [{"$patch": "replace"}, {"name": "c", "image": "3"}]}),
                json!([{"name": "c", "image": "3"}]),
            ),
            (
                json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
                       "containers": [{"name": "c", "image": "3"}]}),
                json!([{"name": "c", "image": "3"}, {"name": "a", "image": "1"}, {"name": "b", "image": "1"}]),
            ),
        ];
        for (patch, expected) in table {
            let result = merged(live.clone(), pod(patch.clone())).unwrap_or_else(|e| panic!("{patch}: {e}"));
            assert_eq!(
                result["spec"]["template"]["spec"]["containers"], expected,
                "{patch}"
            );
        }
    }

    #[test]
    fn maps_merge_and_null_removes() {
        let live =
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"replicas": 2, "paused": true}});
        let patch =
            json!({"metadata": {"labels": {"a": null, "c": "3"}}, "spec": {"paused": null, "x": null}});
        let expected = json!({"metadata": {"labels": {"b": "2", "c": "3"}}, "spec": {"replicas": 2}});
        assert_eq!(merged(live, patch), Ok(expected));
    }

    #[test]
    fn retain_keys_clears_the_other_strategy() {
        let live = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        assert_eq!(
            merged(live.clone(), patch),
            Ok(json!({"spec": {"strategy": {"type": "Recreate"}}}))
        );
        let wrong = json!({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}});
        assert!(matches!(merged(live, wrong), Err(PatchError::Malformed(_))));
    }

    #[test]
    fn lists_of_plain_values() {
        let live = json!({"metadata": {"finalizers": ["a", "b"]}});
        let merge = json!({"metadata": {"finalizers": ["c", "a"]}});
        let result = merged(live.clone(), merge).expect("merges");
        assert_eq!(result["metadata"]["finalizers"], json!(["c", "a", "b"]));
        let delete = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
        assert_eq!(
            merged(live, delete),
            Ok(json!({"metadata": {"finalizers": ["b"]}}))
        );
    }

    #[test]
    fn lists_without_a_strategy_are_replaced() {
        let live =
            pod(json!({"tolerations": [{"key": "a"}], "containers": [{"name": "a", "args": ["1", "2"]}]}));
        let patch = pod(json!({"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["3"]}]}));
        let expected =
            pod(json!({"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["3"]}]}));
        assert_eq!(merged(live, patch), Ok(expected));
    }

    #[test]
    fn broken_patches_are_refused() {
        let live = pod(json!({"containers": [{"name": "a"}]}));
        for patch in [
            json!([]),
            json!({"spec": {"$patch": "smash"}}),
            pod(json!({"containers": [{"image": "no name"}]})),
            pod(json!({"$setElementOrder/containers": {}})),
            pod(json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "z"}]})),
        ] {
            assert!(
                matches!(
                    merged(live.clone(), patch.clone()),
                    Err(PatchError::Malformed(_) | PatchError::Internal(_))
                ),
                "{patch}"
            );
        }
    }
}
