//! The way between hub and one agent: loses, duplicates, delays, reorders, damages, replays, and is cut.

use shared::time::Millis;
use shared::topics::Direction;

use super::faults::Faults;
use mutation::Random;

/// A payload on its way.
#[derive(Clone, Debug)]
struct Flight {
    at: Millis,
    id: u64,
    direction: Direction,
    payload: Vec<u8>,
}

/// The way between hub and one agent.
#[derive(Debug)]
pub struct Network {
    rng: Random,
    flights: Vec<Flight>,
    next_id: u64,
    /// Nothing passes until then.
    pub cut_until: Millis,
    kept: Option<(Direction, Vec<u8>)>,
    /// Payloads sent, both ways.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// More payloads on their way at once than this would be a queue without a bound.
pub const FLIGHTS_MAX: usize = 600;

impl Network {
    /// An idle one.
    #[must_use]
    pub fn new(rng: Random) -> Self {
        Self {
            rng,
            flights: vec![],
            next_id: 0,
            cut_until: Millis(0),
            kept: None,
            sent: 0,
            bytes: 0,
        }
    }

    /// Sends a payload.
    pub fn send(&mut self, now: Millis, direction: Direction, payload: Vec<u8>, faults: &Faults) {
        self.sent += 1;
        self.bytes += payload.len() as u64;
        if now < self.cut_until || self.rng.chance(faults.loss) {
            return;
        }
        if self.rng.chance(faults.replay)
            && let Some((direction, old)) = self.kept.replace((direction, payload.clone()))
        {
            self.fly(now, direction, old, faults);
        }
        if self.rng.chance(faults.duplicate) {
            self.fly(now, direction, payload.clone(), faults);
        }
        if self.rng.chance(faults.damage) && !payload.is_empty() {
            let mut bad = payload.clone();
            let at = self.rng.below(bad.len() as u64) as usize;
            bad[at] ^= 1 << self.rng.below(8);
            self.fly(now, direction, bad, faults);
            if self.rng.chance(500) {
                return;
            }
        }
        self.fly(now, direction, payload, faults);
    }

    fn fly(&mut self, now: Millis, direction: Direction, payload: Vec<u8>, faults: &Faults) {
        let mut delay = self.rng.range(2, 40);
        if self.rng.chance(faults.late) {
            delay += self.rng.below(10_000);
        }
        self.next_id += 1;
        self.flights.push(Flight {
            at: now.plus(delay),
            id: self.next_id,
            direction,
            payload,
        });
    }

    /// What arrives by `now`, in order of arrival.
    pub fn arrive(&mut self, now: Millis) -> Vec<(Direction, Vec<u8>)> {
        if self.flights.iter().all(|f| f.at > now) {
            return vec![];
        }
        let (mut due, rest): (Vec<_>, Vec<_>) = self.flights.drain(..).partition(|f| f.at <= now);
        self.flights = rest;
        due.sort_by_key(|f| (f.at, f.id));
        due.into_iter().map(|f| (f.direction, f.payload)).collect()
    }

    /// Payloads on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }
}
