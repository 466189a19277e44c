//! `pinnace-agent join`: enrols this member with a token, once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_core::holdings::{Content, Holdings};
use agent_core::session::{Effect, Identity, Member, Session};
use anyhow::{Context, Result, anyhow, bail};
use shared::ids::Digest;
use shared::join::JoinLine;
use shared::keys::{KeyRing, SigningKey};
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until, timeout};

use crate::clock::Monotonic;
use crate::identity::{self, Enrolment, IdentityError};
use crate::ledger::Ledger;
use crate::limits::{LINK_COMMANDS, LINK_EVENTS};
use crate::link::{Link, LinkCommand, LinkEvent, Route};
use crate::member::connect::connect;
use crate::member::dates::Confirmed;
use crate::member::probe;
use crate::random::Random;
use crate::replica::{self, Found};

/// What `join` is told.
#[derive(Debug, Clone)]
pub struct Options {
    /// The join line.
    pub line: JoinLine,
    /// The data directory.
    pub data: PathBuf,
    /// Kubeconfig of the member.
    pub kubeconfig: Option<PathBuf>,
    /// CA that must have signed the hub's certificate.
    pub tls_ca: Option<PathBuf>,
    /// HTTP proxy towards the hub.
    pub proxy: Option<String>,
    /// How long it is tried.
    pub within: Duration,
    /// This agent is one of several that meet in this namespace of their cluster.
    pub replicated: Option<String>,
}

