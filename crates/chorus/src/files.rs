//! Reads JSON from files and from standard input, as strictly as the hub does.

use crate::failure::Explained;
use crate::output;
use chorus_choir::read_score;
use chorus_protocol::canonical;
use chorus_protocol::choir::score::Score;
use serde_json::Value;
use std::io::Read as _;

/// The largest file, in bytes: more than any Score, bundle or receipt requires.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Reads a file, or standard input for `-`.
pub(crate) fn bytes(path: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![];
    let read = if path == "-" {
        std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| anyhow::Error::from(error).context(format!("cannot read {path}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(
            Explained::failed(format!("{path} is larger than 64 MiB"), "is it the right file?").into()
        );
    }
    Ok(bytes)
}

/// Reads one JSON value that has a canonical form.
pub(crate) fn json(path: &str) -> anyhow::Result<Value> {
    let hint =
        "JSON with every member once and no whole number beyond 2^53-1; see `chorus canonicalize --help`";
    canonical::parse(&bytes(path)?)
        .map_err(|error| Explained::failed(format!("{path}: {error}"), hint).into())
}

/// Reads a JSON file as a type and reports its faults.
pub(crate) fn read<T, E: std::fmt::Display>(
    path: &str,
    what: &str,
    read: impl FnOnce(Value) -> Result<T, E>,
) -> anyhow::Result<T> {
    let hint = "`chorus score --help` and `chorus rehearse --help` show what these files look like";
    read(json(path)?).map_err(|fault| Explained::failed(format!("{path} is no {what}: {fault}"), hint).into())
}

/// Reads a Score: its JSON value and its parsed form. Unknown members are left out with a warning, because
/// they may be misspelt.
pub(crate) fn score(path: &str) -> anyhow::Result<(Value, Score)> {
    let both = |value: Value| read_score(value.clone()).map(|score| (value, score));
    let (value, score) = read(path, "Score", both)?;
    for member in Score::unknown_members(&value) {
        let member = output::one_line(&member);
        output::talk(format_args!(
            "{path}: {member} is no member of a Score and was left out; is it misspelt?"
        ));
    }
    Ok((value, score))
}
