//! Is a cluster alive? From what was heard of it to the `Ready` condition, with hysteresis.
//!
//! A silent cluster is *unknown*, not empty and not broken: nothing is withdrawn from it because of silence.
//! Timers of silence start anew when the hub starts, since a hub that was away heard nobody; the wall time of
//! the last word is kept in the store for people to read.

use shared::limits::SILENT_AFTER_MS;
use shared::time::Millis;

/// Status of the `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ready {
    /// The member's API answers and is healthy.
    True,
    /// The agent is there; the member's API is not reachable or not healthy.
    False,
    /// Nobody knows: the cluster is silent, or was never heard of.
    Unknown,
}

impl Ready {
    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// Reads the word; anything else is none.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "True" => Self::True,
            "False" => Self::False,
            "Unknown" => Self::Unknown,
            _ => return None,
        })
    }
}

/// What an agent says about its member's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MemberApi {
    /// It answers and is healthy.
    #[default]
    Healthy,
    /// It answers and is not healthy.
    NotHealthy,
    /// It does not answer.
    Unreachable,
}

/// What was heard of one cluster, in the hub's monotonic time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Presence {
    /// Last sealed message, if any in this life of the hub.
    pub last_heard: Option<Millis>,
    /// When its session closed, unless one is open.
    pub closed: Option<Millis>,
    /// Was it ever heard of, also in former lives of the hub?
    pub ever_heard: bool,
    /// What its agent last said about the member's API.
    pub member_api: MemberApi,
}

impl Presence {
    /// A sealed message arrived.
    pub fn heard(&mut self, now: Millis) {
        self.last_heard = Some(now);
        self.closed = None;
        self.ever_heard = true;
    }

    /// Its session closed. A second close changes nothing.
    pub fn closed(&mut self, now: Millis) {
        self.closed.get_or_insert(now);
    }

    /// Since when it is silent: since its session closed, or since the moment two beats were missed. A cluster
    /// that was not heard of since `hub_started` is silent from then on. `None`: it is not silent.
    pub fn silent_since(&self, hub_started: Millis, now: Millis) -> Option<Millis> {
        let Some(heard) = self.last_heard else {
            return Some(hub_started);
        };
        let missed = heard.plus(SILENT_AFTER_MS);
        let since = self.closed.map_or(missed, |closed| closed.min(missed));
        (since <= now).then_some(since)
    }

    /// Milliseconds of silence, 0 when not silent.
    pub fn silent_for(&self, hub_started: Millis, now: Millis) -> u64 {
        self.silent_since(hub_started, now)
            .map_or(0, |since| now.since(since))
    }

    /// The raw observation and its reason (the reference's words), before damping.
    pub fn observe(&self, hub_started: Millis, now: Millis) -> (Ready, &'static str) {
        if self.silent_since(hub_started, now).is_some() {
            let reason = if self.ever_heard {
                "ClusterStatusUnknown"
            } else {
                "ClusterStatusNeverUpdated"
            };
            return (Ready::Unknown, reason);
        }
        probed(
            self.member_api != MemberApi::Unreachable,
            self.member_api == MemberApi::Healthy,
        )
    }
}

/// Ready of a cluster whose API was probed.
pub fn probed(online: bool, healthy: bool) -> (Ready, &'static str) {
    match (online, healthy) {
        (false, _) => (Ready::False, "ClusterNotReachable"),
        (true, false) => (Ready::False, "ClusterNotReady"),
        (true, true) => (Ready::True, "ClusterReady"),
    }
}

/// How long an observation must last before the condition follows, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// From not true to true.
    pub success_ms: u64,
    /// From true to not true.
    pub failure_ms: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            success_ms: 30_000,
            failure_ms: 30_000,
        }
    }
}

/// The last raw observation and how long ago it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// What was observed.
    pub ready: Ready,
    /// Milliseconds since it began.
    pub age_ms: u64,
}

/// The status to record: a change between true and not true waits until the observation has lasted, a change
/// between false and unknown does not. The first observation counts at once.
pub fn damped(
    saved: Option<Saved>,
    current: Option<Ready>,
    observed: Ready,
    thresholds: Thresholds,
) -> Ready {
    let is_true = observed == Ready::True;
    let (Some(saved), Some(current)) = (saved, current) else {
        return observed;
    };
    if (current == Ready::True) == is_true {
        return observed;
    }
    let lasted = if (saved.ready == Ready::True) == is_true {
        saved.age_ms
    } else {
        0
    };
    let threshold = if is_true {
        thresholds.success_ms
    } else {
        thresholds.failure_ms
    };
    if lasted >= threshold { observed } else { current }
}

/// One cluster's condition over time: presence, last raw observation, recorded status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Watched {
    /// What was heard.
    pub presence: Presence,
    raw: Option<(Ready, Millis)>,
    recorded: Option<(Ready, &'static str)>,
}

