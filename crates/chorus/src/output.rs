//! What is printed: data on standard output, talk on standard error.
//!
//! Colours are written always and taken out again by `anstream` where nobody sees them (no terminal, `NO_COLOR`).
//! Text that others wrote goes through [`many_lines`] or [`one_line`] first: a message must not drive the terminal.

use owo_colors::OwoColorize;
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

/// Prints a line of data.
pub(crate) fn data(line: impl fmt::Display) -> io::Result<()> {
    writeln!(anstream::stdout().lock(), "{line}")
}

/// Prints a piece of data at once, without ending the line.
pub(crate) fn piece(text: impl fmt::Display) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    write!(out, "{text}")?;
    out.flush()
}

/// Prints a value as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(data(json_line(value)?)?)
}

/// Says something to the person in front of the terminal. If nobody listens, nothing is lost.
pub(crate) fn talk(line: impl fmt::Display) {
    writeln!(anstream::stderr().lock(), "{line}").ok();
}

/// The same without ending the line.
pub(crate) fn unended(text: impl fmt::Display) {
    let mut out = anstream::stderr().lock();
    write!(out, "{text}").and_then(|()| out.flush()).ok();
}

/// Text of several lines with its control characters shown instead of obeyed; line ends and tabs stay.
pub(crate) fn many_lines(text: &str) -> String {
    escape(&text.replace("\r\n", "\n"), |c| c == '\n' || c == '\t')
}

/// The same on one line.
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

/// Whether a sign is there only to change the direction of text, by which a line reads as another than it is: Unicode's
/// `Bidi_Control`.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// A table with aligned columns. Its cells are one line each.
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

/// JSON on one line without control characters.
///
/// An envelope is printed as it was written, which may hold line ends between its members and, inside texts, DEL and
/// C1 as they are. The former become spaces and the latter escapes; both mean the same JSON.
pub(crate) fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string(value)?;
    let mut line = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => line.push(' '),
            // Writing into a string cannot fail.
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
        // Nor turn what is read: Hebrew is turned by the terminal without any sign.
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
