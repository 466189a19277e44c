//! Tables: what `kubectl get` prints. Columns of built-in kinds follow the printers of the Kubernetes API server (wide
//! columns included, by priority); fields that a template leaves to a member's defaults are shown with the default.
//! Columns of the Karmada kinds come with the type table; every other kind has NAME and AGE.

mod access;
mod batch;
mod cell;
mod cluster;
mod core;
mod network;
pub(crate) mod path;
mod revision;
mod workload;

pub use cell::Row;

use crate::types::{Column, Resource};
use cell::Show;
use serde_json::{Value, json};

/// A column with the function that fills it.
pub(crate) struct Printed {
    name: &'static str,
    kind: &'static str,
    priority: i32,
    cell: fn(&Row) -> Value,
}

/// A column that is always shown.
const fn narrow(name: &'static str, kind: &'static str, cell: fn(&Row) -> Value) -> Printed {
    Printed {
        name,
        kind,
        priority: 0,
        cell,
    }
}

/// A column of `-o wide`.
const fn wide(name: &'static str, kind: &'static str, cell: fn(&Row) -> Value) -> Printed {
    Printed {
        name,
        kind,
        priority: 1,
        cell,
    }
}

const NAME: Printed = narrow("Name", "string", |r| r.name());
const AGE: Printed = narrow("Age", "string", |r| r.age());

fn built_in(resource: &Resource) -> Option<&'static [Printed]> {
    Some(match (&*resource.group, &*resource.plural) {
        ("apps", "deployments") => workload::DEPLOYMENT,
        ("apps", "replicasets") | ("", "replicationcontrollers") => workload::REPLICA_SET,
        ("apps", "statefulsets") => workload::STATEFUL_SET,
        ("apps", "daemonsets") => workload::DAEMON_SET,
        ("", "pods") => workload::POD,
        ("batch", "jobs") => batch::JOB,
        ("batch", "cronjobs") => batch::CRON_JOB,
        ("autoscaling", "horizontalpodautoscalers") => batch::AUTOSCALER,
        ("policy", "poddisruptionbudgets") => batch::DISRUPTION_BUDGET,
        ("", "services") => network::SERVICE,
        ("networking.k8s.io", "ingresses") => network::INGRESS,
        ("networking.k8s.io", "ingressclasses") => network::INGRESS_CLASS,
        ("networking.k8s.io", "networkpolicies") => network::NETWORK_POLICY,
        ("", "podtemplates") => revision::POD_TEMPLATE,
        ("apps", "controllerrevisions") => revision::CONTROLLER_REVISION,
        ("", "limitranges") => core::CREATED_AT,
        ("", "configmaps") => core::CONFIG_MAP,
        ("", "secrets") => core::SECRET,
        ("", "namespaces") => core::NAMESPACE,
        ("", "events") => core::EVENT,
        ("coordination.k8s.io", "leases") => core::LEASE,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => core::ROLE_BINDING,
        ("", "endpoints") => access::ENDPOINTS,
        ("discovery.k8s.io", "endpointslices") => access::ENDPOINT_SLICE,
        ("certificates.k8s.io", "certificatesigningrequests") => access::SIGNING_REQUEST,
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations" | "mutatingwebhookconfigurations",
        ) => access::WEBHOOKS,
        ("", "nodes") => cluster::NODE,
        ("", "persistentvolumes") => cluster::PERSISTENT_VOLUME,
        ("", "persistentvolumeclaims") => cluster::PERSISTENT_VOLUME_CLAIM,
        ("storage.k8s.io", "storageclasses") => cluster::STORAGE_CLASS,
        ("scheduling.k8s.io", "priorityclasses") => cluster::PRIORITY_CLASS,
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") | ("apiextensions.k8s.io", _) => {
            core::CREATED_AT
        }
        _ => return None,
    })
}

