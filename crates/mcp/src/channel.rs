//! A channel as MCP shows it: its tools, its documents as resources, a prompt that teaches how to take part.
//!
//! One [`Channel`] is one caller in one channel, for one request. Everything it does is a transaction of
//! `chorus_store::conversation` and its neighbours, which begins by looking whether the caller is a member: the tools hold no
//! rights of their own. How messages, reactions and documents are read, masked and shown is the hub's, the same as for
//! `/api/v1`, and comes through [`Hub`].

mod calls;
mod input;
mod notices;
mod open;
mod prompt;
mod resources;
mod tools;
mod wait;

pub use open::Open;

use crate::rpc::RpcError;
use crate::service::{About, Ask, Notices, Outlet, Refusal, Service, Wants};
use crate::sessions;
use chorus_protocol::ids::{ConversationId, EventId, Principal, TraceId};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::Signal;
use chorus_store::artifacts::Artifact;
use chorus_store::conversation::{self, Act, ConversationError, NewArtifact, Post, Posted};
use chorus_store::conversations::Event;
use chorus_store::log::Standing;
use chorus_store::{Store, StoreError, Tx};
use serde_json::{Map, Value, json};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What one page of a list has at most, in bytes.
const PAGE_BYTES: u64 = 256 * 1024;

/// What of the hub the channel's tools need.
pub trait Hub: Send + Sync + 'static {
    /// Where everything is kept.
    fn store(&self) -> &Store;
    /// Milliseconds since 1970, UTC.
    fn now(&self) -> i64;
    /// A new id that sorts by time.
    fn id(&self) -> Uuid;
    /// A new id that nobody can guess.
    fn secret_id(&self) -> Uuid;
    /// Whether somebody may say something in this conversation now, or why it must wait.
    fn may_say(&self, who: Principal, conversation: ConversationId) -> Result<(), String>;
    /// Reads a message as the API does, with its limits: what to post, or everything that is wrong with it.
    fn message(&self, body: &Value) -> Result<Post, String>;
    /// Reads a reaction likewise: its signal, and all of it.
    fn reaction(&self, body: &Value) -> Result<(Signal, Masked), String>;
    /// Reads a new document likewise, or with `base_version` a new version of one.
    fn document(&self, body: &Value) -> Result<NewArtifact, String>;
    /// Says something: it is counted, and handed on once it is committed.
    fn post(&self, tx: &mut dyn Tx, act: &Act, new: &Post) -> Result<Posted, ConversationError>;
    /// Reacts to a message likewise: which event says it, and its place.
    fn react(
        &self,
        tx: &mut dyn Tx,
        act: &Act,
        target: EventId,
        signal: Signal,
        body: &Masked,
    ) -> Result<(EventId, i64), ConversationError>;
    /// Counts an event of so many bytes for its author, if this transaction is committed, or refuses it.
    fn count(&self, tx: &mut dyn Tx, who: Principal, bytes: usize) -> Result<(), ConversationError>;
    /// Makes a version of a document, within the quotas.
    fn put_document(
        &self,
        tx: &mut dyn Tx,
        act: &Act,
        new: &NewArtifact,
    ) -> Result<Artifact, ConversationError>;
    /// Events as the API shows them.
    fn events(&self, events: &[Event], standing: &Standing) -> Vec<Value>;
    /// The head of a conversation from now on; 0 until it moves.
    fn follow(&self, conversation: ConversationId) -> watch::Receiver<i64>;
    /// Moves when something that lets `who` in may have been taken back.
    fn revocations(&self, who: Principal) -> watch::Receiver<i64>;
    /// What is open right now.
    fn open(&self) -> &Open;
    /// How many bytes a page of any list may have.
    fn page_bytes(&self) -> u64;
    /// How often a quiet stream shows that it lives.
    fn ping(&self) -> Duration;
    /// Cancelled when the hub stops.
    fn stopping(&self) -> &CancellationToken;
}

/// Looks up whether what a caller showed still holds.
pub type Holds = Arc<dyn Fn(&mut dyn Tx) -> Result<bool, StoreError> + Send + Sync>;

