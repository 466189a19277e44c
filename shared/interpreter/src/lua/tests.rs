//! What scripts can and cannot do. Every hostile script must end within the caller's wait and answer with an error.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use shared::time::UnixSeconds;

use super::*;

fn runtime() -> Runtime {
    Runtime::new(Arc::new(|| UnixSeconds(1_735_689_600)))
}

fn call(script: &str, arguments: Vec<Value>) -> Result<Value, ScriptError> {
    let [first, _] = runtime().call(&Arc::from(script), "F", arguments, Empties::Lists, None)?;
    Ok(first)
}

/// The value of an expression.
fn eval(expression: &str) -> Result<Value, ScriptError> {
    call(&format!("function F() return {expression} end"), Vec::new())
}

#[test]
fn the_library_works() {
    let cases = [
        (
            "tostring(12) .. tostring(true) .. tostring({}) .. tostring(nil)",
            json!("12truetablenil"),
        ),
        ("('a,b'):find(',', 1, true)", json!(2)),
        ("('key=val'):match('(%w+)=')", json!("key")),
        ("select(2, ('x'):find('(x)()'))", json!(1)),
        ("table.concat({'a', 'b'}, '-')", json!("a-b")),
        ("string.format('%d %s %.2f', 3, 'x', 0.5)", json!("3 x 0.50")),
        ("math.floor(2.7) + math.max(1, 5)", json!(7)),
        ("os.date('!%Y-%m-%dT%H:%M:%SZ')", json!("2025-01-01T00:00:00Z")),
        ("os.time()", json!(1_735_689_600)),
        (
            "os.time({year=2025, month=1, day=1, hour=0})",
            json!(1_735_689_600),
        ),
        ("os.date('*t').year", json!(2025)),
        ("#{1, 2, 3}", json!(3)),
        (
            "{a = {1, 2}, b = {c = 'd'}}",
            json!({"a": [1, 2], "b": {"c": "d"}}),
        ),
        ("tonumber('0x10') + tonumber('1.5')", json!(17.5)),
        ("pcall(error, 'x')", json!(false)),
        ("xpcall(function() return 1 end, print)", json!(true)),
        ("select('#', 1, nil, 3)", json!(3)),
        ("unpack({7, 8})", json!(7)),
        ("next({})", json!(null)),
    ];
    for (expression, want) in cases {
        assert_eq!(eval(expression), Ok(want), "{expression}");
    }
}

