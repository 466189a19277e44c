//! Seeded mutations of scripts and objects: whatever a user or a member sends, the answer is a value or an error, soon,
//! and the next question is answered as if nothing had happened. See `mutation` for `PINNACE_SEED` and
//! longer runs.

// A test program: what cannot be set up fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use interpreter::lua::{Empties, Runtime};
use interpreter::{InterpretError, Interpreter, Native};
use mutation::{Random, mutate_json, seeds};
use serde_json::{Value, json};
use shared::time::UnixSeconds;

/// Scripts tried, unless the time is over before.
const SCRIPTS: u64 = 1_500;
/// Time for all scripts: one that runs into a limit takes as long as the limit allows.
const SCRIPTS_FOR: Duration = Duration::from_secs(6);
/// One script ends within this, whatever it is and however busy the machine is.
const ONE_SCRIPT: Duration = Duration::from_secs(20);
/// Objects tried.
const OBJECTS: u64 = 6_000;

const CORPUS: &[&str] = &[
    "function F(o) return o.spec.replicas, {requires = {}} end",
    "local kube = require('kube')\nfunction F(o) local r = kube.accuratePodRequirements(o.spec.template) return o.spec.replicas, r end",
    "function F(d, o) d.spec.paused = o.spec.paused return d end",
    "function F(o) local s = {} for i = 1, #o.status.conditions do local c = o.status.conditions[i] if c.type == 'Ready' then s.ready = c.status end end return s end",
    "function F(o) return o.status ~= nil and o.status.observedGeneration == o.metadata.generation end",
    "function F(o) local t = {} for w in string.gmatch(o.metadata.name, '%a+') do table.insert(t, w) end table.sort(t) return t end",
    "function F(o) local deps = {} for k, v in pairs(o.metadata.labels) do deps[#deps + 1] = {apiVersion = 'v1', kind = 'Secret', name = string.format('%s-%s', k, v)} end return deps end",
    "local function f(n) if n < 2 then return n end return f(n - 1) + f(n - 2) end function F() return f(12) end",
    "function F() local ok, e = pcall(function() error({a = 1}) end) return ok, tostring(e) end",
    "function F() return os.date('!%Y-%m-%dT%H:%M:%SZ'), os.time(), math.floor(2.5), tonumber('0x10') end",
    "function F(o) local s = string.rep('ab', 40) return s:gsub('(a)(b)', '%2%1'), s:find('b', 3, true), s:byte(1, 3) end",
    "local mt = setmetatable({}, {__index = function(t, k) return k end}) function F() return mt.x, next({1}), select('#', 1, 2) end",
];

const SPLICES: &[&str] = &[
    "while true do end ",
    "for i = 1, 1e18 do end ",
    "string.rep('x', 1e9) ",
    "('a'):rep(2^31) ",
    "string.format('%99999d', 1) ",
    "('x'):match(('.-'):rep(40) .. 'y') ",
    "loadstring('return 1')() ",
    "setmetatable(_G, {__index = function(t, k) return t[k] end}) ",
    "getmetatable('').__index = nil ",
    "coroutine.wrap(function() while true do end end)() ",
    "local t = {} t[1] = t return t ",
    "error(setmetatable({}, {__tostring = function() error('again') end})) ",
    "pcall(function() while true do end end) ",
    "return nil, 0/0, -1/0, function() end ",
    "table.concat(setmetatable({}, {__len = 5}), 'x', 1, 1e7) ",
    "string.dump(F) ",
    "\0",
    "\u{fffd}",
    " end ",
    " function ",
    " .. ",
    " {{{{{{{{{{{{ ",
    "]]",
    "--[[",
    "\\",
    " 1e999 ",
    " -9223372036854775808 ",
];

