//! A place in the event history that moves forward: what a watch is made of.
//!
//! A cursor holds no events, so a slow one costs nothing; when the ring has moved past it, it ends with
//! [`Compacted`] and the client lists again.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use super::error::Compacted;
use super::memory::Memory;
use super::object::{Event, ResourceId, Revision};

/// Events fetched under one lock.
const FETCH: usize = 128;

/// A watcher's place in the history. See [`super::Store::watch`].
#[derive(Debug)]
pub struct Cursor {
    memory: Arc<RwLock<Memory>>,
    resource: Option<ResourceId>,
    /// Everything up to here was fetched.
    fetched: Revision,
    /// Everything up to here was handed out.
    position: Revision,
    waiting: VecDeque<Arc<Event>>,
    arrivals: watch::Receiver<Revision>,
}

impl Cursor {
    pub(super) fn new(
        memory: Arc<RwLock<Memory>>,
        resource: Option<ResourceId>,
        after: Revision,
        arrivals: watch::Receiver<Revision>,
    ) -> Cursor {
        Cursor {
            memory,
            resource,
            fetched: after,
            position: after,
            waiting: VecDeque::new(),
            arrivals,
        }
    }

    /// The next event, waiting for it. Cancel-safe: a dropped future loses nothing.
    ///
    /// # Errors
    /// [`Compacted`] when the ring has moved past this cursor.
    pub async fn next(&mut self) -> Result<Arc<Event>, Compacted> {
        loop {
            self.arrivals.borrow_and_update();
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            if self.arrivals.changed().await.is_err() {
                // The store is gone; nothing will ever arrive, the caller's own deadline ends the watch.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The next event if there is one already.
    ///
    /// # Errors
    /// [`Compacted`] when the ring has moved past this cursor.
    pub fn try_next(&mut self) -> Result<Option<Arc<Event>>, Compacted> {
        if self.waiting.is_empty() {
            let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            let (events, upto) = memory.events_after(self.resource.as_ref(), self.fetched, FETCH)?;
            self.waiting.extend(events);
            self.fetched = self.fetched.max(upto);
        }
        let event = self.waiting.pop_front();
        self.position = match &event {
            Some(event) => event.revision,
            None => self.fetched,
        };
        Ok(event)
    }

    /// The revision up to which everything was handed out: what a bookmark may say.
    pub fn position(&self) -> Revision {
        self.position
    }
}
