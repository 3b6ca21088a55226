//! The chat tools under the document's dotted names: an agent calls C2A's by them, in the one channel whose address was called.
//!
//! C2A is between the hub and agents. For a person the same names are those of the tools here, in the document's spelling.

use super::context::Context;
use super::holds::no_longer_valid;
use super::place::Running;
use crate::c2a::{self, Harness};
use crate::caller::Identity;
use crate::error::Error;
use chorus_protocol::c2a::{Call, CallFault, Capabilities, ChatTool, Spelling, ToolCall, snake, to_snake};
use chorus_protocol::ids::AgentId;
use chorus_store::directory::{self, KeyHash};
use chorus_store::{StoreError, Tx};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A call under a dotted name, if it is one: what C2A answers.
pub(super) fn call(context: &Context, name: &str, given: &Map<String, Value>) -> Option<Running> {
    let (Some((_, Spelling::Camel)), Some(agent)) = (ChatTool::named(name), context.who.agent()) else {
        return None;
    };
    let (context, call) = (context.clone(), ToolCall { name: name.to_owned(), arguments: given.clone() });
    Some(Box::pin(async move {
        let call = Call::read(call).map_err(|fault| match fault {
            CallFault::Arguments(faults) => Error::validation(faults),
            CallFault::UnknownTool => Error::internal(fault),
        })?;
        c2a::run(&harness(&context, agent).await?, call).await
    }))
}

/// Arguments as the tools here take them, under whatever name they are called.
pub(super) fn respelled(name: &str, given: Map<String, Value>) -> Map<String, Value> {
    let Some((_, Spelling::Camel)) = ChatTool::named(name) else { return given };
    given.into_iter().map(|(name, value)| (snake(&name), to_snake(value))).collect()
}

/// The agent as C2A knows it, kept to the channel.
async fn harness(context: &Context, agent: AgentId) -> Result<Harness, Error> {
    let find = move |tx: &mut dyn Tx| directory::by_id(tx, agent);
    let found = context.app.store.read::<_, StoreError, _>(find).await?.ok_or_else(no_longer_valid)?;
    Ok(Harness {
        app: Arc::clone(&context.app),
        identity: Identity { id: agent, name: found.name },
        // What was shown here opens no session.
        key: KeyHash::default(),
        can: Capabilities::ALL,
        bound: Some(context.conversation),
    })
}
