//! Exchange and greeting: proving who talks, and the first sealed message.

use ring::rand::SecureRandom;
use shared::keys::KeyRing;
use shared::limits::RESEND_FIRST_MS;
use shared::seal::{AgentExchange, OpenError};
use shared::time::Millis;
use shared::wire::{Hello, Join, Up, X2, encode_up};

use super::{Effect, Link, Role, Session};

impl Session {
    pub(super) fn start_exchange(&mut self, random: &dyn SecureRandom, now: Millis) {
        let incarnation = match &self.role {
            Role::Join { .. } => None,
            Role::Enrolled { receipt, .. } => Some(receipt.receipt.incarnation),
        };
        let highest = self.ring.as_ref().map(KeyRing::newest).unwrap_or_default();
        match AgentExchange::start(random, self.identity.cluster.clone(), incarnation, highest) {
            Ok((exchange, x1)) => {
                let x1 = x1.encode();
                self.effects.push(Effect::Send(x1.clone()));
                self.link = Link::Exchanging {
                    exchange,
                    x1,
                    tries: 1,
                    next: now.plus(RESEND_FIRST_MS),
                };
            }
            Err(e) => {
                self.last_error = Some(e.to_string());
                self.give_up();
            }
        }
    }

    pub(super) fn give_up(&mut self) {
        self.link = Link::Down;
        self.effects.push(Effect::Reconnect);
    }

    pub(super) fn handle_x2(&mut self, payload: &[u8], now: Millis) {
        let Ok(x2) = X2::decode(payload) else {
            self.dropped += 1;
            return;
        };
        let ours = matches!(&self.link, Link::Exchanging { exchange, .. } if exchange.id() == x2.exchange);
        if !ours {
            self.dropped += 1;
            return;
        }
        let Link::Exchanging { exchange, .. } = std::mem::replace(&mut self.link, Link::Down) else {
            return;
        };
        let fleet = self.ring.as_ref().map(KeyRing::fleet);
        let (x3, channel, shown) = match exchange.finish(&x2, &self.identity.pin, fleet, &self.identity.key) {
            Ok(done) => done,
            Err(e) => {
                self.last_error = Some(format!("{}: {e}", e.reason()));
                return self.give_up();
            }
        };
        if let Err(e) = self.learn(shown) {
            self.last_error = Some(e);
            return self.give_up();
        }
        self.last_error = None;
        self.link = Link::Greeting {
            channel,
            x3: Some(x3.encode()),
            tries: 0,
            next: now,
        };
        self.greet(now);
    }

    /// Merges the statements shown into our ring, and has it written down if it grew.
    pub(super) fn learn(&mut self, shown: KeyRing) -> Result<(), String> {
        let Some(ring) = &mut self.ring else {
            self.ring = Some(shown);
            return Ok(());
        };
        let before = ring.newest();
        for statement in shown.statements() {
            ring.learn(statement)
                .map_err(|e| format!("{}: {e}", e.reason()))?;
        }
        if ring.newest() > before {
            self.effects.push(Effect::Learnt(Box::new(ring.clone())));
        }
        Ok(())
    }

    /// Sends the first message, with X3 before it until something opened.
    pub(super) fn greet(&mut self, now: Millis) {
        let message = self.first_message();
        let Link::Greeting {
            channel,
            x3,
            tries,
            next,
        } = &mut self.link
        else {
            return;
        };
        *tries += 1;
        *next = now.plus(RESEND_FIRST_MS << (*tries).min(5));
        if let Some(x3) = x3 {
            self.effects.push(Effect::Send(x3.clone()));
        }
        match channel.seal(&encode_up(&message)) {
            Ok(frame) => self.effects.push(Effect::Send(frame)),
            Err(e) => {
                self.last_error = Some(e.to_string());
                self.give_up();
            }
        }
    }

    pub(super) fn first_message(&self) -> Up {
        match &self.role {
            Role::Join { token } => Up::Join(Join {
                token: token.expose().to_owned(),
                kube_system_uid: self.member.kube_system_uid.clone(),
                agent_version: self.identity.agent_version.clone(),
            }),
            Role::Enrolled { receipt, intake } => Up::Hello(Hello {
                boot: self.identity.boot,
                proposed_session: self.agreed.unwrap_or(self.proposed),
                held: intake.held().map(|h| h.head.clone()),
                highest_key_number: self.ring.as_ref().map(KeyRing::newest).unwrap_or_default(),
                receipt: (**receipt).clone(),
                kube_system_uid: self.member.kube_system_uid.clone(),
                kubernetes_version: self.member.kubernetes_version.clone(),
                agent_version: self.identity.agent_version.clone(),
                confirmed_time_s: self.confirmed,
            }),
        }
    }

    pub(super) fn send(&mut self, message: &Up) {
        let (Link::Open { channel, .. } | Link::Greeting { channel, .. }) = &mut self.link else {
            return;
        };
        match channel.seal(&encode_up(message)) {
            Ok(frame) => self.effects.push(Effect::Send(frame)),
            // Every channel ends after so many frames: a new exchange follows with the connection.
            Err(e @ OpenError::Exhausted) => {
                self.last_error = Some(e.to_string());
                self.give_up();
            }
            Err(e) => self.last_error = Some(e.to_string()),
        }
    }
}
