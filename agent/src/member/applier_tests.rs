//! The applier against a scripted API server: the races and answers that a real one gives only by chance.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use agent_core::action::{Action, Outcome};
use agent_core::holdings::Content;
use agent_core::record::{Intent, ObjectRecord, Origin};
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use shared::bundle::{Descriptor, SignedDescriptor};
use shared::ids::{ClusterName, Digest, FleetId, Incarnation, KeyNumber, Nonce, ObjectKey, Signature};
use shared::owned;
use shared::reason::Reason;
use shared::set::{ConflictResolution, DeleteMode, Entry};
use shared::time::Millis;

use super::api::Api;
use super::applier::Applier;
use super::kinds::Kinds;
use crate::guard::{Keeper, Source};
use crate::ledger::Ledger;
use crate::random::Random;

const CONTENT: &str =
    r#"{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"name":"one","namespace":"shop"}}"#;

type Asked = Arc<Mutex<Vec<(String, Value)>>>;

fn marker() -> owned::Marker {
    let shop = ClusterName::new("shop").unwrap();
    owned::Marker::new(FleetId([1; 16]), &shop, Incarnation([3; 16]))
}

struct Bench {
    applier: Applier,
    ledger: Rc<RefCell<Ledger>>,
    asked: Asked,
    runtime: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

/// Answers discovery, then the given answers in order.
fn bench(answers: Vec<(u16, Value)>) -> Bench {
    let asked: Asked = Arc::default();
    let script = Arc::new(Mutex::new(VecDeque::from(answers)));
    let log = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, script) = (log.clone(), script.clone());
        async move {
            let path = request.uri().to_string();
            let what = format!("{} {path}", request.method());
            let body = request.into_body().collect_bytes().await?;
            let (status, answer) = if path == "/api/v1" {
                let resource =
                    json!({"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["get"]});
                (200, json!({"resources": [resource]}))
            } else {
                log.lock()
                    .unwrap()
                    .push((what.clone(), serde_json::from_slice(&body).unwrap_or_default()));
                script
                    .lock()
                    .unwrap()
                    .pop_front()
                    .unwrap_or_else(|| panic!("no answer is left for {what}"))
            };
            let mut response = Response::builder().status(status);
            if status == 429 {
                response = response.header("Retry-After", "17");
            }
            let response = response.body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, tower::BoxError>(response?)
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(dir.path()).unwrap();
    let descriptor = SignedDescriptor {
        descriptor: Descriptor {
            fleet: FleetId([1; 16]),
            digest: Digest::of(CONTENT.as_bytes()),
            length: u32::try_from(CONTENT.len()).unwrap(),
            key_number: KeyNumber(1),
        },
        signature: Signature([0; 64]),
    };
    ledger
        .keep(&[Content {
            descriptor,
            bytes: CONTENT.as_bytes().to_vec(),
        }])
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // The client starts a task of its own.
    let entered = runtime.enter();
    let ledger = Rc::new(RefCell::new(ledger));
    let applier = Applier::new(
        Api::new(Client::new(service, "default")),
        Rc::new(Kinds::default()),
        ledger.clone(),
        Box::new(interpreter::Native::default()),
        Rc::new(Keeper::start(Source::Default).unwrap()),
        marker(),
        Random::new(),
    );
    drop(entered);
    Bench {
        applier,
        ledger,
        asked,
        runtime,
        _dir: dir,
    }
}

fn entry() -> Arc<Entry> {
    Arc::new(Entry {
        key: ObjectKey::new("", "ConfigMap", "shop", "one"),
        digest: Digest::of(CONTENT.as_bytes()),
        length: u32::try_from(CONTENT.len()).unwrap(),
        work: "w".into(),
        template_uid: "t".into(),
        template_generation: 1,
        conflict_resolution: ConflictResolution::Abort,
        suspended: false,
        delete_mode: DeleteMode::Delete,
        retain_replicas: false,
        dependencies: vec![],
        labels: BTreeMap::new(),
    })
}

fn absent() -> (u16, Value) {
    let details = json!({"name": "one", "kind": "configmaps"});
    (
        404,
        json!({"kind": "Status", "reason": "NotFound", "message": "configmaps \"one\" not found", "details": details}),
    )
}

fn object(uid: &str, annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "shop", "uid": uid,
        "resourceVersion": "5", "annotations": annotations,
        "managedFields": [{"manager": "pinnace", "operation": "Apply", "fieldsV1": {"f:data": {}}}]}})
}

fn run(bench: &Bench, action: Action) -> Outcome {
    bench
        .runtime
        .block_on(bench.applier.carry_out(action))
        .expect("the ledger is whole")
}

fn apply(intent: Option<Intent>, record: Option<ObjectRecord>) -> Action {
    Action::Apply {
        entry: entry(),
        record,
        intent,
        repair: false,
    }
}

#[test]
fn a_created_object_is_recorded_with_the_nonce_of_its_intent() {
    let bench = bench(vec![absent(), (201, object("u1", json!({})))]);
    let Outcome::Applied { record, .. } = run(&bench, apply(None, None)) else {
        panic!("not applied")
    };
    assert_eq!((record.origin, record.uid.as_str()), (Origin::Created, "u1"));
    let asked = bench.asked.lock().unwrap();
    let sent = &asked[1];
    assert!(
        sent.0
            .starts_with("PATCH /api/v1/namespaces/shop/configmaps/one?fieldManager=pinnace&force=false")
    );
    let nonce = sent.1["metadata"]["annotations"][owned::NONCE]
        .as_str()
        .map(str::to_owned);
    assert_eq!(nonce, record.nonce.map(|n| n.to_string()));
    assert_eq!(bench.ledger.borrow().records().unwrap(), [record]);
    assert!(bench.ledger.borrow().intents().unwrap().is_empty());
}