/// Who calls, and how it is looked up again whether he still may.
#[derive(Clone)]
pub struct Pass {
    /// Who.
    pub who: Principal,
    /// Whether what he showed still holds.
    pub holds: Holds,
}

/// One caller in one channel.
pub struct Channel<H> {
    hub: Arc<H>,
    pass: Pass,
    id: ConversationId,
}

impl<H> Clone for Channel<H> {
    fn clone(&self) -> Self {
        Self { hub: Arc::clone(&self.hub), pass: self.pass.clone(), id: self.id }
    }
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// What was asked for, for a model to read: what is wrong, and what to do.
    #[error("{0}")]
    Tool(String),
    /// The caller has no business here any more.
    #[error("you are not in this channel any more")]
    Gone,
    /// A key was used for something else.
    #[error("this idempotency_key was used for something else; use a new value for a new request")]
    Key,
    /// The store's trouble.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ConversationError> for Failure {
    fn from(error: ConversationError) -> Self {
        let sentence = match error {
            ConversationError::NotFound => return Self::Gone,
            ConversationError::Store(error) => return Self::Store(error),
            ConversationError::Archived => {
                "this channel is archived: it can be read, but nothing can be said or changed in it".into()
            }
            ConversationError::NoTarget => {
                "there is no such message in this channel; take event_id from chat_list_events".into()
            }
            ConversationError::NoHandle(handle) => {
                format!("nobody here is called {handle:?}; get_roster lists the handles")
            }
            ConversationError::Stale(version) => {
                format!(
                    "the document is at version {version} now; read it with artifact_read, merge, and edit that version"
                )
            }
            error @ (ConversationError::Forbidden
            | ConversationError::OwnerStays
            | ConversationError::HandleTaken(_)
            | ConversationError::Already(_)
            | ConversationError::Blocked
            | ConversationError::Quota(_)) => error.to_string(),
        };
        Self::Tool(sentence)
    }
}

impl Failure {
    /// For a model, which may try again.
    fn sentence(&self) -> String {
        match self {
            Self::Store(StoreError::Unexpected(_) | StoreError::Panicked) => {
                "the hub made a mistake; it is in its log".into()
            }
            Self::Store(error) => {
                format!("{error}; nothing was stored for certain, try again with the same idempotency_key")
            }
            other => other.to_string(),
        }
    }

    fn log(&self) {
        if let Self::Store(error @ (StoreError::Unexpected(_) | StoreError::Panicked)) = self {
            tracing::error!(error = error as &dyn std::error::Error, "an MCP request failed");
        }
    }
}

impl From<Failure> for RpcError {
    fn from(failure: Failure) -> Self {
        failure.log();
        let code = match failure {
            Failure::Tool(_) | Failure::Key => Self::INVALID_PARAMS,
            Failure::Gone | Failure::Store(_) => Self::INTERNAL,
        };
        Self::new(code, failure.sentence())
    }
}

impl<H: Hub> Channel<H> {
    /// The caller of this pass, in this channel.
    pub fn new(hub: Arc<H>, pass: Pass, id: ConversationId) -> Self {
        Self { hub, pass, id }
    }

    /// Where the caller's sessions are.
    fn place(&self) -> sessions::Place {
        (self.pass.who, self.id)
    }

    /// How many bytes a page of what is listed has at most: a model must be able to read it.
    fn page_bytes(&self) -> u64 {
        self.hub.page_bytes().min(PAGE_BYTES)
    }

    /// Something the caller does.
    fn act(&self) -> Act {
        Act {
            conversation: self.id,
            author: self.pass.who,
            event: EventId(self.hub.id()),
            trace: TraceId(self.hub.id()),
            now: self.hub.now(),
        }
    }

    /// Reads in one snapshot, as somebody who still may.
    fn read<T, F>(&self, work: F) -> impl Future<Output = Result<T, Failure>> + Send + use<T, F, H>
    where
        F: Fn(&mut dyn Tx) -> Result<T, Failure> + Send + 'static,
        T: Send + 'static,
    {
        let (store, pass) = (self.hub.store().clone(), self.pass.clone());
        async move {
            store
                .read(move |tx: &mut dyn Tx| if (pass.holds)(tx)? { work(tx) } else { Err(Failure::Gone) })
                .await
        }
    }

