//! Making, opening and loading a store.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use ring::rand::{SecureRandom, SystemRandom};
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};
use shared::ids::FleetId;
use shared::time::UnixSeconds;
use tokio::sync::{Semaphore, broadcast};

use super::error::StoreError;
use super::fleet::{Sets, Standings};
use super::memory::Memory;
use super::object::Revision;
use super::seal::StorageKey;
use super::writer::Writer;
use super::{Inner, Options, Store, expiry, limits, objects, schema};

const DATABASE: &str = "hub.db";
const STORAGE_KEY: &str = "storage.key";
const LOCK: &str = "hub.lock";
/// 2025-01-01T00:00:00Z, where revisions by the clock begin.
const EPOCH_S: i64 = 1_735_689_600;

impl Store {
    /// Path of the database in a directory.
    pub fn database_file(dir: &Path) -> std::path::PathBuf {
        dir.join(DATABASE)
    }

    /// Name and content of the storage key's file, for `keys export`.
    ///
    /// # Errors
    /// It is missing or no key.
    pub fn key_file(dir: &Path) -> Result<(String, Vec<u8>), StoreError> {
        let path = dir.join(STORAGE_KEY);
        StorageKey::open(&path)?;
        let content = std::fs::read(&path).map_err(|error| file_error(&path, &error))?;
        Ok((STORAGE_KEY.to_owned(), content))
    }
}

/// See [`Store::create`].
pub(super) fn create(dir: &Path) -> Result<(), StoreError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| file_error(dir, &error))?;
    let _lock = lock(dir)?;
    let database = dir.join(DATABASE);
    if database.exists() {
        return Err(StoreError::Exists {
            path: database.display().to_string(),
        });
    }
    StorageKey::create(&dir.join(STORAGE_KEY))?;
    // Made first with its final mode, so that log files inherit it.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&database)
        .map_err(|error| file_error(&database, &error))?;
    let mut db = Connection::open(&database)?;
    schema::prepare(&db)?;
    schema::migrate(&mut db)?;
    let mut fleet = [0_u8; 16];
    SystemRandom::new()
        .fill(&mut fleet)
        .map_err(|_| StoreError::Database {
            cause: "no randomness from the system".to_owned(),
        })?;
    db.execute(
        "INSERT INTO meta(key, value) VALUES (?1, ?2)",
        params![schema::meta::FLEET, fleet.as_slice()],
    )?;
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    sync_dir(dir)
}

