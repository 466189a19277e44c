//! `pinnace-agent import` and `export`: sets and receipts in files, for a cluster without a link.
//!
//! A set from a file goes through the same intake as one from the wire: signature, sequence, digest, contents. Only then is
//! it committed; the agent then acts on it as on any other.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use agent_core::intake::{Demand, Intake};
use agent_core::session::Session;
use anyhow::{Context, Result, anyhow, bail};
use shared::bundle::Encoding;
use shared::ids::{Digest, Sequence};
use shared::keys::{KeyRing, SigningKey};
use shared::limits::{CARRIED_BYTES_MAX, CHUNK_BYTES_MAX, EXPORT_BYTES_MAX, MESSAGE_BYTES_MAX};
use shared::reason::Reason;
use shared::set::DeleteMode;
use shared::time::Millis;
use shared::wire::{
    ApplyState, Carried, Chunk, Export, Health, ObjectReport, Offer, TombstoneDone, TombstoneOutcome, Up,
    Want, What, decode_export, encode_carried, encode_set,
};

use crate::identity;
use crate::ledger::{Ledger, facts};
use crate::lock;

/// Bytes of an envelope's header, beyond what a file may hold.
const HEADER: u64 = 64;

/// Takes a set from a file into the ledger of a stopped agent; says what was taken.
///
/// # Errors
/// With the reason code of the refusal; nothing is changed then but the keys that the file proves.
pub fn import(data: &Path, file: &Path) -> Result<String> {
    let enrolment = identity::load(data)?;
    let _lock = lock::take(data)?;
    let mut ledger = Ledger::open(data)?;
    let receipt = &enrolment.receipt.receipt;
    let key = facts::sealing(&ledger)?.context(
        "this agent has no key for files yet: it gets one when it talks with its hub for the first time",
    )?;
    let bytes = read(file, EXPORT_BYTES_MAX as u64 + HEADER)?;
    let export = decode_export(&bytes, &receipt.cluster, receipt.incarnation, &key)
        .map_err(|e| anyhow!("{}: {e}", e.reason()))
        .with_context(|| file.display().to_string())?;
    drop(bytes);
    let mut ring = facts::ring(&ledger)?.unwrap_or_else(|| enrolment.ring.clone());
    let newest = ring.newest();
    for statement in &export.statements {
        ring.learn(statement)
            .map_err(|e| anyhow!("{}: {e}", e.reason()))?;
    }
    let held = ledger.held(&ring)?;
    let (held, known) = held.map_or((None, Default::default()), |h| (Some(h.held), h.facts));
    let mut intake = Intake::new(Session::owner(&enrolment.receipt), held, known);
    intake.handle_offer(&offer(&export), &ring, &ledger, Millis(0));
    let accepted = converse(&mut intake, &export, &ring, &mut ledger)?;
    if ring.newest() > newest {
        facts::put_ring(&ledger, &ring)?;
    }
    Ok(format!(
        "set {accepted} of {} is accepted; start the agent, and carry back what `pinnace-agent export` writes",
        receipt.cluster
    ))
}

fn offer(export: &Export) -> Offer {
    let head = &export.head.head;
    Offer {
        sequence: head.sequence,
        digest: head.digest,
        key_number: head.key_number,
        signature: export.head.signature,
        base: Sequence(0),
        delta: None,
        inline: Vec::new(),
    }
}

/// Answers what the intake asks for from the file, until it accepts or refuses.
fn converse(intake: &mut Intake, export: &Export, ring: &KeyRing, ledger: &mut Ledger) -> Result<Sequence> {
    loop {
        let demands = intake.take_demands();
        if demands.is_empty() {
            bail!("{}: the file lacks a part of its set", Reason::Malformed);
        }
        for demand in demands {
            match demand {
                Demand::Keep(contents) => ledger.keep(&contents)?,
                Demand::Commit { held, contents } => {
                    ledger.commit(&held, &contents)?;
                    intake.handle_committed();
                }
                Demand::Send(message) => match *message {
                    Up::Want(want) => {
                        let chunk = answer(&want, export)?;
                        intake.handle_chunk(&chunk, ring, &*ledger, Millis(0));
                    }
                    Up::Ack(ack) => return Ok(ack.sequence),
                    Up::Refused(refused) => bail!("{}: {}", refused.reason, refused.detail),
                    _ => {}
                },
            }
        }
    }
}

