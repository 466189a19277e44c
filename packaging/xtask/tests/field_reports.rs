//! The table of field reports: every entry is a test that exists and says what turns it red, or a reason; every test that is
//! named after a report is in the table.

// A test program: whatever cannot be read fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use xtask::workspace;

/// How many reports there are.
const REPORTS: u32 = 169;
/// Folders with tests.
const FOLDERS: &[&str] = &["hub", "agent", "shared", "tests"];
/// Lines above a test in which its sentence stands.
const ABOVE: usize = 10;

/// One entry of the table.
#[derive(Debug, PartialEq)]
enum Entry {
    /// File and function of each test.
    Tests(Vec<(String, String)>),
    /// Why it does not arise here.
    Absent(String),
}

/// Reads the table: sections, `key = value` lines with values as in JSON, comments.
fn read(text: &str) -> Result<BTreeMap<u32, Entry>, String> {
    let mut entries = BTreeMap::new();
    let mut open = None;
    let lines = text.lines().map(str::trim).enumerate();
    for (at, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let wrong = |what: &str| format!("line {}: {what}", at + 1);
        if let Some(head) = line.strip_prefix("[F").and_then(|head| head.strip_suffix(']')) {
            let number: u32 = head.parse().map_err(|_| wrong("no number"))?;
            if !(1..=REPORTS).contains(&number) || entries.contains_key(&number) {
                return Err(wrong("no such report, or twice"));
            }
            if let Some(number) = open.replace(number) {
                return Err(wrong(&format!("F{number} says nothing")));
            }
            continue;
        }
        let number = open.take().ok_or_else(|| wrong("a second line, or no section"))?;
        let (key, value) = line.split_once('=').ok_or_else(|| wrong("no key = value"))?;
        let value: serde_json::Value =
            serde_json::from_str(value.trim()).map_err(|e| wrong(&e.to_string()))?;
        let entry = match (key.trim(), &value) {
            ("absent", serde_json::Value::String(why)) if why.len() > 20 => Entry::Absent(why.clone()),
            ("tests", serde_json::Value::Array(tests)) if !tests.is_empty() => {
                let pair = |test: &serde_json::Value| {
                    let (file, function) = test.as_str()?.split_once(' ')?;
                    Some((file.to_owned(), function.to_owned()))
                };
                let pairs: Option<Vec<_>> = tests.iter().map(pair).collect();
                Entry::Tests(pairs.ok_or_else(|| wrong("a test is \"FILE FUNCTION\""))?)
            }
            _ => return Err(wrong("neither tests nor a reason")),
        };
        entries.insert(number, entry);
    }
    match open {
        Some(number) => Err(format!("F{number} says nothing")),
        None => Ok(entries),
    }
}

/// What is wrong with a test that the table names.
fn wrong_with(root: &Path, file: &str, function: &str) -> Option<String> {
    let Ok(text) = std::fs::read_to_string(root.join(file)) else {
        return Some(format!("{file} is not there"));
    };
    let lines: Vec<&str> = text.lines().collect();
    let head = format!("fn {function}(");
    let Some(at) = lines.iter().position(|line| line.contains(&head)) else {
        return Some(format!("{file} has no {function}"));
    };
    let above = lines[at.saturating_sub(ABOVE)..at].join(" ").to_lowercase();
    let says = ["red when", "red if", "red with"];
    (!says.iter().any(|words| above.contains(words)))
        .then(|| format!("{file} {function} does not say which change turns it red"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Names of tests that are named after reports, with the first number.
fn named(text: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for rest in text.split("fn field_report_").skip(1) {
        let name: String = rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        let number = name.split('_').next().and_then(|number| number.parse().ok());
        found.extend(number.map(|number| (number, format!("field_report_{name}"))));
    }
    found
}

#[test]
fn every_report_has_its_test_or_its_reason() {
    let root = workspace::root().unwrap();
    let table = read(&std::fs::read_to_string(root.join("tests/field-reports.toml")).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for (number, entry) in &table {
        if let Entry::Tests(tests) = entry {
            let trouble = tests
                .iter()
                .filter_map(|(file, function)| wrong_with(&root, file, function));
            wrong.extend(trouble.map(|what| format!("F{number}: {what}")));
        }
    }
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources(&root.join(folder), &mut files);
    }
    for file in files {
        for (number, name) in named(&std::fs::read_to_string(&file).unwrap()) {
            let listed = matches!(table.get(&number), Some(Entry::Tests(tests)) if tests.iter().any(|(_, known)| *known == name));
            if !listed {
                wrong.push(format!("F{number}: {name} is not in the table"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_table_that_says_nothing_is_refused() {
    let read = |text: &str| read(text);
    assert_eq!(
        read("# c\n[F1]\ntests = [\"a.rs b\"]\n[F2]\nabsent = \"there is no such thing here\"\n")
            .map(|all| all.len()),
        Ok(2)
    );
    for bad in [
        "[F1]\n",
        "[F1]\n[F2]\nabsent = \"there is no such thing here\"",
        "[F0]\nabsent = \"there is no such thing here\"",
        "[F170]\nabsent = \"there is no such thing here\"",
        "[F1]\nabsent = \"\"",
        "[F1]\ntests = []",
        "[F1]\ntests = [\"a.rs\"]",
        "[F1]\ntests = [\"a b\"]\n[F1]\ntests = [\"a b\"]",
        "tests = [\"a b\"]",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
    assert_eq!(named("async fn field_report_44_and_45_x() {")[0].0, 44);
    let root = workspace::root().unwrap();
    let file = "packaging/xtask/tests/field_reports.rs";
    assert!(wrong_with(&root, file, "named").unwrap().contains("does not say"));
    assert!(wrong_with(&root, file, "nothing_of_this_name").is_some());
    assert!(wrong_with(&root, "no.rs", "named").is_some());
}
