//! Resource rules: how to read replicas, health and status of a kind.
