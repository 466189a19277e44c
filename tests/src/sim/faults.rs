//! What may go wrong in a run. Each seed turns most faults off and a few up high.

use super::bugs::Bug;
use mutation::Random;

/// Rates per mille and switches of one run.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// A payload is lost.
    pub loss: u32,
    /// A payload arrives twice.
    pub duplicate: u32,
    /// A payload is late by up to ten seconds.
    pub late: u32,
    /// A payload is damaged on the way.
    pub damage: u32,
    /// An old payload is played again.
    pub replay: u32,
    /// A cluster is cut off, or a connection ends, per step.
    pub cut: u32,
    /// The hub crashes at a durability boundary.
    pub hub_crash: u32,
    /// An agent crashes at a durability boundary.
    pub agent_crash: u32,
    /// The hub's disk is replaced by its backup, per step.
    pub hub_restore: u32,
    /// An agent's disk is replaced by its backup, per step.
    pub agent_restore: u32,
    /// The member's API fails, before or after it did its work.
    pub api: u32,
    /// Somebody else changes a member, per step.
    pub foreign: u32,
    /// A watch event is lost.
    pub watch_loss: u32,
    /// Somebody else writes the object between our read and our apply.
    pub race: u32,
    /// **A seeded bug**.
    pub bug: Option<Bug>,
}

impl Faults {
    /// The faults of a seed.
    #[must_use]
    pub fn of(rng: &mut Random) -> Self {
        let mut pick = |odds: u32, low: u64, high: u64| {
            if rng.chance(odds) {
                u32::try_from(rng.range(low, high)).unwrap_or(0)
            } else {
                0
            }
        };
        Self {
            loss: pick(500, 10, 400),
            duplicate: pick(400, 10, 300),
            late: pick(400, 10, 300),
            damage: pick(250, 5, 100),
            replay: pick(250, 5, 100),
            cut: pick(500, 2, 20),
            hub_crash: pick(400, 2, 60),
            agent_crash: pick(500, 2, 60),
            hub_restore: pick(200, 1, 5),
            agent_restore: pick(150, 1, 4),
            api: pick(400, 10, 300),
            foreign: pick(500, 5, 60),
            watch_loss: pick(300, 50, 400),
            race: pick(300, 20, 200),
            bug: None,
        }
    }

    /// Nothing goes wrong any more; a seeded bug stays.
    #[must_use]
    pub fn healed(&self) -> Self {
        Self {
            bug: self.bug,
            ..Self::default()
        }
    }
}
