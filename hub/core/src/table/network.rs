//! Columns of Services, Ingresses and network policies.

use super::cell::{Row, Show};
use super::{AGE, NAME, Printed, narrow, wide};
use serde_json::Value;

pub(super) const SERVICE: &[Printed] = &[
    NAME,
    narrow("Type", "string", |r| r.text_or("/spec/type", "ClusterIP")),
    narrow("Cluster-IP", "string", |r| match r.text("/spec/clusterIPs/0") {
        "" => r.text_or("/spec/clusterIP", "<none>"),
        ip => ip.show(),
    }),
    narrow("External-IP", "string", external_ip),
    narrow("Port(s)", "string", ports),
    AGE,
    wide("Selector", "string", |r| r.label_text("/spec/selector")),
];

fn addresses(r: &Row) -> Vec<String> {
    let ingress = r.list("/status/loadBalancer/ingress").iter();
    let mut out: Vec<String> = ingress
        .filter_map(|i| {
            let ip = i["ip"].as_str().filter(|t| !t.is_empty());
            ip.or_else(|| i["hostname"].as_str()).map(str::to_owned)
        })
        .collect();
    out.sort();
    out.dedup();
    out
}

fn external_ip(r: &Row) -> Value {
    let own = r
        .list("/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned);
    let (shown, none): (Vec<String>, &str) = match r.text("/spec/type") {
        "ExternalName" => return r.text("/spec/externalName").show(),
        "LoadBalancer" => (addresses(r).into_iter().chain(own).collect(), "<pending>"),
        _ => (own.collect(), "<none>"),
    };
    if shown.is_empty() {
        none.show()
    } else {
        shown.join(",").show()
    }
}

fn ports(r: &Row) -> Value {
    let parts: Vec<String> = r
        .list("/spec/ports")
        .iter()
        .map(|p| {
            let protocol = p["protocol"].as_str().unwrap_or("TCP");
            match p["nodePort"].as_i64() {
                Some(node @ 1..) => format!("{}:{node}/{protocol}", p["port"]),
                _ => format!("{}/{protocol}", p["port"]),
            }
        })
        .collect();
    if parts.is_empty() {
        "<none>".show()
    } else {
        parts.join(",").show()
    }
}

pub(super) const INGRESS: &[Printed] = &[
    NAME,
    narrow("Class", "string", |r| {
        r.text_or("/spec/ingressClassName", "<none>")
    }),
    narrow("Hosts", "string", hosts),
    narrow("Address", "string", |r| addresses(r).join(",").show()),
    narrow("Ports", "string", |r| {
        if r.list("/spec/tls").is_empty() {
            "80".show()
        } else {
            "80, 443".show()
        }
    }),
    AGE,
];

fn hosts(r: &Row) -> Value {
    let rules = r.list("/spec/rules");
    let named: Vec<&str> = rules
        .iter()
        .take(3)
        .filter_map(|rule| rule["host"].as_str())
        .filter(|h| !h.is_empty())
        .collect();
    if named.is_empty() {
        return "*".show();
    }
    let rest = if rules.len() > 3 {
        format!(" + {} more...", rules.len() - 3)
    } else {
        String::new()
    };
    format!("{}{rest}", named.join(",")).show()
}

pub(super) const INGRESS_CLASS: &[Printed] = &[
    NAME,
    narrow("Controller", "string", |r| r.text("/spec/controller").show()),
    narrow("Parameters", "string", |r| {
        let (kind, name) = (r.text("/spec/parameters/kind"), r.text("/spec/parameters/name"));
        match r.text("/spec/parameters/apiGroup") {
            _ if name.is_empty() => "<none>".show(),
            "" => format!("{kind}/{name}").show(),
            group => format!("{kind}.{group}/{name}").show(),
        }
    }),
    AGE,
];

pub(super) const NETWORK_POLICY: &[Printed] = &[
    NAME,
    narrow("Pod-Selector", "string", |r| r.selector("/spec/podSelector")),
    AGE,
];
