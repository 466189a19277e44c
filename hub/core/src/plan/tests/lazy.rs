//! Lazy activation: a policy's change waits for the object's next change.

use super::*;

fn lazy(name: &str, placement: Value, created: &str) -> Value {
    let mut policy = policy(name, placement);
    policy["spec"]["activationPreference"] = json!("Lazy");
    policy["metadata"]["creationTimestamp"] = json!(created);
    policy
}

/// Writes the note of the claim as the driver does.
fn noted(mut template: Value, plan: &TemplatePlan) -> Value {
    if let Some(note) = &plan.claim {
        note.write(&mut template);
    }
    template
}

#[test]
fn a_template_older_than_the_policy_waits_for_its_next_change() {
    let mut hub = Hub::with(&["m1"], vec![lazy("p", named(&["m1"]), "2026-02-01T00:00:00Z")]);
    let plan = hub.plan(&deployment("web", 2));
    assert_eq!(plan.works, []);
    assert_eq!(hub.binding, None);
    assert!(
        plan.notes
            .iter()
            .any(|note| note.reason == Reason::AwaitingChange)
    );
    let web = noted(deployment("web", 2), &plan);
    assert_eq!(
        web["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"],
        "id-p"
    );
    // again, also after a restart: still nothing, and nothing more to write
    let plan = hub.plan(&web);
    assert_eq!(plan.works, []);
    assert_eq!(noted(web.clone(), &plan), web);
    // the user changes it
    let mut changed = web;
    changed["spec"]["replicas"] = json!(3);
    let plan = hub.plan(&changed);
    assert_eq!(clusters_of(&plan), ["m1"]);
    let changed = noted(changed, &plan);
    assert!(changed["metadata"]["annotations"][LAZY_SINCE_ANNOTATION].is_null());
    // from then on it is bound like any other
    assert_eq!(clusters_of(&hub.plan(&changed)), ["m1"]);
}

#[test]
fn a_template_made_after_the_policy_is_placed_at_once() {
    let mut hub = Hub::with(&["m1"], vec![lazy("p", named(&["m1"]), "2025-12-31T00:00:00Z")]);
    assert_eq!(clusters_of(&hub.plan(&deployment("web", 2))), ["m1"]);
}

#[test]
fn a_change_of_the_policy_waits_and_clusters_are_kept_up_meanwhile() {
    let mut hub = Hub::with(
        &["m1", "m2"],
        vec![lazy("p", named(&["m1"]), "2025-12-31T00:00:00Z")],
    );
    hub.plan(&deployment("web", 2));
    hub.policies[0]["spec"]["placement"] = named(&["m2"]);
    hub.policies[0]["spec"]["conflictResolution"] = json!("Overwrite");
    let plan = hub.plan(&deployment("web", 2));
    assert_eq!(
        (clusters_of(&plan), plan.withdraw.len()),
        (vec!["m1".to_owned()], 0)
    );
    assert_eq!(plan.works[0].entry.conflict_resolution, ConflictResolution::Abort);
    assert_eq!(plan.binding, BindingChange::Keep, "the binding stays as it is");
    let plan = hub.plan(&deployment("web", 3));
    assert_eq!(
        (clusters_of(&plan), plan.withdraw.len()),
        (vec!["m2".to_owned()], 1)
    );
    assert_eq!(
        plan.works[0].entry.conflict_resolution,
        ConflictResolution::Overwrite
    );
}
