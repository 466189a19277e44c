//! What agents of one cluster share when they lead in turn, as documents for Secrets: the accepted set, its contents, and
//! the records and open intents of objects.
//!
//! A document of contents or of a set never changes: its name follows from what is in it, so the signed head alone says
//! which documents make up the set, and writing one twice is writing it once. Records and intents change; they are
//! divided by the hash of their key. A reader trusts none of it: head, set, descriptors and contents are verified as if
//! they came from the wire. Format 1.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use shared::bundle::{SignedDescriptor, compress, inflate};
use shared::ids::{Digest, Nonce, ObjectKey};
use shared::keys::KeyRing;
use shared::set::{Head, Set, SignedHead};
use shared::wire::{decode_set, encode_set};
use thiserror::Error;

use crate::holdings::Content;
use crate::intake::Owner;
use crate::limits::{
    MIRROR_BUCKET_BYTES, MIRROR_BUCKETS_MAX, MIRROR_DOCUMENT_BYTES_MAX, MIRROR_PART_BYTES, MIRROR_SHARDS,
};
use crate::record::{Intent, ObjectRecord, Origin};

const FORMAT: u32 = 1;

/// Why a document cannot be written or used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MirrorError {
    /// More than a document may hold.
    #[error("{0} has more than {MIRROR_DOCUMENT_BYTES_MAX} bytes")]
    TooLarge(String),
    /// It does not follow its format, or does not verify.
    #[error("{document}: {why}")]
    Damaged {
        /// Which one.
        document: String,
        /// What is wrong.
        why: String,
    },
    /// A newer agent wrote it.
    #[error("{0} was written by a newer agent: use that")]
    Newer(String),
}

fn damaged(document: &str, why: impl ToString) -> MirrorError {
    MirrorError::Damaged {
        document: document.to_owned(),
        why: why.to_string(),
    }
}

/// Name of the document with the set of a head.
#[must_use]
pub fn set_name(head: &Head) -> String {
    format!("pinnace-set-{}-{}", head.sequence.0, beginning(&head.digest))
}

/// Enough of a digest to tell names apart; whoever reads verifies the whole.
fn beginning(digest: &Digest) -> String {
    digest.to_string().chars().take(16).collect()
}

/// Name of the document with the records and intents of a shard.
#[must_use]
pub fn shard_name(shard: u8) -> String {
    format!("pinnace-objects-{shard}")
}

/// The shard of a key.
#[must_use]
pub fn shard_of(key: &ObjectKey) -> u8 {
    Digest::of(key.to_string().as_bytes()).0[0] % MIRROR_SHARDS
}

/// The documents with the contents of a set: which contents are in which. The same contents give the same names.
#[must_use]
pub fn content_documents(set: &Set) -> BTreeMap<String, BTreeSet<Digest>> {
    let lengths: BTreeMap<Digest, u32> = set.entries().iter().map(|e| (e.digest, e.length)).collect();
    let total: u64 = lengths.values().map(|l| u64::from(*l)).sum();
    let buckets = (total / MIRROR_BUCKET_BYTES)
        .next_power_of_two()
        .clamp(1, MIRROR_BUCKETS_MAX);
    let mut by_bucket: BTreeMap<u64, BTreeSet<Digest>> = BTreeMap::new();
    for digest in lengths.keys() {
        by_bucket
            .entry(u64::from(digest.0[0]) % buckets)
            .or_default()
            .insert(*digest);
    }
    by_bucket
        .into_iter()
        .map(|(bucket, digests)| {
            let all: Vec<u8> = digests.iter().flat_map(|d| d.0).collect();
            (
                format!("pinnace-contents-{bucket:02x}-{}", beginning(&Digest::of(&all))),
                digests,
            )
        })
        .collect()
}

/// A document cut into what one Secret holds; never without a part.
#[must_use]
pub fn parts(document: &[u8]) -> Vec<&[u8]> {
    if document.is_empty() {
        return vec![document];
    }
    document.chunks(MIRROR_PART_BYTES).collect()
}

#[derive(Serialize, Deserialize)]
struct Contents {
    format: u32,
    contents: Vec<OneContent>,
}

#[derive(Serialize, Deserialize)]
struct OneContent {
    descriptor: SignedDescriptor,
    /// Canonical JSON is text.
    body: String,
}

/// The bytes of a document of contents.
///
/// # Errors
/// [`MirrorError::TooLarge`].
pub fn encode_contents(name: &str, contents: Vec<Content>) -> Result<Vec<u8>, MirrorError> {
    let contents = contents
        .into_iter()
        .map(|c| {
            Ok(OneContent {
                descriptor: c.descriptor,
                body: String::from_utf8(c.bytes).map_err(|_| damaged(name, "a content is no text"))?,
            })
        })
        .collect::<Result<_, MirrorError>>()?;
    pack(
        name,
        &Contents {
            format: FORMAT,
            contents,
        },
    )
}

/// The contents of a document, each verified by its signed descriptor and its digest.
///
/// # Errors
/// [`MirrorError`].
pub fn decode_contents(name: &str, bytes: &[u8], ring: &KeyRing) -> Result<Vec<Content>, MirrorError> {
    let document: Contents = unpack(name, bytes)?;
    newer(name, document.format)?;
    document
        .contents
        .into_iter()
        .map(|c| {
            let content = Content {
                descriptor: c.descriptor,
                bytes: c.body.into_bytes(),
            };
            content.descriptor.verify(ring).map_err(|e| damaged(name, e))?;
            content
                .descriptor
                .check(&content.bytes)
                .map_err(|e| damaged(name, e))?;
            Ok(content)
        })
        .collect()
}

