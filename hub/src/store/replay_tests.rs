//! Property: a listing plus the events after it is the later listing, across batches and restarts.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: UnixSeconds = UnixSeconds(1_735_689_600 + 1_000);

/// One step of a history.
#[derive(Debug, Clone)]
enum Step {
    /// Commits of (resource, name, delete), each its own, all at once.
    Batch(Vec<(bool, u8, bool)>),
    /// One commit of several operations.
    Together(Vec<(bool, u8, bool)>),
    /// An orderly restart.
    Reopen,
}

fn resource(second: bool) -> ResourceId {
    if second {
        ResourceId::new("apps", "deployments")
    } else {
        ResourceId::new("", "configmaps")
    }
}

fn op((second, name, delete): (bool, u8, bool), n: usize) -> Op {
    let (resource, name) = (resource(second), format!("o{name}"));
    if delete {
        return Op::Delete {
            resource,
            namespace: "d".into(),
            name,
            expect: Expect::Any,
        };
    }
    let object = json!({"metadata": {"name": name, "labels": {"n": n.to_string()}}, "n": n});
    Op::Put {
        resource,
        namespace: "d".into(),
        name,
        expect: Expect::Any,
        object,
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = || (any::<bool>(), 0_u8..5, prop::bool::weighted(0.3));
    let step = prop_oneof![
        4 => prop::collection::vec(one(), 1..6).prop_map(Step::Batch),
        3 => prop::collection::vec(one(), 1..4).prop_map(Step::Together),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..25)
}

type Known = BTreeMap<String, Arc<Object>>;

fn known(store: &Store, resource: &ResourceId) -> (Known, Revision) {
    let listing = store.list(resource, None);
    (
        listing
            .items
            .into_iter()
            .map(|object| (object.name.clone(), object))
            .collect(),
        listing.revision,
    )
}

/// The state that follows, or none when the watch has to begin anew.
fn replay(mut known: Known, mut cursor: Cursor) -> Option<Known> {
    let mut last = cursor.position();
    while let Some(event) = cursor.try_next().ok()? {
        assert!(event.revision > last, "in order, none twice");
        last = event.revision;
        assert_eq!(event.object.revision, event.revision);
        let name = event.object.name.clone();
        assert_eq!(
            known.get(&name),
            event.previous.as_ref(),
            "the state before is the state before"
        );
        match event.kind {
            EventKind::Put => known.insert(name, event.object.clone()),
            EventKind::Delete => known.remove(&name),
        };
    }
    Some(known)
}

async fn check(steps: Vec<Step>, look_at: usize) {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let mut store = Store::open(dir.path(), NOW).unwrap();
    let (mut looked, mut reopened, mut n) = (None, false, 0);
    for (at, step) in steps.into_iter().enumerate() {
        if at == look_at || looked.is_none() {
            looked = Some((known(&store, &resource(false)), known(&store, &resource(true))));
            reopened = false;
        }
        match step {
            Step::Batch(ops) => {
                let commits = ops.into_iter().map(|one| {
                    n += 1;
                    store.commit(vec![op(one, n)])
                });
                // A delete of what is not there is refused; that is part of the history.
                let _some_refused = futures::future::join_all(commits).await;
            }
            Step::Together(ops) => {
                n += 1;
                let _may_be_refused = store
                    .commit(ops.into_iter().map(|one| op(one, n)).collect())
                    .await;
            }
            Step::Reopen => {
                store.close().await;
                store = Store::open(dir.path(), NOW).unwrap();
                reopened = true;
            }
        }
    }
    let Some((first, second)) = looked else { return };
    for (resource, (then, revision)) in [(resource(false), first), (resource(true), second)] {
        let later = match store.watch(Some(&resource), revision) {
            Ok(cursor) => replay(then, cursor),
            Err(_) => None,
        };
        match later {
            Some(later) => assert_eq!(later, known(&store, &resource).0),
            // A revision that no stored change has (the start of a process, or a write that is written behind) may
            // not be continued across a restart: the client lists again. Within one process it always is.
            None => assert!(reopened, "a watch within one process was refused"),
        }
    }
    store.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_listing_and_its_watch_make_the_later_listing(steps in steps(), look_at in 0_usize..25) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(steps, look_at));
    }
}
