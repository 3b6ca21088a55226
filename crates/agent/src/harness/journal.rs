//! The [`Ledger`] on disk.
//!
//! An append-only file of JSON lines. Each line is synced before anything else happens. At the start the file
//! is rewritten without obsolete records; a line cut off by a crash is ignored.
//!
//! A lock allows one process at a time. The file contains callbacks, which are secrets, so only its owner may
//! read it.

use super::ledger::{Ledger, Record};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The number of lines after which the file is rewritten.
const MAX_LINES: usize = 50_000;

/// The longest line that is read, in bytes: the longest answer or accepted message, with every character
/// escaped.
const MAX_LINE: usize = 4 * 1024 * 1024;

/// An open journal; see the [module](self).
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// The lock is a separate file that is never replaced, so that two processes cannot lock two different
    /// files.
    _lock: File,
    lines: usize,
    /// The state that the file's records lead to.
    ledger: Ledger,
}

impl Journal {
    /// Opens the journal at `path`, creating it if necessary.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let lock = lock(&path.with_extension("lock"))?;
        let mut journal = Self {
            path: path.to_owned(),
            file: append(path)?,
            _lock: lock,
            lines: 0,
            ledger: Ledger::default(),
        };
        let mut reader = BufReader::new(File::open(path)?);
        let mut bytes = Vec::new();
        while read_line(&mut reader, &mut bytes)? {
            // A line that was cut off, or that a newer version wrote, is ignored.
            if let Ok(record) = serde_json::from_slice(&bytes) {
                journal.ledger.apply(record);
            }
        }
        journal.rewrite()?;
        Ok(journal)
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Appends a record. It is durable when this returns.
    pub(crate) fn write(&mut self, record: Record) -> io::Result<()> {
        if self.lines >= MAX_LINES {
            self.rewrite()?;
        }
        let mut bytes = serde_json::to_vec(&record)?;
        bytes.push(b'\n');
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.lines += 1;
        self.ledger.apply(record);
        Ok(())
    }

    /// Writes the current state to a new file, which replaces the old one atomically.
    fn rewrite(&mut self) -> io::Result<()> {
        let part = self.path.with_extension("journal.part");
        fs::remove_file(&part).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let mut file = append(&part)?;
        let (mut bytes, mut lines) = (Vec::new(), 0);
        for record in self.ledger.records() {
            serde_json::to_writer(&mut bytes, &record)?;
            bytes.push(b'\n');
            lines += 1;
        }
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&part, &self.path)?;
        sync_folder(&self.path)?;
        (self.file, self.lines) = (file, lines);
        Ok(())
    }
}

/// Makes a rename or removal in a file's folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)
}

/// Takes the lock, which the system releases when the process ends.
fn lock(path: &Path) -> io::Result<File> {
    let file = append(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process has it"))
        }
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Reads one line without its line break. A line that is too long is returned as empty.
fn read_line(reader: &mut impl io::BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut whole = io::Read::take(&mut *reader, MAX_LINE as u64);
    if whole.read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.last() != Some(&b'\n') {
        reader.skip_until(b'\n')?;
        line.clear();
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::ledger::{End, Known, REMEMBERED, Taken};
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("echo.journal");
        (folder, path)
    }

    fn write(journal: &mut Journal, record: Record) {
        journal.write(record).unwrap();
    }

    fn intent(id: &str, text: &str) -> Record {
        Record::Intent { id: id.into(), text: text.into(), as_envelope: false, merged: vec![] }
    }

    fn done(id: &str, end: End, cursor: Option<&str>) -> Record {
        Record::Done { id: id.into(), end, cursor: cursor.map(str::to_owned), merged: vec![] }
    }

    #[test]
    fn what_was_written_is_known_after_a_crash() {
        let (_folder, path) = place();
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!((journal.ledger().known("a"), journal.ledger().cursor()), (Known::New, None));
        write(&mut journal, Record::Cursor("0".into()));
        write(&mut journal, intent("a", "yes"));
        write(&mut journal, done("a", End::Answered, Some("1")));
        write(&mut journal, done("b", End::Failed, Some("2")));
        write(&mut journal, done("c", End::Silent, None));
        let acted = |id: &str, tool: &str| Record::Acted { id: id.into(), tool: tool.into(), merged: vec![] };
        write(&mut journal, acted("d", "chat_send_message"));
        write(&mut journal, acted("e", "x"));
        write(&mut journal, intent("e", "line\nbreak"));
        let taken = |id: &str| Taken { id: id.into(), ..Taken::envelope(id, "s", json!({"n": 1})) };
        write(&mut journal, Record::Took(taken("f")));
        write(&mut journal, Record::Took(taken("g")));
        write(&mut journal, done("f", End::Answered, None));
        drop(journal);
        // Twice, because the file is rewritten at each start.
        for _ in 0..2 {
            let journal = Journal::open(&path).unwrap();
            let known: Vec<_> = ["a", "b", "c", "d", "e"].map(|id| journal.ledger().known(id)).into();
            let expected = [
                Known::Done,
                Known::New,
                Known::Done,
                Known::Acted("chat_send_message".into()),
                Known::Intended { text: "line\nbreak".into(), as_envelope: false },
            ];
            assert_eq!(known, expected);
            assert_eq!(journal.ledger().cursor(), Some("2"));
            assert_eq!(
                journal.ledger().taken().iter().map(|taken| taken.id.as_str()).collect::<Vec<_>>(),
                ["g"]
            );
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_cut_off_line_is_none_and_spoils_no_other() {
        let (_folder, path) = place();
        let mut journal = Journal::open(&path).unwrap();
        write(&mut journal, done("a", End::Answered, Some("1")));
        drop(journal);
        let whole = fs::read(&path).unwrap();
        let next = br#"{"done":{"id":"b","end":"answered","cursor":"2"}}"#;
        for cut in 1..next.len() {
            fs::write(&path, [&whole[..], &next[..cut]].concat()).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            assert_eq!((journal.ledger().known("b"), journal.ledger().cursor()), (Known::New, Some("1")));
            write(&mut journal, done("c", End::Silent, Some("3")));
            drop(journal);
            let journal = Journal::open(&path).unwrap();
            assert_eq!((journal.ledger().known("c"), journal.ledger().cursor()), (Known::Done, Some("3")));
        }
    }

    #[test]
    fn one_process_at_a_time_also_after_it_was_written_anew() {
        let (_folder, path) = place();
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(Journal::open(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        journal.rewrite().unwrap();
        assert_eq!(Journal::open(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        drop(journal);
        Journal::open(&path).unwrap();
    }

    #[test]
    fn memory_is_bounded() {
        let (_folder, path) = place();
        let mut journal = Journal::open(&path).unwrap();
        for n in 0..=REMEMBERED {
            journal.ledger.apply(done(&n.to_string(), End::Answered, None));
        }
        assert_eq!((journal.ledger().known("0"), journal.ledger().known("1")), (Known::New, Known::Done));
        journal.rewrite().unwrap();
        assert_eq!(journal.lines, REMEMBERED);
    }
}
