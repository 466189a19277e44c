//! Ownership across writes: updates take what they change, applies own what they say.

use super::compare::{Comparison, compare};
use super::entries::{self, EntryError, ManagerId, Operation, Owned, Owners};
use super::last_applied;
use super::merge::{merge, remove};
use super::set::FieldSet;
use super::types::{Atom, ListKind, TypeView, View};
use super::validate::{check, fields, joined, with_named};
use super::{managed, set_managed};
use crate::timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Owner of what was there before the first apply of an object without ownership.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The versions of one kind.
pub trait Versions<'s> {
    /// How a version's types are looked at.
    type View: TypeView<'s>;

    /// The types of a version, if it is served.
    fn view(&self, api_version: &str) -> Option<Self::View>;

    /// An object in another version.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;
}

/// Who writes, what and when.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// Name of the manager; empty is `unknown`.
    pub manager: &'a str,
    /// Subresource written through; empty for the object itself.
    pub subresource: &'a str,
    /// Version of the object in the request.
    pub api_version: &'a str,
    /// Seconds since 1970.
    pub now: i64,
    /// Fields that a write of this part does not change.
    pub ignored: &'a FieldSet,
}

impl Writer<'_> {
    fn id(&self, operation: Operation) -> ManagerId {
        let manager = if self.manager.is_empty() {
            "unknown"
        } else {
            self.manager
        };
        ManagerId {
            manager: manager.to_owned(),
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => self.api_version.to_owned(),
            },
            subresource: self.subresource.to_owned(),
        }
    }
}

/// One field that someone else decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Who.
    pub owner: ManagerId,
    /// Which field.
    pub path: String,
}

/// Why an apply is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The configuration claims ownership for others.
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    /// Configuration or live object do not fit the schema.
    #[error("{0}")]
    Schema(String),
    /// The live object's ownership cannot be read.
    #[error("failed to decode managed fields: {0}")]
    Entries(#[from] EntryError),
    /// Others own fields that the configuration wants otherwise.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
}

/// The message of a 409, in the words of apimachinery.
fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        let (owner, path) = (one.owner.describe(), &one.path);
        return format!("Apply failed with 1 conflict: conflict with {owner}: {path}");
    }
    let mut lines = Vec::new();
    let owners: BTreeSet<&ManagerId> = conflicts.iter().map(|c| &c.owner).collect();
    for owner in owners {
        lines.push(format!("conflicts with {}:", owner.describe()));
        let theirs = conflicts.iter().filter(|c| c.owner == *owner);
        lines.extend(theirs.map(|c| format!("- {}", c.path)));
    }
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}

/// Never owned by anyone.
fn server_fields() -> FieldSet {
    let mut paths: Vec<Vec<&str>> = vec![vec!["apiVersion"], vec!["kind"], vec!["metadata"]];
    let below = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    paths.extend(below.iter().map(|name| vec!["metadata", name]));
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    FieldSet::of_paths(&paths)
}

/// Owners in the live object; unreadable ones count as none.
fn live_owners(live: &Value) -> Owners {
    Owners::decode(managed(live)).unwrap_or_default()
}

/// Whether it is kept who owns the fields of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracked {
    /// From its creation, or since somebody applied it: an object that nobody owns is not tracked before.
    ByItself,
    /// As the object is that it is a part of. That nobody owns the replicas of a Scale (nobody has set them yet) does not
    /// mean that its object is not tracked, and the Scale of an object without ownership says nothing of who owns that.
    As(bool),
}

/// managedFields after a write that is no apply: a create, an update or a patch. `live` is none for a create. The new
/// state may bring managedFields of its own; through a subresource they do not count.
pub fn track<'s, V: Versions<'s>>(
    versions: &V,
    writer: &Writer<'_>,
    live: Option<&Value>,
    new: &Value,
    tracked: Tracked,
) -> Value {
    let given = managed(new);
    let owners = match live {
        Some(live) if !writer.subresource.is_empty() => live_owners(live),
        _ if entries::is_reset(given) => Owners::default(),
        _ => match Owners::decode(given) {
            Ok(owners) if !owners.0.is_empty() => owners,
            _ => live.map(live_owners).unwrap_or_default(),
        },
    };
    let is_tracked = match tracked {
        Tracked::ByItself => live.is_none() || !owners.0.is_empty(),
        Tracked::As(is_tracked) => is_tracked,
    };
    if !is_tracked {
        return Value::Null;
    }
    let nothing = Value::Object(serde_json::Map::new());
    let mut owners = update(versions, writer, live.unwrap_or(&nothing), new, owners);
    owners.cap_updates();
    owners.encode()
}

