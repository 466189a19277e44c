//! `machine`: the agent as it is installed, on machines that boot systemd and on nodes with a real kubelet. Slow, so only
//! `cargo xtask test --all` runs it; needs root.

mod bed;
mod node;
mod systemd;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

const USAGE: &str =
    "usage: machine [PART...]   runs the stories whose name has one of the parts; all without one";

/// A story: gets a folder of its own.
type Story = fn(&Path) -> Result<()>;

const STORIES: &[(&str, Story)] = &[
    ("systemd", systemd::the_unit_lives_as_on_a_machine_of_a_user),
    ("deployment", node::the_deployment_runs_in_pods),
    ("daemonset", node::the_daemon_set_runs_in_pods),
];

fn main() -> ExitCode {
    let parts: Vec<String> = std::env::args().skip(1).collect();
    if parts.iter().any(|part| part == "--help" || part == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed) = (0, 0);
    let chosen = STORIES
        .iter()
        .filter(|(name, _)| parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str())));
    for (name, story) in chosen {
        let begun = Instant::now();
        let folder = std::env::temp_dir().join(format!("pinnace-machine-{name}-{}", std::process::id()));
        let told = std::fs::create_dir_all(&folder)
            .map_err(Into::into)
            .and_then(|()| story(&folder));
        let seconds = begun.elapsed().as_secs_f64();
        match told {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok ({seconds:.1} s)");
                // Only logs of failures are kept.
                let _ = std::fs::remove_dir_all(&folder);
            }
            Err(error) => {
                failed += 1;
                println!(
                    "test {name} ... FAILED ({seconds:.1} s)\n{error:?}\nlogs: {}",
                    folder.display()
                );
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
