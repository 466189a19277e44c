//! The library `kube` of scripts: the program's own rules about pods and quantities.

use mlua::{Lua, Table, Value as LuaValue, Variadic};
use serde_json::{Value, json};
use shared::object::Quantity;

use super::convert::{Empty, to_json, to_lua};
use crate::fields::get;
use crate::native::{Names, named, pod_names, requirements};
use crate::quantity;

/// The library as a table.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let kube = lua.create_table()?;
    kube.raw_set(
        "resourceAdd",
        lua.create_function(|_, amounts| resource_add(&amounts))?,
    )?;
    kube.raw_set(
        "getResourceQuantity",
        lua.create_function(|_, amount| amount_of(&amount))?,
    )?;
    kube.raw_set("accuratePodRequirements", lua.create_function(pod_requirements)?)?;
    kube.raw_set("getPodDependencies", lua.create_function(pod_dependencies)?)?;
    Ok(kube)
}

fn wrong(what: impl std::fmt::Display) -> mlua::Error {
    mlua::Error::runtime(what)
}

/// Texts of quantities; nil counts zero. A number has lost its unit and is refused.
fn texts(amounts: &[LuaValue]) -> mlua::Result<Vec<String>> {
    let mut texts = Vec::with_capacity(amounts.len());
    for amount in amounts {
        match amount {
            LuaValue::Nil => {}
            LuaValue::String(text) => texts.push(text.to_string_lossy()),
            other => {
                return Err(wrong(format_args!(
                    "a quantity must be text, not a {}",
                    other.type_name()
                )));
            }
        }
    }
    Ok(texts)
}

fn resource_add(amounts: &Variadic<LuaValue>) -> mlua::Result<String> {
    quantity::sum(texts(amounts)?.iter().map(String::as_str)).map_err(wrong)
}

fn amount_of(amounts: &Variadic<LuaValue>) -> mlua::Result<f64> {
    if amounts.len() > 1 {
        return Err(wrong("getResourceQuantity takes one argument"));
    }
    let Some(text) = texts(amounts)?.pop() else {
        return Ok(0.0);
    };
    let amount: Quantity = text.parse().map_err(wrong)?;
    if amount < Quantity::default() {
        return Err(wrong("a quantity must not be negative"));
    }
    let whole = amount.units_floor();
    let rest = amount.minus(Quantity::from_units(whole)).millis_ceil();
    Ok(whole as f64 + rest as f64 / 1000.0)
}

fn template(value: &LuaValue) -> mlua::Result<Value> {
    match value {
        LuaValue::Nil => Ok(Value::Null),
        LuaValue::Table(_) => to_json(value, &Empty::List)
            .map_err(|error| wrong(format_args!("a pod template must not be {}", error.0))),
        other => Err(wrong(format_args!(
            "a pod template must be a table, not a {}",
            other.type_name()
        ))),
    }
}

/// An empty table is read as a list; where a pod has an object, nothing is there.
fn spec_of(template: &Value) -> Option<Value> {
    let mut spec = get(template, "spec").ok().flatten().cloned()?;
    for name in ["nodeSelector", "affinity", "overhead"] {
        if spec[name].as_array().is_some_and(Vec::is_empty)
            && let Some(spec) = spec.as_object_mut()
        {
            spec.remove(name);
        }
    }
    spec.is_object().then_some(spec)
}

fn pod_requirements(lua: &Lua, arguments: Variadic<LuaValue>) -> mlua::Result<LuaValue> {
    let [pods] = &arguments[..] else {
        return Err(wrong("accuratePodRequirements takes one argument"));
    };
    let required = match spec_of(&template(pods)?) {
        Some(spec) => requirements(&spec, false).map_err(wrong)?,
        None => None,
    };
    to_lua(lua, &json!(required))
}

fn pod_dependencies(lua: &Lua, arguments: Variadic<LuaValue>) -> mlua::Result<LuaValue> {
    let [pods, namespace] = &arguments[..] else {
        return Err(wrong("getPodDependencies takes a pod template and a namespace"));
    };
    let namespace = match namespace {
        LuaValue::Nil => "default".to_owned(),
        LuaValue::String(text) => text.to_string_lossy(),
        other => {
            return Err(wrong(format_args!(
                "a namespace must be text, not a {}",
                other.type_name()
            )));
        }
    };
    let mut names = Names::new();
    pod_names(&mut names, spec_of(&template(pods)?).as_ref()).map_err(wrong)?;
    if names.is_empty() {
        return Ok(LuaValue::Nil);
    }
    let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
    to_lua(lua, &json!(named(names, namespace)))
}
