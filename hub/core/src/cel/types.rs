//! Types of expressions, as far as they are known before anything runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Known at run time only.
    Dyn,
    /// What an expression with an error has.
    Error,
    /// A plain or opaque type, by its name.
    Plain(&'static str),
    /// A list.
    List(Arc<Type>),
    /// A map.
    Map(Arc<Type>, Arc<Type>),
    /// A value that may be none.
    Optional(Arc<Type>),
    /// A type as a value.
    Type,
    /// A struct with its fields.
    Object(Arc<ObjectType>),
    /// A type of `Object{...}` literals: its fields are checked against the schema when it is merged.
    Literal(Arc<str>),
    /// A parameter of a signature.
    Parameter(&'static str),
}

/// A struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectType {
    /// Name in messages.
    pub name: String,
    /// Fields by the names that expressions use.
    pub fields: BTreeMap<String, Type>,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Error => f.write_str("!error!"),
            Type::Plain(name) | Type::Parameter(name) => f.write_str(name),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Optional(inner) => write!(f, "optional_type({inner})"),
            Type::Type => f.write_str("type"),
            Type::Object(object) => f.write_str(&object.name),
            Type::Literal(name) => f.write_str(name),
        }
    }
}

/// Plain and opaque types: how signatures write them, and how messages do.
const PLAIN: [(&str, &str); 22] = [
    ("null", "null"),
    ("bool", "bool"),
    ("int", "int"),
    ("uint", "uint"),
    ("double", "double"),
    ("string", "string"),
    ("bytes", "bytes"),
    ("timestamp", "timestamp"),
    ("duration", "duration"),
    ("url", "kubernetes.URL"),
    ("ip", "net.IP"),
    ("cidr", "net.CIDR"),
    ("quantity", "kubernetes.Quantity"),
    ("semver", "kubernetes.Semver"),
    ("format", "kubernetes.NamedFormat"),
    ("authorizer", "kubernetes.authorization.Authorizer"),
    ("pathcheck", "kubernetes.authorization.PathCheck"),
    ("groupcheck", "kubernetes.authorization.GroupCheck"),
    ("resourcecheck", "kubernetes.authorization.ResourceCheck"),
    ("decision", "kubernetes.authorization.Decision"),
    ("A", "A"),
    ("B", "B"),
];

impl Type {
    /// A plain type by its name in signatures; dyn for any other word.
    pub fn plain(word: &str) -> Type {
        match PLAIN.iter().find(|(short, _)| *short == word) {
            Some((_, name @ ("A" | "B"))) => Type::Parameter(name),
            Some((_, name)) => Type::Plain(name),
            None if word == "type" => Type::Type,
            None => Type::Dyn,
        }
    }

    /// A list of this.
    pub fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    /// A map with text keys.
    pub fn map(value: Type) -> Type {
        Type::Map(Arc::new(Type::plain("string")), Arc::new(value))
    }

    /// Reads a type as signatures write it, such as `list(string)`, and what comes after it.
    pub(super) fn read(text: &str) -> (Type, &str) {
        let text = text.trim_start();
        let end = text
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        if !matches!(word, "list" | "map" | "optional") {
            return (Type::plain(word), rest);
        }
        let rest = rest.strip_prefix('(').unwrap_or(rest);
        let (first, rest) = Type::read(rest);
        let (made, rest) = match word {
            "map" => {
                let (second, rest) = Type::read(rest.trim_start_matches(','));
                (Type::Map(Arc::new(first), Arc::new(second)), rest)
            }
            "list" => (Type::list(first), rest),
            _ => (Type::Optional(Arc::new(first)), rest),
        };
        (made, rest.strip_prefix(')').unwrap_or(rest))
    }

    /// Whether anything may stand here as far as is known.
    pub fn is_open(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    fn takes_null(&self) -> bool {
        matches!(
            self,
            Type::Object(_) | Type::Literal(_) | Type::Optional(_) | Type::Plain("timestamp" | "duration")
        ) || matches!(self, Type::Plain(name) if name.contains('.'))
    }
}

/// What the parameters of a signature stand for.
#[derive(Debug, Default, Clone)]
pub(super) struct Bindings(BTreeMap<&'static str, Type>);

impl Bindings {
    /// Whether a value of the type fits the parameter, and what parameters mean from then on.
    pub(super) fn fits(&mut self, given: &Type, wanted: &Type) -> bool {
        match (given, wanted) {
            (_, Type::Parameter(name)) => match self.0.get(name).cloned() {
                None => {
                    self.0.insert(name, given.clone());
                    true
                }
                Some(bound) if bound.is_open() => {
                    self.0.insert(name, given.clone());
                    true
                }
                Some(bound) => self.fits(given, &bound) || self.fits(&bound, given),
            },
            (given, wanted) if given.is_open() || wanted.is_open() => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.fits(ak, bk) && self.fits(av, bv),
            (Type::Plain("null"), wanted) if wanted.takes_null() => true,
            (given, Type::Plain("null")) if given.takes_null() => true,
            // What an Object literal is checked against is known when it is merged.
            (Type::Literal(a), Type::Literal(b)) => a == b,
            (Type::Map(..), Type::Literal(_)) | (Type::Literal(_), Type::Map(..)) => true,
            (a, b) => a == b,
        }
    }

    /// A type with its parameters filled in.
    pub(super) fn filled(&self, of: &Type) -> Type {
        match of {
            Type::Parameter(name) => self.0.get(name).cloned().unwrap_or(Type::Dyn),
            Type::List(item) => Type::list(self.filled(item)),
            Type::Optional(item) => Type::Optional(Arc::new(self.filled(item))),
            Type::Map(key, value) => Type::Map(Arc::new(self.filled(key)), Arc::new(self.filled(value))),
            other => other.clone(),
        }
    }
}
