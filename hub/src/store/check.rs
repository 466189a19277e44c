//! Looks for what must never be: the store's part of `doctor`.

use std::fmt;

use rusqlite::Connection;
use shared::ids::ClusterName;

use super::Store;
use super::error::StoreError;
use super::fleet;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Table and row, or object.
    pub what: String,
    /// What is wrong with it.
    pub cause: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.cause)
    }
}

/// Invariants that one query each can deny: name, and a query of rows that break it.
const RULES: &[(&str, &str)] = &[
    (
        "no set is acknowledged that was not published, none published that was not adopted",
        "SELECT name FROM cluster WHERE acked > published OR published > sequence",
    ),
    (
        "every target has its cluster, binding, key, bookkeeping and content",
        "SELECT t.id FROM target t WHERE NOT EXISTS (SELECT 1 FROM cluster WHERE id = t.cluster)
           OR NOT EXISTS (SELECT 1 FROM binding WHERE id = t.binding)
           OR NOT EXISTS (SELECT 1 FROM okey WHERE id = t.okey)
           OR NOT EXISTS (SELECT 1 FROM facet WHERE id = t.facet)
           OR NOT EXISTS (SELECT 1 FROM content WHERE id = t.content)",
    ),
    (
        "no key is both wanted and tombstoned",
        "SELECT t.id FROM target t JOIN tombstone d ON d.cluster = t.cluster AND d.okey = t.okey",
    ),
    (
        "no target or tombstone is newer than its set",
        "SELECT t.id FROM target t JOIN cluster c ON c.id = t.cluster
           WHERE t.changed > c.sequence OR t.since > t.changed
         UNION ALL SELECT d.okey FROM tombstone d JOIN cluster c ON c.id = d.cluster WHERE d.sequence > c.sequence",
    ),
    (
        "no revision is above what was reserved",
        "SELECT revision FROM object WHERE revision > (SELECT value FROM meta WHERE key = 'revisions_reserved')
         UNION ALL SELECT revision FROM target WHERE revision > (SELECT value FROM meta WHERE key = 'revisions_reserved')
         UNION ALL SELECT revision FROM report WHERE revision > (SELECT value FROM meta WHERE key = 'revisions_reserved')",
    ),
];

impl Store {
    /// Checks the file's integrity and the invariants between rows; decodes every object and content. Reads only.
    ///
    /// # Errors
    /// The database could not be read at all.
    pub fn check(&self) -> Result<Vec<Finding>, StoreError> {
        let mut findings = self.quarantined();
        {
            let db = self.reader();
            integrity(&db, &mut findings)?;
            for (rule, query) in RULES {
                broken(&db, rule, query, &mut findings)?;
            }
        }
        for enrolment in self.enrolments()? {
            self.check_set(&enrolment.cluster, &mut findings);
        }
        self.check_contents(&mut findings)?;
        Ok(findings)
    }

    fn check_set(&self, cluster: &ClusterName, findings: &mut Vec<Finding>) {
        let noted = fleet::noted_digest(&self.reader(), cluster);
        let rows = fleet::set_of_rows(&self.reader(), &self.inner.sets, cluster);
        match (rows, noted) {
            (Ok(Some((sequence, set))), Ok(Some(noted))) if set.digest() != noted => findings.push(Finding {
                what: format!("set {sequence} of {cluster}"),
                cause: format!("its rows make digest {}, noted is {noted}", set.digest()),
            }),
            (Err(error), _) | (_, Err(error)) => {
                findings.push(Finding {
                    what: format!("set of {cluster}"),
                    cause: error.to_string(),
                });
            }
            _ => {}
        }
    }

    fn check_contents(&self, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
        // The reader is given back before `content` takes it.
        let digests = fleet::content_digests(&self.reader())?;
        for digest in digests {
            if let Err(error) = self.content(&digest) {
                findings.push(Finding {
                    what: format!("content {digest}"),
                    cause: error.to_string(),
                });
            }
        }
        Ok(())
    }
}

fn integrity(db: &Connection, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let mut statement = db.prepare("PRAGMA integrity_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let said: String = row.get(0)?;
        if said != "ok" {
            findings.push(Finding {
                what: "database file".to_owned(),
                cause: said,
            });
        }
    }
    Ok(())
}

fn broken(db: &Connection, rule: &str, query: &str, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let count: i64 = db.query_row(&format!("SELECT count(*) FROM ({query})"), [], |row| row.get(0))?;
    if count > 0 {
        findings.push(Finding {
            what: rule.to_owned(),
            cause: format!("{count} rows break it"),
        });
    }
    Ok(())
}
