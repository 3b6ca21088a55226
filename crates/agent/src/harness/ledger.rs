//! What was dealt with: the one reason why no message is answered twice.
//!
//! Pure: a [`Ledger`] is what a sequence of [`Record`]s comes to. The journal keeps them on disk; the core writes them,
//! in this order: before an answer leaves, its text ([`Record::Intent`]); when it has arrived, or nothing more will be
//! said, that ([`Record::Done`]), together with the place in the inbox to go on after. A program that dies in between
//! sends the same text again under the same key. Messages that are put together into one turn are dealt with as its last
//! one is: they are named with it. A change of a message that was taken ends what was taken before of it: of two versions one is
//! answered. Digests are kept from when they came ([`Record::Digest`]), and knocks that were not taken up
//! ([`Record::Knock`]), until a turn that showed them ended ([`Record::Told`]).

use super::turn::{Turn, channel_turn};
use chorus_protocol::channel::Post;
use chorus_protocol::faults::Faults;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet, VecDeque};

/// How many messages that were dealt with are remembered.
pub(super) const REMEMBERED: usize = 10_000;

/// So many digests are kept; the newest say most.
pub(super) const MAX_DIGESTS: usize = 5;

/// So many knocks are.
const MAX_KNOCKS: usize = 20;

/// How something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The answer arrived.
    Answered,
    /// There was nothing to say.
    Silent,
    /// It failed, and the other side was told so if it can be; or another has taken it. If it is delivered once more, it is tried once
    /// more.
    Failed,
    /// An edit, a deletion or a later message took its place.
    Superseded,
}

/// What is known of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it is new, or failed and came again.
    New,
    /// A tool that may have changed something was called for it, and what came of that is not known.
    Acted(String),
    /// This is the answer, and perhaps it was sent.
    Intended {
        /// The answer.
        text: String,
        /// Its sender no longer listened.
        as_envelope: bool,
    },
    /// It was answered, or there was nothing to say.
    Done,
}

/// Something that a peer or service was told is taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// The turn's.
    pub(crate) id: String,
    pub(crate) door: Door,
    /// A post, an envelope or a delivery, as it came.
    pub(crate) data: Value,
    pub(crate) sender: Option<String>,
}

/// What [`Taken::data`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Door {
    Post,
    Envelope,
    Delivery,
    Chat,
    UnsignedChat,
}

impl Taken {
    /// A post to one's own connection string.
    pub fn post(post: &Post) -> Self {
        let id = Turn::post(post.clone()).id;
        Self { id, door: Door::Post, data: serde_json::to_value(post).unwrap_or_default(), sender: None }
    }

    /// An envelope of a peer, which has the name `name` here.
    pub fn envelope(name: &str, sender: &str, data: Value) -> Self {
        Self { id: format!("message {name}"), door: Door::Envelope, data, sender: Some(sender.to_owned()) }
    }

    /// What was said in a conversation of a hub, from its webhook, whose signature was checked.
    pub fn chat(data: Value) -> Self {
        let id = format!("chat {}", data["event"]["event_id"].as_str().unwrap_or_default());
        Self { id, door: Door::Chat, data, sender: None }
    }

    /// The same from somebody who signed nothing.
    pub fn unsigned_chat(data: Value) -> Self {
        let id = |path| data.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let id = channel_turn(id("/channel/id"), id("/event/event_id"));
        Self { id, door: Door::UnsignedChat, data, sender: None }
    }

    /// A C2A delivery: its parameters, which hold an `eventId`.
    pub fn delivery(params: Value) -> Self {
        let id = format!("chat {}", params["eventId"].as_str().unwrap_or_default());
        Self { id, door: Door::Delivery, data: params, sender: None }
    }

    /// The message that it is a change of, as the host calls it.
    fn supersedes(&self) -> Option<&str> {
        self.data["supersedes"].as_str().filter(|_| self.door == Door::Delivery)
    }

    /// What is to be answered.
    pub(super) fn turn(&self) -> Result<Turn, Faults> {
        let data = self.data.to_string();
        match self.door {
            Door::Chat => Turn::chat(&data),
            Door::UnsignedChat => Turn::unsigned_chat(&data),
            Door::Delivery => Turn::delivery(self.data.clone()),
            Door::Post => Post::read(data.as_bytes()).map(Turn::post),
            Door::Envelope => {
                let name = self.id.strip_prefix("message ").unwrap_or(&self.id);
                Turn::envelope(name, &data, self.sender.as_deref().unwrap_or_default())
            }
        }
    }
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// What came before this place of the inbox was dealt with.
    Cursor(String),
    /// A message is taken: from now on it is ours to answer.
    Took(Taken),
    /// A tool that may change something is about to be called.
    Acted {
        /// For which turn.
        id: String,
        /// Which.
        tool: String,
        /// The messages that were put together with it: they are dealt with as it is.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        merged: Vec<String>,
    },
    /// This answer is about to be sent.
    Intent {
        /// To which turn.
        id: String,
        /// The answer.
        text: String,
        /// Its sender no longer listens: from now on it goes no other way.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        as_envelope: bool,
        /// The messages that were put together with it: it answers all of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        merged: Vec<String>,
    },
    /// The message was dealt with, and with it everything up to `cursor`.
    Done {
        /// Which turn.
        id: String,
        /// How it ended.
        end: End,
        /// The place in the inbox before which everything was dealt with now, if that has moved.
        cursor: Option<String>,
        /// The messages that were put together with it, unless it failed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        merged: Vec<String>,
    },
    /// A digest came, and is to be shown with a turn.
    Digest {
        /// The turn's that brought it.
        id: String,
        /// What it says.
        text: String,
    },
    /// A knock was not taken up, and is to be shown with a turn.
    Knock {
        /// The turn's that brought it.
        id: String,
        /// What it says, in one line.
        text: String,
    },
    /// These digests and knocks were shown, or are not to be any more.
    Told {
        /// By their ids.
        digests: Vec<String>,
    },
}

