//! The C2A host, whatever a harness is connected by: how the two begin, which tools it can call, what it tells.
//!
//! JSON-RPC's errors are for what cannot be asked at all; what a tool refuses is its result. How frames travel, and what was
//! delivered and acknowledged, is for whoever carries them.

mod answering;
mod mailbox;
mod notices;
mod outside;
mod reading;
mod refusing;
mod tools;

pub use notices::tell;

use crate::app::AppState;
use crate::attention;
use crate::caller::Identity;
use crate::delivery::dialect::Dialect;
use crate::delivery::reader::Reader;
use crate::error::Error;
use chorus_protocol::c2a::{
    Capabilities, Initialize, InitializeResult, Method, Program, Resume, negotiate_version,
};
use chorus_protocol::ids::{AgentId, DeliveryId};
use chorus_protocol::rpc::RpcError;
use chorus_protocol::schema;
use chorus_store::directory::KeyHash;
use chorus_store::{StoreError, Tx, deliveries};
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
}

impl Harness {
    fn agent(&self) -> AgentId {
        self.identity.id
    }
}

/// Begins: makes this the agent's one session, and says what both can do and where deliveries go on.
pub async fn initialize(
    harness: &Harness,
    params: Map<String, Value>,
) -> Result<(Reader, InitializeResult), RpcError> {
    let Initialize { protocol_version, capabilities, .. } = read(params)?;
    let capabilities = Capabilities::ALL.intersect(capabilities);
    let Harness { app, identity, key, .. } = harness.clone();
    let shows = Some(attention::words(capabilities.injection));
    let reader = Reader::open(app, identity, key, Dialect::C2a, shows, None).await;
    let reader = reader.map_err(|error| refusing::rpc(&error))?;
    let last = DeliveryId { agent: harness.agent(), seq: reader.handed() };
    let find = move |tx: &mut dyn Tx| deliveries::event_of(tx, last);
    let found = harness.app.store.read::<_, StoreError, _>(find).await;
    let last_acked = found.map_err(|error| refusing::rpc(&Error::from(error)))?;
    let result = InitializeResult {
        protocol_version: negotiate_version(&protocol_version).to_owned(),
        server_info: Some(Program { name: "chorus".into(), version: env!("CARGO_PKG_VERSION").into() }),
        capabilities,
        glyphs: chorus_protocol::c2a::Glyphs::default(),
        resume: Resume { last_acked_event_id: last_acked.map(Into::into) },
    };
    Ok((reader, result))
}

/// Answers what a harness asks for, but `initialize`.
pub async fn call(harness: &Harness, method: &str, params: Map<String, Value>) -> Result<Value, RpcError> {
    match Method::parse(method) {
        Some(Method::ListTools) => tools::listed(harness),
        Some(Method::CallTool) => tools::call(harness, read(params)?).await,
        _ => Err(RpcError::method(method)),
    }
}

/// Parameters as a method takes them, or everything that is wrong with them.
fn read<T: ToSchema + DeserializeOwned + 'static>(params: Map<String, Value>) -> Result<T, RpcError> {
    schema::read(Value::Object(params)).map_err(RpcError::params)
}
