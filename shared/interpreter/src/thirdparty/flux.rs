//! Flux: sources, Kustomizations, Helm releases.

use serde_json::{Map, Value};

use super::general::{condition_with_reason, dependencies, keep, pick_with_generations, references};
use super::merge::{self, merged_conditions, own, put_last, put_observed_generation};
use super::{NONE, Read, Rules};
use crate::fields::list;
use crate::native::{Names, add_name};
use crate::types::reported;
use crate::{Dependency, MemberItem};

const SUSPEND: &[&str] = &["spec.suspend"];
const COUNTERS: &[&str] = &["failures", "upgradeFailures", "installFailures"];

pub(super) static HELM_RELEASE: Rules = Rules {
    retain: Some(|desired, observed| keep(desired, observed, SUSPEND)),
    health: Some(|object| condition_with_reason(object, "Ready", &["ReconciliationSucceeded"])),
    aggregate: Some(|template, items, _| release(template, items)),
    reflect: Some(|object| pick_with_generations(object, &[RELEASED, COUNTERS, OF_ALL].concat())),
    dependencies: Some(release_needs),
    ..NONE
};

pub(super) static KUSTOMIZATION: Rules = Rules {
    retain: Some(|desired, observed| keep(desired, observed, SUSPEND)),
    health: Some(|object| condition_with_reason(object, "Ready", &["ReconciliationSucceeded"])),
    aggregate: Some(|template, items, _| merged(template, items, &APPLIED, true)),
    reflect: Some(|object| pick_with_generations(object, &[&APPLIED[..], OF_ALL].concat())),
    dependencies: Some(|template| {
        references(
            template,
            &[
                ("Secret", "spec.decryption.secretRef.name"),
                ("Secret", "spec.kubeConfig.secretRef.name"),
                ("ServiceAccount", "spec.serviceAccountName"),
            ],
        )
    }),
    ..NONE
};

pub(super) static GIT_REPOSITORY: Rules = Rules {
    aggregate: Some(|template, items, _| {
        merged(template, items, &["artifact", "lastHandledReconcileAt"], false)
    }),
    reflect: Some(|object| {
        let more = [
            "observedIgnore",
            "observedInclude",
            "observedRecurseSubmodules",
            "includedArtifacts",
            "lastHandledReconcileAt",
        ];
        pick_with_generations(object, &[&["artifact"], OF_ALL, &more].concat())
    }),
    dependencies: Some(|template| references(template, &[SECRET, VERIFY])),
    ..SOURCE
};

pub(super) static BUCKET: Rules = Rules {
    aggregate: Some(|template, items, _| merged(template, items, &["artifact", "url"], false)),
    reflect: Some(|object| {
        pick_with_generations(object, &[&["artifact", "url", "observedIgnore"], OF_ALL].concat())
    }),
    dependencies: Some(|template| references(template, &[SECRET])),
    ..SOURCE
};

pub(super) static HELM_CHART: Rules = Rules {
    health: Some(|object| condition_with_reason(object, "Ready", &["Succeeded", "ChartPullSucceeded"])),
    aggregate: Some(|template, items, _| merged(template, items, &CHART, false)),
    reflect: Some(|object| pick_with_generations(object, &[&CHART[..], OF_ALL].concat())),
    dependencies: Some(|template| references(template, &[VERIFY])),
    ..SOURCE
};

pub(super) static HELM_REPOSITORY: Rules = Rules {
    aggregate: Some(|template, items, _| merged(template, items, &["artifact", "url"], false)),
    reflect: Some(|object| pick_with_generations(object, &[&["artifact", "url"], OF_ALL].concat())),
    dependencies: Some(|template| references(template, &[SECRET])),
    ..SOURCE
};

pub(super) static OCI_REPOSITORY: Rules = Rules {
    aggregate: Some(|template, items, _| {
        merged(
            template,
            items,
            &["artifact", "url", "lastHandledReconcileAt"],
            false,
        )
    }),
    reflect: Some(|object| {
        let more = [
            "artifact",
            "url",
            "observedIgnore",
            "observedLayerSelector",
            "lastHandledReconcileAt",
        ];
        pick_with_generations(object, &[&more, OF_ALL].concat())
    }),
    dependencies: Some(|template| {
        references(
            template,
            &[
                SECRET,
                VERIFY,
                ("Secret", "spec.certSecretRef.name"),
                ("ServiceAccount", "spec.serviceAccountName"),
            ],
        )
    }),
    ..SOURCE
};

