//! `pinnace-agent leave`: the fleet lets go of this cluster, and the workloads stay unless told otherwise.
//! `pinnace-agent rebind`: the cluster behind the kubeconfig is another one now, and that is right.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use agent_core::action::{Action, Outcome};
use agent_core::order::rank;
use agent_core::record::{ObjectRecord, Origin};
use anyhow::{Context, Result, bail};
use interpreter::Native;
use shared::owned::Marker;

use crate::guard::{Keeper, Source};
use crate::identity;
use crate::ledger::{Ledger, facts};
use crate::lock;
use crate::member::applier::Applier;
use crate::member::connect::connect;
use crate::member::dates::Confirmed;
use crate::member::kinds::Kinds;
use crate::member::probe;
use crate::random::Random;

/// What `leave` is told.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory.
    pub data: std::path::PathBuf,
    /// Kubeconfig of the member instead of the one given to `join`.
    pub kubeconfig: Option<std::path::PathBuf>,
    /// Delete what we created instead of keeping it.
    pub delete_workloads: bool,
    /// The site's guard.
    pub guard: Source,
}

/// Takes our marks off every object (or deletes what we created), then sets the enrolment aside. Repeating it after it
/// stopped in the middle goes on.
///
/// # Errors
/// When the member cannot be reached or an object cannot be let go; the enrolment then stays.
pub async fn leave(options: Options) -> Result<()> {
    let _lock = lock::take(&options.data)?;
    let enrolment = identity::load(&options.data)?;
    let receipt = &enrolment.receipt.receipt;
    let ledger = Rc::new(RefCell::new(Ledger::open(&options.data)?));
    let kubeconfig = options.kubeconfig.as_deref().or(enrolment.kubeconfig.as_deref());
    let api = connect(kubeconfig, &Confirmed::default()).await?;
    let (uid, _) = probe::identity(&api).await.context("the member's API")?;
    let expected = facts::bound(&ledger.borrow())?.unwrap_or_else(|| receipt.kube_system_uid.clone());
    if uid != expected {
        bail!("this is another cluster (kube-system {uid}) than the one enrolled ({expected})");
    }
    let keeper = Rc::new(Keeper::start(options.guard)?);
    keeper.refresh(&api).await?;
    let applier = Applier::new(
        api,
        Rc::new(Kinds::default()),
        ledger.clone(),
        Box::new(Native::default()),
        keeper,
        Marker::of(receipt),
        Random::new(),
    );
    // What lives inside goes before what it lives in.
    let mut records = ledger.borrow().records()?;
    records.sort_by_key(|r| (rank(&r.key, true), r.key.clone()));
    let (mut kept, mut deleted) = (0_u32, 0_u32);
    let mut troubles = Vec::new();
    for record in records {
        let delete = options.delete_workloads && record.origin == Origin::Created;
        let key = record.key.clone();
        match applier.carry_out(action(record, delete)).await? {
            Outcome::Failed { reason, message, .. } => troubles.push(format!("{key}: {reason}: {message}")),
            _ if delete => {
                deleted += 1;
                ledger
                    .borrow_mut()
                    .drop_object(&key, crate::clock::wall_seconds().0, "deleted on leave")?;
            }
            _ => kept += 1,
        }
    }
    println!("{kept} objects are let go and stay, {deleted} are deleted");
    if !troubles.is_empty() {
        bail!(
            "{} objects could not be let go; run it again:\n  {}",
            troubles.len(),
            troubles.join("\n  ")
        );
    }
    identity::set_aside(&options.data)?;
    println!(
        "left the fleet; on the hub: `pinnace cluster revoke {0}` and `pinnace cluster remove {0}`, or `pinnace cluster replace \
         {0}` if another agent is to take its place (the agent's RBAC: `pinnace-agent rbac | kubectl delete -f -`)",
        receipt.cluster
    );
    Ok(())
}

fn action(record: ObjectRecord, delete: bool) -> Action {
    let (key, api_version, uid) = (record.key, record.api_version, record.uid);
    if delete {
        Action::Delete {
            key,
            api_version,
            uid,
            again: false,
        }
    } else {
        Action::Release {
            key,
            api_version,
            uid,
        }
    }
}

/// Accepts the cluster behind the kubeconfig as the enrolled one: k3s was reinstalled, or its data restored elsewhere.
/// Nothing in it is ours by that: records of the former cluster name uids that do not exist here.
///
/// # Errors
/// When the member cannot be asked or the ledger not written.
pub async fn rebind(data: &Path, kubeconfig: Option<&Path>) -> Result<()> {
    let _lock = lock::take(data)?;
    let enrolment = identity::load(data)?;
    let ledger = Ledger::open(data)?;
    let api = connect(
        kubeconfig.or(enrolment.kubeconfig.as_deref()),
        &Confirmed::default(),
    )
    .await?;
    let (uid, _) = probe::identity(&api).await.context("the member's API")?;
    let before = facts::bound(&ledger)?.unwrap_or_else(|| enrolment.receipt.receipt.kube_system_uid.clone());
    if before == uid {
        println!("this is the cluster that is bound already (kube-system {uid})");
        return Ok(());
    }
    facts::put_bound(&ledger, &uid)?;
    if let Some(path) = kubeconfig {
        let path = std::fs::canonicalize(path).with_context(|| path.display().to_string())?;
        identity::replace_kubeconfig(data, enrolment, path)?;
    }
    println!("bound to the cluster with kube-system {uid} instead of {before}; start the agent");
    Ok(())
}