/// Enrols. Repeating it for the same cluster after it succeeded does nothing.
///
/// # Errors
/// When the member or the hub cannot be reached in time, or the hub refuses.
pub async fn join(options: Options) -> Result<()> {
    identity::make_dir(&options.data)?;
    match identity::load(&options.data) {
        Ok(found)
            if found.receipt.receipt.cluster == options.line.cluster && found.pin == options.line.root =>
        {
            println!("already enrolled as {}", options.line.cluster);
            return Ok(());
        }
        Ok(found) => bail!(
            "{} is enrolled as {} already; use another directory",
            options.data.display(),
            found.receipt.receipt.cluster
        ),
        Err(IdentityError::None(_)) => {}
        Err(e) => return Err(e.into()),
    }
    let kubeconfig = options
        .kubeconfig
        .as_ref()
        .map(|path| std::fs::canonicalize(path).with_context(|| format!("kubeconfig {}", path.display())))
        .transpose()?;
    let api = connect(kubeconfig.as_deref(), &Confirmed::default()).await?;
    let version = probe::version(&api).await.context("the member's API")?;
    if probe::is_hub(&version) {
        bail!(
            "the kubeconfig points at a Pinnace hub ({version}), not at the cluster that is to join: give that one's with \
             --kubeconfig"
        );
    }
    let (uid, version) = probe::identity(&api).await.context("the member's API")?;
    // Made here, so that a disk that cannot hold it is found before the token is used.
    drop(Ledger::open(&options.data)?);
    let random = Random::new();
    let mut key = identity::pending_key(&options.data, || {
        SigningKey::generate(random.source()).map(|(_, pkcs8)| pkcs8)
    })??;
    let mut place = None;
    if let Some(namespace) = &options.replicated {
        let (meeting, found) = replica::join(&api, namespace, key).await?;
        place = Some(meeting);
        key = match found {
            Found::Key(key) => key,
            Found::Enrolled(enrolment) => return follow(&options, *enrolment, kubeconfig, &uid),
        };
    }
    let signing = Arc::new(SigningKey::from_pkcs8(&key)?);
    let who = Identity {
        cluster: options.line.cluster.clone(),
        pin: options.line.root,
        key: signing,
        boot: random.boot(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut session = Session::joining(who, options.line.token.clone());
    session.handle_member(Member {
        kube_system_uid: uid,
        kubernetes_version: version,
    });
    let route = Route {
        hub: options.line.hub.clone(),
        tls_ca: options.tls_ca,
        proxy: options.proxy,
    };
    let within = options.within;
    let link = Link::new(&route, &options.line.cluster, random.clone())?;
    let (enrolled, last) = LocalSet::new()
        .run_until(converse(session, link, random, within))
        .await;
    let (receipt, ring) = match enrolled {
        Some(done) => done?,
        None => bail!("not enrolled within {} s: {last}", within.as_secs()),
    };
    let cluster = options.line.cluster.clone();
    let enrolment = Enrolment {
        format: 1,
        hub: options.line.hub,
        pin: options.line.root,
        key,
        receipt,
        ring,
        kubeconfig,
    };
    let enrolment = match place {
        Some(place) => Enrolment {
            kubeconfig: enrolment.kubeconfig.clone(),
            ..place.enrolled(enrolment).await?
        },
        None => enrolment,
    };
    identity::save(&options.data, &enrolment)?;
    println!("enrolled as {cluster}");
    Ok(())
}

/// Another agent of this cluster has enrolled already.
fn follow(options: &Options, enrolment: Enrolment, kubeconfig: Option<PathBuf>, uid: &str) -> Result<()> {
    let receipt = &enrolment.receipt.receipt;
    if receipt.cluster != options.line.cluster || enrolment.pin != options.line.root {
        bail!(
            "the agents of this cluster are enrolled as {} with another hub or under another name; delete the Secret pinnace-anchor to enrol them anew",
            receipt.cluster
        );
    }
    if receipt.kube_system_uid != uid {
        bail!(
            "the Secret pinnace-anchor is another cluster's (kube-system {}, here {uid})",
            receipt.kube_system_uid
        );
    }
    enrolment
        .receipt
        .verify(&enrolment.ring)
        .context("the enrolment in the Secret pinnace-anchor")?;
    let cluster = receipt.cluster.clone();
    identity::save(
        &options.data,
        &Enrolment {
            kubeconfig,
            ..enrolment
        },
    )?;
    println!("enrolled as {cluster} with the other agents");
    Ok(())
}

type Done = Result<(shared::keys::SignedReceipt, KeyRing)>;

/// Talks to the hub until it is decided; none when `within` is over, with the last trouble met.
async fn converse(
    mut session: Session,
    link: Link,
    random: Random,
    within: Duration,
) -> (Option<Done>, String) {
    let (commands, commands_rx) = mpsc::channel(LINK_COMMANDS);
    let (link_tx, mut events) = mpsc::channel(LINK_EVENTS);
    let task = spawn_local(link.run(link_tx, commands_rx));
    let clock = Monotonic::start();
    let mut last = "it could not be reached".to_owned();
    let done = timeout(within, async {
        let mut ring: Option<KeyRing> = None;
        loop {
            for effect in session.take_effects() {
                match effect {
                    Effect::Send(payload) => drop(commands.try_send(LinkCommand::Send(payload))),
                    Effect::Reconnect => drop(commands.try_send(LinkCommand::Reconnect)),
                    Effect::Learnt(learnt) => ring = Some(*learnt),
                    Effect::Joined(receipt) => {
                        let ring = ring.take().ok_or_else(|| anyhow!("the hub showed no keys"))?;
                        return Ok((*receipt, ring));
                    }
                    Effect::JoinRefused { reason, detail } => bail!("the hub refused: {reason}: {detail}"),
                    _ => {}
                }
            }
            if let Some(error) = session.last_error()
                && last != error
            {
                eprintln!("not enrolled yet, trying again: {error}");
                last = error.to_owned();
            }
            let wake = session.next_wake().map_or(60_000, |at| at.since(clock.now()));
            let deadline = Instant::now() + std::time::Duration::from_millis(wake.max(1));
            tokio::select! {
                event = events.recv() => match event {
                    Some(LinkEvent::Connected) => session.handle_connected(random.source(), clock.now()),
                    Some(LinkEvent::Payload(payload)) => {
                        session.handle_payload(&payload, &Nothing, clock.now());
                    }
                    Some(LinkEvent::Disconnected(why)) => {
                        if last != why {
                            eprintln!("not enrolled yet, trying again: {why}");
                        }
                        last = why;
                        session.handle_disconnected();
                    }
                    None => bail!("the connection task ended"),
                },
                () = sleep_until(deadline) => session.handle_tick(random.source(), random.number(), clock.now()),
            }
        }
    })
    .await;
    task.abort();
    (done.ok(), last)
}

/// An agent that joins holds nothing.
struct Nothing;

impl Holdings for Nothing {
    fn has(&self, _: &Digest) -> bool {
        false
    }

    fn content(&self, _: &Digest) -> Option<Content> {
        None
    }
}
