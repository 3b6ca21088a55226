//! A streaming JSON reader: values are read from a `Read` one after the other, kept in part or skipped.
//!
//! A trace may be larger than memory, and almost all of it is irrelevant, so no tree of the whole is built:
//! the caller reads a value cut to size ([`super::node`]) or skips it. Skipped values are validated like kept
//! ones, except for duplicate names. The reader uses one buffer of fixed size. A lone surrogate, which Python
//! writes when it cuts a text inside a character, becomes U+FFFD.

mod scan;

use super::secrets::{self, Secrets};
use scan::{is_secret_name, keep, number, plain};
use std::io::{self, Read};

/// The maximum nesting depth of arrays and objects. The deepest real trace has eleven levels.
pub(super) const MAX_DEPTH: usize = 128;
const BUFFER: usize = 256 * 1024;
/// The prefix of a data line.
const DATA: &[u8] = b"data:";
const LONGEST_NUMBER: usize = 400;
/// The longest member name that is read, in bytes. No adapter uses longer names.
const MAX_MEMBER: usize = 400;

/// The reasons why a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The trace is not JSON.
    #[error("this is not JSON: {what} (line {line}, byte {byte})")]
    Malformed {
        what: &'static str,
        /// The line, from 1.
        line: usize,
        /// The byte offset in the trace, from 0.
        byte: usize,
    },
    /// The trace is nested too deeply.
    #[error("the trace is nested deeper than {MAX_DEPTH} levels (line {line}, byte {byte})")]
    TooDeep {
        /// The line, from 1.
        line: usize,
        /// The byte offset in the trace, from 0.
        byte: usize,
    },
    #[error("the trace cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// A reader at a position in a stream of JSON.
pub(super) struct Reader<R> {
    source: R,
    buffer: Vec<u8>,
    /// The position of the next byte.
    at: usize,
    /// The end of the validated UTF-8 in the buffer.
    valid: usize,
    /// The end of the bytes in the buffer.
    filled: usize,
    /// The number of bytes that have left the buffer.
    passed: usize,
    line: usize,
    depth: usize,
    /// A buffer for names and numbers that are skipped.
    scratch: Vec<u8>,
    /// The values of members whose names denote credentials.
    secrets: Secrets,
    /// Set if the input is a stream of server-sent events.
    streamed: bool,
}

/// The kind of the next value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    List,
    Text,
    Other,
}

