//! What members do in a conversation: one file for each.

mod change_message;
mod document;
mod react;
mod say;

pub use change_message::{delete, edit};
pub use document::{change_document, make_document, no_document, put, shown, version};
pub use react::react;
pub use say::{prepare, preview, publish, say};

use crate::app::App;
use crate::error::Error;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ConversationId, EventId, Principal, TraceId};
use chorus_protocol::redact::Masked;
use chorus_store::Tx;
use chorus_store::channel::{self, Act, ChannelError};
use serde::Serialize;
use serde_json::Value;

/// Something that somebody does in a conversation now.
pub fn act(app: &App, who: Principal, conversation: ConversationId) -> Act {
    let (event, trace) = (EventId(app.sources.uuid_v7()), TraceId(app.sources.uuid_v7()));
    Act { conversation, author: who, event, trace, now: app.now() }
}

/// Looks whether somebody is a member, for what it asks for again.
fn is_member(
    who: Principal,
    conversation: ConversationId,
) -> impl Fn(&mut dyn Tx) -> Result<(), Error> + Send {
    move |tx| Ok(channel::look(tx, conversation, who).map(drop)?)
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
pub fn only(who: &'static str) -> impl Fn(ChannelError) -> Error {
    move |error| match error {
        ChannelError::Forbidden => Error::new(Code::Forbidden, who),
        error => error.into(),
    }
}