impl Watched {
    /// Looks again. Answers status and reason if they are to be recorded anew.
    ///
    /// The first word of a cluster in this life of the hub counts at once. Until then a cluster known from a
    /// former life keeps what is recorded for as long as a failure must last: a restart of the hub is no news.
    pub fn turn(
        &mut self,
        hub_started: Millis,
        now: Millis,
        thresholds: Thresholds,
    ) -> Option<(Ready, &'static str)> {
        let (observed, reason) = self.presence.observe(hub_started, now);
        let next = if self.presence.last_heard.is_none() {
            if self.presence.ever_heard && now.since(hub_started) < thresholds.failure_ms {
                return None;
            }
            (observed, reason)
        } else {
            let saved = self.raw.map(|(ready, since)| Saved {
                ready,
                age_ms: now.since(since),
            });
            let next = damped(saved, self.recorded.map(|(ready, _)| ready), observed, thresholds);
            if self
                .raw
                .is_none_or(|(ready, _)| (ready == Ready::True) != (observed == Ready::True))
            {
                self.raw = Some((observed, now));
            }
            // While damping holds the old status, its old reason stays with it.
            match self.recorded {
                Some(recorded) if recorded.0 == next && next != observed => recorded,
                _ => (next, reason),
            }
        };
        let changed = self.recorded != Some(next);
        self.recorded = Some(next);
        changed.then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Millis = Millis(1_000);

    fn damp(saved: &str, age_s: u64, current: &str, observed: &str, threshold_s: u64) -> Ready {
        damped(
            Ready::parse(saved).map(|ready| Saved {
                ready,
                age_ms: age_s * 1000,
            }),
            Ready::parse(current),
            Ready::parse(observed).expect("a status"),
            Thresholds {
                success_ms: threshold_s * 1000,
                failure_ms: threshold_s * 1000,
            },
        )
    }

    #[test]
    fn changes_between_true_and_not_true_wait() {
        let cases = [
            ("", 0, "True", "False", 30, Ready::False),
            ("True", 600, "True", "False", 30, Ready::True),
            ("False", 10, "True", "False", 30, Ready::True),
            ("False", 31, "True", "False", 30, Ready::False),
            ("True", 10, "False", "True", 30, Ready::False),
            ("True", 31, "False", "True", 30, Ready::True),
            ("Unknown", 31, "True", "Unknown", 30, Ready::Unknown),
            ("False", 0, "True", "False", 0, Ready::False),
            ("False", 1, "False", "Unknown", 30, Ready::Unknown),
        ];
        for (saved, age, current, observed, threshold, want) in cases {
            assert_eq!(
                damp(saved, age, current, observed, threshold),
                want,
                "{saved} {age} {current} {observed}"
            );
        }
    }

    #[test]
    fn silence_begins_with_the_close_or_with_missed_beats() {
        let mut presence = Presence::default();
        assert_eq!(presence.silent_since(START, Millis(5_000)), Some(START));
        presence.heard(Millis(5_000));
        assert_eq!(presence.silent_since(START, Millis(6_000)), None);
        assert_eq!(
            presence.silent_since(START, Millis(5_000 + SILENT_AFTER_MS)),
            Some(Millis(5_000 + SILENT_AFTER_MS))
        );
        presence.closed(Millis(7_000));
        presence.closed(Millis(9_000));
        assert_eq!(presence.silent_for(START, Millis(10_000)), 3_000);
        presence.heard(Millis(11_000));
        assert_eq!(presence.silent_for(START, Millis(11_500)), 0);
    }

    #[test]
    fn a_flap_shorter_than_the_threshold_is_never_seen() {
        let mut watched = Watched::default();
        watched.presence.heard(START);
        let turn = |watched: &mut Watched, at: u64| watched.turn(START, Millis(at), Thresholds::default());
        assert_eq!(turn(&mut watched, 1_000), Some((Ready::True, "ClusterReady")));
        watched.presence.closed(Millis(2_000));
        assert_eq!(turn(&mut watched, 3_000), None);
        watched.presence.heard(Millis(4_000));
        assert_eq!(turn(&mut watched, 5_000), None);
        watched.presence.closed(Millis(6_000));
        assert_eq!(turn(&mut watched, 7_000), None);
        assert_eq!(turn(&mut watched, 36_999), None);
        assert_eq!(
            turn(&mut watched, 37_000),
            Some((Ready::Unknown, "ClusterStatusUnknown"))
        );
    }

    #[test]
    fn a_restart_of_the_hub_is_no_news_for_a_while() {
        let thresholds = Thresholds::default();
        let mut watched = Watched::default();
        watched.presence.ever_heard = true;
        let end = START.plus(thresholds.failure_ms);
        assert_eq!(watched.turn(START, Millis(end.0 - 1), thresholds), None);
        let mut quick = watched;
        quick.presence.heard(end);
        assert_eq!(
            quick.turn(START, end, thresholds),
            Some((Ready::True, "ClusterReady"))
        );
        assert_eq!(
            watched.turn(START, end, thresholds),
            Some((Ready::Unknown, "ClusterStatusUnknown"))
        );
        // Its first word counts at once, also after that.
        watched.presence.heard(end);
        assert_eq!(
            watched.turn(START, end, thresholds),
            Some((Ready::True, "ClusterReady"))
        );
    }

    #[test]
    fn a_cluster_that_joins_is_ready_with_its_first_word() {
        let mut watched = Watched::default();
        let turn = |watched: &mut Watched, at: u64| watched.turn(START, Millis(at), Thresholds::default());
        assert_eq!(
            turn(&mut watched, 1_000),
            Some((Ready::Unknown, "ClusterStatusNeverUpdated"))
        );
        watched.presence.heard(Millis(2_000));
        assert_eq!(turn(&mut watched, 2_000), Some((Ready::True, "ClusterReady")));
    }

    #[test]
    fn an_agent_that_loses_its_api_is_not_ready() {
        let mut presence = Presence {
            member_api: MemberApi::Unreachable,
            ..Presence::default()
        };
        presence.heard(START);
        assert_eq!(
            presence.observe(START, START),
            (Ready::False, "ClusterNotReachable")
        );
        presence.member_api = MemberApi::NotHealthy;
        assert_eq!(presence.observe(START, START), (Ready::False, "ClusterNotReady"));
    }
}
