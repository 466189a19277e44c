//! The little that ordering and reading need to know of a content, taken once when it is accepted or loaded.

use serde_json::Value;

/// Facts of one content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentFacts {
    /// Its `apiVersion`.
    pub api_version: String,
    /// A CustomResourceDefinition: the group and kind it defines.
    pub defines: Option<(String, String)>,
}

impl ContentFacts {
    /// Reads the facts of a content.
    #[must_use]
    pub fn of(content: &Value) -> Self {
        let text = |pointer: &str| {
            content
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let defines = (text("/kind").as_deref() == Some("CustomResourceDefinition"))
            .then(|| Some((text("/spec/group")?, text("/spec/names/kind")?)))
            .flatten();
        Self {
            api_version: text("/apiVersion").unwrap_or_default(),
            defines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_definition_names_what_it_defines() {
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"group": "example.org", "names": {"kind": "Widget", "plural": "widgets"}}});
        assert_eq!(
            ContentFacts::of(&crd).defines,
            Some(("example.org".into(), "Widget".into()))
        );
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        assert_eq!(
            ContentFacts::of(&other),
            ContentFacts {
                api_version: "v1".into(),
                defines: None
            }
        );
    }
}
