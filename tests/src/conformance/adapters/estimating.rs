//! `scheduler/*`: how much fits, `hub_core::estimate` and `shared::grading`.

use std::collections::BTreeMap;

use hub_core::estimate::nodes::{self, Node};
use hub_core::estimate::quotas::{self, Quota, Scope};
use hub_core::estimate::{self, Columns, Component, NO_LIMIT, resources};
use hub_core::fleet::Fleet;
use hub_core::policy::Requirement;
use interpreter::NodeClaim;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::grading::{self, Grade, Grading};
use shared::object::Quantity;

use super::super::{Answer, Case};
use super::compact::{cluster, components, items, number, promises, string_map, strings, summary, text};
use super::placing::requests;

pub(super) fn answer(case: &Case) -> Answer {
    let input = &case.input;
    match case.op.as_str() {
        "allowedPods" => {
            Answer::Result(json!({"pods": summary(&input["summary"]).unwrap_or_default().free_pods()}))
        }
        "estimateReplicasFromSummary" => {
            from_columns(&json!({"summary": input["summary"]}), input, |room, demand| {
                Some(room.by_sums(demand))
            })
        }
        "estimateReplicasFromModels" => {
            from_columns(&input["cluster"], input, |room, demand| room.by_models(demand))
        }
        "estimateReplicas" => estimate_replicas(input),
        "estimateComponentSets" => {
            let sets = estimate::sets(
                &cluster(&input["cluster"]),
                &components(&input["components"]),
                &promises(&input["assumed"]),
            );
            Answer::Result(json!({"sets": sets}))
        }
        "estimateSetsFromModels" => sets_from_models(input),
        "collectComponentSets" => collect(input),
        "sumComponents" => {
            let sum = estimate::sum(&components(&input["components"]));
            let texts: BTreeMap<&String, String> =
                sum.iter().map(|(name, q)| (name, q.to_string())).collect();
            Answer::Result(json!({"resources": texts}))
        }
        "simulateFirstFit" => {
            let sets = nodes::sets(
                &items(&input["nodes"]).map(free_node).collect::<Vec<_>>(),
                &components(&input["components"]),
                number(&input["upperBound"]),
                &[],
            );
            Answer::Result(json!({"sets": sets}))
        }
        "estimateReplicasFromNodes" => {
            let required = &input["replicaRequirements"];
            let claim = NodeClaim::deserialize(&required["nodeClaim"]).ok();
            let fits = nodes::replicas(
                &nodes_of(input),
                &requests(input).unwrap_or_default(),
                claim.as_ref(),
            );
            Answer::Result(json!({"replicas": fits}))
        }
        "estimateSetsFromNodes" => sets_from_nodes(input),
        "nodeMatches" => {
            let claim = NodeClaim::deserialize(&input["nodeClaim"]).ok();
            Answer::Result(json!({"matches": nodes::matches(&node(&input["node"]), claim.as_ref())}))
        }
        "podUnschedulable" => {
            let stuck = nodes::is_stuck(
                &text(&input["podScheduled"]),
                &text(&input["reason"]),
                input["secondsSinceTransition"].as_i64(),
                number(&input["thresholdSeconds"]),
            );
            Answer::Result(json!({"unschedulable": stuck}))
        }
        "estimateReplicasFromQuota" => replicas_from_quota(input),
        "estimateSetsFromQuota" => from_quota(
            input,
            &text(&input["namespace"]),
            &components(&input["components"]),
            "sets",
        ),
        "gradeNodes" => grade_nodes(input),
        "initModelSummary" => match Grading::new(&grades(&input["models"])) {
            Ok(grading) => Answer::Result(json!({"grades": grading.grades().len()})),
            Err(_) => Answer::error(),
        },
        "compareNodes" => match Grading::new(&grades(&input["models"])) {
            Ok(grading) => {
                let compared = grading.compare(&resources(&input["a"]), &resources(&input["b"]));
                Answer::Result(json!({"compare": compared as i8}))
            }
            Err(_) => Answer::error(),
        },
        "lastNotGreater" => last_not_greater(input),
        "parseFieldRequirements" => field_requirements(input),
        _ => Answer::Unsupported,
    }
}

