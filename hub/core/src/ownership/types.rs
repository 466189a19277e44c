//! Types as field ownership sees them: what is one leaf, what merges and by which keys. A schema of any origin can be
//! looked at this way; [`TableView`] is the look at the type table.

use crate::types::{Field, Plain, Shape, Special, TypeId, TypeTable};
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// What a value of a type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atom {
    /// One plain value.
    Scalar(Scalar),
    /// A list.
    List(ListKind),
    /// A struct or map; `is_atomic` if it is one leaf.
    Map {
        /// Replaced whole.
        is_atomic: bool,
    },
    /// Nothing is known: by the value itself, lists are leaves, maps are not.
    Deduced,
}

/// Plain values that a type takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scalar {
    Numeric,
    String,
    Boolean,
    /// Any plain value.
    Any,
}

/// How a list merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// One leaf.
    Atomic,
    /// Of plain values, each owned for itself.
    Set,
    /// Of structs with keys.
    Keyed,
}

/// A position in a schema. Cheap to copy.
pub trait TypeView<'s>: Copy {
    /// What stands here.
    fn atom(self) -> Atom;
    /// Type of the items of a list.
    fn items(self) -> Option<Self>;
    /// Keys of the items of a keyed list.
    fn keys(self) -> Vec<&'s str>;
    /// Default of a member of this struct, for keys that an item leaves out.
    fn default_of(self, member: &str) -> Option<Value>;
    /// Type of a member, and whether the schema declares it by name; `None` if it allows no such member.
    fn member(self, name: &str) -> Option<(Self, bool)>;
    /// The value that an absent member is taken for, where absent and zero are one.
    fn zero(self, member: &str) -> Option<&'static Value>;
}

/// A position in the type table.
#[derive(Debug, Clone, Copy)]
pub struct TableView<'t> {
    table: &'t TypeTable,
    at: At<'t>,
}

#[derive(Debug, Clone, Copy)]
enum At<'t> {
    Type { id: TypeId, is_atomic: bool },
    Shape(&'t Shape),
    Text,
}

static ZEROS: LazyLock<[Value; 5]> = LazyLock::new(|| {
    [
        Value::Object(Map::new()),
        Value::Null,
        Value::from(""),
        Value::from(0),
        Value::from(false),
    ]
});

impl<'t> TableView<'t> {
    /// Objects of a type.
    pub fn new(table: &'t TypeTable, id: TypeId) -> TableView<'t> {
        TableView {
            table,
            at: At::Type { id, is_atomic: false },
        }
    }

    fn shape(self, shape: &'t Shape) -> TableView<'t> {
        let at = match shape {
            Shape::Ref { to, atomic } => At::Type {
                id: *to,
                is_atomic: *atomic,
            },
            other => At::Shape(other),
        };
        TableView { at, ..self }
    }

    fn field(self, name: &str) -> Option<&'t Field> {
        match self.at {
            At::Type { id, .. } => self.table.get(id).field(name),
            _ => None,
        }
    }
}

/// Kinds from a schema (the Karmada groups) are not decoded into Go structs: nothing absent is there.
fn is_go(table: &TypeTable, id: TypeId) -> bool {
    table.get(id).name.starts_with("io.k8s.")
}

impl<'t> TypeView<'t> for TableView<'t> {
    fn atom(self) -> Atom {
        match self.at {
            At::Text => Atom::Scalar(Scalar::String),
            At::Type { id, is_atomic } => {
                let of = self.table.get(id);
                match of.special {
                    None => Atom::Map {
                        is_atomic: is_atomic || of.atomic,
                    },
                    // Content of another kind is one leaf.
                    Some(Special::Raw) => Atom::Map { is_atomic: true },
                    Some(Special::FieldsV1) => Atom::Map { is_atomic },
                    Some(
                        Special::Json
                        | Special::SchemaOrBool
                        | Special::SchemaOrArray
                        | Special::SchemaOrStrings,
                    ) => Atom::Deduced,
                    Some(Special::Duration) => Atom::Scalar(Scalar::String),
                    Some(Special::Time | Special::MicroTime | Special::Quantity | Special::IntOrString) => {
                        Atom::Scalar(Scalar::Any)
                    }
                }
            }
            At::Shape(Shape::Any | Shape::Ref { .. }) => Atom::Deduced,
            At::Shape(Shape::Map { atomic, .. }) => Atom::Map { is_atomic: *atomic },
            At::Shape(Shape::List { list_type, .. }) => Atom::List(match &**list_type {
                "set" => ListKind::Set,
                "map" => ListKind::Keyed,
                _ => ListKind::Atomic,
            }),
            At::Shape(Shape::Plain { of, format }) => Atom::Scalar(match of {
                Plain::Boolean => Scalar::Boolean,
                Plain::Integer | Plain::Number => Scalar::Numeric,
                Plain::String if format.is_empty() || &**format == "byte" => Scalar::String,
                Plain::String => Scalar::Any,
            }),
        }
    }

