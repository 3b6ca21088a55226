//! JSON from files and from standard input, read as strictly as the hub reads it.

use crate::failure::Explained;
use crate::output;
use chorus_choir::read_score;
use chorus_protocol::canonical;
use chorus_protocol::choir::score::Score;
use serde_json::Value;
use std::io::Read as _;

/// More than any Score, bundle or receipt needs.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What is in a file, or comes in where it is `-`.
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

/// One JSON value that has a canonical form.
pub(crate) fn json(path: &str) -> anyhow::Result<Value> {
    let hint =
        "JSON with every member once and no whole number beyond 2^53-1; see `chorus canonicalize --help`";
    canonical::parse(&bytes(path)?)
        .map_err(|error| Explained::failed(format!("{path}: {error}"), hint).into())
}

/// The same, read as something; what is wrong with it is told.
pub(crate) fn read<T, E: std::fmt::Display>(
    path: &str,
    what: &str,
    read: impl FnOnce(Value) -> Result<T, E>,
) -> anyhow::Result<T> {
    let hint = "`chorus score --help` and `chorus rehearse --help` show what these files look like";
    read(json(path)?).map_err(|fault| Explained::failed(format!("{path} is no {what}: {fault}"), hint).into())
}

/// A Score, as it is written and as it is read. What no Score has is left out, and that is told: it may be misspelt.
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
