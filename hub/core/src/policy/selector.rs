//! Label selectors (`metav1.LabelSelector`) and field requirements over small maps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fields;

/// A label selector as users write it. All parts must hold; an empty one matches everything, an invalid one nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be present with exactly this value.
    #[serde(
        default,
        deserialize_with = "fields::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(
        default,
        deserialize_with = "fields::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub match_expressions: Vec<Requirement>,
}

/// One requirement on one key: of a label selector, a field selector or a node selector term.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Label or field key.
    #[serde(default, deserialize_with = "fields::or_default")]
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, and for fields also `Gt`, `Lt`.
    #[serde(default, deserialize_with = "fields::or_default")]
    pub operator: String,
    /// Values the operator compares with.
    #[serde(
        default,
        deserialize_with = "fields::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub values: Vec<String>,
}

/// Why a requirement cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is none of the known ones.
    #[error("key {key:?}: {operator:?} is not a selector operator; use In, NotIn, Exists or DoesNotExist")]
    Operator {
        /// Key of the requirement.
        key: String,
        /// Operator as written.
        operator: String,
    },
    /// The number of values does not suit the operator.
    #[error("key {key:?}: operator {operator} {rule}")]
    Values {
        /// Key of the requirement.
        key: String,
        /// Operator as written.
        operator: String,
        /// What the operator needs, in words.
        rule: &'static str,
    },
    /// The key is not a valid label key.
    #[error("{0:?} is not a valid label key")]
    Key(String),
    /// A value is not a valid label value.
    #[error("key {key:?}: {value:?} is not a valid label value")]
    Value {
        /// Key of the requirement.
        key: String,
        /// Value as written.
        value: String,
    },
}