fn mutated_script(random: &mut Random) -> String {
    let mut text: Vec<u8> = random.of(CORPUS).as_bytes().to_vec();
    for _ in 0..1 + random.index(2) {
        let at = random.index(text.len() + 1);
        match random.index(6) {
            0 => drop(text.splice(at..at, random.of(SPLICES).bytes())),
            1 if at < text.len() => text[at] ^= 1 << random.index(7),
            2 => {
                let end = (at + random.index(20)).min(text.len());
                text.drain(at..end);
            }
            3 => {
                let other = random.of(CORPUS).as_bytes();
                let (a, b) = (random.index(other.len()), random.index(other.len()));
                drop(text.splice(at..at, other[a.min(b)..a.max(b)].iter().copied()));
            }
            4 => {
                let end = (at + 30).min(text.len());
                let part = text[at..end].to_vec();
                for _ in 0..random.index(40) {
                    drop(text.splice(at..at, part.iter().copied()));
                }
            }
            _ => {
                let open = text.iter().position(|b| *b == b')').map_or(0, |p| p + 1);
                let piece = format!(" {} ", random.of(SPLICES));
                drop(text.splice(open..open, piece.bytes()));
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn every_script_ends_with_an_answer_or_an_error() {
    let runtime = Runtime::new(Arc::new(|| UnixSeconds(1_735_689_600)));
    let object = &objects()[0];
    let good: Arc<str> = Arc::from("function F(o) return o.spec.replicas end");
    let (mut tried, mut answered, mut stopped) = (0, 0, 0);
    for seed in seeds(SCRIPTS).within(SCRIPTS_FOR) {
        let script = mutated_script(&mut Random::new(seed));
        let one = Instant::now();
        let arguments = vec![object.clone(), object.clone()];
        match runtime.call(&Arc::from(script.as_str()), "F", arguments, Empties::Lists, None) {
            Ok(_) => answered += 1,
            Err(error) => {
                stopped += u32::from(error.was_stopped());
                assert!(!error.to_string().is_empty(), "seed {seed}");
            }
        }
        assert!(
            one.elapsed() < ONE_SCRIPT,
            "seed {seed} took {:?}:\n{script}",
            one.elapsed()
        );
        tried += 1;
        if seed % 50 == 0 {
            let [replicas, _] = runtime
                .call(&good, "F", vec![object.clone()], Empties::Lists, None)
                .unwrap_or_else(|e| panic!("a good script after seed {seed}: {e}"));
            assert_eq!(replicas, object["spec"]["replicas"], "after seed {seed}");
        }
    }
    println!("{tried} scripts: {answered} answered, {stopped} stopped by a limit");
    assert!(tried >= 100, "only {tried} scripts in the time");
    assert!(
        answered > 0,
        "no mutation left a script that works: the test tries nothing"
    );
}

/// One object of many kinds, with the fields that rules read.
fn objects() -> Vec<Value> {
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"serviceAccountName": "sa",
        "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "k", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "pull"}],
        "volumes": [{"name": "c", "configMap": {"name": "cm"}}, {"name": "s", "secret": {"secretName": "se"}},
            {"name": "p", "persistentVolumeClaim": {"claimName": "pvc"}}],
        "initContainers": [{"name": "i", "image": "x:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        "containers": [{"name": "m", "image": "x:1", "envFrom": [{"configMapRef": {"name": "env"}}],
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "k", "key": "v"}}}],
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}}}]}});
    let meta = |extra: Value| {
        let mut meta = json!({"name": "web", "namespace": "shop", "generation": 4, "uid": "u", "resourceVersion": "9",
            "labels": {"app": "web"}, "annotations": {"resourcetemplate.karmada.io/generation": "3"}});
        for (key, value) in extra.as_object().unwrap() {
            meta[key] = value.clone();
        }
        meta
    };
    let workload = |api: &str, kind: &str| {
        json!({"apiVersion": api, "kind": kind, "metadata": meta(json!({})),
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template, "parallelism": 2,
                "completions": 3, "minAvailable": "50%", "ports": [{"name": "p", "port": 80, "nodePort": 30_000}],
                "clusterIP": "10.0.0.1", "type": "LoadBalancer", "volumeName": "pv", "jobTemplate": {"spec": {"template": template}},
                "rules": [{"http": {"paths": [{"backend": {"service": {"name": "s"}}}]}}], "volumeClaimTemplates": [{"metadata": {"name": "d"}}],
                "nodeName": "n1", "containers": template["spec"]["containers"], "volumes": template["spec"]["volumes"],
                "headGroupSpec": {"template": template}, "workerGroupSpecs": [{"replicas": 2, "template": template}],
                "jobManager": {"replicas": 1, "resource": {"cpu": 1, "memory": "1g"}}, "taskManager": {"resource": {"cpu": 0.5}},
                "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}},
                "driver": {"cores": 1, "memory": "512m"}, "executor": {"instances": 2, "cores": 1, "memory": "1g"},
                "tasks": [{"name": "t", "replicas": 2, "template": template}]},
            "status": {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "observedGeneration": 4,
                "currentRevision": "a", "updateRevision": "a", "desiredNumberScheduled": 2, "numberAvailable": 2,
                "updatedNumberScheduled": 2, "active": 1, "succeeded": 2, "failed": 0, "phase": "Running",
                "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T01:00:00Z", "lastScheduleTime": "2026-01-01T00:00:00Z",
                "loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2,
                "currentReplicas": 3, "desiredReplicas": 3, "capacity": {"storage": "1Gi"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}, {"type": "Complete", "status": "True"}],
                "containerStatuses": [{"ready": true, "restartCount": 1, "state": {"running": {}}}],
                "jobStatus": {"state": "RUNNING"}, "lifecycleState": "STABLE", "applicationState": {"state": "RUNNING"},
                "state": {"phase": "Running"}, "lastAppliedRevision": "main/1", "artifact": {"revision": "1"}}})
    };
    [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("v1", "Pod"),
        ("v1", "Service"),
        ("v1", "ServiceAccount"),
        ("v1", "Secret"),
        ("v1", "PersistentVolumeClaim"),
        ("v1", "PersistentVolume"),
        ("v1", "Namespace"),
        ("networking.k8s.io/v1", "Ingress"),
        ("policy/v1", "PodDisruptionBudget"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
        ),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
        ("apps.kruise.io/v1alpha1", "CloneSet"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
        ("flink.apache.org/v1beta1", "FlinkDeployment"),
        ("ray.io/v1", "RayCluster"),
        ("ray.io/v1", "RayJob"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("kubeflow.org/v2beta1", "MPIJob"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease"),
        ("source.toolkit.fluxcd.io/v1", "GitRepository"),
        ("argoproj.io/v1alpha1", "Workflow"),
        ("kyverno.io/v1", "ClusterPolicy"),
    ]
    .map(|(api, kind)| workload(api, kind))
    .into()
}

#[test]
fn no_object_is_too_odd_for_the_rules() {
    let native = Native::default();
    let all = objects();
    let (mut answers, mut errors) = (0_u64, 0_u64);
    for seed in seeds(OBJECTS) {
        let mut random = Random::new(seed);
        let mut object = random.of(&all).clone();
        let whole = object.clone();
        for _ in 0..1 + random.index(6) {
            mutate_json(&mut object, &mut random);
        }
        let now = "2026-01-01T00:00:00Z";
        let said = [
            native.get_replicas(&object).err(),
            native.get_components(&object).err(),
            native.revise_replica(&object, 7).err(),
            native.retain(&object, &whole).err(),
            native.retain(&whole, &object).err(),
            native.reflect_status(&object).err(),
            native.interpret_health(&object).err(),
            native.get_dependencies(&object).err(),
            native.aggregate_status(&object, None, now).err(),
        ];
        for error in said {
            match error {
                None => answers += 1,
                Some(InterpretError::NoRule { .. }) => {}
                Some(_) => errors += 1,
            }
        }
    }
    println!("{answers} answers, {errors} errors");
    assert!(
        answers > 0 && errors > 0,
        "{answers} answers, {errors} errors: the mutations try too little"
    );
}
