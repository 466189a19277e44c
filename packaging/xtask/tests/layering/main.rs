//! Layering: which part may know what. The rules are those of ARCHITECTURE.md; a rule that only people remember is
//! broken within a month.

// A test program: whatever cannot be read fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod adapters;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use source::Source;
use xtask::{process, workspace};

/// Crates without clock, environment, randomness, files, sockets; with the directory of their sources.
const PURE: &[(&str, &str)] = &[
    ("shared", "shared/src"),
    ("interpreter", "shared/interpreter/src"),
    ("hub-core", "hub/core/src"),
    ("agent-core", "agent/core/src"),
];

/// Crates that belong to shells: a pure crate reaches none of them, however indirectly.
const SHELL_CRATES: &[&str] = &[
    "tokio",
    "kube",
    "rusqlite",
    "axum",
    "hyper",
    "rumqttc",
    "rumqttd",
    "rustls",
    "tracing-subscriber",
];

/// What a pure crate does not name outside its tests.
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::process",
    "std::thread",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "std::os",
    "Instant::now",
    "SystemTime::now",
    "SystemRandom",
    "UNIX_EPOCH",
    "thread_rng",
    "OsRng",
    "getrandom",
    "println!",
    "eprintln!",
];

/// Exceptions from [`IMPURE`], with the reason. Scripts of customizations run on threads of their own, so that a
/// stuck one costs that script and not the hub (design, section 3).
const EXCEPTIONS: &[(&str, &str)] = &[("shared/interpreter/src/lua", "std::thread")];

/// Words that only SQL statements begin with.
const SQL: &[&str] = &[
    "SELECT ",
    "INSERT ",
    "UPDATE ",
    "DELETE FROM",
    "CREATE TABLE",
    "CREATE INDEX",
    "CREATE UNIQUE",
    "ALTER TABLE",
    "DROP TABLE",
    "PRAGMA ",
    "BEGIN IMMEDIATE",
    "VACUUM",
];

/// The only places with SQL.
const SQL_PLACES: &[&str] = &["hub/src/store", "agent/src/ledger"];

/// The only places that know MQTT.
const MQTT_PLACES: &[&str] = &["hub/src/link", "hub/src/gateway", "hub/src/bus", "agent/src/link"];

fn root() -> PathBuf {
    workspace::root().unwrap()
}

