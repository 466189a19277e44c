//! Label and field selectors of queries: grammar, matching, and the fields each kind may be selected by.
//! Grammar and texts follow apimachinery `labels.Parse` and `fields.ParseSelector`.

use crate::limits::MAX_SELECTOR_REQUIREMENTS;
use serde_json::Value;
use std::collections::BTreeMap;

/// A selector that cannot be read; answered as 400 with this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse requirement: {0}")]
pub struct SelectorError(String);

/// A parsed label selector; empty selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
    Greater,
    Less,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Equals,
    NotEquals,
    Not,
    Greater,
    Less,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let token = match c {
            ' ' | '\t' | '\r' | '\n' => continue,
            ',' => Token::Comma,
            '(' => Token::Open,
            ')' => Token::Close,
            '>' => Token::Greater,
            '<' => Token::Less,
            '=' => {
                chars.next_if_eq(&'=');
                Token::Equals
            }
            '!' if chars.next_if_eq(&'=').is_some() => Token::NotEquals,
            '!' => Token::Not,
            first => {
                let mut word = String::from(first);
                while let Some(next) = chars.next_if(|c| !" \t\r\n,()<>=!".contains(*c)) {
                    word.push(next);
                }
                Token::Word(word)
            }
        };
        out.push(token);
    }
    out
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn word(&mut self, expected: &str) -> Result<String, SelectorError> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            found => Err(SelectorError(format!(
                "found '{}', expected: {expected}",
                show(found.as_ref())
            ))),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.peek() == Some(&Token::Not) {
            self.at += 1;
            let key = self.word("identifier")?;
            return requirement(key, Operator::Absent, Vec::new());
        }
        let key = self.word("!, identifier, or 'end of string'")?;
        match self.next() {
            None => requirement(key, Operator::Exists, Vec::new()),
            Some(Token::Comma) => {
                self.at -= 1;
                requirement(key, Operator::Exists, Vec::new())
            }
            Some(Token::Equals) => {
                let value = self.value();
                requirement(key, Operator::In, vec![value])
            }
            Some(Token::NotEquals) => {
                let value = self.value();
                requirement(key, Operator::NotIn, vec![value])
            }
            Some(Token::Greater) => {
                let value = self.value();
                requirement(key, Operator::Greater, vec![value])
            }
            Some(Token::Less) => {
                let value = self.value();
                requirement(key, Operator::Less, vec![value])
            }
            Some(Token::Word(word)) if word == "in" || word == "notin" => {
                let values = self.set()?;
                requirement(
                    key,
                    if word == "in" {
                        Operator::In
                    } else {
                        Operator::NotIn
                    },
                    values,
                )
            }
            found => Err(SelectorError(format!(
                "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                show(found.as_ref())
            ))),
        }
    }

    /// The value after `=`; it may be missing (`a=`).
    fn value(&mut self) -> String {
        if let Some(Token::Word(word)) = self.peek() {
            let word = word.clone();
            self.at += 1;
            return word;
        }
        String::new()
    }

    fn set(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.next() {
            Some(Token::Open) => {}
            found => {
                return Err(SelectorError(format!(
                    "found '{}' expected: '('",
                    show(found.as_ref())
                )));
            }
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value());
            match self.next() {
                Some(Token::Comma) => {}
                Some(Token::Close) => return Ok(values),
                found => {
                    return Err(SelectorError(format!(
                        "found '{}', expected: ',' or ')'",
                        show(found.as_ref())
                    )));
                }
            }
        }
    }
}

fn show(token: Option<&Token>) -> String {
    match token {
        None => String::new(),
        Some(Token::Word(word)) => word.clone(),
        Some(Token::Comma) => ",".to_owned(),
        Some(Token::Open) => "(".to_owned(),
        Some(Token::Close) => ")".to_owned(),
        Some(Token::Equals) => "=".to_owned(),
        Some(Token::NotEquals) => "!=".to_owned(),
        Some(Token::Not) => "!".to_owned(),
        Some(Token::Greater) => ">".to_owned(),
        Some(Token::Less) => "<".to_owned(),
    }
}

