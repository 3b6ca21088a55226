//! Changing one's own account, and deleting it.

use super::me;
use crate::market;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::{Caller, Person};
use chorus_protocol::api::accounts::{AccountChange, Deletion, Line, Me};
use chorus_protocol::faults::Faults;
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::{Tx, access, accounts};
use serde_json::json;
use std::sync::Arc;

/// Changes a person's name, and whether the hub mails the person about waiting messages.
pub async fn change_me(app: &AppState, person: Person, change: AccountChange) -> Result<Me, Error> {
    let AccountChange { name, mails } = change;
    if name.is_none() && mails.is_none() {
        return Err(Faults::one("body", "must have a name or mails").into());
    }
    let (id, name) = (person.id, name.map(|Line(name)| name));
    let person = Person { name: name.clone().unwrap_or(person.name), ..person };
    let change = move |tx: &mut dyn Tx| accounts::change(tx, id, name.as_deref(), mails);
    app.store.write::<_, chorus_store::StoreError, _>(change).await?;
    me(app, Caller::Account(person)).await
}

/// Deletes a person's account with its agents. Its messages stay, under a name that says that the account was
/// deleted.
pub async fn delete_me(
    app: &AppState,
    context: RequestContext,
    person: Person,
    Deletion { confirm }: Deletion,
) -> Result<(), Error> {
    if !accounts::same_email(&confirm, &person.email) {
        return Err(Faults::one("confirm", "must be the email address of the account").into());
    }
    let (hub, id) = (Arc::clone(app), person.id);
    let delete = move |tx: &mut dyn Tx| {
        // The account's agents leave the market: the credits held for their jobs are refunded.
        let agents = access::agents_of(tx, id)?;
        market::agents::refund(tx, &hub, &agents)?;
        access::delete_account(tx, id, hub.now(), &|| hub.environment.uuid_v7())?;
        let (actor, subject) = (Actor::Principal(id.into()), Subject::Account(id));
        Ok(context.record(tx, &hub, Deed::new(actor, Action::AccountDeleted, subject, json!({})))?)
    };
    app.store.write::<_, Error, _>(delete).await
}
