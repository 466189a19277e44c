//! Watches: a stream of events from a place in the history, filtered for the client.

use super::catalog::Catalog;
use super::encode::{Encoder, line};
use super::places::Place;
use super::read::{Selection, revision_of};
use super::request::Query;
use super::source::{self, Feed, Served};
use super::{Api, limits};
use crate::store::{Compacted, Event, EventKind, Object, Revision};
use bytes::Bytes;
use futures::Stream;
use hub_core::access::User;
use hub_core::status_error::{Cause, Reason, StatusError};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// One watch of one client.
struct Watch {
    encoder: Encoder,
    selection: Selection,
    namespace: Option<String>,
    cursor: Result<Feed, Compacted>,
    /// Objects that are shown as ADDED before anything else.
    initial: VecDeque<Arc<Object>>,
    /// Bookmark to send after them: the end of the initial events.
    end_of_initial: Option<Revision>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    is_first: bool,
    ended: bool,
    /// Set for custom resources: tells when what is served changes.
    kinds: Option<Changes>,
    _place: Place,
}

/// Ends the watch of a custom resource whose definition changed: what follows is shaped otherwise.
struct Changes {
    catalog: Arc<Catalog>,
    changed: tokio::sync::watch::Receiver<u64>,
}

impl Changes {
    fn of(catalog: &Arc<Catalog>, served: &Served) -> Option<Changes> {
        served.resource.custom.as_ref()?;
        Some(Changes {
            catalog: catalog.clone(),
            changed: catalog.changes(),
        })
    }

    /// Comes back when the resource is no longer served as it was.
    async fn until(&mut self, served: &Served) {
        let resource = &served.resource;
        loop {
            let now = self
                .catalog
                .get(&resource.group, &resource.version, &resource.plural);
            if now.is_none_or(|now| now.resource != *resource) || self.changed.changed().await.is_err() {
                return;
            }
        }
    }
}

async fn until_changed(kinds: &mut Option<Changes>, served: &Served) {
    match kinds {
        Some(changes) => changes.until(served).await,
        None => std::future::pending().await,
    }
}

fn invalid(field: &str, why: &str) -> StatusError {
    StatusError::invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        vec![Cause::forbidden(field, why)],
    )
}

/// Whether initial events are asked for in the new way.
fn sends_initial(query: &Query) -> Result<bool, StatusError> {
    let rule = query.get("resourceVersionMatch");
    match (query.get("sendInitialEvents").is_some(), rule) {
        (false, None) => Ok(false),
        (false, Some(_)) => {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            Err(invalid("resourceVersionMatch", why))
        }
        (true, Some("NotOlderThan")) => Ok(query.flag("sendInitialEvents")),
        (true, _) => {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            Err(invalid("resourceVersionMatch", why))
        }
    }
}

impl Api {
    /// Starts a watch.
    ///
    /// # Errors
    /// What the query does wrong; 429 if there are too many watches, or too many of this user.
    pub(super) fn watch(
        &self,
        user: &User,
        served: &Served,
        namespace: Option<&str>,
        encoder: Encoder,
        query: &Query,
    ) -> Result<impl Stream<Item = Result<Bytes, Infallible>> + Send + use<>, StatusError> {
        let selection = Selection::parse(query, served)?;
        let after = revision_of(query)?;
        let streams_initial = sends_initial(query)?;
        let asked_not_to = query.get("sendInitialEvents").is_some() && !streams_initial;
        let seconds = match query.number("timeoutSeconds")?.filter(|s| *s > 0) {
            Some(seconds) => seconds.min(limits::WATCH_SECONDS_MAX),
            None => limits::WATCH_SECONDS + self.random_number() % limits::WATCH_SECONDS,
        };
        let place = self.watches.enter(&user.name).ok_or_else(super::busy)?;

        // Without a place in history the present is shown first.
        let shows_present = streams_initial || (after.is_none() && !asked_not_to);
        let (initial, from) = if shows_present {
            let listing = self.snapshot(served, namespace, &selection)?;
            let selected = listing.items.into_iter().filter(|o| selection.matches(served, o));
            (selected.collect(), listing.revision)
        } else {
            (VecDeque::new(), after.unwrap_or_else(|| self.store.revision()))
        };
        let now = Instant::now();
        let watch = Watch {
            cursor: source::watch(&self.store, served, from),
            end_of_initial: streams_initial.then_some(from),
            initial,
            selection,
            namespace: namespace.map(str::to_owned),
            encoder,
            bookmarks: query.flag("allowWatchBookmarks"),
            next_bookmark: now + limits::BOOKMARK_EVERY,
            deadline: now + Duration::from_secs(seconds),
            is_first: true,
            ended: false,
            kinds: Changes::of(&self.catalog, served),
            _place: place,
        };
        Ok(futures::stream::unfold(watch, |mut watch| async move {
            let bytes = watch.next().await?;
            Some((Ok(bytes), watch))
        }))
    }
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if let Some(object) = self.initial.pop_front() {
            return Some(self.encode("ADDED", &object));
        }
        if let Some(revision) = self.end_of_initial.take() {
            return Some(self.encoder.bookmark(revision.0, true));
        }
        loop {
            let cursor = match &mut self.cursor {
                Ok(cursor) => cursor,
                Err(compacted) => {
                    self.ended = true;
                    let text = format!(
                        "too old resource version: {} ({})",
                        compacted.after, compacted.floor
                    );
                    let status = StatusError::new(Reason::Expired, text).to_value();
                    return Some(line("ERROR", status.to_string().as_bytes()));
                }
            };
            let event = tokio::select! {
                event = cursor.next() => event,
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + limits::BOOKMARK_EVERY;
                    let revision = cursor.position();
                    return Some(self.encoder.bookmark(revision.0, false));
                }
                () = until_changed(&mut self.kinds, &self.encoder.served) => {
                    self.ended = true;
                    return None;
                }
                () = sleep_until(self.deadline) => {
                    self.ended = true;
                    let revision = cursor.position();
                    return self.bookmarks.then(|| self.encoder.bookmark(revision.0, false));
                }
            };
            match event {
                Err(compacted) => self.cursor = Err(compacted),
                Ok(event) => {
                    if let Some(bytes) = self.show(&event) {
                        return Some(bytes);
                    }
                }
            }
        }
    }

    fn encode(&mut self, kind: &str, object: &Object) -> Bytes {
        let is_first = std::mem::take(&mut self.is_first);
        self.encoder.event(kind, object, is_first)
    }

    /// An event as this client sees it: what enters the selection is added, what leaves it is deleted.
    fn show(&mut self, event: &Event) -> Option<Bytes> {
        let is_here = self
            .namespace
            .as_ref()
            .is_none_or(|n| *n == event.object.namespace);
        if !is_here {
            return None;
        }
        let selected = |object: &Object| self.selection.matches(&self.encoder.served, object);
        let before = event.previous.as_deref().is_some_and(selected);
        let after = event.kind == EventKind::Put && selected(&event.object);
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(self.encode("ADDED", &event.object)),
            (true, true) => Some(self.encode("MODIFIED", &event.object)),
            (true, false) if event.kind == EventKind::Delete => Some(self.encode("DELETED", &event.object)),
            (true, false) => {
                // The content that was selected, under the revision at which it ceased to be.
                let last = event.previous.as_deref()?.restamped(event.revision);
                Some(self.encode("DELETED", &last))
            }
        }
    }
}
