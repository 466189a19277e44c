//! `overrides/*`: stage 7, `hub_core::overrides`.

use hub_core::cluster::Cluster;
use hub_core::matching::Subject;
use hub_core::overrides::image::Image;
use hub_core::policy::{AnyOverridePolicy, ImageComponent, OverrideOperator};
use serde_json::{Value, json};

use super::super::{Answer, Case};
use super::compact::{cluster, string_map};

pub(super) fn answer(case: &Case) -> Answer {
    match case.op.as_str() {
        "imageParse" => image_parse(&case.input),
        "image" => image(&case.input),
        "override" => override_object(&case.input),
        _ => Answer::Unsupported,
    }
}

fn image_parse(input: &Value) -> Answer {
    match Image::parse(input["image"].as_str().unwrap_or_default()) {
        Ok(image) => Answer::Result(json!({
            "registry": image.registry,
            "repository": image.repository,
            "tag": image.tag,
            "digest": image.digest,
            "string": image.to_string(),
        })),
        Err(_) => Answer::error(),
    }
}

fn image(input: &Value) -> Answer {
    let component = serde_json::from_value::<ImageComponent>(input["component"].clone());
    let operator = serde_json::from_value::<OverrideOperator>(input["operator"].clone());
    let image = Image::parse(input["image"].as_str().unwrap_or_default());
    let (Ok(component), Ok(operator), Ok(mut image)) = (component, operator, image) else {
        return Answer::error();
    };
    image.change(component, operator, input["value"].as_str().unwrap_or_default());
    Answer::Result(json!(image.to_string()))
}

fn override_object(input: &Value) -> Answer {
    let mut object = input["object"].clone();
    let lists = [&input["clusterOverridePolicies"], &input["overridePolicies"]];
    let policies: Result<Vec<AnyOverridePolicy>, _> = lists
        .into_iter()
        .flat_map(|list| list.as_array())
        .flatten()
        .map(AnyOverridePolicy::read)
        .collect();
    let Ok(policies) = policies else {
        return Answer::error();
    };
    let here: Cluster = cluster(&input["cluster"]);
    let labels = string_map(&input["object"]["metadata"]["labels"]);
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (namespace, name) = (
        text(&object["metadata"]["namespace"]),
        text(&object["metadata"]["name"]),
    );
    let subject = Subject {
        api_version: &api_version,
        kind: &kind,
        namespace: &namespace,
        name: &name,
        labels: &labels,
    };
    let all: Vec<&AnyOverridePolicy> = policies.iter().collect();
    match hub_core::overrides::apply(&mut object, &subject, &here, &all) {
        Ok(applied) => {
            let names = |cluster_scoped: bool| -> Vec<&str> {
                applied
                    .iter()
                    .filter(|policy| policy.is_cluster_scoped() == cluster_scoped)
                    .map(|policy| policy.name.as_str())
                    .collect()
            };
            Answer::Result(
                json!({"object": object, "appliedClusterPolicies": names(true), "appliedPolicies": names(false)}),
            )
        }
        Err(_) => Answer::error(),
    }
}
