//! Who gets a place when places are scarce: a user alone may take half of them, n users each 1/(n+1), so there is
//! always room for somebody else. Nobody who has a place loses it.

use std::collections::HashMap;

/// Places that are taken.
#[derive(Debug)]
pub struct Fairness {
    capacity: usize,
    total: usize,
    users: HashMap<String, usize>,
}

impl Fairness {
    /// Nobody has one of `capacity` places.
    pub fn new(capacity: usize) -> Fairness {
        Fairness {
            capacity,
            total: 0,
            users: HashMap::new(),
        }
    }

    /// Takes a place for a user; whether there was one.
    pub fn enter(&mut self, user: &str) -> bool {
        let has = self.users.get(user).copied().unwrap_or(0);
        let active = self.users.len() + usize::from(has == 0);
        // Each may have at least one, as long as there is any.
        let share = (self.capacity / (active + 1)).max(1);
        if self.total >= self.capacity || has >= share {
            return false;
        }
        self.total += 1;
        *self.users.entry(user.to_owned()).or_default() += 1;
        true
    }

    /// Gives a place back.
    pub fn leave(&mut self, user: &str) {
        if let Some(has) = self.users.get_mut(user) {
            *has -= 1;
            self.total -= 1;
            if *has == 0 {
                self.users.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_noisy_user_leaves_half_to_others() {
        let mut places = Fairness::new(100);
        let taken = (0..500).filter(|_| places.enter("noisy")).count();
        assert_eq!(taken, 50);
        assert_eq!((0..500).filter(|_| places.enter("quiet")).count(), 33);
        assert!(places.enter("third"));
        for _ in 0..50 {
            places.leave("noisy");
        }
        assert!(places.enter("noisy"));
        places.leave("nobody");
    }

    proptest! {
        /// Places are never over-committed, and all come back.
        #[test]
        fn places_add_up(steps in proptest::collection::vec((0_u8..5, any::<bool>()), 0..200)) {
            let mut places = Fairness::new(8);
            let mut taken: Vec<u8> = Vec::new();
            for (user, enters) in steps {
                if enters {
                    if places.enter(&user.to_string()) {
                        taken.push(user);
                    }
                } else if let Some(at) = taken.iter().position(|u| *u == user) {
                    taken.remove(at);
                    places.leave(&user.to_string());
                }
                prop_assert_eq!(places.total, taken.len());
                prop_assert!(taken.len() <= 8);
            }
            for user in taken {
                places.leave(&user.to_string());
            }
            prop_assert_eq!((places.total, places.users.len()), (0, 0));
        }
    }
}
