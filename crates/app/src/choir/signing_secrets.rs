//! Signing secrets of a Score. A secret is shown once, derived rather than stored, and revoked by its public
//! prefix.

use super::{Change, own, own_to_change, record, score_id};
use chorus_choir::signing::prefix;
use chorus_node::Error;
use chorus_node::audit::RequestContext;
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::{App, AppState};
use chorus_protocol::api::scores::SecretView;
use chorus_protocol::code::Code;
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::audit::Action;
use chorus_store::choir::{self, SecretRow};
use serde_json::json;
use std::sync::Arc;

/// The most valid secrets of a Score, with enough room to rotate each.
const MOST: usize = 20;

/// Returns the address for signed evidence. All secrets of a Score share it.
pub(crate) fn ingest_url(app: &App, ingest: &str) -> String {
    format!("{}/api/public/evidence/{ingest}", app.config.public_url)
}

pub(super) fn shown(row: SecretRow) -> SecretView {
    SecretView { secret: None, prefix: row.prefix, ingest_url: None, created_at: rfc3339(row.created_at) }
}

/// Makes a secret. It is shown only in this answer.
pub async fn make(
    app: &AppState,
    context: RequestContext,
    caller: Caller,
    id: &str,
    once: Once,
) -> Result<Done<SecretView>, Error> {
    super::may_have(&caller)?;
    let (id, secret_id, now) = (score_id(id)?, app.environment.uuid_v4(), app.now());
    let secret = app.config.master_key.signing_secret(id, secret_id);
    let (hub, by) = (Arc::clone(app), caller.clone());
    let work = move |tx: &mut dyn Tx| {
        let row = own_to_change(tx, &caller, id)?;
        let prefix = prefix(&secret).to_owned();
        let held = choir::secrets(tx, id)?;
        if held.len() >= MOST {
            let what = format_args!("this Score has {MOST} signing secrets; revoke one that is not used");
            return Err(Error::new(Code::Conflict, what));
        }
        let new = SecretRow { id: secret_id, prefix, created_at: now };
        choir::insert_secret(tx, id, &new)?;
        let detail = json!({"prefix": new.prefix});
        let made = Change { by: &caller, action: Action::SigningSecretMade, detail };
        record(tx, &hub, &context, &row, made)?;
        let ingest_url = Some(ingest_url(&hub, &row.ingest));
        Ok(SecretView { secret: Some(secret.clone()), ingest_url, ..shown(new) })
    };
    app.once(once, move |tx| own(tx, &by, id).map(drop), work).await
}

/// Revokes a secret. Does nothing if it is already gone.
pub async fn revoke(
    app: &AppState,
    context: RequestContext,
    caller: Caller,
    id: &str,
    prefix: String,
) -> Result<(), Error> {
    super::may_have(&caller)?;
    let (id, now, hub) = (score_id(id)?, app.now(), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        let row = own(tx, &caller, id)?;
        if choir::revoke_secret(tx, id, &prefix, now)? {
            let detail = json!({"prefix": prefix});
            let revoked = Change { by: &caller, action: Action::SigningSecretRevoked, detail };
            record(tx, &hub, &context, &row, revoked)?;
        }
        Ok(())
    };
    app.store.write::<_, Error, _>(work).await
}
