//! Rows per object: intents before a create, records after an apply.

use agent_core::mirror::{Row as MirrorRow, Rows};
use agent_core::record::{Intent, ObjectRecord, Origin};
use rusqlite::{Connection, Row, params};
use shared::ids::{Digest, Nonce, ObjectKey};

use super::{Ledger, LedgerError, corrupt, sqlite};

impl Ledger {
    /// Writes an intent; durable when this returns. An open intent under the same key is replaced.
    ///
    /// # Errors
    /// When SQLite cannot write; the create must then wait.
    pub fn put_intent(&self, intent: &Intent) -> Result<(), LedgerError> {
        insert_intent(&self.db, intent).map_err(sqlite("written"))
    }

    /// Writes a record and closes the intent under its key, in one transaction with a journal line.
    ///
    /// # Errors
    /// When SQLite cannot write; the intent then stays open and settles it later.
    pub fn put_record(&mut self, record: &ObjectRecord, at: i64, what: &str) -> Result<(), LedgerError> {
        let k = &record.key;
        let mut write = || -> rusqlite::Result<()> {
            let tx = self.db.transaction()?;
            insert_record(&tx, record)?;
            tx.prepare_cached(DROP_INTENT)?
                .execute(params![k.group, k.kind, k.namespace, k.name])?;
            Self::journal(&tx, at, &k.to_string(), what)?;
            tx.commit()
        };
        write().map_err(sqlite("written"))
    }

    /// Drops record and intent under a key, in one transaction with a journal line.
    ///
    /// # Errors
    /// When SQLite cannot write.
    pub fn drop_object(&mut self, key: &ObjectKey, at: i64, what: &str) -> Result<(), LedgerError> {
        let mut write = || -> rusqlite::Result<()> {
            let tx = self.db.transaction()?;
            let columns = params![key.group, key.kind, key.namespace, key.name];
            tx.prepare_cached(DROP_OBJECT)?.execute(columns)?;
            tx.prepare_cached(DROP_INTENT)?.execute(columns)?;
            Self::journal(&tx, at, &key.to_string(), what)?;
            tx.commit()
        };
        write().map_err(sqlite("written"))
    }

    /// Drops an intent whose create never happened.
    ///
    /// # Errors
    /// When SQLite cannot write.
    pub fn drop_intent(&self, key: &ObjectKey) -> Result<(), LedgerError> {
        self.db
            .prepare_cached(DROP_INTENT)
            .and_then(|mut s| s.execute(params![key.group, key.kind, key.namespace, key.name]))
            .map(|_| ())
            .map_err(sqlite("written"))
    }

    /// What is known of every object.
    ///
    /// # Errors
    /// When SQLite cannot read or a row is damaged.
    pub fn rows(&self) -> Result<Rows, LedgerError> {
        let mut rows = Rows::new();
        for record in self.records()? {
            let key = record.key.clone();
            rows.entry(key).or_default().record = Some(record);
        }
        for intent in self.intents()? {
            let key = intent.key.clone();
            rows.entry(key).or_default().intent = Some(intent);
        }
        Ok(rows)
    }

    /// What is known of one object.
    ///
    /// # Errors
    /// When SQLite cannot read or a row is damaged.
    pub fn row(&self, key: &ObjectKey) -> Result<MirrorRow, LedgerError> {
        let columns = params![key.group, key.kind, key.namespace, key.name];
        let of = |table: &str| {
            format!(
                "SELECT * FROM {table} WHERE api_group = ?1 AND kind = ?2 AND namespace = ?3 AND name = ?4"
            )
        };
        let mut found = MirrorRow::default();
        let mut statement = self.db.prepare_cached(&of("objects")).map_err(sqlite("read"))?;
        let mut rows = statement.query(columns).map_err(sqlite("read"))?;
        if let Some(row) = rows.next().map_err(sqlite("read"))? {
            found.record = Some(record(row)?);
        }
        let mut statement = self.db.prepare_cached(&of("intents")).map_err(sqlite("read"))?;
        let mut rows = statement.query(columns).map_err(sqlite("read"))?;
        if let Some(row) = rows.next().map_err(sqlite("read"))? {
            found.intent = Some(intent(row)?);
        }
        Ok(found)
    }

    /// Makes records and intents of the keys that `about` names exactly these; one transaction.
    ///
    /// # Errors
    /// When SQLite cannot write; nothing is changed then.
    pub fn replace_rows(
        &mut self,
        rows: &Rows,
        about: impl Fn(&ObjectKey) -> bool,
    ) -> Result<(), LedgerError> {
        let before = self.rows()?;
        let gone = before.keys().filter(|k| about(k) && !rows.contains_key(*k));
        let changed = rows
            .iter()
            .filter(|(k, row)| about(k) && before.get(*k) != Some(row));
        let write = || -> rusqlite::Result<()> {
            let tx = self.db.transaction()?;
            for key in gone.chain(changed.clone().map(|(k, _)| k)) {
                let columns = params![key.group, key.kind, key.namespace, key.name];
                tx.prepare_cached(DROP_OBJECT)?.execute(columns)?;
                tx.prepare_cached(DROP_INTENT)?.execute(columns)?;
            }
            for (_, row) in changed {
                if let Some(record) = &row.record {
                    insert_record(&tx, record)?;
                }
                if let Some(intent) = &row.intent {
                    insert_intent(&tx, intent)?;
                }
            }
            tx.commit()
        };
        write().map_err(sqlite("written"))
    }

