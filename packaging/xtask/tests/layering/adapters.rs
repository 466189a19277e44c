//! A conformance adapter calls the function that the stage itself calls: what it calls must have a caller in the product.
//!
//! Found by name in the text, without comments and test modules: enough to notice a function that only a runner calls.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use xtask::workspace;

/// Sources of the product.
const PRODUCT: &[&str] = &[
    "hub/src",
    "hub/core/src",
    "agent/src",
    "agent/core/src",
    "shared/src",
    "shared/interpreter/src",
];

/// Crates whose functions adapters call.
const CALLED: &[&str] = &["hub_core", "interpreter", "agent_core", "shared"];

/// Functions that no stage calls yet, with what they wait for. One that has got its caller must leave this list.
const WAITING: &[(&str, &str)] = &[("is_stuck", "descheduling: reports of unschedulable pods")];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            files(&path, found);
        } else if name.ends_with(".rs") && !name.contains("test") {
            found.push(path);
        }
    }
}

/// The text without line comments and without what follows the first test module.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines()
        .map(|line| line.split("//").next().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Words of a text with the characters before and after.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive(|character| !is_word(character))
        .filter_map(move |piece| {
            let start = at;
            at += piece.len();
            let word = piece.trim_end_matches(|character| !is_word(character));
            (!word.is_empty()).then_some((start, word))
        })
}

fn is_function(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase()) && !word.chars().any(|c| c.is_ascii_uppercase())
}

/// Modules and functions that an adapter imports from the product.
fn imported(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for statement in text.split("\nuse ").skip(1) {
        let statement = statement.split(';').next().unwrap();
        let crate_name = statement.split("::").next().unwrap().trim();
        if !CALLED.contains(&crate_name) {
            continue;
        }
        for (at, word) in words(statement) {
            let rest = &statement[at + word.len()..];
            if is_function(word) && (!rest.starts_with("::") || rest.starts_with("::{self")) {
                names.insert(word.to_owned());
            }
        }
    }
    names
}

/// Functions of the product that an adapter calls.
fn called(text: &str) -> BTreeSet<String> {
    let imported = imported(text);
    let mut calls = BTreeSet::new();
    for (at, word) in words(text) {
        if !is_function(word) || !text[at + word.len()..].starts_with('(') {
            continue;
        }
        let before = text[..at].strip_suffix("::");
        let of_product = match before {
            Some(path) => {
                let start = path
                    .rfind(|c: char| !is_word(c) && c != ':')
                    .map_or(0, |at| at + 1);
                let path = &path[start..];
                let module = path.rsplit("::").next().unwrap();
                CALLED.contains(&path.split("::").next().unwrap()) || imported.contains(module)
            }
            None => !text[..at].ends_with(['.', '>']) && imported.contains(word),
        };
        if of_product {
            calls.insert(word.to_owned());
        }
    }
    calls
}

/// Names that the product uses, other than where they are defined or passed on.
fn used(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        if !(trimmed.starts_with("use ")
            || trimmed.starts_with("pub use ")
            || trimmed.starts_with("pub(crate) use "))
        {
            for (at, word) in words(line) {
                if !text[..start + at].ends_with("fn ") {
                    names.insert(word.to_owned());
                }
            }
        }
        start += line.len();
    }
    names
}

#[test]
fn what_a_conformance_adapter_calls_has_a_caller_in_the_product() {
    let root = workspace::root().unwrap();
    let mut product = Vec::new();
    PRODUCT
        .iter()
        .for_each(|folder| files(&root.join(folder), &mut product));
    let used: BTreeSet<String> = product.iter().flat_map(|path| used(&code(path))).collect();
    let mut adapters = Vec::new();
    files(&root.join("tests/src/conformance/adapters"), &mut adapters);
    let mut uncalled = BTreeSet::new();
    let mut calls = 0;
    for path in &adapters {
        for function in called(&code(path)) {
            calls += 1;
            if !used.contains(&function) {
                uncalled.insert(function);
            }
        }
    }
    assert!(calls > 40, "only {calls} calls were found: the search is broken");
    let waiting: BTreeSet<String> = WAITING.iter().map(|(name, _)| (*name).to_owned()).collect();
    let surprising: Vec<_> = uncalled.difference(&waiting).collect();
    assert!(surprising.is_empty(), "only adapters call {surprising:?}");
    let stale: Vec<_> = waiting.difference(&uncalled).collect();
    assert!(stale.is_empty(), "no longer waiting for a caller: {stale:?}");
}

#[test]
fn calls_are_told_from_other_words() {
    let adapter = "\nuse hub_core::naming;\nuse hub_core::divide::{self, Share};\nuse hub_core::estimate::resources;\n\
                   fn f() { naming::work_name(1); divide::dynamic::divide(2); resources(3); other(4); x.resources(5); \
                   hub_core::overrides::apply(6); Share::new(7) }";
    let expected = ["apply", "resources", "work_name"].map(str::to_owned);
    let found = called(adapter);
    assert!(expected.iter().all(|name| found.contains(name)), "{found:?}");
    assert!(!found.contains("other") && !found.contains("new"), "{found:?}");
    let product = used("use a::apply;\nfn work_name() { resources(1) }\n");
    assert!(product.contains("resources") && !product.contains("apply") && !product.contains("work_name"));
}
