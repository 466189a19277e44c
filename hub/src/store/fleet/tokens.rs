//! Join tokens as people see them: which are open, and taking one back. The secret is never kept, so a token is named by
//! the beginning of its hash.

use rusqlite::params;
use shared::ids::{ClusterName, Digest};
use shared::time::UnixSeconds;

use super::super::Store;
use super::super::error::StoreError;
use super::intern;

/// Hex digits of a token's hash that name it.
const ID_DIGITS: usize = 12;

/// A token that has not expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenToken {
    /// Its name: the first twelve hex digits of its hash.
    pub id: String,
    /// The one cluster that may join with it.
    pub cluster: ClusterName,
    /// When it was made; none: by a hub that did not note it.
    pub created: Option<UnixSeconds>,
    /// When it expires.
    pub expires: UnixSeconds,
    /// An agent joined with it; only the same agent may repeat that.
    pub used: bool,
}

impl Store {
    /// The tokens that have not expired, by cluster, those made first first.
    ///
    /// # Errors
    /// The store.
    pub fn open_tokens(&self, now: UnixSeconds) -> Result<Vec<OpenToken>, StoreError> {
        let db = self.reader();
        let mut statement = db.prepare_cached(
            "SELECT digest, cluster, created, expires, used_by IS NOT NULL FROM token WHERE expires > ?1
             ORDER BY cluster, created, digest",
        )?;
        let mut rows = statement.query(params![now.0])?;
        let mut tokens = Vec::new();
        while let Some(row) = rows.next()? {
            let digest: Vec<u8> = row.get(0)?;
            let created: i64 = row.get(2)?;
            tokens.push(OpenToken {
                id: id_of(&intern::digest("hash of a token", &digest)?),
                cluster: intern::cluster_name(&row.get::<_, String>(1)?)?,
                created: (created > 0).then_some(UnixSeconds(created)),
                expires: UnixSeconds(row.get(3)?),
                used: row.get(4)?,
            });
        }
        Ok(tokens)
    }

    /// Takes a token back at once: nobody joins with it any more, also not who did before. None: no token has this id.
    ///
    /// # Errors
    /// The store.
    pub async fn revoke_token(&self, id: &str) -> Result<Option<ClusterName>, StoreError> {
        let id = id.to_owned();
        self.call(false, move |batch| {
            let mut found = None;
            {
                let mut statement = batch.db.prepare_cached("SELECT digest, cluster FROM token")?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    let digest = intern::digest("hash of a token", &row.get::<_, Vec<u8>>(0)?)?;
                    if id_of(&digest) == id {
                        found = Some((digest, intern::cluster_name(&row.get::<_, String>(1)?)?));
                    }
                }
            }
            let Some((digest, cluster)) = found else {
                return Ok(Ok(None));
            };
            batch
                .db
                .prepare_cached("DELETE FROM token WHERE digest = ?1")?
                .execute(params![digest.0.as_slice()])?;
            Ok(Ok(Some(cluster)))
        })
        .await
    }
}

/// The name of the token with this hash.
#[must_use]
pub(super) fn id_of(digest: &Digest) -> String {
    digest.to_string().chars().take(ID_DIGITS).collect()
}