/// See the [module](self).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    cursor: Option<String>,
    open: BTreeMap<String, Known>,
    taken: Vec<Taken>,
    /// What no turn has shown yet, the oldest first: ids and texts.
    digests: VecDeque<(String, String)>,
    /// The same of knocks.
    knocks: VecDeque<(String, String)>,
    done: HashSet<String>,
    /// The same, the oldest first.
    order: VecDeque<String>,
}

impl Ledger {
    /// The place in the inbox to go on after.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// What was taken and not dealt with, in order.
    pub(super) fn taken(&self) -> &[Taken] {
        &self.taken
    }

    /// The digests that no turn has shown to its end, the oldest first, with their ids; then the knocks.
    pub(super) fn digests(&self) -> impl Iterator<Item = &(String, String)> {
        self.digests.iter().chain(&self.knocks)
    }

    /// What is known of a turn.
    pub fn known(&self, id: &str) -> Known {
        if self.done.contains(id) {
            return Known::Done;
        }
        self.open.get(id).cloned().unwrap_or(Known::New)
    }

    /// Takes note of a record.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Cursor(cursor) => self.cursor = Some(cursor),
            // What comes again may say something else of itself.
            Record::Took(taken) => {
                self.end_superseded(&taken);
                match self.taken.iter_mut().find(|one| one.id == taken.id) {
                    Some(known) => *known = taken,
                    None => self.taken.push(taken),
                }
            }
            Record::Acted { id, tool, merged } => {
                self.end_merged(merged);
                self.open.insert(id, Known::Acted(tool));
            }
            Record::Intent { id, text, as_envelope, merged } => {
                self.end_merged(merged);
                self.open.insert(id, Known::Intended { text, as_envelope });
            }
            Record::Done { id, end, cursor, merged } => {
                if cursor.is_some() {
                    self.cursor = cursor;
                }
                self.end_merged(merged);
                self.end(id, end);
            }
            Record::Digest { id, text } => keep(&mut self.digests, id, text, MAX_DIGESTS),
            Record::Knock { id, text } => keep(&mut self.knocks, id, text, MAX_KNOCKS),
            Record::Told { digests } => {
                for kept in [&mut self.digests, &mut self.knocks] {
                    kept.retain(|(id, _)| !digests.contains(id));
                }
            }
        }
    }

    /// A change is taken: of the message it changes, and of earlier changes of that, nothing more is made, unless an answer was
    /// begun.
    fn end_superseded(&mut self, change: &Taken) {
        let Some(message) = change.supersedes() else { return };
        let of_message = format!("chat {message}");
        let earlier = self.taken.iter().filter(|one| one.supersedes() == Some(message));
        let mut ids: Vec<_> = earlier.map(|one| one.id.clone()).chain([of_message]).collect();
        ids.retain(|id| *id != change.id && !self.open.contains_key(id));
        self.end_merged(ids);
    }

    fn end_merged(&mut self, merged: Vec<String>) {
        for id in merged {
            self.end(id, End::Superseded);
        }
    }

    fn end(&mut self, id: String, end: End) {
        self.open.remove(&id);
        self.taken.retain(|taken| taken.id != id);
        if end != End::Failed && self.done.insert(id.clone()) {
            self.order.push_back(id);
        }
        while self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.done.remove(&oldest);
        }
    }

    /// The fewest records that come to the same.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        let as_done =
            |id: &String| Record::Done { id: id.clone(), end: End::Answered, cursor: None, merged: vec![] };
        let open = self.open.iter().filter_map(|(id, known)| match known {
            Known::Acted(tool) => Some(Record::Acted { id: id.clone(), tool: tool.clone(), merged: vec![] }),
            Known::Intended { text, as_envelope } => Some(Record::Intent {
                id: id.clone(),
                text: text.clone(),
                as_envelope: *as_envelope,
                merged: vec![],
            }),
            Known::New | Known::Done => None,
        });
        let cursor = self.cursor.clone().map(Record::Cursor);
        let digests =
            self.digests.iter().map(|(id, text)| Record::Digest { id: id.clone(), text: text.clone() });
        let knocks =
            self.knocks.iter().map(|(id, text)| Record::Knock { id: id.clone(), text: text.clone() });
        self.order
            .iter()
            .map(as_done)
            .chain(cursor)
            .chain(self.taken.iter().cloned().map(Record::Took))
            .chain(digests)
            .chain(knocks)
            .chain(open)
    }
}

/// Keeps what is to be shown, each once, and of too many the newest.
fn keep(kept: &mut VecDeque<(String, String)>, id: String, text: String, most: usize) {
    if kept.iter().all(|(known, _)| *known != id) {
        kept.push_back((id, text));
    }
    while kept.len() > most {
        kept.pop_front();
    }
}
