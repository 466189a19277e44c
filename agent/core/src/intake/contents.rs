//! Contents that ride along with an offer or come in chunks: decoded, verified, put aside.

use std::collections::BTreeMap;

use shared::bundle::{Encoding, decode};
use shared::ids::Digest;
use shared::keys::KeyRing;
use shared::set::Set;
use shared::wire::{InlineContent, InlineEncoding, Offer, What, descriptor};

use super::Intake;
use crate::facts::ContentFacts;
use crate::holdings::{Content, Holdings};

impl Intake {
    pub(super) fn missing_of(&self, set: &Set, holdings: &dyn Holdings) -> BTreeMap<Digest, u32> {
        set.entries()
            .iter()
            .map(|e| (e.digest, e.length))
            .filter(|(d, _)| !self.staged.contains_key(d) && !holdings.has(d))
            .collect()
    }

    pub(super) fn take_inline(&mut self, offer: &Offer, ring: &KeyRing, holdings: &dyn Holdings) {
        for inline in &offer.inline {
            let Some(content) = self.decode_inline(inline, offer, holdings) else {
                continue;
            };
            self.stage(content, ring);
        }
    }

    /// Decodes one inline content; whatever does not fit is simply asked for.
    fn decode_inline(
        &self,
        inline: &InlineContent,
        offer: &Offer,
        holdings: &dyn Holdings,
    ) -> Option<Content> {
        let set = self.coming.as_ref()?.set.clone()?;
        let entry = set.entries().get(inline.entry as usize)?;
        if !self.coming.as_ref()?.missing.contains_key(&entry.digest) {
            // Held or put aside already.
            return None;
        }
        let previous = || {
            let old = self.base(offer.base)?.entry(&entry.key)?.digest;
            Some((old, holdings.content(&old)?.bytes))
        };
        let (encoding, base) = match inline.encoding {
            InlineEncoding::Raw => (Encoding::Raw, None),
            InlineEncoding::Zstd => (Encoding::Zstd, None),
            InlineEncoding::Previous => {
                let (digest, bytes) = previous()?;
                (Encoding::ZstdPrefix(digest), Some(bytes))
            }
        };
        let length = entry.length as usize;
        let bytes = decode(&encoding, &inline.bytes, |_| base, &entry.digest, length).ok()?;
        let descriptor = descriptor(
            self.owner.fleet,
            entry.digest,
            entry.length,
            inline.key_number,
            inline.signature,
        );
        Some(Content { descriptor, bytes })
    }

    /// Verifies a decoded content and puts it aside. False: its descriptor is not the fleet's.
    pub(super) fn stage(&mut self, content: Content, ring: &KeyRing) -> bool {
        if content.descriptor.verify(ring).is_err() || content.descriptor.check(&content.bytes).is_err() {
            return false;
        }
        let digest = content.digest();
        let value = serde_json::from_slice(&content.bytes).unwrap_or_default();
        self.facts.insert(digest, ContentFacts::of(&value));
        if let Some(coming) = &mut self.coming {
            coming.missing.remove(&digest);
            coming.asked.remove(&What::Content(digest));
        }
        self.staged_bytes += content.bytes.len();
        if let Some(twice) = self.staged.insert(digest, content) {
            self.staged_bytes -= twice.bytes.len();
        }
        true
    }

    pub(super) fn take_staged(&mut self, set: &Set) -> Vec<Content> {
        self.staged_bytes = 0;
        std::mem::take(&mut self.staged)
            .into_values()
            .filter(|c| set.has_content(&c.digest()))
            .collect()
    }
}
