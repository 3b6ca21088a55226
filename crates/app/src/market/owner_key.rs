//! Replaces an owner's key after a leak or a loss, and undoes what a thief set with the old one.

use super::who;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::{Caller, key_hash};
use chorus_node::idempotency::{Done, Once};
use chorus_node::{App, AppState};
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::market::{DetachedAgentView, NewOwnerKey, OwnerDetachReport, OwnerKeyReset};
use chorus_store::Tx;
use chorus_store::audit::{Action, Subject};
use chorus_store::market::wallets::{self, Wallet};
use chorus_store::market::withdrawal;
use serde_json::json;
use std::sync::Arc;

/// The most agents that one request detaches.
const MOST_DETACHED: i64 = 100;

/// Gives an owner a new key and revokes the old one at once. The holder of the old key, the wallet's account
/// and the operator may do this. Everyone else gets the error for an unknown owner.
pub async fn reset(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    owner: String,
    options: OwnerKeyReset,
    once: Once,
) -> Result<Done<NewOwnerKey>, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let (hub, owner_key) = (Arc::clone(app), app.secret(SecretKind::OwnerKey));
    let (who, whose) = (caller.clone(), owner.clone());
    let may = move |tx: &mut dyn Tx| resettable(tx, &who, &whose).map(drop);
    let work = move |tx: &mut dyn Tx| {
        let wallet = resettable(tx, &caller, &owner)?;
        // The lock orders this against jobs that the wallet pays for.
        wallets::hold(tx, [wallet.id])?;
        let is_proven = matches!(caller, Caller::Account(_) | Caller::Operator);
        wallets::reset_key(tx, wallet.id, &key_hash(&owner_key), is_proven)?;
        let detached = options.detach.then(|| detach(tx, &hub, &wallet)).transpose()?;
        let detail = json!({"owner": wallet.owner, "detach": options.detach});
        let deed = Deed::new(caller.actor(), Action::OwnerKeyReset, Subject::Hub, detail);
        context.record(tx, &hub, deed)?;
        Ok(NewOwnerKey { owner: wallet.owner, owner_key: owner_key.clone(), detached })
    };
    app.once(once, may, work).await
}

/// Detaches the agents of a wallet that belong to no account.
fn detach(tx: &mut dyn Tx, app: &App, wallet: &Wallet) -> Result<OwnerDetachReport, Error> {
    let (agents, more) = withdrawal::withdraw_wallet(tx, wallet.id, MOST_DETACHED, app.now())?;
    let agents = agents.into_iter();
    let shown =
        agents.map(|agent| DetachedAgentView { agent_id: agent.id, address: app.address(&agent.name) });
    Ok(OwnerDetachReport { agents: shown.collect(), more })
}

/// Returns the wallet of this owner, if the caller may replace its key.
fn resettable(tx: &mut dyn Tx, caller: &Caller, owner: &str) -> Result<Wallet, Error> {
    let found = if owner.contains('\0') { None } else { wallets::by_owner(tx, owner)? };
    let wallet = found.filter(|wallet| *caller == Caller::Operator || caller.owns(wallet));
    wallet.ok_or_else(|| Error::new(Code::NotFound, "there is no such owner of yours"))
}
