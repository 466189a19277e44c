//! `bench plan`: the planner alone, one thread, no shell; and the seed size of a hub.

use std::collections::BTreeSet;
use std::fmt;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hub_core::cluster::Cluster;
use hub_core::estimate;
use hub_core::fleet::Fleet;
use hub_core::plan::{BindingChange, NameIndex, Previous, Template, World, plan_template};
use hub_core::policy::AnyPropagationPolicy;
use hub_core::schedule::{EmptyShares, Request, schedule};
use interpreter::Native;
use serde::Serialize;
use serde_json::{Value, json};

use crate::fleet::load::{self, Mode, Shape};
use crate::summary::Spread;
use tests::simulated::machine;

const SIZES: [usize; 3] = [100, 1_000, 10_000];
/// How long each rate is measured.
const SPAN: Duration = Duration::from_millis(1_500);
const TEMPLATES: usize = 10_000;
const CLUSTERS: usize = 500;
const EDITS: usize = 500;
const SEED_NAMESPACES: usize = 15;
const SEED_DEPLOYMENTS: usize = 200;

/// Everything that `bench plan` found.
#[derive(Debug, Serialize)]
pub(crate) struct PlanNumbers {
    profile: &'static str,
    load_before: f64,
    /// Scheduling of distinct requests, one thread.
    rates: Vec<Rate>,
    whole: Option<Whole>,
    seed: Option<Seed>,
}

/// All templates of a hub.
#[derive(Debug, Serialize)]
struct Whole {
    /// Stages 5 to 7 for every template of a hub.
    full: Full,
    /// Milliseconds from an edit of one template to its plan, with all others in place.
    edit_ms: Spread,
    /// Of the plans of all templates, held in memory together: bytes per target.
    memory_per_target: f64,
}

/// One rate.
#[derive(Debug, Serialize)]
struct Rate {
    clusters: usize,
    mode: &'static str,
    bindings_per_second: f64,
    /// The same by CPU time, which others on the machine hardly disturb.
    bindings_per_cpu_second: f64,
}

/// A full plan.
#[derive(Debug, Serialize)]
struct Full {
    templates: usize,
    clusters: usize,
    targets: usize,
    /// The first plan of all.
    first_seconds: f64,
    /// CPU of it.
    first_cpu_seconds: f64,
    /// Again, with the bindings that the first gave: nothing changes.
    again_seconds: f64,
    /// CPU of it.
    again_cpu_seconds: f64,
}

/// A small hub.
#[derive(Debug, Serialize)]
struct Seed {
    namespaces: usize,
    deployments: usize,
    clusters: usize,
    resident_kib: u64,
    database_bytes: u64,
}

/// Measures everything, or only the part of this name.
///
/// # Errors
/// Something does not work.
pub(crate) fn measure(folder: &Path, only: Option<&str>) -> Result<PlanNumbers> {
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    ensure!(
        ["rates", "whole", "seed"].into_iter().any(wanted),
        "plan has no part {only:?}"
    );
    let load_before = machine::load()?;
    let rates = if wanted("rates") { rates()? } else { Vec::new() };
    let whole = wanted("whole").then(whole).transpose()?;
    let seed = match wanted("seed") {
        true => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            Some(runtime.block_on(seed(folder))?)
        }
        false => None,
    };
    Ok(PlanNumbers {
        profile: machine::profile(),
        load_before,
        rates,
        whole,
        seed,
    })
}

