//! What was dealt with, on disk: the one reason why no message is answered twice.
//!
//! A file of JSON lines that only grows, each line synced before anything else happens. Before an answer leaves, its
//! text is written (`intent`); when it has arrived, or nothing more will be said, that is written too (`done`),
//! together with the place in the inbox to go on after. A program that dies in between sends the same text again
//! under the same key. At the start the file is written anew without what nobody needs; a line that was cut off by a
//! crash is as good as none.
//!
//! One process at a time has it, by a lock. It holds callbacks, so nobody else may read it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// How many messages that were dealt with are remembered.
const REMEMBERED: usize = 10_000;

/// How many lines are written before the file is written anew.
const MAX_LINES: usize = 50_000;

/// The longest line that is read, in bytes: the longest answer, or a message that was taken, with every sign escaped.
const MAX_LINE: usize = 4 * 1024 * 1024;

/// How something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// The answer arrived.
    Answered,
    /// There was nothing to say.
    Silent,
    /// It failed, and the other side was told so if it can be. If it is delivered once more, it is tried once more.
    Failed,
}

/// What is known of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing: it is new, or failed and came again.
    New,
    /// A tool that may have changed something was called for it, and what came of that is not known.
    Acted(String),
    /// This is the answer, and perhaps it was sent.
    Intended(String),
    /// It was answered, or there was nothing to say.
    Settled,
}

/// Something that a peer or service was told is taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) id: String,
    pub(crate) door: Door,
    /// A post, or an envelope, as it came.
    pub(crate) data: Value,
    pub(crate) sender: Option<String>,
}

/// What [`Taken::data`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Door {
    Post,
    Envelope,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Cursor(String),
    Took(Taken),
    Acted { id: String, tool: String },
    Intent { id: String, text: String },
    Done { id: String, end: End, cursor: Option<String> },
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// A file of its own, which is never replaced, so that two processes cannot lock two of them.
    _lock: File,
    lines: usize,
    cursor: Option<String>,
    open: HashMap<String, Known>,
    taken: Vec<Taken>,
    settled: HashSet<String>,
    /// The same, the oldest first.
    order: VecDeque<String>,
}

impl Journal {
    /// Opens the journal at `path`, or begins one.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let lock = lock(&path.with_extension("lock"))?;
        let mut journal = Self {
            path: path.to_owned(),
            file: append(path)?,
            _lock: lock,
            lines: 0,
            cursor: None,
            open: HashMap::new(),
            taken: Vec::new(),
            settled: HashSet::new(),
            order: VecDeque::new(),
        };
        let mut reader = BufReader::new(File::open(path)?);
        let mut bytes = Vec::new();
        while read_line(&mut reader, &mut bytes)? {
            // A line that was cut off, or that a newer version wrote, says nothing.
            if let Ok(line) = serde_json::from_slice(&bytes) {
                journal.apply(line);
            }
        }
        journal.rewrite()?;
        Ok(journal)
    }

    /// The place in the inbox to go on after.
    pub(crate) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// What was taken and not dealt with, in order.
    pub(crate) fn taken(&self) -> &[Taken] {
        &self.taken
    }

    /// What is known of a message.
    pub(crate) fn known(&self, id: &str) -> Known {
        if self.settled.contains(id) {
            return Known::Settled;
        }
        self.open.get(id).cloned().unwrap_or(Known::New)
    }

    /// What came before this place was dealt with.
    pub(crate) fn set_cursor(&mut self, cursor: &str) -> io::Result<()> {
        self.write(Line::Cursor(cursor.to_owned()))
    }

    /// A message is taken: from now on it is ours to answer.
    pub(crate) fn take(&mut self, taken: Taken) -> io::Result<()> {
        self.write(Line::Took(taken))
    }

    /// A tool that may change something is about to be called.
    pub(crate) fn acted(&mut self, id: &str, tool: &str) -> io::Result<()> {
        self.write(Line::Acted { id: id.to_owned(), tool: tool.to_owned() })
    }

    /// This answer is about to be sent.
    pub(crate) fn intend(&mut self, id: &str, text: &str) -> io::Result<()> {
        self.write(Line::Intent { id: id.to_owned(), text: text.to_owned() })
    }

    /// The message was dealt with, and with it everything up to `cursor`.
    pub(crate) fn done(&mut self, id: &str, end: End, cursor: Option<&str>) -> io::Result<()> {
        self.write(Line::Done { id: id.to_owned(), end, cursor: cursor.map(str::to_owned) })
    }

    fn write(&mut self, line: Line) -> io::Result<()> {
        if self.lines >= MAX_LINES {
            self.rewrite()?;
        }
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.lines += 1;
        self.apply(line);
        Ok(())
    }

    fn apply(&mut self, line: Line) {
        match line {
            Line::Cursor(cursor) => self.cursor = Some(cursor),
            Line::Took(taken) => self.taken.push(taken),
            Line::Acted { id, tool } => {
                self.open.insert(id, Known::Acted(tool));
            }
            Line::Intent { id, text } => {
                self.open.insert(id, Known::Intended(text));
            }
            Line::Done { id, end, cursor } => {
                if cursor.is_some() {
                    self.cursor = cursor;
                }
                self.open.remove(&id);
                self.taken.retain(|taken| taken.id != id);
                if end != End::Failed && self.settled.insert(id.clone()) {
                    self.order.push_back(id);
                }
                while self.order.len() > REMEMBERED
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.settled.remove(&oldest);
                }
            }
        }
    }

    /// Writes what is known to a new file, which takes the place of the old one in one step.
    fn rewrite(&mut self) -> io::Result<()> {
        let part = self.path.with_extension("journal.part");
        fs::remove_file(&part).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let mut file = append(&part)?;
        let done = |id: &String| Line::Done { id: id.clone(), end: End::Answered, cursor: None };
        let open = self.open.iter().filter_map(|(id, known)| match known {
            Known::Acted(tool) => Some(Line::Acted { id: id.clone(), tool: tool.clone() }),
            Known::Intended(text) => Some(Line::Intent { id: id.clone(), text: text.clone() }),
            Known::New | Known::Settled => None,
        });
        let lines = self.order.iter().map(done).chain(self.cursor.clone().map(Line::Cursor));
        let lines: Vec<_> = lines.chain(self.taken.iter().cloned().map(Line::Took)).chain(open).collect();
        let mut bytes = Vec::new();
        for line in &lines {
            serde_json::to_writer(&mut bytes, line)?;
            bytes.push(b'\n');
        }
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&part, &self.path)?;
        sync_folder(&self.path)?;
        (self.file, self.lines) = (file, lines.len());
        Ok(())
    }
}

