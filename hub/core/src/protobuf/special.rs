//! Types that write themselves in their own way.

use super::ProtobufError;
use super::wire::{self, Raw, Reader};
use crate::timestamp;
use crate::types::Special;
use serde_json::{Value, json};

fn malformed(what: &str) -> ProtobufError {
    ProtobufError::Malformed(what.to_owned())
}

fn text(bytes: &[u8], what: &str) -> Result<String, ProtobufError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed(what))
}

fn json_of(bytes: &[u8], what: &str) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(bytes).map_err(|_| malformed(what))
}

/// Reads one; the types that hold JSON schemas are read by the caller.
pub(super) fn read(special: Special, bytes: &[u8], what: &str) -> Result<Value, ProtobufError> {
    let (mut first, mut numbers) = (None, [0_u64; 4]);
    let mut third = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, raw)) = reader.next()? {
        match (number, raw) {
            (1, Raw::Bytes(bytes)) => first = Some(bytes),
            (3, Raw::Bytes(bytes)) => third = Some(bytes),
            (1..=3, Raw::Varint(n)) => numbers[number as usize] = n,
            _ => {}
        }
    }
    match special {
        Special::Time | Special::MicroTime => {
            let (seconds, nanos) = (numbers[1].cast_signed(), numbers[2] % 1_000_000_000);
            // The zero time is written as nothing.
            if bytes.is_empty() {
                return Ok(Value::Null);
            }
            // Years 0 to 9999, which is all that the text form has.
            if !(-62_167_219_200..=253_402_300_799).contains(&seconds) {
                return Err(malformed(what));
            }
            let whole = timestamp::format(seconds);
            Ok(Value::String(if special == Special::MicroTime {
                format!("{}.{:06}Z", whole.trim_end_matches('Z'), nanos / 1_000)
            } else {
                whole
            }))
        }
        Special::Duration => Ok(json!(format!("{}ns", numbers[1].cast_signed()))),
        Special::Quantity => Ok(Value::String(text(first.unwrap_or_default(), what)?)),
        Special::IntOrString if numbers[1] == 1 => Ok(Value::String(text(third.unwrap_or_default(), what)?)),
        Special::IntOrString => Ok(json!(numbers[2].cast_signed())),
        Special::Raw | Special::Json | Special::FieldsV1 => json_of(first.unwrap_or_default(), what),
        Special::SchemaOrBool | Special::SchemaOrArray | Special::SchemaOrStrings => Ok(Value::Null),
    }
}

/// Writes one; the types that hold JSON schemas are written by the caller.
pub(super) fn write(special: Special, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let text = value.as_str().unwrap_or_default();
    match special {
        Special::Time | Special::MicroTime => {
            if let Some(seconds) = timestamp::parse(text) {
                let digits: String = text
                    .split_once('.')
                    .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).take(9).collect())
                    .unwrap_or_default();
                let nanos: u64 = format!("{digits:0<9}").parse().unwrap_or(0);
                wire::varint(&mut out, 1, seconds.cast_unsigned());
                wire::varint(&mut out, 2, nanos);
            }
        }
        Special::Duration => {
            let nanos = text.trim_end_matches("ns").parse::<i64>().unwrap_or(0);
            wire::varint(&mut out, 1, nanos.cast_unsigned());
        }
        Special::Quantity => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            wire::bytes(&mut out, 1, text.as_bytes());
        }
        Special::IntOrString => match value.as_i64() {
            Some(n) => {
                wire::varint(&mut out, 1, 0);
                wire::varint(&mut out, 2, n.cast_unsigned());
            }
            None => {
                wire::varint(&mut out, 1, 1);
                wire::bytes(&mut out, 3, text.as_bytes());
            }
        },
        Special::Raw | Special::Json | Special::FieldsV1 => {
            wire::bytes(&mut out, 1, value.to_string().as_bytes());
        }
        Special::SchemaOrBool | Special::SchemaOrArray | Special::SchemaOrStrings => {}
    }
    out
}
