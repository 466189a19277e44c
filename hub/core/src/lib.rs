//! Pure decisions of the hub.
