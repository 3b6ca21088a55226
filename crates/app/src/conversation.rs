//! The acts of members in a conversation, one file per act.

mod approvals;
mod board;
mod change_message;
mod channels;
mod claims;
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
mod stop;
mod talk;
mod typing;
mod unread;
mod work;

pub use approvals::{agree, decline, end_by_itself, list_approvals, look_at_approval, withdraw};
pub use board::{Attended, Board, Holder, Open, attended, board};
pub use change_message::{delete, edit};
pub use channels::{archive, change_channel, list_conversations, look_at, make_channel, restore};
pub use claims::{claim, conversation_of, defer, resolve};
pub use document::{
    change_document, delete_document, list_documents, make_document, no_document, put, read_document,
    read_document_bytes, shown, version,
};
pub use events::{At, Filter, Kinds, read_events};
pub use follow::Follower;
pub(crate) use follow::tell_attention;
pub use invitations::{accept_invitation, block_inviter, decline_invitation, list_invitations};
pub use members::{
    Added, MemberPath, add_member, change_member, list_members, make_channel_with, remove_member,
};
pub use react::react;
pub use say::{post_in, prepare, preview, say, seen_by, send};
pub(crate) use search::show;
pub use search::{FoundView, Question, find_messages};
pub use standing::{Addressed, MAX_COUNT, Standing, Surroundings, addressed, standings, surroundings};
pub use status::set_status;
pub(crate) use status::{end_status, tell_failure};
pub use stop::{stop, stop_agent};
pub use talk::{Talk, talk_to};
pub use typing::show_typing;
pub use unread::{mark_read, mark_read_through, unread};
pub use work::{go_on, stop_work};

/// The most turns that agents take among themselves in a channel without a setting of its own.
pub use chorus_attention::loop_guard::DEFAULT_TURNS as USUAL_LOOP_TURNS;

/// The time for which progress moves a deadline in a channel without a setting of its own.
pub use chorus_attention::deadline::LONGEST_TASK_MS;

use self::post::post;
use chorus_node::App;
use chorus_node::Error;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal, TraceId};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::ConversationKind;
use chorus_store::Tx;
use chorus_store::conversation::{self, Act, ConversationError};
use chorus_store::conversations::Conversation;
use serde::Serialize;
use serde_json::Value;
use std::sync::OnceLock;

/// Returns a new act of somebody in a conversation, with a fresh event id and the present time.
pub fn act(app: &App, who: Principal, conversation: ConversationId) -> Act {
    act_by(app, conversation)(who)
}

/// Returns a function that makes the act once its author is known.
fn act_by(app: &App, conversation: ConversationId) -> impl Fn(Principal) -> Act + Send + use<> {
    let (event, trace) = (EventId(app.environment.uuid_v7()), TraceId(app.environment.uuid_v7()));
    let now = app.now();
    move |author| Act { conversation, author, event, trace, now }
}

/// Returns a function that makes an agent's act once the conversation is known.
fn act_by_agent(app: &App, agent: AgentId) -> impl Fn(ConversationId) -> Act + Send + use<> {
    let (event, trace) = (EventId(app.environment.uuid_v7()), TraceId(app.environment.uuid_v7()));
    let now = app.now();
    move |conversation| Act { conversation, author: agent.into(), event, trace, now }
}

/// Counts an agent's message, or its change of a member or of the channel, against its rate limit, before
/// anything is written. Only members are counted. `counted` keeps the decision when the transaction is
/// retried.
fn count_message(
    app: &App,
    tx: &mut dyn Tx,
    act: &Act,
    counted: &OnceLock<Result<(), Error>>,
) -> Result<(), Error> {
    if act.author.agent().is_some() {
        conversation::as_reader(tx, act.conversation, act.author)?;
        counted.get_or_init(|| app.limits.may_say(act.author, act.conversation, 1)).clone()?;
    }
    Ok(())
}

/// Parses the id of a conversation. A malformed id is answered like an unknown one.
pub fn conversation_id(text: &str) -> Result<ConversationId, Error> {
    ConversationId::parse(text).ok_or_else(no_conversation)
}

/// Returns the error for a conversation that does not exist, or that the caller may not know.
pub fn no_conversation() -> Error {
    ConversationError::NotFound.into()
}

/// Parses the id of a message.
pub fn event_id(text: &str) -> Result<EventId, Error> {
    EventId::parse(text).ok_or_else(|| ConversationError::NoTarget.into())
}

/// Refuses direct conversations, for acts on channels only.
fn not_of_two(conversation: &Conversation) -> Result<(), Error> {
    if conversation.kind == ConversationKind::Dm {
        return Err(Error::new(
            Code::Forbidden,
            "a conversation of two stays as it is: nobody comes or goes, and it has no name of its own; make a channel",
        ));
    }
    Ok(())
}

/// Returns the check for a repeated request: the caller must still be a member.
fn is_member(
    who: Principal,
    conversation: ConversationId,
) -> impl Fn(&mut dyn Tx) -> Result<(), Error> + Send {
    move |tx| Ok(conversation::as_reader(tx, conversation, who).map(drop)?)
}

/// Serializes a value to an object without null members, with credentials masked.
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

/// Maps `Forbidden` to an error that names who may do this.
pub fn only(who: &'static str) -> impl Fn(ConversationError) -> Error {
    move |error| match error {
        ConversationError::Forbidden => Error::new(Code::Forbidden, who),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests;
