//! Round trips of whole objects, bytes that Go wrote, and hostile bytes.

use super::*;
use crate::types::TypeTable;
use proptest::prelude::*;
use serde_json::{Value, json};

fn round(group: &str, version: &str, plural: &str, object: &Value) -> Value {
    let table = TypeTable::built_in();
    let of = table
        .resource(group, version, plural)
        .expect("a resource")
        .of_type;
    decode(table, &encode(table, of, object)).expect("what was written")
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "d", "labels": {"x": "y"}, "creationTimestamp": "2026-11-30T12:00:00Z",
            "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:replicas": {}}}}]},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"x": "y"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"metadata": {"labels": {"x": "y"}}, "spec": {
                "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}, {"name": "s", "secret": {"secretName": "q"}}],
                "containers": [{"name": "c", "image": "i", "args": ["-a", ""],
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
                    "securityContext": {"runAsUser": 0, "privileged": false}}]}}}})
}

#[test]
fn objects_come_back_as_they_were() {
    assert_eq!(round("apps", "v1", "deployments", &deployment()), deployment());
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "immutable": false,
        "data": {"a": "1", "": ""}, "binaryData": {"b": "AAEC"}});
    assert_eq!(round("", "v1", "configmaps", &config), config);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
        "spec": {"leaseDurationSeconds": 15, "renewTime": "2026-11-30T12:00:00.123456Z"}});
    assert_eq!(round("coordination.k8s.io", "v1", "leases", &lease), lease);
}

#[test]
fn schemas_of_definitions_come_back() {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.e.io"},
        "spec": {"group": "e.io", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {
                    "a": {"type": "array", "items": {"type": "string", "default": "x", "enum": ["x", 1]}},
                    "b": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0.5}},
                    "c": {"type": "object", "additionalProperties": true,
                        "x-kubernetes-preserve-unknown-fields": true}}}}}]}});
    assert_eq!(
        round(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            &definition
        ),
        definition
    );
}

/// Go's writer puts down every field that is no pointer, also empty ones.
#[test]
fn empty_fields_are_left_out() {
    let table = TypeTable::built_in();
    let mut body = MAGIC.to_vec();
    body.extend_from_slice(b"\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x1f");
    body.extend_from_slice(b"\x0a\x11\x0a\x01x\x12\x00\x1a\x00\x22\x00\x2a\x002\x008\x00B\x00\x12\x00\x1a\x08\x0a\x00\x12\x04\x0a\x00\x12\x00");
    let object = decode(table, &body).expect("a namespace");
    assert_eq!(object["metadata"]["name"], "x");
    assert_eq!(object["kind"], "Namespace");
    assert_eq!(object.get("spec"), None);
}

#[test]
fn what_is_no_body_is_refused() {
    let table = TypeTable::built_in();
    assert_eq!(decode(table, b"{}"), Err(ProtobufError::NoMagic));
    assert_eq!(decode(table, b"k8s\0\x0a\xff"), Err(ProtobufError::CutShort));
    assert_eq!(decode(table, b"k8s\0\x0b"), Err(ProtobufError::WireType(3)));
    let unknown = b"k8s\0\x0a\x0b\x0a\x04x/v1\x12\x03Foo";
    assert!(matches!(
        decode(table, unknown),
        Err(ProtobufError::UnknownKind { .. })
    ));
    // A schema within a schema within a schema.
    let mut inner = Vec::new();
    for _ in 0..1_000 {
        let mut entry = Vec::new();
        wire::bytes(&mut entry, 1, b"p");
        wire::bytes(&mut entry, 2, &inner);
        let mut outer = Vec::new();
        wire::bytes(&mut outer, 29, &entry);
        inner = outer;
    }
    let mut validation = Vec::new();
    wire::bytes(&mut validation, 1, &inner);
    let mut version = Vec::new();
    wire::bytes(&mut version, 4, &validation);
    let mut spec = Vec::new();
    wire::bytes(&mut spec, 7, &version);
    let mut content = Vec::new();
    wire::bytes(&mut content, 2, &spec);
    let mut meta = Vec::new();
    wire::bytes(&mut meta, 1, b"apiextensions.k8s.io/v1");
    wire::bytes(&mut meta, 2, b"CustomResourceDefinition");
    let mut body = MAGIC.to_vec();
    wire::bytes(&mut body, 1, &meta);
    wire::bytes(&mut body, 2, &content);
    assert_eq!(decode(table, &body), Err(ProtobufError::TooDeep));
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(
        at in any::<prop::sample::Index>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let table = TypeTable::built_in();
        let of = table.resource("apps", "v1", "deployments").expect("a resource").of_type;
        let mut body = encode(table, of, &deployment());
        for (place, byte) in flips {
            let place = place.index(body.len());
            body[place] = byte;
        }
        let _ = decode(table, &body);
        body.truncate(at.index(body.len()));
        let _ = decode(table, &body);
    }
}
