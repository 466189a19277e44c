//! The group `fleet.pinnace.dev/v1alpha1`: what the command line `pinnace` asks of the hub.

pub mod wire;
