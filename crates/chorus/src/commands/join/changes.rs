//! Changes of a program's files, and their exact removal.
//!
//! Each change inserts text at a place, so that a file that nobody changed meanwhile can be put back byte for
//! byte. In a file that was changed, only the entries are found again and removed.

use super::agents::{write_at_once, write_private};
use super::json_text::{self, JsonTextFault};
use anyhow::Context as _;
use chorus_protocol::canonical::sha256;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The largest file that is changed, in bytes.
const MAX_FILE: u64 = 32 * 1024 * 1024;
/// The mode of new files.
const MODE: u32 = 0o600;

/// One change of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Change {
    /// A member of a JSON object.
    Member { path: Vec<String>, value: Value },
    /// An element of a JSON array, found again by a text in it.
    Element { path: Vec<String>, value: Value, marker: String },
    /// Lines between two marks, at the end of a file.
    Block { begin: String, lines: String, end: String },
    /// The whole content of a file of our own.
    Whole(String),
}

/// The changes of one file.
#[derive(Debug, Clone)]
pub(super) struct FileChange {
    pub(super) path: PathBuf,
    pub(super) changes: Vec<Change>,
}

/// A change that was made, with the inserted text and its place.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Insertion {
    change: Change,
    at: usize,
    text: String,
    /// The number of JSON containers of the path that were there before.
    depth_before: usize,
}

/// The record of one changed file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ChangedFile {
    pub(super) path: PathBuf,
    /// The hash of the file before; `None` if there was no file.
    before: Option<String>,
    after: String,
    insertions: Vec<Insertion>,
    /// Folders that were made for it, the deepest last.
    folders: Vec<PathBuf>,
}

/// A file with its changes, not written yet.
pub(super) struct Prepared {
    pub(super) record: ChangedFile,
    text: String,
}

/// The outcome of undoing the changes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undone {
    /// The file is as it was before, byte for byte, or is gone again.
    Exactly,
    /// The file was changed meanwhile; only our entries were removed.
    OurEntries,
    /// Nothing of ours was there.
    Nothing,
}

/// Reads a text file. Returns `None` if there is none.
fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::metadata(path) {
        Ok(there) => anyhow::ensure!(there.len() <= MAX_FILE, "{} is larger than 32 MiB", path.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) => {}
    }
    let text = fs::read_to_string(path);
    text.map(Some).with_context(|| format!("cannot read {}", path.display()))
}

impl FileChange {
    /// Computes the changed file.
    pub(super) fn prepare(self) -> anyhow::Result<Prepared> {
        let Self { path, changes } = self;
        let found = read(&path)?;
        let before = found.as_ref().map(|text| sha256(text.as_bytes()));
        let mut text = found.unwrap_or_default();
        let mut insertions = vec![];
        for change in changes {
            let insertion = place(&text, before.is_some(), change);
            let insertion = insertion.with_context(|| format!("cannot change {}", path.display()))?;
            text.insert_str(insertion.at, &insertion.text);
            insertions.push(insertion);
        }
        let missing =
            path.ancestors().skip(1).take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let mut folders: Vec<_> = missing.map(Path::to_owned).collect();
        folders.reverse();
        let after = sha256(text.as_bytes());
        Ok(Prepared { record: ChangedFile { path, before, after, insertions, folders }, text })
    }
}

fn place(text: &str, is_there: bool, change: Change) -> anyhow::Result<Insertion> {
    let of_json = |path: &[String], value: &Value, is_element: bool| {
        // An empty file counts as an empty object.
        let (text, is_new) = if text.trim().is_empty() { ("{}", true) } else { (text, false) };
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        let found = json_text::insert(text, &path, value, is_element)?;
        Ok::<_, JsonTextFault>(if is_new {
            (0, format!("{{{}}}\n", found.text), 0)
        } else {
            (found.at, found.text, found.depth_before)
        })
    };
    let (at, inserted, depth_before) = match &change {
        Change::Member { path, value } => of_json(path, value, false)?,
        Change::Element { path, value, .. } => of_json(path, value, true)?,
        Change::Block { begin, lines, end } => {
            anyhow::ensure!(!text.contains(begin.as_str()), "it has our lines already ({begin})");
            let gap = if text.is_empty() {
                ""
            } else if text.ends_with('\n') {
                "\n"
            } else {
                "\n\n"
            };
            (text.len(), format!("{gap}{begin}\n{lines}\n{end}\n"), 0)
        }
        Change::Whole(content) => {
            anyhow::ensure!(!is_there, "the file is there already, and is not ours");
            (0, content.clone(), 0)
        }
    };
    Ok(Insertion { change, at, text: inserted, depth_before })
}

impl Prepared {
    /// Writes the file.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        if let Some(folder) = self.record.path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        write_at_once(&self.record.path, self.text.as_bytes(), MODE)
    }

    /// Returns the inserted texts, for people.
    pub(super) fn shown(&self) -> impl Iterator<Item = &str> {
        self.record.insertions.iter().map(|insertion| insertion.text.trim_matches('\n'))
    }
}

