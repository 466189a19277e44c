//! What is answered stays: kill -9 at any moment, a log cut anywhere, a full disk, a restored copy.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;

use super::*;

const NOW: UnixSeconds = UnixSeconds(1_735_689_600 + 1_000);
/// Set in the process that writes and is killed.
const CHILD_DIR: &str = "PINNACE_TEST_STORE_DIR";
const WRITERS: u64 = 4;

fn configmaps() -> ResourceId {
    ResourceId::new("", "configmaps")
}

fn leases() -> ResourceId {
    ResourceId::new("coordination.k8s.io", "leases")
}

fn put(resource: &ResourceId, name: &str, n: u64) -> Op {
    let object = json!({"metadata": {"name": name}, "n": n, "padding": "x".repeat(500)});
    Op::Put {
        resource: resource.clone(),
        namespace: "d".into(),
        name: name.into(),
        expect: Expect::Any,
        object,
    }
}

fn number(object: &Object) -> u64 {
    object.value()["n"].as_u64().unwrap()
}

/// Writes for ever, from several tasks, and says each answer: `ack WRITER N REVISION`, or `lease REVISION`.
fn write_until_killed(dir: &Path) -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = Store::open(dir, NOW).unwrap();
        let say = |line: String| {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
        };
        // The test harness has begun a line.
        say(String::new());
        let writers = (0..WRITERS).map(|writer| {
            let store = store.clone();
            let name = format!("w{writer}");
            let first = store
                .get(&configmaps(), "d", &name)
                .map_or(0, |object| number(&object));
            tokio::spawn(async move {
                for n in first + 1.. {
                    let stored = store.commit(vec![put(&configmaps(), &name, n)]).await.unwrap();
                    say(format!("ack {writer} {n} {}", stored[0].revision));
                    if n % 3 == 0 {
                        let behind = store.commit(vec![put(&leases(), &name, n)]).await.unwrap();
                        say(format!("lease {}", behind[0].revision));
                    }
                }
            })
        });
        futures::future::join_all(writers).await;
    });
    unreachable!("the writers never end")
}

fn start_child(dir: &Path, test: &str, crash_at: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(point) = crash_at {
        command.env("PINNACE_CRASH_AT", point);
    }
    command.spawn().unwrap()
}

/// What a killed process had answered.
#[derive(Default)]
struct Answers {
    newest: BTreeMap<u64, u64>,
    revisions: BTreeSet<u64>,
}

impl Answers {
    fn hear(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let revision = match words.as_slice() {
            // A line is one write to a pipe, so a kill never cuts one.
            ["ack", _, _, _] => {
                self.newest.insert(number(1), number(2));
                number(3)
            }
            ["lease", _] => number(1),
            _ => return false,
        };
        assert!(
            self.revisions.insert(revision),
            "revision {revision} was given twice"
        );
        true
    }
}

fn random_ms(below: u8) -> Duration {
    let mut byte = [0];
    SystemRandom::new().fill(&mut byte).unwrap();
    Duration::from_millis(u64::from(byte[0] % below))
}