#[test]
fn lists_are_sorted_and_edited_as_in_lua() {
    let script = "function F(t) local order = {} for i = 1, #t do order[i] = t[i] end
        table.sort(order, function(a, b) return a > b end)
        table.insert(order, 1, 99) table.insert(order, 0) local last = table.remove(order) table.remove(order, 2)
        local words = {} for w in ('one two  three'):gmatch('%a+') do words[#words + 1] = w end
        return {order = order, last = last, words = words, empty = table.remove({}) == nil, max = table.maxn({1, 2, [9] = 1})} end";
    let got = call(script, vec![json!([3, 1, 2, 5, 4])]);
    let want = json!({"order": [99, 4, 3, 2, 1], "last": 0, "words": ["one", "two", "three"], "empty": true, "max": 9});
    assert_eq!(got, Ok(want));
}

#[test]
fn the_same_script_answers_the_same() {
    let script = "local n = 0 function F(t) for k, v in pairs(t) do n = n .. k end return n .. math.random(1000) .. tostring(F) end";
    let object = json!({"b": 1, "a": 2, "c": {"x": 1}, "d": [1]});
    let first = call(script, vec![object.clone()]).expect("an answer");
    for _ in 0..5 {
        assert_eq!(call(script, vec![object.clone()]).as_ref(), Ok(&first));
    }
}

#[test]
fn nothing_is_left_behind_for_the_next_run() {
    let runtime = runtime();
    let script: Arc<str> =
        Arc::from("seen = (seen or 0) + 1 string.len = nil type = 'x' function F() return seen end");
    for _ in 0..3 {
        let got = runtime.call(&script, "F", Vec::new(), Empties::Lists, None);
        assert_eq!(got.map(|[first, _]| first), Ok(json!(1)));
    }
    let got = runtime.call(
        &Arc::from("function F() return type('') .. string.len('ab') end"),
        "F",
        Vec::new(),
        Empties::Lists,
        None,
    );
    assert_eq!(got.map(|[first, _]| first), Ok(json!("string2")));
}

#[test]
fn there_is_no_way_out() {
    for name in [
        "io",
        "debug",
        "package",
        "coroutine",
        "jit",
        "ffi",
        "bit",
        "gcinfo",
        "arg",
        "os.execute",
        "os.getenv",
        "os.exit",
        "os.remove",
        "os.tmpname",
        "string.gfind",
        "table.foreach",
    ] {
        assert_eq!(eval(&format!("type({name})")), Ok(json!("nil")), "{name}");
    }
    for expression in [
        "load('return 1')",
        "loadstring('return 1')",
        "loadfile('/etc/passwd')",
        "dofile('/etc/passwd')",
        "setmetatable({}, {})",
        "getmetatable('')",
        "rawget({}, 1)",
        "rawset({}, 1, 1)",
        "rawequal(1, 1)",
        "getfenv(0)",
        "setfenv(F, {})",
        "collectgarbage('collect')",
        "newproxy(true)",
        "module('x')",
        "require('os')",
        "require('io')",
        "string.dump(F)",
        "('x'):rep(10)",
        "string.gsub('a', 'a', 'b')",
        "os.date('%n')",
        "os.date('*t', 1e18)",
    ] {
        assert!(
            matches!(eval(expression), Err(ScriptError::Failed(_))),
            "{expression}: {:?}",
            eval(expression)
        );
    }
    // Bytecode is no script.
    assert!(matches!(check("\u{1b}Lua"), Err(ScriptError::Syntax(_))));
}

/// Hostile scripts. None may answer; each must end within the wait.
const HOSTILE: &[(&str, &str)] = &[
    ("a loop", "function F() while true do end end"),
    ("a loop when loaded", "while true do end function F() end"),
    (
        "a loop that catches",
        "function F() while true do pcall(function() while true do end end) end end",
    ),
    (
        "a loop in a handler",
        "function F() while true do xpcall(function() error('x') end, function() while true do end end) end end",
    ),
    (
        "nested catching",
        "function F() local function g() pcall(g) while true do end end g() end",
    ),
    (
        "doubling text",
        "function F() local s = 'x' while true do s = s .. s end end",
    ),
    (
        "long text again and again",
        "function F() local s = 'x' for i = 1, 22 do s = s .. s end local t while true do t = s .. 'y' end end",
    ),
    (
        "a growing list",
        "function F() local t = {} while true do t[#t + 1] = {} end end",
    ),
    (
        "a growing text table",
        "function F() local t = {} local i = 0 while true do i = i + 1 t[i] = 'k' .. i end end",
    ),
    ("deep recursion", "function F() return 1 + F() end"),
    ("tail recursion", "function F() return F() end"),
    (
        "mutual recursion that catches",
        "function F() local ok = pcall(F) return F() end",
    ),
    (
        "a hostile pattern",
        "function F() local s = ('a,'):upper() for i = 1, 15 do s = s .. s end return s:find('.-.-.-.-.-.-.-.-x') end",
    ),
    (
        "a hostile pattern, caught",
        "function F() local s = 'a' for i = 1, 15 do s = s .. s end while true do pcall(string.match, s, 'a*a*a*a*a*b') end end",
    ),
    (
        "balance again and again",
        "function F() local s = '(' for i = 1, 16 do s = s .. s end while true do local x = s:match('%b()') end end",
    ),
    (
        "gmatch for ever",
        "function F() while true do for w in ('a b c'):gmatch('%a') do end end end",
    ),
    (
        "plain search again and again",
        "function F() local s = 'a' for i = 1, 18 do s = s .. s end while true do local x = s:find(s .. 'b', 1, true) end end",
    ),
    (
        "an order that never ends",
        "function F() local t = {} for i = 1, 1000 do t[i] = i end while true do table.sort(t, function(a, b) return true end) end end",
    ),
    (
        "insert at the front",
        "function F() local t = {} while true do table.insert(t, 1, 1) end end",
    ),
    (
        "concat again and again",
        "function F() local t = {} for i = 1, 100000 do t[i] = 'x' end while true do local s = table.concat(t) end end",
    ),
    (
        "unpack too much",
        "function F() local t = {} for i = 1, 1e6 do t[i] = i end return unpack(t) end",
    ),
    (
        "a table in itself",
        "function F() local t = {} t.t = t return t end",
    ),
    (
        "a result that unfolds",
        "function F() local t = {1} for i = 1, 60 do t = {t, t} end return t end",
    ),
    (
        "a huge result",
        "function F() local t = {} for i = 1, 300000 do t[i] = i end return t end",
    ),
    ("no UTF-8", "function F() return '\\255\\254' end"),
    ("not finite", "function F() return 1/0 end"),
    ("no number", "function F() return 0/0 end"),
    ("a function", "function F() return F end"),
    ("a table as error", "function F() error({code = 1}) end"),
    ("nil as error", "function F() error(nil) end"),
    ("a format", "function F() return string.format('%1000d', 1) end"),
    ("gaps", "function F() return {[1] = 1, [1e9] = 2} end"),
    ("negative positions", "function F() return {[-1] = 1} end"),
    (
        "huge remove",
        "function F() local t = {} t[2^30] = 1 return table.remove(t, 2^31), error('x') end",
    ),
    (
        "huge insert",
        "function F() local t = {} table.insert(t, -2^40, 1) while true do end end",
    ),
];

#[test]
fn hostile_scripts_end_and_are_named() {
    for (name, script) in HOSTILE {
        let got = call(script, Vec::new());
        assert!(got.is_err(), "{name}: {got:?}");
    }
}

#[test]
fn errors_tell_no_addresses() {
    for raised in ["{code = 1}", "F", "print"] {
        let script = format!("function F() error({raised}) end");
        let (first, second) = (call(&script, Vec::new()), call(&script, Vec::new()));
        assert!(
            matches!(&first, Err(ScriptError::Failed(said)) if !said.contains("0x")),
            "{first:?}"
        );
        assert_eq!(first, second);
    }
}

#[test]
fn a_stopped_script_costs_no_other() {
    let runtime = runtime();
    let bad: Arc<str> = Arc::from("function F() while true do end end");
    let good: Arc<str> = Arc::from("function F() return 1 end");
    for _ in 0..6 {
        let stopped = runtime.call(&bad, "F", Vec::new(), Empties::Lists, None);
        assert_eq!(stopped, Err(ScriptError::OutOfSteps));
        let answer = runtime.call(&good, "F", Vec::new(), Empties::Lists, None);
        assert_eq!(answer.map(|[first, _]| first), Ok(json!(1)));
    }
}

#[test]
fn deep_nesting_is_refused_when_stored() {
    assert_eq!(check("function F() return 1 end"), Ok(()));
    assert!(matches!(check("function F( return"), Err(ScriptError::Syntax(_))));
    let deep = format!("x = {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(matches!(check(&deep), Err(ScriptError::Syntax(_))));
    assert_eq!(
        check(&" ".repeat(limits::SCRIPT_BYTES_MAX + 1)),
        Err(ScriptError::TooLong)
    );
}

/// Pieces that random scripts are made of.
fn statement() -> impl Strategy<Value = String> {
    let expression = prop_oneof![
        Just("o"),
        Just("o.spec"),
        Just("#o"),
        Just("{}"),
        Just("{o}"),
        Just("'a'"),
        Just("1"),
        Just("1e308 * 10"),
        Just("-1"),
        Just("nil"),
        Just("F"),
        Just("pcall(F, o)"),
        Just("o.a.b"),
        Just("tostring(o)"),
        Just("('%a'):find('%a')"),
        Just("string.format('%q', 'x')"),
        Just("table.concat(o)"),
        Just("select(-1, o)"),
        Just("unpack(o)"),
        Just("_G"),
        Just("string"),
        Just("require('kube')"),
        Just("require('kube').resourceAdd(o)"),
        Just("next(o)"),
        Just("math.huge"),
        Just("os.date(o)"),
        Just("os.time(o)"),
        Just("pairs(o)"),
        Just("('x'):byte(1, -1)"),
        Just("tonumber('z', 36)"),
    ];
    (expression.clone(), expression, 0..8_u8).prop_map(|(a, b, shape)| match shape {
        0 => format!("local x = {a}; local y = {b}"),
        1 => format!("o = {a}"),
        2 => format!("for k, v in pairs({a}) do o = {b} end"),
        3 => format!("if {a} then o = {b} end"),
        4 => format!("while {a} do o = {b} end"),
        5 => format!("local function g() return {a} .. {b} end pcall(g)"),
        6 => format!("table.insert({{}}, {a}) table.sort({{{b}, {a}}})"),
        _ => format!("repeat local z = {a} until {b}"),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_script_answers(statements in prop::collection::vec(statement(), 1..6), object in "[a-z{}]{0,8}") {
        let script = format!("function F(o) {} return o end", statements.join("\n"));
        if check(&script).is_ok() {
            // An answer or an error; a panic, a crash or a hang fails the test.
            let _ = call(&script, vec![json!({"spec": {"a": object}, "list": [1, null, {}]})]);
        }
    }

    #[test]
    fn what_goes_in_comes_out(value in json_value()) {
        prop_assert_eq!(call("function F(v) return v end", vec![value.clone()]), Ok(without_nulls(&value)));
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-1_000_000_i64..1_000_000).prop_map(Value::from),
        "[a-zäß✓ ]{0,6}".prop_map(Value::from),
        Just(Value::Null),
        Just(json!(0.5)),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// What Lua keeps: members that are null vanish, lists shrink, and an empty object is an empty list.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().filter(|v| !v.is_null()).map(without_nulls).collect(),
        Value::Object(map) => {
            let kept: serde_json::Map<String, Value> = map
                .iter()
                .filter(|(_, v)| !v.is_null())
                .map(|(k, v)| (k.clone(), without_nulls(v)))
                .collect();
            if kept.is_empty() {
                json!([])
            } else {
                Value::Object(kept)
            }
        }
        other => other.clone(),
    }
}
