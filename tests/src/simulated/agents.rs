//! Simulated clusters: the real agent's conversation over its real connection to the real gateway, with a ledger in
//! memory. What costs a member, not the hub, is shared: a content is verified once for all of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use agent::clock::Monotonic;
use agent::link::{Link, LinkCommand, LinkEvent, Route};
use agent::random::Random;
use agent_core::holdings::{Content, Holdings};
use agent_core::intake::Intake;
use agent_core::session::{Effect, Enrolled, Identity, Member, Session};
use anyhow::{Context, Result, bail};
use shared::ids::{BootId, Digest, ReportSeq};
use shared::join::JoinLine;
use shared::keys::{KeyRing, SignedReceipt, SigningKey};
use shared::reason::Reason;
use shared::set::Entry;
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, Capacity, Health, ObjectReport, Report};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{sleep_until, timeout};

/// Clusters that connect at the same time; the gateway takes 64 unproven ones from one address.
const CONNECTING: usize = 24;
/// Objects in one report, within the agent's own byte budget.
const REPORTED_TOGETHER: usize = 100;

/// What all clusters hold together, for whoever waits for it.
#[derive(Debug)]
pub struct Progress {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    workloads: Vec<usize>,
    reported: Vec<usize>,
    connected: usize,
    last: Instant,
    last_report: Instant,
    failure: Option<String>,
}

/// A look at the progress.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Clusters in conversation with the hub.
    pub connected: usize,
    /// Deployments held, over all clusters.
    pub workloads: usize,
    /// Statuses that the hub has taken, over all clusters.
    pub reported: usize,
    /// When one accepted a set last.
    pub last: Instant,
    /// When the hub took a report with statuses last.
    pub last_report: Instant,
}

impl Progress {
    fn new(clusters: usize) -> Self {
        Self {
            state: Mutex::new(State {
                workloads: vec![0; clusters],
                reported: vec![0; clusters],
                connected: 0,
                last: Instant::now(),
                last_report: Instant::now(),
                failure: None,
            }),
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// How far they are.
    ///
    /// # Errors
    /// One of them failed.
    pub fn look(&self) -> Result<Seen> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = &state.failure {
            bail!("a simulated cluster failed: {failure}");
        }
        Ok(Seen {
            connected: state.connected,
            workloads: state.workloads.iter().sum(),
            reported: state.reported.iter().sum(),
            last: state.last,
            last_report: state.last_report,
        })
    }
}

/// Contents that any of the clusters has verified.
#[derive(Debug, Default)]
struct Shelf(RefCell<HashMap<Digest, Content>>);

impl Holdings for Shelf {
    fn has(&self, digest: &Digest) -> bool {
        self.0.borrow().contains_key(digest)
    }

    fn content(&self, digest: &Digest) -> Option<Content> {
        self.0.borrow().get(digest).cloned()
    }
}

/// The running clusters; they end when this is dropped.
pub struct Clusters {
    progress: Arc<Progress>,
    reports: watch::Sender<Option<Duration>>,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Clusters {
    /// Joins clusters with these lines and lets them talk, all on one thread. Each reports its capacity.
    pub fn start(lines: Vec<(JoinLine, Capacity)>) -> Self {
        let progress = Arc::new(Progress::new(lines.len()));
        let (reports, reports_asked) = watch::channel(None);
        let (stop, mut stopped) = watch::channel(false);
        let told = progress.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return told.change(|state| state.failure = Some(error.to_string())),
            };
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let common = Rc::new(Common {
                    shelf: Shelf::default(),
                    progress: told,
                    doors: Semaphore::new(CONNECTING),
                    random: Random::new(),
                    reports: reports_asked,
                });
                for (index, (line, capacity)) in lines.into_iter().enumerate() {
                    let common = common.clone();
                    spawn_local(async move {
                        if let Err(error) = common.clone().live(index, line, capacity).await {
                            common
                                .progress
                                .change(|state| state.failure = Some(format!("{error:#}")));
                        }
                    });
                }
                // An error means that the owner is gone: the same.
                let _ended = stopped.changed().await;
            });
        });
        Self {
            progress,
            reports,
            stop,
            thread: Some(thread),
        }
    }

    /// How far they are.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// From now on every object held is reported as applied and healthy.
    pub fn report(&self) {
        self.reports.send_replace(Some(Duration::ZERO));
    }

    /// From now on every cluster reports all that it holds this often, each time with another status, the clusters spread
    /// evenly over the time between. `None` ends it.
    pub fn report_every(&self, time: Option<Duration>) {
        self.reports.send_replace(time);
    }
}

impl Drop for Clusters {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // It panicked: said already.
            drop(thread.join());
        }
    }
}

/// What the clusters of one thread share.
struct Common {
    shelf: Shelf,
    progress: Arc<Progress>,
    doors: Semaphore,
    random: Random,
    /// How often all is reported again; zero: once.
    reports: watch::Receiver<Option<Duration>>,
}

/// An enrolment.
struct Joined {
    receipt: SignedReceipt,
    ring: KeyRing,
    identity: Identity,
}

