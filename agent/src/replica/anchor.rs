//! The anchor: one Secret with what makes the agents of a cluster one agent: identity, keys, the highest session, and the
//! head of the accepted set. It is only ever replaced in the version that was read.

use serde::{Deserialize, Serialize};
use shared::ids::Session;
use shared::keys::KeyRing;
use shared::set::SignedHead;

use super::Trouble;
use super::secrets::Secrets;
use crate::identity::Enrolment;
use agent_core::mirror::MirrorError;

/// Name of the Secret.
const NAME: &str = "pinnace-anchor";
/// Format of its document.
const FORMAT: u32 = 1;

/// What the anchor holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Anchor {
    format: u32,
    /// The key of an enrolment under way, in PKCS#8: whichever agent asks, it comes with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<Vec<u8>>,
    /// The enrolment, without a kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) enrolment: Option<Enrolment>,
    /// The highest session proposed or agreed.
    #[serde(default)]
    pub(crate) session: Session,
    /// Keys learnt since the enrolment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ring: Option<KeyRing>,
    /// Head of the accepted set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<SignedHead>,
}

impl Anchor {
    /// Of an enrolment under way.
    pub(crate) fn pending(key: Vec<u8>) -> Self {
        Self {
            pending: Some(key),
            ..Self::blank()
        }
    }

    /// Of an enrolment that is on this disk only.
    pub(crate) fn of(enrolment: &Enrolment) -> Self {
        let mut anchor = Self::blank();
        anchor.enrolled(enrolment.clone());
        anchor
    }

    /// The enrolment under way has come to its end.
    pub(crate) fn enrolled(&mut self, enrolment: Enrolment) {
        self.pending = None;
        self.enrolment = Some(Enrolment {
            kubeconfig: None,
            ..enrolment
        });
    }

    fn blank() -> Self {
        Self {
            format: FORMAT,
            pending: None,
            enrolment: None,
            session: Session(0),
            ring: None,
            head: None,
        }
    }
}

/// The anchor as it was last read or written.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) anchor: Anchor,
    pub(crate) writer: u64,
    version: String,
}

/// Reads the anchor; none if there is none.
pub(super) async fn read(secrets: &Secrets) -> Result<Option<Held>, Trouble> {
    let Some(found) = secrets.read(NAME).await? else {
        return Ok(None);
    };
    let damaged = |why: String| {
        Trouble::Damaged(MirrorError::Damaged {
            document: format!("the Secret {NAME}"),
            why,
        })
    };
    let anchor: Anchor = serde_json::from_slice(&found.bytes).map_err(|e| damaged(e.to_string()))?;
    if anchor.format > FORMAT {
        return Err(Trouble::Damaged(MirrorError::Newer(format!("the Secret {NAME}"))));
    }
    Ok(Some(Held {
        anchor,
        writer: found.writer,
        version: found.version,
    }))
}

/// Creates the anchor; none if there is one.
pub(super) async fn create(secrets: &Secrets, anchor: Anchor, writer: u64) -> Result<Option<Held>, Trouble> {
    let bytes = bytes(&anchor)?;
    Ok(secrets.create(NAME, &bytes, writer).await?.map(|version| Held {
        anchor,
        writer,
        version,
    }))
}

/// Replaces the anchor that was read; none if it is another by now.
pub(super) async fn replace(
    secrets: &Secrets,
    before: &Held,
    anchor: Anchor,
    writer: u64,
) -> Result<Option<Held>, Trouble> {
    let bytes = bytes(&anchor)?;
    let written = secrets.replace(NAME, &before.version, &bytes, writer).await?;
    Ok(written.map(|version| Held {
        anchor,
        writer,
        version,
    }))
}

fn bytes(anchor: &Anchor) -> Result<Vec<u8>, Trouble> {
    serde_json::to_vec(anchor).map_err(|e| {
        Trouble::Damaged(MirrorError::Damaged {
            document: format!("the Secret {NAME}"),
            why: e.to_string(),
        })
    })
}
