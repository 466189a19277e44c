//! `os.time` and `os.date` of scripts: always UTC, of the time that was passed in.

use mlua::{Lua, Table, Value as LuaValue};
use shared::time::UnixSeconds;

/// Seconds of a table with year, month, day and optionally hour (noon), min and sec.
pub(super) fn seconds_of(table: &Table) -> mlua::Result<i64> {
    let field = |name: &str, default: Option<i64>| -> mlua::Result<i64> {
        match (table.raw_get::<Option<i64>>(name)?, default) {
            (Some(value), _) | (None, Some(value)) => Ok(value),
            (None, None) => Err(mlua::Error::runtime(format_args!(
                "field '{name}' missing in date table"
            ))),
        }
    };
    let (year, month, day) = (field("year", None)?, field("month", None)?, field("day", None)?);
    let (hour, minute, second) = (
        field("hour", Some(12))?,
        field("min", Some(0))?,
        field("sec", Some(0))?,
    );
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    UnixSeconds::parse_rfc3339(&text)
        .map(|seconds| seconds.0)
        .ok_or_else(|| mlua::Error::runtime("a date out of range"))
}

/// The time as text, or with the format `*t` as a table.
pub(super) fn date(lua: &Lua, format: &str, at: i64) -> mlua::Result<LuaValue> {
    // RFC 3339 has every number at a fixed place, within these years.
    if !(0..=253_402_300_799).contains(&at) {
        return Err(mlua::Error::runtime("a time out of range"));
    }
    let text = UnixSeconds(at).rfc3339();
    let format = format.strip_prefix('!').unwrap_or(format);
    if format.starts_with("*t") {
        let table = lua.create_table()?;
        for (name, from, to) in [
            ("year", 0, 4),
            ("month", 5, 7),
            ("day", 8, 10),
            ("hour", 11, 13),
            ("min", 14, 16),
            ("sec", 17, 19),
        ] {
            table.raw_set(name, text[from..to].parse::<i64>().unwrap_or(0))?;
        }
        // 1970-01-01 was a Thursday.
        table.raw_set("wday", (at.div_euclid(86_400) + 4).rem_euclid(7) + 1)?;
        table.raw_set("isdst", false)?;
        return Ok(LuaValue::Table(table));
    }
    let mut printed = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            printed.push(c);
            continue;
        }
        match chars.next() {
            Some('Y') => printed.push_str(&text[0..4]),
            Some('y') => printed.push_str(&text[2..4]),
            Some('m') => printed.push_str(&text[5..7]),
            Some('d') => printed.push_str(&text[8..10]),
            Some('H') => printed.push_str(&text[11..13]),
            Some('M') => printed.push_str(&text[14..16]),
            Some('S') => printed.push_str(&text[17..19]),
            Some('F') => printed.push_str(&text[0..10]),
            Some('T' | 'X') => printed.push_str(&text[11..19]),
            Some('c') => printed.push_str(&text),
            Some('Z') => printed.push_str("UTC"),
            Some('%') => printed.push('%'),
            other => {
                let what = other.map(String::from).unwrap_or_default();
                return Err(mlua::Error::runtime(format_args!(
                    "os.date does not know %{what}"
                )));
            }
        }
    }
    Ok(LuaValue::String(lua.create_string(&printed)?))
}
