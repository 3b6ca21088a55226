//! Iterates over the records of a trace in any container: a list, one value per line, one object, a stream of
//! server-sent events, or lists inside objects that an adapter names.

use super::collector::Collector;
use super::node::{self, Budget, Keep, Node, Rule};
use super::reader::{Kind, ReadError, Reader};
use super::secrets::Secrets;
use std::io::Read;

/// The maximum length of a framework's tuple.
const LONGEST_TUPLE: usize = 3;
/// The maximum depth of nested record lists, as in `resourceSpans`.
const DEEPEST: usize = 6;

/// The mapping of one framework's records.
pub(super) trait Adapter {
    /// The rule for keeping members of a record.
    const RULE: Rule;
    /// The names of members whose elements are records.
    const LISTS: &'static [&'static str] = &[];

    /// Set if records may be short lists, since JSON has no tuples.
    const TUPLES: bool = false;

    /// Returns `true` if a short list is one record and not a list of records.
    fn is_tuple(_items: &[Node]) -> bool {
        false
    }

    /// Maps one record.
    fn record(&mut self, record: Node, collector: &mut Collector<'_>);

    /// Maps what had to wait for the end of the trace.
    fn finish(&mut self, collector: &mut Collector<'_>);
}

/// A summary of the top level of a trace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Top {
    /// The number of values, at the top or in lists.
    pub(super) records: usize,
    /// The type of a top-level value that can hold no record: a text, a number or a boolean.
    pub(super) scalar: Option<&'static str>,
}

pub(super) struct Records<'a, 'c, R, A> {
    reader: Reader<R>,
    budget: Budget,
    adapter: &'a mut A,
    collector: &'a mut Collector<'c>,
    top: Top,
}

impl<'a, 'c, R: Read, A: Adapter> Records<'a, 'c, R, A> {
    pub(super) fn new(source: R, adapter: &'a mut A, collector: &'a mut Collector<'c>) -> Self {
        Self { reader: Reader::new(source), budget: Budget::new(), adapter, collector, top: Top::default() }
    }

    /// Reads the trace to its end. Returns a summary of the top level, and the credentials that were seen.
    pub(super) fn run(mut self) -> Result<(Top, Secrets), ReadError> {
        let mut values = 0;
        // The event's name and the number of its last line. A blank line ends an event.
        let (mut event, mut last) = (None, 0);
        while let Some(next) = self.reader.peek()? {
            if values == 0 && next == 0xef {
                return Err(self.reader.error("it begins with a byte order mark"));
            }
            let line = self.reader.line();
            if line > last + 1 {
                event = None;
            }
            last = line;
            if is_field(next) && self.reader.field(&mut event)? {
                continue;
            }
            let path = if values == 0 { String::new() } else { format!("line {line}: ") };
            self.top_value(&path, event.clone())?;
            last = self.reader.line();
            values += 1;
        }
        self.collector.at(String::new());
        self.adapter.finish(self.collector);
        Ok((self.top, self.reader.secrets()))
    }

    fn top_value(&mut self, path: &str, event: Option<String>) -> Result<(), ReadError> {
        match (self.reader.kind()?, event) {
            (_, Some(event)) => {
                let data = self.read()?;
                let name = Node::Text(node::Text { text: event.into(), whole: true });
                let envelope = Node::Object(vec![("event".into(), name), ("data".into(), data)]);
                self.deliver(envelope, format!("{path}$"));
                Ok(())
            }
            (Kind::List, None) => self.list(path),
            (Kind::Object, None) => self.object(&format!("{path}$"), 0),
            (Kind::Text | Kind::Other, None) => {
                let value = self.read()?;
                if value.is_null() {
                    self.collector.at(path.to_owned());
                    self.collector
                        .warn("null_input", "there is nothing but null: was the callback ever called?");
                } else {
                    self.top.scalar = Some(value.kind());
                }
                Ok(())
            }
        }
    }

    /// Reads a list at the top: a list of records, or a single record.
    fn list(&mut self, path: &str) -> Result<(), ReadError> {
        self.reader.enter()?;
        let (mut held, mut index) = (Vec::new(), 0);
        while self.reader.element(index == 0)? {
            if A::TUPLES && index < LONGEST_TUPLE {
                held.push(self.read()?);
            } else {
                self.release(&mut held, path);
                self.value(format!("{path}$[{index}]"), 0)?;
            }
            index += 1;
        }
        if A::TUPLES && A::is_tuple(&held) {
            self.deliver(Node::List(held), format!("{path}$"));
        } else {
            self.release(&mut held, path);
        }
        if index == 0 {
            self.collector.at(path.to_owned());
            self.collector.warn("empty_input", "the list is empty");
        }
        Ok(())
    }

    fn release(&mut self, held: &mut Vec<Node>, path: &str) {
        for (index, item) in held.drain(..).enumerate() {
            self.deliver(item, format!("{path}$[{index}]"));
        }
    }

    fn value(&mut self, place: String, depth: usize) -> Result<(), ReadError> {
        if !A::LISTS.is_empty() && depth < DEEPEST && self.reader.kind()? == Kind::Object {
            return self.object(&place, depth);
        }
        let value = self.read()?;
        self.deliver(value, place);
        Ok(())
    }

    /// Reads an object, and the record lists inside it.
    fn object(&mut self, place: &str, depth: usize) -> Result<(), ReadError> {
        if A::LISTS.is_empty() {
            let value = self.read()?;
            self.deliver(value, place.to_owned());
            return Ok(());
        }
        self.reader.enter()?;
        self.budget.refill();
        let (mut members, mut name, mut first, mut lists) = (Vec::new(), Vec::new(), true, 0);
        while self.reader.member(first, &mut name)? {
            first = false;
            let known = String::from_utf8_lossy(&name).into_owned();
            if A::LISTS.contains(&known.as_str()) && self.reader.kind()? == Kind::List {
                lists += 1;
                self.elements(&format!("{place}.{known}"), depth)?;
            } else if self.reader.secret_member(&mut name)? {
                let keep = (A::RULE)(Keep::All, &known, &members);
                let value = node::read(&mut self.reader, &mut self.budget, A::RULE, keep, 1)?;
                members.push((known.into_boxed_str(), value));
            }
        }
        // An object that only wraps lists is not a record itself.
        if lists == 0 {
            self.deliver(Node::Object(members), place.to_owned());
        }
        Ok(())
    }

    fn elements(&mut self, place: &str, depth: usize) -> Result<(), ReadError> {
        self.reader.enter()?;
        let mut index = 0;
        while self.reader.element(index == 0)? {
            self.value(format!("{place}[{index}]"), depth + 1)?;
            index += 1;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Node, ReadError> {
        self.budget.refill();
        node::read(&mut self.reader, &mut self.budget, A::RULE, Keep::All, 0)
    }

    fn deliver(&mut self, record: Node, place: String) {
        self.top.records += 1;
        self.collector.at(place);
        if self.budget.exceeded {
            self.collector.warn("record_too_large", "a record is too large: the rest of it was not read");
            self.collector.incomplete("a record was not read to its end");
        }
        self.adapter.record(record, self.collector);
    }
}

/// Returns `true` if a line of server-sent events may begin with this byte. No JSON value does.
fn is_field(byte: u8) -> bool {
    matches!(byte, b'e' | b'd' | b'i' | b'r' | b':')
}
