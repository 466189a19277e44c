//! Protobuf into JSON.

use super::wire::{Raw, Reader};
use super::{MAGIC, ProtobufError, special};
use crate::limits::{MAX_PROTOBUF_DEPTH, MAX_PROTOBUF_VALUES};
use crate::types::{Field, Plain, Shape, Special, Type, TypeId, TypeTable};
use base64::Engine as _;
use serde_json::{Map, Number, Value, json};

/// Reads a body: the object as JSON, with its apiVersion and kind.
///
/// # Errors
/// Bytes that are no body of a kind of the table.
pub fn decode(table: &TypeTable, body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(&MAGIC).ok_or(ProtobufError::NoMagic)?;
    let (mut api_version, mut kind, mut content) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(envelope);
    while let Some((number, raw)) = reader.next()? {
        match (number, raw) {
            (1, Raw::Bytes(meta)) => {
                let mut reader = Reader::new(meta);
                while let Some((number, raw)) = reader.next()? {
                    match (number, raw) {
                        (1, Raw::Bytes(text)) => api_version = utf8(text, "apiVersion")?,
                        (2, Raw::Bytes(text)) => kind = utf8(text, "kind")?,
                        _ => {}
                    }
                }
            }
            (2, Raw::Bytes(bytes)) => content = bytes,
            (3, Raw::Bytes([_, ..])) => {
                let Raw::Bytes(text) = raw else { continue };
                return Err(ProtobufError::Encoding(utf8(text, "contentEncoding")?));
            }
            _ => {}
        }
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let of = table.type_of_kind(group, version, &kind);
    let has_numbers = |of: TypeId| table.get(of).fields().iter().all(|f| f.declared.number > 0);
    let Some(of) = of.filter(|of| has_numbers(*of)) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut decoder = Decoder { table, values: 0 };
    let mut members = decoder.message(of, content, 0)?;
    members.insert("apiVersion".to_owned(), json!(api_version));
    members.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(members))
}

fn utf8(bytes: &[u8], what: &str) -> Result<String, ProtobufError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(ProtobufError::Malformed(what.to_owned())),
    }
}

struct Decoder<'t> {
    table: &'t TypeTable,
    values: usize,
}

/// Whether Go leaves the value out of JSON when it is not a pointer.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

