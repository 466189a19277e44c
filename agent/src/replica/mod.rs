//! Several agents for one cluster, for instance one on each node: one leads, the others keep up and wait.
//!
//! Only the one that leads dials the hub and writes to the member. What it must not forget it shares through Secrets in
//! the agent's own namespace (design, section 9); the others keep it in their own ledgers too. Without a hub nothing is
//! different: lease, anchor and mirror are in the member itself.

mod anchor;
mod enrol;
mod follow;
mod mirror;
mod seat;
mod secrets;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use agent_core::mirror::MirrorError;
use agent_core::session::Session;
use anyhow::{Result, anyhow};
use shared::ids::Incarnation;
use shared::reason::Reason;
use thiserror::Error;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::clock::Monotonic;
use crate::identity::Enrolment;
use crate::ledger::{Ledger, LedgerError, OpenError, facts};
use crate::limits::FOLLOW_EVERY;
use crate::member::api::Api;
use crate::member::errors::ApiError;
use crate::member::fence::Fence;
use crate::random::Random;
use crate::run::{Ended, Signals};
use crate::systemd::Manager;

pub use enrol::{Found, Place, join};
pub(crate) use mirror::Mirror;

use anchor::Anchor;
use follow::Follower;
use seat::Seat;
use secrets::Secrets;

/// What makes an agent one of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The agents' own namespace.
    pub namespace: String,
    /// Name of this one, for people who look at the lease: its node or machine.
    pub name: String,
}

/// Why what is shared cannot be used or written.
#[derive(Debug, Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(
        "{0}; if it cannot be mended, delete the Secrets labelled fleet.pinnace.dev/mirror: the agent that leads next shares what its disk holds"
    )]
    Damaged(#[from] MirrorError),
    #[error("no room: {0}")]
    Full(String),
    #[error("another agent has begun to lead")]
    Overtaken,
    #[error("a content of the set is not in the ledger")]
    ContentMissing,
    #[error(
        "the cluster's agents are enrolled as {found}, this one as {here}: empty its data directory to follow them, or delete the Secret pinnace-anchor to lead them"
    )]
    OtherEnrolment { found: Incarnation, here: Incarnation },
}

impl Trouble {
    /// The stable code.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Api(e) => e.reason,
            Self::Full(_) | Self::Damaged(MirrorError::TooLarge(_)) => Reason::MirrorFull,
            Self::Damaged(_) => Reason::Malformed,
            Self::Ledger(_) | Self::Open(_) | Self::Overtaken | Self::ContentMissing => Reason::Pending,
            Self::OtherEnrolment { .. } => Reason::ClusterChanged,
        }
    }
}

/// What an agent holds while it leads.
#[derive(Clone)]
pub(crate) struct Office {
    pub(crate) fence: Rc<Fence>,
    pub(crate) mirror: Rc<Mirror>,
}

/// What stays from term to term.
pub(crate) struct Desk<'a> {
    pub(crate) enrolment: &'a Enrolment,
    pub(crate) data: PathBuf,
    pub(crate) api: Api,
    pub(crate) clock: Monotonic,
    pub(crate) random: Random,
}