impl Requirement {
    /// Checks operator, key and values.
    ///
    /// # Errors
    /// The first rule that is broken. `Gt` and `Lt` are accepted here (fields allow them); label selectors of the API
    /// refuse them through [`LabelSelector::check`].
    pub fn check(&self) -> Result<(), SelectorError> {
        let wrong = |rule| SelectorError::Values {
            key: self.key.clone(),
            operator: self.operator.clone(),
            rule,
        };
        match self.operator.as_str() {
            "In" | "NotIn" if self.values.is_empty() => return Err(wrong("needs at least one value")),
            "Exists" | "DoesNotExist" if !self.values.is_empty() => return Err(wrong("takes no values")),
            "Gt" | "Lt" if self.values.len() != 1 || self.values[0].parse::<i64>().is_err() => {
                return Err(wrong("needs exactly one integer"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => {
                return Err(SelectorError::Operator {
                    key: self.key.clone(),
                    operator: self.operator.clone(),
                });
            }
        }
        if !fields::is_qualified_name(&self.key) {
            return Err(SelectorError::Key(self.key.clone()));
        }
        match self.values.iter().find(|value| !fields::is_label_value(value)) {
            Some(value) => Err(SelectorError::Value {
                key: self.key.clone(),
                value: value.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Does the value found under the key (none: the key is absent) satisfy the requirement?
    ///
    /// An absent key satisfies `NotIn` and `DoesNotExist`. An invalid requirement is never satisfied.
    pub fn matches(&self, found: Option<&str>) -> bool {
        self.check().is_ok() && self.holds(found)
    }

    /// [`Requirement::matches`] for a requirement that is known to be valid.
    pub(crate) fn holds(&self, found: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|wanted| wanted == value);
        match (self.operator.as_str(), found) {
            ("In", Some(value)) => listed(value),
            ("NotIn", Some(value)) => !listed(value),
            ("Exists", Some(_)) | ("NotIn" | "DoesNotExist", None) => true,
            ("Gt", Some(value)) => self.integers(value).is_some_and(|(found, bound)| found > bound),
            ("Lt", Some(value)) => self.integers(value).is_some_and(|(found, bound)| found < bound),
            _ => false,
        }
    }

    fn integers(&self, found: &str) -> Option<(i64, i64)> {
        Some((found.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl LabelSelector {
    /// Checks every part.
    ///
    /// # Errors
    /// The first part that is invalid.
    pub fn check(&self) -> Result<(), SelectorError> {
        for (key, value) in &self.match_labels {
            if !fields::is_qualified_name(key) {
                return Err(SelectorError::Key(key.clone()));
            }
            if !fields::is_label_value(value) {
                return Err(SelectorError::Value {
                    key: key.clone(),
                    value: value.clone(),
                });
            }
        }
        for requirement in &self.match_expressions {
            if matches!(requirement.operator.as_str(), "Gt" | "Lt") {
                return Err(SelectorError::Operator {
                    key: requirement.key.clone(),
                    operator: requirement.operator.clone(),
                });
            }
            requirement.check()?;
        }
        Ok(())
    }

    /// Do the labels satisfy the selector? An invalid selector matches nothing.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.check().is_ok() && self.holds(labels)
    }

    /// [`LabelSelector::matches`] for a selector that is known to be valid.
    pub(crate) fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        self.unheld(labels).is_none()
    }

    /// The first part that the labels do not satisfy, of a selector that is known to be valid.
    pub(crate) fn unheld(&self, labels: &BTreeMap<String, String>) -> Option<Unheld<'_>> {
        let of_labels = self
            .match_labels
            .iter()
            .find(|(key, value)| labels.get(*key) != Some(*value));
        if let Some((key, value)) = of_labels {
            return Some(Unheld::Label(key, value));
        }
        self.match_expressions
            .iter()
            .find(|r| !r.holds(labels.get(&r.key).map(String::as_str)))
            .map(Unheld::Expression)
    }
}

/// A part of a label selector that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unheld<'s> {
    /// A key must have exactly this value.
    Label(&'s str, &'s str),
    /// An expression.
    Expression(&'s Requirement),
}

impl Unheld<'_> {
    /// The key of the label.
    pub fn key(&self) -> &str {
        match self {
            Self::Label(key, _) => key,
            Self::Expression(requirement) => &requirement.key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(json: &str) -> LabelSelector {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn label_selectors() {
        let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
        for (json, expected) in [
            ("{}", true),
            (r#"{"matchLabels":{"tier":"gold"}}"#, true),
            (r#"{"matchLabels":{"tier":"tin"}}"#, false),
            (
                r#"{"matchExpressions":[{"key":"tier","operator":"In","values":["tin","gold"]}]}"#,
                true,
            ),
            (
                r#"{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["a"]}]}"#,
                true,
            ),
            (
                r#"{"matchExpressions":[{"key":"zone","operator":"Exists"}]}"#,
                false,
            ),
            (
                r#"{"matchExpressions":[{"key":"tier","operator":"DoesNotExist"}]}"#,
                false,
            ),
            // invalid parts match nothing, whatever the others say
            (
                r#"{"matchExpressions":[{"key":"zone","operator":"NotIn","values":[]}]}"#,
                false,
            ),
            (
                r#"{"matchExpressions":[{"key":"tier","operator":"Exists","values":["gold"]}]}"#,
                false,
            ),
            (
                r#"{"matchExpressions":[{"key":"tier","operator":"Near","values":["gold"]}]}"#,
                false,
            ),
            (r#"{"matchLabels":null,"matchExpressions":null}"#, true),
        ] {
            assert_eq!(selector(json).matches(&labels), expected, "{json}");
        }
    }

    #[test]
    fn integer_bounds_are_for_fields_only() {
        let bound = Requirement {
            key: "cpu".into(),
            operator: "Gt".into(),
            values: vec!["3".into()],
        };
        assert!(bound.matches(Some("4")));
        assert!(!bound.matches(Some("3")));
        assert!(!bound.matches(None));
        let whole = LabelSelector {
            match_labels: BTreeMap::new(),
            match_expressions: vec![bound],
        };
        assert!(whole.check().is_err());
    }
}
