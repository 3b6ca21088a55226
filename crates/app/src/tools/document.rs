//! The chat tools under their dotted names. An agent that uses them calls the C2A tools, limited to the
//! channel whose address was called.
//!
//! C2A is between the hub and agents. For a person the dotted names are aliases of the tools here, in the
//! spelling of the C2A document.

use super::context::Context;
use super::holds::no_longer_valid;
use super::place::Running;
use crate::c2a::{self, Harness};
use chorus_node::Error;
use chorus_node::caller::Identity;
use chorus_protocol::c2a::{Call, CallFault, Capabilities, ChatTool, Spelling, ToolCall, snake, to_snake};
use chorus_protocol::ids::AgentId;
use chorus_store::directory::{self, KeyHash};
use chorus_store::{StoreError, Tx};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Runs a call under a dotted name and returns the answer of C2A. Returns `None` for other names.
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

/// Converts arguments of any spelling to the names that the tools here take.
pub(super) fn respelled(name: &str, given: Map<String, Value>) -> Map<String, Value> {
    let Some((_, Spelling::Camel)) = ChatTool::named(name) else { return given };
    given.into_iter().map(|(name, value)| (snake(&name), to_snake(value))).collect()
}

/// Returns the agent as C2A knows it, limited to the channel.
async fn harness(context: &Context, agent: AgentId) -> Result<Harness, Error> {
    let find = move |tx: &mut dyn Tx| directory::by_id(tx, agent);
    let found = context.app.store.read::<_, StoreError, _>(find).await?.ok_or_else(no_longer_valid)?;
    Ok(Harness {
        app: Arc::clone(&context.app),
        identity: Identity { id: agent, name: found.name },
        // The credential of this call opens no C2A session.
        key: KeyHash::default(),
        can: Capabilities::ALL,
        bound: Some(context.conversation),
    })
}
