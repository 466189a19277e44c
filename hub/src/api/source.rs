//! Where objects come from: the store, and the views made of it, looked at through the resource that was asked for.

use crate::store::{Compacted, Cursor, Event, Listing, Object, ResourceId, Revision, Store, StoreError};
use crate::views::{self, ViewCursor};
use hub_core::status_error::StatusError;
use hub_core::types::Resource;
use std::sync::Arc;

/// A resource that is served, and where its objects are stored.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) resource: Arc<Resource>,
    pub(super) id: ResourceId,
}

/// A read that the store could not answer.
fn unreadable(error: StoreError) -> StatusError {
    StatusError::internal(error)
}

/// One object as clients read it.
///
/// # Errors
/// 500 if the store cannot read it, or what a view is made of.
pub(super) fn get(
    store: &Store,
    served: &Served,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<Object>>, StatusError> {
    let found = views::get(store, &served.id, namespace, name).map_err(unreadable)?;
    if found.is_none()
        && let Some(cause) = store.is_quarantined(&served.id, namespace, name)
    {
        return Err(StatusError::internal(format!(
            "{cause}; create it anew or restore a backup (see `pinnace-hub doctor`)"
        )));
    }
    Ok(found)
}

/// All objects as clients read them, or those of a namespace, from one snapshot.
///
/// # Errors
/// 500 if the store cannot read what a view is made of.
pub(super) fn list(store: &Store, served: &Served, namespace: Option<&str>) -> Result<Listing, StatusError> {
    views::list(store, &served.id, namespace).map_err(unreadable)
}

/// Changes of a resource as clients read it.
pub(super) enum Feed {
    /// As stored.
    Stored(Cursor),
    /// Of views.
    Viewed(Box<ViewCursor>),
}

impl Feed {
    /// The next event. Cancel-safe.
    ///
    /// # Errors
    /// [`Compacted`] when the client must list again.
    pub(super) async fn next(&mut self) -> Result<Arc<Event>, Compacted> {
        match self {
            Feed::Stored(cursor) => cursor.next().await,
            Feed::Viewed(cursor) => cursor.next().await,
        }
    }

    /// The revision up to which everything was handed out.
    pub(super) fn position(&self) -> Revision {
        match self {
            Feed::Stored(cursor) => cursor.position(),
            Feed::Viewed(cursor) => cursor.position(),
        }
    }
}

/// Changes after a revision.
///
/// # Errors
/// [`Compacted`] if not all of them are kept any more.
pub(super) fn watch(store: &Store, served: &Served, after: Revision) -> Result<Feed, Compacted> {
    if views::is_view(&served.id) {
        return views::watch(store, &served.id, after).map(|cursor| Feed::Viewed(Box::new(cursor)));
    }
    store.watch(Some(&served.id), after).map(Feed::Stored)
}
