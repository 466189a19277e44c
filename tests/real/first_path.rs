//! The first whole path on real parts: kubectl on the hub becomes running Pods in real members, and back.
//!
//! One fleet serves all scenarios, in order. Names, namespaces and counts are random per run (the seed is printed);
//! the truth is read with kubectl from the members.

mod scenarios;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use scenarios::World;
use tests::real::fleet::Fleet;

type Scenario = fn(&mut World) -> Result<()>;

/// In order: a later one builds on what an earlier one left.
const SCENARIOS: &[(&str, Scenario)] = &[
    (
        "one_file_over_three_members",
        scenarios::apply::one_file_over_three_members,
    ),
    (
        "edits_move_only_what_they_name",
        scenarios::edit::edits_move_only_what_they_name,
    ),
    (
        "a_cut_member_lives_and_catches_up",
        scenarios::cut::a_cut_member_lives_and_catches_up,
    ),
    (
        "a_foreign_object_is_named_and_untouched",
        scenarios::conflict::a_foreign_object_is_named_and_untouched,
    ),
    (
        "a_script_reads_a_kind_without_a_rule",
        scenarios::scripts::a_script_reads_a_kind_without_a_rule,
    ),
    (
        "field_report_46_47_53_and_59_made_and_deleted_at_once_leaves_nothing",
        scenarios::reports::field_report_46_47_53_and_59_made_and_deleted_at_once_leaves_nothing,
    ),
    (
        "field_report_49_and_140_what_is_deleted_while_nobody_acts_goes",
        scenarios::reports::field_report_49_and_140_what_is_deleted_while_nobody_acts_goes,
    ),
    (
        "field_report_52_what_the_hub_collects_goes_in_members_too",
        scenarios::reports::field_report_52_what_the_hub_collects_goes_in_members_too,
    ),
    (
        "field_report_136_137_138_and_141_losing_contact_deletes_nothing",
        scenarios::reports::field_report_136_137_138_and_141_losing_contact_deletes_nothing,
    ),
    (
        "a_held_deletion_is_shown_though_its_template_is_gone",
        scenarios::reports::a_held_deletion_is_shown_though_its_template_is_gone,
    ),
    ("kills_lose_nothing", scenarios::crash::kills_lose_nothing),
    (
        "a_restored_hub_touches_nothing",
        scenarios::restore::a_restored_hub_touches_nothing,
    ),
];

fn main() -> ExitCode {
    let filter: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if std::env::args().any(|argument| argument == "--list") {
        for (name, _) in SCENARIOS {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<_> = SCENARIOS
        .iter()
        .filter(|(name, _)| filter.is_empty() || filter.iter().any(|part| name.contains(part.as_str())))
        .collect();
    if chosen.is_empty() {
        println!(
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; {} filtered out",
            SCENARIOS.len()
        );
        return ExitCode::SUCCESS;
    }
    let folder = scratch_folder();
    let started = Instant::now();
    let fleet = match Fleet::up(&folder, 3) {
        Ok(fleet) => fleet,
        Err(error) => {
            println!("the fleet did not come up: {error:?}\nlogs: {}", folder.display());
            println!(
                "test result: FAILED. 0 passed; {} failed; 0 ignored",
                chosen.len()
            );
            return ExitCode::FAILURE;
        }
    };
    println!(
        "hub and three members with agents are up after {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let mut world = World::new(fleet);
    let (mut passed, mut failed) = (0, 0);
    for (name, scenario) in chosen {
        let started = Instant::now();
        let outcome = world.recover().and_then(|()| scenario(&mut world));
        let seconds = started.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok ({seconds:.1} s)");
            }
            Err(error) => {
                failed += 1;
                println!("test {name} ... FAILED ({seconds:.1} s)\n{error:?}");
            }
        }
    }
    drop(world);
    if failed == 0 {
        // Nothing is left behind but the logs of a failure.
        let _ = std::fs::remove_dir_all(&folder);
    } else {
        println!("logs and data: {}", folder.display());
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A folder of this run below the build's folder.
fn scratch_folder() -> std::path::PathBuf {
    let base = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.ancestors().nth(3).map(std::path::Path::to_path_buf))
        .unwrap_or_else(std::env::temp_dir);
    base.join("first-path").join(std::process::id().to_string())
}
