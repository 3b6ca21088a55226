//! Replacing the key of an owner: one that leaked or was lost must not be the last word on a wallet.

use super::who;
use crate::app::AppState;
use crate::audit::{Deed, RequestContext};
use crate::caller::{Caller, key_hash};
use crate::error::Error;
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::market::NewOwnerKey;
use chorus_store::Tx;
use chorus_store::audit::{Action, Subject};
use chorus_store::market::wallets;
use serde_json::json;
use std::sync::Arc;

/// Gives an owner a new key; the old one stops working at once. Whoever has the old one may, the account that the wallet belongs to,
/// and the operator. To everybody else every owner is unknown.
pub async fn reset(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    owner: String,
) -> Result<NewOwnerKey, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let (hub, owner_key) = (Arc::clone(app), app.secret(SecretKind::OwnerKey));
    let work = move |tx: &mut dyn Tx| {
        let found = if owner.contains('\0') { None } else { wallets::by_owner(tx, &owner)? };
        let wallet = found.filter(|wallet| caller == Caller::Operator || who::owns(&caller, wallet));
        let wallet = wallet.ok_or_else(|| Error::new(Code::NotFound, "there is no such owner of yours"))?;
        wallets::reset_key(tx, wallet.id, &key_hash(&owner_key))?;
        let detail = json!({"owner": wallet.owner});
        let deed = Deed::new(caller.actor(), Action::OwnerKeyReset, Subject::Hub, detail);
        context.record(tx, &hub, deed)?;
        Ok(NewOwnerKey { owner: wallet.owner, owner_key: owner_key.clone() })
    };
    app.store.write::<_, Error, _>(work).await
}
