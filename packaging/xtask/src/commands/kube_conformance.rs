//! `cargo xtask kube-conformance`: the official conformance suite of Kubernetes against a hub.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use xtask::kubectl::Kubectl;
use xtask::member::{Binary, Member};
use xtask::{go, process, workspace};

use super::fresh_hub;

/// The specs that pass on an API server without pods, one full name per line.
const SPECS: &str = include_str!("../../../../tests/kube-conformance/specs.txt");

/// Options of `kube-conformance`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run against this server instead of a fresh hub.
    #[arg(long, conflicts_with = "member")]
    kubeconfig: Option<PathBuf>,
    /// Run against the real API server of this member, to see that the list is right.
    #[arg(long)]
    member: Option<String>,
    /// Only specs of the list whose name holds this text; may be repeated.
    #[arg(long)]
    focus: Vec<String>,
    /// Also a spec outside the list, by its full name; may be repeated.
    #[arg(long)]
    spec: Vec<String>,
    /// Specs that run side by side.
    #[arg(long, default_value_t = 3)]
    procs: u32,
    /// Also write the results as JSON: {"passed":0,"failed":0,"specs":{"name":"passed"}}.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Builds the suite, starts a hub unless told otherwise, runs the specs and prints the results.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut wanted: Vec<&str> = SPECS
        .lines()
        .filter(|name| !name.is_empty())
        .filter(|name| args.focus.is_empty() || args.focus.iter().any(|text| name.contains(text)))
        .collect();
    wanted.extend(args.spec.iter().map(String::as_str));
    if wanted.is_empty() {
        bail!("no spec of the list holds any of these texts");
    }
    let suite = suite()?;
    let folder = workspace::target()?.join("kube-conformance");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let results = match (&args.kubeconfig, &args.member) {
        (Some(kubeconfig), _) => specs(&suite, &folder, kubeconfig, &wanted, args.procs)?,
        (None, Some(name)) => specs(
            &suite,
            &folder,
            &Member::running(name)?.kubeconfig(),
            &wanted,
            args.procs,
        )?,
        (None, None) => {
            let (hub, kubeconfig) = fresh_hub::start(&folder)?;
            let results = specs(&suite, &folder, &kubeconfig, &wanted, args.procs);
            hub.stop()?;
            results?
        }
    };
    report(&wanted, &results, args.json.as_deref(), &folder)
}

/// The built suite: the test binary and its runner.
struct Suite {
    test: PathBuf,
    runner: PathBuf,
}

fn suite() -> Result<Suite> {
    let module = workspace::root()?.join("tests/kube-conformance");
    let directory = go::built("kube-conformance", &module, "ginkgo", |directory| {
        eprintln!("building the conformance suite of Kubernetes: minutes, once");
        let go = |arguments: &[&str], output: &Path, package: &str| {
            process::run(
                Command::new("go")
                    .current_dir(&module)
                    .env("CGO_ENABLED", "0")
                    .args(arguments)
                    .args(["-trimpath", "-ldflags", "-s -w", "-o"])
                    .arg(output)
                    .arg(package),
            )
        };
        go(&["test", "-c", "-vet=off"], &directory.join("e2e.test"), ".")?;
        let unfinished = directory.join("ginkgo.unfinished");
        go(&["build"], &unfinished, "github.com/onsi/ginkgo/v2/ginkgo")?;
        // Put into place last: it says that all is there.
        std::fs::rename(&unfinished, directory.join("ginkgo"))
            .context("the runner cannot be put into its place")
    })?;
    Ok(Suite {
        test: directory.join("e2e.test"),
        runner: directory.join("ginkgo"),
    })
}