fn answer(want: &Want, export: &Export) -> Result<Chunk> {
    let (whole, descriptor) = match want.what {
        What::Set(_) => (std::borrow::Cow::Owned(encode_set(&export.set)), None),
        What::Content(digest) => {
            let found = export
                .contents
                .iter()
                .find(|(d, _)| d.descriptor.digest == digest);
            let (signed, bytes) = found
                .with_context(|| format!("{}: content {digest} is not in the file", Reason::Malformed))?;
            let descriptor = (signed.descriptor.key_number, signed.signature);
            (std::borrow::Cow::Borrowed(bytes.as_slice()), Some(descriptor))
        }
    };
    let offset = want.offset as usize;
    let part = whole.get(offset..).unwrap_or_default();
    Ok(Chunk {
        what: want.what,
        offset: want.offset,
        total: u32::try_from(whole.len())?,
        sha256: Digest::of(&whole),
        encoding: Encoding::Raw,
        length: u32::try_from(whole.len())?,
        descriptor: descriptor.filter(|_| offset == 0),
        bytes: part
            .get(..part.len().min(CHUNK_BYTES_MAX))
            .unwrap_or(part)
            .to_vec(),
    })
}

/// Writes a signed receipt; changes nothing, also beside a running agent.
///
/// # Errors
/// When no set is held, or the ledger cannot be read, or the file not written.
pub fn export(data: &Path, file: &Path) -> Result<String> {
    let enrolment = identity::load(data)?;
    let ledger = Ledger::open_readonly(data)?;
    let ring = facts::ring(&ledger)?.unwrap_or_else(|| enrolment.ring.clone());
    let held = ledger.held(&ring)?.context("no set is held yet")?.held;
    let receipt = &enrolment.receipt.receipt;
    let carried = Carried {
        cluster: receipt.cluster.clone(),
        incarnation: receipt.incarnation,
        sequence: held.head.head.sequence,
        digest: held.head.head.digest,
        session: facts::session(&ledger)?,
        journal: ledger.journal_number()?,
        objects: objects(&ledger, &held.set)?,
        tombstones_done: buried(&ledger, &held.set)?,
    };
    let identity = SigningKey::from_pkcs8(&enrolment.key)?;
    let bytes = encode_carried(&carried, &identity).map_err(|e| anyhow!("{}: {e}", e.reason()))?;
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)
        .and_then(|mut f| f.write_all(&bytes).and_then(|()| f.sync_all()))
        .with_context(|| file.display().to_string())?;
    Ok(format!(
        "receipt for set {} with {} objects; on the hub: pinnace cluster receipt {} FILE",
        carried.sequence,
        carried.objects.len(),
        carried.cluster
    ))
}

/// What the ledger says of every object that the set wants.
fn objects(ledger: &Ledger, set: &shared::set::Set) -> Result<Vec<ObjectReport>> {
    let rows = ledger.rows()?;
    let problems = ledger.problems()?;
    let all = set.entries().iter().map(|entry| {
        let record = rows.get(&entry.key).and_then(|row| row.record.as_ref());
        let problem = problems.iter().find(|p| p.object == entry.key.to_string());
        let done = record.is_some_and(|r| r.content == entry.digest && r.template_uid == entry.template_uid);
        let (applied, reason, message) = match (problem, done) {
            (Some(p), _) => (
                ApplyState::Failed,
                p.reason.parse().unwrap_or(Reason::Pending),
                p.message.clone(),
            ),
            (None, true) => (ApplyState::Applied, Reason::Applied, String::new()),
            (None, false) if entry.suspended => (ApplyState::Suspended, Reason::Suspended, String::new()),
            (None, false) => (ApplyState::Pending, Reason::Pending, String::new()),
        };
        ObjectReport {
            key: entry.key.clone(),
            digest: record.map_or(entry.digest, |r| r.content),
            template_generation: entry.template_generation,
            applied,
            // The ledger keeps no status; what is there is said, not how it does.
            health: Health::Unknown,
            reason: reason.into(),
            message: message.chars().take(MESSAGE_BYTES_MAX / 4).collect(),
            uid: record.map(|r| r.uid.clone()).unwrap_or_default(),
            status: Vec::new(),
            age_ms: 0,
            age_is_lower_bound: true,
        }
    });
    Ok(all.collect())
}

fn buried(ledger: &Ledger, set: &shared::set::Set) -> Result<Vec<TombstoneDone>> {
    let rows = ledger.rows()?;
    let done = set.tombstones().iter().filter(|t| !rows.contains_key(&t.key));
    Ok(done
        .map(|t| TombstoneDone {
            key: t.key.clone(),
            sequence: t.sequence,
            outcome: match t.mode {
                DeleteMode::Delete => TombstoneOutcome::Deleted,
                DeleteMode::Release => TombstoneOutcome::Released,
            },
        })
        .collect())
}

fn read(file: &Path, limit: u64) -> Result<Vec<u8>> {
    let what = || file.display().to_string();
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .with_context(what)?
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .with_context(what)?;
    if bytes.len() as u64 > limit {
        bail!(
            "{}: {} has more than {limit} bytes",
            Reason::OverLimit,
            file.display()
        );
    }
    Ok(bytes)
}

const _: () = assert!(CARRIED_BYTES_MAX < EXPORT_BYTES_MAX);