fn sources(under: &str) -> Vec<Source> {
    let directory = root().join(under);
    let mut files = Vec::new();
    collect(&directory, &mut files);
    assert!(!files.is_empty(), "{under} has no sources: was it moved?");
    source::read(&root(), &files)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Whether `file` is `place`, is in it, or is named after it (`link.rs`, `link_websocket.rs`).
fn belongs(file: &str, places: &[&str]) -> bool {
    places.iter().any(|place| file.starts_with(place))
}

fn metadata() -> Value {
    // For this platform only: what others would need has not been fetched.
    let version = process::output(Command::new("rustc").current_dir(root()).arg("-vV")).unwrap();
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap();
    let text = process::output(
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(root())
            .args([
                "metadata",
                "--format-version=1",
                "--locked",
                "--filter-platform",
                host,
            ]),
    )
    .unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn pure_crates_reach_no_shell_crate() {
    let metadata = metadata();
    let mut name = BTreeMap::new();
    let mut needs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        name.insert(package["id"].as_str().unwrap(), package["name"].as_str().unwrap());
    }
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let normal = node["deps"].as_array().unwrap().iter().filter(|dependency| {
            dependency["dep_kinds"]
                .as_array()
                .unwrap()
                .iter()
                .any(|kind| kind["kind"].is_null())
        });
        needs.insert(
            node["id"].as_str().unwrap(),
            normal.map(|d| d["pkg"].as_str().unwrap()).collect(),
        );
    }
    let mut wrong = Vec::new();
    for (pure, _) in PURE {
        let start = *name.iter().find(|(_, known)| *known == pure).unwrap().0;
        let mut seen = BTreeSet::from([start]);
        let mut open = vec![(start, (*pure).to_owned())];
        while let Some((id, path)) = open.pop() {
            if SHELL_CRATES.contains(&name[id]) {
                wrong.push(path.clone());
            }
            for next in &needs[id] {
                if seen.insert(next) {
                    open.push((next, format!("{path} -> {}", name[next])));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "pure crates that need shell crates:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn only_shells_and_tests_depend_on_shells() {
    let metadata = metadata();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let is_member = metadata["workspace_members"]
            .as_array()
            .unwrap()
            .contains(&package["id"]);
        if !is_member || name == "tests" {
            continue;
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let needs = dependency["name"].as_str().unwrap();
            // Hub and agent meet on the wire only; whatever both need is in `shared`.
            let forbidden = match name {
                "hub" => &["agent", "agent-core"][..],
                "agent" => &["hub", "hub-core"],
                "hub-core" => &["hub", "agent", "agent-core"],
                "agent-core" => &["agent", "hub", "hub-core"],
                "shared" => &["hub", "hub-core", "agent", "agent-core", "interpreter"],
                "interpreter" => &["hub", "hub-core", "agent", "agent-core"],
                _ => &[],
            };
            if forbidden.contains(&needs) && dependency["kind"].is_null() {
                wrong.push(format!("{name} -> {needs}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "dependencies against the layering:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn pure_sources_read_no_clock_environment_or_randomness() {
    let mut wrong = Vec::new();
    for (_, directory) in PURE {
        for source in sources(directory) {
            for name in source.names(IMPURE) {
                let excepted = EXCEPTIONS
                    .iter()
                    .any(|(place, what)| source.file.starts_with(place) && *what == name.1);
                if !excepted {
                    wrong.push(format!("{}:{}: {}", source.file, name.0, name.1));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "clock, environment, randomness, files or sockets in a pure crate:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn sql_is_written_only_in_store_and_ledger() {
    let mut wrong = Vec::new();
    for directory in [
        "hub/src",
        "hub/core/src",
        "agent/src",
        "agent/core/src",
        "shared/src",
        "shared/interpreter/src",
    ] {
        for source in sources(directory)
            .iter()
            .filter(|source| !belongs(&source.file, SQL_PLACES))
        {
            for (line, text) in &source.strings {
                if SQL.iter().any(|word| text.trim_start().starts_with(word)) {
                    wrong.push(format!("{}:{line}: {text:?}", source.file));
                }
            }
            wrong.extend(
                source
                    .names(&["rusqlite"])
                    .iter()
                    .map(|(line, _)| format!("{}:{line}: rusqlite", source.file)),
            );
        }
    }
    assert!(
        wrong.is_empty(),
        "SQL outside {SQL_PLACES:?}:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn mqtt_is_known_only_to_the_links() {
    let mut wrong = Vec::new();
    for directory in ["hub/src", "agent/src"] {
        for source in sources(directory)
            .iter()
            .filter(|source| !belongs(&source.file, MQTT_PLACES))
        {
            for name in source.names(&["rumqttc", "rumqttd", "mqttbytes"]) {
                wrong.push(format!("{}:{}: {}", source.file, name.0, name.1));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "MQTT outside {MQTT_PLACES:?}:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_reason_is_explained_to_users() {
    let file = root().join("shared/src/reason.rs");
    let text = std::fs::read_to_string(&file).unwrap();
    let (_, list) = text
        .split_once("\nreasons! {")
        .expect("the list of reasons begins with `reasons! {`");
    let (list, _) = list
        .split_once("\n}")
        .expect("the list of reasons ends with a brace in the first column");
    let codes: BTreeSet<&str> = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//") && !line.starts_with('#'))
        .filter_map(|line| line.strip_suffix(',')?.split_whitespace().next())
        .collect();
    assert!(
        codes.len() > 10,
        "the list of reasons was not understood: {codes:?}"
    );
    let page = std::fs::read_to_string(root().join("docs/reasons.md")).unwrap();
    let explained: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let missing: Vec<_> = codes.difference(&explained).collect();
    let unknown: Vec<_> = explained.difference(&codes).collect();
    assert!(
        missing.is_empty(),
        "reasons without a line in docs/reasons.md: {missing:?}"
    );
    assert!(
        unknown.is_empty(),
        "lines in docs/reasons.md for no reason: {unknown:?}"
    );
}

#[test]
fn wire_vectors_are_only_added() {
    let git = |arguments: &[&str]| process::output(Command::new("git").current_dir(root()).args(arguments));
    let Some(main) = ["origin/main", "main"]
        .into_iter()
        .find(|name| git(&["rev-parse", "--verify", name]).is_ok())
    else {
        println!("no branch main here: vectors are not compared");
        return;
    };
    let base = git(&["merge-base", main, "HEAD"]).unwrap();
    let changed = git(&[
        "diff",
        "--name-status",
        "--no-renames",
        "--diff-filter=a",
        base.trim(),
        "--",
        "tests/vectors",
    ])
    .unwrap();
    assert!(
        changed.is_empty(),
        "frozen wire vectors were changed or removed:\n{changed}"
    );
}
