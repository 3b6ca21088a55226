//! Prints responses of `/api/v1`: unchanged for a program; for a person a part of them, read as their type.

use crate::global::Global;
use crate::output;
use chorus_agent::ClientError;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a response as its type.
pub(crate) fn read<T: DeserializeOwned>(answer: &Value) -> Result<T, ClientError> {
    let odd = |error| ClientError::Protocol(format!("the hub answered something else: {error}"));
    T::deserialize(answer).map_err(odd)
}

/// Prints a response: whole for a program, in short for a person. Control characters in texts of others are
/// escaped, so that they cannot control the terminal.
pub(crate) fn tell<T: DeserializeOwned>(
    global: &Global,
    answer: &Value,
    short: impl FnOnce(T) -> String,
) -> anyhow::Result<()> {
    if global.json {
        return output::json(answer);
    }
    Ok(output::data(shortened(answer, short)?)?)
}

fn shortened<T: DeserializeOwned>(
    answer: &Value,
    short: impl FnOnce(T) -> String,
) -> Result<String, ClientError> {
    Ok(output::many_lines(&short(read(answer)?)))
}

/// Prints a list: whole for a program, some columns for a person.
pub(crate) fn list<T: DeserializeOwned, const N: usize>(
    global: &Global,
    items: &[Value],
    head: [&str; N],
    row: impl Fn(T) -> [String; N],
) -> anyhow::Result<()> {
    if global.json {
        return output::json(&items);
    }
    if items.is_empty() {
        output::talk("nothing there");
        return Ok(());
    }
    Ok(output::data(table(items, head, row)?)?)
}

/// Formats the rows of a list, without a notice for an empty one.
pub(crate) fn table<T: DeserializeOwned, const N: usize>(
    items: &[Value],
    head: [&str; N],
    row: impl Fn(T) -> [String; N],
) -> Result<String, ClientError> {
    let cells = |item| Ok(row(read(item)?).map(|cell| output::one_line(&cell)));
    let rows = items.iter().map(cells).collect::<Result<Vec<_>, ClientError>>()?;
    Ok(output::table(head, &rows))
}

/// Formats an optional cell.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

/// Formats several values as one cell.
pub(crate) fn joined(all: &[String]) -> String {
    or_dash(Some(all.join(",")).filter(|all| !all.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_others_wrote_does_not_drive_the_terminal() {
        let told = json!("no\u{1b}]0;x\u{7}\u{1b}[2J\nred");
        let shown = shortened(&told, |text: String| format!("why: {text}")).unwrap();
        assert_eq!(shown, "why: no\\u{1b}]0;x\\u{7}\\u{1b}[2J\nred");
    }
}