fn requirement(key: String, operator: Operator, values: Vec<String>) -> Result<Requirement, SelectorError> {
    if let Err(why) = crate::names::label_key(&key) {
        return Err(SelectorError(format!("<nil>: Invalid value: {key:?}: {why}")));
    }
    for value in &values {
        let numeric = matches!(operator, Operator::Greater | Operator::Less);
        if numeric && value.parse::<i64>().is_err() {
            return Err(SelectorError(format!(
                "values[0][{key}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            )));
        }
        if let Err(why) = crate::names::label_value(value) {
            return Err(SelectorError(format!(
                "values[0][{key}]: Invalid value: {value:?}: {why}"
            )));
        }
    }
    Ok(Requirement {
        key,
        operator,
        values,
    })
}

impl LabelSelector {
    /// Reads the text of a `labelSelector` parameter.
    ///
    /// # Errors
    /// Text that is not a selector, or one with too many requirements.
    pub fn parse(text: &str) -> Result<LabelSelector, SelectorError> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
        };
        let mut requirements = Vec::new();
        if parser.peek().is_none() {
            return Ok(LabelSelector::default());
        }
        loop {
            if requirements.len() == MAX_SELECTOR_REQUIREMENTS {
                return Err(SelectorError(format!(
                    "more than {MAX_SELECTOR_REQUIREMENTS} requirements"
                )));
            }
            requirements.push(parser.requirement()?);
            match parser.next() {
                None => return Ok(LabelSelector { requirements }),
                Some(Token::Comma) => {}
                found => {
                    let text = show(found.as_ref());
                    return Err(SelectorError(format!(
                        "found '{text}', expected: ',' or 'end of string'"
                    )));
                }
            }
        }
    }

    /// Selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether these labels are selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|r| {
            let value = labels.get(&r.key);
            let is_one_of = value.is_some_and(|v| r.values.contains(v));
            let number = |text: &str| text.parse::<i64>().ok();
            let compared = || Some((number(value?)?, number(r.values.first()?)?));
            match r.operator {
                Operator::In => is_one_of,
                Operator::NotIn => !is_one_of,
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
                Operator::Greater => compared().is_some_and(|(a, b)| a > b),
                Operator::Less => compared().is_some_and(|(a, b)| a < b),
            }
        })
    }
}

/// A parsed field selector; empty selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Reads the text of a `fieldSelector` parameter and checks that the kind knows its fields.
    ///
    /// # Errors
    /// Text that is not a selector; a field that the kind cannot be selected by.
    pub fn parse(text: &str, group: &str, plural: &str) -> Result<FieldSelector, String> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let term = field_term(&part)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
            if !known_field(group, plural, &term.field) {
                return Err(format!("field label not supported: {}", term.field));
            }
            terms.push(term);
            if terms.len() > MAX_SELECTOR_REQUIREMENTS {
                return Err(format!(
                    "invalid selector: more than {MAX_SELECTOR_REQUIREMENTS} terms"
                ));
            }
        }
        Ok(FieldSelector { terms })
    }

    /// Selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The name that `metadata.name=` asks for, if it does.
    pub fn exact_name(&self) -> Option<&str> {
        self.terms
            .iter()
            .find(|t| t.equal && t.field == "metadata.name")
            .map(|t| t.value.as_str())
    }

    /// The namespace that `metadata.namespace=` asks for, if it does.
    pub fn exact_namespace(&self) -> Option<&str> {
        self.terms
            .iter()
            .find(|t| t.equal && t.field == "metadata.namespace")
            .map(|t| t.value.as_str())
    }

    /// Whether fields beyond name and namespace are asked for, so that bodies must be read.
    pub fn needs_body(&self) -> bool {
        self.terms
            .iter()
            .any(|t| !matches!(t.field.as_str(), "metadata.name" | "metadata.namespace"))
    }

    /// Whether the object is selected. `object` is asked for only if [`FieldSelector::needs_body`].
    pub fn matches(&self, namespace: &str, name: &str, object: impl FnOnce() -> Value) -> bool {
        let body = if self.needs_body() { object() } else { Value::Null };
        self.terms.iter().all(|t| {
            let value = match t.field.as_str() {
                "metadata.name" => name.to_owned(),
                "metadata.namespace" => namespace.to_owned(),
                other => field_text(&body, other),
            };
            (value == t.value) == t.equal
        })
    }
}

