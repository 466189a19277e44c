//! Label selectors (`matchLabels`, `matchExpressions`) with the semantics of `metav1.LabelSelector`.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

/// Why a selector is not valid. The field path is relative to the selector.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// Wrong JSON type or unknown field.
    #[error("{0}")]
    Shape(String),
    /// Unknown operator.
    #[error("matchExpressions[{index}].operator: {operator:?} is none of In, NotIn, Exists, DoesNotExist")]
    Operator {
        /// Position of the expression.
        index: usize,
        /// What was there.
        operator: String,
    },
    /// `In` and `NotIn` need values, the others must have none.
    #[error("matchExpressions[{index}].values: {problem}")]
    Values {
        /// Position of the expression.
        index: usize,
        /// What is wrong.
        problem: &'static str,
    },
}

/// Operator of one requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorOperator {
    /// The label exists and its value is listed.
    In,
    /// The label is absent or its value is not listed.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// One expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// Operator.
    pub operator: SelectorOperator,
    /// Values, for `In` and `NotIn`.
    pub values: Vec<String>,
}

impl Requirement {
    /// Whether labels satisfy it.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            SelectorOperator::In => value.is_some_and(|v| self.values.contains(v)),
            SelectorOperator::NotIn => value.is_none_or(|v| !self.values.contains(v)),
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}

/// A selector: all labels and all expressions must hold. The empty selector matches everything; what an *absent*
/// selector means is up to the field that holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// Labels that must be equal.
    pub match_labels: BTreeMap<String, String>,
    /// Expressions that must hold.
    pub match_expressions: Vec<Requirement>,
}

impl LabelSelector {
    /// Reads a `metav1.LabelSelector`.
    ///
    /// # Errors
    /// [`SelectorError`] with the field and the fix.
    pub fn parse(value: &Value) -> Result<Self, SelectorError> {
        let shape = |text: &str| SelectorError::Shape(text.into());
        let map = value
            .as_object()
            .ok_or_else(|| shape("a label selector must be an object"))?;
        let mut selector = Self::default();
        for (field, value) in map {
            match (field.as_str(), value) {
                (_, Value::Null) => {}
                ("matchLabels", Value::Object(labels)) => {
                    for (key, value) in labels {
                        let value = value
                            .as_str()
                            .ok_or_else(|| shape("matchLabels: values must be strings"))?;
                        selector.match_labels.insert(key.clone(), value.into());
                    }
                }
                ("matchExpressions", Value::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        selector.match_expressions.push(requirement(index, item)?);
                    }
                }
                ("matchLabels", _) => return Err(shape("matchLabels must be an object")),
                ("matchExpressions", _) => return Err(shape("matchExpressions must be a list")),
                (other, _) => {
                    return Err(SelectorError::Shape(format!(
                        "unknown field {other:?} in a label selector"
                    )));
                }
            }
        }
        Ok(selector)
    }

    /// Whether labels satisfy it.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(k, v)| labels.get(k) == Some(v))
            && self.match_expressions.iter().all(|r| r.matches(labels))
    }

    /// Whether it has no condition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}

fn requirement(index: usize, item: &Value) -> Result<Requirement, SelectorError> {
    let key = item.get("key").and_then(Value::as_str).filter(|k| !k.is_empty());
    let key =
        key.ok_or_else(|| SelectorError::Shape(format!("matchExpressions[{index}].key is required")))?;
    let operator = match item.get("operator").and_then(Value::as_str).unwrap_or_default() {
        "In" => SelectorOperator::In,
        "NotIn" => SelectorOperator::NotIn,
        "Exists" => SelectorOperator::Exists,
        "DoesNotExist" => SelectorOperator::DoesNotExist,
        other => {
            return Err(SelectorError::Operator {
                index,
                operator: other.chars().take(64).collect(),
            });
        }
    };
    let values = match item.get("values") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values
            .iter()
            .map(|v| v.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
            .ok_or(SelectorError::Values {
                index,
                problem: "must be strings",
            })?,
        Some(_) => {
            return Err(SelectorError::Values {
                index,
                problem: "must be a list",
            });
        }
    };
    let wants_values = matches!(operator, SelectorOperator::In | SelectorOperator::NotIn);
    if wants_values && values.is_empty() {
        return Err(SelectorError::Values {
            index,
            problem: "In and NotIn need at least one value",
        });
    }
    if !wants_values && !values.is_empty() {
        return Err(SelectorError::Values {
            index,
            problem: "Exists and DoesNotExist take no values",
        });
    }
    Ok(Requirement {
        key: key.into(),
        operator,
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    #[test]
    fn matching() {
        let s = LabelSelector::parse(&json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["test"]},
                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                {"key": "canary", "operator": "DoesNotExist"},
                {"key": "owner", "operator": "Exists", "values": []}]}))
        .unwrap();
        let good = [("app", "web"), ("zone", "b"), ("owner", "")];
        assert!(s.matches(&labels(&good)));
        for extra in [("tier", "test"), ("zone", "c"), ("canary", ""), ("app", "db")] {
            let mut l = labels(&good);
            l.insert(extra.0.into(), extra.1.into());
            assert!(!s.matches(&l), "{extra:?}");
        }
        for missing in ["app", "zone", "owner"] {
            let mut l = labels(&good);
            l.remove(missing);
            assert!(!s.matches(&l), "{missing}");
        }
        assert!(LabelSelector::parse(&json!({})).unwrap().matches(&labels(&[])));
    }

    #[test]
    fn refusals() {
        for bad in [
            json!([]),
            json!({"matchLabel": {}}),
            json!({"matchLabels": {"a": 1}}),
            json!({"matchExpressions": [{"operator": "Exists"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["x"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
        ] {
            assert!(LabelSelector::parse(&bad).is_err(), "{bad}");
        }
    }
}
