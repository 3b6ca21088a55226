//! The record of processed messages, which keeps a message from being answered twice.
//!
//! Pure: a [`Ledger`] is the state that a sequence of [`Record`]s leads to. The journal stores the records on
//! disk. The core writes them in this order: before an answer is sent, its text ([`Record::Intent`]); when it
//! has arrived, or the turn has ended otherwise, [`Record::Done`] with the inbox position to continue after. A
//! process that dies in between sends the same text again under the same key. Messages merged into one turn
//! are named in the record of their last one and end with it. An edit of an accepted message ends the earlier
//! version, so that only one version is answered. Digests ([`Record::Digest`]) and knocks that were not
//! followed up ([`Record::Knock`]) are kept until a turn that showed them has ended ([`Record::Told`]).

use super::turn::{Turn, channel_turn};
use chorus_protocol::channel::Post;
use chorus_protocol::faults::Faults;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet, VecDeque};

/// The number of processed messages that are remembered.
pub(super) const REMEMBERED: usize = 10_000;

/// The number of digests that are kept. The oldest is dropped first.
pub(super) const MAX_DIGESTS: usize = 5;

/// The number of knocks that are kept. The oldest is dropped first.
const MAX_KNOCKS: usize = 20;

/// The result of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The answer has arrived.
    Answered,
    /// The turn ended without an answer.
    Silent,
    /// The turn failed, and the other side was told if possible; or another agent has taken the message. The
    /// message is processed again if it is delivered again.
    Failed,
    /// An edit, a deletion or a later message replaced it.
    Superseded,
}

/// The state of a message in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The message is new, or failed and came again.
    New,
    /// This tool, which may have changed something, was called for it. The result is unknown.
    Acted(String),
    /// The answer is fixed and may have been sent.
    Intended {
        text: String,
        /// The sender no longer listens, so the answer goes by envelope.
        as_envelope: bool,
    },
    /// The message was answered, or ended without an answer.
    Done,
}

/// A message that was accepted from a peer, a service or a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// The id of the turn.
    pub(crate) id: String,
    pub(crate) door: Door,
    /// The post, the envelope or the delivery, as it came.
    pub(crate) data: Value,
    pub(crate) sender: Option<String>,
}

/// The kind of [`Taken::data`].
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
    /// A post to the agent's own connection string.
    pub fn post(post: &Post) -> Self {
        let id = Turn::post(post.clone()).id;
        Self { id, door: Door::Post, data: serde_json::to_value(post).unwrap_or_default(), sender: None }
    }

    /// A peer's envelope, which is called `name` here.
    pub fn envelope(name: &str, sender: &str, data: Value) -> Self {
        Self { id: format!("message {name}"), door: Door::Envelope, data, sender: Some(sender.to_owned()) }
    }

    /// A message in a conversation of a hub, from a webhook with a verified signature.
    pub fn chat(data: Value) -> Self {
        let id = format!("chat {}", data["event"]["event_id"].as_str().unwrap_or_default());
        Self { id, door: Door::Chat, data, sender: None }
    }

    /// A message in a conversation, from an unsigned request.
    pub fn unsigned_chat(data: Value) -> Self {
        let id = |path| data.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let id = channel_turn(id("/channel/id"), id("/event/event_id"));
        Self { id, door: Door::UnsignedChat, data, sender: None }
    }

    /// A C2A delivery: its parameters, which contain an `eventId`.
    pub fn delivery(params: Value) -> Self {
        let id = format!("chat {}", params["eventId"].as_str().unwrap_or_default());
        Self { id, door: Door::Delivery, data: params, sender: None }
    }

    /// Returns the host's id of the message that this one is an edit of.
    fn supersedes(&self) -> Option<&str> {
        self.data["supersedes"].as_str().filter(|_| self.door == Door::Delivery)
    }

    /// Returns the turn to process.
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
    /// Everything up to this position of the inbox was processed.
    Cursor(String),
    /// A message was accepted. From now on this agent must answer it.
    Took(Taken),
    /// A tool that may change something is about to be called.
    Acted {
        /// The id of the turn.
        id: String,
        tool: String,
        /// The messages merged into this turn. They end with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        merged: Vec<String>,
    },
    /// This answer is about to be sent.
    Intent {
        /// The id of the turn.
        id: String,
        text: String,
        /// The sender no longer listens. From now on the answer goes only by envelope.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        as_envelope: bool,
        /// The messages merged into this turn. The answer is for all of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        merged: Vec<String>,
    },
    /// The message was processed, and everything up to `cursor` with it.
    Done {
        /// The id of the turn.
        id: String,
        end: End,
        /// The inbox position up to which everything is processed now. `None` if it has not moved.
        cursor: Option<String>,
        /// The messages merged into this turn. Empty if it failed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        merged: Vec<String>,
    },
    /// A digest came and is to be shown with a later turn.
    Digest {
        /// The id of the turn that brought it.
        id: String,
        text: String,
    },
    /// A knock was not followed up and is to be shown with a later turn.
    Knock {
        /// The id of the turn that brought it.
        id: String,
        /// One line of text.
        text: String,
    },
    /// These digests and knocks were shown, or are no longer to be shown.
    Told {
        /// The ids of the digests and knocks.
        digests: Vec<String>,
    },
}

/// The state of all messages; see the [module](self).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    cursor: Option<String>,
    open: BTreeMap<String, Known>,
    taken: Vec<Taken>,
    /// Digests that no turn has shown yet, oldest first: ids and texts.
    digests: VecDeque<(String, String)>,
    /// Knocks that no turn has shown yet, oldest first: ids and texts.
    knocks: VecDeque<(String, String)>,
    done: HashSet<String>,
    /// The same ids, oldest first.
    order: VecDeque<String>,
}

impl Ledger {
    /// Returns the inbox position to continue after.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Returns the accepted messages that are not processed yet, in order.
    pub(super) fn taken(&self) -> &[Taken] {
        &self.taken
    }

    /// Returns the digests that are still to be shown, oldest first, with their ids; then the knocks.
    pub(super) fn digests(&self) -> impl Iterator<Item = &(String, String)> {
        self.digests.iter().chain(&self.knocks)
    }

    /// Returns the state of a turn.
    pub fn known(&self, id: &str) -> Known {
        if self.done.contains(id) {
            return Known::Done;
        }
        self.open.get(id).cloned().unwrap_or(Known::New)
    }

    /// Applies a record.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Cursor(cursor) => self.cursor = Some(cursor),
            // A message that comes again may have changed.
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

    /// Ends the message that an accepted edit replaces, and earlier edits of it, except those with an answer
    /// in progress.
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

    /// Returns the shortest sequence of records that leads to the same state.
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

/// Adds a text unless it is present. Drops the oldest beyond the limit.
fn keep(kept: &mut VecDeque<(String, String)>, id: String, text: String, most: usize) {
    if kept.iter().all(|(known, _)| *known != id) {
        kept.push_back((id, text));
    }
    while kept.len() > most {
        kept.pop_front();
    }
}
