//! The messages inside sealed frames.
//!
//! One conversation: `Hello` → `Welcome` → (`Offer` → `Want`/`Chunk`… → `Ack`)*, with `Report`/`ReportAck` and
//! `Beat`/`BeatAck` beside it. Everything is level-triggered: a lost message is repeated by whoever misses the
//! answer, as a new frame with a new counter; nothing depends on order.

use serde::{Deserialize, Serialize};

use super::as_bytes;
use super::carried::SealingKey;
use super::envelope::{WireError, from_postcard, to_postcard};
use super::report::Report;
use super::room::{MemberNote, Room};
use crate::bundle::{self, Descriptor, Encoding, SignedDescriptor};
use crate::ids::{
    BootId, ClusterName, Digest, FleetId, Incarnation, KeyNumber, ReportSeq, Sequence, Session, Signature,
};
use crate::keys::SignedReceipt;
use crate::limits;
use crate::reason::Code;
use crate::set::{Delta, Head, SignedHead};
use crate::time::UnixSeconds;

/// Agent to hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "a message lives for one hop; none is kept in numbers"
)]
pub enum Up {
    /// Enrol.
    Join(Join),
    /// First message of every connection of an enrolled agent.
    Hello(Hello),
    /// A set is committed in the ledger.
    Ack(Ack),
    /// A set is refused.
    Refused(Refused),
    /// Please send a part of a set or content.
    Want(Want),
    /// What the agent observed and did.
    Report(Report),
    /// Still here.
    Beat(Beat),
    /// Answer to [`Down::Ask`]: a part of what the agent holds.
    Held(Chunk),
    /// How the member's API stands.
    Member(MemberNote),
    /// Free room by node, and what the cluster runs besides.
    Room(Room),
}

/// Hub to agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Down {
    /// Enrolled.
    Joined(Joined),
    /// Not enrolled.
    JoinRefused(JoinRefused),
    /// Answer to a hello.
    Welcome(Welcome),
    /// There is a set.
    Offer(Box<Offer>),
    /// Answer to a want.
    Chunk(Chunk),
    /// A report is stored.
    ReportAck(ReportAck),
    /// Answer to a beat.
    BeatAck(BeatAck),
    /// The hub is behind: please send a part of what you hold.
    Ask(Ask),
    /// The enrolment is over.
    Revoked(Revoked),
    /// Beside a welcome: the key under which sets for this enrolment are sealed in files.
    SealingKey(SealingKey),
}

/// Enrol with a token. The identity key is the one proven by the exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The join token.
    pub token: String,
    /// `metadata.uid` of the member's `kube-system`.
    pub kube_system_uid: String,
    /// Version of the agent program.
    pub agent_version: String,
}

/// What the agent has and is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// This process.
    pub boot: BootId,
    /// Highest session the agent has seen, plus one; within one process the agreed session itself may be proposed.
    pub proposed_session: Session,
    /// Head of the accepted set, if any.
    pub held: Option<SignedHead>,
    /// Highest key number the agent has seen.
    pub highest_key_number: KeyNumber,
    /// The enrolment receipt.
    pub receipt: SignedReceipt,
    /// `metadata.uid` of the member's `kube-system`, as seen now; empty if the member's API cannot be reached.
    pub kube_system_uid: String,
    /// `gitVersion` of the member, empty if unknown.
    pub kubernetes_version: String,
    /// Version of the agent program.
    pub agent_version: String,
    /// Time last confirmed by the hub, zero if never.
    pub confirmed_time_s: UnixSeconds,
}

/// The set of this sequence and digest is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Its sequence.
    pub sequence: Sequence,
    /// Its digest.
    pub digest: Digest,
}

/// A set was refused; the hub does not send it again until something changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Sequence of the refused set.
    pub sequence: Sequence,
    /// Digest of the refused set.
    pub digest: Digest,
    /// Why.
    pub reason: Code,
    /// For people, at most [`limits::MESSAGE_BYTES_MAX`].
    pub detail: String,
}

/// A thing that is sent in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum What {
    /// The whole set of a sequence ([`super::encode_set`]).
    Set(Sequence),
    /// The content of a digest.
    Content(Digest),
}

/// Please send a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// Of what.
    pub what: What,
    /// From this byte of the encoding; zero begins anew.
    pub offset: u32,
    /// A content that the agent holds and the hub may use as prefix.
    pub base: Option<Digest>,
    /// Send without any compression: an earlier encoding did not decode to its digest.
    pub raw: bool,
}

