//! What time brings: repeats, beats, reports.

use ring::rand::SecureRandom;
use shared::ids::Sequence;
use shared::limits::{BEAT_ANSWER_MS, BEAT_EVERY_MS, RESEND_CEILING_MS, RESEND_FIRST_MS};
use shared::set::Set;
use shared::time::Millis;
use shared::wire::{Beat, Report, Up};

use super::{Effect, Link, Outgoing, Session};
use crate::intake::Intake;
use crate::limits::EXCHANGE_TRIES_MAX;
use crate::pace::backoff;

impl Session {
    /// Whether a report may be handed over now: the conversation is open and none is unanswered.
    #[must_use]
    pub fn wants_report(&self) -> bool {
        self.is_open() && self.agreed.is_some() && self.outgoing.is_none()
    }

    /// Sends a report and repeats it until it is acknowledged or the session changes.
    pub fn handle_report(&mut self, report: Report, now: Millis) {
        self.send(&Up::Report(report.clone()));
        self.outgoing = Some(Outgoing {
            report,
            tries: 1,
            next: now.plus(RESEND_FIRST_MS),
        });
    }

    /// Time passed.
    pub fn handle_tick(&mut self, random: &dyn SecureRandom, number: u64, now: Millis) {
        match &mut self.link {
            Link::Exchanging { x1, tries, next, .. } if *next <= now => {
                if *tries >= EXCHANGE_TRIES_MAX {
                    self.last_error = Some("the hub does not answer".to_owned());
                    return self.give_up();
                }
                *tries += 1;
                let pause = backoff(*tries, Millis(RESEND_FIRST_MS), Millis(RESEND_CEILING_MS), number);
                *next = now.plus(pause.0);
                let x1 = x1.clone();
                self.effects.push(Effect::Send(x1));
            }
            // Two unanswered hellos: the hub may have lost the exchange, so the next one is a new exchange.
            Link::Greeting { tries, next, .. } if *next <= now => match *tries {
                0 | 1 => self.greet(now),
                _ => self.start_exchange(random, now),
            },
            Link::Open {
                answer_by: Some(by), ..
            } if *by <= now => self.start_exchange(random, now),
            Link::Open {
                next_beat, answer_by, ..
            } if *next_beat <= now => {
                *next_beat = now.plus(BEAT_EVERY_MS - BEAT_EVERY_MS / 20 + number % (BEAT_EVERY_MS / 20));
                answer_by.get_or_insert(now.plus(BEAT_ANSWER_MS + number % (BEAT_ANSWER_MS / 6)));
                let (sequence, digest) = match self.held() {
                    Some(held) => (held.head.head.sequence, held.head.head.digest),
                    None => (Sequence(0), Set::default().digest()),
                };
                self.send(&Up::Beat(Beat {
                    sequence,
                    digest,
                    uptime_ms: now.0,
                }));
                self.tell_notes();
            }
            _ => {}
        }
        if self.owes_notes() {
            self.tell_notes();
        }
        if self.is_open() {
            self.repeat_report(number, now);
            if let Some(intake) = self.intake_mut() {
                intake.handle_tick(now, number);
            }
            self.drain_intake();
        }
    }

    pub(super) fn repeat_report(&mut self, number: u64, now: Millis) {
        let Some(outgoing) = self.outgoing.as_mut().filter(|o| o.next <= now) else {
            return;
        };
        outgoing.tries = outgoing.tries.saturating_add(1);
        outgoing.next = now.plus(
            backoff(
                outgoing.tries,
                Millis(RESEND_FIRST_MS),
                Millis(RESEND_CEILING_MS),
                number,
            )
            .0,
        );
        let report = outgoing.report.clone();
        self.send(&Up::Report(report));
    }

    /// When `handle_tick` has something to do, at the earliest.
    #[must_use]
    pub fn next_wake(&self) -> Option<Millis> {
        match &self.link {
            Link::Down | Link::Over => None,
            Link::Exchanging { next, .. } | Link::Greeting { next, .. } => Some(*next),
            Link::Open {
                next_beat, answer_by, ..
            } => [
                Some(*next_beat),
                *answer_by,
                self.outgoing.as_ref().map(|o| o.next),
                self.owes_notes().then_some(Millis(0)),
                self.intake().and_then(Intake::next_wake),
            ]
            .into_iter()
            .flatten()
            .min(),
        }
    }
}