/// An object without its ownership, which is no part of what is owned.
fn bare(object: &Value) -> Value {
    let mut out = object.clone();
    set_managed(&mut out, Value::Null);
    out
}

/// Moves ownership over from one state to the next for an update.
fn update<'s, V: Versions<'s>>(
    versions: &V,
    writer: &Writer<'_>,
    live: &Value,
    new: &Value,
    mut owners: Owners,
) -> Owners {
    let Some(view) = versions.view(writer.api_version).map(View::Known) else {
        return owners;
    };
    let (live, new) = (bare(live), bare(new));
    if !check(view, &new, true).is_empty() || !check(view, &live, true).is_empty() {
        return owners;
    }
    let own = compare(view, &live, &new).without_all_of(writer.ignored);
    let mut compared = Compared::new(versions, writer, &live, &new, own.clone());
    let ids: Vec<ManagerId> = owners.0.keys().cloned().collect();
    for id in ids {
        let version = owners.0[&id].api_version.clone();
        match compared.at(&version) {
            None => {
                owners.0.remove(&id);
            }
            Some(difference) => {
                let gone = difference
                    .modified
                    .union(&difference.added)
                    .union(&difference.removed);
                owners.take(&id, &gone);
            }
        }
    }
    let taken = own.modified.union(&own.added).difference(&server_fields());
    if taken.is_empty() {
        return owners;
    }
    let id = writer.id(Operation::Update);
    let fields = match owners.0.remove(&id) {
        Some(before) => before.fields.union(&taken),
        None => taken,
    };
    let owned = Owned {
        fields,
        api_version: writer.api_version.to_owned(),
        time: Some(timestamp::format(writer.now)),
    };
    owners.0.insert(id, owned);
    owners
}

/// The difference of two states in the terms of each owner's version, worked out once per version.
struct Compared<'a, 's, V: Versions<'s>> {
    versions: &'a V,
    ignored: &'a FieldSet,
    live: &'a Value,
    new: &'a Value,
    known: BTreeMap<String, Option<Comparison>>,
    lifetime: std::marker::PhantomData<&'s ()>,
}

impl<'a, 's, V: Versions<'s>> Compared<'a, 's, V> {
    fn new(versions: &'a V, writer: &Writer<'a>, live: &'a Value, new: &'a Value, own: Comparison) -> Self {
        Compared {
            versions,
            ignored: writer.ignored,
            live,
            new,
            known: BTreeMap::from([(writer.api_version.to_owned(), Some(own))]),
            lifetime: std::marker::PhantomData,
        }
    }

    fn at(&mut self, version: &str) -> Option<&Comparison> {
        if !self.known.contains_key(version) {
            let made = self.make(version);
            self.known.insert(version.to_owned(), made);
        }
        self.known.get(version).and_then(Option::as_ref)
    }

    fn make(&self, version: &str) -> Option<Comparison> {
        let view = View::Known(self.versions.view(version)?);
        let live = self.versions.convert(self.live, version)?;
        let new = self.versions.convert(self.new, version)?;
        Some(compare(view, &live, &new).without_all_of(self.ignored))
    }
}

/// The object after an apply, with its managedFields. `live` is none if the apply creates it.
///
/// # Errors
/// A configuration that does not fit, or conflicts that were not forced.
pub fn apply<'s, V: Versions<'s>>(
    versions: &V,
    writer: &Writer<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    let result = apply_once(versions, writer, live, config, force);
    let view = versions.view(writer.api_version).map(View::Known);
    let mut object = match (result, live, view) {
        (Err(ApplyError::Conflicts(conflicts)), Some(live), Some(view))
            if writer.manager == last_applied::KUBECTL =>
        {
            let accounted = last_applied::accounted(view, live, writer.api_version);
            let Some(accounted) = accounted else {
                return Err(ApplyError::Conflicts(conflicts));
            };
            let allowed: BTreeSet<String> = accounted.paths().into_iter().collect();
            let left: Vec<Conflict> = conflicts
                .into_iter()
                .filter(|c| !allowed.contains(&c.path))
                .collect();
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(left));
            }
            apply_once(versions, writer, Some(live), config, true)?
        }
        (result, _, _) => result?,
    };
    if writer.manager == last_applied::KUBECTL {
        last_applied::refresh(&mut object, config);
    }
    Ok(object)
}