/// A part of an encoding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Of what.
    pub what: What,
    /// Position of `bytes` in the encoding.
    pub offset: u32,
    /// Length of the whole encoding.
    pub total: u32,
    /// SHA-256 of the whole encoding. Chunks of different encodings never mix.
    pub sha256: Digest,
    /// How the whole is encoded.
    pub encoding: Encoding,
    /// Length of the decoded bytes; for a content the same as in the entry.
    pub length: u32,
    /// For a content at offset 0: number of the signing key and signature of its descriptor.
    pub descriptor: Option<(KeyNumber, Signature)>,
    /// At most [`limits::CHUNK_BYTES_MAX`].
    #[serde(with = "as_bytes")]
    pub bytes: Vec<u8>,
}

/// Enrolled: what the agent writes down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// The receipt; it names fleet, cluster and incarnation.
    pub receipt: SignedReceipt,
    /// The hub's time.
    pub confirmed_time_s: UnixSeconds,
}

/// Not enrolled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRefused {
    /// Why.
    pub reason: Code,
    /// For people.
    pub detail: String,
}

/// Answer to a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The agreed session; the agent writes it down before its first report. The same as before if the hub knows
    /// this boot id; otherwise higher than any the hub knows, and report numbers begin at 1.
    pub session: Session,
    /// The hub's time.
    pub confirmed_time_s: UnixSeconds,
    /// Highest report of this session that the hub has stored. If it is lower than what was answered before, the hub
    /// lost reports (it was restored): the agent reports everything again, going on with its own numbers.
    pub last_report: ReportSeq,
    /// The hub is behind this agent; it will ask, not offer.
    pub behind: bool,
}

/// How an inline content is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InlineEncoding {
    /// As it is.
    Raw,
    /// A zstd frame.
    Zstd,
    /// A zstd frame with the content that the *base set* has under the same key as prefix.
    Previous,
}

/// A small content that rides along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineContent {
    /// Position of an entry in the new set that has this content.
    pub entry: u32,
    /// Key number of the descriptor.
    pub key_number: KeyNumber,
    /// Signature of the descriptor.
    pub signature: Signature,
    /// How `bytes` are encoded.
    pub encoding: InlineEncoding,
    /// At most [`limits::INLINE_BYTES_MAX`].
    #[serde(with = "as_bytes")]
    pub bytes: Vec<u8>,
}

/// There is a set. Fleet, cluster and incarnation of its head are those of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its sequence.
    pub sequence: Sequence,
    /// Its digest.
    pub digest: Digest,
    /// Number of the key that signs the head.
    pub key_number: KeyNumber,
    /// Signature of the head.
    pub signature: Signature,
    /// The sequence that `delta` starts from. Zero: the empty set, which everybody holds.
    pub base: Sequence,
    /// The way from `base`, if it is small and the hub has it. Else, or if the base is not at hand or the result has
    /// another digest: `Want` the whole set.
    pub delta: Option<Delta>,
    /// Contents that the agent lacks and that are small. Others are wanted by digest.
    pub inline: Vec<InlineContent>,
}

/// A report is stored; the agent need not repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportAck {
    /// Highest number stored in this session.
    pub report_seq: ReportSeq,
}

/// Still here; also repeats what is held, so a lost acknowledgement heals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Sequence of the held set, zero if none.
    pub sequence: Sequence,
    /// Its digest, that of the empty set if none.
    pub digest: Digest,
    /// Monotonic age of the process.
    pub uptime_ms: u64,
}

/// Answer to a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeatAck {
    /// The hub's time.
    pub confirmed_time_s: UnixSeconds,
    /// Sequence of the newest set of this cluster.
    pub sequence: Sequence,
}

/// The hub is behind: send a chunk of what you hold, as [`Up::Held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The held set of a sequence, or a content of it.
    pub what: What,
    /// From this byte of the encoding.
    pub offset: u32,
}

/// The enrolment is over. The agent keeps the workloads and stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// Why.
    pub reason: Code,
}

impl Offer {
    /// The signed head that this offer stands for in a session.
    #[must_use]
    pub fn head(&self, fleet: FleetId, cluster: ClusterName, incarnation: Incarnation) -> SignedHead {
        let Self {
            sequence,
            digest,
            key_number,
            ..
        } = *self;
        let head = Head {
            fleet,
            cluster,
            incarnation,
            sequence,
            digest,
            key_number,
        };
        SignedHead {
            head,
            signature: self.signature,
        }
    }
}

/// The signed descriptor that a key number and signature on the wire stand for.
#[must_use]
pub const fn descriptor(
    fleet: FleetId,
    digest: Digest,
    length: u32,
    key_number: KeyNumber,
    signature: Signature,
) -> SignedDescriptor {
    SignedDescriptor {
        descriptor: Descriptor {
            fleet,
            digest,
            length,
            key_number,
        },
        signature,
    }
}

