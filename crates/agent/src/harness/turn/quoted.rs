//! A quoted message: for example the hub's reminder about an unanswered one quotes it.
//!
//! Pure. The quoted text is kept apart, so that it is not taken for the words of the one who quotes it.

use super::{author_kind, named};
use chorus_protocol::api::events::EventView;
use chorus_protocol::c2a::Content;
use chorus_protocol::words::AuthorKind;

/// A message that another one is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted {
    /// The hub's id of the message.
    pub event_id: Option<String>,
    pub author: String,
    /// The kind of author, if known.
    pub kind: Option<AuthorKind>,
    /// The author's id at the hub, if given.
    pub author_id: Option<String>,
    pub text: String,
}

impl Quoted {
    /// Converts the event that a message is about. Returns `None` if it was deleted.
    pub(super) fn event(about: EventView) -> Option<Self> {
        let text = about.content?;
        let (author, author_id) = named(about.author.handle, about.author.id);
        let kind = author_kind(about.author.kind.known());
        Some(Self { event_id: Some(about.event_id), author, kind, author_id, text })
    }

    /// Splits the content of a C2A host: the first part is the host's own text, the rest is quoted.
    pub(super) fn apart(content: &Content, about: Option<String>) -> (String, Option<Box<Self>>) {
        let of = |parts: &[_]| Content { parts: parts.to_vec(), envelope: None, job: None }.to_text();
        let (own, rest) = content.parts.split_at(content.parts.len().min(1));
        let rest = Some(of(rest)).filter(|text| !text.is_empty());
        let quoted = rest.map(|rest| {
            // A hub names the author in a line before the quoted text.
            let heading = rest.split_once('\n').zip(about.as_deref()).and_then(|((first, text), id)| {
                Some((first.strip_suffix(&format!(" said in {id}:"))?.to_owned(), text.to_owned()))
            });
            let (author, text) = heading.unwrap_or_else(|| ("somebody".to_owned(), rest));
            Box::new(Self { event_id: about, author, kind: None, author_id: None, text })
        });
        (of(own), quoted)
    }
}