/// `columnDefinitions` of a kind.
pub fn columns(resource: &Resource) -> Value {
    if let Some(custom) = &resource.custom {
        return crate::crd::columns::columns(custom);
    }
    let column = |name: &str, kind: &str, priority: i32| {
        let format = if name == "Name" { "name" } else { "" };
        json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
    };
    if !resource.columns.is_empty() {
        let own = resource.columns.iter().map(|c| {
            let kind = if &*c.kind == "date" { "string" } else { &*c.kind };
            column(&c.name, kind, c.priority)
        });
        return std::iter::once(column("Name", "string", 0)).chain(own).collect();
    }
    let printed = built_in(resource).unwrap_or(&[NAME, AGE]);
    printed
        .iter()
        .map(|c| column(c.name, c.kind, c.priority))
        .collect()
}

/// Cells of one object, one per column.
pub fn cells(resource: &Resource, object: &Value, now: i64) -> Vec<Value> {
    if let Some(custom) = &resource.custom {
        return crate::crd::columns::cells(custom, object, now);
    }
    let row = Row::new(object, now);
    if !resource.columns.is_empty() {
        return std::iter::once(row.name())
            .chain(resource.columns.iter().map(|c| by_path(resource, &row, c)))
            .collect();
    }
    built_in(resource)
        .unwrap_or(&[NAME, AGE])
        .iter()
        .map(|c| (c.cell)(&row))
        .collect()
}

fn by_path(resource: &Resource, row: &Row, column: &Column) -> Value {
    if &*column.kind == "date" {
        return row.age();
    }
    let found = path::find(row.object(), &column.path);
    let text = found
        .into_iter()
        .flat_map(plain_texts)
        .collect::<Vec<String>>()
        .join(",");
    if !text.is_empty() {
        return text.show();
    }
    // Clusters come from an aggregated API server in the reference, the other kinds from CRDs: these leave a cell empty.
    match (&*resource.plural, &*column.name) {
        ("clusters", "Ready") => "Unknown".show(),
        ("clusters", _) => "<none>".show(),
        _ => Value::Null,
    }
}