/// Version of the plaintext format.
const PLAIN_VERSION: u8 = 1;
const PLAIN_RAW: u8 = 0;
const PLAIN_ZSTD: u8 = 1;
/// Shorter plaintexts are not worth a zstd frame.
const COMPRESS_FROM: usize = 256;
/// Longer plaintexts are compressed with little effort.
const COMPRESS_LIGHTLY_FROM: usize = 4 << 10;

fn seal_plain(body: &[u8], compress: bool) -> Vec<u8> {
    let frame = || match body.len() {
        ..COMPRESS_LIGHTLY_FROM => bundle::compress(body, &[]),
        _ => bundle::compress_lightly(body),
    };
    if compress
        && body.len() >= COMPRESS_FROM
        && let Ok(frame) = frame()
        && frame.len() < body.len()
    {
        return [&[PLAIN_VERSION, PLAIN_ZSTD], frame.as_slice()].concat();
    }
    [&[PLAIN_VERSION, PLAIN_RAW], body].concat()
}

fn open_plain(plain: &[u8]) -> Result<std::borrow::Cow<'_, [u8]>, WireError> {
    match plain {
        [version, ..] if *version > PLAIN_VERSION => Err(WireError::UnknownVersion { found: *version }),
        [PLAIN_VERSION, PLAIN_RAW, body @ ..] => Ok(body.into()),
        [PLAIN_VERSION, PLAIN_ZSTD, frame @ ..] => bundle::inflate(frame, &[], limits::PAYLOAD_BYTES_MAX)
            .map(Into::into)
            .map_err(|_| WireError::Malformed("compressed plaintext")),
        _ => Err(WireError::Malformed("plaintext")),
    }
}

/// The plaintext of an up message, ready to seal.
#[must_use]
pub fn encode_up(message: &Up) -> Vec<u8> {
    seal_plain(&to_postcard(message), !matches!(message, Up::Held(_)))
}

/// Reads an opened up frame, checking limits.
///
/// # Errors
/// [`WireError`].
pub fn decode_up(plain: &[u8]) -> Result<Up, WireError> {
    let up: Up = from_postcard(&open_plain(plain)?, "up message")?;
    let ok = match &up {
        Up::Join(j) => {
            j.token.len() <= limits::TOKEN_BYTES_MAX && texts_ok(&[&j.kube_system_uid, &j.agent_version])
        }
        Up::Hello(h) => {
            texts_ok(&[&h.kube_system_uid, &h.kubernetes_version, &h.agent_version])
                && h.receipt.receipt.labels.len() <= limits::CLUSTER_LABELS_MAX
        }
        Up::Refused(r) => r.detail.len() <= limits::MESSAGE_BYTES_MAX,
        Up::Report(r) => r.within_limits(),
        Up::Held(c) => c.within_limits(),
        Up::Member(m) => m.message.len() <= limits::MESSAGE_BYTES_MAX,
        Up::Room(r) => r.within_limits(),
        Up::Ack(_) | Up::Want(_) | Up::Beat(_) => true,
    };
    if ok {
        Ok(up)
    } else {
        Err(WireError::Malformed("up message: over a limit"))
    }
}

/// The plaintext of a down message, ready to seal.
#[must_use]
pub fn encode_down(message: &Down) -> Vec<u8> {
    // Contents are compressed already; a delta of bookkeeping may gain.
    seal_plain(&to_postcard(message), !matches!(message, Down::Chunk(_)))
}

/// Reads an opened down frame, checking limits.
///
/// # Errors
/// [`WireError`].
pub fn decode_down(plain: &[u8]) -> Result<Down, WireError> {
    let down: Down = from_postcard(&open_plain(plain)?, "down message")?;
    let ok = match &down {
        Down::Chunk(c) => c.within_limits(),
        Down::Offer(o) => {
            o.inline.iter().all(|i| i.bytes.len() <= limits::INLINE_BYTES_MAX)
                && o.delta
                    .as_ref()
                    .is_none_or(|d| d.len() <= limits::DELTA_CHANGES_MAX)
        }
        Down::JoinRefused(r) => r.detail.len() <= limits::MESSAGE_BYTES_MAX,
        _ => true,
    };
    if ok {
        Ok(down)
    } else {
        Err(WireError::Malformed("down message: over a limit"))
    }
}

fn texts_ok(texts: &[&str]) -> bool {
    texts.iter().all(|t| t.len() <= limits::NAME_BYTES_MAX)
}

impl Chunk {
    fn within_limits(&self) -> bool {
        let (offset, total) = (self.offset as usize, self.total as usize);
        self.bytes.len() <= limits::CHUNK_BYTES_MAX
            && total <= limits::ENCODING_BYTES_MAX
            && self.length as usize <= limits::SET_BYTES_MAX
            && offset + self.bytes.len() <= total
            && (!self.bytes.is_empty() || total == 0)
    }
}
