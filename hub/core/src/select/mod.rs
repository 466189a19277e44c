//! Label and field selectors of queries: grammar, matching, and the fields each kind may be selected by.
//! Grammar and texts follow apimachinery `labels.Parse` and `fields.ParseSelector`.

mod fields;
mod labels;

pub use fields::FieldSelector;
pub use labels::{LabelSelector, SelectorError};

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

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
        assert!(
            error.starts_with("\"spec.foo\" is not a known field selector"),
            "{error}"
        );
        let error = FieldSelector::parse("spec.foo=1", "", "pods").expect_err("unknown field");
        assert_eq!(error, "field label not supported: spec.foo");
        assert!(FieldSelector::parse("nothing", "", "pods").is_err());
    }
}
