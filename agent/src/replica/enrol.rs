//! Joining where several agents are one: the first makes the key and keeps it in the anchor, all come with it, and those
//! that come later find the enrolment there, also without a hub.

use super::Trouble;
use super::anchor::{self, Anchor, Held};
use super::secrets::Secrets;
use crate::identity::Enrolment;
use crate::member::api::Api;

/// Where the agents of a cluster meet.
pub struct Place {
    secrets: Secrets,
    held: Held,
}

/// How an agent comes to its enrolment.
pub enum Found {
    /// Another one has enrolled already.
    Enrolled(Box<Enrolment>),
    /// The key to enrol with.
    Key(Vec<u8>),
}

/// Looks at the anchor; one that is not there is made with the key that `make` gives.
///
/// # Errors
/// When the anchor cannot be read or made.
pub async fn join(api: &Api, namespace: &str, key: Vec<u8>) -> Result<(Place, Found), anyhow::Error> {
    let secrets = Secrets::new(api.clone(), namespace);
    let held = match anchor::read(&secrets).await? {
        Some(held) => held,
        None => match anchor::create(&secrets, Anchor::pending(key.clone()), 0).await? {
            Some(held) => held,
            None => anchor::read(&secrets).await?.ok_or(Trouble::Overtaken)?,
        },
    };
    let found = match (&held.anchor.enrolment, &held.anchor.pending) {
        (Some(enrolment), _) => Found::Enrolled(Box::new(enrolment.clone())),
        (None, Some(pending)) => Found::Key(pending.clone()),
        (None, None) => Found::Key(key),
    };
    Ok((Place { secrets, held }, found))
}

impl Place {
    /// Writes the enrolment down for all; gives the one that counts.
    ///
    /// # Errors
    /// When the anchor cannot be written.
    pub async fn enrolled(self, enrolment: Enrolment) -> Result<Enrolment, anyhow::Error> {
        let mut next = self.held.anchor.clone();
        next.enrolled(enrolment.clone());
        if anchor::replace(&self.secrets, &self.held, next, self.held.writer)
            .await?
            .is_some()
        {
            return Ok(enrolment);
        }
        // Somebody was faster; with the same key the hub gave the same enrolment.
        let now = anchor::read(&self.secrets).await?;
        let counts = now.and_then(|held| held.anchor.enrolment);
        Ok(counts.ok_or(Trouble::Overtaken)?)
    }
}
