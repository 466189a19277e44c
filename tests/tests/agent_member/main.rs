//! The agent against a real member, without any hub: sets are put into its ledger as a hub's would be, and it
//! reconciles them at boot from there. One member serves all stories.

mod bench;
mod boot;
mod carry;
mod clock;
mod commands;
mod disk;
mod drift;
mod failures;
mod reports;
mod takeover;

use anyhow::{Context, Result};
use bench::Bench;

/// One story and its name.
type Story = (&'static str, fn(&mut Bench) -> Result<()>);

const STORIES: &[Story] = &[
    ("created in order", boot::created_in_order),
    ("drift is repaired", boot::drift_is_repaired),
    ("foreign objects stay", boot::foreign_objects_stay),
    (
        "tombstones delete only our own",
        boot::tombstones_delete_only_our_own,
    ),
    ("crashes settle", boot::crashes_settle),
    (
        "foreign content holds a namespace",
        boot::foreign_content_holds_a_namespace,
    ),
    (
        "F95, F93: an object of a tool is taken over",
        takeover::an_object_of_a_tool_is_taken_over,
    ),
    (
        "restored etcd",
        takeover::an_object_with_our_marks_and_another_uid_is_adopted,
    ),
    (
        "F24: replicas under an autoscaler stay",
        takeover::replicas_under_an_autoscaler_stay,
    ),
    (
        "F29: a status without subresource stays",
        takeover::a_status_without_subresource_stays,
    ),
    (
        "F38: a finished Job runs once",
        takeover::a_finished_job_runs_once,
    ),
    (
        "F32, F94: what the API server normalises is no drift",
        drift::what_the_api_server_normalises_is_no_drift,
    ),
    (
        "F96: a renumbered port is set right",
        drift::a_renumbered_port_is_set_right,
    ),
    (
        "F36: what others added stays",
        drift::what_others_added_stays_and_what_we_gave_up_goes,
    ),
    (
        "field_report_25_and_27_equal_names_do_not_meet",
        reports::field_report_25_and_27_equal_names_do_not_meet,
    ),
    (
        "field_report_26_what_the_member_adds_to_a_service_account_stays",
        reports::field_report_26_what_the_member_adds_to_a_service_account_stays,
    ),
    (
        "field_report_50_and_60_a_late_delete_spares_the_successor",
        reports::field_report_50_and_60_a_late_delete_spares_the_successor,
    ),
    (
        "field_report_55_what_an_unfinished_set_made_is_not_forgotten",
        reports::field_report_55_what_an_unfinished_set_made_is_not_forgotten,
    ),
    (
        "field_report_62_a_slow_deletion_delays_nobody",
        reports::field_report_62_a_slow_deletion_delays_nobody,
    ),
    (
        "field_report_63_a_deleted_job_leaves_no_pods",
        reports::field_report_63_a_deleted_job_leaves_no_pods,
    ),
    (
        "field_report_64_another_owner_does_not_keep_what_was_ordered_away",
        reports::field_report_64_another_owner_does_not_keep_what_was_ordered_away,
    ),
    (
        "field_report_143_ten_starts_change_and_gather_nothing",
        reports::field_report_143_ten_starts_change_and_gather_nothing,
    ),
    ("quota", failures::a_used_up_quota_is_named_and_delays_nobody),
    ("admission", failures::a_denial_is_named_with_its_policy),
    ("API absent", failures::an_absent_api_is_waited_for),
    ("RBAC", failures::a_missing_right_is_named),
    ("guard", failures::what_the_guard_forbids_is_not_tried),
    (
        "immutable",
        failures::an_immutable_field_waits_for_leave_to_recreate,
    ),
    ("fight", failures::a_fight_is_backed_off_and_the_other_named),
    (
        "F28: a namespace deleted in the member",
        failures::a_namespace_deleted_in_the_member_comes_back_with_its_objects,
    ),
    (
        "terminating namespace",
        failures::a_terminating_namespace_is_waited_for,
    ),
    (
        "F67: a terminating object",
        failures::a_terminating_object_is_left_alone,
    ),
    (
        "CRD with foreign content",
        failures::a_definition_with_foreign_content_is_held,
    ),
    ("API down", failures::a_member_that_was_away_is_caught_up_with),
    ("clock", clock::a_clock_years_off_changes_nothing),
    ("disk full", disk::a_full_disk_delays_creates_alone),
    ("torn ledger", disk::a_torn_ledger_loses_no_object),
    ("damaged ledger", disk::a_damaged_ledger_is_set_aside),
    ("doctor", commands::doctor_finds_what_is_wrong),
    (
        "sets in files",
        carry::a_set_from_a_file_is_taken_as_from_the_wire,
    ),
    ("another cluster", boot::another_cluster_is_left_alone),
    ("rebind", commands::rebind_accepts_another_cluster),
    ("leave", commands::leave_keeps_the_workloads),
    (
        "docs/agent.md",
        commands::the_page_about_the_agent_works_as_written,
    ),
];

#[test]
fn keeps_a_member_without_any_hub() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut bench = Bench::up(folder.path()).expect("a member");
    let mut failed = Vec::new();
    // While one works on a story: PINNACE_STORY=PART runs those whose name has the part.
    let part = std::env::var("PINNACE_STORY").unwrap_or_default();
    for (name, story) in STORIES.iter().filter(|(name, _)| name.contains(&part)) {
        let begun = std::time::Instant::now();
        match story(&mut bench).context(*name) {
            Ok(()) => println!("{name}: {} ms", begun.elapsed().as_millis()),
            Err(e) => {
                let log = std::fs::read_to_string(&bench.log).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(40).collect();
                println!(
                    "{name}: FAILED: {e:?}\nagent log, newest first:\n{}",
                    tail.join("\n")
                );
                failed.push(*name);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
