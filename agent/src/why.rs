//! `pinnace-agent why OBJECT`: all that is known about one object, from the data directory alone.

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

/// What is known about an object, for people.
///
/// # Errors
/// When there is no enrolment or the ledger cannot be read.
pub fn why(data: &Path, key: &ObjectKey, guard: &Guard) -> Result<String> {
    let enrolment = identity::load(data)?;
    let ledger = Ledger::open_readonly(data)?;
    let ring = facts::ring(&ledger)?.unwrap_or_else(|| enrolment.ring.clone());
    let held = ledger.held(&ring)?.map(|h| h.held);
    let record = ledger.records()?.into_iter().find(|r| r.key == *key);
    let intent = ledger.intents()?.into_iter().find(|i| i.key == *key);
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
}
