//! One run of one script in a state of its own: nothing that it leaves behind is seen by another.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mlua::chunk::ChunkMode;
use mlua::{HookTriggers, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value as LuaValue, VmState};
use serde_json::Value;

use super::budget::Budget;
use super::convert::{Empty, Known, to_json, to_lua};
use super::error::{ScriptError, short};
use super::limits::{LOOK_EVERY, MEMORY_BYTES_MAX, SCRIPT_BYTES_MAX};
use super::pattern::{self, Capture, PatternError};
use super::{date, kube};

const PRELUDE: &str = include_str!("prelude.lua");

/// A function to call, with its arguments.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Text of the script.
    pub(super) script: Arc<str>,
    /// Name of the function.
    pub(super) function: String,
    /// Arguments.
    pub(super) arguments: Vec<Value>,
    /// What becomes of empty tables in results.
    pub(super) empties: Empties,
    /// The time, in seconds since 1970.
    pub(super) now: i64,
}

/// See [`Empty`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Empties {
    /// Lists.
    Lists,
    /// Left out.
    Dropped,
    /// As in the arguments.
    AsGiven,
}

/// Checks that a script is Lua. Nothing is run.
pub(super) fn compile(script: &str) -> Result<(), ScriptError> {
    if script.len() > SCRIPT_BYTES_MAX {
        return Err(ScriptError::TooLong);
    }
    let lua = Lua::new_with(StdLib::NONE, LuaOptions::default()).map_err(|e| explain(&e, None))?;
    lua.set_memory_limit(MEMORY_BYTES_MAX)
        .map_err(|e| explain(&e, None))?;
    load(&lua, script).map(drop)
}

fn load(lua: &Lua, script: &str) -> Result<mlua::Function, ScriptError> {
    lua.load(script)
        .set_name("=script")
        .set_mode(ChunkMode::Text)
        .into_function()
        .map_err(|e| explain(&e, None))
}

/// Runs the script and calls the function; answers its first two results.
pub(super) fn run(call: &Call, cancelled: Arc<AtomicBool>) -> Result<[Value; 2], ScriptError> {
    if call.script.len() > SCRIPT_BYTES_MAX {
        return Err(ScriptError::TooLong);
    }
    let budget = Rc::new(Budget::new(cancelled));
    let told = |error: &mlua::Error| explain(error, Some(&budget));
    let lua = state(&budget, call.now).map_err(|e| told(&e))?;
    load(&lua, &call.script)?.call::<()>(()).map_err(|e| told(&e))?;
    let function = match lua.globals().raw_get::<LuaValue>(call.function.as_str()) {
        Ok(LuaValue::Function(function)) => function,
        _ => return Err(ScriptError::NoFunction(call.function.clone())),
    };
    let mut arguments = MultiValue::with_capacity(call.arguments.len());
    for argument in &call.arguments {
        arguments.push_back(to_lua(&lua, argument).map_err(|e| told(&e))?);
    }
    let results = function.call::<MultiValue>(arguments).map_err(|e| told(&e))?;
    let empty = match call.empties {
        Empties::Lists => Empty::List,
        Empties::Dropped => Empty::Dropped,
        Empties::AsGiven => Empty::Like(Known::of(&call.arguments)),
    };
    let mut read = [Value::Null, Value::Null];
    for (place, result) in read.iter_mut().zip(results.iter()) {
        *place = to_json(result, &empty).map_err(|error| ScriptError::Result(error.0.to_owned()))?;
    }
    Ok(read)
}

/// A state with limits, the prelude's globals and nothing else.
fn state(budget: &Rc<Budget>, now: i64) -> mlua::Result<Lua> {
    let lua = Lua::new_with(
        StdLib::TABLE | StdLib::STRING | StdLib::MATH,
        LuaOptions::default(),
    )?;
    lua.load(PRELUDE)
        .set_name("=prelude")
        .set_mode(ChunkMode::Text)
        .call::<()>(host(&lua, budget, now)?)?;
    lua.set_memory_limit(MEMORY_BYTES_MAX)?;
    let counted = budget.clone();
    lua.set_hook(
        HookTriggers::new().every_nth_instruction(LOOK_EVERY),
        move |_, _| charge(&counted, u64::from(LOOK_EVERY)).map(|()| VmState::Continue),
    )?;
    Ok(lua)
}

fn charge(budget: &Budget, steps: u64) -> mlua::Result<()> {
    budget.charge(steps).map_err(|_| stopped())
}

fn stopped() -> mlua::Error {
    mlua::Error::runtime("stopped")
}

