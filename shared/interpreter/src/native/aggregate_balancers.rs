//! AggregateStatus of kinds with load balancer addresses: Service and Ingress.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::fields::{list, text};
use crate::types::reported;
use crate::{InterpretError, MemberItem};

/// Addresses of a Service of type LoadBalancer; `None`: another type, whose status is left alone.
pub(super) fn service(
    template: &Value,
    items: &[MemberItem],
) -> Result<Option<Map<String, Value>>, InterpretError> {
    if text(template, "spec.type")? != "LoadBalancer" {
        return Ok(None);
    }
    Ok(Some(addresses(items, true)?))
}

/// Addresses of an Ingress.
pub(super) fn ingress(items: &[MemberItem]) -> Result<Map<String, Value>, InterpretError> {
    addresses(items, false)
}

/// Without host name (so that host names sort first), host name, address, mode.
type Address<'a> = (bool, &'a str, &'a str, &'a str);
/// Number, protocol, error.
type Ports = BTreeSet<(i64, String, String)>;

/// Entries of all members, merged by host name, address and mode; host names sort before addresses.
fn addresses(items: &[MemberItem], with_mode: bool) -> Result<Map<String, Value>, InterpretError> {
    let mut merged: BTreeMap<Address<'_>, Ports> = BTreeMap::new();
    for (_, member) in reported(items) {
        for entry in list(member, "loadBalancer.ingress")? {
            let (host, address) = (text(entry, "hostname")?, text(entry, "ip")?);
            let mode = if with_mode { text(entry, "ipMode")? } else { "" };
            let ports = merged.entry((host.is_empty(), host, address, mode)).or_default();
            for port in list(entry, "ports")? {
                let number = port["port"].as_i64().unwrap_or(0);
                ports.insert((
                    number,
                    text(port, "protocol")?.to_owned(),
                    text(port, "error")?.to_owned(),
                ));
            }
        }
    }
    let entries: Vec<Value> = merged
        .into_iter()
        .map(|((_, host, address, mode), ports)| {
            let mut entry = Map::new();
            for (name, value) in [("hostname", host), ("ip", address), ("ipMode", mode)] {
                if !value.is_empty() {
                    entry.insert(name.to_owned(), value.into());
                }
            }
            if !ports.is_empty() {
                entry.insert("ports".to_owned(), ports.into_iter().map(port_entry).collect());
            }
            Value::Object(entry)
        })
        .collect();
    let balancer = if entries.is_empty() {
        json!({})
    } else {
        json!({ "ingress": entries })
    };
    Ok(Map::from_iter([("loadBalancer".to_owned(), balancer)]))
}

fn port_entry((port, protocol, error): (i64, String, String)) -> Value {
    let mut entry = json!({"port": port, "protocol": protocol});
    if !error.is_empty() {
        entry["error"] = error.into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_the_same_address_are_united() {
        let item = |cluster: &str, port: i64| MemberItem {
            cluster: cluster.to_owned(),
            status: Some(json!({"loadBalancer": {"ingress": [{"ip": "1.1.1.1",
                "ports": [{"port": port, "protocol": "TCP"}]}]}})),
            silent: false,
        };
        let got = ingress(&[item("a", 443), item("b", 80), item("c", 80)]).expect("readable");
        let want = json!([{"ip": "1.1.1.1",
            "ports": [{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]}]);
        assert_eq!(got["loadBalancer"]["ingress"], want);
    }
}