/// The bytes of the document of a set.
///
/// # Errors
/// [`MirrorError::TooLarge`].
pub fn encode_set_document(name: &str, set: &Set) -> Result<Vec<u8>, MirrorError> {
    compressed(name, &encode_set(set))
}

/// The set of a head, verified by the head, which is verified first.
///
/// # Errors
/// [`MirrorError::Damaged`] when head or set is not this cluster's, or does not verify.
pub fn decode_set_document(
    name: &str,
    bytes: &[u8],
    head: &SignedHead,
    owner: &Owner,
    ring: &KeyRing,
) -> Result<Set, MirrorError> {
    let ours = head.head.fleet == owner.fleet
        && head.head.cluster == owner.cluster
        && head.head.incarnation == owner.incarnation;
    if !ours {
        return Err(damaged(name, "the set is another cluster's"));
    }
    head.verify(ring).map_err(|e| damaged(name, e))?;
    let body = inflate(bytes, &[], MIRROR_DOCUMENT_BYTES_MAX).map_err(|e| damaged(name, e))?;
    let set = decode_set(&body).map_err(|e| damaged(name, e))?;
    if !head.is_of(&set) {
        return Err(damaged(
            name,
            "the set does not have the digest of its signed head",
        ));
    }
    Ok(set)
}

/// What is known of one object: its record, and an intent that is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// The record.
    pub record: Option<ObjectRecord>,
    /// The intent.
    pub intent: Option<Intent>,
}

impl Row {
    /// Whether a reader who knows `self` instead of `other` could delete or create wrongly. What the last apply sent is
    /// found out again by applying.
    #[must_use]
    pub fn is_as_good_as(&self, other: &Self) -> bool {
        let essence = |row: &Self| {
            let record = row.record.as_ref();
            record.map(|r| {
                (
                    r.uid.clone(),
                    r.nonce,
                    r.origin,
                    r.template_uid.clone(),
                    r.completed,
                )
            })
        };
        essence(self) == essence(other) && self.intent == other.intent
    }
}

/// Rows by key.
pub type Rows = BTreeMap<ObjectKey, Row>;

#[derive(Serialize, Deserialize)]
struct Objects {
    format: u32,
    rows: Vec<OneRow>,
}

#[derive(Serialize, Deserialize)]
struct OneRow {
    key: ObjectKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<OneRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    intent: Option<OneIntent>,
}

#[derive(Serialize, Deserialize)]
struct OneRecord {
    version: String,
    uid: String,
    nonce: Option<Nonce>,
    created: bool,
    content: Digest,
    template: String,
    fields: Option<Digest>,
    completed: bool,
}

#[derive(Serialize, Deserialize)]
struct OneIntent {
    version: String,
    nonce: Nonce,
    template: String,
}

/// The bytes of a document of records and intents.
///
/// # Errors
/// [`MirrorError::TooLarge`].
pub fn encode_rows(name: &str, rows: &Rows) -> Result<Vec<u8>, MirrorError> {
    let rows = rows.iter().map(|(key, row)| OneRow {
        key: key.clone(),
        record: row.record.as_ref().map(|r| OneRecord {
            version: r.api_version.clone(),
            uid: r.uid.clone(),
            nonce: r.nonce,
            created: r.origin == Origin::Created,
            content: r.content,
            template: r.template_uid.clone(),
            fields: r.fields,
            completed: r.completed,
        }),
        intent: row.intent.as_ref().map(|i| OneIntent {
            version: i.api_version.clone(),
            nonce: i.nonce,
            template: i.template_uid.clone(),
        }),
    });
    let document = Objects {
        format: FORMAT,
        rows: rows.collect(),
    };
    pack(name, &document)
}

/// The rows of a document.
///
/// # Errors
/// [`MirrorError`].
pub fn decode_rows(name: &str, bytes: &[u8]) -> Result<Rows, MirrorError> {
    let document: Objects = unpack(name, bytes)?;
    newer(name, document.format)?;
    let rows = document.rows.into_iter().map(|row| {
        let key = row.key;
        let record = row.record.map(|r| ObjectRecord {
            key: key.clone(),
            api_version: r.version,
            uid: r.uid,
            nonce: r.nonce,
            origin: if r.created {
                Origin::Created
            } else {
                Origin::Adopted
            },
            content: r.content,
            template_uid: r.template,
            fields: r.fields,
            completed: r.completed,
        });
        let intent = row.intent.map(|i| Intent {
            key: key.clone(),
            api_version: i.version,
            nonce: i.nonce,
            template_uid: i.template,
        });
        (key, Row { record, intent })
    });
    Ok(rows.collect())
}

fn pack<T: Serialize>(name: &str, document: &T) -> Result<Vec<u8>, MirrorError> {
    let text = serde_json::to_vec(document).map_err(|e| damaged(name, e))?;
    compressed(name, &text)
}

fn compressed(name: &str, bytes: &[u8]) -> Result<Vec<u8>, MirrorError> {
    if bytes.len() > MIRROR_DOCUMENT_BYTES_MAX {
        return Err(MirrorError::TooLarge(name.to_owned()));
    }
    compress(bytes, &[]).map_err(|e| damaged(name, e))
}

fn unpack<T: for<'de> Deserialize<'de>>(name: &str, bytes: &[u8]) -> Result<T, MirrorError> {
    let text = inflate(bytes, &[], MIRROR_DOCUMENT_BYTES_MAX).map_err(|e| damaged(name, e))?;
    serde_json::from_slice(&text).map_err(|e| damaged(name, e))
}

fn newer(name: &str, format: u32) -> Result<(), MirrorError> {
    match format {
        FORMAT => Ok(()),
        0 => Err(damaged(name, "it has no format")),
        _ => Err(MirrorError::Newer(name.to_owned())),
    }
}

#[cfg(test)]
mod tests;
