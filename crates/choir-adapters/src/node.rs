//! Values of a trace, cut to size: long texts are truncated, and members that no adapter needs are absent.
//!
//! A [`Rule`] selects members by name, so that embedded agents, prompts and images are skipped while reading.
//! The size of a record is limited, and truncation is recorded.

use super::reader::{Kind, ReadError, Reader, Scalar};
use std::io::Read;

/// The maximum size of a text in bytes. An event's detail has at most 500 characters.
const TEXT: usize = 4000;
/// The maximum size of all texts of one record, in bytes.
const RECORD_TEXT: usize = 8 << 20;
/// The maximum number of values in one record.
const RECORD_NODES: usize = 200_000;
/// The depth below which members and elements are dropped.
const KEPT_DEPTH: usize = 24;

/// Decides how a member is kept, from its parent's mode, its name and the members before it.
pub(super) type Rule = fn(parent: Keep, name: &str, before: &[(Box<str>, Node)]) -> Keep;

/// The mode in which a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// The whole value, with texts truncated.
    All,
    /// The whole value, with a text of up to this many bytes: JSON inside JSON.
    Long(usize),
    /// Only the scalar members of an object, and those that the rule names.
    Shallow,
    /// Of objects and lists only what the rule names; of a text only its presence.
    Blocks,
    /// Only the presence of the value.
    Skip,
}

/// A value of a trace.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Integer(i64),
    Float,
    Text(Text),
    List(Vec<Node>),
    Object(Vec<(Box<str>, Node)>),
    /// A value that was skipped.
    Omitted,
}

/// A text or its beginning.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    pub(super) text: Box<str>,
    /// Set if the text is not truncated.
    pub(super) whole: bool,
}

const NOTHING: &Node = &Node::Null;

impl Node {
    /// Returns a member, or null if there is none.
    pub(super) fn get(&self, name: &str) -> &Node {
        self.member(name).unwrap_or(NOTHING)
    }

    pub(super) fn member(&self, name: &str) -> Option<&Node> {
        self.members().iter().find(|(known, _)| **known == *name).map(|(_, node)| node)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.member(name).is_some()
    }

    pub(super) fn members(&self) -> &[(Box<str>, Node)] {
        if let Self::Object(members) = self { members } else { &[] }
    }

    pub(super) fn items(&self) -> &[Node] {
        if let Self::List(items) = self { items } else { &[] }
    }

    /// Returns the text if it is not blank.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) if !text.text.trim().is_empty() => Some(&text.text),
            _ => None,
        }
    }

    pub(super) fn integer(&self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(*number) } else { None }
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::List(_))
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Names the type of the value, with its article.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Float => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
            Self::Omitted => "something",
        }
    }
}

/// The remaining limits of one record.
pub(super) struct Budget {
    nodes: usize,
    bytes: usize,
    /// Set if something was dropped because of a limit.
    pub(super) exceeded: bool,
    text: Vec<u8>,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { nodes: RECORD_NODES, bytes: RECORD_TEXT, exceeded: false, text: Vec::new() }
    }

    /// Resets the limits for the next record.
    pub(super) fn refill(&mut self) {
        (self.nodes, self.bytes, self.exceeded) = (RECORD_NODES, RECORD_TEXT, false);
    }

    fn node(&mut self) -> bool {
        self.exceeded |= self.nodes == 0;
        self.nodes = self.nodes.saturating_sub(1);
        !self.exceeded
    }
}

/// Reads the next value.
pub(super) fn read<R: Read>(
    reader: &mut Reader<R>,
    budget: &mut Budget,
    rule: Rule,
    keep: Keep,
    depth: usize,
) -> Result<Node, ReadError> {
    let kind = reader.kind()?;
    let nested = matches!(kind, Kind::Object | Kind::List);
    let passed_over = keep == Keep::Skip || (keep == Keep::Blocks && kind == Kind::Text);
    if passed_over || !budget.node() || (nested && depth >= KEPT_DEPTH) {
        reader.skip()?;
        return Ok(Node::Omitted);
    }
    match kind {
        Kind::Text => read_text(reader, budget, keep),
        Kind::Other => Ok(match reader.scalar()? {
            Scalar::Null => Node::Null,
            Scalar::Bool(value) => Node::Bool(value),
            Scalar::Integer(number) => Node::Integer(number),
            Scalar::Float => Node::Float,
        }),
        Kind::List => {
            reader.enter()?;
            let (mut items, mut first) = (Vec::new(), true);
            while reader.element(first)? {
                first = false;
                let item = read(reader, budget, rule, keep, depth + 1)?;
                if !(budget.exceeded && item == Node::Omitted) {
                    items.push(item);
                }
            }
            Ok(Node::List(items))
        }
        Kind::Object => read_object(reader, budget, rule, keep, depth),
    }
}

fn read_object<R: Read>(
    reader: &mut Reader<R>,
    budget: &mut Budget,
    rule: Rule,
    keep: Keep,
    depth: usize,
) -> Result<Node, ReadError> {
    reader.enter()?;
    let mut members = Vec::new();
    let mut first = true;
    // Names and texts share one buffer: a name is copied before its value is read.
    loop {
        let mut name = std::mem::take(&mut budget.text);
        let more = reader.member(first, &mut name)?;
        first = false;
        let known: Box<str> = if more { boxed(&name) } else { Box::default() };
        let open = more && reader.secret_member(&mut name)?;
        budget.text = name;
        if !more {
            return Ok(Node::Object(members));
        }
        if !open {
            members.push((known, Node::Omitted));
            continue;
        }
        let mut kept = rule(keep, &known, &members);
        if keep == Keep::Shallow && kept == Keep::All {
            kept = if matches!(reader.kind()?, Kind::Object | Kind::List) { Keep::Skip } else { Keep::All };
        }
        let value = read(reader, budget, rule, kept, depth + 1)?;
        // A value beyond the limit takes no space at all.
        if !(budget.exceeded && value == Node::Omitted) {
            members.push((known, value));
        }
    }
}

fn read_text<R: Read>(reader: &mut Reader<R>, budget: &mut Budget, keep: Keep) -> Result<Node, ReadError> {
    let limit = if let Keep::Long(limit) = keep { limit } else { TEXT };
    let mut text = std::mem::take(&mut budget.text);
    let whole = reader.text(&mut text, limit.min(budget.bytes))?;
    budget.exceeded |= !whole && budget.bytes < limit;
    budget.bytes -= text.len();
    let node = Node::Text(Text { text: boxed(&text), whole });
    budget.text = text;
    Ok(node)
}

/// Converts bytes to text. The reader returns whole characters only.
fn boxed(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}

/// Parses a text that holds JSON, as attributes of spans do. Returns `None` if it holds something else.
pub(super) fn embedded(text: &Text, rule: Rule) -> Option<Node> {
    if !text.whole {
        return None;
    }
    let mut reader = Reader::with_buffer(text.text.as_bytes(), text.text.len() + 1);
    let node = read(&mut reader, &mut Budget::new(), rule, Keep::All, 0).ok()?;
    reader.peek().ok()?.is_none().then_some(node)
}
