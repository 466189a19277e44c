//! Tables, and the numbered steps that bring an older file up to date.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::error::StoreError;

/// The steps, oldest first; the schema version of a file is how many of them it has seen. Only ever appended to.
const MIGRATIONS: &[&str] = &[
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
];

/// Keys of the table `meta`.
pub(super) mod meta {
    /// End of the reserved block of revisions: none at or below it is handed out after a restart.
    pub(in crate::store) const RESERVED: &str = "revisions_reserved";
    /// Changes up to this revision are no longer kept.
    pub(in crate::store) const COMPACTED: &str = "compacted";
    /// Present in a file made by `backup`: revisions jump when it is opened.
    pub(in crate::store) const BACKUP: &str = "backup";
    /// Sixteen random bytes made with the file.
    pub(in crate::store) const FLEET: &str = "fleet";
}

/// Connection settings; page size and vacuum mode take effect in a new file only.
pub(super) fn prepare(connection: &Connection) -> Result<(), StoreError> {
    keep_plans(connection)?;
    connection.execute_batch(
        "PRAGMA page_size = 4096;
         PRAGMA auto_vacuum = INCREMENTAL;
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA busy_timeout = 5000;
         PRAGMA cache_size = -4096;
         PRAGMA mmap_size = 0;
         PRAGMA foreign_keys = OFF;
         PRAGMA temp_store = MEMORY;",
    )?;
    Ok(())
}

/// Statements are planned without a look at the values bound to them. Otherwise SQLite plans some of them, those with outer
/// joins, again each time a value is bound, which costs more than running them.
pub(super) fn keep_plans(connection: &Connection) -> Result<(), StoreError> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Runs the steps the file has not seen, each in its own transaction.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    for (step, sql) in MIGRATIONS.iter().enumerate().skip(found as usize) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(sql)?;
        transaction.execute_batch(&format!("PRAGMA user_version = {}", step + 1))?;
        transaction.commit()?;
    }
    Ok(())
}

/// A number in `meta`.
pub(super) fn number(connection: &Connection, key: &str) -> Result<Option<u64>, StoreError> {
    let value: Option<i64> = connection
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row(params![key], |row| row.get(0))
        .optional()?;
    Ok(value.map(i64::cast_unsigned))
}

/// Sets a number in `meta`.
pub(super) fn set_number(connection: &Connection, key: &str, value: u64) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("INSERT INTO meta(key, value) VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value")?
        .execute(params![key, value.cast_signed()])?;
    Ok(())
}
