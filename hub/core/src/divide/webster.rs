//! The highest-averages method of Webster, on numbers: parties are known by their place, in the order of their names.
//!
//! It hands out seats one by one, so a larger total never lowers anybody's share, and every share stays within one of its
//! exact quota for the totals people use. Here the cost does not grow with the number of seats.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::TieRule;

/// One party; its name is its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seats {
    /// Its weight.
    pub votes: i64,
    /// What it has.
    pub seats: i64,
}

/// The claim of a party that has `seats` seats to the next one. Floating point on purpose: the reference compares these.
fn quotient(votes: i64, seats: i64) -> f64 {
    votes as f64 / (2 * seats + 1) as f64
}

struct Bid {
    quotient: f64,
    seats: i64,
    place: usize,
    tie: TieRule,
}

impl Bid {
    fn of(place: usize, party: &Seats, tie: TieRule) -> Self {
        Self {
            quotient: quotient(party.votes, party.seats),
            seats: party.seats,
            place,
            tie,
        }
    }
}

impl Ord for Bid {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_name = match self.tie {
            TieRule::NameAscending => other.place.cmp(&self.place),
            TieRule::NameDescending => self.place.cmp(&other.place),
        };
        self.quotient
            .total_cmp(&other.quotient)
            .then(other.seats.cmp(&self.seats))
            .then(by_name)
    }
}

impl PartialOrd for Bid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bid {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bid {}

/// Hands out `new_seats` one by one, each to the party with the highest quotient of votes and twice its seats plus one; on
/// a tie to the one with fewer seats, then by place. Parties without votes that have seats keep them.
pub fn allocate(new_seats: i64, parties: &mut [Seats], tie: TieRule) {
    let given = give_what_is_certain(new_seats, parties);
    let bids: Vec<Bid> = match those_that_can_win(new_seats, parties, tie) {
        Some(places) => places
            .into_iter()
            .map(|place| Bid::of(place, &parties[place], tie))
            .collect(),
        None => parties
            .iter()
            .enumerate()
            .map(|(place, party)| Bid::of(place, party, tie))
            .collect(),
    };
    let mut bids = BinaryHeap::from(bids);
    for _ in given..new_seats {
        let Some(mut best) = bids.peek_mut() else { break };
        let party = &mut parties[best.place];
        party.seats += 1;
        *best = Bid::of(best.place, party, tie);
    }
}

/// Where fewer seats than parties are given to parties that have none: only those with the highest bids can get one, as
/// each of them would have to get its own before any other does. `None`: it is not so, and all bid.
fn those_that_can_win(new_seats: i64, parties: &[Seats], tie: TieRule) -> Option<Vec<usize>> {
    let seats = usize::try_from(new_seats).ok().filter(|seats| *seats > 0)?;
    if seats >= parties.len() || parties.iter().any(|party| party.seats != 0) {
        return None;
    }
    // Bits of floats above zero are ordered as they are; the lower half is the place.
    let key = |(place, party): (usize, &Seats)| {
        let bid = u128::from(u64::MAX - quotient(party.votes, 0).to_bits());
        let place = match tie {
            TieRule::NameAscending => place as u64,
            TieRule::NameDescending => u64::MAX - place as u64,
        };
        (party.votes > 0).then_some(bid << 64 | u128::from(place))
    };
    let mut keys: Vec<u128> = parties.iter().enumerate().filter_map(key).collect();
    if keys.len() < seats {
        return None;
    }
    keys.select_nth_unstable(seats - 1);
    keys.truncate(seats);
    let place = |key: u128| match tie {
        TieRule::NameAscending => key as u64 as usize,
        TieRule::NameDescending => (u64::MAX - key as u64) as usize,
    };
    Some(keys.into_iter().map(place).collect())
}

/// Gives every party the seats whose quotient lies above a bound that leaves fewer seats than there are. These are given
/// out first whatever the ties, so the rest can go on one by one. Returns how many were given.
fn give_what_is_certain(new_seats: i64, parties: &mut [Seats]) -> i64 {
    let few = parties.len() as i64;
    if new_seats <= few {
        return 0;
    }
    let total = |bound: f64, parties: &[Seats]| -> i64 {
        parties.iter().map(|party| seats_above(party, bound)).sum()
    };
    let (mut low, mut high) = (
        0.0_f64,
        parties.iter().map(|party| party.votes as f64).fold(0.0, f64::max),
    );
    // A first guess close to the answer: with this bound every party has about its quota.
    let (votes, seats) = parties
        .iter()
        .filter(|party| party.votes > 0)
        .fold((0.0, new_seats as f64), |(votes, seats), party| {
            (votes + party.votes as f64, seats + party.seats as f64)
        });
    let guess = votes / (2.0 * seats).max(1.0);
    // The bound moves until its neighbours differ by less than any two quotients that matter.
    for turn in 0..BISECTIONS {
        let middle = match turn {
            0 if guess > low && guess < high => guess * 1.01,
            _ => low + (high - low) / 2.0,
        };
        let given = total(middle, parties);
        if given > new_seats {
            low = middle;
        } else {
            high = middle;
            if new_seats - given <= few {
                break;
            }
        }
    }
    let mut given = 0;
    for party in parties.iter_mut() {
        let more = seats_above(party, high);
        party.seats += more;
        given += more;
    }
    given
}

/// Halvings until a bound is as exact as a float can be.
const BISECTIONS: usize = 128;

/// How many further seats of a party have a quotient strictly above the bound.
fn seats_above(party: &Seats, bound: f64) -> i64 {
    if bound <= 0.0 || party.votes <= 0 {
        return if party.votes <= 0 { 0 } else { i64::from(i32::MAX) };
    }
    let estimate = ((party.votes as f64 / bound - 1.0) / 2.0).ceil();
    let mut seats = (estimate.clamp(0.0, f64::from(i32::MAX)) as i64).max(party.seats);
    while seats > party.seats && quotient(party.votes, seats - 1) <= bound {
        seats -= 1;
    }
    while quotient(party.votes, seats) > bound && seats < i64::from(i32::MAX) {
        seats += 1;
    }
    seats - party.seats
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Webster's method as it is defined: one seat at a time.
    fn one_by_one(seats: i64, parties: &mut [Seats], tie: TieRule) {
        for _ in 0..seats {
            let bid = |place: usize| Bid::of(place, &parties[place], tie);
            let Some(best) = (0..parties.len()).max_by(|a, b| bid(*a).cmp(&bid(*b))) else {
                break;
            };
            parties[best].seats += 1;
        }
    }

    #[test]
    fn a_huge_count_is_divided_at_once() {
        let mut parties = [Seats { votes: 2, seats: 0 }, Seats { votes: 1, seats: 0 }];
        allocate(i64::from(i32::MAX), &mut parties, TieRule::NameAscending);
        let [a, b] = parties;
        assert_eq!(a.seats + b.seats, i64::from(i32::MAX));
        assert!((a.seats - 2 * b.seats).abs() <= 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_shortcut_gives_what_one_by_one_gives(
            parties in prop::collection::vec((0_i64..200, 0_i64..40), 0..9),
            seats in 0_i64..400,
            descending in any::<bool>(),
        ) {
            let tie = if descending { TieRule::NameDescending } else { TieRule::NameAscending };
            let parties: Vec<Seats> = parties.into_iter().map(|(votes, seats)| Seats { votes, seats }).collect();
            let (mut quick, mut slow) = (parties.clone(), parties);
            allocate(seats, &mut quick, tie);
            one_by_one(seats, &mut slow, tie);
            prop_assert_eq!(quick, slow);
        }
    }
}
