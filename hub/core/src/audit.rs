//! The line that the audit log gets for a write, in the shape of `audit.k8s.io/v1` at the level Metadata.

use crate::access::{Attributes, User, review};
use serde_json::{Value, json};

/// What happened.
#[derive(Debug)]
pub struct Record<'a> {
    /// Identity of the request.
    pub id: &'a str,
    /// Path and query as sent.
    pub uri: &'a str,
    /// Who proved to be there; `None` if nobody did.
    pub user: Option<&'a User>,
    /// As whom the request was made, if as somebody else.
    pub impersonated: Option<&'a User>,
    /// Address of the client.
    pub source: String,
    /// `User-Agent`.
    pub agent: &'a str,
    /// What was wanted.
    pub wish: &'a Attributes,
    /// Name of a created object, if the path has none.
    pub named: Option<&'a str>,
    /// HTTP status of the answer.
    pub code: u16,
    /// Which binding allowed it; empty if none did.
    pub reason: &'a str,
    /// What admission policies note about it: keys and values.
    pub notes: &'a [(String, String)],
    /// When the request came, RFC 3339.
    pub received: &'a str,
    /// How long the answer took (milliseconds).
    pub milliseconds: u64,
}

/// Longest text that a client chooses.
const TEXT: usize = 1_024;

fn cut(text: &str) -> String {
    text.chars().take(TEXT).collect()
}

/// The line, without its end.
pub fn line(record: &Record<'_>) -> String {
    let wish = record.wish;
    let mut event = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "stage": "ResponseComplete",
        "auditID": record.id, "requestURI": cut(record.uri), "verb": wish.verb,
        "sourceIPs": [record.source], "responseStatus": {"metadata": {}, "code": record.code},
        "requestReceivedTimestamp": record.received, "milliseconds": record.milliseconds,
        "annotations": {"authorization.k8s.io/decision": if record.reason.is_empty() { "forbid" } else { "allow" }},
    });
    if !record.reason.is_empty() {
        event["annotations"]["authorization.k8s.io/reason"] = json!(record.reason);
    }
    for (key, value) in record.notes {
        // Several policies may say the same key; the first stays, as upstream.
        if event["annotations"].get(key).is_none() {
            event["annotations"][key] = json!(cut(value));
        }
    }
    event["user"] = record.user.map_or_else(|| json!({}), review::user_info);
    if let Some(user) = record.impersonated {
        event["impersonatedUser"] = review::user_info(user);
    }
    if !record.agent.is_empty() {
        event["userAgent"] = json!(cut(record.agent));
    }
    if wish.path.is_none() {
        let mut object = json!({"resource": wish.resource, "apiVersion": wish.version});
        let name = if wish.name.is_empty() {
            record.named.unwrap_or_default()
        } else {
            &wish.name
        };
        for (key, text) in [
            ("apiGroup", wish.group.as_str()),
            ("namespace", &wish.namespace),
            ("name", name),
            ("subresource", &wish.subresource),
        ] {
            if !text.is_empty() {
                object[key] = json!(cut(text));
            }
        }
        event["objectRef"] = object;
    }
    Value::to_string(&event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_did_what_and_what_came_of_it() {
        let user = User {
            name: "ann".to_owned(),
            ..User::default()
        };
        let wish = Attributes::resource("create", "apps", "deployments", "shop", "");
        let record = Record {
            id: "1",
            uri: "/apis/apps/v1/namespaces/shop/deployments?x=\n",
            user: Some(&user),
            impersonated: None,
            source: "192.0.2.1".to_owned(),
            agent: &"k".repeat(5_000),
            wish: &wish,
            named: Some("web"),
            code: 201,
            reason: "RBAC: allowed",
            notes: &[("p/k".to_owned(), "v".to_owned())],
            received: "2026-01-01T00:00:00Z",
            milliseconds: 3,
        };
        let text = line(&record);
        assert!(!text.contains('\n'));
        let event: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(event["user"]["username"], "ann");
        assert_eq!(
            event["objectRef"],
            json!({"resource": "deployments", "apiVersion": "", "apiGroup": "apps", "namespace": "shop", "name": "web"})
        );
        assert_eq!(event["responseStatus"]["code"], 201);
        assert_eq!(event["annotations"]["p/k"], "v");
        assert_eq!(event["userAgent"].as_str().map(str::len), Some(1_024));
    }
}