/// Makes a change of names in a file's folder last.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)
}

/// The lock ends with the process, however it ends.
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

/// Reads one line without its end; a line that is too long is read as an empty one.
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
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("echo.journal");
        (folder, path)
    }

    #[test]
    fn what_was_written_is_known_after_a_crash() {
        let (_folder, path) = place();
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!((journal.known("a"), journal.cursor()), (Known::New, None));
        journal.set_cursor("0").unwrap();
        journal.intend("a", "yes").unwrap();
        journal.done("a", End::Answered, Some("1")).unwrap();
        journal.done("b", End::Failed, Some("2")).unwrap();
        journal.done("c", End::Silent, None).unwrap();
        journal.acted("d", "chat_send_message").unwrap();
        journal.acted("e", "x").unwrap();
        journal.intend("e", "line\nbreak").unwrap();
        let taken = |id: &str| Taken { id: id.into(), door: Door::Post, data: json!({"n": 1}), sender: None };
        journal.take(taken("f")).unwrap();
        journal.take(taken("g")).unwrap();
        journal.done("f", End::Answered, None).unwrap();
        drop(journal);
        // Twice: what is written anew at the start says the same.
        for _ in 0..2 {
            let journal = Journal::open(&path).unwrap();
            let known: Vec<_> = ["a", "b", "c", "d", "e"].map(|id| journal.known(id)).into();
            let expected = [
                Known::Settled,
                Known::New,
                Known::Settled,
                Known::Acted("chat_send_message".into()),
                Known::Intended("line\nbreak".into()),
            ];
            assert_eq!(known, expected);
            assert_eq!(journal.cursor(), Some("2"));
            assert_eq!(journal.taken().iter().map(|taken| taken.id.as_str()).collect::<Vec<_>>(), ["g"]);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_cut_off_line_is_none_and_spoils_no_other() {
        let (_folder, path) = place();
        let mut journal = Journal::open(&path).unwrap();
        journal.done("a", End::Answered, Some("1")).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        let next = br#"{"done":{"id":"b","end":"answered","cursor":"2"}}"#;
        for cut in 1..next.len() {
            fs::write(&path, [&whole[..], &next[..cut]].concat()).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            assert_eq!((journal.known("b"), journal.cursor()), (Known::New, Some("1")));
            journal.done("c", End::Silent, Some("3")).unwrap();
            drop(journal);
            let journal = Journal::open(&path).unwrap();
            assert_eq!((journal.known("c"), journal.cursor()), (Known::Settled, Some("3")));
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
            journal.apply(Line::Done { id: n.to_string(), end: End::Answered, cursor: None });
        }
        assert_eq!((journal.known("0"), journal.known("1")), (Known::New, Known::Settled));
        journal.rewrite().unwrap();
        assert_eq!(journal.lines, REMEMBERED);
    }
}