impl Common {
    async fn live(self: Rc<Self>, index: usize, line: JoinLine, capacity: Capacity) -> Result<()> {
        let name = line.cluster.to_string();
        let door = self.doors.acquire().await?;
        let within = Duration::from_secs(60);
        let joined = timeout(within, self.join(&line)).await;
        let joined = joined.with_context(|| format!("{name}: no answer to its join"))?;
        let joined = joined.with_context(|| format!("{name} joins"))?;
        let owner = Session::owner(&joined.receipt);
        let session = Session::enrolled(
            joined.identity.clone(),
            Enrolled {
                receipt: joined.receipt,
                ring: joined.ring,
                proposed: shared::ids::Session(1),
                confirmed: UnixSeconds(0),
                intake: Intake::new(owner, None, BTreeMap::new()),
            },
        );
        let member = self.member(&name);
        let mut cluster = Cluster {
            common: self.clone(),
            index,
            session,
            boot: joined.identity.boot,
            clock: Monotonic::start(),
            next: ReportSeq(1),
            capacity: Some(capacity),
            unreported: VecDeque::new(),
            reporting: 0,
            round: 0,
            again: None,
        };
        cluster.session.handle_member(member);
        cluster.run(self.link(&line)?, door).await.context(name)
    }

    fn link(&self, line: &JoinLine) -> Result<Link> {
        let route = Route {
            hub: line.hub.clone(),
            tls_ca: None,
            proxy: None,
        };
        Ok(Link::new(&route, &line.cluster, self.random.clone())?)
    }

    fn member(&self, name: &str) -> Member {
        Member {
            kube_system_uid: format!("uid-of-{name}"),
            kubernetes_version: "v1.36.0".to_owned(),
        }
    }

