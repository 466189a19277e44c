//! Expressions and what they give.

use super::*;
use serde_json::json;

fn given<'p>() -> (Scope<'p>, Names) {
    let object = json!({"metadata": {"name": "web", "labels": {"app": "web", "tier": "2"}}, "spec": {"replicas": 3,
        "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}], "ratio": 0.5, "none": null}});
    let mut scope = Scope::default();
    scope.set("object", from_json(&object));
    (scope, Names::default().with("object", Type::Dyn))
}

fn told(source: &str) -> String {
    let (scope, names) = given();
    let program = match Program::parse(source) {
        Ok(program) => program,
        Err(error) => return format!("parse: {error}"),
    };
    if let Err(error) = program.check(&names) {
        return format!("check: {error}");
    }
    match scope.evaluate(&program, &mut Budget::new(1_000_000)) {
        Ok(Value::Bool(b)) => b.to_string(),
        Ok(value) => to_json(&value).map_or_else(|e| e.message, |v| v.to_string()),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn expressions_and_their_values() {
    let table = [
        ("object.spec.replicas + 1 == 4", "true"),
        ("object.spec.ports.map(p, p.port)", "[80,81]"),
        (
            "object.spec.ports.filter(p, p.port > 80).map(p, p.name)",
            "[\"b\"]",
        ),
        ("object.spec.ports.exists(p, p.name == 'b')", "true"),
        ("object.spec.ports.all(p, p.port > 80)", "false"),
        ("object.spec.ports.exists_one(p, p.port == 80)", "true"),
        ("object.metadata.labels.all(k, k.size() > 2)", "true"),
        (
            "object.metadata.labels.map(k, object.metadata.labels[k])",
            "[\"web\",\"2\"]",
        ),
        ("object.spec.ports.map(p, p.port > 80, p.name)", "[\"b\"]"),
        ("has(object.spec.replicas) && !has(object.spec.nothing)", "true"),
        ("has(object.spec.none)", "true"),
        ("object.spec.nothing == 1", "error: no such key: nothing"),
        ("object.spec.nothing == 1 || true", "true"),
        ("true || object.spec.nothing == 1", "true"),
        ("object.spec.nothing == 1 && false", "false"),
        (
            "[object.spec.nothing, 1].size() == 2",
            "error: no such key: nothing",
        ),
        ("[1, 2].exists(x, x / (x - 1) == 2)", "true"),
        ("object.spec.replicas.name == 1", "error: no such overload"),
        ("object.metadata.name > 1", "error: no such overload"),
        ("object.spec.ports[5].port == 1", "error: index out of bounds: 5"),
        ("1 / 0 == 1", "error: division by zero"),
        ("9223372036854775807 + 1 == 0", "error: integer overflow"),
        ("[9223372036854775807, 1].sum() == 0", "error: sum failed"),
        ("object.spec.ratio < 1", "true"),
        ("object.?spec.?nothing.orValue('x')", "\"x\""),
        ("object.spec.?replicas.orValue(0)", "3"),
        ("object.metadata.labels[?'app'].hasValue()", "true"),
        ("optional.of(1).optMap(x, x + 1).value()", "2"),
        (
            "optional.none().value() == 1",
            "error: optional.none() dereference",
        ),
        ("{'a': 1}.transformMap(k, v, v + 1)", "{\"a\":2}"),
        ("[3, 1].sortBy(x, x)", "[1,3]"),
        ("{'a': 1, 'b': 2}.exists(k, v, k == 'b' && v == 2)", "true"),
        ("type(object.spec.replicas) == int && type('a') != int", "true"),
        ("'a,b'.split(',')", "[\"a\",\"b\"]"),
        ("quantity('1Gi').isGreaterThan(quantity('1Mi'))", "true"),
        ("sign(quantity('-2')) == -1", "true"),
        ("ip('10.0.0.1').family() == 4", "true"),
        ("'%s has %d'.format([object.metadata.name, 3])", "\"web has 3\""),
        ("duration('90m') > duration('1h')", "true"),
        ("timestamp('2020-01-01T00:00:00Z').getFullYear()", "2020"),
        ("'x' in object.metadata.labels", "false"),
        ("80 in object.spec.ports.map(p, p.port)", "true"),
        ("size('é') == 1", "true"),
        ("jsonpatch.escapeKey('a/b~c')", "\"a~1b~0c\""),
    ];
    for (source, expected) in table {
        assert_eq!(told(source), expected, "{source}");
    }
}

#[test]
fn what_is_wrong_is_told_where() {
    let table = [
        ("foo == 1", "1:1: undeclared reference to 'foo' (in container '')"),
        (
            "'a' + 1 == 'b'",
            "1:5: found no matching overload for '_+_' applied to '(string, int)'",
        ),
        (
            "object.foo(1)",
            "1:11: undeclared reference to 'foo' (in container '')",
        ),
        (
            "[1, 'a'].size() == 2",
            "1:5: expected type 'int' but found 'string'",
        ),
        (
            "1 == 1.0",
            "1:3: found no matching overload for '_==_' applied to '(int, double)'",
        ),
        ("[1].all(x, x)", "1:12: expected type 'bool' but found 'int'"),
        (
            "[1].filter(x, x)",
            "1:11: found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'",
        ),
        (
            "'a'.size == 1",
            "1:4: type 'string' does not support field selection",
        ),
        (
            "-'a' == 1",
            "1:1: found no matching overload for '-_' applied to '(string)'",
        ),
        (
            "'a'.startsWith(1)",
            "1:15: found no matching overload for 'startsWith' applied to 'string.(int)'",
        ),
        (
            "math.ceil(1.0) == 1.0",
            "1:1: undeclared reference to 'math' (in container '')",
        ),
        (
            "strings.quote(1)",
            "1:14: found no matching overload for 'strings.quote' applied to '(int)'",
        ),
        (
            "\"é\" + foo == ''",
            "1:7: undeclared reference to 'foo' (in container '')",
        ),
        (
            "object.labels.exists(l, l.foo())",
            "1:30: undeclared reference to 'foo' (in container '')",
        ),
        (
            "1 ? true : false",
            "1:3: found no matching overload for '_?_:_' applied to '(int, bool, bool)'",
        ),
        (
            "Object{a: 1}",
            "undeclared reference to 'Object' (in container '')",
        ),
    ];
    for (source, expected) in table {
        let told = told(source);
        assert!(
            told.starts_with("check: compilation failed: ERROR: <input>:"),
            "{source}: {told}"
        );
        assert!(told.contains(expected), "{source}: {told}");
    }
}

#[test]
fn what_grows_or_runs_on_is_stopped() {
    let double = format!("['{}']{}", "a".repeat(100), ".map(a, a + a)".repeat(16));
    for source in [
        double.as_str(),
        "lists.range(100000000).size() == 1",
        "lists.range(1000).map(a, lists.range(1000).map(b, lists.range(1000))).size() == 1",
        "lists.range(1000).all(a, lists.range(1000).all(b, a == b || true))",
    ] {
        let told = told(source);
        assert!(told.ends_with("actual cost limit exceeded"), "{source}: {told}");
    }
    // No operator swallows it.
    let swallowed = "lists.range(100000).all(a, lists.range(100000).all(b, true)) || true";
    assert!(told(swallowed).ends_with("cost limit exceeded"));
    assert!(told("'%.999999999f'.format([1.0])").starts_with("error: "));
    let replaced = "lists.range(1000).map(x, 'a').join('').replace('', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').replace('', \
                    'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb').size() == 1";
    assert!(
        told(replaced).ends_with("cost limit exceeded"),
        "{}",
        told(replaced)
    );
}

#[test]
fn variables_are_evaluated_when_asked_for() {
    let good = Program::parse("object.metadata.name + '!'").expect("parses");
    let bad = Program::parse("object.nothing").expect("parses");
    let round = Program::parse("variables.round").expect("parses");
    let (mut scope, _) = given();
    scope.add_variable("good", &good);
    scope.add_variable("bad", &bad);
    scope.add_variable("round", &round);
    let ask = |source: &str| {
        let program = Program::parse(source).expect("parses");
        scope
            .evaluate(&program, &mut Budget::new(1_000))
            .map_err(|e| e.message)
    };
    assert_eq!(ask("variables.good == 'web!'"), Ok(Value::Bool(true)));
    assert_eq!(
        ask("variables.bad").expect_err("absent"),
        "composited variable \"bad\" fails to evaluate: no such key: nothing"
    );
    assert!(ask("variables.round").is_err());
}

#[test]
fn what_is_just_allowed_fits_a_small_stack() {
    let run = || {
        for source in [
            vec!["1"; 240].join("+") + " == 240",
            format!("{}true", "!".repeat(240)),
            format!("{}1{} == 1", "(".repeat(38), ")".repeat(38)),
            format!("{}1{}", "[".repeat(38), "]".repeat(38)),
            format!("{}1", "true ? 1 : ".repeat(40)),
            format!("{}1{} == 1", "[1].map(a, ".repeat(30), ")".repeat(30)),
            format!("object.metadata{}", "['name']".repeat(100)),
        ] {
            assert!(!told(&source).contains("recursion"), "{source}");
        }
    };
    let small = std::thread::Builder::new().stack_size(1 << 20).spawn(run);
    small.expect("starts").join().expect("ends");
}