impl Decoder<'_> {
    fn count(&mut self, depth: usize) -> Result<(), ProtobufError> {
        self.values += 1;
        if self.values > MAX_PROTOBUF_VALUES {
            return Err(ProtobufError::TooMany);
        }
        if depth > MAX_PROTOBUF_DEPTH {
            return Err(ProtobufError::TooDeep);
        }
        Ok(())
    }

    fn message(
        &mut self,
        of: TypeId,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Map<String, Value>, ProtobufError> {
        let mut out = Map::new();
        let of = self.table.get(of);
        self.fields(of, &[], bytes, depth, &mut out)?;
        Ok(out)
    }

    /// Fields of a message, or of one embedded in it, whose fields are members of the same JSON object.
    fn fields(
        &mut self,
        of: &Type,
        inside: &[u32],
        bytes: &[u8],
        depth: usize,
        out: &mut Map<String, Value>,
    ) -> Result<(), ProtobufError> {
        self.count(depth)?;
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.next()? {
            let is = |f: &&Field| f.declared.number == number && f.declared.inside == inside;
            if let Some(field) = of.fields().iter().find(is) {
                self.field(field, raw, depth, out)?;
                continue;
            }
            let mut deeper = inside.to_vec();
            deeper.push(number);
            let is_embedded = of.fields().iter().any(|f| f.declared.inside.starts_with(&deeper));
            if let (true, Raw::Bytes(bytes)) = (is_embedded, raw) {
                self.fields(of, &deeper, bytes, depth + 1, out)?;
            }
            // Fields of a newer release are passed over, as Go does.
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Field,
        raw: Raw<'_>,
        depth: usize,
        out: &mut Map<String, Value>,
    ) -> Result<(), ProtobufError> {
        let name = &*field.name;
        match &field.shape {
            Shape::List { items, .. } => {
                let value = self.value(items, raw, name, depth + 1)?;
                let list = out.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.push(value);
                }
            }
            Shape::Map { values, .. } => {
                let (key, value) = self.entry(values, raw, name, depth + 1)?;
                let map = out.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    map.insert(key, value);
                }
            }
            shape => {
                let value = self.value(shape, raw, name, depth + 1)?;
                let declared = &field.declared;
                if value.is_null() || (!declared.is_pointer && declared.omits_empty && is_zero(&value)) {
                    return Ok(());
                }
                out.insert(name.to_owned(), value);
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        values: &Shape,
        raw: Raw<'_>,
        name: &str,
        depth: usize,
    ) -> Result<(String, Value), ProtobufError> {
        let Raw::Bytes(bytes) = raw else {
            return Err(ProtobufError::Field(name.to_owned()));
        };
        self.count(depth)?;
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.next()? {
            match (number, raw) {
                (1, Raw::Bytes(bytes)) => key = utf8(bytes, name)?,
                (2, raw) => value = Some(self.value(values, raw, name, depth + 1)?),
                _ => {}
            }
        }
        let value = match value {
            Some(value) => value,
            None => self.value(values, empty(values), name, depth + 1)?,
        };
        Ok((key, value))
    }

    fn value(
        &mut self,
        shape: &Shape,
        raw: Raw<'_>,
        name: &str,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        self.count(depth)?;
        let wrong = || ProtobufError::Field(name.to_owned());
        match (shape, raw) {
            (Shape::Plain { of, format }, raw) => plain(*of, format, raw, name),
            (Shape::Ref { to, .. }, Raw::Bytes(bytes)) => match self.table.get(*to).special {
                None => self.message(*to, bytes, depth + 1).map(Value::Object),
                Some(
                    special @ (Special::SchemaOrBool | Special::SchemaOrArray | Special::SchemaOrStrings),
                ) => self.schema_or(special, bytes, name, depth + 1),
                Some(special) => special::read(special, bytes, name),
            },
            // A list that is a type of its own (the extra values of a user): a message around the items.
            (Shape::List { items, .. }, Raw::Bytes(bytes)) => {
                let mut out = Vec::new();
                let mut reader = Reader::new(bytes);
                while let Some((number, raw)) = reader.next()? {
                    if number == 1 {
                        out.push(self.value(items, raw, name, depth + 1)?);
                    }
                }
                Ok(Value::Array(out))
            }
            (Shape::Any, Raw::Bytes(bytes)) => special::read(Special::Raw, bytes, name),
            _ => Err(wrong()),
        }
    }

    fn schema_or(
        &mut self,
        special: Special,
        bytes: &[u8],
        name: &str,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        self.count(depth)?;
        let schema =
            super::write::schema_type(self.table).ok_or_else(|| ProtobufError::Field(name.to_owned()))?;
        let (mut allows, mut one, mut many) = (false, None, Vec::new());
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.next()? {
            match (special, number, raw) {
                (Special::SchemaOrBool, 1, Raw::Varint(n)) => allows = n != 0,
                (Special::SchemaOrBool, 2, Raw::Bytes(bytes)) | (_, 1, Raw::Bytes(bytes)) => {
                    one = Some(Value::Object(self.message(schema, bytes, depth + 1)?));
                }
                (Special::SchemaOrArray, 2, Raw::Bytes(bytes)) => {
                    many.push(Value::Object(self.message(schema, bytes, depth + 1)?));
                }
                (Special::SchemaOrStrings, 2, Raw::Bytes(bytes)) => many.push(json!(utf8(bytes, name)?)),
                _ => {}
            }
        }
        Ok(match (one, special) {
            (Some(schema), _) => schema,
            (None, Special::SchemaOrBool) => json!(allows),
            (None, _) => Value::Array(many),
        })
    }
}

/// What an absent value of a map entry is.
fn empty(shape: &Shape) -> Raw<'static> {
    match shape {
        Shape::Plain {
            of: Plain::Boolean | Plain::Integer,
            ..
        } => Raw::Varint(0),
        Shape::Plain {
            of: Plain::Number, ..
        } => Raw::Fixed64(0),
        _ => Raw::Bytes(&[]),
    }
}

fn plain(of: Plain, format: &str, raw: Raw<'_>, name: &str) -> Result<Value, ProtobufError> {
    match (of, raw) {
        (Plain::String, Raw::Bytes(bytes)) if format == "byte" => {
            Ok(json!(base64::engine::general_purpose::STANDARD.encode(bytes)))
        }
        (Plain::String, Raw::Bytes(bytes)) => utf8(bytes, name).map(Value::String),
        (Plain::Boolean, Raw::Varint(n)) => Ok(json!(n != 0)),
        (Plain::Integer, Raw::Varint(n)) if format == "int32" => {
            // Go keeps the lower half.
            let low = u32::try_from(n & 0xffff_ffff).unwrap_or_default();
            Ok(json!(low.cast_signed()))
        }
        (Plain::Integer, Raw::Varint(n)) => Ok(json!(n.cast_signed())),
        (Plain::Number, Raw::Fixed64(bits)) => Number::from_f64(f64::from_bits(bits))
            .map(Value::Number)
            .ok_or_else(|| ProtobufError::Malformed(name.to_owned())),
        (Plain::Number, Raw::Fixed32(bits)) => Number::from_f64(f64::from(f32::from_bits(bits)))
            .map(Value::Number)
            .ok_or_else(|| ProtobufError::Malformed(name.to_owned())),
        _ => Err(ProtobufError::Field(name.to_owned())),
    }
}
