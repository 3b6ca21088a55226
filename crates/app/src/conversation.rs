//! What members do in a conversation: one file for each.

mod approvals;
mod board;
mod change_message;
mod channels;
mod consent;
mod document;
mod events;
mod follow;
mod hold;
mod invitations;
mod members;
mod post;
mod react;
mod say;
mod search;
mod show;
mod standing;
mod status;
mod take_on;
mod talk;
mod typing;
mod unread;

pub use approvals::{agree, decline, end_by_itself, list_approvals, look_at_approval, withdraw};
pub use board::{Attended, Board, Holder, Open, attended, board};
pub use change_message::{delete, edit};
pub use channels::{archive, change_channel, list_conversations, look_at, make_channel, restore};
pub use document::{
    change_document, delete_document, list_documents, make_document, no_document, put, read_document,
    read_document_bytes, shown, version,
};
pub use events::{At, Filter, Kinds, read_events};
pub use follow::Follower;
pub(crate) use follow::tell_attention;
pub use invitations::{accept_invitation, block_inviter, decline_invitation, list_invitations};
pub use members::{Added, add_member, change_member, list_members, make_channel_with, remove_member};
pub use react::react;
pub use say::{post_in, prepare, preview, say, seen_by, send};
pub(crate) use search::show;
pub use search::{FoundView, Question, find_messages};
pub use standing::{Addressed, MAX_COUNT, Standing, Surroundings, addressed, standings, surroundings};
pub use status::set_status;
pub use take_on::{claim, conversation_of, defer, resolve};
pub use talk::{Talk, talk_to};
pub use typing::show_typing;
pub use unread::{mark_read, mark_read_through, unread};

/// How many turns agents take among themselves in a channel whose owner says nothing of it.
pub use chorus_attention::loop_guard::DEFAULT_TURNS as USUAL_LOOP_TURNS;

use self::post::post;
use crate::app::App;
use crate::charge::may_say;
use crate::error::Error;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ConversationId, EventId, Principal, TraceId};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::ConversationKind;
use chorus_store::Tx;
use chorus_store::conversation::{self, Act, ConversationError};
use chorus_store::conversations::Conversation;
use serde::Serialize;
use serde_json::Value;
use std::sync::OnceLock;

/// Something that somebody does in a conversation now.
pub fn act(app: &App, who: Principal, conversation: ConversationId) -> Act {
    act_by(app, conversation)(who)
}

/// The same, where it is not known yet who does it.
fn act_by(app: &App, conversation: ConversationId) -> impl Fn(Principal) -> Act + Send + use<> {
    let (event, trace) = (EventId(app.environment.uuid_v7()), TraceId(app.environment.uuid_v7()));
    let now = app.now();
    move |author| Act { conversation, author, event, trace, now }
}

/// Counts a message that an agent says, before anything is written. Only members are counted. `counted` belongs to the
/// transaction, which may run again: what was decided stands.
fn count_message(
    app: &App,
    tx: &mut dyn Tx,
    act: &Act,
    counted: &OnceLock<Result<(), Error>>,
) -> Result<(), Error> {
    if act.author.agent().is_some() {
        conversation::as_reader(tx, act.conversation, act.author)?;
        counted.get_or_init(|| may_say(app, act.author, act.conversation, 1)).clone()?;
    }
    Ok(())
}

/// The conversation that a text names. What is no id names none, as far as anybody may know.
pub fn conversation_id(text: &str) -> Result<ConversationId, Error> {
    ConversationId::parse(text).ok_or_else(no_conversation)
}

/// What is said of a conversation that is not there, as far as the caller may know.
pub fn no_conversation() -> Error {
    ConversationError::NotFound.into()
}

/// The message that a text names.
pub fn event_id(text: &str) -> Result<EventId, Error> {
    EventId::parse(text).ok_or_else(|| ConversationError::NoTarget.into())
}

/// Refuses what can be done with channels only.
fn not_of_two(conversation: &Conversation) -> Result<(), Error> {
    if conversation.kind == ConversationKind::Dm {
        return Err(Error::new(
            Code::Forbidden,
            "a conversation of two stays as it is: nobody comes or goes, and it has no name of its own; make a channel",
        ));
    }
    Ok(())
}

/// Looks whether somebody is a member, for what it asks for again.
fn is_member(
    who: Principal,
    conversation: ConversationId,
) -> impl Fn(&mut dyn Tx) -> Result<(), Error> + Send {
    move |tx| Ok(conversation::as_reader(tx, conversation, who).map(drop)?)
}

/// The members of something that is said, without credentials.
pub fn masked(said: &impl Serialize) -> Result<Masked, Error> {
    match serde_json::to_value(said).map_err(Error::internal)? {
        Value::Object(mut members) => {
            members.retain(|_, value| !value.is_null());
            Ok(Masked::new(members))
        }
        _ => Err(Error::internal("what is said is no object")),
    }
}

fn kinds(masked: &Masked) -> Vec<String> {
    masked.kinds().iter().map(|kind| (*kind).to_owned()).collect()
}

/// Tells who is refused something for whom it is.
pub fn only(who: &'static str) -> impl Fn(ConversationError) -> Error {
    move |error| match error {
        ConversationError::Forbidden => Error::new(Code::Forbidden, who),
        error => error.into(),
    }
}