/// A list is shown as its items.
fn plain_texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(plain_texts).collect(),
        Value::String(text) => vec![text.clone()],
        Value::Null => Vec::new(),
        other => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TypeTable;

    fn shown(group: &str, plural: &str, object: &Value) -> Vec<(String, Value)> {
        let resource = TypeTable::built_in()
            .preferred(group, plural)
            .unwrap_or_else(|| panic!("{plural}"));
        let columns = columns(resource);
        let names = columns
            .as_array()
            .expect("columns")
            .iter()
            .map(|c| c["name"].as_str().unwrap_or("").to_owned());
        let cells = cells(resource, object, 1_796_040_000);
        assert_eq!(columns.as_array().map(Vec::len), Some(cells.len()), "{plural}");
        names.zip(cells).collect()
    }

    fn cell(group: &str, plural: &str, object: &Value, column: &str) -> Value {
        shown(group, plural, object)
            .into_iter()
            .find(|(n, _)| n == column)
            .unwrap_or_else(|| panic!("{column}"))
            .1
    }

    #[test]
    fn every_kind_has_as_many_cells_as_columns_even_when_empty() {
        for resource in TypeTable::built_in().resources() {
            let object = json!({"metadata": {"name": "a"}});
            let count = columns(resource).as_array().map(Vec::len);
            assert_eq!(
                count,
                Some(cells(resource, &object, 0).len()),
                "{}",
                resource.plural
            );
        }
    }

    #[test]
    fn workloads() {
        let deployment = json!({"metadata": {"name": "web", "creationTimestamp": "2026-11-30T11:58:00Z"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}}},
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}});
        let row = shown("apps", "deployments", &deployment);
        let cells: Vec<Value> = row.into_iter().map(|(_, v)| v).collect();
        assert_eq!(
            Value::Array(cells),
            json!(["web", "2/3", 3, 1, "2m", "a,b", "i:1,j", "app=web"])
        );
        assert_eq!(
            cell(
                "apps",
                "deployments",
                &json!({"metadata": {"name": "x"}}),
                "Ready"
            ),
            "0/1"
        );
        assert_eq!(
            cell("apps", "deployments", &json!({"metadata": {"name": "x"}}), "Age"),
            "<unknown>"
        );
    }

    #[test]
    fn pods() {
        let waiting = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]},
            "status": {"phase": "Pending", "containerStatuses":
                [{"restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        assert_eq!(cell("", "pods", &waiting, "Status"), "CrashLoopBackOff");
        assert_eq!(cell("", "pods", &waiting, "Restarts"), "2");
        let running = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]},
            "status": {"phase": "Running", "containerStatuses": [{"ready": true, "state": {"running": {}}}]}});
        assert_eq!(cell("", "pods", &running, "Ready"), "1/1");
        assert_eq!(cell("", "pods", &running, "Status"), "Running");
    }

    #[test]
    fn services_and_ingresses() {
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80},
            {"port": 53, "protocol": "UDP", "nodePort": 30053}], "selector": {"a": "b"}}});
        assert_eq!(cell("", "services", &service, "Type"), "ClusterIP");
        assert_eq!(cell("", "services", &service, "Port(s)"), "80/TCP,53:30053/UDP");
        assert_eq!(cell("", "services", &service, "External-IP"), "<none>");
        let balanced = json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h"}]}}});
        assert_eq!(cell("", "services", &balanced, "External-IP"), "1.2.3.4,h");
        let ingress = json!({"metadata": {"name": "i"}, "spec": {"tls": [{}], "rules": [{"host": "a"}, {"host": "b"}]}});
        assert_eq!(cell("networking.k8s.io", "ingresses", &ingress, "Hosts"), "a,b");
        assert_eq!(
            cell("networking.k8s.io", "ingresses", &ingress, "Ports"),
            "80, 443"
        );
    }

    #[test]
    fn jobs_and_events() {
        let job = json!({"metadata": {"name": "j"}, "spec": {}, "status": {"succeeded": 1,
            "startTime": "2026-11-30T11:59:00Z", "completionTime": "2026-11-30T11:59:10Z",
            "conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!(cell("batch", "jobs", &job, "Status"), "Complete");
        assert_eq!(cell("batch", "jobs", &job, "Completions"), "1/1");
        assert_eq!(cell("batch", "jobs", &job, "Duration"), "10s");
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "count": 4,
            "lastTimestamp": "2026-11-30T11:59:30Z", "message": " hi ", "source": {"component": "c", "host": "h"}});
        assert_eq!(cell("", "events", &event, "Object"), "pod/p");
        assert_eq!(cell("", "events", &event, "Last Seen"), "30s");
        assert_eq!(cell("", "events", &event, "Source"), "c, h");
    }

    #[test]
    fn karmada_columns_come_from_the_table() {
        let binding = json!({"metadata": {"name": "b"}, "status": {"conditions":
            [{"type": "Scheduled", "status": "True"}, {"type": "FullyApplied", "status": "False"}]}});
        assert_eq!(
            cell("work.karmada.io", "resourcebindings", &binding, "Scheduled"),
            "True"
        );
        assert_eq!(
            cell("work.karmada.io", "resourcebindings", &binding, "FullyApplied"),
            "False"
        );
        let cluster = json!({"metadata": {"name": "c"}, "spec": {"zones": ["z1", "z2"]}});
        assert_eq!(cell("cluster.karmada.io", "clusters", &cluster, "Zones"), "z1,z2");
        assert_eq!(
            cell("cluster.karmada.io", "clusters", &cluster, "Version"),
            "<none>"
        );
        assert_eq!(
            cell("cluster.karmada.io", "clusters", &cluster, "Ready"),
            "Unknown"
        );
    }
}