fn apply_once<'s, V: Versions<'s>>(
    versions: &V,
    writer: &Writer<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    if managed(config).is_some_and(|m| !m.is_null()) {
        return Err(ApplyError::ManagedFields);
    }
    let view = versions
        .view(writer.api_version)
        .map(View::Known)
        .ok_or_else(|| ApplyError::Schema(format!("no corresponding type for {}", writer.api_version)))?;
    let misfit = |what: &str, object: &Value, errors: &[String]| {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (group, version) = writer
            .api_version
            .rsplit_once('/')
            .unwrap_or(("", writer.api_version));
        ApplyError::Schema(format!(
            "failed to create typed {what} object ({}/{}; {group}/{version}, Kind={}): {}",
            text("/metadata/namespace"),
            text("/metadata/name"),
            text("/kind"),
            joined(errors)
        ))
    };
    let errors = check(view, config, false);
    if !errors.is_empty() {
        return Err(misfit("patch", config, &errors));
    }
    let mut owners = match live {
        Some(live) => Owners::decode(managed(live))?,
        None => Owners::default(),
    };
    let empty =
        serde_json::json!({"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {}});
    let base = bare(live.unwrap_or(&empty));
    let errors = check(view, &base, true);
    if !errors.is_empty() {
        return Err(misfit("live", &base, &errors));
    }
    if owners.0.is_empty() && live.is_some() {
        let first = Writer {
            manager: BEFORE_FIRST_APPLY,
            ..*writer
        };
        let nothing = Value::Object(serde_json::Map::new());
        owners = update(versions, &first, &nothing, &base, owners);
    }
    let id = writer.id(Operation::Apply);
    let merged = merge(view, &base, config);
    let last = owners.0.remove(&id);
    let owned = Owned {
        fields: fields(view, config).without_all_of(writer.ignored),
        api_version: writer.api_version.to_owned(),
        time: last.as_ref().and_then(|l| l.time.clone()),
    };
    owners.0.insert(id.clone(), owned);
    let mut new = match &last {
        Some(last) => prune(versions, writer, merged, &owners, last),
        None => merged,
    };
    let own = compare(view, &base, &new).without_all_of(writer.ignored);
    let mut compared = Compared::new(versions, writer, &base, &new, own);
    settle(&mut owners, &id, &mut compared, force)?;
    let never = server_fields();
    owners.take(&id, &never);
    // Fields that only change hands do not change the time, as upstream.
    if !super::items::equal(&base, &new)
        && let Some(owned) = owners.0.get_mut(&id)
    {
        owned.time = Some(timestamp::format(writer.now));
    }
    restore_structs(view, &mut new);
    if let Some(metadata) = new.as_object_mut()
        && !metadata.contains_key("metadata")
    {
        metadata.insert("metadata".to_owned(), Value::Object(serde_json::Map::new()));
    }
    set_managed(&mut new, owners.encode());
    Ok(new)
}

/// An object with a configuration merged in as an apply does, without any ownership: what a policy makes of an object.
///
/// # Errors
/// What does not fit the schema, or a change within what is one leaf.
pub fn merged<'s, V: Versions<'s>>(
    versions: &V,
    api_version: &str,
    live: &Value,
    config: &Value,
) -> Result<Value, String> {
    let view = versions.view(api_version).map_or(View::Deduced, View::Known);
    let errors = check(view, config, false);
    if !errors.is_empty() {
        return Err(format!("invalid ApplyConfiguration: {}", joined(&errors)));
    }
    let mut leaves = Vec::new();
    whole_leaves(view, config, "", &mut leaves);
    if !leaves.is_empty() {
        let leaves = leaves.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {leaves}"
        ));
    }
    let mut out = merge(view, &bare(live), config);
    restore_structs(view, &mut out);
    set_managed(&mut out, managed(live).cloned().unwrap_or(Value::Null));
    Ok(out)
}

/// Paths of lists and maps in a configuration that are one leaf.
fn whole_leaves<'s, T: TypeView<'s>>(view: View<T>, value: &Value, path: &str, out: &mut Vec<String>) {
    match (view.atom(Some(value)), value) {
        (
            Atom::List(ListKind::Atomic) | Atom::Map { is_atomic: true },
            Value::Array(_) | Value::Object(_),
        ) => {
            out.push(path.to_owned());
        }
        (Atom::Map { .. }, Value::Object(members)) => {
            for (key, inner) in members {
                let member = view.member(key).map_or(View::Deduced, |(member, _)| member);
                whole_leaves(member, inner, &format!("{path}.{key}"), out);
            }
        }
        (Atom::List(_), Value::Array(items)) => {
            for item in items {
                whole_leaves(view.items(), item, &format!("{path}[]"), out);
            }
        }
        _ => {}
    }
}

