//! Schemas of custom resources as field ownership sees them (source: the conversion of structural schemas into types of
//! structured-merge-diff).

use super::kind::Custom;
use super::schema::{Additional, Schema};
use crate::ownership::{Atom, ListKind, Scalar, TableView, TypeView, Versions};
use crate::types::{TypeId, TypeTable};
use serde_json::Value;

/// A position in a custom resource.
#[derive(Debug, Clone, Copy)]
pub struct SchemaView<'s> {
    meta: TableView<'s>,
    at: At<'s>,
}

#[derive(Debug, Clone, Copy)]
enum At<'s> {
    /// A node; `is_object` for the root and embedded objects, which have apiVersion, kind and metadata.
    Node {
        of: &'s Schema,
        is_object: bool,
    },
    /// Within `metadata`.
    Meta(TableView<'s>),
    Text,
    /// Nothing is known below.
    Open,
}

impl<'s> SchemaView<'s> {
    /// Objects of a schema. `metadata` is the type with the field of that name.
    pub fn new(table: &'s TypeTable, metadata: TypeId, schema: &'s Schema) -> SchemaView<'s> {
        SchemaView {
            meta: TableView::new(table, metadata),
            at: At::Node {
                of: schema,
                is_object: true,
            },
        }
    }

    fn to(self, at: At<'s>) -> SchemaView<'s> {
        SchemaView { at, ..self }
    }

    fn below(self, of: &'s Schema) -> SchemaView<'s> {
        self.to(At::Node {
            of,
            is_object: of.is_embedded,
        })
    }
}

impl<'s> TypeView<'s> for SchemaView<'s> {
    fn atom(self) -> Atom {
        let (of, is_object) = match self.at {
            At::Text => return Atom::Scalar(Scalar::String),
            At::Meta(view) => return view.atom(),
            At::Open => return Atom::Deduced,
            At::Node { of, is_object } => (of, is_object),
        };
        if of.is_int_or_string {
            return Atom::Scalar(Scalar::Any);
        }
        match of.of_type.as_deref() {
            Some("object") => {
                let knows_members = !of.properties.is_empty() || matches!(of.additional, Additional::Of(_));
                if of.is_atomic_map {
                    return Atom::Map { is_atomic: true };
                }
                if !knows_members && !is_object && of.preserves_unknown {
                    return Atom::Deduced;
                }
                Atom::Map { is_atomic: false }
            }
            Some("array") => Atom::List(of.list_kind.unwrap_or(ListKind::Atomic)),
            Some("boolean") => Atom::Scalar(Scalar::Boolean),
            Some("integer" | "number") => Atom::Scalar(Scalar::Numeric),
            Some("string") if of.checks.format.is_some_and(|f| f.name != "byte") => Atom::Scalar(Scalar::Any),
            Some("string") => Atom::Scalar(Scalar::String),
            _ if is_object => Atom::Map { is_atomic: false },
            _ => Atom::Deduced,
        }
    }

    fn items(self) -> Option<Self> {
        match self.at {
            At::Node { of, .. } => of.items.as_deref().map(|items| self.below(items)),
            At::Meta(view) => view.items().map(|view| self.to(At::Meta(view))),
            At::Text | At::Open => None,
        }
    }

    fn keys(self) -> Vec<&'s str> {
        match self.at {
            At::Node { of, .. } => of.list_keys.iter().map(|k| &**k).collect(),
            At::Meta(view) => view.keys(),
            At::Text | At::Open => Vec::new(),
        }
    }

    fn default_of(self, member: &str) -> Option<Value> {
        match self.at {
            At::Node { of, .. } => of.properties.get(member)?.default.clone(),
            At::Meta(view) => view.default_of(member),
            At::Text | At::Open => None,
        }
    }

    fn member(self, name: &str) -> Option<(Self, bool)> {
        let (of, is_object) = match self.at {
            At::Node { of, is_object } => (of, is_object),
            At::Meta(view) => {
                let (view, is_declared) = view.member(name)?;
                return Some((self.to(At::Meta(view)), is_declared));
            }
            At::Open => return Some((self, false)),
            At::Text => return None,
        };
        if is_object {
            match name {
                "apiVersion" | "kind" => return Some((self.to(At::Text), true)),
                "metadata" => {
                    let (view, is_declared) = self.meta.member("metadata")?;
                    return Some((self.to(At::Meta(view)), is_declared));
                }
                _ => {}
            }
        }
        if let Some(below) = of.properties.get(name) {
            return Some((self.below(below), true));
        }
        match &of.additional {
            Additional::Of(below) => Some((self.below(below), false)),
            Additional::Any => Some((self.to(At::Open), false)),
            Additional::Unsaid | Additional::Refused if of.preserves_unknown => {
                Some((self.to(At::Open), false))
            }
            Additional::Unsaid | Additional::Refused => None,
        }
    }

    fn zero(self, _member: &str) -> Option<&'static Value> {
        // Nothing is decoded into structs: what is absent is absent.
        None
    }
}

/// The versions of a custom resource.
#[derive(Debug, Clone, Copy)]
pub struct CustomVersions<'s> {
    /// The type table, for metadata.
    pub table: &'s TypeTable,
    /// The type that has `metadata` alone.
    pub metadata: TypeId,
    /// The kind.
    pub custom: &'s Custom,
}

impl<'s> Versions<'s> for CustomVersions<'s> {
    type View = SchemaView<'s>;

    fn view(&self, api_version: &str) -> Option<SchemaView<'s>> {
        let (_, schema) = self.custom.all.iter().find(|(name, _)| **name == *api_version)?;
        Some(SchemaView::new(self.table, self.metadata, schema))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let (_, schema) = self.custom.all.iter().find(|(name, _)| **name == *api_version)?;
        let mut out = object.clone();
        let is_same = out.get("apiVersion").and_then(Value::as_str) == Some(api_version);
        if !is_same {
            out.as_object_mut()?
                .insert("apiVersion".to_owned(), Value::from(api_version));
            super::shape::prune(schema, &mut out);
        }
        Some(out)
    }
}