impl ChangedFile {
    pub(super) fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// Removes the changes from the file.
    pub(super) fn undo(&self) -> anyhow::Result<Undone> {
        let Some(text) = read(&self.path)? else { return Ok(Undone::Nothing) };
        let hash = sha256(text.as_bytes());
        if Some(&hash) == self.before.as_ref() {
            return Ok(Undone::Nothing);
        }
        if hash == self.after {
            self.restore(text)?;
            return Ok(Undone::Exactly);
        }
        let left = self.insertions.iter().rev().try_fold(text.clone(), |text, insertion| {
            let left = remove(&text, insertion);
            left.with_context(|| {
                format!("cannot find our entries in {}; remove them by hand", self.path.display())
            })
        })?;
        if self.before.is_none() && matches!(left.split_whitespace().collect::<String>().as_str(), "" | "{}")
        {
            self.delete()?;
        } else if left == text {
            return Ok(Undone::Nothing);
        } else {
            write_at_once(&self.path, left.as_bytes(), MODE)?;
        }
        Ok(Undone::OurEntries)
    }

    fn restore(&self, mut text: String) -> anyhow::Result<()> {
        if self.before.is_none() {
            return self.delete();
        }
        for Insertion { at, text: inserted, .. } in self.insertions.iter().rev() {
            let end = at + inserted.len();
            anyhow::ensure!(
                text.get(*at..end) == Some(inserted),
                "the record does not fit {}",
                self.path.display()
            );
            text.replace_range(*at..end, "");
        }
        let is_before = self.before.as_ref() == Some(&sha256(text.as_bytes()));
        anyhow::ensure!(is_before, "the record does not fit {}", self.path.display());
        write_at_once(&self.path, text.as_bytes(), MODE)
    }

    /// Deletes the file, and the folders that were made for it and are empty now.
    fn delete(&self) -> anyhow::Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("cannot delete {}", self.path.display()))?;
        for folder in self.folders.iter().rev() {
            // A folder that holds something else stays.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Removes one change from a text that others have changed too.
fn remove(text: &str, insertion: &Insertion) -> Result<String, JsonTextFault> {
    let of_json = |path: &[String], marker: Option<&str>| {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        json_text::remove(text, &path, marker, insertion.depth_before)
    };
    let left = match &insertion.change {
        Change::Member { path, .. } => of_json(path, None)?,
        Change::Element { path, marker, .. } => of_json(path, Some(marker))?,
        Change::Block { begin, lines, end } => without_block(text, begin, end)
            .or_else(|| without_table(text, lines.lines().next().unwrap_or_default())),
        // A changed file of ours is still ours, and says so in its first lines.
        Change::Whole(_) => Some(String::new()),
    };
    Ok(left.unwrap_or_else(|| text.to_owned()))
}

/// Removes the lines from one mark to the other, with the empty line before them.
fn without_block(text: &str, begin: &str, end: &str) -> Option<String> {
    let start = text.find(begin)?;
    let stop = start + text[start..].find(end)? + end.len();
    let rest = text[stop..].strip_prefix('\n').unwrap_or(&text[stop..]);
    let head = &text[..start];
    let head = if head.ends_with("\n\n") { &head[..head.len() - 1] } else { head };
    Some(format!("{head}{rest}"))
}

/// Removes a TOML table by its heading, for a program that writes its file anew without comments.
fn without_table(text: &str, heading: &str) -> Option<String> {
    if !heading.starts_with('[') {
        return None;
    }
    let is_heading = |line: &str| line.trim_end() == heading;
    if !text.lines().any(is_heading) {
        return None;
    }
    let (mut left, mut is_inside) = (String::new(), false);
    for line in text.split_inclusive('\n') {
        // A table of ours within ours goes too.
        let within = format!("{}.", heading.trim_end_matches(']'));
        if line.trim_start().starts_with('[') {
            is_inside = is_heading(line) || line.starts_with(&within);
        }
        if !is_inside {
            left.push_str(line);
        }
    }
    Some(left)
}

/// The record of everything that `chorus join` did for one program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JoinRecord {
    pub(super) agent: String,
    pub(super) files: Vec<ChangedFile>,
}

impl JoinRecord {
    fn path(folder: &Path, program: &str) -> PathBuf {
        folder.join("joined").join(format!("{program}.json"))
    }

    pub(super) fn read(folder: &Path, program: &str) -> anyhow::Result<Option<Self>> {
        let path = Self::path(folder, program);
        let Some(text) = read(&path)? else { return Ok(None) };
        let record = serde_json::from_str(&text);
        Ok(Some(record.with_context(|| format!("{} holds no record", path.display()))?))
    }

    pub(super) fn write(&self, folder: &Path, program: &str) -> anyhow::Result<()> {
        write_private(&Self::path(folder, program), &serde_json::to_vec_pretty(self)?)
    }

    pub(super) fn delete(folder: &Path, program: &str) -> anyhow::Result<()> {
        let path = Self::path(folder, program);
        fs::remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_tables_are_found_again() {
        let (begin, end) = ("# >>> ours", "# <<< ours");
        let block = Change::Block { begin: begin.into(), lines: "[t.ours]\nx = 1".into(), end: end.into() };
        for text in ["", "[a]\nb = 1\n", "[a]\nb = 1"] {
            let found = place(text, true, block.clone()).unwrap();
            let with = format!("{text}{}", found.text);
            let more = format!("{with}[z]\ny = 2\n");
            let gap = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
            assert_eq!(remove(&more, &found).unwrap(), format!("{text}{gap}[z]\ny = 2\n"));
            assert!(place(&with, true, block.clone()).is_err(), "once");
            let rewritten = "[a]\nb = 1\n\n[t.ours]\nx = 1\n\n[t.ours.env]\nk = 2\n[z]\ny = 2\n";
            assert_eq!(remove(rewritten, &found).unwrap(), "[a]\nb = 1\n\n[z]\ny = 2\n");
        }
    }
}
