//! The exchange that proves both ends, and the channel sealed with its keys.
//!
//! ```text
//! agent → hub  X1  exchange id = ephemeral X25519 key, join?, incarnation, highest key number
//! hub → agent  X2  hub's ephemeral key, root key, key statements, signature "hub" by the set-signing key
//! agent → hub  X3  identity key, signature "agent" by the identity key
//! ```
//!
//! SIGMA-like: both sign the transcript (every field so far, length-prefixed, with a role). The agent's signature
//! also covers a value derived from the shared secret, so nobody else can put an own identity on this exchange.
//! Keys come from HKDF-SHA256 with the transcript hash as salt, one per direction. Only the agent starts an
//! exchange. A frame that is sent again by the transport is identical; a message that is sent again by its
//! author is a new frame.

mod channel;
pub(crate) mod exchange;

pub use channel::{Channel, OpenError};
pub use exchange::{AgentExchange, ExchangeError, HubExchange};
