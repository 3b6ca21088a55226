//! The origin of an act, and its entry in the audit log within the transaction of the act.

use crate::app::App;
use crate::limits::mail::Asker;
use crate::source::{Source, rate_key};
use chorus_protocol::ids::{AgentId, AuditId};
use chorus_store::audit::{self, Action, Actor, Entry, Subject};
use chorus_store::{StoreError, Tx, directory};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;

/// The request that caused an act, with its source.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// The hub's own id of the request.
    pub request_id: Arc<str>,
    /// The id that the client gave it, if that is short and harmless. Anybody can write anything here.
    pub client_request_id: Option<Arc<str>>,
    /// The address it came from.
    pub client: IpAddr,
}

impl RequestContext {
    /// The source that limits count.
    pub fn source(&self) -> Source {
        rate_key(self.client)
    }

    /// Returns the asker for whom mails caused by this request count.
    pub fn asker(&self) -> Asker {
        Asker::Source(self.source())
    }

    /// Keeps the mark of the source that registered an agent by this request.
    pub fn keep_source(&self, tx: &mut dyn Tx, app: &App, agent: AgentId) -> Result<(), StoreError> {
        directory::keep_source(tx, agent, &app.config.master_key.source_mark(self.source()))
    }

    /// Records an act of this request, in its transaction.
    pub fn record(&self, tx: &mut dyn Tx, app: &App, deed: Deed) -> Result<(), StoreError> {
        let entry = Entry {
            request_id: self.request_id.as_ref().to_owned(),
            client_request_id: self.client_request_id.as_deref().unwrap_or_default().to_owned(),
            client: self.client.to_string(),
            ..entry(app, deed)
        };
        audit::record(tx, &entry)
    }
}

/// An act for the audit log: the actor, the action and the subject.
#[derive(Debug)]
pub struct Deed {
    actor: Actor,
    action: Action,
    subject: Subject,
    detail: Value,
}

impl Deed {
    /// `detail` is an object of names and numbers, never a secret.
    pub fn new(actor: Actor, action: Action, subject: Subject, detail: Value) -> Self {
        Self { actor, action, subject, detail }
    }
}

/// Records an act of a member in a conversation, or its automatic consequence, without a request.
pub fn note(tx: &mut dyn Tx, app: &App, deed: Deed) -> Result<(), StoreError> {
    audit::record(tx, &entry(app, deed))
}

fn entry(app: &App, deed: Deed) -> Entry {
    let Deed { actor, action, subject, detail } = deed;
    let id = AuditId(app.environment.uuid_v7());
    Entry {
        id,
        at: audit::time_of(id.0),
        actor,
        action,
        subject,
        detail: detail.to_string(),
        request_id: String::new(),
        client_request_id: String::new(),
        client: String::new(),
    }
}