    async fn join(&self, line: &JoinLine) -> Result<Joined> {
        let (key, _pkcs8) = SigningKey::generate(self.random.source())?;
        let identity = Identity {
            cluster: line.cluster.clone(),
            pin: line.root,
            key: Arc::new(key),
            boot: self.random.boot(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut session = Session::joining(identity.clone(), line.token.clone());
        session.handle_member(self.member(line.cluster.as_str()));
        let clock = Monotonic::start();
        let (commands, mut events) = connect(self.link(line)?);
        let mut ring = None;
        loop {
            for effect in session.take_effects() {
                match effect {
                    Effect::Send(payload) => drop(commands.try_send(LinkCommand::Send(payload))),
                    Effect::Reconnect => drop(commands.try_send(LinkCommand::Reconnect)),
                    Effect::Learnt(learnt) => ring = Some(*learnt),
                    Effect::Joined(receipt) => {
                        let ring = ring.context("the hub showed no keys")?;
                        return Ok(Joined {
                            receipt: *receipt,
                            ring,
                            identity,
                        });
                    }
                    Effect::JoinRefused { reason, detail } => bail!("refused: {reason}: {detail}"),
                    _ => {}
                }
            }
            let wake = session.next_wake().map_or(60_000, |at| at.since(clock.now()));
            let deadline = tokio::time::Instant::now() + Duration::from_millis(wake.max(1));
            tokio::select! {
                event = events.recv() => match event.context("the connection ended")? {
                    LinkEvent::Connected => session.handle_connected(self.random.source(), clock.now()),
                    LinkEvent::Payload(payload) => {
                        session.handle_payload(&payload, &self.shelf, clock.now());
                    }
                    LinkEvent::Disconnected(_) => session.handle_disconnected(),
                },
                () = sleep_until(deadline) => {
                    session.handle_tick(self.random.source(), self.random.number(), clock.now());
                }
            }
        }
    }
}

/// Runs a connection; it ends when both channels are dropped.
fn connect(link: Link) -> (mpsc::Sender<LinkCommand>, mpsc::Receiver<LinkEvent>) {
    let (commands, commands_in) = mpsc::channel(64);
    let (events_out, events) = mpsc::channel(8);
    spawn_local(link.run(events_out, commands_in));
    (commands, events)
}

/// One simulated cluster.
struct Cluster {
    common: Rc<Common>,
    index: usize,
    session: Session,
    boot: BootId,
    clock: Monotonic,
    next: ReportSeq,
    /// To be reported.
    capacity: Option<Capacity>,
    unreported: VecDeque<Arc<Entry>>,
    /// Statuses in the report that is on its way.
    reporting: usize,
    /// How often everything was reported.
    round: u64,
    /// When everything is reported next, and the time between.
    again: Option<(tokio::time::Instant, Duration)>,
}

impl Cluster {
    /// Talks for ever. The door is free for another once the conversation is open.
    async fn run(mut self, link: Link, door: SemaphorePermit<'_>) -> Result<()> {
        let common = self.common.clone();
        let random = &common.random;
        let (commands, mut events) = connect(link);
        let mut reports = common.reports.clone();
        let mut door = Some(door);
        loop {
            self.carry_out(&commands)?;
            if door.is_some() && self.session.is_open() {
                door = None;
                common.progress.change(|state| state.connected += 1);
            }
            if self.session.wants_report()
                && let Some(report) = self.report()
            {
                self.session.handle_report(report, self.clock.now());
                continue;
            }
            let wake = self
                .session
                .next_wake()
                .map_or(60_000, |at| at.since(self.clock.now()));
            let deadline = tokio::time::Instant::now() + Duration::from_millis(wake.max(1));
            tokio::select! {
                event = events.recv() => match event.context("the connection ended")? {
                    LinkEvent::Connected => self.session.handle_connected(random.source(), self.clock.now()),
                    LinkEvent::Payload(payload) => {
                        self.session.handle_payload(&payload, &common.shelf, self.clock.now());
                    }
                    LinkEvent::Disconnected(why) => {
                        // The measurement counts on everybody being there.
                        bail!("the hub's gateway closed the connection: {why}");
                    }
                },
                changed = reports.changed() => {
                    changed.context("the measurement is over")?;
                    let every = *reports.borrow_and_update();
                    self.again = every.filter(|every| !every.is_zero()).map(|every| {
                        // Clusters report in turn, not all at once.
                        let turn = (self.index as f64 * 0.618_034).fract();
                        (tokio::time::Instant::now() + every.mul_f64(turn), every)
                    });
                    if every.is_some() && self.again.is_none() {
                        self.report_all();
                    }
                }
                () = sleep_until(self.again.map_or(deadline, |(at, _)| at)), if self.again.is_some() => {
                    if let Some((at, every)) = &mut self.again {
                        *at += *every;
                    }
                    // One that is behind reports what it has then.
                    if self.unreported.is_empty() {
                        self.report_all();
                    }
                }
                () = sleep_until(deadline) => {
                    self.session.handle_tick(random.source(), random.number(), self.clock.now());
                }
            }
        }
    }

    fn report_all(&mut self) {
        self.round += 1;
        let held = self
            .session
            .held()
            .map(|held| held.set.clone())
            .unwrap_or_default();
        self.unreported = held.entries().iter().cloned().collect();
    }

    fn carry_out(&mut self, commands: &mpsc::Sender<LinkCommand>) -> Result<()> {
        loop {
            let effects = self.session.take_effects();
            if effects.is_empty() {
                return Ok(());
            }
            for effect in effects {
                match effect {
                    Effect::Send(payload) => commands
                        .try_send(LinkCommand::Send(payload))
                        .context("the connection does not take what is sent")?,
                    Effect::Reconnect => drop(commands.try_send(LinkCommand::Reconnect)),
                    Effect::Keep(contents) => self.keep(contents),
                    Effect::Commit { held, contents } => {
                        self.keep(contents);
                        let workloads = held
                            .set
                            .entries()
                            .iter()
                            .filter(|entry| entry.key.kind == "Deployment");
                        let (index, count) = (self.index, workloads.count());
                        self.session.handle_committed();
                        self.common.progress.change(|state| {
                            state.workloads[index] = count;
                            state.last = Instant::now();
                        });
                    }
                    Effect::Agreed(_) => self.next = ReportSeq(1),
                    Effect::Reported(_) => {
                        let (index, count) = (self.index, std::mem::take(&mut self.reporting));
                        self.common.progress.change(|state| {
                            state.reported[index] += count;
                            state.last_report = Instant::now();
                        });
                    }
                    Effect::Revoked(reason) => bail!("revoked: {reason}"),
                    _ => {}
                }
            }
        }
    }

    fn keep(&self, contents: Vec<Content>) {
        let mut shelf = self.common.shelf.0.borrow_mut();
        for content in contents {
            shelf.insert(content.digest(), content);
        }
    }

    /// The next report, if there is anything to say.
    fn report(&mut self) -> Option<Report> {
        if self.capacity.is_none() && self.unreported.is_empty() {
            return None;
        }
        let together = self.unreported.len().min(REPORTED_TOGETHER);
        let round = self.round;
        let objects: Vec<ObjectReport> = self
            .unreported
            .drain(..together)
            .map(|entry| healthy(&entry, round))
            .collect();
        self.reporting = objects.len();
        let report = Report {
            report_seq: self.next,
            boot: self.boot,
            objects,
            tombstones_done: Vec::new(),
            strays: None,
            capacity: self.capacity.take(),
            full: self.unreported.is_empty(),
        };
        self.next = self.next.next();
        Some(report)
    }
}

/// A work that runs as wanted.
fn healthy(entry: &Entry, round: u64) -> ObjectReport {
    // Another status each time.
    let collisions = match round {
        0 | 1 => String::new(),
        round => format!(r#""collisionCount":{round},"#),
    };
    let status = format!(
        r#"{{"availableReplicas":10,{collisions}"observedGeneration":1,"readyReplicas":10,"replicas":10,"updatedReplicas":10}}"#
    );
    ObjectReport {
        key: entry.key.clone(),
        digest: entry.digest,
        template_generation: entry.template_generation,
        applied: ApplyState::Applied,
        health: Health::Healthy,
        reason: Reason::Applied.into(),
        message: String::new(),
        uid: entry.template_uid.clone(),
        status: if entry.key.kind == "Deployment" {
            status.into_bytes()
        } else {
            Vec::new()
        },
        age_ms: 0,
        age_is_lower_bound: false,
    }
}
