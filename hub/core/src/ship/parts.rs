//! Chunks of sets and contents, in answer to wants.

use shared::ids::Digest;
use shared::wire::{Chunk, Want as WireWant, What, cut, encode_set};

use super::encodings::Want;
use super::{Current, Desk};

/// A chunk of the whole current set.
pub(super) fn set_chunk(current: &Current, want: &WireWant, desk: &mut Desk<'_>) -> Option<Chunk> {
    let wish = if want.raw {
        Want::Raw(current.digest)
    } else {
        Want::Plain(current.digest)
    };
    let ready = match desk.encodings.peek(&wish) {
        Some(ready) => ready,
        None => desk.encodings.get(wish, &encode_set(&current.set), None)?,
    };
    let what = What::Set(current.sequence);
    cut(
        what,
        ready.encoding,
        &ready.bytes,
        ready.sha256,
        ready.length,
        want.offset,
    )
}

/// A chunk of a content; `may_use` says which bases are this cluster's own.
pub(super) fn content_chunk(
    digest: &Digest,
    want: &WireWant,
    may_use: impl Fn(&Digest) -> bool,
    desk: &mut Desk<'_>,
) -> Option<Chunk> {
    let content = desk.shelf.content(digest)?;
    let from = want
        .base
        .filter(|base| !want.raw && base != digest && may_use(base));
    let base = from.and_then(|base| Some((base, desk.shelf.content(&base)?)));
    let ready = match (want.raw, &base) {
        (true, _) => desk.encodings.get(Want::Raw(*digest), &content, None)?,
        (false, Some((from, bytes))) => desk.encodings.get(
            Want::Prefixed {
                to: *digest,
                from: *from,
            },
            &content,
            Some(bytes),
        )?,
        (false, None) => desk.encodings.get(Want::Plain(*digest), &content, None)?,
    };
    let what = What::Content(*digest);
    let mut chunk = cut(
        what,
        ready.encoding,
        &ready.bytes,
        ready.sha256,
        ready.length,
        want.offset,
    )?;
    if want.offset == 0 {
        chunk.descriptor = Some(desk.encodings.sign(*digest, content.len(), desk.keys)?);
    }
    Some(chunk)
}
