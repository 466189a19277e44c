//! `cargo xtask kube-cases`: the differential cases against the hub, or recorded anew from a member.

use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tests::kube::{Server, files, record, replay};

/// Differences printed in full.
const PRINTED: usize = 200;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["record", kubeconfig, filter @ ..] => {
            let config = Kubeconfig::read_from(kubeconfig).context("the kubeconfig")?;
            let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
            let server = Server::Real(kube::Client::try_from(config)?);
            for mut file in files(filter.first().copied().unwrap_or_default())? {
                record(&server, &mut file)
                    .await
                    .with_context(|| file.stem.clone())?;
                file.save()?;
                println!("{}: {} cases recorded", file.stem, file.cases.len());
            }
            Ok(())
        }
        ["replay", filter @ ..] => {
            let folder = tempfile::tempdir()?;
            let server = Server::hub(folder.path()).await?;
            let files = files(filter.first().copied().unwrap_or_default())?;
            let (cases, differences) = replay(&server, &files).await?;
            for difference in differences.iter().take(PRINTED) {
                println!("== {} (step {})", difference.case, difference.step);
                if difference.expected.code != difference.found.code {
                    println!(
                        "  code: {} is {}",
                        difference.expected.code, difference.found.code
                    );
                }
                if difference.expected.warnings != difference.found.warnings {
                    let (expected, found) = (&difference.expected.warnings, &difference.found.warnings);
                    println!("  warnings: {expected:?} are {found:?}");
                }
                print_difference("", &difference.expected.body, &difference.found.body);
            }
            println!("{cases} cases, {} differ", differences.len());
            if !differences.is_empty() {
                bail!("the hub differs from the real API server");
            }
            Ok(())
        }
        _ => bail!("usage: kube record KUBECONFIG [FILE] | kube replay [FILE]"),
    }
}

fn print_difference(path: &str, expected: &Value, found: &Value) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                match b.get(key) {
                    Some(other) => print_difference(&format!("{path}/{key}"), value, other),
                    None => println!("  {path}/{key}: missing, should be {value}"),
                }
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                println!("  {path}/{key}: should be missing, is {value}");
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                print_difference(&format!("{path}/{at}"), a, b);
            }
        }
        (a, b) if a != b => println!("  {path}: should be {a}\n  {path}:        is {b}"),
        _ => {}
    }
}