/// What all sources have in common.
const SOURCE: Rules = Rules {
    retain: Some(|desired, observed| keep(desired, observed, SUSPEND)),
    health: Some(|object| condition_with_reason(object, "Ready", &["Succeeded"])),
    ..NONE
};

const OF_ALL: &[&str] = &["conditions", "observedGeneration"];
const APPLIED: [&str; 2] = ["lastAttemptedRevision", "lastAppliedRevision"];
const CHART: [&str; 4] = [
    "artifact",
    "observedChartName",
    "observedSourceArtifactRevision",
    "url",
];
const RELEASED: &[&str] = &[
    "lastAttemptedRevision",
    "lastAppliedRevision",
    "lastAttemptedValuesChecksum",
    "helmChart",
    "lastReleaseRevision",
];
const SECRET: (&str, &str) = ("Secret", "spec.secretRef.name");
const VERIFY: (&str, &str) = ("Secret", "spec.verify.secretRef.name");

/// Merged conditions, the last member's values of `names`, and whether all have caught up. `keeps`: values that no
/// member gives stay as they are.
fn merged(
    template: &Value,
    items: Option<&[MemberItem]>,
    names: &[&str],
    keeps: bool,
) -> Read<Option<Value>> {
    let mut status = own(template)?;
    if items.is_none() || !keeps {
        for name in names {
            status.remove(*name);
        }
    }
    let items = items.unwrap_or_default();
    put_last(&mut status, items, names)?;
    status.insert("conditions".to_owned(), merged_conditions(items)?.into());
    put_observed_generation(&mut status, template, items)?;
    Ok(Some(status.into()))
}

/// The failures of a release are those of its members. The reference adds them to what the template has already, so
/// that they grow with every pass, or are lost where it has none.
fn release(template: &Value, items: Option<&[MemberItem]>) -> Read<Option<Value>> {
    let mut status = match merged(template, items, RELEASED, true)? {
        Some(Value::Object(status)) => status,
        _ => Map::new(),
    };
    for counter in COUNTERS {
        let known = items.is_some_and(|items| {
            reported(items).any(|(_, member)| member.get(counter).is_some_and(Value::is_number))
        });
        if items.is_none() || known {
            status.insert(
                (*counter).to_owned(),
                merge::sum(items.unwrap_or_default(), counter)?.into(),
            );
        }
    }
    Ok(Some(status.into()))
}

fn release_needs(template: &Value) -> Read<Vec<Dependency>> {
    let mut names = Names::new();
    for values in list(template, "spec.valuesFrom")? {
        match values["kind"].as_str() {
            Some("Secret") => add_name(&mut names, "Secret", values, "name")?,
            Some("ConfigMap") => add_name(&mut names, "ConfigMap", values, "name")?,
            _ => {}
        }
    }
    add_name(
        &mut names,
        "Secret",
        template,
        "spec.chart.spec.verify.secretRef.name",
    )?;
    add_name(&mut names, "Secret", template, "spec.kubeConfig.secretRef.name")?;
    add_name(&mut names, "ServiceAccount", template, "spec.serviceAccountName")?;
    dependencies(template, names)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures_of_a_release_do_not_grow_by_being_looked_at() {
        let items = [MemberItem {
            cluster: "m".to_owned(),
            status: Some(json!({"failures": 2})),
            silent: false,
        }];
        let mut template = json!({"metadata": {"generation": 1}});
        for _ in 0..3 {
            let status = release(&template, Some(&items))
                .expect("readable")
                .expect("a status");
            assert_eq!(status["failures"], 2);
            template["status"] = status;
        }
    }

    #[test]
    fn a_repository_without_an_account_needs_none() {
        let template = json!({"metadata": {"namespace": "demo"}, "spec": {"secretRef": {"name": "s"}}});
        let needs = OCI_REPOSITORY.get_dependencies(&template).expect("readable");
        assert_eq!(needs.len(), 1);
    }
}
