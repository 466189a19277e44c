//! Requests against the API over a real store.
