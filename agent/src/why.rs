//! `pinnace-agent why OBJECT`: all that is known about one object, from the data directory alone.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use agent_core::guard::{Guard, Verb};
use agent_core::record::Origin;
use anyhow::{Result, bail};
use shared::ids::ObjectKey;
use shared::set::{ConflictResolution, DeleteMode};
use shared::time::UnixSeconds;

use crate::identity;
use crate::ledger::{Ledger, facts};

/// Lines of the object's journal shown.
const LINES: u32 = 20;

/// An object as people write it: `Kind[.group] [namespace/]name`, or `kind/name` pieces given apart.
///
/// # Errors
/// When it has another form.
pub fn object(words: &[String]) -> Result<ObjectKey> {
    let [kind, name] = words else {
        bail!("an object is written as KIND[.GROUP] [NAMESPACE/]NAME, for example: Deployment.apps shop/web");
    };
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Ok(ObjectKey::new(group, kind, namespace, name))
}

/// The one object that is meant among those known: people leave out the group and write kinds in small letters.
///
/// # Errors
/// When several known objects could be meant.
fn meant<'k>(key: &'k ObjectKey, known: &BTreeSet<&'k ObjectKey>) -> Result<&'k ObjectKey> {
    if known.contains(key) {
        return Ok(key);
    }
    let alike: Vec<&ObjectKey> = known
        .iter()
        .copied()
        .filter(|other| {
            other.kind.eq_ignore_ascii_case(&key.kind)
                && (key.group.is_empty() || other.group == key.group)
                && other.namespace == key.namespace
                && other.name == key.name
        })
        .collect();
    match alike[..] {
        [] => Ok(key),
        [one] => Ok(one),
        _ => {
            let names: Vec<String> = alike
                .iter()
                .map(|key| format!("{}.{}", key.kind, key.group))
                .collect();
            bail!(
                "several kinds are called {}: say which of {}",
                key.kind,
                names.join(", ")
            )
        }
    }
}

/// What is known about an object, for people.
///
/// # Errors
/// When there is no enrolment, the ledger cannot be read, or several objects could be meant.
pub fn why(data: &Path, key: &ObjectKey, guard: &Guard) -> Result<String> {
    let enrolment = identity::load(data)?;
    let ledger = Ledger::open_readonly(data)?;
    let ring = facts::ring(&ledger)?.unwrap_or_else(|| enrolment.ring.clone());
    let held = ledger.held(&ring)?.map(|h| h.held);
    let (records, intents) = (ledger.records()?, ledger.intents()?);
    let sets = held.iter().map(|h| &h.set);
    let known = sets
        .flat_map(|set| {
            let gone = set.tombstones().iter().map(|tombstone| &tombstone.key);
            set.entries().iter().map(|entry| &entry.key).chain(gone)
        })
        .chain(records.iter().map(|record| &record.key))
        .chain(intents.iter().map(|intent| &intent.key))
        .collect();
    let key = meant(key, &known)?;
    let record = records.iter().find(|r| r.key == *key);
    let intent = intents.iter().find(|i| i.key == *key);
    let text = key.to_string();
    let problem = ledger.problems()?.into_iter().find(|p| p.object == text);
    let mut out = format!("{text}\n");
    let mut say = |line: &str| {
        // Writing into a String cannot fail.
        let _ = writeln!(out, "  {line}");
    };
    let set = held.as_ref().map(|h| (&h.set, h.head.head.sequence));
    let entry = set.and_then(|(s, _)| s.entry(key));
    let tombstone = set.and_then(|(s, _)| s.tombstone(key));
    match (set, entry, tombstone) {
        (None, ..) => say("no set was accepted yet"),
        (Some((_, n)), Some(e), _) => {
            say(&format!(
                "set {n} wants it as generation {} of its template (work {})",
                e.template_generation, e.work
            ));
            if e.suspended {
                say("it is suspended: left as it is");
            }
            if e.conflict_resolution == ConflictResolution::Overwrite {
                say("an object of this name that others made is taken over");
            }
            for d in &e.dependencies {
                say(&format!("it follows {d}"));
            }
        }
        (Some((_, n)), None, Some(t)) => {
            let how = match t.mode {
                DeleteMode::Delete => "deleted, if we created it",
                DeleteMode::Release => "let go and kept",
            };
            say(&format!("set {n} orders it to be {how}"));
        }
        (Some((_, n)), None, None) => say(&format!("set {n} does not speak of it")),
    }
    match (&record, &intent) {
        (Some(r), _) => {
            let came = match r.origin {
                Origin::Created => "created by us, so we may delete it",
                Origin::Adopted => "there before us and adopted, so we never delete it",
            };
            say(&format!("it is {came}; uid {}", r.uid));
            if let Some(e) = entry {
                say(if e.digest == r.content {
                    "the content of the set was applied"
                } else {
                    "an older content is applied"
                });
            }
            if r.completed {
                say("it ran to its end");
            }
        }
        (None, Some(_)) => say("a create was begun and its outcome is not known yet"),
        (None, None) => say("we never had it"),
    }
    match &problem {
        Some(p) => say(&format!(
            "since {}: {}: {}",
            UnixSeconds(p.at).rfc3339(),
            p.reason,
            p.message
        )),
        None if entry.is_some() => say("nothing stands in its way, as far as the last look told"),
        None => {}
    }
    for verb in [Verb::Apply, Verb::Delete] {
        if let Err(message) = guard.check(verb, key) {
            say(&format!("guard: {message}"));
        }
    }
    for line in ledger.journal_of(&text, LINES)? {
        say(&format!("{} {}", UnixSeconds(line.at).rfc3339(), line.what));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_as_they_are_shown() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for text in [
            "Deployment.apps shop/web",
            "Namespace shop",
            "Widget.example.org shop/w",
        ] {
            assert_eq!(object(&words(text)).unwrap().to_string(), text);
        }
        assert!(object(&words("web")).is_err());
    }

    fn key(kind: &str, name: &str) -> ObjectKey {
        object(&[kind.to_owned(), name.to_owned()]).unwrap()
    }

    #[test]
    fn the_group_may_be_left_out_where_one_kind_is_meant() {
        let held = [
            key("Deployment.apps", "shop/web"),
            key("Ingress.networking.k8s.io", "shop/web"),
            key("Ingress.example.org", "shop/web"),
        ];
        let known: BTreeSet<&ObjectKey> = held.iter().collect();
        assert_eq!(
            meant(&key("Deployment.apps", "shop/web"), &known).unwrap(),
            &held[0]
        );
        assert_eq!(meant(&key("deployment", "shop/web"), &known).unwrap(), &held[0]);
        assert_eq!(
            meant(&key("ingress.example.org", "shop/web"), &known).unwrap(),
            &held[2]
        );
        let several = meant(&key("Ingress", "shop/web"), &known)
            .unwrap_err()
            .to_string();
        assert!(
            several.contains("Ingress.example.org, Ingress.networking.k8s.io"),
            "{several}"
        );
        let unknown = key("Deployment", "shop/other");
        assert_eq!(meant(&unknown, &known).unwrap(), &unknown);
    }
}