/// Waits and leads in turn, until a signal asks for an orderly end. `lead` is one term.
pub(crate) async fn run<F>(
    options: &Options,
    desk: Desk<'_>,
    signals: &mut Signals,
    manager: &mut Manager,
    mut lead: F,
) -> Result<()>
where
    F: AsyncFnMut(Rc<RefCell<Ledger>>, Office, &mut Signals, &mut Manager) -> Result<Ended>,
{
    let me = format!("{}_{}", options.name, desk.random.boot());
    let seat = Rc::new(Seat::new(desk.api.clone(), &options.namespace, me, desk.clock));
    let secrets = Secrets::new(desk.api.clone(), &options.namespace);
    let mut follower = Follower::new(secrets.clone(), Session::owner(&desk.enrolment.receipt));
    manager.ready();
    loop {
        tracing::info!(name = %options.name, "waiting to lead");
        if stand_by(&seat, &mut follower, &desk, signals, manager).await? {
            manager.stopping();
            return Ok(());
        }
        let begun = Instant::now();
        let fence = Rc::new(Fence::new(desk.clock));
        let keeping = spawn_local({
            let (seat, fence) = (seat.clone(), fence.clone());
            async move { seat.keep(fence).await }
        });
        // The first renewal moves the fence; it is known to hold from the look that took the lease.
        seat.until().into_iter().for_each(|until| fence.raise(until));
        let ended = match take_over(&follower, &secrets, &desk, &fence).await {
            Ok((ledger, mirror)) => {
                let millis = begun.elapsed().as_millis();
                tracing::info!(name = %options.name, millis, "leading");
                let office = Office {
                    fence: fence.clone(),
                    mirror: Rc::new(mirror),
                };
                lead(ledger, office, signals, manager).await
            }
            Err(Trouble::Ledger(e)) if e.is_corrupt() => {
                let ledger = Ledger::open(&desk.data)?;
                Err(ledger.quarantine(&desk.data, &e).into())
            }
            Err(Trouble::Open(e)) => Err(e.into()),
            Err(e @ Trouble::OtherEnrolment { .. }) => Err(anyhow!("{e}")),
            Err(e) => {
                tracing::warn!(reason = %e.reason(), "this agent cannot lead: {e}");
                Ok(Ended::Deposed)
            }
        };
        keeping.abort();
        fence.end();
        seat.release().await;
        match ended? {
            Ended::Stopped => return Ok(()),
            // Another one may be better off.
            Ended::Deposed => {
                tracing::info!(name = %options.name, "leading no more");
                sleep(seat.pause()).await;
            }
        }
    }
}

/// Keeps up until the lease is ours; true: a signal asked for an end.
async fn stand_by(
    seat: &Seat,
    follower: &mut Follower,
    desk: &Desk<'_>,
    signals: &mut Signals,
    manager: &mut Manager,
) -> Result<bool> {
    let mut ledger = Ledger::open(&desk.data)?;
    let mut followed: Option<Instant> = None;
    loop {
        manager.turning();
        tokio::select! {
            biased;
            signal = signals.any() => {
                tracing::info!(signal, "stopping");
                return Ok(true);
            }
            () = seat.look() => {}
        }
        if seat.until().is_some() {
            return Ok(false);
        }
        if followed.is_none_or(|at| at.elapsed() >= FOLLOW_EVERY) {
            match follower.follow(&mut ledger, desk.enrolment).await {
                Ok(()) => followed = Some(Instant::now()),
                Err(Trouble::Ledger(e)) if e.is_corrupt() => {
                    return Err(ledger.quarantine(&desk.data, &e).into());
                }
                Err(e @ Trouble::OtherEnrolment { .. }) => return Err(anyhow!("{e}")),
                Err(e) => tracing::debug!(leader = %seat.holder(), "cannot keep up yet: {e}"),
            }
        }
        let patience = manager.patience().unwrap_or(FOLLOW_EVERY);
        tokio::select! {
            biased;
            signal = signals.any() => {
                tracing::info!(signal, "stopping");
                return Ok(true);
            }
            () = sleep(seat.pause().min(patience)) => {}
        }
    }
}

async fn take_over(
    follower: &Follower,
    secrets: &Secrets,
    desk: &Desk<'_>,
    fence: &Rc<Fence>,
) -> Result<(Rc<RefCell<Ledger>>, Mirror), Trouble> {
    let mut ledger = Ledger::open(&desk.data)?;
    let caught = follower.catch_up(&mut ledger, desk.enrolment).await?;
    let ring = facts::ring(&ledger)?.unwrap_or_else(|| desk.enrolment.ring.clone());
    let session = facts::session(&ledger)?;
    let ledger = RefCell::new(ledger);
    let mirror = Mirror::take_over(
        secrets.through(desk.api.within(fence.clone())),
        fence.clone(),
        caught,
        Anchor::of(desk.enrolment),
        session,
        &ledger,
        &ring,
    )
    .await?;
    // The session of this term is the next one after what the ledger now says.
    let before = shared::ids::Session(mirror.session().await.0.saturating_sub(1));
    facts::put_session(&ledger.borrow(), before)?;
    Ok((Rc::new(ledger), mirror))
}
