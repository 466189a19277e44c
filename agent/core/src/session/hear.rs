//! What the hub says.

use shared::bundle::Encoding;
use shared::ids::{Digest, ReportSeq};
use shared::limits::{BEAT_EVERY_MS, CHUNK_BYTES_MAX};
use shared::time::{Millis, UnixSeconds};
use shared::wire::{
    Ask, Chunk, Down, Joined, Kind, Up, Welcome, What, decode_down, encode_set, open_envelope,
};

use super::{Effect, Link, Role, Session};
use crate::holdings::Holdings;
use crate::intake::{Demand, Intake};

impl Session {
    /// A payload came in.
    pub fn handle_payload(&mut self, payload: &[u8], holdings: &dyn Holdings, now: Millis) {
        match open_envelope(payload).map(|(kind, _)| kind) {
            Ok(Kind::X2) => self.handle_x2(payload, now),
            Ok(Kind::Frame) => self.handle_frame(payload, holdings, now),
            _ => self.dropped += 1,
        }
    }

    pub(super) fn handle_frame(&mut self, payload: &[u8], holdings: &dyn Holdings, now: Millis) {
        let (Link::Open { channel, .. } | Link::Greeting { channel, .. }) = &mut self.link else {
            self.dropped += 1;
            return;
        };
        let Ok(down) = channel
            .open(payload)
            .map_err(|_| ())
            .and_then(|plain| decode_down(&plain).map_err(|_| ()))
        else {
            self.dropped += 1;
            return;
        };
        match &mut self.link {
            Link::Greeting { x3, .. } => *x3 = None,
            Link::Open { answer_by, .. } => *answer_by = None,
            _ => {}
        }
        self.handle_down(down, holdings, now);
        self.drain_intake();
    }

    pub(super) fn handle_down(&mut self, down: Down, holdings: &dyn Holdings, now: Millis) {
        match down {
            Down::Joined(joined) => self.handle_joined(joined),
            Down::JoinRefused(refused) => match self.role {
                Role::Join { .. } => {
                    self.link = Link::Over;
                    self.effects.push(Effect::JoinRefused {
                        reason: refused.reason,
                        detail: refused.detail,
                    });
                }
                // The hub does not know this enrolment. Somebody may change that, so it is tried again.
                Role::Enrolled { .. } => {
                    self.last_error = Some(format!("{}: {}", refused.reason, refused.detail));
                    self.give_up();
                }
            },
            Down::Welcome(welcome) => self.handle_welcome(welcome, now),
            Down::Offer(offer) => {
                let (Some(ring), Role::Enrolled { intake, .. }) = (&self.ring, &mut self.role) else {
                    return;
                };
                intake.handle_offer(&offer, ring, holdings, now);
            }
            Down::Chunk(chunk) => {
                let (Some(ring), Role::Enrolled { intake, .. }) = (&self.ring, &mut self.role) else {
                    return;
                };
                intake.handle_chunk(&chunk, ring, holdings, now);
            }
            Down::ReportAck(ack) => self.handle_stored(ack.report_seq),
            Down::BeatAck(ack) => self.confirm(ack.confirmed_time_s),
            Down::Ask(ask) => self.answer(&ask, holdings),
            Down::SealingKey(key) => self.effects.push(Effect::SealingKey(key)),
            Down::Revoked(revoked) => {
                self.link = Link::Over;
                self.effects.push(Effect::Revoked(revoked.reason));
            }
        }
    }

    pub(super) fn handle_joined(&mut self, joined: Joined) {
        let (Role::Join { .. }, Some(ring)) = (&self.role, &self.ring) else {
            return;
        };
        let receipt = &joined.receipt.receipt;
        let ours = receipt.cluster == self.identity.cluster && receipt.identity == self.identity.key.public();
        if !ours || joined.receipt.verify(ring).is_err() {
            self.dropped += 1;
            return;
        }
        self.confirmed = joined.confirmed_time_s;
        self.effects.push(Effect::Learnt(Box::new(ring.clone())));
        self.effects.push(Effect::Confirmed(joined.confirmed_time_s));
        self.effects.push(Effect::Joined(Box::new(joined.receipt)));
        self.link = Link::Over;
    }

    pub(super) fn handle_welcome(&mut self, welcome: Welcome, now: Millis) {
        if !matches!(self.role, Role::Enrolled { .. }) {
            return;
        }
        self.behind = welcome.behind;
        self.confirm(welcome.confirmed_time_s);
        if let Link::Greeting { .. } = &self.link
            && let Link::Greeting { channel, .. } = std::mem::replace(&mut self.link, Link::Down)
        {
            self.link = Link::Open {
                channel,
                next_beat: now.plus(BEAT_EVERY_MS),
                answer_by: None,
            };
            self.renew_notes();
            if let Some(intake) = self.intake_mut() {
                intake.handle_hello();
            }
        }
        // A session never goes back; a repeated welcome changes nothing.
        let lowest = self.agreed.unwrap_or(self.proposed);
        if welcome.session >= lowest && self.agreed != Some(welcome.session) {
            self.agreed = Some(welcome.session);
            self.outgoing = None;
            self.acknowledged = ReportSeq(0);
            self.effects.push(Effect::Agreed(welcome.session));
            return;
        }
        if welcome.last_report < self.acknowledged {
            self.acknowledged = welcome.last_report;
            self.outgoing = None;
            self.effects.push(Effect::Forgotten);
            return;
        }
        self.handle_stored(welcome.last_report);
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.next = now;
        }
    }

    /// The hub has every report up to this number.
    pub(super) fn handle_stored(&mut self, seq: ReportSeq) {
        self.acknowledged = self.acknowledged.max(seq);
        if self.outgoing.take_if(|o| o.report.report_seq <= seq).is_some() {
            self.effects.push(Effect::Reported(seq));
        }
    }

    pub(super) fn confirm(&mut self, time: UnixSeconds) {
        if time > self.confirmed {
            self.confirmed = time;
            self.effects.push(Effect::Confirmed(time));
        }
    }

    /// The hub is behind and asks what we hold.
    pub(super) fn answer(&mut self, ask: &Ask, holdings: &dyn Holdings) {
        let Some(held) = self.held() else { return };
        let (bytes, descriptor) = match ask.what {
            What::Set(sequence) if sequence == held.head.head.sequence => (encode_set(&held.set), None),
            What::Content(digest) if held.set.has_content(&digest) => match holdings.content(&digest) {
                Some(c) => (
                    c.bytes,
                    Some((c.descriptor.descriptor.key_number, c.descriptor.signature)),
                ),
                None => return,
            },
            _ => return,
        };
        let Some(rest) = bytes.get(ask.offset as usize..) else {
            return;
        };
        let part = rest.get(..CHUNK_BYTES_MAX).unwrap_or(rest);
        let Ok(total) = u32::try_from(bytes.len()) else {
            return;
        };
        let chunk = Chunk {
            what: ask.what,
            offset: ask.offset,
            total,
            sha256: Digest::of(&bytes),
            encoding: Encoding::Raw,
            length: total,
            descriptor: descriptor.filter(|_| ask.offset == 0),
            bytes: part.to_vec(),
        };
        self.send(&Up::Held(chunk));
    }

    pub(super) fn drain_intake(&mut self) {
        let demands = self.intake_mut().map(Intake::take_demands).unwrap_or_default();
        for demand in demands {
            match demand {
                Demand::Send(message) => self.send(&message),
                Demand::Keep(contents) => self.effects.push(Effect::Keep(contents)),
                Demand::Commit { held, contents } => self.effects.push(Effect::Commit { held, contents }),
            }
        }
    }
}
