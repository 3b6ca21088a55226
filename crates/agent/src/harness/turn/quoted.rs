//! What somebody tells of and has not said: the hub, of a message that nobody answers.
//!
//! Pure. Whoever reads it must not take it for the words of whoever tells of it, so it is kept apart from them.

use super::{author_kind, named};
use chorus_protocol::api::events::EventView;
use chorus_protocol::c2a::Content;
use chorus_protocol::words::AuthorKind;

/// A message that another one is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted {
    /// As the hub calls it.
    pub event_id: Option<String>,
    /// Who wrote it.
    pub author: String,
    /// What that is, where it is known.
    pub kind: Option<AuthorKind>,
    /// The author's id at the hub, where it is told.
    pub author_id: Option<String>,
    /// What was said.
    pub text: String,
}

impl Quoted {
    /// What an event is about, unless that was taken back.
    pub(super) fn event(about: EventView) -> Option<Self> {
        let text = about.content?;
        let (author, author_id) = named(about.author.handle, about.author.id);
        let kind = author_kind(about.author.kind.known());
        Some(Self { event_id: Some(about.event_id), author, kind, author_id, text })
    }

    /// What a C2A host says itself, apart from what it tells of: the first part is the host's, and nothing else.
    pub(super) fn apart(content: &Content, about: Option<String>) -> (String, Option<Box<Self>>) {
        let of = |parts: &[_]| Content { parts: parts.to_vec(), envelope: None, job: None }.to_text();
        let (own, rest) = content.parts.split_at(content.parts.len().min(1));
        let rest = Some(of(rest)).filter(|text| !text.is_empty());
        let quoted = rest.map(|rest| {
            // A hub says whose words follow, in a line before them.
            let heading = rest.split_once('\n').zip(about.as_deref()).and_then(|((first, text), id)| {
                Some((first.strip_suffix(&format!(" said in {id}:"))?.to_owned(), text.to_owned()))
            });
            let (author, text) = heading.unwrap_or_else(|| ("somebody".to_owned(), rest));
            Box::new(Self { event_id: about, author, kind: None, author_id: None, text })
        });
        (of(own), quoted)
    }
}
