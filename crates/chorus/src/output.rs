//! Prints data to standard output and notices to standard error.
//!
//! Colours are always written; `anstream` removes them where they are not supported (no terminal, `NO_COLOR`).
//! Texts of others are escaped by [`many_lines`] or [`one_line`] first, so that a message cannot control the
//! terminal.

use owo_colors::OwoColorize;
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

/// Prints a line of data.
pub(crate) fn data(line: impl fmt::Display) -> io::Result<()> {
    writeln!(anstream::stdout().lock(), "{line}")
}

/// Prints a piece of data at once, without a line break.
pub(crate) fn piece(text: impl fmt::Display) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    write!(out, "{text}")?;
    out.flush()
}

/// Prints a value as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(data(json_line(value)?)?)
}

/// Prints a notice to standard error. A failed write is ignored.
pub(crate) fn talk(line: impl fmt::Display) {
    writeln!(anstream::stderr().lock(), "{line}").ok();
}

/// Prints to standard error without a line break.
pub(crate) fn unended(text: impl fmt::Display) {
    let mut out = anstream::stderr().lock();
    write!(out, "{text}").and_then(|()| out.flush()).ok();
}

/// Escapes the control characters of a text, except line breaks and tabs.
pub(crate) fn many_lines(text: &str) -> String {
    escape(&text.replace("\r\n", "\n"), |c| c == '\n' || c == '\t')
}

/// Escapes all control characters of a text, including line breaks.
pub(crate) fn one_line(text: &str) -> String {
    escape(text, |_| false)
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        // `is_control` is exactly C0, DEL and C1.
        if c.is_control() && !keep(c) {
            shown.extend(c.escape_default());
        } else if !turns_text(c) {
            shown.push(c);
        }
    }
    shown
}

/// Checks for characters that change the direction of text, which can make a line look like another: Unicode's
/// `Bidi_Control`.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Formats a table with aligned columns. Each cell must be one line.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|n| {
        let cells = rows.iter().map(|row| row[n].chars().count());
        cells.max().unwrap_or(0).max(head[n].len())
    });
    let line = |cells: [&str; N]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(head).bold().to_string()];
    lines.extend(rows.iter().map(|row| line(row.each_ref().map(String::as_str))));
    lines.join("\n")
}

/// Serializes a value as JSON on one line without control characters.
///
/// An envelope is printed as it was written. It may contain line breaks between its members and, inside texts,
/// unescaped DEL and C1 characters. The former become spaces and the latter escapes; the JSON value stays the
/// same.
pub(crate) fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string(value)?;
    let mut line = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => line.push(' '),
            // Writing to a string cannot fail.
            c if c.is_control() || turns_text(c) => {
                write!(line, "\\u{:04x}", u32::from(c)).unwrap_or_default();
            }
            c => line.push(c),
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    #[test]
    fn a_message_cannot_drive_the_terminal() {
        assert_eq!(many_lines("a\u{1b}[2Jb\u{9b}1mc\u{7f}\rd"), "a\\u{1b}[2Jb\\u{9b}1mc\\u{7f}\\rd");
        assert_eq!(many_lines("two\r\nlines\tand a tab, 下午 é 🎵"), "two\nlines\tand a tab, 下午 é 🎵");
        assert_eq!(one_line("two\nlines\t"), "two\\nlines\\t");
        // Direction marks are removed. Hebrew text needs none.
        assert_eq!(one_line("a\u{202e}b\u{2066}c\u{200f}\u{61c}d שלום"), "abcd שלום");
        assert_eq!(json_line(&"a\u{202e}b").unwrap(), "\"a\\u202eb\"");
    }

    #[test]
    fn json_stays_one_line_and_means_the_same() {
        let raw: Box<RawValue> =
            serde_json::from_str("{\n\t\"n\": 1.50,\r\n \"t\": \"\u{9b}\u{7f}\\n下\"}").unwrap();
        let line = json_line(&raw).unwrap();
        assert_eq!(line, "{  \"n\": 1.50,   \"t\": \"\\u009b\\u007f\\n下\"}");
        let same: serde_json::Value = serde_json::from_str(raw.get()).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), same);
    }
}
