//! Sign-up codes, for hubs where sign-up is by invitation: making, listing and revoking them.

use super::{DAY_MS, credential, mailable, room};
use chorus_node::Error;
use chorus_node::Signup;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::page::page;
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::api::accounts::{NewSignUpCode, OpenSignUpCode, SignUpCode, TokenPage};
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AccountId, CredentialId};
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::accounts::{self, CredentialKind, NewCredential};
use chorus_store::audit::{Action, Subject};
use serde_json::json;
use std::sync::Arc;

/// The default lifetime of a code, in days.
const DAYS: i64 = 7;

/// Makes a code that lets one person make an account, or one agent register. People and the operator may do
/// this. A code for a mail address works only for the person with that address.
pub async fn make_sign_up_code(
    app: &AppState,
    context: RequestContext,
    caller: Caller,
    new: NewSignUpCode,
    once: Once,
) -> Result<Done<SignUpCode>, Error> {
    let email = new.email.map(mailable).transpose()?;
    if app.config.signup == Signup::Closed {
        return Err(Error::new(
            Code::Conflict,
            "sign-up is closed on this hub: an invitation lets nobody in",
        ));
    }
    let account = maker(&caller)?;
    let code = app.secret(SecretKind::SignUpCode);
    let expires_at = app.now() + new.days.unwrap_or(DAYS) * DAY_MS;
    let new = NewCredential {
        account,
        email,
        expires_at: Some(expires_at),
        ..credential(&app.environment, CredentialKind::SignUpCode, &code)
    };
    let made = SignUpCode {
        id: new.id,
        url: format!("{}/signin?invitation={code}", app.config.public_url),
        code,
        expires_at: rfc3339(expires_at),
    };
    let hub = Arc::clone(app);
    let work = move |tx: &mut dyn Tx| {
        if let Some(account) = account {
            let full = "you have 100 open invitations; wait until some are used";
            room(tx, account, CredentialKind::SignUpCode, full)?;
        }
        accounts::issue(tx, &new)?;
        let (subject, detail) = (Subject::Credential(new.id), json!({"expires_at": made.expires_at}));
        context.record(tx, &hub, Deed::new(caller.actor(), Action::SignUpCodeMade, subject, detail))?;
        Ok(made.clone())
    };
    app.once(once, |_| Ok(()), work).await
}

/// Returns a page of the caller's unused codes, the oldest first, without their secrets. The operator sees
/// everybody's.
pub async fn list_sign_up_codes(
    app: &App,
    caller: &Caller,
    TokenPage { after, limit }: TokenPage,
) -> Result<Items<OpenSignUpCode>, Error> {
    let (of, now) = (maker(caller)?, app.now());
    let find = move |tx: &mut dyn Tx| Ok(accounts::sign_up_codes(tx, of, now, after, limit + 1)?);
    let found = app.store.read::<_, Error, _>(find).await?;
    let shown = found.into_iter().map(|code| OpenSignUpCode {
        id: code.id,
        email: code.email,
        created_at: rfc3339(code.created_at),
        expires_at: code.expires_at.map(rfc3339),
    });
    Ok(page(app, shown.collect(), limit, |code: &OpenSignUpCode| code.id.to_string()))
}

/// Revokes one of the caller's codes; the operator may revoke any. Does nothing if the code is already gone.
pub async fn revoke_sign_up_code(
    app: &AppState,
    context: RequestContext,
    caller: Caller,
    id: CredentialId,
) -> Result<(), Error> {
    let (of, hub) = (maker(&caller)?, Arc::clone(app));
    let revoke = move |tx: &mut dyn Tx| {
        if accounts::revoke_sign_up_code(tx, of, id)? {
            let subject = Subject::Credential(id);
            let deed = Deed::new(caller.actor(), Action::SignUpCodeRevoked, subject, json!({}));
            context.record(tx, &hub, deed)?;
        }
        Ok(())
    };
    app.store.write::<_, Error, _>(revoke).await
}

/// Returns the account whose codes a caller may make and see: a person's own, and `None` (all of them) for the
/// operator. Fails for any other caller.
fn maker(caller: &Caller) -> Result<Option<AccountId>, Error> {
    match caller {
        Caller::Operator => Ok(None),
        caller => caller.person().map(|person| Some(person.id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::WalletId;
    use uuid::Uuid;

    #[test]
    fn only_the_operator_sees_everybodys() {
        assert!(matches!(maker(&Caller::Operator), Ok(None)));
        for stranger in [Caller::Nobody, Caller::Owner(WalletId(Uuid::nil()))] {
            assert!(maker(&stranger).is_err());
        }
    }
}
