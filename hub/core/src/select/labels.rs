//! Label selectors: the grammar of `labels.Parse` and its matching.

use crate::limits::MAX_SELECTOR_REQUIREMENTS;
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
                let value = self.value()?;
                requirement(key, Operator::In, vec![value])
            }
            Some(Token::NotEquals) => {
                let value = self.value()?;
                requirement(key, Operator::NotIn, vec![value])
            }
            Some(Token::Greater) => {
                let value = self.value()?;
                requirement(key, Operator::Greater, vec![value])
            }
            Some(Token::Less) => {
                let value = self.value()?;
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
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            None | Some(Token::Comma) => Ok(String::new()),
            Some(_) => self.word("identifier"),
        }
    }

    /// A value of a set, which may be empty.
    fn listed(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            Some(Token::Comma | Token::Close) => Ok(String::new()),
            _ => self.word("',', ')' or identifier"),
        }
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
            values.push(self.listed()?);
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