    /// Adds a line about an object to the journal.
    ///
    /// # Errors
    /// When SQLite cannot write.
    pub fn note(&self, key: &ObjectKey, at: i64, what: &str) -> Result<(), LedgerError> {
        Self::journal(&self.db, at, &key.to_string(), what).map_err(sqlite("written"))
    }

    /// Whether a recorded object has this uid.
    ///
    /// # Errors
    /// When SQLite cannot read.
    pub fn holds_uid(&self, uid: &str) -> Result<bool, LedgerError> {
        self.db
            .prepare_cached("SELECT 1 FROM objects WHERE uid = ?1")
            .and_then(|mut s| s.exists([uid]))
            .map_err(sqlite("read"))
    }

    /// Every record.
    ///
    /// # Errors
    /// When SQLite cannot read or a row is damaged.
    pub fn records(&self) -> Result<Vec<ObjectRecord>, LedgerError> {
        let mut statement = self
            .db
            .prepare_cached("SELECT * FROM objects")
            .map_err(sqlite("read"))?;
        let mut rows = statement.query([]).map_err(sqlite("read"))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(sqlite("read"))? {
            all.push(record(row)?);
        }
        Ok(all)
    }

    /// Every open intent.
    ///
    /// # Errors
    /// When SQLite cannot read or a row is damaged.
    pub fn intents(&self) -> Result<Vec<Intent>, LedgerError> {
        let mut statement = self
            .db
            .prepare_cached("SELECT * FROM intents")
            .map_err(sqlite("read"))?;
        let mut rows = statement.query([]).map_err(sqlite("read"))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(sqlite("read"))? {
            all.push(intent(row)?);
        }
        Ok(all)
    }
}

const DROP_OBJECT: &str =
    "DELETE FROM objects WHERE api_group = ?1 AND kind = ?2 AND namespace = ?3 AND name = ?4";
const DROP_INTENT: &str =
    "DELETE FROM intents WHERE api_group = ?1 AND kind = ?2 AND namespace = ?3 AND name = ?4";

fn key(row: &Row<'_>) -> Result<ObjectKey, LedgerError> {
    let read = || -> rusqlite::Result<ObjectKey> {
        Ok(ObjectKey {
            group: row.get(0)?,
            kind: row.get(1)?,
            namespace: row.get(2)?,
            name: row.get(3)?,
        })
    };
    read().map_err(sqlite("read"))
}

fn insert_record(db: &Connection, record: &ObjectRecord) -> rusqlite::Result<()> {
    let k = &record.key;
    db.prepare_cached(
        "INSERT OR REPLACE INTO objects VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        k.group,
        k.kind,
        k.namespace,
        k.name,
        record.api_version,
        record.uid,
        record.nonce.as_ref().map(|n| n.0.as_slice()),
        record.origin == Origin::Created,
        record.content.0.as_slice(),
        record.template_uid,
        record.fields.as_ref().map(|d| d.0.as_slice()),
        record.completed
    ])
    .map(|_| ())
}

fn insert_intent(db: &Connection, intent: &Intent) -> rusqlite::Result<()> {
    let k = &intent.key;
    db.prepare_cached("INSERT OR REPLACE INTO intents VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![
            k.group,
            k.kind,
            k.namespace,
            k.name,
            intent.api_version,
            intent.nonce.0.as_slice(),
            intent.template_uid
        ])
        .map(|_| ())
}

fn intent(row: &Row<'_>) -> Result<Intent, LedgerError> {
    let key = key(row)?;
    let nonce = row
        .get(5)
        .map_err(sqlite("read"))
        .and_then(|b: Vec<u8>| bytes("nonce", &key, &b))?;
    Ok(Intent {
        api_version: row.get(4).map_err(sqlite("read"))?,
        nonce: Nonce(nonce),
        template_uid: row.get(6).map_err(sqlite("read"))?,
        key,
    })
}

fn record(row: &Row<'_>) -> Result<ObjectRecord, LedgerError> {
    type Columns = (
        String,
        String,
        Option<Vec<u8>>,
        bool,
        Vec<u8>,
        String,
        Option<Vec<u8>>,
        bool,
    );
    let key = key(row)?;
    let read = || -> rusqlite::Result<Columns> {
        Ok((
            row.get(4)?,
            row.get(5)?,
            row.get(6)?,
            row.get(7)?,
            row.get(8)?,
            row.get(9)?,
            row.get(10)?,
            row.get(11)?,
        ))
    };
    let (api_version, uid, nonce, created, content, template_uid, fields, completed) =
        read().map_err(sqlite("read"))?;
    Ok(ObjectRecord {
        api_version,
        uid,
        nonce: nonce.map(|b| bytes("nonce", &key, &b)).transpose()?.map(Nonce),
        origin: if created { Origin::Created } else { Origin::Adopted },
        content: Digest(bytes("content digest", &key, &content)?),
        template_uid,
        fields: fields
            .map(|b| bytes("field digest", &key, &b))
            .transpose()?
            .map(Digest),
        completed,
        key,
    })
}

fn bytes<const N: usize>(what: &str, key: &ObjectKey, found: &[u8]) -> Result<[u8; N], LedgerError> {
    found
        .try_into()
        .map_err(|_| corrupt(format!("the {what} of {key} has {} bytes, not {N}", found.len())))
}