/// A Cluster as the hub shows it, with a full report. No two are alike.
fn cluster(n: usize) -> Value {
    let used = 100 + n * 37 % 3_000;
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": format!("m-{n:05}"), "labels": {"environment": if n.is_multiple_of(10) { "staging" } else { "production" }}},
        "spec": {
            "provider": format!("provider-{}", n % 3), "region": format!("region-{:02}", n % 20),
            "zones": [format!("zone-{}", n % 60)],
            "taints": if n % 50 == 7 { json!([{"key": "maintenance", "value": "true", "effect": "NoSchedule"}]) } else { json!([]) },
        },
        "status": {
            "resourceSummary": {
                "allocatable": {"cpu": format!("{}", 40 + n % 60), "memory": "256Gi", "pods": "550"},
                "allocated": {"cpu": format!("{used}m"), "memory": "2Gi", "pods": "15"},
            },
            "apiEnablements": [
                {"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}, {"kind": "StatefulSet", "name": "statefulsets"}]},
                {"groupVersion": "v1", "resources": [{"kind": "ConfigMap", "name": "configmaps"}, {"kind": "Service", "name": "services"}]},
            ],
        },
    })
}

fn placement(mode: &str) -> Value {
    let divided = |preference: Value| json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": preference});
    match mode {
        "duplicated" => {
            json!({"clusterAffinity": {}, "replicaScheduling": {"replicaSchedulingType": "Duplicated"}})
        }
        "static" => json!({"clusterAffinity": {}, "replicaScheduling": divided(json!({"staticWeightList": [
            {"targetCluster": {"fieldSelector": {"matchExpressions": [{"key": "provider", "operator": "In", "values": ["provider-0"]}]}}, "weight": 2},
            {"targetCluster": {"labelSelector": {"matchLabels": {"environment": "production"}}}, "weight": 1},
        ]}))}),
        "dynamic" => {
            json!({"clusterAffinity": {}, "replicaScheduling": divided(json!({"dynamicWeight": "AvailableReplicas"}))})
        }
        _ => {
            json!({"clusterAffinity": {}, "replicaScheduling": divided(json!({"dynamicWeight": "AvailableReplicas"})),
            "spreadConstraints": [
                {"spreadByField": "region", "minGroups": 2, "maxGroups": 4},
                {"spreadByField": "cluster", "minGroups": 2, "maxGroups": 12},
            ]})
        }
    }
}

fn rates() -> Result<Vec<Rate>> {
    let mut rates = Vec::new();
    for size in SIZES {
        let fleet = Fleet::new((0..size).map(|n| Cluster::read(&cluster(n))).collect());
        for mode in ["duplicated", "static", "dynamic", "spread-by-region"] {
            let policy = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement(mode)}});
            let policy = AnyPropagationPolicy::read(&policy)?;
            let (mut count, began, cpu) = (0_usize, Instant::now(), own_cpu()?);
            while began.elapsed() < SPAN {
                let uid = format!("{count:08x}-0000-4000-8000-000000000000");
                let cpu = format!("{}m", 100 + count * 13 % 900);
                let requests = estimate::resources(&json!({"cpu": cpu, "memory": "64Mi"}));
                let request = Request {
                    api_version: "apps/v1",
                    kind: "Deployment",
                    namespace: "n",
                    uid: &uid,
                    replicas: 1 + (count * 7 % 50) as i64,
                    workload: true,
                    requests: Some(&requests),
                    claim: None,
                    priority_class: "",
                    components: &[],
                    placement: &policy.spec.placement,
                    previous: &[],
                    observed_group: None,
                    fresh: false,
                    evicted: &[],
                    unavailable: &[],
                    peers: None,
                    empty_shares: EmptyShares::KeepAtZero,
                };
                let placed = schedule(&fleet, &request, None);
                let placed = placed.with_context(|| format!("{mode} over {size} clusters"))?;
                ensure!(
                    !placed.targets.is_empty(),
                    "{mode} over {size} clusters placed nothing"
                );
                black_box(placed);
                count += 1;
            }
            rates.push(Rate {
                clusters: size,
                mode,
                bindings_per_second: count as f64 / began.elapsed().as_secs_f64(),
                bindings_per_cpu_second: count as f64 / (own_cpu()? - cpu).max(0.01),
            });
        }
    }
    Ok(rates)
}

fn own_cpu() -> Result<f64> {
    machine::cpu_seconds(std::process::id())
}

