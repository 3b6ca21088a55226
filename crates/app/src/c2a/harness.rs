//! Who speaks C2A, and how what it says is read.

use crate::app::AppState;
use crate::caller::Identity;
use chorus_protocol::c2a::Capabilities;
use chorus_protocol::ids::{AgentId, ConversationId};
use chorus_protocol::rpc::RpcError;
use chorus_protocol::schema;
use chorus_store::directory::KeyHash;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The agent that a harness speaks for.
#[derive(Clone)]
pub struct Harness {
    pub app: AppState,
    pub identity: Identity,
    /// What it showed.
    pub key: KeyHash,
    /// What both agreed on when the session began; of a single call, everything. What is not in it is not used.
    pub can: Capabilities,
    /// The one conversation that its tools know, if it came by the address of one.
    pub bound: Option<ConversationId>,
}

impl Harness {
    pub(super) fn agent(&self) -> AgentId {
        self.identity.id
    }

    /// Whether its tools know this conversation.
    pub(super) fn knows(&self, place: ConversationId) -> bool {
        self.bound.is_none_or(|bound| bound == place)
    }
}

/// Parameters as a method takes them, or everything that is wrong with them.
pub(super) fn read<T: ToSchema + DeserializeOwned + 'static>(
    params: Map<String, Value>,
) -> Result<T, RpcError> {
    schema::read(Value::Object(params)).map_err(RpcError::params)
}
