//! Text for people, but for explanations.

use std::fmt::Write;

use serde_json::Value;
use shared::time::UnixSeconds;

use super::difference::difference;
use crate::fleet::wire::{HeldChanges, OpenTokens, ReconcilePreview, Rendering};

/// A manifest as people read it.
///
/// # Errors
/// It cannot be written as YAML.
pub(super) fn yaml(value: &Value) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(value)?)
}

/// Taints as `pinnace cluster taint` takes them.
pub(super) fn taints(taints: &[Value]) -> String {
    if taints.is_empty() {
        return "none".to_owned();
    }
    let one = |taint: &Value| {
        let value = text(&taint["value"]);
        let value = if value.is_empty() {
            value
        } else {
            format!("={value}")
        };
        format!("{}{value}:{}", text(&taint["key"]), text(&taint["effect"]))
    };
    taints.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// What `pinnace diff` prints: template, what the cluster shall have, what it last said it has.
pub(super) fn diff(rendering: &Rendering) -> String {
    let mut out = format!("{} in cluster {}\n", rendering.object, rendering.cluster);
    let Some(wanted) = &rendering.wanted else {
        let problem = rendering.problem.as_deref().unwrap_or("it is not sent there");
        line(&mut out, format_args!("Nothing is to be sent: {problem}"));
        return out;
    };
    let mut part = |title: &str, lines: Vec<String>| {
        line(&mut out, format_args!("{title}"));
        if lines.is_empty() {
            line(&mut out, format_args!("  no difference"));
        }
        lines
            .iter()
            .for_each(|one| line(&mut out, format_args!("  {one}")));
    };
    part(
        "template -> what the cluster shall have (replicas, overrides):",
        difference(&rendering.template, wanted),
    );
    match &rendering.observed {
        None => line(
            &mut out,
            format_args!("The cluster has said nothing about it yet."),
        ),
        Some(observed) => {
            let bound = if observed.at_least { "≥" } else { "" };
            let title = format!(
                "what the cluster shall have -> what it last said it has ({}, {bound}{} ago):",
                observed.reason,
                age(observed.age_seconds)
            );
            match &observed.manifest {
                Some(manifest) => part(&title, difference(wanted, manifest)),
                None => part(
                    &title,
                    vec!["an older content that the hub keeps no longer".to_owned()],
                ),
            }
            if let Some(status) = &observed.status {
                line(&mut out, format_args!("status there: {status}"));
            }
        }
    }
    out
}

/// Objects of a preview that are named.
const PREVIEWED: usize = 50;

/// What `pinnace cluster reconcile --push-hub` prints before it acts.
pub(super) fn preview(preview: &ReconcilePreview) -> String {
    let mut out = String::new();
    let mut say = |objects: &[String], what: &str| {
        if objects.is_empty() {
            return;
        }
        let plural = if objects.len() == 1 { "object" } else { "objects" };
        let mut names = objects
            .iter()
            .take(PREVIEWED)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        if objects.len() > PREVIEWED {
            names.push_str(&format!(" and {} more", objects.len() - PREVIEWED));
        }
        line(
            &mut out,
            format_args!("{} {plural} will be {what}: {names}", objects.len()),
        );
    };
    say(&preview.deleted, "deleted");
    say(&preview.released, "let go and stay");
    if out.is_empty() {
        "nothing will be deleted\n".clone_into(&mut out);
    }
    out
}

/// What `pinnace token list` prints.
pub(super) fn tokens(open: &OpenTokens) -> String {
    if open.items.is_empty() {
        return "No open tokens. `pinnace token create NAME` makes one.\n".to_owned();
    }
    let mut rows = vec![
        ["ID", "CLUSTER", "AGE", "EXPIRES IN", "USED"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for token in &open.items {
        rows.push(vec![
            token.id.clone(),
            token.cluster.clone(),
            token.age_seconds.map_or_else(String::new, age),
            age(token.expires_in_seconds),
            if token.used { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table(&rows)
}

/// What `pinnace cluster list` prints.
pub(super) fn clusters(items: &[Value], now: UnixSeconds) -> String {
    if items.is_empty() {
        return "No clusters yet. `pinnace token create NAME` prints the line that lets one join.\n"
            .to_owned();
    }
    let mut rows = vec![
        ["NAME", "VERSION", "MODE", "READY", "REASON", "AGE"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for item in items {
        let ready = condition(item, "Ready");
        // What a person has to decide is said before what is merely so.
        let behind = condition(item, "HubBehind").filter(|behind| behind["status"] == "True");
        let created = item["metadata"]["creationTimestamp"]
            .as_str()
            .and_then(UnixSeconds::parse_rfc3339);
        rows.push(vec![
            text(&item["metadata"]["name"]),
            text(&item["status"]["kubernetesVersion"]),
            text(&item["spec"]["syncMode"]),
            ready.map_or_else(|| "Unknown".to_owned(), |ready| text(&ready["status"])),
            behind
                .or(ready)
                .map_or_else(String::new, |why| text(&why["reason"])),
            created.map_or_else(String::new, |created| age(now.0 - created.0)),
        ]);
    }
    table(&rows)
}

fn condition<'a>(cluster: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = cluster["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// `5s`, `3m`, `2h`, `9d`, as kubectl shortens them.
pub(super) fn age(seconds: i64) -> String {
    match seconds.max(0) {
        s @ 0..=119 => format!("{s}s"),
        s @ 120..=7_199 => format!("{}m", s / 60),
        s @ 7_200..=172_799 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// Columns padded to their widest cell, three spaces between them.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let padding = width - cell.chars().count() + 3;
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', padding));
        }
        line(&mut out, format_args!("{}", text.trim_end()));
    }
    out
}

pub(super) fn line(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _infallible = writeln!(out, "{arguments}");
}

/// What waits for `pinnace confirm`.
pub(super) fn held(held: &HeldChanges) -> String {
    if held.items.is_empty() {
        return "nothing waits to be confirmed\n".to_owned();
    }
    let mut out = String::new();
    for change in &held.items {
        let (id, count, age) = (change.id, change.count, change.age_seconds);
        out.push_str(&match &change.refused {
            None => format!("{id}  {count} objects, waits {age} s; `pinnace confirm {id}` deletes them\n"),
            Some(what) => format!(
                "{id}  deleting {what}, refused {age} s ago, would take {count} objects with it; `pinnace confirm {id}` \
                 allows it, then delete it again\n"
            ),
        });
        for loss in &change.losses {
            out.push_str(&format!("    {loss}\n"));
        }
        let more = change.count.saturating_sub(change.losses.len());
        if more > 0 {
            out.push_str(&format!("    and {more} more\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::wire::OpenToken;

    #[test]
    fn what_goes_is_said_before() {
        let of = |deleted: &[&str], released: &[&str]| {
            preview(&ReconcilePreview {
                deleted: deleted.iter().map(|&name| name.to_owned()).collect(),
                released: released.iter().map(|&name| name.to_owned()).collect(),
            })
        };
        assert_eq!(
            of(&["Namespace later"], &[]),
            "1 object will be deleted: Namespace later\n"
        );
        assert_eq!(
            of(&["A a", "B b"], &["C c"]),
            "2 objects will be deleted: A a, B b\n1 object will be let go and stay: C c\n"
        );
        assert_eq!(of(&[], &[]), "nothing will be deleted\n");
        let many = vec!["X x"; PREVIEWED + 2];
        assert!(of(&many, &[]).ends_with("X x and 2 more\n"));
    }

    #[test]
    fn clusters_are_listed_with_what_is_known() {
        let cluster = json!({
            "metadata": {"name": "shop", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"syncMode": "Pull"},
            "status": {"kubernetesVersion": "v1.36.0",
                       "conditions": [{"type": "Ready", "status": "False", "reason": "Silent"}]},
        });
        assert_eq!(
            clusters(&[cluster], UnixSeconds(90)),
            "NAME   VERSION   MODE   READY   REASON   AGE\nshop   v1.36.0   Pull   False   Silent   90s\n"
        );
        assert!(clusters(&[], UnixSeconds(0)).contains("pinnace token create"));
        assert!(tokens(&OpenTokens::default()).contains("pinnace token create"));
        let token = OpenToken {
            id: "0123456789ab".to_owned(),
            cluster: "shop".to_owned(),
            age_seconds: Some(300),
            expires_in_seconds: 86_100,
            used: false,
        };
        let listed = tokens(&OpenTokens { items: vec![token] });
        assert!(
            listed.ends_with("0123456789ab   shop      5m    23h          no\n"),
            "{listed}"
        );
    }

    #[test]
    fn a_cluster_that_waits_for_a_decision_says_so() {
        let cluster = json!({
            "metadata": {"name": "shop"},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "ClusterReady"},
                {"type": "HubBehind", "status": "True", "reason": "HubBehind"},
            ]},
        });
        assert!(clusters(&[cluster], UnixSeconds(0)).contains("True    HubBehind"));
    }
}
