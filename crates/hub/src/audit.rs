//! Where an act came from, and writing it down in the transaction of the act.

use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::mail_limits::Asker;
use crate::rate::rate_key;
use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use chorus_protocol::ids::AuditId;
use chorus_store::audit::{self, Action, Actor, Entry, Subject};
use chorus_store::{StoreError, Tx};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;

/// Which request, and from where; put into each request by the frame.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    pub(crate) request_id: Arc<str>,
    pub(crate) client: IpAddr,
}

impl<S: Sync> FromRequestParts<S> for RequestContext {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::of(&parts.extensions)
    }
}

impl RequestContext {
    pub(crate) fn of(extensions: &Extensions) -> Result<Self, ApiError> {
        extensions.get().cloned().ok_or_else(|| ApiError::internal("a request without an context"))
    }

    /// For whom mails count that it causes.
    pub(crate) fn asker(&self) -> Asker {
        Asker::Source(rate_key(self.client))
    }

    /// Records what a caller does in this transaction. `detail` is an object of names and numbers, never a secret.
    pub(crate) fn record(
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
    pub(crate) fn record_as(
        &self,
        tx: &mut dyn Tx,
        app: &App,
        actor: Actor,
        action: Action,
        subject: Subject,
        detail: Value,
    ) -> Result<(), StoreError> {
        let id = AuditId(app.sources.uuid_v7());
        let entry = Entry {
            id,
            at: audit::time_of(id),
            actor,
            action,
            subject,
            detail: detail.to_string(),
            request_id: self.request_id.as_ref().to_owned(),
            client: self.client.to_string(),
        };
        audit::record(tx, &entry)
    }
}
