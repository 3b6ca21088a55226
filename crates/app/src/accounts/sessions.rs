//! Browsers that are signed in: beginning a session with a link, and ending one or all.

use super::DAY_MS;
use crate::app::AppState;
use crate::audit::{Deed, RequestContext};
use crate::caller::key_hash;
use crate::config::Signup;
use crate::error::Error;
use chorus_protocol::api::accounts::EndedSessions;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AccountId, CredentialId, TraceId};
use chorus_store::accounts::{self, CredentialKind, SignIn};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::directory::KeyHash;
use chorus_store::{StoreError, Tx};
use serde_json::json;
use std::sync::Arc;

/// How long a browser stays signed in.
const SESSION_LIFE_MS: i64 = 30 * DAY_MS;

/// A session that has begun.
pub struct Session {
    /// What the browser shows.
    pub secret: String,
    /// How long it lasts.
    pub seconds: i64,
}

/// Uses up a link, and begins a session of its account, which is made if need be. None if the link is over.
pub async fn begin_session(
    app: &AppState,
    context: RequestContext,
    link: &str,
) -> Result<Option<Session>, Error> {
    let (secret, now) = (app.secret(SecretKind::Session), app.now());
    let with = SignIn {
        link: key_hash(link),
        new: AccountId(app.environment.uuid_v7()),
        open: app.config.signup == Signup::Open,
        session: (CredentialId(app.environment.uuid_v7()), key_hash(&secret), now + SESSION_LIFE_MS),
        trace: TraceId(app.environment.uuid_v7()),
        now,
    };
    let hub = Arc::clone(app);
    let sign_in = move |tx: &mut dyn Tx| {
        let account = accounts::sign_in(tx, &with)?;
        // Its id is new, so it was made by this.
        if let Some(new) = account.as_ref().filter(|account| account.id == with.new) {
            let (actor, subject) = (Actor::Principal(new.id.into()), Subject::Account(new.id));
            context.record(tx, &hub, Deed::new(actor, Action::AccountMade, subject, json!({})))?;
        }
        Ok(account.is_some())
    };
    let begun = app.store.write::<_, Error, _>(sign_in).await?;
    Ok(begun.then_some(Session { secret, seconds: SESSION_LIFE_MS / 1000 }))
}

/// Ends a session, if it is one.
pub async fn end_session(app: &AppState, context: RequestContext, secret: &str) -> Result<(), Error> {
    let (hash, hub) = (key_hash(secret), Arc::clone(app));
    let end = move |tx: &mut dyn Tx| {
        if let Some(account) = accounts::end(tx, CredentialKind::Session, &hash)? {
            let (actor, subject) = (Actor::Principal(account.into()), Subject::Account(account));
            let deed = Deed::new(actor, Action::SessionsEnded, subject, json!({"ended": 1}));
            context.record(tx, &hub, deed)?;
        }
        Ok(())
    };
    app.store.write::<_, Error, _>(end).await
}

/// Ends all sessions of one's account, and its tokens if that is wanted, but what is shown in this very request.
pub async fn end_other_sessions(
    app: &AppState,
    context: RequestContext,
    account: AccountId,
    own: Option<KeyHash>,
    tokens: bool,
) -> Result<EndedSessions, Error> {
    let hub = Arc::clone(app);
    let end = move |tx: &mut dyn Tx| {
        let ended = end_sessions(tx, account, own.as_ref(), tokens)?;
        let (actor, subject) = (Actor::Principal(account.into()), Subject::Account(account));
        context.record(tx, &hub, Deed::new(actor, Action::SessionsEnded, subject, json!(ended)))?;
        Ok(ended)
    };
    app.store.write::<_, Error, _>(end).await
}

/// Ends an account's sessions and unused links, and its tokens if that is wanted, but this one.
pub fn end_sessions(
    tx: &mut dyn Tx,
    account: AccountId,
    but: Option<&KeyHash>,
    tokens: bool,
) -> Result<EndedSessions, StoreError> {
    let ended = accounts::end_sessions(tx, account, but)?;
    let tokens = tokens.then(|| accounts::revoke_tokens(tx, account, but)).transpose()?;
    Ok(EndedSessions { ended, tokens })
}
