//! Columns of certificate signing requests, endpoints and webhook configurations.

use super::cell::{Row, Show};
use super::{AGE, NAME, Printed, narrow};
use serde_json::Value;

pub(super) const SIGNING_REQUEST: &[Printed] = &[
    NAME,
    AGE,
    narrow("SignerName", "string", |r| r.text("/spec/signerName").show()),
    narrow("Requestor", "string", |r| r.text("/spec/username").show()),
    narrow("RequestedDuration", "string", |r| {
        match r.int("/spec/expirationSeconds") {
            0 => "<none>".show(),
            seconds => crate::timestamp::age(seconds).show(),
        }
    }),
    narrow("Condition", "string", condition),
];

pub(super) const WEBHOOKS: &[Printed] = &[
    NAME,
    narrow("Webhooks", "integer", |r| count(r.list("/webhooks"))),
    AGE,
];

pub(super) const ENDPOINTS: &[Printed] = &[NAME, narrow("Endpoints", "string", endpoints), AGE];

pub(super) const ENDPOINT_SLICE: &[Printed] = &[
    NAME,
    narrow("AddressType", "string", |r| r.text("/addressType").show()),
    narrow("Ports", "string", |r| {
        let ports = r.list("/ports").iter().map(|p| match p["port"].as_i64() {
            Some(port) => port.to_string(),
            None => "*".to_owned(),
        });
        some(ports.collect(), "<unset>")
    }),
    narrow("Endpoints", "string", |r| {
        let addresses = r
            .list("/endpoints")
            .iter()
            .flat_map(|e| e["addresses"].as_array());
        let texts = addresses.flatten().filter_map(Value::as_str).map(str::to_owned);
        some(texts.collect(), "<unset>")
    }),
    AGE,
];

fn count(list: &[Value]) -> Value {
    i64::try_from(list.len()).unwrap_or(i64::MAX).show()
}

/// Up to three of a list, and how many more there are.
fn some(all: Vec<String>, none: &str) -> Value {
    match all.len() {
        0 => none.show(),
        1..=3 => all.join(",").show(),
        more => format!("{} + {} more...", all[..3].join(","), more - 3).show(),
    }
}

fn endpoints(r: &Row) -> Value {
    let mut all = Vec::new();
    for subset in r.list("/subsets") {
        let addresses = subset["addresses"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let ports = subset["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        for address in addresses.iter().filter_map(|a| a["ip"].as_str()) {
            if ports.is_empty() {
                all.push(address.to_owned());
            }
            all.extend(ports.iter().map(|p| format!("{address}:{}", p["port"])));
        }
    }
    some(all, "<none>")
}

fn condition(r: &Row) -> Value {
    let conditions = r.list("/status/conditions");
    let has = |kind: &str| conditions.iter().any(|c| c["type"] == kind);
    let mut text = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if !r.text("/status/certificate").is_empty() {
        text.push_str(",Issued");
    }
    text.show()
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use crate::types::TypeTable;
    use serde_json::{Value, json};

    fn row(group: &str, plural: &str, object: &Value) -> Vec<Value> {
        let resource = TypeTable::built_in().preferred(group, plural).expect("a kind");
        cells(resource, object, 100)
    }

    #[test]
    fn kinds_about_access_and_endpoints() {
        let request = json!({"metadata": {"name": "r", "creationTimestamp": "1970-01-01T00:00:40Z"},
            "spec": {"signerName": "a/b", "username": "ann", "expirationSeconds": 86_400},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "x"}});
        assert_eq!(
            row("certificates.k8s.io", "certificatesigningrequests", &request),
            [
                json!("r"),
                json!("60s"),
                json!("a/b"),
                json!("ann"),
                json!("24h"),
                json!("Approved,Issued")
            ]
        );
        let hooks = json!({"metadata": {"name": "h"}, "webhooks": [{}]});
        let plural = "validatingwebhookconfigurations";
        assert_eq!(row("admissionregistration.k8s.io", plural, &hooks)[1], json!(1));
        let ends = json!({"metadata": {"name": "e"}, "subsets": [{"ports": [{"port": 80}],
            "addresses": [{"ip": "1"}, {"ip": "2"}, {"ip": "3"}, {"ip": "4"}]}]});
        assert_eq!(
            row("", "endpoints", &ends)[1],
            json!("1:80,2:80,3:80 + 1 more...")
        );
        let slice =
            json!({"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [{"addresses": ["1"]}]});
        let shown = row("discovery.k8s.io", "endpointslices", &slice);
        assert_eq!(shown[1..4], [json!("IPv4"), json!("<unset>"), json!("1")]);
    }
}
