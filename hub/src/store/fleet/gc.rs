//! Removal of shared values that nothing refers to any more.

use rusqlite::{Connection, TransactionBehavior};

use super::super::error::StoreError;

/// One sweep, in one transaction. A binding's number is kept while its object exists, so that the revision of its
/// view never goes back.
pub(in crate::store) fn collect(db: &mut Connection) -> Result<(), StoreError> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "DELETE FROM history WHERE binding NOT IN (SELECT binding FROM target);
         DELETE FROM content WHERE id NOT IN (SELECT content FROM target UNION SELECT content FROM history);
         DELETE FROM facet WHERE id NOT IN (SELECT facet FROM target);
         DELETE FROM okey WHERE id NOT IN (SELECT okey FROM target UNION SELECT okey FROM tombstone);
         DELETE FROM report WHERE target NOT IN (SELECT id FROM target);
         DELETE FROM text WHERE id NOT IN (SELECT reason FROM report WHERE reason IS NOT NULL
           UNION SELECT message FROM report WHERE message IS NOT NULL
           UNION SELECT status FROM report WHERE status IS NOT NULL);
         DELETE FROM binding WHERE id NOT IN (SELECT binding FROM target) AND NOT EXISTS (
           SELECT 1 FROM object o JOIN resource r ON r.id = o.resource
           WHERE r.grp = 'work.karmada.io' AND r.plural IN ('resourcebindings', 'clusterresourcebindings')
           AND o.namespace = binding.namespace AND o.name = binding.name);",
    )?;
    transaction.commit()?;
    Ok(())
}
