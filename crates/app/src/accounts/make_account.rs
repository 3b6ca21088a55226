//! The operator's way to make an account.

use super::mailable;
use super::tokens::token_of;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::idempotency::{Done, Once};
use chorus_protocol::api::accounts::{Line, MadeAccount, NewAccount};
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AccountId, TraceId};
use chorus_store::Tx;
use chorus_store::accounts::{self, Account};
use chorus_store::audit::{Action, Actor, Subject};
use serde_json::json;
use std::sync::Arc;

/// Makes an account and a token for it, as the operator. This works even if sign-up is closed.
pub async fn make_account(
    app: &AppState,
    context: RequestContext,
    NewAccount { email, name }: NewAccount,
    once: Once,
) -> Result<Done<MadeAccount>, Error> {
    let email = mailable(email)?;
    let name = name.map_or_else(|| accounts::name_of(&email), |Line(name)| name);
    let id = AccountId(app.environment.uuid_v7());
    let api_token = app.secret(SecretKind::ApiToken);
    let token = token_of(app, id, "made with the account", &api_token);
    let made = MadeAccount { account_id: id, email: email.clone(), name: name.clone(), api_token };
    let account = Account { id, email, name, created_at: app.now(), disabled_at: None, seen_at: 0 };
    let (hub, trace) = (Arc::clone(app), TraceId(app.environment.uuid_v7()));
    let work = move |tx: &mut dyn Tx| {
        if !accounts::insert(tx, &account, trace)? {
            return Err(Error::new(Code::Conflict, "this address has an account already"));
        }
        accounts::issue(tx, &token)?;
        let deed = Deed::new(Actor::Operator, Action::AccountMade, Subject::Account(id), json!({}));
        context.record(tx, &hub, deed)?;
        Ok(made.clone())
    };
    app.once(once, |_| Ok(()), work).await
}
