//! Dropping old changes, a chunk at a time, so that no write waits for long.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::error::StoreError;
use super::{limits, schema};

/// Drops up to one chunk of changes that are beyond both the count and the age kept (or beyond the hard count).
/// Returns whether there may be more.
pub(super) fn drop_chunk(db: &mut Connection, now_s: i64) -> Result<bool, StoreError> {
    let Some(upto) = chunk_end(db, now_s)? else {
        return Ok(false);
    };
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let dropped = transaction
        .prepare_cached("DELETE FROM change WHERE revision <= ?1")?
        .execute(params![upto])?;
    schema::set_number(&transaction, schema::meta::COMPACTED, upto.cast_unsigned())?;
    transaction.commit()?;
    db.execute_batch("PRAGMA incremental_vacuum(64)")?;
    Ok(dropped as u64 >= limits::COMPACT_CHUNK)
}

/// The last revision of the chunk to drop; none if everything is still wanted.
fn chunk_end(db: &Connection, now_s: i64) -> Result<Option<i64>, StoreError> {
    let Some(beyond_kept) = nth_newest(db, limits::CHANGES_KEPT)? else {
        return Ok(None);
    };
    let beyond_max = nth_newest(db, limits::CHANGES_MAX)?.unwrap_or(0);
    let oldest_wanted_s = now_s - limits::CHANGES_KEPT_FOR.as_secs().cast_signed();
    let end: Option<i64> = db
        .prepare_cached(
            "SELECT max(revision) FROM (SELECT revision, at FROM change ORDER BY revision LIMIT ?1)
             WHERE revision <= ?2 AND (at < ?3 OR revision <= ?4)",
        )?
        .query_row(
            params![
                limits::COMPACT_CHUNK.cast_signed(),
                beyond_kept,
                oldest_wanted_s,
                beyond_max
            ],
            |row| row.get(0),
        )?;
    Ok(end)
}

fn nth_newest(db: &Connection, n: u64) -> Result<Option<i64>, StoreError> {
    Ok(db
        .prepare_cached("SELECT revision FROM change ORDER BY revision DESC LIMIT 1 OFFSET ?1")?
        .query_row(params![n.cast_signed()], |row| row.get(0))
        .optional()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(db: &Connection) -> (i64, i64) {
        db.query_row("SELECT count(*), min(revision) FROM change", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap()
    }

    #[test]
    fn keeps_the_newest_and_the_young() {
        let mut db = Connection::open_in_memory().unwrap();
        schema::migrate(&mut db).unwrap();
        for revision in 1..=8_000_i64 {
            db.prepare_cached("INSERT INTO change VALUES (?1, ?2, 0, 1, '', 'a', NULL, NULL)")
                .unwrap()
                .execute(params![revision, if revision <= 2_500 { 0 } else { 100_000 }])
                .unwrap();
        }
        assert!(drop_chunk(&mut db, 100_100).unwrap());
        assert_eq!(changes(&db), (7_000, 1_001));
        while drop_chunk(&mut db, 100_100).unwrap() {}
        assert_eq!(
            changes(&db),
            (5_500, 2_501),
            "what is younger than the age kept stays"
        );
        assert_eq!(schema::number(&db, schema::meta::COMPACTED).unwrap(), Some(2_500));
        while drop_chunk(&mut db, 200_000).unwrap() {}
        assert_eq!(changes(&db), (5_000, 3_001), "the newest stay however old");
    }
}
