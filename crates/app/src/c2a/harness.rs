//! The caller of a C2A request, and the parsing of its parameters.

use chorus_node::AppState;
use chorus_node::caller::Identity;
use chorus_protocol::c2a::Capabilities;
use chorus_protocol::ids::{AgentId, ConversationId};
use chorus_protocol::rpc::RpcError;
use chorus_protocol::schema;
use chorus_store::directory::KeyHash;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A harness, and the agent that it acts for.
#[derive(Clone)]
pub struct Harness {
    pub app: AppState,
    pub identity: Identity,
    /// The hash of the key that the harness sent.
    pub key: KeyHash,
    /// The capabilities agreed on at the handshake; all of them for a single call. Nothing outside them is
    /// used.
    pub can: Capabilities,
    /// The only conversation that the tools may use, if the harness connected to the address of one.
    pub bound: Option<ConversationId>,
}

impl Harness {
    pub(super) fn agent(&self) -> AgentId {
        self.identity.id
    }

    /// Returns `true` if the tools may use this conversation.
    pub(super) fn knows(&self, place: ConversationId) -> bool {
        self.bound.is_none_or(|bound| bound == place)
    }
}

/// Parses the parameters of a method. The error names every fault.
pub(super) fn read<T: ToSchema + DeserializeOwned + 'static>(
    params: Map<String, Value>,
) -> Result<T, RpcError> {
    schema::read(Value::Object(params)).map_err(RpcError::params)
}