/// Template number `n`; an edit gives it another image.
fn template(n: usize, edit: usize) -> Result<Template> {
    let mut object = load::deployment(&format!("team-{:03}", n % 100), &format!("web-{n:05}"));
    object["metadata"]["uid"] = json!(format!("{n:08x}-0000-4000-8000-000000000000"));
    object["metadata"]["generation"] = json!(1 + edit);
    object["metadata"]["resourceVersion"] = json!(format!("{}", n + edit * TEMPLATES));
    object["metadata"]["labels"]["placement"] =
        json!(["duplicated", "static", "dynamic", "spread-by-region"][n % 4]);
    object["spec"]["template"]["spec"]["containers"][0]["image"] =
        json!(format!("registry.example.com/shop/web:{edit}"));
    Template::read(Arc::new(object)).context("a template has a kind and a name")
}

/// Policies for every namespace, one for each way of placing; of the Duplicated only five clusters are used.
fn world() -> World {
    let mut policies = Vec::new();
    for team in 0..100 {
        for mode in ["duplicated", "static", "dynamic", "spread-by-region"] {
            let mut placement = placement(mode);
            if matches!(mode, "duplicated" | "static") {
                let names: Vec<String> = (0..5)
                    .map(|n| format!("m-{:05}", (team * 5 + n) % CLUSTERS))
                    .collect();
                placement["clusterAffinity"] = json!({"clusterNames": names});
            }
            policies.push(json!({
                "metadata": {"name": mode, "namespace": format!("team-{team:03}"),
                             "labels": {"propagationpolicy.karmada.io/permanent-id": format!("{team}-{mode}")}},
                "spec": {"placement": placement, "resourceSelectors": [
                    {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"placement": mode}}}]},
            }));
        }
    }
    let clusters: Vec<Value> = (0..CLUSTERS).map(cluster).collect();
    World::read(&policies, &[], &clusters, Vec::new())
}

fn whole() -> Result<Whole> {
    let world = world();
    let templates = (0..TEMPLATES)
        .map(|n| template(n, 0))
        .collect::<Result<Vec<_>>>()?;
    let (interpreter, mut names, nobody) = (Native::default(), NameIndex::default(), BTreeSet::new());
    let before = machine::resident_kib(std::process::id())?.0;
    let (began, cpu) = (Instant::now(), own_cpu()?);
    let plans: Vec<_> = templates
        .iter()
        .map(|template| {
            let previous = Previous {
                binding: None,
                held: &nobody,
                around: Default::default(),
                copies: None,
            };
            plan_template(&world, template, previous, &interpreter, &mut names)
        })
        .collect();
    let (first_seconds, first_cpu_seconds) = (began.elapsed().as_secs_f64(), own_cpu()? - cpu);
    let resident = machine::resident_kib(std::process::id())?
        .0
        .saturating_sub(before)
        * 1024;
    let targets: usize = plans.iter().map(|plan| plan.works.len()).sum();
    let mut former = Vec::new();
    for plan in plans {
        let held: BTreeSet<_> = plan.works.iter().map(|work| work.cluster.clone()).collect();
        ensure!(
            !held.is_empty(),
            "{} was placed nowhere: {:?}",
            plan.key,
            plan.notes
        );
        let BindingChange::Put(binding) = plan.binding else {
            anyhow::bail!("{} has no binding", plan.key);
        };
        former.push((*binding, held));
    }
    let (began, cpu) = (Instant::now(), own_cpu()?);
    for (template, (binding, held)) in templates.iter().zip(&former) {
        let previous = Previous {
            binding: Some(binding),
            held,
            around: Default::default(),
            copies: None,
        };
        let plan = plan_template(&world, template, previous, &interpreter, &mut names);
        ensure!(
            plan.binding == BindingChange::Keep,
            "{} moves without a reason",
            plan.key
        );
    }
    let (again_seconds, again_cpu_seconds) = (began.elapsed().as_secs_f64(), own_cpu()? - cpu);
    let mut edits = Vec::new();
    for edit in 1..=EDITS {
        let n = edit * 7_919 % TEMPLATES;
        let edited = template(n, edit)?;
        let (binding, held) = &former[n];
        let began = Instant::now();
        let previous = Previous {
            binding: Some(binding),
            held,
            around: Default::default(),
            copies: None,
        };
        black_box(plan_template(&world, &edited, previous, &interpreter, &mut names));
        edits.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let full = Full {
        templates: TEMPLATES,
        clusters: CLUSTERS,
        targets,
        first_seconds,
        first_cpu_seconds,
        again_seconds,
        again_cpu_seconds,
    };
    let edit_ms = Spread::of(edits).context("nothing was edited")?;
    Ok(Whole {
        full,
        edit_ms,
        memory_per_target: resident as f64 / targets as f64,
    })
}

/// A hub with three simulated clusters and what a small user has.
async fn seed(folder: &Path) -> Result<Seed> {
    const MEMBERS: usize = 3;
    let (hub, api, _agents) =
        crate::fleet::start(&folder.join("seed"), MEMBERS, Shape { nodes: 5, cpus: 8 }).await?;
    for n in 0..SEED_NAMESPACES {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("team-{n}")}});
        api.create("/api/v1/namespaces", namespace.to_string().into_bytes())
            .await?;
    }
    for n in 0..SEED_DEPLOYMENTS {
        let (namespace, name) = (format!("team-{}", n % SEED_NAMESPACES), format!("web-{n}"));
        let policies = format!("/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies");
        let policy = load::policy(&namespace, &name, Mode::Divided);
        api.create(&policies, policy.to_string().into_bytes()).await?;
        let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
        let deployment = load::deployment(&namespace, &name);
        api.create(&deployments, deployment.to_string().into_bytes())
            .await?;
    }
    hub.at_rest().await?;
    Ok(Seed {
        namespaces: SEED_NAMESPACES,
        deployments: SEED_DEPLOYMENTS,
        clusters: MEMBERS,
        resident_kib: hub.resident_kib()?.0,
        database_bytes: hub.database_bytes()?,
    })
}