/// Structs that are no pointers in Go come back empty where pruning left nothing; the nulls of all else go later.
fn restore_structs<'s, T: TypeView<'s>>(view: View<T>, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, inner) in members.iter_mut() {
                if inner.is_null()
                    && let Some(zero @ Value::Object(_)) = view.zero(key)
                {
                    *inner = zero.clone();
                }
                if let Some((member, _)) = view.member(key) {
                    restore_structs(member, inner);
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| restore_structs(view.items(), item)),
        _ => {}
    }
}

/// Takes from the others what the apply decides otherwise, or says who they are.
fn settle<'s, V: Versions<'s>>(
    owners: &mut Owners,
    applier: &ManagerId,
    compared: &mut Compared<'_, 's, V>,
    force: bool,
) -> Result<(), ApplyError> {
    let mut conflicts = Vec::new();
    let mut gone = Vec::new();
    for (id, owned) in &owners.0 {
        if id == applier {
            continue;
        }
        let Some(difference) = compared.at(&owned.api_version) else {
            gone.push((id.clone(), owned.fields.clone()));
            continue;
        };
        let changed = difference.modified.union(&difference.added);
        let theirs = owned.fields.intersection(&changed);
        conflicts.extend(theirs.paths().into_iter().map(|path| Conflict {
            owner: id.clone(),
            path,
        }));
        gone.push((id.clone(), theirs.union(&difference.removed)));
    }
    if !force && !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    for (id, fields) in gone {
        owners.take(&id, &fields);
    }
    owners.0.retain(|_, owned| !owned.fields.is_empty());
    Ok(())
}

/// Takes out of the merged object what the applier owned, says no more, and nobody else owns.
fn prune<'s, V: Versions<'s>>(
    versions: &V,
    writer: &Writer<'_>,
    merged: Value,
    owners: &Owners,
    last: &Owned,
) -> Value {
    if last.fields.is_empty() {
        return merged;
    }
    let in_last = |object: &Value| {
        if last.api_version == writer.api_version {
            Some(object.clone())
        } else {
            versions.convert(object, &last.api_version)
        }
    };
    let (Some(view), Some(whole)) = (
        versions.view(&last.api_version).map(View::Known),
        in_last(&merged),
    ) else {
        return merged;
    };
    let lost = Value::Null;
    let mut pruned = remove(view, &whole, &with_named(view, &last.fields)).unwrap_or(lost);
    // What anyone owns comes back, first in the terms of the last version, then in those of the others.
    let mut by_version: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for owned in owners.0.values() {
        let all = by_version.entry(owned.api_version.as_str()).or_default();
        *all = all.union(&owned.fields);
    }
    let mut order: Vec<&str> = by_version.keys().copied().collect();
    order.sort_by_key(|version| *version != last.api_version);
    let mut at = last.api_version.clone();
    for version in order {
        let Some(view) = versions.view(version).map(View::Known) else {
            continue;
        };
        let to = |object: &Value| {
            if at == version {
                Some(object.clone())
            } else {
                versions.convert(object, version)
            }
        };
        let convert_whole = if last.api_version == version {
            Some(whole.clone())
        } else {
            versions.convert(&whole, version)
        };
        let (Some(full), Some(part)) = (convert_whole, to(&pruned)) else {
            continue;
        };
        let kept = with_named(view, &fields(view, &part)).union(&with_named(view, &by_version[version]));
        let gone = with_named(view, &fields(view, &full)).difference(&kept);
        pruned = remove(view, &full, &gone).unwrap_or(Value::Null);
        version.clone_into(&mut at);
    }
    if at != last.api_version {
        match versions.convert(&pruned, &last.api_version) {
            Some(back) => pruned = back,
            None => return merged,
        }
    }
    // What nobody owned, or only updates did, stays.
    let had = with_named(view, &fields(view, &whole));
    let has = with_named(view, &fields(view, &pruned));
    let gone = had.difference(&has).intersection(&with_named(view, &last.fields));
    let pruned = remove(view, &whole, &gone).unwrap_or(Value::Null);
    if last.api_version == writer.api_version {
        pruned
    } else {
        versions.convert(&pruned, writer.api_version).unwrap_or(merged)
    }
}
