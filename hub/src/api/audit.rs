//! The audit log: one JSON line per write, in files that are rotated and bounded. A thread of its own writes them, so no
//! answer waits for the disk; what does not fit into its queue is counted and the count is written.

use super::limits;
use crate::clock;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// The file that is written to.
const CURRENT: &str = "audit.log";

/// Takes lines.
#[derive(Debug)]
pub struct Audit {
    lines: SyncSender<String>,
    lost: Arc<AtomicU64>,
}

impl Audit {
    /// Writes to files in a directory, which is made if it is missing.
    ///
    /// # Errors
    /// The directory or the file cannot be made.
    pub fn open(dir: &Path) -> io::Result<Audit> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)?;
        let (lines, arriving) = sync_channel(limits::AUDIT_QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = Writer {
            file: open(dir)?,
            dir: dir.to_owned(),
            limit: limits::AUDIT_FILE_BYTES,
            lost: lost.clone(),
            is_broken: false,
        };
        std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(&arriving))?;
        Ok(Audit { lines, lost })
    }

    /// Hands a line over.
    pub(super) fn write(&self, line: String) {
        match self.lines.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn open(dir: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(dir.join(CURRENT))
}

struct Writer {
    file: File,
    dir: PathBuf,
    /// Bytes of one file.
    limit: u64,
    lost: Arc<AtomicU64>,
    is_broken: bool,
}

impl Writer {
    fn run(mut self, lines: &Receiver<String>) {
        while let Ok(line) = lines.recv() {
            self.take(line);
        }
    }

    fn take(&mut self, mut line: String) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let mut text = String::new();
        if lost > 0 {
            text = format!("{{\"kind\":\"Lost\",\"lines\":{lost}}}\n");
        }
        line.push('\n');
        text.push_str(&line);
        match self.append(&text) {
            Ok(()) => self.is_broken = false,
            Err(error) => {
                self.lost.fetch_add(lost + 1, Ordering::Relaxed);
                if !self.is_broken {
                    // Once: a full disk says so with every line.
                    tracing::error!(%error, directory = %self.dir.display(), "audit lines are lost");
                }
                self.is_broken = true;
            }
        }
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        if before > 0 && before + text.len() as u64 > self.limit {
            self.rotate()?;
        }
        let before = self.file.metadata()?.len();
        let written = self.file.write_all(text.as_bytes());
        if written.is_err() {
            // Half a line would spoil the next one.
            self.file.set_len(before)?;
        }
        written
    }

    fn rotate(&mut self) -> io::Result<()> {
        let stamp = clock::wall().rfc3339().replace(':', "");
        let mut number = 0;
        let old = loop {
            let path = self.dir.join(format!("audit-{stamp}-{number:03}.log"));
            if !path.exists() {
                break path;
            }
            number += 1;
        };
        std::fs::rename(self.dir.join(CURRENT), old)?;
        self.file = open(&self.dir)?;
        let mut files: Vec<PathBuf> = std::fs::read_dir(&self.dir)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
                name.starts_with("audit-") && name.ends_with(".log")
            })
            .collect();
        // The stamp sorts by time.
        files.sort();
        let surplus = files.len().saturating_sub(limits::AUDIT_FILES - 1);
        for path in &files[..surplus] {
            std::fs::remove_file(path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_rotated_and_bounded() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut writer = Writer {
            file: open(dir.path()).expect("a file"),
            dir: dir.path().to_owned(),
            limit: 100,
            lost: Arc::new(AtomicU64::new(3)),
            is_broken: false,
        };
        for number in 0..200 {
            writer.take(format!("{{\"number\":{number:050}}}"));
        }
        let mut files: Vec<_> = std::fs::read_dir(dir.path())
            .expect("readable")
            .map(|e| e.expect("an entry").path())
            .collect();
        files.sort();
        assert_eq!(files.len(), limits::AUDIT_FILES);
        let last = std::fs::read_to_string(dir.path().join(CURRENT)).expect("readable");
        assert!(last.contains("199"));
        for file in files {
            let text = std::fs::read_to_string(file).expect("readable");
            assert!(text.len() <= 100 && text.ends_with('\n'));
        }
    }

    #[test]
    fn what_was_lost_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, lost) = (dir.path().to_owned(), Arc::new(AtomicU64::new(2)));
        let mut writer = Writer {
            file: open(&path).expect("a file"),
            dir: path.clone(),
            limit: 1_000,
            lost,
            is_broken: false,
        };
        writer.take("{}".to_owned());
        let text = std::fs::read_to_string(path.join(CURRENT)).expect("readable");
        assert_eq!(text, "{\"kind\":\"Lost\",\"lines\":2}\n{}\n");
    }
}