    fn items(self) -> Option<Self> {
        match self.at {
            At::Shape(Shape::List { items, .. }) => Some(self.shape(items)),
            _ => None,
        }
    }

    fn keys(self) -> Vec<&'t str> {
        match self.at {
            At::Shape(Shape::List { keys, .. }) => keys.iter().map(|k| &**k).collect(),
            _ => Vec::new(),
        }
    }

    fn default_of(self, member: &str) -> Option<Value> {
        self.field(member).and_then(|f| f.default.clone())
    }

    fn member(self, name: &str) -> Option<(Self, bool)> {
        match self.at {
            At::Shape(Shape::Map { values, .. }) => Some((self.shape(values), false)),
            At::Type { id, .. } => {
                let of = self.table.get(id);
                if matches!(of.special, Some(Special::Raw | Special::FieldsV1)) {
                    let any = TableView {
                        at: At::Shape(&Shape::Any),
                        ..self
                    };
                    return Some((any, false));
                }
                if !of.kinds.is_empty() && (name == "apiVersion" || name == "kind") {
                    return Some((TableView { at: At::Text, ..self }, true));
                }
                self.field(name).map(|f| (self.shape(&f.shape), true))
            }
            _ => None,
        }
    }

    fn zero(self, member: &str) -> Option<&'static Value> {
        let At::Type { id, .. } = self.at else {
            return None;
        };
        let field = self.field(member)?;
        let declared = &field.declared;
        if !is_go(self.table, id) {
            return None;
        }
        let at = match &field.shape {
            _ if declared.is_pointer && declared.omits_empty => return None,
            _ if declared.is_pointer => 1,
            Shape::Ref { to, .. } => match self.table.get(*to).special {
                None => 0,
                // Zero times are left out; the others write themselves.
                Some(_) => return None,
            },
            _ if declared.omits_empty => return None,
            Shape::List { .. } | Shape::Map { .. } | Shape::Any => 1,
            Shape::Plain { of, .. } => match of {
                Plain::String => 2,
                Plain::Integer | Plain::Number => 3,
                Plain::Boolean => 4,
            },
        };
        ZEROS.get(at)
    }
}

/// A position in a schema, or below one of which nothing is known.
#[derive(Debug, Clone, Copy)]
pub(super) enum View<T> {
    Known(T),
    Deduced,
}

impl<'s, T: TypeView<'s>> View<T> {
    /// What stands here, decided by the value where the schema leaves it open.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom {
        let known = match self {
            View::Known(view) => view.atom(),
            View::Deduced => Atom::Deduced,
        };
        match (known, value) {
            (Atom::Deduced, Some(Value::Array(_))) => Atom::List(ListKind::Atomic),
            (Atom::Deduced, Some(Value::Object(_) | Value::Null) | None) => Atom::Map { is_atomic: false },
            (Atom::Deduced, Some(_)) => Atom::Scalar(Scalar::Any),
            (other, _) => other,
        }
    }

    fn is_deduced(self) -> bool {
        match self {
            View::Known(view) => view.atom() == Atom::Deduced,
            View::Deduced => true,
        }
    }

    pub(super) fn items(self) -> View<T> {
        match self {
            View::Known(view) => view.items().map_or(View::Deduced, View::Known),
            View::Deduced => View::Deduced,
        }
    }

    /// Type of a member and whether it is declared; `None` if there may be no such member.
    pub(super) fn member(self, name: &str) -> Option<(View<T>, bool)> {
        if self.is_deduced() {
            return Some((View::Deduced, false));
        }
        match self {
            View::Known(view) => view.member(name).map(|(v, declared)| (View::Known(v), declared)),
            View::Deduced => None,
        }
    }

    pub(super) fn keys(self) -> Vec<&'s str> {
        match self {
            View::Known(view) => view.keys(),
            View::Deduced => Vec::new(),
        }
    }

    pub(super) fn default_of(self, member: &str) -> Option<Value> {
        match self {
            View::Known(view) => view.default_of(member),
            View::Deduced => None,
        }
    }

    pub(super) fn zero(self, member: &str) -> Option<&'static Value> {
        match self {
            View::Known(view) => view.zero(member),
            View::Deduced => None,
        }
    }
}