/// See [`Store::open`].
pub(super) fn open(dir: &Path, now: UnixSeconds, options: Options) -> Result<Store, StoreError> {
    let database = dir.join(DATABASE);
    if !database.exists() {
        return Err(StoreError::Missing {
            path: database.display().to_string(),
        });
    }
    let lock = lock(dir)?;
    let key = Arc::new(StorageKey::open(&dir.join(STORAGE_KEY))?);
    let mut db = Connection::open_with_flags(
        &database,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.set_prepared_statement_cache_capacity(256);
    schema::prepare(&db)?;
    schema::migrate(&mut db)?;
    db.execute_batch(&format!(
        "PRAGMA max_page_count = {}",
        options.database_bytes / limits::PAGE_BYTES
    ))?;
    let start = start_revisions(&mut db, now)?;
    let mut memory = Memory::new(start.last_durable, start.first, start.floor);
    objects::load(&db, &key, &mut memory)?;
    let fleet = read_fleet(&db)?;

    let memory = Arc::new(RwLock::new(memory));
    let sets = Arc::new(Sets::default());
    let (notes, _) = broadcast::channel(limits::NOTICES);
    let (commands, arriving) = mpsc::channel();
    let (living, alive) = tokio::sync::watch::channel(());
    let writer = Writer {
        db,
        key: key.clone(),
        memory: memory.clone(),
        sets: sets.clone(),
        standings: Standings::default(),
        notes: notes.clone(),
        last: start.first,
        reserved: start.reserved,
        deferred: Vec::new(),
        deferred_since: None,
        log_bytes: 0,
        changes: 1,
        expiry: expiry::Clock::default(),
        garbage: true,
        swept: Instant::now(),
        _alive: living,
        lock,
    };
    std::thread::Builder::new()
        .name("store-writer".to_owned())
        .spawn(move || writer.run(&arriving))
        .map_err(|error| StoreError::File {
            path: "store-writer thread".to_owned(),
            cause: error.to_string(),
        })?;
    let permits = Arc::new(Semaphore::new(limits::WAITING_COMMITS));
    let reader = Mutex::new(open_reader(&database)?);
    let inner = Inner {
        memory,
        sets,
        reader,
        notes,
        key,
        commands,
        permits,
        alive,
        fleet,
        database,
    };
    Ok(Store {
        inner: Arc::new(inner),
    })
}

/// A second connection for reads of fleet rows; it cannot write.
fn open_reader(database: &Path) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(
        database,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    schema::keep_plans(&db)?;
    db.set_prepared_statement_cache_capacity(64);
    db.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA cache_size = -2048; PRAGMA query_only = ON;")?;
    Ok(db)
}

/// Where the revisions of this process begin.
struct Start {
    last_durable: Revision,
    first: Revision,
    reserved: Revision,
    floor: Revision,
}

/// Never below what was reserved, never below what the clock says, far above in a restored backup; and durable
/// before anybody sees it.
fn start_revisions(db: &mut Connection, now: UnixSeconds) -> Result<Start, StoreError> {
    let reserved_before = schema::number(db, schema::meta::RESERVED)?.unwrap_or(0);
    let backup = schema::number(db, schema::meta::BACKUP)?.is_some();
    let last_durable = objects::highest_revision(db)?;
    let by_clock = now
        .0
        .saturating_sub(EPOCH_S)
        .max(0)
        .cast_unsigned()
        .saturating_mul(1_000);
    let mut first = reserved_before.max(last_durable.0).max(by_clock);
    if backup {
        first = first.max(reserved_before + limits::BACKUP_JUMP);
    }
    let reserved = first + limits::REVISION_BLOCK;
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    schema::set_number(&transaction, schema::meta::RESERVED, reserved)?;
    let mut floor = schema::number(&transaction, schema::meta::COMPACTED)?.unwrap_or(0);
    if backup {
        // What happened after the backup was made is unknown: no watch continues across it.
        floor = first;
        transaction.execute("DELETE FROM change", [])?;
        schema::set_number(&transaction, schema::meta::COMPACTED, floor)?;
        transaction.execute("DELETE FROM meta WHERE key = ?1", params![schema::meta::BACKUP])?;
    }
    transaction.commit()?;
    Ok(Start {
        last_durable,
        first: Revision(first),
        reserved: Revision(reserved),
        floor: Revision(floor),
    })
}

fn read_fleet(db: &Connection) -> Result<FleetId, StoreError> {
    let bytes: Vec<u8> = db.query_row(
        "SELECT value FROM meta WHERE key = ?1",
        params![schema::meta::FLEET],
        |row| row.get(0),
    )?;
    let bytes = bytes.try_into().map_err(|_| StoreError::Corrupt {
        what: "meta fleet".to_owned(),
        cause: "not sixteen bytes".to_owned(),
    })?;
    Ok(FleetId(bytes))
}

/// Takes the directory for this process. One that is just ending is waited for, and so is a child of this process
/// between its fork and its exec: until then it holds a copy of every descriptor.
fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| file_error(&path, &error))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < limits::LOCK_PATIENCE => {
                std::thread::sleep(limits::LOCK_LOOK);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse {
                    path: path.display().to_string(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(file_error(&path, &error)),
        }
    }
}

fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| file_error(dir, &error))
}

fn file_error(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::File {
        path: path.display().to_string(),
        cause: error.to_string(),
    }
}