/// The suite refuses to start without a node on which a Pod could run.
const NODES: &str = r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Node","metadata":{"name":"conformance-1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}},
{"apiVersion":"v1","kind":"Node","metadata":{"name":"conformance-2"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}"#;

/// Runs the wanted specs; the state of each that ran, by its full name, with the failure's text.
fn specs(
    suite: &Suite,
    folder: &Path,
    kubeconfig: &Path,
    wanted: &[&str],
    procs: u32,
) -> Result<BTreeMap<String, Option<String>>> {
    let nodes = folder.join("nodes.json");
    std::fs::write(&nodes, NODES).with_context(|| format!("{} cannot be written", nodes.display()))?;
    let kubectl = Kubectl::new(kubeconfig, &folder.join("kubectl"));
    if kubectl.run(&["get", "nodes", "-o", "name"])?.trim().is_empty() {
        kubectl.run(&["create", "-f", &nodes.to_string_lossy()])?;
    }
    let names: Vec<String> = wanted.iter().map(|name| escaped(name)).collect();
    let log = folder.join("suite.log");
    let output = std::fs::File::create(&log).with_context(|| format!("{} cannot be made", log.display()))?;
    // The suite's exit code says whether any spec failed; the report says which, so it decides.
    Command::new(&suite.runner)
        .current_dir(folder)
        .arg(format!("--procs={procs}"))
        .arg(format!("--focus=({})$", names.join("|")))
        .args(["--no-color", "--json-report=report.json", "--output-dir=."])
        .arg(&suite.test)
        .args([
            "--",
            "-provider=skeleton",
            "-disable-log-dump",
            "-allowed-not-ready-nodes=-1",
        ])
        .arg("-minStartupPods=0")
        .arg(format!("-kubeconfig={}", kubeconfig.display()))
        .arg(format!("-kubectl-path={}", Binary::get()?.kubectl().display()))
        .arg(format!("-report-dir={}", folder.display()))
        .stdout(output.try_clone().context("the log cannot be opened twice")?)
        .stderr(output)
        .status()
        .context("the suite's runner cannot be started")?;
    let report = folder.join("report.json");
    let text = std::fs::read_to_string(&report)
        .with_context(|| format!("the suite wrote no report; see {}", log.display()))?;
    Ok(results(
        &serde_json::from_str(&text).context("the suite's report is no JSON")?,
    ))
}

/// A name as a pattern that matches nothing else.
fn escaped(name: &str) -> String {
    let mut pattern = String::new();
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$`".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// What ginkgo's JSON report says of each spec that ran: its full name, and the failure's text if it failed.
fn results(report: &Value) -> BTreeMap<String, Option<String>> {
    let mut results = BTreeMap::new();
    let suites = report.as_array().into_iter().flatten();
    for spec in suites.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten()) {
        if spec["LeafNodeType"] != "It" || spec["State"] == "skipped" || spec["State"] == "pending" {
            continue;
        }
        let mut words: Vec<&str> = spec["ContainerHierarchyTexts"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        words.extend(spec["LeafNodeText"].as_str());
        let failure = (spec["State"] != "passed").then(|| {
            spec["Failure"]["Message"]
                .as_str()
                .or(spec["State"].as_str())
                .unwrap_or("failed")
                .to_owned()
        });
        results.insert(words.join(" "), failure);
    }
    results
}

fn report(
    wanted: &[&str],
    results: &BTreeMap<String, Option<String>>,
    json: Option<&Path>,
    folder: &Path,
) -> Result<()> {
    let mut passed = 0_u32;
    let mut states = serde_json::Map::new();
    for name in wanted {
        let state = match results.get(*name) {
            Some(None) => {
                passed += 1;
                "passed"
            }
            Some(Some(failure)) => {
                let line = failure
                    .lines()
                    .find(|line| !line.trim().is_empty())
                    .unwrap_or_default();
                println!("FAILED {name}\n       {line}");
                "failed"
            }
            None => {
                println!("FAILED {name}\n       it did not run");
                "failed"
            }
        };
        states.insert((*name).to_owned(), json!(state));
    }
    let failed = u32::try_from(wanted.len())? - passed;
    if let Some(file) = json {
        let text = json!({"passed": passed, "failed": failed, "specs": states}).to_string();
        std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    println!("{passed} passed, {failed} failed, 0 skipped");
    if failed > 0 {
        bail!("{failed} specs failed; logs are in {}", folder.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_each_spec_once() {
        let mut names: Vec<&str> = SPECS.lines().filter(|name| !name.is_empty()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(all > 50 && names.iter().all(|name| name.starts_with("[sig-")));
    }

    #[test]
    fn a_name_matches_only_itself() {
        assert_eq!(escaped("[sig-node] a (b) c.d"), r"\[sig-node\] a \(b\) c\.d");
    }

    #[test]
    fn the_report_gives_the_state_and_the_reason_of_specs_that_ran() {
        let report = json!([{"SpecReports": [
            {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-a] B"], "LeafNodeText": "works", "State": "passed"},
            {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-a] B"], "LeafNodeText": "fails", "State": "failed",
             "Failure": {"Message": "expected 1, got 2"}},
            {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-a] B"], "LeafNodeText": "rests", "State": "skipped"},
            {"LeafNodeType": "BeforeSuite", "ContainerHierarchyTexts": null, "LeafNodeText": "", "State": "passed"},
        ]}]);
        let found = results(&report);
        assert_eq!(found.len(), 2);
        assert_eq!(found["[sig-a] B works"], None);
        assert_eq!(found["[sig-a] B fails"].as_deref(), Some("expected 1, got 2"));
    }
}
