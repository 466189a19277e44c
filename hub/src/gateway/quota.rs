//! How fast one agent may send: two token buckets, bytes and packets. Over the quota its socket is read more
//! slowly; nothing is refused and no other session notices.

use std::time::Duration;

use shared::time::Millis;

use crate::limits;

/// The two buckets of one session.
#[derive(Debug)]
pub(super) struct Quota {
    bytes: Bucket,
    packets: Bucket,
}

impl Quota {
    /// Full buckets.
    pub(super) fn new(now: Millis) -> Self {
        Self {
            bytes: Bucket::new(limits::INGRESS_BYTES_PER_SECOND, limits::INGRESS_BURST_BYTES, now),
            packets: Bucket::new(
                limits::INGRESS_PACKETS_PER_SECOND,
                limits::INGRESS_BURST_PACKETS,
                now,
            ),
        }
    }

    /// Books one packet and says how long to wait before the next read.
    pub(super) fn spend(&mut self, bytes: usize, now: Millis) -> Duration {
        let wait = self
            .bytes
            .spend(bytes as u64, now)
            .max(self.packets.spend(1, now));
        Duration::from_millis(wait)
    }
}

/// Tokens that refill with time. A packet may overdraw it; the debt is waited for.
#[derive(Debug)]
struct Bucket {
    per_second: u64,
    burst: u64,
    /// Thousandths of a token, so that refilling by milliseconds loses nothing.
    milli_tokens: i64,
    refilled: Millis,
}

impl Bucket {
    fn new(per_second: u64, burst: u64, now: Millis) -> Self {
        Self {
            per_second,
            burst,
            milli_tokens: (burst * 1_000) as i64,
            refilled: now,
        }
    }

    /// Milliseconds until the bucket is out of debt.
    fn spend(&mut self, tokens: u64, now: Millis) -> u64 {
        let earned = now.since(self.refilled).saturating_mul(self.per_second);
        self.refilled = now;
        let full = (self.burst * 1_000) as i64;
        self.milli_tokens = self
            .milli_tokens
            .saturating_add(i64::try_from(earned).unwrap_or(i64::MAX))
            .min(full);
        self.milli_tokens = self.milli_tokens.saturating_sub((tokens * 1_000) as i64);
        u64::try_from(-self.milli_tokens)
            .unwrap_or(0)
            .div_ceil(self.per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_debt_is_waited_for() {
        let mut bucket = Bucket::new(100, 1_000, Millis(0));
        assert_eq!(bucket.spend(1_000, Millis(0)), 0);
        assert_eq!(bucket.spend(50, Millis(0)), 500);
        assert_eq!(bucket.spend(0, Millis(250)), 250);
        assert_eq!(bucket.spend(0, Millis(500)), 0);
        assert_eq!(
            bucket.spend(1_000, Millis(3_600_000)),
            0,
            "refills to the burst, not beyond"
        );
        assert_eq!(bucket.spend(1, Millis(3_600_000)), 10);
    }
}
