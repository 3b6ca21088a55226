//! JSON as a stream: values are taken from a `Read` one after the other, kept in part or passed over.
//!
//! A trace may be larger than memory, and nearly all of it is of no interest, so there is no tree of the whole: the
//! caller asks for a value cut to size ([`super::node`]) or skips it. What is skipped is checked as strictly as what
//! is kept, but for duplicate names. Memory is one buffer, whatever comes. A lone surrogate, which Python writes when
//! it has cut a text in the middle of a sign, becomes U+FFFD.

mod scan;

use super::secrets::{self, Secrets};
use scan::{is_secret_name, keep, number, plain};
use std::io::{self, Read};

/// The deepest nesting of arrays and objects; the deepest real trace has eleven levels.
pub(super) const MAX_DEPTH: usize = 128;
const BUFFER: usize = 256 * 1024;
/// What a line of data begins with.
const DATA: &[u8] = b"data:";
const LONGEST_NUMBER: usize = 400;
/// Longer names mean nothing to anybody here.
const MAX_MEMBER: usize = 400;

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON.
    #[error("this is not JSON: {what} (line {line}, byte {byte})")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// The line, counted from 1.
        line: usize,
        /// The byte of the whole, counted from 0.
        byte: usize,
    },
    /// JSON, but nobody writes traces like this.
    #[error("the trace is nested deeper than {MAX_DEPTH} levels (line {line}, byte {byte})")]
    TooDeep {
        /// The line, counted from 1.
        line: usize,
        /// The byte of the whole, counted from 0.
        byte: usize,
    },
    /// The file or connection failed.
    #[error("the trace cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// A place in a stream of JSON.
pub(super) struct Reader<R> {
    source: R,
    buffer: Vec<u8>,
    /// What is next.
    at: usize,
    /// Before this everything is UTF-8.
    valid: usize,
    /// Before this everything was read.
    filled: usize,
    /// Bytes that were in the buffer earlier.
    passed: usize,
    line: usize,
    depth: usize,
    /// The name or number that is being passed over.
    scratch: Vec<u8>,
    /// What was passed in members whose names promise a credential.
    secrets: Secrets,
    /// Whether these are server-sent events.
    streamed: bool,
}

/// What kind of value begins here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    List,
    Text,
    Other,
}

/// Something that stands by itself, or where a structure begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number that is no integer of 64 bits; nobody needs its value.
    Float,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(source: R) -> Self {
        Self::with_buffer(source, BUFFER)
    }

    /// With a buffer of this many bytes, at least what is looked at at once.
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

    /// The credentials that were seen.
    pub(super) fn secrets(self) -> Secrets {
        self.secrets
    }

    pub(super) fn line(&self) -> usize {
        self.line
    }

    pub(super) fn error(&self, what: &'static str) -> ReadError {
        ReadError::Malformed { what, line: self.line, byte: self.passed + self.at }
    }

    /// What comes after everything that is UTF-8 is not.
    #[cold]
    fn not_utf8(&self) -> ReadError {
        let lines = self.buffer[self.at..self.valid].split(|byte| *byte == b'\n').count() - 1;
        ReadError::Malformed {
            what: "it is not UTF-8",
            line: self.line + lines,
            byte: self.passed + self.valid,
        }
    }

    /// Reads on; `false` at the end.
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
                // A sign that never ends.
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

    /// The byte after the next one.
    fn second(&mut self) -> Result<Option<u8>, ReadError> {
        if self.at + 1 == self.valid && !self.fill()? {
            return Ok(None);
        }
        Ok(Some(self.buffer[self.at + 1]))
    }

    /// The next byte that is no white space, without taking it; `None` at the end.
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
            // An event's data may take several lines, each of which says again what it is.
            let goes_on = next == b'd' && self.streamed && self.depth > 0 && self.line > line;
            if !goes_on || !self.is_next(DATA)? {
                return Ok(next);
            }
            self.at += DATA.len();
        }
    }

    /// Whether the next bytes are these.
    fn is_next(&mut self, wanted: &[u8]) -> Result<bool, ReadError> {
        while self.valid - self.at < wanted.len() && self.fill()? {}
        Ok(self.buffer[self.at..self.valid].starts_with(wanted))
    }

    /// Takes a line of server-sent events, or its name if it is data; `false` if this is none. The event's name goes
    /// to `event`.
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

    /// What begins here.
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

    /// Whether another element follows; if not, the list has been left.
    pub(super) fn element(&mut self, first: bool) -> Result<bool, ReadError> {
        self.more(first, b']', "a list goes on with ',' or ends with ']'")
    }

    /// Takes the next name into `name`; if there is none, the object has been left.
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

    /// Takes a text, of which at most `limit` bytes are kept, whole signs; answers whether that was all of it.
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

    /// After `\u`: one or two groups of four digits.
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

    /// Takes `null`, a boolean or a number.
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

    /// Passes over a value, looking only at names that promise a credential.
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

    /// Skips with the scratch buffer given back meanwhile: one for all levels.
    fn skip_value_with(&mut self, name: &mut Vec<u8>) -> Result<(), ReadError> {
        self.scratch = std::mem::take(name);
        self.skip()?;
        *name = std::mem::take(&mut self.scratch);
        Ok(())
    }

    /// Looks at the member that has just been named. If it holds a credential, its text is taken and the answer is
    /// `false`; otherwise its value is still to be read.
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
