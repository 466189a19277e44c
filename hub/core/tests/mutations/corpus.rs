//! Objects that are right, of kinds with much to go wrong.

use serde_json::{Value, json};

/// A Deployment with most kinds of fields.
pub(crate) fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "d", "labels": {"x": "y"}, "creationTimestamp": "2026-11-30T12:00:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}],
            "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
                    "k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}}}}}}]},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"x": "y"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"metadata": {"labels": {"x": "y"}}, "spec": {
                "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}, {"name": "s", "secret": {"secretName": "q"}}],
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "containers": [{"name": "c", "image": "i", "args": ["-a", ""],
                    "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}],
                    "env": [{"name": "A", "value": "1"}],
                    "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
                    "securityContext": {"runAsUser": 0, "privileged": false}}]}}}})
}

/// A definition whose schema uses everything.
pub(crate) fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.io", "uid": "u"},
        "spec": {"group": "example.io", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema()},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "First", "type": "string", "jsonPath": ".spec.items[0].name"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
                "selectableFields": [{"jsonPath": ".spec.name"}]},
                {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn schema() -> Value {
    json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["name"],
            "x-kubernetes-validations": [
                {"rule": "self.size >= 0", "message": "no less than nothing"},
                {"rule": "!has(oldSelf.name) || self.name == oldSelf.name", "messageExpression": "'stay ' + self.name", "reason": "FieldValueForbidden"},
                {"rule": "self.items.all(i, i.name != '')", "fieldPath": ".items"}],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
                "size": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100, "multipleOf": 2, "default": 2},
                "ratio": {"type": "number", "exclusiveMinimum": true, "minimum": 0},
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a", "nullable": true},
                "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "at": {"type": "string", "format": "date-time"},
                "raw": {"type": "string", "format": "byte"},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
                "labels": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string", "maxLength": 10}},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 8, "items": {"type": "string", "maxLength": 20}},
                "items": {"type": "array", "maxItems": 8, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string", "maxLength": 20}, "weight": {"type": "integer", "default": 1}}}},
                "choice": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["c"]}}}},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}}}}})
}

/// An object of it.
pub(crate) fn widget() -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "d", "uid": "1"},
        "spec": {"name": "web", "size": 4, "ratio": 0.5, "mode": "b", "port": "http", "at": "2026-01-01T00:00:00Z", "raw": "AAE=",
            "any": {"a": {"b": [1, {"c": null}]}}, "inner": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": 1},
            "labels": {"a": "b"}, "tags": ["x", "y"], "items": [{"name": "a", "weight": 2}, {"name": "b"}],
            "choice": {"a": "x"}},
        "status": {"size": 4}})
}

/// Objects of built-in kinds, with group, version and plural.
pub(crate) fn built_in() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    vec![
        ("apps", "v1", "deployments", deployment()),
        (
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            definition(),
        ),
        (
            "",
            "v1",
            "services",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "d"},
                "spec": {"selector": {"a": "b"}, "type": "NodePort", "clusterIPs": ["10.0.0.1"],
                    "ports": [{"name": "a", "port": 80, "protocol": "TCP", "targetPort": "x", "nodePort": 30000},
                        {"name": "b", "port": 80, "protocol": "UDP", "targetPort": 8}]}}),
        ),
        (
            "",
            "v1",
            "secrets",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {"a": "b"}},
                "type": "Opaque", "data": {"a": "AAEC", "b": ""}, "stringData": {"c": "d"}, "immutable": true}),
        ),
        (
            "",
            "v1",
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "finalizers": ["e.io/f"]},
                "data": {"a": "1"}, "binaryData": {"b": "AAEC"}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "v1",
            "clusterroles",
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
                "aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]},
                "rules": [{"apiGroups": ["*"], "resources": ["pods/log"], "verbs": ["get"], "resourceNames": ["x"]},
                    {"nonResourceURLs": ["/a/*"], "verbs": ["*"]}]}),
        ),
        (
            "networking.k8s.io",
            "v1",
            "networkpolicies",
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n", "namespace": "d"},
                "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80, "endPort": 90}, {"port": "x"}],
                    "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]}}),
        ),
        (
            "coordination.k8s.io",
            "v1",
            "leases",
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "d"},
                "spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "renewTime": "2026-11-30T12:00:00.123456Z"}}),
        ),
        (
            "autoscaling",
            "v2",
            "horizontalpodautoscalers",
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "d"},
                "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "minReplicas": 1, "maxReplicas": 9,
                    "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
                    "behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}}}}),
        ),
    ]
}
