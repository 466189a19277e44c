//! The commands that the pages for users show are run as they stand there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use xtask::member::{Binary, Member};
use xtask::process;

/// What stands before the blocks of a page: stop at the first error, and leave no process behind.
const BEFORE: &str = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n";

/// All `sh` blocks of a page, in order, as one script.
fn script_of(page: &str) -> String {
    let mut script = String::from(BEFORE);
    let mut inside = false;
    for line in page.lines() {
        match (inside, line) {
            (false, "```sh") => inside = true,
            (true, "```") => inside = false,
            (true, line) => {
                script.push_str(line);
                script.push('\n');
            }
            (false, _) => {}
        }
    }
    script
}

/// Root of the checkout.
fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here
        .parent()
        .context("the crate lies in the checkout")?
        .to_path_buf())
}

/// Runs the blocks of a page in a fresh folder under `target`, which the page itself makes and enters.
fn run(page: &str, folder: &str) -> Result<(String, String)> {
    let root = root()?;
    let text = std::fs::read_to_string(root.join("docs").join(page))?;
    let folder = root.join("target").join(folder);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let kubectl = Binary::get()?.kubectl();
    let tools = kubectl.parent().context("kubectl lies in a folder")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let programs = root.join("target/debug");
    let mut shell = Command::new("bash");
    let output = process::outside_cargo(&mut shell)
        .arg("-c")
        .arg(script_of(&text))
        .current_dir(&root)
        .env(
            "PATH",
            format!("{}:{}:{path}", programs.display(), tools.display()),
        )
        .stdin(Stdio::null())
        .output()?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    ensure!(output.status.success(), "{}\n{out}\n{err}", output.status);
    std::fs::remove_dir_all(&folder)?;
    Ok((out, err))
}

#[test]
fn operating_works_as_written() -> Result<()> {
    let mut cargo = Command::new("cargo");
    let built = process::outside_cargo(&mut cargo)
        .args(["build", "--workspace", "--bins"])
        .current_dir(root()?)
        .status()?;
    ensure!(built.success(), "the programs are built");
    let (out, err) = run("operating.md", "operating")?;
    ensure!(
        out.contains("nothing is wrong"),
        "no diagnosis was seen:\n{out}\n{err}"
    );
    ensure!(
        err.contains("was taken back"),
        "the revoked user was not refused:\n{out}\n{err}"
    );
    Ok(())
}

#[test]
fn getting_started_works_as_written() -> Result<()> {
    let ran = run("getting-started.md", "first-steps");
    // Also when a block failed, its member does not stay.
    if let Some(member) = Member::find("shop-1")? {
        member.down()?;
    }
    let (out, err) = ran?;
    ensure!(
        out.contains("successfully rolled out"),
        "no rollout was seen:\n{out}\n{err}"
    );
    Ok(())
}
