//! Requests that last end when what let them in is taken back.

use super::super::Api;
use super::super::encode::line;
use super::Caller;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use hub_core::access::Attributes;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::watch;

/// What a lasting request was let in with.
pub(in crate::api) struct Guard {
    api: Arc<Api>,
    caller: Caller,
    wish: Attributes,
    moved: watch::Receiver<u64>,
}

impl Guard {
    pub(in crate::api) fn new(api: Arc<Api>, caller: Caller, wish: Attributes) -> Guard {
        let moved = api.access.moved.subscribe();
        Guard {
            api,
            caller,
            wish,
            moved,
        }
    }

    /// Comes back, with the refusal as the last line of a watch, when the caller may no longer do it.
    async fn refused(&mut self) -> Bytes {
        loop {
            if self.moved.changed().await.is_err() {
                return std::future::pending().await;
            }
            if let Err(error) = self.api.access.still(&self.caller, &self.wish) {
                return line("ERROR", error.to_value().to_string().as_bytes());
            }
        }
    }

    /// Passes a watch on for as long as the caller may have it.
    pub(in crate::api) fn around(
        self,
        stream: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
    ) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
        let state = (Box::pin(stream), self, false);
        futures::stream::unfold(state, |(mut stream, mut guard, ended)| async move {
            if ended {
                return None;
            }
            tokio::select! {
                biased;
                last = guard.refused() => Some((Ok(last), (stream, guard, true))),
                next = stream.next() => Some((next?, (stream, guard, false))),
            }
        })
    }
}
