//! Objects as they are answered: JSON, tables, metadata alone; single, in lists, in events.

use super::negotiate::Form;
use super::source::Served;
use crate::store::Object;
use bytes::Bytes;
use hub_core::{convert, table};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What a row of a table carries besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub(super) fn parse(text: Option<&str>) -> Include {
        match text {
            Some("None") => Include::None,
            Some("Object") => Include::Object,
            _ => Include::Metadata,
        }
    }
}

/// How objects of a resource are written for one request.
#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) served: Served,
    pub(super) form: Form,
    pub(super) include: Include,
    /// Seconds since 1970, for ages in tables.
    pub(super) now: i64,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// `metadata.continue` and what is left, for lists.
#[derive(Debug, Default)]
pub(super) struct More {
    pub(super) token: String,
    pub(super) remaining: Option<usize>,
}

impl Encoder {
    /// The JSON of an object in the version asked for.
    pub(super) fn plain(&self, object: &Object) -> Bytes {
        let custom = self.served.resource.custom.as_ref();
        // What was stored before the schema changed is shaped anew.
        if !self.served.resource.shared_storage && custom.is_none_or(|c| c.is_current(object.revision.0)) {
            return object.body.clone();
        }
        Bytes::from(convert::to(&self.served.resource, object.value()).to_string())
    }

    fn value(&self, object: &Object) -> Value {
        convert::to(&self.served.resource, object.value())
    }

    fn partial(object: &Object, version: &str) -> String {
        let metadata = match serde_json::from_slice::<Head<'_>>(&object.body) {
            Ok(head) => head.metadata.get(),
            // A stored body has metadata; without, there is nothing to show.
            Err(_) => "{}",
        };
        format!(
            "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/{version}\",\"metadata\":{metadata}}}"
        )
    }

    fn row(&self, version: &str, object: &Object) -> String {
        let value = self.value(object);
        let cells = Value::Array(table::cells(&self.served.resource, &value, self.now));
        let shown = match self.include {
            Include::None => return format!("{{\"cells\":{cells},\"object\":null}}"),
            Include::Metadata => Self::partial(object, version),
            Include::Object => value.to_string(),
        };
        format!("{{\"cells\":{cells},\"object\":{shown}}}")
    }

    /// A table; `with_columns` is left out in all but the first event of a watch.
    fn table(version: &str, metadata: &Value, columns: &Value, rows: &[String]) -> String {
        format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/{version}\",\"metadata\":{metadata},\
             \"columnDefinitions\":{columns},\"rows\":[{}]}}",
            rows.join(",")
        )
    }

    /// One object.
    pub(super) fn one(&self, object: &Object) -> Bytes {
        match self.form {
            Form::Json => self.plain(object),
            Form::Partial => Bytes::from(Self::partial(object, "v1")),
            Form::Table(version) => {
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                let columns = table::columns(&self.served.resource);
                Bytes::from(Self::table(
                    version,
                    &metadata,
                    &columns,
                    &[self.row(version, object)],
                ))
            }
        }
    }

    /// An object as an item of a list: those of built-in kinds do not say their kind again. The store writes apiVersion
    /// and kind first.
    fn item<'o>(&self, object: &'o Bytes, head: &[u8]) -> (&'static [u8], &'o [u8]) {
        match object.strip_prefix(head) {
            Some(rest) if self.served.resource.is_built_in => (b"{", rest),
            _ => (b"", object),
        }
    }

    /// A list.
    pub(super) fn list<'o>(
        &self,
        objects: impl Iterator<Item = &'o Object>,
        revision: u64,
        more: &More,
    ) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if !more.token.is_empty() {
            metadata["continue"] = json!(more.token);
        }
        if self.served.resource.custom.is_some() && self.form == Form::Json {
            // Upstream's lists of custom resources always say it.
            metadata["continue"] = json!(more.token);
        }
        if let Some(remaining) = more.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        let (kind, version) = match self.form {
            Form::Table(version) => {
                let rows: Vec<String> = objects.map(|o| self.row(version, o)).collect();
                let columns = table::columns(&self.served.resource);
                return Bytes::from(Self::table(version, &metadata, &columns, &rows));
            }
            Form::Partial => (
                "PartialObjectMetadataList".to_owned(),
                "meta.k8s.io/v1".to_owned(),
            ),
            Form::Json => {
                let resource = &self.served.resource;
                let kind = match &resource.custom {
                    Some(custom) => custom.list_kind.to_string(),
                    None => format!("{}List", resource.kind),
                };
                (kind, resource.api_version())
            }
        };
        let mut out = Vec::new();
        let head =
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":[");
        out.extend_from_slice(head.as_bytes());
        let resource = &*self.served.resource;
        let common = format!(
            "{{\"apiVersion\":\"{}\",\"kind\":\"{}\",",
            resource.api_version(),
            resource.kind
        );
        // In one piece: the pieces that a growing one leaves behind are as much again.
        let objects: Vec<&Object> = objects.collect();
        if self.form == Form::Json {
            out.reserve(objects.iter().map(|object| object.body.len() + 1).sum::<usize>() + 2);
        }
        for (at, object) in objects.into_iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            match self.form {
                Form::Partial => out.extend_from_slice(Self::partial(object, "v1").as_bytes()),
                _ => {
                    let body = self.plain(object);
                    let (start, rest) = self.item(&body, common.as_bytes());
                    out.extend_from_slice(start);
                    out.extend_from_slice(rest);
                }
            }
        }
        out.extend_from_slice(b"]}");
        Bytes::from(out)
    }

    /// One event of a watch, newline included.
    pub(super) fn event(&self, kind: &str, object: &Object, is_first: bool) -> Bytes {
        let body = match self.form {
            Form::Table(version) => {
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                let columns = if is_first {
                    table::columns(&self.served.resource)
                } else {
                    Value::Null
                };
                Bytes::from(Self::table(
                    version,
                    &metadata,
                    &columns,
                    &[self.row(version, object)],
                ))
            }
            _ => self.one(object),
        };
        line(kind, &body)
    }

    /// A bookmark, newline included.
    pub(super) fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let resource = &*self.served.resource;
        let body = match self.form {
            Form::Json => {
                json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata})
            }
            Form::Partial => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Form::Table(version) => {
                let object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata});
                let empty = table::columns(resource).as_array().map_or(0, Vec::len);
                let cells: Vec<Value> = vec![Value::String(String::new()); empty];
                json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"),
                    "metadata": {"resourceVersion": revision.to_string()},
                    "columnDefinitions": table::columns(resource), "rows": [{"cells": cells, "object": object}]})
            }
        };
        line("BOOKMARK", body.to_string().as_bytes())
    }
}

/// One line of a watch.
pub(super) fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    Bytes::from(out)
}
