//! Where an act came from, and writing it down in the transaction of the act.

use crate::app::App;
use crate::mail_limits::Asker;
use crate::rate::rate_key;
use chorus_protocol::ids::AuditId;
use chorus_store::audit::{self, Action, Actor, Entry, Subject};
use chorus_store::{StoreError, Tx};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;

/// Which request, and from where.
#[derive(Debug, Clone)]
pub struct RequestContext {
    pub request_id: Arc<str>,
    pub client: IpAddr,
}

impl RequestContext {
    /// For whom mails count that it causes.
    pub fn asker(&self) -> Asker {
        Asker::Source(rate_key(self.client))
    }

    /// Records what is done by this request, in its transaction.
    pub fn record(&self, tx: &mut dyn Tx, app: &App, deed: Deed) -> Result<(), StoreError> {
        let request_id = self.request_id.as_ref().to_owned();
        audit::record(tx, &Entry { request_id, client: self.client.to_string(), ..entry(app, deed) })
    }
}

/// Who did what to whom, as the audit log keeps it.
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

/// Records what a member does in a conversation, whatever door it came by, or what becomes of that by itself: no request is told.
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
        client: String::new(),
    }
}
