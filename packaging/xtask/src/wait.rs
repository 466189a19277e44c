//! Waiting for a state instead of for a time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::limits::LOOK;

/// What one look at a state found.
pub enum Look<T> {
    /// The state is there.
    There(T),
    /// Not yet, and what was seen instead; the last one becomes the message if the time runs out.
    NotYet(String),
}

/// Looks until the state is there.
///
/// # Errors
/// When `patience` is over (the message names `what` and what was seen last), or at once when `look` fails.
pub fn until<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Result<Look<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        match look()? {
            Look::There(value) => return Ok(value),
            Look::NotYet(seen) if start.elapsed() >= patience => {
                bail!(
                    "waited {} s in vain for {what}; last seen: {seen}",
                    patience.as_secs()
                )
            }
            Look::NotYet(_) => std::thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_comes_as_soon_as_it_is_there() {
        let mut looks = 0;
        let value = until("three looks", Duration::from_secs(5), || {
            looks += 1;
            Ok(if looks == 3 {
                Look::There(looks)
            } else {
                Look::NotYet("too early".into())
            })
        });
        assert_eq!(value.unwrap(), 3);
    }

    #[test]
    fn the_message_says_what_was_seen_last() {
        let result: Result<()> = until("the moon", Duration::ZERO, || Ok(Look::NotYet("clouds".into())));
        assert_eq!(
            result.unwrap_err().to_string(),
            "waited 0 s in vain for the moon; last seen: clouds"
        );
    }
}
