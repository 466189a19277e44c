//! Label and field selectors.

use super::timed;
use hub_core::select::{FieldSelector, LabelSelector};
use mutation::{Random, mutate_text, seeds};
use serde_json::json;
use std::collections::BTreeMap;

const SELECTORS: u64 = 60_000;

const LABELS: &[&str] = &[
    "app=web",
    "app in (web,api),tier notin (x)",
    "!gone,example.com/a",
    "tier>1,tier<3",
    "a==b,c!=d",
];

const FIELDS: &[&str] = &[
    "metadata.name=a",
    "metadata.name!=a,metadata.namespace=b",
    "spec.nodeName=n,status.phase!=Running",
    r"metadata.name=a\,b\=c",
];

const PIECES: &[&str] = &[
    ",",
    "(",
    ")",
    "=",
    "==",
    "!=",
    "!",
    " in ",
    " notin ",
    "in",
    "notin",
    ">",
    "<",
    "()",
    "(,)",
    " ",
    "\t",
    "\n",
    "\u{0}",
    "é",
    "/",
    "a/b/c",
    "-",
    ".",
    "\\",
    "\\,",
    "\\=",
    "\\\\",
    "9223372036854775808",
    "-1",
    "x",
];

fn some_labels() -> Vec<BTreeMap<String, String>> {
    let of = |pairs: &[(&str, &str)]| {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    };
    vec![
        of(&[]),
        of(&[("app", "web"), ("tier", "2")]),
        of(&[("app", "api"), ("example.com/a", ""), ("a", "b")]),
    ]
}

#[test]
fn a_comma_is_an_and() {
    let labels = some_labels();
    let (mut read, mut refused) = (0, 0);
    for seed in seeds(SELECTORS) {
        let mut random = Random::new(seed);
        let texts = [0; 2].map(|_| {
            let base = *random.of(LABELS);
            mutate_text(base, PIECES, 3, &mut random)
        });
        let parsed = texts
            .clone()
            .map(|text| timed(seed, "reading", || LabelSelector::parse(&text)));
        for (text, selector) in texts.iter().zip(&parsed) {
            match selector {
                Ok(_) => read += 1,
                Err(error) => {
                    refused += 1;
                    let told = error.to_string();
                    assert!(
                        told.len() > 30 && told.len() < 500 + 8 * text.len(),
                        "seed {seed}: {told}"
                    );
                }
            }
        }
        let [Ok(one), Ok(other)] = &parsed else { continue };
        if one.is_empty() || other.is_empty() {
            continue;
        }
        let both = LabelSelector::parse(&texts.join(","));
        let both = both.unwrap_or_else(|e| panic!("seed {seed}: {texts:?}: {e}"));
        for labels in &labels {
            assert_eq!(
                both.matches(labels),
                one.matches(labels) && other.matches(labels),
                "seed {seed}: {texts:?} {labels:?}"
            );
        }
    }
    println!("{read} selectors read, {refused} refused");
    assert!(
        read > 0 && refused > 0,
        "the mutations try too little: {read} {refused}"
    );
}

#[test]
fn a_comma_is_an_and_for_fields_too() {
    let pod = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
    let (mut read, mut refused) = (0, 0);
    for seed in seeds(SELECTORS) {
        let mut random = Random::new(seed);
        let texts = [0; 2].map(|_| {
            let base = *random.of(FIELDS);
            mutate_text(base, PIECES, 3, &mut random)
        });
        let parsed = texts
            .clone()
            .map(|text| timed(seed, "reading", || FieldSelector::parse(&text, "", "pods")));
        for (text, selector) in texts.iter().zip(&parsed) {
            match selector {
                Ok(_) => read += 1,
                Err(told) => {
                    refused += 1;
                    assert!(
                        !told.is_empty() && told.len() < 500 + 8 * text.len(),
                        "seed {seed}: {told}"
                    );
                }
            }
        }
        let [Ok(one), Ok(other)] = &parsed else { continue };
        // What ends in a backslash takes the comma.
        if one.is_empty() || other.is_empty() || texts[0].ends_with('\\') {
            continue;
        }
        let both = FieldSelector::parse(&texts.join(","), "", "pods");
        let both = both.unwrap_or_else(|e| panic!("seed {seed}: {texts:?}: {e}"));
        let matches = |selector: &FieldSelector| selector.matches("b", "a", || pod.clone());
        assert_eq!(
            matches(&both),
            matches(one) && matches(other),
            "seed {seed}: {texts:?}"
        );
        if let Some(name) = one.exact_name() {
            assert!(
                !one.matches("b", &format!("{name}x"), || pod.clone()),
                "seed {seed}: {texts:?}"
            );
        }
    }
    println!("{read} selectors read, {refused} refused");
    assert!(
        read > 0 && refused > 0,
        "the mutations try too little: {read} {refused}"
    );
}