/// A JSON value without members or elements.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number that is not a 64-bit integer; its value is not needed.
    Float,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(source: R) -> Self {
        Self::with_buffer(source, BUFFER)
    }

    /// Creates a reader with a buffer of this size, at least large enough for lookahead.
    pub(super) fn with_buffer(source: R, size: usize) -> Self {
        Self {
            source,
            buffer: vec![0; size.max(64)],
            at: 0,
            valid: 0,
            filled: 0,
            passed: 0,
            line: 1,
            depth: 0,
            scratch: Vec::new(),
            secrets: Secrets::default(),
            streamed: false,
        }
    }

    /// Returns the credentials that were seen.
    pub(super) fn secrets(self) -> Secrets {
        self.secrets
    }

    pub(super) fn line(&self) -> usize {
        self.line
    }

    pub(super) fn error(&self, what: &'static str) -> ReadError {
        ReadError::Malformed { what, line: self.line, byte: self.passed + self.at }
    }

    /// Returns the error for the invalid bytes after the validated part.
    #[cold]
    fn not_utf8(&self) -> ReadError {
        let lines = self.buffer[self.at..self.valid].split(|byte| *byte == b'\n').count() - 1;
        ReadError::Malformed {
            what: "it is not UTF-8",
            line: self.line + lines,
            byte: self.passed + self.valid,
        }
    }

    /// Reads more input. Returns `false` at the end.
    #[cold]
    fn fill(&mut self) -> Result<bool, ReadError> {
        self.passed += self.at;
        self.buffer.copy_within(self.at..self.filled, 0);
        (self.valid, self.filled) = (self.valid - self.at, self.filled - self.at);
        self.at = 0;
        let before = self.valid;
        while self.valid == before {
            let count = match self.source.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            self.filled += count;
            match std::str::from_utf8(&self.buffer[self.valid..self.filled]) {
                Ok(text) => self.valid += text.len(),
                Err(error) if error.error_len().is_some() => {
                    self.valid += error.valid_up_to();
                    return Err(self.not_utf8());
                }
                Err(error) => self.valid += error.valid_up_to(),
            }
            if count == 0 {
                // The input ends inside a character.
                return if self.filled > self.valid { Err(self.not_utf8()) } else { Ok(false) };
            }
        }
        Ok(true)
    }

    #[inline]
    fn byte(&mut self) -> Result<Option<u8>, ReadError> {
        if self.at == self.valid && !self.fill()? {
            return Ok(None);
        }
        Ok(Some(self.buffer[self.at]))
    }

    /// Returns the byte after the next one.
    fn second(&mut self) -> Result<Option<u8>, ReadError> {
        if self.at + 1 == self.valid && !self.fill()? {
            return Ok(None);
        }
        Ok(Some(self.buffer[self.at + 1]))
    }

    /// Returns the next byte that is not whitespace, without taking it; `None` at the end.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        loop {
            let rest = &self.buffer[self.at..self.valid];
            for (index, byte) in rest.iter().enumerate() {
                match byte {
                    b' ' | b'\t' | b'\r' => {}
                    b'\n' => self.line += 1,
                    byte => {
                        self.at += index;
                        return Ok(Some(*byte));
                    }
                }
            }
            self.at = self.valid;
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn expected(&mut self) -> Result<u8, ReadError> {
        loop {
            let line = self.line;
            let next = self.peek()?.ok_or_else(|| self.error("it ends in the middle"))?;
            // The data of an event may span several lines, each with its own prefix.
            let goes_on = next == b'd' && self.streamed && self.depth > 0 && self.line > line;
            if !goes_on || !self.is_next(DATA)? {
                return Ok(next);
            }
            self.at += DATA.len();
        }
    }

    /// Returns `true` if the input continues with these bytes.
    fn is_next(&mut self, wanted: &[u8]) -> Result<bool, ReadError> {
        while self.valid - self.at < wanted.len() && self.fill()? {}
        Ok(self.buffer[self.at..self.valid].starts_with(wanted))
    }

    /// Reads a line of server-sent events, or only its prefix if it is data. Returns `false` if this is no
    /// such line. The name of an event goes to `event`.
    pub(super) fn field(&mut self, event: &mut Option<String>) -> Result<bool, ReadError> {
        for name in ["event:", "data:", "id:", "retry:", ":"] {
            if !self.is_next(name.as_bytes())? {
                continue;
            }
            self.at += name.len();
            self.streamed = true;
            if name == "event:" {
                *event = Some(self.rest_of_line()?);
            } else if name != "data:" || (self.peek()?.is_some() && self.is_next(b"[DONE]")?) {
                self.rest_of_line()?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn rest_of_line(&mut self) -> Result<String, ReadError> {
        let mut line = Vec::new();
        while let Some(byte) = self.byte()?.filter(|byte| *byte != b'\n') {
            if line.len() < MAX_MEMBER {
                line.push(byte);
            }
            self.at += 1;
        }
        Ok(String::from_utf8_lossy(&line).trim().to_owned())
    }

    /// Returns the kind of the next value.
    pub(super) fn kind(&mut self) -> Result<Kind, ReadError> {
        Ok(match self.expected()? {
            b'{' => Kind::Object,
            b'[' => Kind::List,
            b'"' => Kind::Text,
            _ => Kind::Other,
        })
    }

    /// Enters an object or list.
    pub(super) fn enter(&mut self) -> Result<(), ReadError> {
        if self.depth == MAX_DEPTH {
            return Err(ReadError::TooDeep { line: self.line, byte: self.passed + self.at });
        }
        (self.at, self.depth) = (self.at + 1, self.depth + 1);
        Ok(())
    }

    /// Returns `true` if another element follows; otherwise the list has been left.
    pub(super) fn element(&mut self, first: bool) -> Result<bool, ReadError> {
        self.more(first, b']', "a list goes on with ',' or ends with ']'")
    }

    /// Reads the next name into `name`. Returns `false` if there is none; the object has been left.
    pub(super) fn member(&mut self, first: bool, name: &mut Vec<u8>) -> Result<bool, ReadError> {
        if !self.more(first, b'}', "an object goes on with ',' or ends with '}'")? {
            return Ok(false);
        }
        if self.expected()? != b'"' {
            return Err(self.error("a member begins with its name in quotes"));
        }
        self.text(name, MAX_MEMBER)?;
        if self.expected()? != b':' {
            return Err(self.error("a name is followed by ':'"));
        }
        self.at += 1;
        Ok(true)
    }

    fn more(&mut self, first: bool, end: u8, what: &'static str) -> Result<bool, ReadError> {
        let next = self.expected()?;
        if next == end {
            (self.at, self.depth) = (self.at + 1, self.depth - 1);
            return Ok(false);
        }
        if first {
            return Ok(true);
        }
        if next != b',' {
            return Err(self.error(what));
        }
        self.at += 1;
        if self.expected()? == end {
            return Err(self.error("a comma is followed by something"));
        }
        Ok(true)
    }

    /// Reads a text and keeps at most `limit` bytes of whole characters. Returns `true` if it kept all of it.
    pub(super) fn text(&mut self, kept: &mut Vec<u8>, limit: usize) -> Result<bool, ReadError> {
        kept.clear();
        self.at += 1;
        let mut whole = true;
        loop {
            let rest = &self.buffer[self.at..self.valid];
            let run = plain(rest);
            if whole {
                whole = keep(kept, &rest[..run], limit);
            }
            let next = rest.get(run).copied();
            self.at += run;
            match next {
                None if self.fill()? => {}
                None => return Err(self.error("a text does not end")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(whole);
                }
                Some(b'\\') => {
                    let sign = self.escape()?;
                    if whole {
                        whole = keep(kept, sign.encode_utf8(&mut [0; 4]).as_bytes(), limit);
                    }
                }
                Some(_) => return Err(self.error("a text holds a control character that is not escaped")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ReadError> {
        self.at += 1;
        let sign = match self.byte()? {
            Some(sign @ (b'"' | b'\\' | b'/')) => char::from(sign),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.error("a text holds an escape that JSON does not know")),
        };
        self.at += 1;
        Ok(sign)
    }

    /// Reads the rest of an escape after `\u`: one or two groups of four digits.
    fn unicode_escape(&mut self) -> Result<char, ReadError> {
        let high = self.four_digits()?;
        let paired =
            (0xd800..0xdc00).contains(&high) && self.byte()? == Some(b'\\') && self.second()? == Some(b'u');
        if !paired {
            return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.at += 1;
        let low = self.four_digits()?;
        if !(0xdc00..0xe000).contains(&low) {
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_digits(&mut self) -> Result<u32, ReadError> {
        self.at += 1;
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.byte()?.and_then(|byte| char::from(byte).to_digit(16));
            code =
                code * 16 + digit.ok_or_else(|| self.error("\\u is followed by four hexadecimal digits"))?;
            self.at += 1;
        }
        Ok(code)
    }

    /// Reads `null`, a boolean or a number.
    pub(super) fn scalar(&mut self) -> Result<Scalar, ReadError> {
        match self.expected()? {
            b'n' => self.word(b"null", Scalar::Null),
            b't' => self.word(b"true", Scalar::Bool(true)),
            b'f' => self.word(b"false", Scalar::Bool(false)),
            b'-' | b'0'..=b'9' => self.number(),
            b'N' | b'I' => {
                Err(self.error("NaN and Infinity are no JSON; Python writes them unless allow_nan=False"))
            }
            b'\'' => {
                Err(self.error("texts stand in double quotes; is this Python's repr instead of json.dumps?"))
            }
            _ => Err(self.error("a value was expected")),
        }
    }

    fn word(&mut self, word: &'static [u8], scalar: Scalar) -> Result<Scalar, ReadError> {
        for wanted in word {
            if self.byte()? != Some(*wanted) {
                return Err(self.error("a value was expected"));
            }
            self.at += 1;
        }
        Ok(scalar)
    }

    fn number(&mut self) -> Result<Scalar, ReadError> {
        let mut digits = std::mem::take(&mut self.scratch);
        digits.clear();
        while let Some(byte @ (b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E' | b'I' | b'N')) = self.byte()? {
            if digits.len() == LONGEST_NUMBER {
                return Err(self.error("a number has more digits than anybody needs"));
            }
            digits.push(byte);
            self.at += 1;
        }
        let scalar = number(&digits).ok_or_else(|| self.error("this is no number as JSON writes them"));
        self.scratch = digits;
        scalar
    }

    /// Skips a value and looks only for names that denote credentials.
    pub(super) fn skip(&mut self) -> Result<(), ReadError> {
        match self.kind()? {
            Kind::Text => self.skip_text(),
            Kind::Other => self.scalar().map(drop),
            Kind::List => {
                self.enter()?;
                let mut first = true;
                while self.element(first)? {
                    self.skip()?;
                    first = false;
                }
                Ok(())
            }
            Kind::Object => {
                self.enter()?;
                let mut first = true;
                let mut name = std::mem::take(&mut self.scratch);
                while self.member(first, &mut name)? {
                    if self.secret_member(&mut name)? {
                        self.skip_value_with(&mut name)?;
                    }
                    first = false;
                }
                self.scratch = name;
                Ok(())
            }
        }
    }

    /// Skips a value and lends the scratch buffer meanwhile, so that all levels share one.
    fn skip_value_with(&mut self, name: &mut Vec<u8>) -> Result<(), ReadError> {
        self.scratch = std::mem::take(name);
        self.skip()?;
        *name = std::mem::take(&mut self.scratch);
        Ok(())
    }

    /// Examines the member whose name was just read. If it holds a credential, its text is taken and the
    /// result is `false`; otherwise its value is still to be read.
    pub(super) fn secret_member(&mut self, name: &mut Vec<u8>) -> Result<bool, ReadError> {
        if !is_secret_name(name) || self.kind()? != Kind::Text {
            return Ok(true);
        }
        self.text(name, secrets::LONGEST)?;
        self.secrets.note(name);
        Ok(false)
    }

    fn skip_text(&mut self) -> Result<(), ReadError> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let done = self.text(&mut scratch, 0);
        self.scratch = scratch;
        done.map(drop)
    }
}
