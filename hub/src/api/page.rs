//! Lists in pages. All pages of a list come from one snapshot: page 1 pins it under a token for some minutes. When the
//! pin is gone the client is told 410 with a token that goes on from the same place in the present.

use super::limits;
use crate::store::{Listing, ResourceId};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hub_core::status_error::{Details, Reason, StatusError};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What a `continue` token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    /// Version of this format.
    v: u8,
    /// Number of the pin; 0 goes on in the present.
    pin: u64,
    /// Last object of the page before: namespace and name.
    after: (String, String),
}

impl Token {
    fn text(&self) -> String {
        BASE64.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads a token.
    ///
    /// # Errors
    /// 400 if it is not one of ours.
    pub(super) fn parse(text: &str) -> Result<Token, StatusError> {
        let bad = || StatusError::bad_request("continue key is not valid: it is not one this server gave");
        if text.len() > limits::TOKEN_BYTES {
            return Err(bad());
        }
        let bytes = BASE64.decode(text).map_err(|_| bad())?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        if token.v == 1 { Ok(token) } else { Err(bad()) }
    }

    /// Last object of the page before.
    pub(super) fn after(&self) -> (&str, &str) {
        (&self.after.0, &self.after.1)
    }

    /// Whether it goes on in the present.
    pub(super) fn is_unpinned(&self) -> bool {
        self.pin == 0
    }
}

struct Pin {
    number: u64,
    id: ResourceId,
    namespace: Option<String>,
    listing: Arc<Listing>,
    until: Instant,
}

/// Pinned snapshots.
#[derive(Default)]
pub(super) struct Pins {
    state: Mutex<(u64, VecDeque<Pin>)>,
}

impl Pins {
    /// The token that continues a listing after an object; pins the listing unless a pin has it already. The life of a
    /// pin begins with the first page; further ones do not lengthen it.
    pub(super) fn token(
        &self,
        id: &ResourceId,
        namespace: Option<&str>,
        listing: &Arc<Listing>,
        after: (&str, &str),
        is_first: bool,
        now: Instant,
    ) -> String {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, pins) = &mut *state;
        pins.retain(|p| p.until > now);
        let number = match pins.iter_mut().find(|p| Arc::ptr_eq(&p.listing, listing)) {
            Some(pin) => {
                if is_first {
                    pin.until = now + limits::PIN_LIFE;
                }
                pin.number
            }
            None => {
                if pins.len() >= limits::PINS {
                    pins.pop_front();
                }
                *last += 1;
                pins.push_back(Pin {
                    number: *last,
                    id: id.clone(),
                    namespace: namespace.map(str::to_owned),
                    listing: listing.clone(),
                    until: now + limits::PIN_LIFE,
                });
                *last
            }
        };
        Token {
            v: 1,
            pin: number,
            after: (after.0.to_owned(), after.1.to_owned()),
        }
        .text()
    }

    /// The snapshot of a token.
    ///
    /// # Errors
    /// 410 with a token for the present if it is gone.
    pub(super) fn find(
        &self,
        token: &Token,
        id: &ResourceId,
        namespace: Option<&str>,
        now: Instant,
    ) -> Result<Arc<Listing>, StatusError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |p: &&Pin| {
            p.number == token.pin && p.until > now && p.id == *id && p.namespace.as_deref() == namespace
        };
        if let Some(pin) = state.1.iter().find(fits) {
            return Ok(pin.listing.clone());
        }
        let mut error = StatusError::new(
            Reason::Expired,
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of \
             the results. Continuing with the provided token results in an inconsistent list - objects that were \
             created, modified, or deleted between the time the first chunk was returned and now may show up in the \
             list.",
        );
        let fresh = Token {
            pin: 0,
            ..token.clone()
        };
        error.details = Some(Box::new(Details {
            continue_token: fresh.text(),
            ..Details::default()
        }));
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Revision;

    #[test]
    fn pages_come_from_one_snapshot_until_it_is_gone() {
        let (pins, id, now) = (Pins::default(), ResourceId::new("", "pods"), Instant::now());
        let listing = Arc::new(Listing {
            revision: Revision(7),
            items: Vec::new(),
        });
        let text = pins.token(&id, Some("ns"), &listing, ("ns", "a"), true, now);
        let token = Token::parse(&text).expect("our token");
        assert_eq!(token.after(), ("ns", "a"));
        let found = pins.find(&token, &id, Some("ns"), now).expect("pinned");
        assert!(Arc::ptr_eq(&found, &listing));
        assert!(pins.find(&token, &id, None, now).is_err(), "another list");

        // Further pages do not keep it.
        let half = now + limits::PIN_LIFE / 2;
        pins.token(&id, Some("ns"), &listing, ("ns", "b"), false, half);
        let late = now + limits::PIN_LIFE;
        let error = pins.find(&token, &id, Some("ns"), late).expect_err("gone");
        assert_eq!(error.code(), 410);
        let fresh = error.details.expect("details").continue_token;
        assert!(
            Token::parse(&fresh)
                .expect("a token for the present")
                .is_unpinned()
        );
    }

    #[test]
    fn pins_are_bounded_and_foreign_tokens_refused() {
        let (pins, id, now) = (Pins::default(), ResourceId::new("", "pods"), Instant::now());
        let listing = || {
            Arc::new(Listing {
                revision: Revision(7),
                items: Vec::new(),
            })
        };
        let first = Token::parse(&pins.token(&id, None, &listing(), ("", "a"), true, now)).expect("a token");
        for _ in 0..limits::PINS {
            pins.token(&id, None, &listing(), ("", "a"), true, now);
        }
        assert!(pins.find(&first, &id, None, now).is_err(), "the oldest went");
        for text in ["", "x", "e30", &"a".repeat(5000)] {
            assert_eq!(Token::parse(text).expect_err("foreign").code(), 400);
        }
    }
}