/// Splits at commas that no backslash escapes.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

fn field_term(part: &str) -> Option<FieldTerm> {
    let at = part.find(['=', '!'])?;
    let (field, rest) = part.split_at(at);
    let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else if let Some(value) = rest.strip_prefix("==") {
        (true, value)
    } else {
        (true, rest.strip_prefix('=')?)
    };
    let mut text = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c @ ('\\' | ',' | '=') => text.push(c),
                _ => return None,
            },
            '=' => return None,
            c => text.push(c),
        }
    }
    Some(FieldTerm {
        field: field.trim().to_owned(),
        equal,
        value: text,
    })
}

const INVOLVED: [&str; 10] = [
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
];

/// Fields by which a kind may be selected (source: the conversion functions of the API groups).
fn known_field(group: &str, plural: &str, field: &str) -> bool {
    if field == "metadata.name" || field == "metadata.namespace" {
        return true;
    }
    match (group, plural) {
        ("", "pods") => [
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ]
        .contains(&field),
        ("", "events") => field == "source" || INVOLVED.contains(&field),
        ("events.k8s.io", "events") => {
            field
                .strip_prefix("regarding.")
                .is_some_and(|f| INVOLVED.contains(&format!("involvedObject.{f}").as_str()))
                || ["reason", "reportingController", "type"].contains(&field)
        }
        ("", "secrets") => field == "type",
        ("", "namespaces") => field == "status.phase",
        ("", "nodes") => field == "spec.unschedulable",
        ("batch", "jobs") => field == "status.successful",
        ("", "replicationcontrollers") | ("apps", "replicasets") => field == "status.replicas",
        ("certificates.k8s.io", "certificatesigningrequests") => field == "spec.signerName",
        _ => false,
    }
}

/// The value of a field as text; absent is the empty text, or `false` and `0` where the source says so.
fn field_text(body: &Value, field: &str) -> String {
    if field == "source" {
        let source = body
            .pointer("/source/component")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let reporting = body
            .get("reportingComponent")
            .and_then(Value::as_str)
            .unwrap_or_default();
        return if source.is_empty() { reporting } else { source }.to_owned();
    }
    let found = field.split('.').try_fold(body, |at, key| at.get(key));
    match found {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => match field {
            "spec.unschedulable" | "spec.hostNetwork" => "false".to_owned(),
            "status.successful" | "status.replicas" => "0".to_owned(),
            _ => String::new(),
        },
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn label_selectors() {
        let web = labels(&[("app", "web"), ("tier", "2"), ("empty", "")]);
        let table = [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web , tier=2", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (api, web)", true),
            ("app notin (api,web)", false),
            ("other notin (x)", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("tier>1", true),
            ("tier<2", false),
            ("empty=", true),
            ("example.com/app,app", false),
            ("app in (web),!other,tier", true),
        ];
        for (text, expected) in table {
            let selector = LabelSelector::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(selector.matches(&web), expected, "{text}");
        }
    }

    #[test]
    fn broken_label_selectors_are_refused() {
        for text in [
            "=a", "a in b", "a in (b", "a,,b", "a b", "-a=b", "a=b=c", "a>x", "(a)",
        ] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn field_selectors() {
        let event = json!({"involvedObject": {"name": "web", "uid": "1"}, "source": {"component": "agent"}});
        let table = [
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("involvedObject.name=web,involvedObject.uid=1,source=agent", true),
            ("involvedObject.namespace=", true),
            ("involvedObject.kind=Pod", false),
        ];
        for (text, expected) in table {
            let selector = FieldSelector::parse(text, "", "events").unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(selector.matches("ns", "a", || event.clone()), expected, "{text}");
        }
        let escaped = FieldSelector::parse(r"metadata.name=a\,b\=c", "", "pods").expect("escapes");
        assert_eq!(escaped.exact_name(), Some("a,b=c"));
        let error = FieldSelector::parse("spec.foo=1", "apps", "deployments").expect_err("unknown field");
        assert_eq!(error, "field label not supported: spec.foo");
        assert!(FieldSelector::parse("nothing", "", "pods").is_err());
    }
}
