//! The status of a definition: whether its names are free, whether it is served, in which versions its objects are
//! stored. Upstream's controllers write it a moment after the definition; here it is part of the write itself.

use super::definition::{self, versions};
use super::structural::{is_set, text};
use crate::timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

/// Condition: the names are free.
pub const NAMES_ACCEPTED: &str = "NamesAccepted";
/// Condition: the kind is served.
pub const ESTABLISHED: &str = "Established";
/// Condition of definitions in the groups of Kubernetes itself: the API was approved.
pub const API_APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";
/// Condition: the definition is being deleted.
pub const TERMINATING: &str = "Terminating";

/// The finalizer under which a definition waits for its objects to go.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Names of a group that others have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// Plurals, singulars and short names.
    pub resources: Vec<String>,
    /// Kinds and list kinds.
    pub kinds: Vec<String>,
}

impl Taken {
    /// Adds the names that another definition of the same group was granted.
    pub fn add(&mut self, definition: &Value) {
        let Some(names) = definition.pointer("/status/acceptedNames") else {
            return;
        };
        self.resources
            .extend([text(names, "plural"), text(names, "singular")].map(str::to_owned));
        let short = names
            .get("shortNames")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        self.resources
            .extend(short.filter_map(Value::as_str).map(str::to_owned));
        self.kinds
            .extend([text(names, "kind"), text(names, "listKind")].map(str::to_owned));
    }

    fn has_resource(&self, name: &str) -> bool {
        self.resources.iter().any(|n| n == name)
    }

    fn has_kind(&self, name: &str) -> bool {
        self.kinds.iter().any(|n| n == name)
    }
}

fn condition<'v>(definition: &'v Value, of: &str) -> Option<&'v Value> {
    let all = definition.pointer("/status/conditions")?.as_array()?;
    all.iter().find(|c| c["type"] == of)
}

/// Whether a condition of a definition is True.
pub fn is_true(definition: &Value, of: &str) -> bool {
    condition(definition, of).is_some_and(|c| c["status"] == "True")
}

/// Sets a condition; its time changes with its status.
pub fn set_condition(
    definition: &mut Value,
    of: &str,
    (status, reason, message): (&str, &str, &str),
    now: i64,
) {
    let known = condition(definition, of).cloned();
    let since = known
        .as_ref()
        .filter(|c| c["status"] == status)
        .and_then(|c| c.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| json!(timestamp::format(now)));
    // One key after the other: a status that is no object is made one.
    let new = json!({"type": of, "status": status, "reason": reason, "message": message, "lastTransitionTime": since});
    let Some(members) = definition.as_object_mut() else {
        return;
    };
    let status = members.entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(all) = status["conditions"].as_array_mut() else {
        return;
    };
    match all.iter_mut().find(|c| c["type"] == of) {
        Some(found) => *found = new,
        None => all.push(new),
    }
}

