//! Digests: counts of the events in a channel or a work stream, for the agent that leads there.
//!
//! Events are counted per kind and per kind of author. A digest contains neither text nor names. An empty
//! digest is not sent.

use chorus_protocol::attention::Attention;
use chorus_protocol::words::{AuthorKind, Directedness, EventKind, Mode, Policy, Priority, Reason};
use std::collections::BTreeMap;
use std::fmt;

/// The shortest time between two digests.
pub const EVERY_MS: i64 = 900_000;

/// The subject of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Channel,
    /// All conversations of one work stream.
    Stream,
}

/// The events in a channel or a stream since the last digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    scope: Scope,
    /// The time of the last digest, or the time at which the counting began.
    since_ms: i64,
    counts: BTreeMap<(EventKind, AuthorKind), u32>,
}

impl Digest {
    /// Creates an empty digest.
    pub fn new(scope: Scope, since_ms: i64) -> Self {
        Self { scope, since_ms, counts: BTreeMap::new() }
    }

    /// Adds events to the counts. Kinds that say nothing about the work are not counted.
    pub fn add(&mut self, kind: EventKind, author: AuthorKind, count: u32) {
        if name(kind).is_some() && count > 0 {
            let counted = self.counts.entry((kind, author)).or_default();
            *counted = counted.saturating_add(count);
        }
    }

    /// Returns the time at which the digest is due. Returns `None` while the digest is empty.
    pub fn due_at(&self) -> Option<i64> {
        (!self.counts.is_empty()).then_some(self.since_ms + EVERY_MS)
    }

    /// Returns the number of events of a kind, by all authors.
    pub fn of_kind(&self, kind: EventKind) -> u64 {
        self.sum(|(other, _)| *other == kind)
    }

    /// Returns the number of events by authors of a kind.
    pub fn by(&self, author: AuthorKind) -> u64 {
        self.sum(|(_, other)| *other == author)
    }

    fn sum(&self, of: impl Fn(&(EventKind, AuthorKind)) -> bool) -> u64 {
        self.counts.iter().filter(|(key, _)| of(key)).map(|(_, count)| u64::from(*count)).sum()
    }
}

/// Formats the counts: `5 messages, 1 edit (4 by agents, 2 by people)`.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match self.scope {
            Scope::Channel => "in this channel",
            Scope::Stream => "in this work stream",
        };
        let kinds = EventKind::ALL.iter().filter_map(|kind| Some((self.of_kind(*kind), name(*kind)?)));
        let kinds: Vec<_> = kinds
            .filter(|(count, _)| *count > 0)
            .map(|(count, (one, many))| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        let authors =
            [(AuthorKind::Agent, "agents"), (AuthorKind::Human, "people"), (AuthorKind::System, "the hub")];
        let authors: Vec<_> = authors
            .map(|(kind, name)| (self.by(kind), name))
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} by {name}"))
            .collect();
        if kinds.is_empty() {
            return write!(f, "nothing {scope}");
        }
        write!(f, "{} {scope} ({})", kinds.join(", "), authors.join(", "))
    }
}

fn name(kind: EventKind) -> Option<(&'static str, &'static str)> {
    match kind {
        EventKind::Message => Some(("message", "messages")),
        EventKind::Edit => Some(("edit", "edits")),
        EventKind::Delete => Some(("deletion", "deletions")),
        EventKind::Reaction => Some(("reaction", "reactions")),
        EventKind::Status => Some(("status update", "status updates")),
        EventKind::ToolCall => Some(("tool call", "tool calls")),
        EventKind::Error => Some(("failure", "failures")),
        EventKind::Join => Some(("join", "joins")),
        EventKind::Leave => Some(("leave", "leaves")),
        EventKind::Artifact => Some(("document version", "document versions")),
        EventKind::Envelope => Some(("envelope", "envelopes")),
        EventKind::Foreign => Some(("message from elsewhere", "messages from elsewhere")),
        EventKind::Escalation => Some(("escalation", "escalations")),
        EventKind::Job => Some(("job", "jobs")),
        EventKind::Stop => Some(("stop", "stops")),
        // Each of these accompanies a counted event, or is internal to the hub.
        EventKind::ToolResult | EventKind::Lifecycle | EventKind::Change | EventKind::Digest => None,
    }
}

/// Returns the attention of a digest. A digest is not answered, unless it reports an event that names the
/// recipient or gives it a task.
pub fn attention(names_recipient: bool) -> Attention {
    let policy = if names_recipient { Policy::MayRespond } else { Policy::MustNotRespond };
    Attention {
        directedness: if names_recipient { Directedness::ToMyRole } else { Directedness::Ambient },
        policy,
        mode: Mode::Digest,
        reason: Reason::Digest,
        priority: Priority::Low,
        deadline_ms: names_recipient.then_some(EVERY_MS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_nothing_else() {
        let mut digest = Digest::new(Scope::Channel, 1_000);
        assert_eq!((digest.due_at(), digest.to_string().as_str()), (None, "nothing in this channel"));
        digest.add(EventKind::Lifecycle, AuthorKind::Agent, 3);
        digest.add(EventKind::Message, AuthorKind::Agent, 0);
        assert_eq!(digest.due_at(), None);
        digest.add(EventKind::Message, AuthorKind::Agent, 4);
        digest.add(EventKind::Message, AuthorKind::Human, 1);
        digest.add(EventKind::Edit, AuthorKind::Human, 1);
        assert_eq!(digest.due_at(), Some(901_000));
        assert_eq!((digest.of_kind(EventKind::Message), digest.by(AuthorKind::Human)), (5, 2));
        assert_eq!(digest.to_string(), "5 messages, 1 edit in this channel (4 by agents, 2 by people)");
        digest.add(EventKind::Message, AuthorKind::Human, u32::MAX);
        assert_eq!(digest.of_kind(EventKind::Message), u64::from(u32::MAX) + 4);
    }

    #[test]
    fn nobody_answers_a_digest() {
        assert_eq!(attention(false).policy, Policy::MustNotRespond);
        assert_eq!(attention(true).policy, Policy::MayRespond);
        assert_eq!(attention(false).mode, Mode::Digest);
    }
}