fn from_columns(
    compact: &Value,
    input: &Value,
    ask: impl FnOnce(&estimate::Room, &estimate::Demand<'_>) -> Option<i64>,
) -> Answer {
    let here = cluster(compact);
    let columns = Columns::of([&here]);
    let requests = requests(input).unwrap_or_default();
    match ask(&columns.room(&here), &columns.demand(Some(&requests), None)) {
        Some(fits) => Answer::Result(json!({"replicas": fits})),
        None => Answer::Error {
            kind: "Other",
            code: "",
        },
    }
}

fn estimate_replicas(input: &Value) -> Answer {
    let requests = requests(input);
    let estimate = |one: &Value| {
        let here = cluster(one);
        let promised = promises(&input["assumed"][&here.name]);
        json!({"name": here.name, "replicas": estimate::replicas(&here, requests.as_ref(), &promised)})
    };
    let targets: Vec<Value> = items(&input["clusters"]).map(estimate).collect();
    Answer::Result(json!({"targets": targets}))
}

fn sets_from_models(input: &Value) -> Answer {
    let fits = estimate::sets_by_models(
        &cluster(&input["cluster"]),
        &components(&input["components"]),
        number(&input["upperBound"]),
        &promises(&input["assumed"]),
    );
    match fits {
        Some(sets) => Answer::Result(json!({"sets": sets})),
        None => Answer::Error {
            kind: "Other",
            code: "",
        },
    }
}

/// An answer of an estimator is here what a cluster says of its nodes: room for so many pods. Clusters that say nothing are
/// bounded by the other estimates alone.
fn collect(input: &Value) -> Answer {
    let answered = |name: &String| items(&input["answers"]).find(|answer| answer["cluster"] == **name);
    let reported = strings(&input["clusters"]).into_iter().filter_map(|name| {
        let sets = number(&answered(&name)?["sets"]);
        let mut here =
            cluster(&json!({"name": name, "summary": {"allocatable": {"pods": NO_LIMIT.to_string()}}}));
        here.nodes = Some(vec![Node {
            free_pods: sets,
            ..Node::default()
        }]);
        (sets >= 0).then_some(here)
    });
    let fleet = Fleet::new(reported.collect());
    let one_pod = [Component {
        replicas: 1,
        ..Component::default()
    }];
    let rows = fleet
        .clusters()
        .iter()
        .map(|here| json!({"name": here.name, "replicas": estimate::sets(here, &one_pod, &[])}));
    Answer::Result(json!({"targets": rows.collect::<Vec<_>>()}))
}

/// A node by what is free on it, in the cases' units.
fn free_node(one: &Value) -> Node {
    let free = &one["free"];
    let mut amounts = resources(&free["scalar"]);
    amounts.insert("cpu".to_owned(), Quantity::from_millis(number(&free["milliCpu"])));
    amounts.insert("memory".to_owned(), Quantity::from_units(number(&free["memory"])));
    Node {
        free: amounts,
        free_pods: number(&free["pods"]),
        ..node(one)
    }
}

fn node(one: &Value) -> Node {
    Node {
        name: text(&one["name"]),
        labels: string_map(&one["labels"]),
        taints: cluster(&json!({"taints": one["taints"]})).taints,
        unschedulable: one["unschedulable"] == true,
        free: resources(&one["allocatable"]),
        free_pods: 0,
        others: 0,
    }
}

/// Nodes less what their pods request.
fn nodes_of(input: &Value) -> Vec<Node> {
    let less_pods = |one: &Value| {
        let mut node = node(one);
        let pods: Vec<&Value> = items(&input["pods"])
            .filter(|pod| pod["node"] == one["name"])
            .collect();
        let slots = node.free.remove("pods").unwrap_or_default().units_floor();
        node.free_pods = slots - pods.len() as i64;
        for (name, quantity) in pods.iter().flat_map(|pod| resources(&pod["requests"])) {
            let left = node.free.entry(name).or_default();
            *left = left.minus(quantity);
        }
        node
    };
    items(&input["nodes"]).map(less_pods).collect()
}

/// A cluster without an estimator is one that does not name its nodes: nothing is bounded by them.
fn sets_from_nodes(input: &Value) -> Answer {
    if input["enabled"] == false {
        return Answer::Result(json!({"sets": NO_LIMIT, "result": "NoOperation"}));
    }
    let promised = promises(&input["assumed"]);
    let sets = nodes::sets(
        &nodes_of(input),
        &components(&input["components"]),
        NO_LIMIT,
        &promised,
    );
    Answer::Result(json!({"sets": sets, "result": word(sets)}))
}

fn word(fits: i64) -> &'static str {
    if fits == 0 { "Unschedulable" } else { "Success" }
}