/// The status of a definition after a write of its spec. `old` is the definition before it.
pub fn settle(definition: &mut Value, old: Option<&Value>, taken: &Taken, now: i64) {
    let empty = json!({});
    let mut status = old
        .and_then(|old| old.get("status"))
        .filter(|s| s.is_object())
        .cloned()
        .unwrap_or(json!({}));
    let spec = definition.get("spec").unwrap_or(&empty).clone();
    let mut stored: Vec<Value> = status["storedVersions"].as_array().cloned().unwrap_or_default();
    for version in versions(&spec).iter().filter(|v| is_set(v, "storage")) {
        let name = json!(text(version, "name"));
        if !stored.contains(&name) {
            stored.push(name);
        }
    }
    status["storedVersions"] = Value::Array(stored);
    let wanted = spec.get("names").cloned().unwrap_or_else(|| json!({}));
    let mut accepted = status
        .get("acceptedNames")
        .filter(|n| n.is_object())
        .cloned()
        .unwrap_or(json!({}));
    let mut conflict: Option<(&'static str, String)> = None;
    let checks = [
        ("plural", "PluralConflict", false),
        ("singular", "SingularConflict", false),
        ("kind", "KindConflict", true),
        ("listKind", "ListKindConflict", true),
    ];
    for (key, reason, is_kind) in checks {
        let name = text(&wanted, key).to_owned();
        let is_taken = if is_kind {
            taken.has_kind(&name)
        } else {
            taken.has_resource(&name)
        };
        if is_taken && text(&accepted, key) != name {
            conflict = Some((reason, format!("{name:?} is already in use")));
        } else {
            accepted[key] = json!(name);
        }
    }
    let short: Vec<&str> = names_in(&wanted, "shortNames");
    let had: Vec<&str> = names_in(&accepted, "shortNames");
    let used: Vec<String> = short
        .iter()
        .filter(|name| !had.contains(name) && taken.has_resource(name))
        .map(|name| format!("{name:?} is already in use"))
        .collect();
    match used.as_slice() {
        [] => put_list(&mut accepted, "shortNames", &wanted),
        [one] => conflict = Some(("ShortNamesConflict", one.clone())),
        many => conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
    put_list(&mut accepted, "categories", &wanted);
    status["acceptedNames"] = accepted;
    definition["status"] = status;
    match conflict {
        Some((reason, why)) => {
            set_condition(definition, NAMES_ACCEPTED, ("False", reason, &why), now);
            if !is_true(definition, ESTABLISHED) {
                let state = ("False", "NotAccepted", "not all names are accepted");
                set_condition(definition, ESTABLISHED, state, now);
            }
        }
        None => {
            set_condition(
                definition,
                NAMES_ACCEPTED,
                ("True", "NoConflicts", "no conflicts found"),
                now,
            );
            if !is_true(definition, ESTABLISHED) {
                let state = if has_broken_authority(definition) {
                    let why = "The conversion webhook CABundle is invalid";
                    ("False", "InvalidCABundle", why)
                } else {
                    let why = "the initial names have been accepted";
                    ("True", "InitialNamesAccepted", why)
                };
                set_condition(definition, ESTABLISHED, state, now);
            }
        }
    }
    if let Some((status, reason, why)) = definition::approval(definition) {
        set_condition(definition, API_APPROVED, (status, reason, &why), now);
    }
}

/// Whether the certificates by which a conversion webhook would be known are none.
fn has_broken_authority(definition: &Value) -> bool {
    let bundle = definition.pointer("/spec/conversion/webhook/clientConfig/caBundle");
    let Some(bundle) = bundle.and_then(Value::as_str).filter(|b| !b.is_empty()) else {
        return false;
    };
    let text = BASE64.decode(bundle).ok().and_then(|b| String::from_utf8(b).ok());
    !text.is_some_and(|text| holds_certificate(&text))
}

/// Whether a text in PEM holds a certificate.
fn holds_certificate(text: &str) -> bool {
    /// Of a sequence in DER, which every certificate is.
    const SEQUENCE: u8 = 0x30;
    let blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    let inner = blocks.filter_map(|block| Some(block.split_once("-----END CERTIFICATE-----")?.0));
    let mut certificates = inner.filter_map(|lines| {
        let packed: String = lines.split_whitespace().collect();
        BASE64.decode(packed).ok()
    });
    certificates.any(|der| der.first() == Some(&SEQUENCE))
}

fn names_in<'v>(names: &'v Value, key: &str) -> Vec<&'v str> {
    let list = names.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

fn put_list(accepted: &mut Value, key: &str, wanted: &Value) {
    match wanted
        .get(key)
        .filter(|l| l.as_array().is_some_and(|l| !l.is_empty()))
    {
        Some(list) => accepted[key] = list.clone(),
        None => {
            if let Some(members) = accepted.as_object_mut() {
                members.remove(key);
            }
        }
    }
}

/// Marks a definition whose deletion begins: it waits for its objects.
pub fn start_deletion(definition: &mut Value, now: i64) {
    let why = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(
        definition,
        TERMINATING,
        ("True", "InstanceDeletionPending", why),
        now,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        json!({"spec": {"group": "a.io", "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList",
            "shortNames": ["x"], "categories": ["all"]}, "versions": [{"name": "v1", "storage": true}]}})
    }

    #[test]
    fn free_names_are_accepted_at_once() {
        let mut first = definition();
        settle(&mut first, None, &Taken::default(), 0);
        assert_eq!(first["status"]["acceptedNames"], definition()["spec"]["names"]);
        assert_eq!(first["status"]["storedVersions"], json!(["v1"]));
        assert!(is_true(&first, ESTABLISHED) && is_true(&first, NAMES_ACCEPTED));
        // Nothing changes: not even a time.
        let mut again = definition();
        settle(&mut again, Some(&first), &Taken::default(), 100);
        assert_eq!(again["status"], first["status"]);
    }

    #[test]
    fn a_definition_with_broken_certificates_is_not_established() {
        let certificate = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            BASE64.encode([0x30, 0x03, 0x02, 0x01, 0x05])
        );
        let table = [
            ("", true),
            ("Cg==", false),
            ("not base64", false),
            (&BASE64.encode(certificate), true),
        ];
        for (bundle, expected) in table {
            let mut made = definition();
            made["spec"]["conversion"] =
                json!({"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": bundle}}});
            settle(&mut made, None, &Taken::default(), 0);
            assert_eq!(is_true(&made, ESTABLISHED), expected, "{bundle}");
            assert!(is_true(&made, NAMES_ACCEPTED));
        }
    }

    #[test]
    fn definitions_of_kubernetes_say_whether_they_are_approved() {
        let table = [
            ("a.io", "", None),
            (
                "sigs.k8s.io",
                "https://example.com/1",
                Some(("True", "ApprovedAnnotation")),
            ),
            (
                "k8s.io",
                "unapproved, a test",
                Some(("False", "UnapprovedAnnotation")),
            ),
            ("kubernetes.io", "", Some(("False", "MissingAnnotation"))),
            ("x.kubernetes.io", "yes", Some(("False", "InvalidAnnotation"))),
        ];
        for (group, annotation, expected) in table {
            let mut made = definition();
            made["spec"]["group"] = json!(group);
            made["metadata"] = json!({"annotations": {"api-approved.kubernetes.io": annotation}});
            settle(&mut made, None, &Taken::default(), 0);
            let found = condition(&made, API_APPROVED).map(|c| (c["status"].as_str(), c["reason"].as_str()));
            let expected = expected.map(|(status, reason)| (Some(status), Some(reason)));
            assert_eq!(found, expected, "{group} {annotation}");
        }
    }

    #[test]
    fn names_of_others_are_not_accepted() {
        let mut other = definition();
        settle(&mut other, None, &Taken::default(), 0);
        let mut taken = Taken::default();
        taken.add(&other);
        let mut late = json!({"spec": {"names": {"plural": "bs", "singular": "b", "kind": "A", "listKind": "BList",
            "shortNames": ["x"]}, "versions": [{"name": "v2", "storage": true}]}});
        settle(&mut late, None, &taken, 0);
        assert!(!is_true(&late, ESTABLISHED));
        assert_eq!(late["status"]["conditions"][0]["reason"], "ShortNamesConflict");
        assert_eq!(
            late["status"]["acceptedNames"],
            json!({"plural": "bs", "singular": "b", "listKind": "BList"})
        );
        // An established one stays established when it asks for a name that is taken.
        let mut greedy = definition();
        greedy["spec"]["names"]["shortNames"] = json!(["x", "y"]);
        let others = Taken {
            resources: vec!["y".to_owned()],
            kinds: Vec::new(),
        };
        settle(&mut greedy, Some(&other), &others, 0);
        assert!(is_true(&greedy, ESTABLISHED) && !is_true(&greedy, NAMES_ACCEPTED));
        assert_eq!(greedy["status"]["acceptedNames"]["shortNames"], json!(["x"]));
    }
}