#[test]
fn an_answered_write_survives_kill_9() {
    if let Ok(dir) = std::env::var(CHILD_DIR) {
        write_until_killed(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let mut answers = Answers::default();
    let crash_points = [
        "store.commit.before:9",
        "store.commit.after:11",
        "store.answer.before:13",
        "store.checkpoint.before:2",
    ];
    let plans = crash_points
        .into_iter()
        .map(Some)
        .chain(std::iter::repeat_n(None, 12));
    for crash_at in plans {
        let mut child = start_child(
            dir.path(),
            "store::durability_tests::an_answered_write_survives_kill_9",
            crash_at,
        );
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heard = 0;
        let mut deadline = None;
        while let Some(Ok(line)) = lines.next() {
            heard += u32::from(answers.hear(&line));
            if heard == 0 {
                continue;
            }
            let kill_at = *deadline.get_or_insert_with(|| Instant::now() + random_ms(150));
            if crash_at.is_none() && Instant::now() >= kill_at {
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success(), "it was killed, it did not end");
        assert!(heard > 0 || crash_at.is_some());

        let store = Store::open(dir.path(), NOW).unwrap();
        for (writer, n) in &mut answers.newest {
            let object = store.get(&configmaps(), "d", &format!("w{writer}"));
            let found = object.map_or(0, |object| number(&object));
            assert!(
                found >= *n && found <= *n + 1,
                "writer {writer}: answered {n}, found {found}"
            );
            // The next process begins behind what was stored, whether this one lived to answer it or not.
            *n = found;
        }
        assert!(
            answers
                .revisions
                .last()
                .is_none_or(|newest| store.revision().0 >= *newest)
        );
        assert_eq!(store.check().unwrap(), []);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.close());
    }
    assert!(answers.newest.len() as u64 == WRITERS && answers.revisions.len() > 20);
}

#[tokio::test]
async fn a_log_cut_anywhere_opens_to_a_prefix_of_the_commits() {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let store = Store::open(dir.path(), NOW).unwrap();
    let mut history: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new()];
    for n in 0..40 {
        let mut state = history.last().unwrap().clone();
        let name = format!("o{}", n % 7);
        if n % 5 == 4 && state.remove(&name).is_some() {
            let delete = Op::Delete {
                resource: configmaps(),
                namespace: "d".into(),
                name,
                expect: Expect::Any,
            };
            store.commit(vec![delete]).await.unwrap();
        } else {
            store
                .commit(vec![put(&configmaps(), &name, n), put(&configmaps(), "both", n)])
                .await
                .unwrap();
            state.insert(name, n);
            state.insert("both".into(), n);
        }
        history.push(state);
    }
    let log = std::fs::read(dir.path().join("hub.db-wal")).unwrap();
    let database = std::fs::read(dir.path().join("hub.db")).unwrap();
    let mut prefixes = BTreeSet::new();
    for step in 0..60 {
        let copy = tempfile::tempdir().unwrap();
        let mut cut = log[..log.len() * step / 60 + step].to_vec();
        if step % 3 == 2 && !cut.is_empty() {
            let at = cut.len() * 7 / 8;
            cut[at] ^= 0x10;
        }
        std::fs::write(copy.path().join("hub.db"), &database).unwrap();
        std::fs::write(copy.path().join("hub.db-wal"), cut).unwrap();
        std::fs::copy(dir.path().join("storage.key"), copy.path().join("storage.key")).unwrap();
        let opened = Store::open(copy.path(), NOW).unwrap();
        let items = opened.list(&configmaps(), None).items;
        let state: BTreeMap<String, u64> = items
            .iter()
            .map(|object| (object.name.clone(), number(object)))
            .collect();
        let prefix = history.iter().position(|known| *known == state);
        prefixes.insert(prefix.unwrap_or_else(|| panic!("step {step}: {state:?} was never the state")));
        assert_eq!(opened.check().unwrap(), []);
        opened.close().await;
    }
    assert!(prefixes.len() > 20, "the cuts hit different places: {prefixes:?}");
}

#[tokio::test]
async fn a_full_disk_refuses_writes_answers_reads_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let small = Options {
        database_bytes: 600 << 10,
    };
    let store = Store::open_with(dir.path(), NOW, small).unwrap();
    let noise = |n: u64| {
        let mut bytes = vec![0; 8 << 10];
        SystemRandom::new().fill(&mut bytes).unwrap();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("o{n}");
        Op::Put {
            resource: configmaps(),
            namespace: "d".into(),
            name: name.clone(),
            expect: Expect::Absent,
            object: json!({"metadata": {"name": name}, "n": n, "noise": text}),
        }
    };
    let mut stored = 0;
    let refusal = loop {
        match store.commit(vec![noise(stored)]).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1_000, "the file has a cap");
    };
    assert!(
        matches!(refusal, CommitError::Store(StoreError::ReadOnly { .. })),
        "{refusal}"
    );
    assert!(stored > 5);
    let before = store.revision();
    assert_eq!(
        store.list(&configmaps(), None).items.len() as u64,
        stored,
        "reads go on, nothing half-done"
    );
    assert!(store.commit(vec![noise(stored)]).await.is_err());
    assert_eq!(store.revision(), before);
    store.close().await;
    let store = Store::open(dir.path(), NOW).unwrap();
    let next = store.commit(vec![noise(stored)]).await.unwrap();
    assert!(next[0].revision > before, "with room it goes on");
    assert_eq!(store.list(&configmaps(), None).items.len() as u64, stored + 1);
    assert_eq!(store.check().unwrap(), []);
}