#[test]
fn an_object_that_appears_between_read_and_apply_is_given_back_and_not_called_ours() {
    let bench = bench(vec![
        absent(),
        (200, object("theirs", json!({}))),
        (200, object("theirs", json!({}))),
    ]);
    let outcome = run(&bench, apply(None, None));
    assert!(
        matches!(
            outcome,
            Outcome::Failed {
                reason: Reason::Pending,
                intent: None,
                ..
            }
        ),
        "{outcome:?}"
    );
    let asked = bench.asked.lock().unwrap();
    let metadata = json!({"name": "one"});
    assert_eq!(
        asked[2].1,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
        "an empty apply"
    );
    assert!(bench.ledger.borrow().records().unwrap().is_empty());
    assert!(bench.ledger.borrow().intents().unwrap().is_empty());
}

#[test]
fn a_lost_answer_leaves_the_intent_open_and_the_object_is_ours_next_time() {
    let first = bench(vec![absent(), (504, json!({"message": "timeout"}))]);
    let Outcome::Failed {
        intent: Some(intent), ..
    } = run(&first, apply(None, None))
    else {
        panic!("not failed")
    };
    assert_eq!(
        first.ledger.borrow().intents().unwrap(),
        std::slice::from_ref(&intent)
    );
    let marks =
        json!({owned::INCARNATION: Incarnation([3; 16]).to_string(), owned::NONCE: intent.nonce.to_string()});
    let second = bench(vec![
        (200, object("u1", marks.clone())),
        (200, object("u1", marks)),
    ]);
    let Outcome::Applied { record, .. } = run(&second, apply(Some(intent), None)) else {
        panic!("not applied")
    };
    assert_eq!(record.origin, Origin::Created);
    let asked = second.asked.lock().unwrap();
    assert!(asked[1].0.contains("force=true"));
    assert_eq!(asked[1].1["metadata"]["uid"], "u1", "bound to what was read");
}

#[test]
fn what_a_former_enrolment_of_this_cluster_managed_is_adopted() {
    let of =
        |place: String| json!({owned::INCARNATION: Incarnation([9; 16]).to_string(), owned::CLUSTER: place});
    let marks = of(marker().place);
    let same = bench(vec![
        (200, object("u1", marks.clone())),
        (200, object("u1", marks)),
    ]);
    let Outcome::Applied { record, .. } = run(&same, apply(None, None)) else {
        panic!("not applied")
    };
    assert_eq!(record.origin, Origin::Adopted, "so nothing ever deletes it");
    let asked = same.asked.lock().unwrap();
    assert!(asked[1].0.contains("force=true"));
    let sent = &asked[1].1["metadata"]["annotations"];
    assert_eq!(sent[owned::INCARNATION], marker().incarnation.to_string());
    assert_eq!(sent[owned::CLUSTER], marker().place);

    let other = of("another/place".to_owned());
    let answers = vec![(200, object("u1", other.clone())), (200, object("u1", other))];
    let outcome = run(&bench(answers), apply(None, None));
    assert!(
        matches!(
            outcome,
            Outcome::Failed {
                reason: Reason::Conflict,
                ..
            }
        ),
        "{outcome:?}"
    );
}

#[test]
fn a_foreign_object_gets_a_dry_run_only() {
    let mut wanted = object("theirs", json!({}));
    wanted["data"] = json!({"a": "1"});
    let bench = bench(vec![(200, object("theirs", json!({}))), (200, wanted)]);
    let outcome = run(&bench, apply(None, None));
    let Outcome::Failed {
        reason: Reason::Conflict,
        message,
        live: Some(_),
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert!(message.contains("it differs in data"), "{message}");
    let asked = bench.asked.lock().unwrap();
    assert!(asked.len() == 2 && asked[1].0.contains("dryRun=All"), "{asked:?}");
}

#[test]
fn a_delete_names_its_uid_and_takes_absence_and_another_owner_for_done() {
    let key = entry().key.clone();
    let conflict = (
        409,
        json!({"kind": "Status", "reason": "Conflict", "message": "the UID in the precondition"}),
    );
    for answer in [(200, json!({})), absent(), conflict] {
        let bench = bench(vec![answer]);
        let delete = Action::Delete {
            key: key.clone(),
            api_version: "v1".into(),
            uid: "u1".into(),
            again: false,
        };
        assert_eq!(run(&bench, delete), Outcome::Deleted);
        assert_eq!(bench.asked.lock().unwrap()[0].1["preconditions"]["uid"], "u1");
    }
}

#[test]
fn an_intent_that_became_nothing_is_dropped() {
    let intent = Intent {
        key: entry().key.clone(),
        api_version: "v1".into(),
        nonce: Nonce([4; 16]),
        template_uid: "t".into(),
    };
    let bench = bench(vec![(200, object("theirs", json!({})))]);
    bench.ledger.borrow().put_intent(&intent).unwrap();
    let outcome = run(&bench, Action::Claim { intent, record: None });
    assert!(
        matches!(
            outcome,
            Outcome::Seen {
                record: None,
                intent: None,
                ..
            }
        ),
        "{outcome:?}"
    );
    assert!(bench.ledger.borrow().intents().unwrap().is_empty());
}

/// Red if the header were not read, or lost on its way to the pace.
#[test]
fn a_member_that_asks_for_a_pause_is_heard() {
    let bench = bench(vec![absent(), (429, json!({"message": "slow down"}))]);
    let outcome = run(&bench, apply(None, None));
    let Outcome::Failed {
        reason: Reason::MemberOverloaded,
        pause: Some(Millis(17_000)),
        intent: Some(_),
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
}
