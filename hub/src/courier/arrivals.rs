//! The first word on a channel whose owner is not simply an enrolled agent: a join, a cluster that this hub forgot,
//! or one whose enrolment is over.

use shared::reason::Reason;
use shared::wire::{Down, Hello, JoinRefused, Joined, Revoked, Up, decode_up, encode_down};

use super::desk::Office;
use super::exchanges::Arrival;
use super::may_talk;
use crate::store::fleet::Enrolment;
use crate::{clock, enroll};

/// What becomes of an arrival.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It stays for a repetition.
    Keep(Box<Arrival>),
    /// It belongs to an enrolled cluster; its first message is opened.
    Enrolled(Box<Arrival>, Box<Up>, u64),
    /// It is dropped.
    Done,
}

/// Opens the first message and decides.
pub(super) async fn judge(office: &Office, mut arrival: Box<Arrival>, payload: &[u8]) -> Verdict {
    let up = match arrival.channel.open(payload).map(|plain| decode_up(&plain)) {
        Ok(Ok(up)) => up,
        Ok(Err(error)) => {
            tracing::debug!(cluster = %arrival.cluster, %error, "a first message cannot be read");
            return Verdict::Done;
        }
        Err(error) => {
            tracing::debug!(cluster = %arrival.cluster, %error, "a first frame was dropped");
            return Verdict::Keep(arrival);
        }
    };
    match up {
        Up::Join(join) => {
            let answer = answer_join(office, &arrival, join).await;
            if let Some(down) = answer {
                say(office, &mut arrival, &down).await;
            }
            Verdict::Keep(arrival)
        }
        Up::Hello(hello) => greet(office, arrival, hello, payload.len() as u64).await,
        _ => Verdict::Keep(arrival),
    }
}

/// `None`: the hub could not decide; the agent repeats.
async fn answer_join(office: &Office, arrival: &Arrival, join: shared::wire::Join) -> Option<Down> {
    let (cluster, now) = (arrival.cluster.clone(), clock::wall());
    let joined = enroll::join(
        &office.store,
        &office.keys,
        &office.random,
        cluster,
        arrival.identity,
        join,
        now,
    )
    .await;
    match joined {
        Ok(enroll::Joined::Receipt(receipt)) => Some(Down::Joined(Joined {
            receipt: *receipt,
            confirmed_time_s: now,
        })),
        Ok(enroll::Joined::Refused(reason, detail)) => {
            tracing::info!(cluster = %arrival.cluster, reason = reason.code(), detail, "a join was refused");
            Some(Down::JoinRefused(JoinRefused {
                reason: reason.into(),
                detail,
            }))
        }
        Err(error) => {
            tracing::error!(cluster = %arrival.cluster, %error, "a join could not be recorded");
            None
        }
    }
}

async fn greet(office: &Office, mut arrival: Box<Arrival>, hello: Hello, bytes: u64) -> Verdict {
    let known = match office.store.enrolment(&arrival.cluster) {
        Ok(known) => known,
        Err(error) => {
            tracing::error!(cluster = %arrival.cluster, %error, "the store cannot be read");
            return Verdict::Keep(arrival);
        }
    };
    let welcome = match known {
        Some(enrolment) if may_talk(&enrolment, arrival.identity) => true,
        known if is_over(office, known.as_ref(), &arrival) => {
            let reason = Reason::Revoked.into();
            say(office, &mut arrival, &Down::Revoked(Revoked { reason })).await;
            return Verdict::Keep(arrival);
        }
        _ => recall(office, &arrival, &hello).await,
    };
    if welcome {
        return Verdict::Enrolled(arrival, Box::new(Up::Hello(hello)), bytes);
    }
    if enroll::vouches(&office.keys, &arrival.cluster, arrival.identity, &hello.receipt) {
        let cluster = &arrival.cluster;
        let detail = format!(
            "the hub knows another agent as {cluster}, so it was restored from before this one joined; on the hub, \
             `pinnace cluster replace {cluster}` lets this one in again"
        );
        tracing::warn!(%cluster, reason = Reason::UnknownIdentity.code(), detail, "an agent was turned away");
        let reason = Reason::UnknownIdentity.into();
        say(
            office,
            &mut arrival,
            &Down::JoinRefused(JoinRefused { reason, detail }),
        )
        .await;
        return Verdict::Keep(arrival);
    }
    tracing::debug!(cluster = %arrival.cluster, reason = Reason::UnknownIdentity.code(), "a hello was dropped");
    Verdict::Done
}

/// Whether the enrolment of this identity was revoked, replaced or removed. Not known to be: no.
fn is_over(office: &Office, known: Option<&Enrolment>, arrival: &Arrival) -> bool {
    if known.is_some_and(|enrolment| enrolment.identity == arrival.identity) {
        return true;
    }
    let former = office.store.is_former(&arrival.cluster, arrival.identity);
    former.unwrap_or_else(|error| {
        tracing::error!(cluster = %arrival.cluster, %error, "the store cannot be read");
        false
    })
}

async fn recall(office: &Office, arrival: &Arrival, hello: &Hello) -> bool {
    let (cluster, identity) = (&arrival.cluster, arrival.identity);
    let recalled = enroll::recall(
        &office.store,
        &office.keys,
        &office.random,
        cluster,
        identity,
        &hello.receipt,
        clock::wall(),
    );
    match recalled.await {
        Ok(Some(_enrolment)) => {
            let code = Reason::HubBehind.code();
            tracing::warn!(%cluster, reason = code, "a cluster that this hub had forgotten is listed from its receipt");
            true
        }
        Ok(None) => false,
        Err(error) => {
            tracing::error!(%cluster, %error, "a forgotten cluster could not be listed");
            false
        }
    }
}

/// Seals and sends; without an answer the agent repeats.
async fn say(office: &Office, arrival: &mut Arrival, down: &Down) {
    match arrival.channel.seal(&encode_down(down)) {
        Ok(payload) => drop(office.publish(&arrival.cluster, payload).await),
        Err(error) => tracing::error!(cluster = %arrival.cluster, %error, "a message could not be sealed"),
    }
}