/// Functions that the prelude builds upon.
fn host(lua: &Lua, budget: &Rc<Budget>, now: i64) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    let own = budget.clone();
    let check = lua.create_function(move |_, ()| {
        if own.is_exhausted() {
            Err(stopped())
        } else {
            Ok(())
        }
    })?;
    host.raw_set("check", check)?;
    let own = budget.clone();
    let charge = lua.create_function(move |_, steps: f64| charge(&own, steps.max(0.0) as u64))?;
    host.raw_set("charge", charge)?;
    let own = budget.clone();
    let find = lua.create_function(
        move |lua, (subject, pattern, init, plain): (LuaString, LuaString, Option<f64>, Option<bool>)| {
            search(
                lua,
                &own,
                &subject,
                &pattern,
                init,
                Search::Find {
                    plain: plain == Some(true),
                },
            )
        },
    )?;
    host.raw_set("find", find)?;
    let own = budget.clone();
    let find = lua.create_function(
        move |lua, (subject, pattern, init): (LuaString, LuaString, Option<f64>)| {
            search(lua, &own, &subject, &pattern, init, Search::Match)
        },
    )?;
    host.raw_set("match", find)?;
    let own = budget.clone();
    let next = lua.create_function(
        move |lua, (subject, pattern, init): (LuaString, LuaString, f64)| {
            search(lua, &own, &subject, &pattern, Some(init), Search::Next)
        },
    )?;
    host.raw_set("gmatch", next)?;
    let time = lua.create_function(move |_, table: Option<Table>| match table {
        Some(table) => date::seconds_of(&table),
        None => Ok(now),
    })?;
    host.raw_set("time", time)?;
    let date = lua.create_function(move |lua, (format, at): (Option<String>, Option<f64>)| {
        date::date(
            lua,
            format.as_deref().unwrap_or("%c"),
            at.map_or(now, |at| at as i64),
        )
    })?;
    host.raw_set("date", date)?;
    host.raw_set("kube", kube::library(lua)?)?;
    Ok(host)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// Answers begin, end and captures.
    Find { plain: bool },
    /// Answers captures, or the whole match.
    Match,
    /// Answers where to go on, then captures or the whole match.
    Next,
}

fn search(
    lua: &Lua,
    budget: &Budget,
    subject: &LuaString,
    pattern: &LuaString,
    init: Option<f64>,
    how: Search,
) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let (subject, pattern): (&[u8], &[u8]) = (&subject, &pattern);
    // Positions count from 1; negative ones from the end.
    let position = init.unwrap_or(1.0) as i64;
    let length = subject.len() as i64;
    let from = if position < 0 {
        length + position
    } else {
        position - 1
    };
    if how == Search::Next && from > length {
        return Ok(MultiValue::from_iter([LuaValue::Nil]));
    }
    let from = usize::try_from(from.clamp(0, length)).unwrap_or(0);
    let failed = |error: PatternError| match error {
        PatternError::Bad(what) => mlua::Error::runtime(what),
        PatternError::Exhausted => stopped(),
    };
    let place = |at: usize| LuaValue::Integer(at as i64);
    let mut answer = MultiValue::new();
    if let Search::Find { plain } = how
        && (plain || pattern::is_plain(pattern))
    {
        match pattern::find_plain(subject, pattern, from, budget).map_err(failed)? {
            Some(start) => answer.extend([place(start + 1), place(start + pattern.len())]),
            None => answer.push_back(LuaValue::Nil),
        }
        return Ok(answer);
    }
    let anchors = how != Search::Next;
    let Some(found) = pattern::find(subject, pattern, from, anchors, budget).map_err(failed)? else {
        answer.push_back(LuaValue::Nil);
        return Ok(answer);
    };
    let whole = Capture::Text(found.start, found.end - found.start);
    let captures = match how {
        Search::Find { .. } => {
            answer.extend([place(found.start + 1), place(found.end)]);
            found.captures
        }
        Search::Match | Search::Next => {
            if how == Search::Next {
                // An empty match moves on by one.
                let next = if found.end == found.start {
                    found.end + 1
                } else {
                    found.end
                };
                answer.push_back(place(next + 1));
            }
            if found.captures.is_empty() {
                vec![whole]
            } else {
                found.captures
            }
        }
    };
    for capture in captures {
        answer.push_back(match capture {
            Capture::Text(start, length) => {
                LuaValue::String(lua.create_string(&subject[start..start + length])?)
            }
            Capture::Place(at) => place(at),
        });
    }
    Ok(answer)
}

fn explain(error: &mlua::Error, budget: Option<&Budget>) -> ScriptError {
    if budget.is_some_and(Budget::is_exhausted) {
        return ScriptError::OutOfSteps;
    }
    match error {
        mlua::Error::SyntaxError { message, .. } => ScriptError::Syntax(short(message)),
        mlua::Error::MemoryError(_) => ScriptError::OutOfMemory,
        mlua::Error::RuntimeError(message) => ScriptError::Failed(short(message)),
        mlua::Error::CallbackError { cause, .. } => explain(cause, budget),
        mlua::Error::WithContext { cause, .. } => explain(cause, budget),
        other => ScriptError::Failed(short(&other.to_string())),
    }
}
