//! Finding out who calls: from what a request shows to a [`Caller`].

use crate::app::App;
use crate::caches::callers::Recalled;
use crate::caller::{Caller, Identity, Person, Scheme, Shown, disabled};
use crate::error::Error;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, Principal};
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::directory::{self, KeyHash};
use chorus_store::market::wallets;
use chorus_store::{StoreError, Tx, choir, inboxes};
use subtle::ConstantTimeEq;

/// A sign of life is written so often at most.
const SEEN_EVERY_MS: i64 = 60_000;

/// Returns whether this is the operator's key.
pub fn is_operator(app: &App, key: &KeyHash) -> bool {
    key.as_slice().ct_eq(app.config.operator_key.as_slice()).into()
}

/// Returns the cached caller of a credential.
pub fn recall(app: &App, shown: &Shown) -> Recalled {
    if !shown.is_session() && is_operator(app, &shown.hash) {
        return Recalled::Fresh(Caller::Operator);
    }
    app.caches.callers.recall(shown, app.elapsed())
}

/// Looks up the caller of a credential in the store.
pub async fn look_up(app: &App, shown: &Shown) -> Result<Caller, Error> {
    let (begun, now) = (app.caches.callers.begin(app.elapsed()), app.now());
    let Shown { hash, scheme } = *shown;
    let find = move |tx: &mut dyn Tx| {
        let kind = match scheme {
            Scheme::Bearer => CredentialKind::Token,
            Scheme::Session => CredentialKind::Session,
        };
        if scheme == Scheme::Bearer
            && let Some(agent) = directory::by_key(tx, &hash)?
        {
            if agent.disabled_at.is_some() {
                return Err(disabled("agent"));
            }
            // Either way: the clock may have been set back.
            let is_news = (now - agent.seen_at).abs() >= SEEN_EVERY_MS;
            return Ok(Some((Caller::Agent(Identity { id: agent.id, name: agent.name }), is_news)));
        }
        if scheme == Scheme::Bearer
            && let Some(wallet) = wallets::by_key(tx, &hash)?
        {
            if wallets::is_kept_out(tx, wallet.id)? {
                return Err(disabled("owner"));
            }
            return Ok(Some((Caller::Owner(wallet.id), false)));
        }
        let account = accounts::by_credential(tx, kind, &hash, now)?;
        if account.as_ref().is_some_and(|account| account.disabled_at.is_some()) {
            return Err(disabled("account"));
        }
        if let Some(account) = account {
            let is_news = (now - account.seen_at).abs() >= SEEN_EVERY_MS;
            let person = Person { id: account.id, name: account.name, email: account.email };
            return Ok(Some((Caller::Account(person), is_news)));
        }
        let score = if scheme == Scheme::Bearer { choir::by_edit_link(tx, &hash)? } else { None };
        Ok(score.map(|score| (Caller::EditLink(score), false)))
    };
    let found = app.store.authenticate::<_, Error, _>(find).await?;
    let (caller, is_news) = found.ok_or_else(|| Error::unauthorized("this key is not valid (any more)"))?;
    if let Some(who) = caller.id()
        && is_news
    {
        note_seen(app, who, now);
    }
    app.caches.callers.remember(&begun, shown, caller.clone());
    Ok(caller)
}

/// The person whose browser shows this, for pages that everybody may see.
pub async fn of_browser(app: &App, shown: &Shown) -> Result<Option<Person>, Error> {
    let caller = match recall(app, shown) {
        Recalled::Fresh(caller) => caller,
        Recalled::Stale | Recalled::Never => match look_up(app, shown).await {
            Err(error) if matches!(error.code, Code::Unauthorized | Code::Forbidden) => return Ok(None),
            found => found?,
        },
    };
    Ok(caller.person().ok().cloned())
}

/// Returns whether this is the valid key of this agent.
pub async fn is_key_of(app: &App, key: KeyHash, agent: AgentId) -> Result<bool, StoreError> {
    let find = move |tx: &mut dyn Tx| directory::by_key(tx, &key);
    let found = app.store.read::<_, StoreError, _>(find).await?;
    Ok(found.is_some_and(|found| found.id == agent && found.disabled_at.is_none()))
}

/// The status of the key that opened a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The session may continue.
    Good,
    /// Wait: its agent is paused.
    Paused,
    /// The session must end.
    Over,
}

/// Returns the status of an agent's session that was opened with this key.
pub async fn standing(app: &App, key: KeyHash, agent: AgentId) -> Result<Standing, StoreError> {
    let find = move |tx: &mut dyn Tx| directory::by_key(tx, &key);
    let found = app.store.read::<_, StoreError, _>(find).await?;
    Ok(match found.filter(|found| found.id == agent && found.disabled_at.is_none()) {
        None => Standing::Over,
        Some(found) if found.paused_at.is_some() => Standing::Paused,
        Some(_) => Standing::Good,
    })
}

/// Returns an agent's identity and key hash, unless it is disabled.
pub async fn holder(app: &App, agent: AgentId) -> Result<Option<(Identity, KeyHash)>, Error> {
    let find = move |tx: &mut dyn Tx| {
        let found = directory::by_id(tx, agent)?.filter(|found| found.disabled_at.is_none());
        let key = directory::key_of(tx, agent)?;
        Ok(found.map(|found| Identity { id: agent, name: found.name }).zip(key))
    };
    Ok(app.store.read::<_, StoreError, _>(find).await?)
}

/// Records a sign of life in the background. The next one makes up for a lost one.
fn note_seen(app: &App, who: Principal, now: i64) {
    let store = app.store.clone();
    app.tasks.tracker.spawn(async move {
        let seen = store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| match who {
            Principal::Agent(agent) => inboxes::seen(tx, agent, now),
            Principal::Account(account) => accounts::seen(tx, account, now),
        });
        if let Err(error) = seen.await {
            tracing::debug!(error = &error as &dyn std::error::Error, "a sign of life was not noted");
        }
    });
}
