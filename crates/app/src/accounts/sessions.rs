//! Browser sessions: beginning one with a sign-in link, and ending one or all.

use super::DAY_MS;
use super::review::review;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::Signup;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::key_hash;
use chorus_protocol::api::accounts::EndedSessions;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AccountId, CredentialId, TraceId};
use chorus_store::accounts::{self, CredentialKind, SignIn};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::directory::KeyHash;
use chorus_store::{StoreError, Tx};
use serde_json::{Value, json};
use std::sync::Arc;

/// The lifetime of a browser session.
const SESSION_LIFE_MS: i64 = 30 * DAY_MS;

/// A new session.
pub struct Session {
    /// The value of the session cookie.
    pub secret: String,
    /// The lifetime of the session.
    pub seconds: i64,
}

/// Redeems a sign-in link and begins a session of its account. The account is made if it does not exist.
/// Returns `None` if the link is no longer valid.
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
        // The account has the id that was generated above, so this call made it.
        if let Some(new) = account.as_ref().filter(|account| account.id == with.new) {
            let (actor, subject) = (Actor::Principal(new.id.into()), Subject::Account(new.id));
            context.record(tx, &hub, Deed::new(actor, Action::AccountMade, subject, json!({})))?;
        }
        Ok(account.is_some())
    };
    let begun = app.store.write::<_, Error, _>(sign_in).await?;
    Ok(begun.then_some(Session { secret, seconds: SESSION_LIFE_MS / 1000 }))
}

/// Ends the session with this secret, if there is one.
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

/// Ends all sessions of the caller's account, and its tokens if `tokens` is set, except the credential of this
/// request (`own`).
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
        context.record(tx, &hub, Deed::new(actor, Action::SessionsEnded, subject, counts(&ended)))?;
        Ok(ended)
    };
    app.store.write::<_, Error, _>(end).await
}

/// Returns the numbers of what ended, for the audit log.
pub(crate) fn counts(ended: &EndedSessions) -> Value {
    json!(EndedSessions { review: None, ..ended.clone() })
}

/// Ends an account's sessions and unused links, except the credential `but`. If `tokens` is set, its tokens end too, and so do the
/// rights that their thief may have given to others: allowances of its agents and keys of its wallets.
pub fn end_sessions(
    tx: &mut dyn Tx,
    account: AccountId,
    but: Option<&KeyHash>,
    tokens: bool,
) -> Result<EndedSessions, StoreError> {
    let oldest = accounts::oldest_credential(tx, account, but)?;
    let ended = accounts::end_sessions(tx, account, but)?;
    if !tokens {
        return Ok(EndedSessions { ended, tokens: None, review: None });
    }
    let tokens = accounts::revoke_tokens(tx, account, but)?;
    Ok(EndedSessions { ended, tokens: Some(tokens), review: review(tx, account, oldest)? })
}