#[tokio::test]
async fn a_restored_backup_jumps_and_continues_no_watch() {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let store = Store::open(dir.path(), NOW).unwrap();
    store.commit(vec![put(&configmaps(), "a", 1)]).await.unwrap();
    let copy = tempfile::tempdir().unwrap();
    store.backup(&copy.path().join("hub.db")).unwrap();
    assert!(matches!(
        store.backup(&copy.path().join("hub.db")),
        Err(StoreError::Exists { .. })
    ));
    let later = store.commit(vec![put(&configmaps(), "a", 2)]).await.unwrap()[0].revision;
    assert!(
        matches!(Store::open(copy.path(), NOW), Err(StoreError::StorageKey { .. })),
        "no keys inside"
    );
    std::fs::copy(dir.path().join("storage.key"), copy.path().join("storage.key")).unwrap();
    let restored = Store::open(copy.path(), NOW).unwrap();
    assert_eq!(number(&restored.get(&configmaps(), "d", "a").unwrap()), 1);
    assert!(restored.revision().0 >= later.0 + limits::BACKUP_JUMP - limits::REVISION_BLOCK);
    assert!(restored.watch(Some(&configmaps()), later).is_err());
    let jumped = restored.revision();
    restored.close().await;
    let again = Store::open(copy.path(), NOW).unwrap();
    assert!(
        again.revision().0 < jumped.0 + limits::BACKUP_JUMP / 2,
        "it jumps once"
    );
    assert_eq!(again.fleet(), store.fleet());
}

#[tokio::test]
async fn a_directory_copied_back_repeats_no_revision() {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let store = Store::open(dir.path(), NOW).unwrap();
    store.commit(vec![put(&configmaps(), "a", 1)]).await.unwrap();
    store.close().await;
    let database = std::fs::read(dir.path().join("hub.db")).unwrap();
    let store = Store::open(dir.path(), NOW.plus(60)).unwrap();
    let later = store.commit(vec![put(&configmaps(), "a", 2)]).await.unwrap()[0].revision;
    store.close().await;
    std::fs::write(dir.path().join("hub.db"), database).unwrap();
    let store = Store::open(dir.path(), NOW.plus(120)).unwrap();
    assert!(store.revision() > later);
    assert!(
        store.watch(Some(&configmaps()), later).is_err(),
        "what it saw never happened here"
    );
}

#[tokio::test]
async fn an_unreadable_row_is_named_and_everything_else_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path()).unwrap();
    let store = Store::open(dir.path(), NOW).unwrap();
    for name in ["a", "b"] {
        store.commit(vec![put(&configmaps(), name, 1)]).await.unwrap();
    }
    let before = store.revision();
    store.close().await;
    drop(store);
    let spoil = |sql: &str| {
        let db = rusqlite::Connection::open(dir.path().join("hub.db")).unwrap();
        db.execute(sql, []).unwrap();
    };
    spoil("UPDATE object SET body = x'00' WHERE name = 'a'");
    let store = Store::open(dir.path(), NOW).unwrap();
    let found = store.quarantined();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].what, "configmaps d/a");
    assert!(store.get(&configmaps(), "d", "a").is_none() && store.get(&configmaps(), "d", "b").is_some());
    assert!(store.is_quarantined(&configmaps(), "d", "a").is_some());
    assert!(store.check().unwrap().contains(&found[0]));
    assert!(
        store.watch(Some(&configmaps()), Revision(before.0 - 2)).is_err(),
        "the history begins after what it cannot tell"
    );
    store.commit(vec![put(&configmaps(), "a", 2)]).await.unwrap();
    assert_eq!(store.quarantined(), []);
    store.close().await;
    drop(store);
    // What was overwritten is in the history and still not readable; the object is.
    let store = Store::open(dir.path(), NOW).unwrap();
    assert_eq!(number(&store.get(&configmaps(), "d", "a").unwrap()), 2);
    assert_eq!(store.quarantined(), []);
    store.close().await;
    drop(store);
    spoil("UPDATE change SET before = x'00' WHERE before IS NOT NULL");
    assert_eq!(
        Store::open(dir.path(), NOW)
            .unwrap()
            .list(&configmaps(), None)
            .items
            .len(),
        2
    );
}
