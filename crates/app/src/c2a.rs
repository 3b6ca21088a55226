//! The C2A host, independent of the transport: the handshake, the tools that a harness can call, and its
//! notifications.
//!
//! JSON-RPC errors are for requests that cannot be understood; a tool's refusal is the tool's result. Carrying
//! frames and tracking acknowledgements is the transport's business.

mod answering;
mod harness;
mod mailbox;
mod notices;
mod outside;
mod reading;
mod refusing;
mod tools;

pub use harness::Harness;
pub use notices::tell;
pub(crate) use reading::{meant, wants};
pub(crate) use refusing::{code, elsewhere, in_own_words, refusal};
pub(crate) use tools::{
    claim, defer, deferred_why, described, list_events, react, read_thread, resolve, run, send,
};

use self::harness::read;
use crate::attention;
use crate::delivery::reader::Reader;
use crate::views;
use chorus_node::Error;
use chorus_node::transport::dialect::Dialect;
use chorus_protocol::c2a::{
    Capabilities, Initialize, InitializeResult, Method, Program, Resume, negotiate_version,
};
use chorus_protocol::ids::{ConversationId, DeliveryId};
use chorus_protocol::rpc::RpcError;
use chorus_store::{StoreError, Tx, conversations, deliveries};
use serde_json::{Map, Value};

/// The most conversations whose own glyphs the handshake names.
const MAX_REMAPPED: i64 = 100;

/// Opens the agent's one session. Returns its reader, and an answer with the shared capabilities and the
/// position where deliveries resume.
pub async fn initialize(
    harness: &Harness,
    params: Map<String, Value>,
) -> Result<(Reader, InitializeResult), RpcError> {
    let Initialize { protocol_version, capabilities, .. } = read(params)?;
    let capabilities = Capabilities::ALL.intersect(capabilities);
    let Harness { app, identity, key, .. } = harness.clone();
    let agreed = attention::words(capabilities).map_err(|error| refusing::rpc(&Error::internal(error)))?;
    let reader = Reader::open(app, identity, key, Dialect::C2a, Some(agreed), None).await;
    let reader = reader.map_err(|error| refusing::rpc(&error))?;
    let last = DeliveryId { agent: harness.agent(), seq: reader.handed() };
    let find = move |tx: &mut dyn Tx| {
        let glyphs = conversations::remapped(tx, last.agent.into(), MAX_REMAPPED)?;
        Ok((deliveries::event_of(tx, last)?, glyphs))
    };
    let found = harness.app.store.read::<_, StoreError, _>(find).await;
    let (last_acked, remapped) = found.map_err(|error| refusing::rpc(&Error::from(error)))?;
    let glyphs_of = |(id, kept): &(ConversationId, String)| Some((id.to_string(), views::read_glyphs(kept)?));
    let result = InitializeResult {
        protocol_version: negotiate_version(&protocol_version).to_owned(),
        server_info: Some(Program { name: "chorus".into(), version: env!("CARGO_PKG_VERSION").into() }),
        capabilities,
        glyphs: chorus_protocol::c2a::Glyphs::default(),
        conversation_glyphs: remapped.iter().filter_map(glyphs_of).collect(),
        resume: Resume { last_acked_event_id: last_acked.map(Into::into) },
    };
    Ok((reader, result))
}

/// Answers a harness's request, except `initialize`.
pub async fn call(harness: &Harness, method: &str, params: Map<String, Value>) -> Result<Value, RpcError> {
    match Method::parse(method) {
        Some(Method::ListTools) => tools::listed(harness),
        Some(Method::CallTool) => tools::call(harness, read(params)?).await,
        _ => Err(RpcError::method(method)),
    }
}