    /// The same in the caller's channel, which it has entered.
    async fn write<T, F>(&self, work: F) -> Result<T, Failure>
    where
        F: Fn(&mut dyn Tx) -> Result<T, Failure> + Send + 'static,
        T: Send + 'static,
    {
        let pass = self.pass.clone();
        let work = move |tx: &mut dyn Tx| if (pass.holds)(tx)? { work(tx) } else { Err(Failure::Gone) };
        self.hub.store().write(work).await
    }
}

impl<H: Hub> Service for Channel<H> {
    async fn enter(&self, session: Option<&str>) -> Result<bool, Refusal> {
        let (pass, id, session) = (self.pass.clone(), self.id, session.map(str::to_owned));
        let entered = self.hub.store().read::<_, StoreError, _>(move |tx| {
            if !(pass.holds)(tx)? {
                return Ok(Err(Refusal::Unauthorized));
            }
            match conversation::as_reader(tx, id, pass.who) {
                Ok(_) => {}
                Err(ConversationError::Store(error)) => return Err(error),
                Err(_) => return Ok(Err(Refusal::NotFound)),
            }
            Ok(Ok(match &session {
                Some(session) => sessions::get(tx, (pass.who, id), session)?.is_some(),
                None => false,
            }))
        });
        entered.await?
    }

    fn info(&self) -> Value {
        json!({"name": "chorus", "title": "Chorus", "version": env!("CARGO_PKG_VERSION")})
    }

    async fn about(&self) -> Result<About, RpcError> {
        let (id, who) = (self.id, self.pass.who);
        let (conversation, me) = self.read(move |tx| Ok(conversation::as_reader(tx, id, who)?)).await?;
        Ok(About {
            capabilities: json!({
                "tools": {},
                "prompts": {},
                "resources": {"subscribe": true, "listChanged": true},
            }),
            instructions: prompt::instructions(&conversation, &me),
        })
    }

    async fn begin(&self) -> Result<String, RpcError> {
        let (place, session) = (self.place(), self.hub.secret_id().simple().to_string());
        let new = session.clone();
        self.write(move |tx| Ok(sessions::begin(tx, place, &new)?)).await?;
        Ok(session)
    }

    async fn end(&self, session: &str) -> Result<(), RpcError> {
        let (place, id) = (self.place(), session.to_owned());
        self.write(move |tx| Ok(sessions::end(tx, place, &id)?)).await?;
        self.hub.open().end(session);
        Ok(())
    }

    async fn call(&self, ask: Ask, _: Outlet) -> Result<Value, RpcError> {
        match &*ask.method {
            "tools/list" => Ok(json!({"tools": tools::listed()})),
            "tools/call" => self.call_tool(&ask.params).await,
            "prompts/list" => Ok(prompt::list()),
            "prompts/get" => self.get_prompt(&ask.params).await,
            "resources/list" => self.list_resources(&ask.params).await,
            "resources/templates/list" => Ok(self.resource_templates()),
            "resources/read" => self.read_resource(&ask.params, ask.revision).await,
            "resources/subscribe" => self.subscribe(&ask, true).await,
            "resources/unsubscribe" => self.subscribe(&ask, false).await,
            method => Err(RpcError::method(method)),
        }
    }

    async fn notices(&self, wants: Wants) -> Result<Notices, RpcError> {
        self.open_notices(wants).await
    }

    fn ping(&self) -> Duration {
        self.hub.ping()
    }

    fn stopping(&self) -> CancellationToken {
        self.hub.stopping().clone()
    }
}

/// A text among the parameters of a method.
fn text<'p>(params: &'p Map<String, Value>, name: &str) -> Result<&'p str, RpcError> {
    let text = params.get(name).and_then(Value::as_str);
    text.ok_or_else(|| RpcError::params(format!("{name}: must be a text")))
}
