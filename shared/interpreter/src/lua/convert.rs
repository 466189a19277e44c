//! Values between JSON and Lua.
//!
//! `null` members vanish, a `null` in a list shortens it, numbers are doubles. An empty table can stand for an object or a
//! list; [`Empty`] says what becomes of it.

use std::collections::HashSet;

use mlua::{Lua, Table, Value as LuaValue};
use serde_json::{Map, Number, Value};

use super::limits::{DEPTH_MAX, RESULT_BYTES_MAX, RESULT_VALUES_MAX};

/// What becomes of an empty table in a result.
#[derive(Debug, Clone, Default)]
pub(super) enum Empty {
    /// A list.
    #[default]
    List,
    /// It is left out (at the top: a list).
    Dropped,
    /// What it was in one of the arguments, at the same path; else left out.
    Like(Known),
}

/// Paths at which arguments have empty objects and lists. The position in a list does not count.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    objects: HashSet<String>,
    lists: HashSet<String>,
}

/// Separates the names of a path; names of fields do not contain it.
const SEPARATOR: char = '\u{0}';
/// Stands for any position in a list.
const ITEM: &str = "\u{1}";

impl Known {
    pub(super) fn of<'a>(arguments: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut known = Self::default();
        for argument in arguments {
            known.note(argument, &mut String::new());
        }
        known
    }

    fn note(&mut self, value: &Value, path: &mut String) {
        match value {
            Value::Object(map) if map.is_empty() => {
                self.objects.insert(path.clone());
            }
            Value::Array(list) if list.is_empty() => {
                self.lists.insert(path.clone());
            }
            Value::Object(map) => {
                for (name, value) in map {
                    below(path, name, |path| self.note(value, path));
                }
            }
            Value::Array(list) => {
                for value in list {
                    below(path, ITEM, |path| self.note(value, path));
                }
            }
            _ => {}
        }
    }
}

fn below<T>(path: &mut String, name: &str, go: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    path.push(SEPARATOR);
    path.push_str(name);
    let result = go(path);
    path.truncate(length);
    result
}

/// A JSON value as Lua has it.
pub(super) fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    deeper_to_lua(lua, value, 0)
}

fn deeper_to_lua(lua: &Lua, value: &Value, depth: usize) -> mlua::Result<LuaValue> {
    if depth > DEPTH_MAX {
        return Err(mlua::Error::runtime("an argument is nested too deep"));
    }
    Ok(match value {
        Value::Null => LuaValue::Nil,
        Value::Bool(is) => LuaValue::Boolean(*is),
        Value::Number(number) => LuaValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(list) => {
            let present = list.iter().filter(|value| !value.is_null());
            let table = lua.create_table_with_capacity(list.len(), 0)?;
            for (position, value) in present.enumerate() {
                table.raw_set(position + 1, deeper_to_lua(lua, value, depth + 1)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Object(map) => {
            let table = lua.create_table_with_capacity(0, map.len())?;
            for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                table.raw_set(name.as_str(), deeper_to_lua(lua, value, depth + 1)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// Why a Lua value is no JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoJson(pub(super) &'static str);

/// A Lua value as JSON.
pub(super) fn to_json(value: &LuaValue, empty: &Empty) -> Result<Value, NoJson> {
    let mut reader = Reader {
        empty,
        values: RESULT_VALUES_MAX,
        bytes: RESULT_BYTES_MAX,
    };
    Ok(reader
        .read(value, &mut String::new(), 0)?
        .unwrap_or_else(|| match empty {
            Empty::Like(known) if known.objects.contains("") => Value::Object(Map::new()),
            _ => Value::Array(Vec::new()),
        }))
}

struct Reader<'a> {
    empty: &'a Empty,
    values: usize,
    bytes: usize,
}

impl Reader<'_> {
    /// `None`: an empty table that is left out.
    fn read(&mut self, value: &LuaValue, path: &mut String, depth: usize) -> Result<Option<Value>, NoJson> {
        if depth > DEPTH_MAX {
            return Err(NoJson("a table that is nested too deep or contains itself"));
        }
        self.values = self.values.checked_sub(1).ok_or(NoJson("too many values"))?;
        Ok(Some(match value {
            LuaValue::Nil => Value::Null,
            LuaValue::Boolean(is) => Value::Bool(*is),
            LuaValue::Integer(number) => Value::from(*number),
            LuaValue::Number(number) => number_of(*number)?,
            LuaValue::String(text) => Value::String(self.text(text)?),
            LuaValue::Table(table) => return self.table(table, path, depth),
            _ => return Err(NoJson("a function or another thing that is no value")),
        }))
    }

    fn text(&mut self, text: &mlua::LuaString) -> Result<String, NoJson> {
        let bytes = text.as_bytes();
        self.bytes = self
            .bytes
            .checked_sub(bytes.len())
            .ok_or(NoJson("too much text"))?;
        std::str::from_utf8(&bytes)
            .map(str::to_owned)
            .map_err(|_| NoJson("text that is not UTF-8"))
    }

    fn table(&mut self, table: &Table, path: &mut String, depth: usize) -> Result<Option<Value>, NoJson> {
        let mut named = Map::new();
        let mut listed = Vec::new();
        let mut members = 0_usize;
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (key, value) = pair.map_err(|_| NoJson("a table that cannot be read"))?;
            members += 1;
            match key {
                LuaValue::String(name) => {
                    let name = self.text(&name)?;
                    if let Some(value) = below(path, &name, |path| self.read(&value, path, depth + 1))? {
                        named.insert(name, value);
                    }
                }
                LuaValue::Integer(position) if position >= 1 => {
                    let value = below(path, ITEM, |path| self.read(&value, path, depth + 1))?;
                    listed.push((position, value));
                }
                _ => return Err(NoJson("a table with keys that are neither text nor positions")),
            }
        }
        if members == 0 {
            return Ok(self.of_empty(path));
        }
        if listed.is_empty() {
            return Ok(Some(Value::Object(named)));
        }
        if listed.len() < members {
            return Err(NoJson("a table that mixes positions and names"));
        }
        listed.sort_by_key(|(position, _)| *position);
        let whole = listed
            .iter()
            .zip(1_i64..)
            .all(|((position, _), want)| *position == want);
        if !whole {
            return Err(NoJson("a list with gaps"));
        }
        Ok(Some(Value::Array(
            listed.into_iter().filter_map(|(_, value)| value).collect(),
        )))
    }

    fn of_empty(&self, path: &str) -> Option<Value> {
        match self.empty {
            Empty::List => Some(Value::Array(Vec::new())),
            Empty::Dropped => None,
            Empty::Like(known) if known.objects.contains(path) => Some(Value::Object(Map::new())),
            Empty::Like(known) if known.lists.contains(path) => Some(Value::Array(Vec::new())),
            Empty::Like(_) => None,
        }
    }
}

/// Integers up to 2^53 stay integers.
fn number_of(number: f64) -> Result<Value, NoJson> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return Ok(Value::from(number as i64));
    }
    Number::from_f64(number)
        .map(Value::Number)
        .ok_or(NoJson("a number that is not finite"))
}
