//! Where an act came from, and writing it down in the transaction of the act.

use crate::app::App;
use crate::caller::Caller;
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

    /// Records what a caller does in this transaction. `detail` is an object of names and numbers, never a secret.
    pub fn record(
        &self,
        tx: &mut dyn Tx,
        app: &App,
        caller: &Caller,
        action: Action,
        subject: Subject,
        detail: Value,
    ) -> Result<(), StoreError> {
        self.record_as(tx, app, caller.actor(), action, subject, detail)
    }

    /// The same for somebody who is known by something else than a key.
    pub fn record_as(
        &self,
        tx: &mut dyn Tx,
        app: &App,
        actor: Actor,
        action: Action,
        subject: Subject,
        detail: Value,
    ) -> Result<(), StoreError> {
        let entry = Entry {
            request_id: self.request_id.as_ref().to_owned(),
            client: self.client.to_string(),
            ..entry(app, actor, action, subject, &detail)
        };
        audit::record(tx, &entry)
    }
}

/// Records what a member does in a conversation, whatever door it came by, or what becomes of that by itself: no request is told.
pub fn note(
    tx: &mut dyn Tx,
    app: &App,
    actor: Actor,
    action: Action,
    subject: Subject,
    detail: &Value,
) -> Result<(), StoreError> {
    audit::record(tx, &entry(app, actor, action, subject, detail))
}

fn entry(app: &App, actor: Actor, action: Action, subject: Subject, detail: &Value) -> Entry {
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