fn quota(one: &Value) -> Quota {
    Quota {
        namespace: text(&one["namespace"]),
        hard: resources(&one["hard"]),
        used: resources(&one["used"]),
        scopes: items(&one["scopeSelector"])
            .map(|scope| Scope {
                name: text(&scope["scopeName"]),
                operator: text(&scope["operator"]),
                values: strings(&scope["values"]),
            })
            .collect(),
    }
}

fn replicas_from_quota(input: &Value) -> Answer {
    let required = &input["replicaRequirements"];
    let one = Component {
        replicas: 1,
        requests: resources(&required["resourceRequest"]),
        priority_class: text(&required["priorityClassName"]),
        ..Component::default()
    };
    from_quota(input, &text(&required["namespace"]), &[one], "replicas")
}

/// A cluster without the estimator names no quotas.
fn from_quota(input: &Value, namespace: &str, components: &[Component], unit: &str) -> Answer {
    if input["enabled"] == false {
        let fits = quotas::sets(&[], namespace, components, &[]);
        return Answer::Result(json!({unit: fits, "result": "NoOperation"}));
    }
    let quotas: Vec<Quota> = items(&input["quotas"]).map(quota).collect();
    let fits = quotas::sets(&quotas, namespace, components, &promises(&input["assumed"]));
    Answer::Result(json!({unit: fits, "result": word(fits)}))
}

fn grades(models: &Value) -> Vec<Grade> {
    let grade = |model: &Value| Grade {
        grade: number(&model["grade"]),
        least: items(&model["ranges"])
            .filter_map(|range| Some((text(&range["resource"]), text(&range["min"]).parse().ok()?)))
            .collect(),
    };
    items(models).map(grade).collect()
}

fn grade_nodes(input: &Value) -> Answer {
    let Ok(grading) = Grading::new(&grades(&input["models"])) else {
        return Answer::error();
    };
    let index = |node: &Value| grading.grade_of(&grading.size(&resources(node)));
    if input["nodes"].is_null() {
        return Answer::Result(json!({"gradeIndex": index(&input["node"])}));
    }
    let nodes: Vec<_> = items(&input["nodes"])
        .map(|node| (resources(&node["resources"]), node["count"].as_u64().unwrap_or(0)))
        .collect();
    let tallies = grading.count(nodes.iter().map(|(free, count)| (free, *count)));
    Answer::Result(json!({
        "gradeIndexPerNode": items(&input["nodes"]).map(|node| index(&node["resources"])).collect::<Vec<_>>(),
        "countPerGrade": tallies.iter().map(|tally| tally.count).collect::<Vec<_>>(),
        "distinctSizesPerGrade": tallies.iter().map(|tally| tally.sizes.len()).collect::<Vec<_>>(),
    }))
}

fn last_not_greater(input: &Value) -> Answer {
    let amount = |value: &Value| match value {
        Value::String(text) => text.parse().map_or(0, Quantity::units_ceil),
        other => number(other),
    };
    let Some(bounds) = input["bounds"].as_array() else {
        return Answer::Unsupported;
    };
    let bounds: Vec<i64> = bounds.iter().map(amount).collect();
    let index = grading::last_not_above(&bounds, amount(&input["value"]));
    Answer::Result(json!({"index": index.map_or(-1, |index| index as i64)}))
}

/// A requirement as the reference writes it: operators in small letters.
fn field_requirements(input: &Value) -> Answer {
    let Ok(requirements) = serde_json::from_value::<Vec<Requirement>>(input["requirements"].clone()) else {
        return Answer::error();
    };
    if requirements.iter().any(|one| one.check().is_err()) {
        return Answer::error();
    }
    let mut result = json!({"selectsNothing": requirements.is_empty()});
    if let Some(one) = requirements.first() {
        result["requirement"] =
            json!({"key": one.key, "operator": one.operator.to_lowercase(), "strValues": one.values});
    }
    Answer::Result(result)
}
