//! API tokens, with which programs act for an account: making, listing and revoking them.

use super::{credential, room};
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::idempotency::{Done, Once};
use chorus_node::page::page;
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::api::accounts::{IssuedToken, Line, NewToken, Token, TokenPage};
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AccountId, CredentialId};
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::accounts::{self, Credential, CredentialKind, NewCredential};
use chorus_store::audit::{Action, Actor, Subject};
use serde_json::json;
use std::sync::Arc;

/// Makes a token. Fails if the account has reached the limit of tokens.
pub async fn make_token(
    app: &AppState,
    context: RequestContext,
    account: AccountId,
    NewToken { label: Line(label) }: NewToken,
    once: Once,
) -> Result<Done<IssuedToken>, Error> {
    let token = app.secret(SecretKind::ApiToken);
    let new = token_of(app, account, &label, &token);
    let made = IssuedToken { id: new.id, token, label, created_at: rfc3339(new.now) };
    let hub = Arc::clone(app);
    let work = move |tx: &mut dyn Tx| {
        room(tx, account, CredentialKind::Token, "you have 100 tokens; revoke one that is not used")?;
        accounts::issue(tx, &new)?;
        let (actor, subject) = (Actor::Principal(account.into()), Subject::Credential(new.id));
        context.record(tx, &hub, Deed::new(actor, Action::TokenMade, subject, json!({})))?;
        Ok(made.clone())
    };
    app.once(once, |_| Ok(()), work).await
}

/// Returns the credential row of a token.
pub(super) fn token_of(app: &App, account: AccountId, label: &str, token: &str) -> NewCredential {
    NewCredential {
        account: Some(account),
        label: Some(label.to_owned()),
        ..credential(&app.environment, CredentialKind::Token, token)
    }
}

/// Returns a page of the account's tokens, the oldest first, without their secrets.
pub async fn list_tokens(
    app: &App,
    account: AccountId,
    TokenPage { after, limit }: TokenPage,
) -> Result<Items<Token>, Error> {
    let find =
        move |tx: &mut dyn Tx| Ok(accounts::list(tx, account, CredentialKind::Token, after, limit + 1)?);
    let found = app.store.read::<_, Error, _>(find).await?.into_iter().map(shown).collect();
    Ok(page(app, found, limit, |token: &Token| token.id.to_string()))
}

fn shown(token: Credential) -> Token {
    Token { id: token.id, label: token.label.unwrap_or_default(), created_at: rfc3339(token.created_at) }
}

/// Revokes one of the account's tokens. Does nothing if the token is already gone.
pub async fn revoke_token(
    app: &AppState,
    context: RequestContext,
    account: AccountId,
    id: CredentialId,
) -> Result<(), Error> {
    let hub = Arc::clone(app);
    let revoke = move |tx: &mut dyn Tx| {
        // Another account's token is treated like one that is gone, so that the answer does not reveal it.
        if accounts::revoke(tx, account, CredentialKind::Token, id)? {
            let (actor, subject) = (Actor::Principal(account.into()), Subject::Credential(id));
            context.record(tx, &hub, Deed::new(actor, Action::TokenRevoked, subject, json!({})))?;
        }
        Ok(())
    };
    app.store.write::<_, Error, _>(revoke).await
}