impl fmt::Display for PlanNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "plan, one thread, {} build, load {:.1}",
            self.profile, self.load_before
        )?;
        for rate in &self.rates {
            writeln!(
                f,
                "  {:>6} clusters, {:<17} {:>9.0} bindings/s, {:>9.0} for a second of CPU",
                rate.clusters, rate.mode, rate.bindings_per_second, rate.bindings_per_cpu_second
            )?;
        }
        // What 10,000 clusters cost over what 1,000 do; clusters x log clusters is 13.3.
        for rate in self.rates.iter().filter(|rate| rate.clusters == SIZES[2]) {
            let tenth = self.rates.iter();
            let tenth = tenth.filter(|one| one.clusters == SIZES[1] && one.mode == rate.mode);
            for one in tenth {
                let grown = one.bindings_per_cpu_second / rate.bindings_per_cpu_second;
                writeln!(
                    f,
                    "  {:<17} costs {grown:.1} times as much over ten times the clusters",
                    rate.mode
                )?;
            }
        }
        if let Some(whole) = &self.whole {
            write!(f, "{whole}")?;
        }
        if let Some(seed) = &self.seed {
            write!(f, "{seed}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = &self.full;
        writeln!(
            f,
            "  {} templates x {} clusters: {:.2} s the first time, {:.2} s again; {} targets, {:.0} bytes of plan each",
            full.templates,
            full.clusters,
            full.first_seconds,
            full.again_seconds,
            full.targets,
            self.memory_per_target
        )?;
        let edit = &self.edit_ms;
        writeln!(
            f,
            "  edit of one template: {:.3} ms (least {:.3}, most {:.3}, {} edits)",
            edit.median, edit.min, edit.max, edit.count
        )
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  seed: {} namespaces, {} Deployments with policies, {} clusters: {:.1} MiB resident, {:.1} MiB database",
            self.namespaces,
            self.deployments,
            self.clusters,
            self.resident_kib as f64 / 1024.0,
            self.database_bytes as f64 / f64::from(1 << 20)
        )
    }
}
