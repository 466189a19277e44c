//! Expressions: parsed, checked, estimated and evaluated.

use super::timed;
use hub_core::cel::{Bounds, Budget, Lists, Names, Program, Scope, Shape, Type, Value as Cel};
use mutation::{Random, mutate_json, mutate_text, seeds};
use serde_json::{Value, json};

const EXPRESSIONS: u64 = 6_000;

const CORPUS: &[&str] = &[
    "self.replicas <= self.max && self.name.startsWith('a')",
    "self.ports.all(p, p.port > 0 && p.name.size() < 10)",
    "self.ports.exists_one(p, p.name == 'a') ? self.labels['a'] == 'b' : !has(self.labels)",
    "self.ports.filter(p, p.port > 80).map(p, p.name).join(',') == 'b'",
    "self.labels.all(k, k.matches('^[a-z]+$') && self.labels[k] != '')",
    "self.name.replace('a', 'bb').split('b', 3).size() + self.replicas * 2 % 7 - 1 > -3",
    "self.at > timestamp('2020-01-01T00:00:00Z') && duration('1h') < duration('2h')",
    "[1, 2, 3].sum() == 6 && {'a': [1u], 'b': []}.size() == 2 && 1.5 + 2.5 == 4.0",
    "self.ports.map(p, p.port).sort().reverse().slice(0, 1) == [81]",
    "quantity('1Gi').isGreaterThan(quantity('1Mi')) && ip('10.0.0.1').family() == 4",
    "self.?labels[?'a'].orValue('x') == optional.of('b').value()",
    "self.name.find('[a-z]+').upperAscii().lowerAscii().trim().charAt(0) == 'a'",
    "type(self.replicas) == int && string(self.replicas) == '3' && int('3') == 3 && bytes('a') != b'b'",
    "url('https://a.b/c?d=e').getHost() == 'a.b' && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
    "{'a': 1, 'b': 2}.transformMap(k, v, v + 1).all(k, v, v > 1) && [1, 2].exists(i, v, i < v)",
    "'%s is %d'.format([self.name, self.replicas]) != '' && self.ports.isSorted() == false",
];

const PIECES: &[&str] = &[
    "self",
    "self.ports",
    ".all(x, ",
    ".map(x, x)",
    ".filter(x, ",
    "[0]",
    "[-1]",
    "[?0]",
    ".?name",
    "'a' * 3",
    " + ",
    " - ",
    " * ",
    " / 0",
    " % ",
    " && ",
    " || ",
    "!",
    "-",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "? 1 : ",
    ", ",
    "9223372036854775807",
    "18446744073709551615u",
    "1e308",
    "0x",
    "'",
    "\"",
    "'''",
    "b'",
    "r'",
    "\\u0000",
    "\u{0}",
    "é",
    "null",
    "true",
    "size(",
    "type(",
    "dyn(",
    "string(",
    "timestamp('",
    "duration('-",
    "matches('(a*)*b')",
    "lists.range(1000000)",
    ".format([1])",
    "%",
    "//",
    " in ",
    "has(self.name)",
    "has(",
    ".orValue(0)",
    "optional.none()",
    ".sortBy(x, x)",
    ".flatten()",
    ".distinct()",
    "((((((((((",
    "[[[[[[[[[[",
    "!!!!!!!!!!",
    "----------",
    "a.b.c.d.e.f",
    "`",
    "@",
    "..",
];

fn node() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string"}, "replicas": {"type": "integer"}, "max": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "ports": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}}}}})
}

fn object() -> Value {
    json!({"name": "abc", "replicas": 3, "max": 4, "at": "2026-01-01T00:00:00Z", "labels": {"a": "b"},
        "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]})
}

/// Whether a value is of the type that was foretold.
fn is_of(value: &Cel, of: &Type) -> bool {
    match (value, of) {
        (_, Type::Dyn) => true,
        (Cel::Bool(_), of) => *of == Type::plain("bool"),
        (Cel::Int(_), of) => *of == Type::plain("int"),
        (Cel::UInt(_), of) => *of == Type::plain("uint"),
        (Cel::Float(_), of) => *of == Type::plain("double"),
        (Cel::String(_), of) => *of == Type::plain("string"),
        (Cel::Bytes(_), of) => *of == Type::plain("bytes"),
        (Cel::List(items), Type::List(inner)) => items.iter().all(|item| is_of(item, inner)),
        (Cel::List(_), _) => false,
        (Cel::Map(_), Type::Map(..) | Type::Object(_)) => true,
        (Cel::Map(_), _) => false,
        // Times, opaque values and optionals have no plain form here.
        _ => true,
    }
}

/// Long and deep, but in few words.
#[test]
fn chains_are_checked_once() {
    let shape = Shape::read(&node(), false);
    let names = Names::default().with("self", shape.to_type());
    let bounds = Bounds::read(&node(), false).unwrap();
    let ports = "self.ports".to_owned();
    let chain =
        |step: &str, times: usize| (0..times).fold(ports.clone(), |chain, _| chain + step) + ".size() > 0";
    for source in [
        chain(".map(x, x)", 100),
        chain(".filter(x, true)", 100),
        chain(".transformList(i, x, x)", 60),
        chain(".sortBy(x, x.port)", 60),
    ] {
        let checked = timed(0, "checking", || {
            Program::parse(&source).and_then(|program| program.check_with_cost(&names, &bounds))
        });
        assert!(checked.is_ok(), "{source}: {checked:?}");
    }
}

#[test]
fn what_passes_the_check_is_what_it_said() {
    let shape = Shape::read(&node(), false);
    let bounds = Bounds::read(&node(), false).unwrap();
    let names = Names::default()
        .with("self", shape.to_type())
        .with("oldSelf", shape.to_type());
    let (mut valued, mut failed, mut refused) = (0, 0, 0);
    for seed in seeds(EXPRESSIONS) {
        let mut random = Random::new(seed);
        let base = *random.of(CORPUS);
        let source = mutate_text(base, PIECES, 4, &mut random);
        let checked = timed(seed, "checking", || {
            Program::parse(&source)
                .and_then(|program| Ok((program.check_with_cost(&names, &bounds)?, program)))
        });
        let ((of, _), program) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                assert!(!error.to_string().is_empty(), "seed {seed}");
                refused += 1;
                continue;
            }
        };
        let mut value = object();
        if random.index(2) == 0 {
            mutate_json(&mut value, &mut random);
        }
        let is_changed = value != object();
        let lists = Lists::default();
        let mut scope = Scope::default();
        scope.set_lists(&lists);
        scope.set("self", shape.value(&value, &lists));
        scope.set("oldSelf", shape.value(&object(), &lists));
        let mut budget = Budget::new(1_000_000);
        match timed(seed, "evaluating", || scope.evaluate(&program, &mut budget)) {
            Ok(value) => {
                valued += 1;
                assert!(
                    is_changed || is_of(&value, &of),
                    "seed {seed}: {source}: {of} is {value:?}"
                );
            }
            Err(error) => {
                failed += 1;
                assert!(!error.message.is_empty(), "seed {seed}: {source}");
            }
        }
    }
    println!("{valued} expressions with values, {failed} without, {refused} refused");
    assert!(
        valued > 0 && failed > 0 && refused > 0,
        "the mutations try too little: {valued} {failed} {refused}"
    );
}
