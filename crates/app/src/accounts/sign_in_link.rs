//! Links that sign somebody in: asking for one by mail, and the first one of a hub.
//!
//! Nothing here tells whether an address has an account: what depends on that is done after the answer.

use super::{DAY_MS, MINUTE_MS, credential, mailable};
use crate::app::{App, AppState};
use crate::caller::key_hash;
use crate::config::{Config, Signup};
use crate::error::Error;
use crate::mail_limits::Asker;
use crate::mailer::Letter;
use chorus_environment::Environment;
use chorus_protocol::api::accounts::{Accepted, Line, SignIn};
use chorus_protocol::credentials::SecretKind;
use chorus_store::accounts::{self, Account, CredentialKind, NewCredential};
use chorus_store::directory::KeyHash;
use chorus_store::{Store, StoreError, Tx, settings};
use std::cell::OnceCell;
use std::sync::Arc;

/// How long a link can be used.
const LINK_LIFE_MS: i64 = 15 * MINUTE_MS;
/// How long the link can be used that is printed when the hub starts for the first time.
const FIRST_LINK_LIFE_MS: i64 = DAY_MS;
/// How many links to one address can be used at a time. More than are mailed within their life: who is mailed no more for
/// an hour's sake has one that works.
const MOST_LINKS: i64 = 10;

/// Sends a link to an address, if whoever reads its mail has an account or may have one. That is found out after this
/// has returned, so that the answer is the same, and takes the same time, for every address.
pub fn ask_for_link(app: &AppState, asker: Asker, new: SignIn) -> Result<Accepted, Error> {
    let email = mailable(new.email)?;
    let message = "if this address may sign in here, a link is on its way to it".to_owned();
    let Some(slot) = app.mailer.room(&email, asker)? else { return Ok(Accepted { message }) };
    let code = new.sign_up_code.map(|Line(code)| key_hash(&code));
    let hub = Arc::clone(app);
    app.tasks.spawn(async move {
        match issue_link(&hub, email, code, asker).await {
            Ok(Some(letter)) => hub.mailer.send(letter, slot).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a sign-in link was not issued");
            }
        }
    });
    Ok(Accepted { message })
}

/// A link in a letter, unless nobody may sign in with this address or it has enough of them.
async fn issue_link(
    app: &AppState,
    email: String,
    sign_up_code: Option<KeyHash>,
    asker: Asker,
) -> Result<Option<Letter>, StoreError> {
    let now = app.now();
    let token = app.secret(SecretKind::MagicLink);
    let new = NewCredential {
        expires_at: Some(now + LINK_LIFE_MS),
        ..credential(&app.environment, CredentialKind::Link, &token)
    };
    // Once, however often this is tried.
    let (hub, counted) = (Arc::clone(app), OnceCell::new());
    let issue = move |tx: &mut dyn Tx| {
        let account = accounts::by_email(tx, &email)?;
        let Some(link) = admit(tx, &hub, account, &email, sign_up_code, &new)? else { return Ok(None) };
        let to = link.email.as_deref().unwrap_or(&email);
        if accounts::live_links(tx, to, now, LINK_LIFE_MS)? >= MOST_LINKS {
            return Ok(None);
        }
        // Before there is a link: those that nobody gets would keep others from being made.
        if !counted.get_or_init(|| hub.mailer.count(to, asker)) {
            return Ok(None);
        }
        accounts::issue(tx, &link)?;
        Ok(link.email)
    };
    let to = app.store.write::<_, StoreError, _>(issue).await?;
    Ok(to.map(|to| letter(app, to, &token)))
}

/// The link for an address, if it may have one: to whom it goes, and what lets a new account be made.
fn admit(
    tx: &mut dyn Tx,
    app: &App,
    account: Option<Account>,
    email: &str,
    sign_up_code: Option<KeyHash>,
    new: &NewCredential,
) -> Result<Option<NewCredential>, StoreError> {
    if let Some(account) = account {
        // To the address as the account has it, however it was spelled now.
        let link = NewCredential { account: Some(account.id), email: Some(account.email), ..new.clone() };
        return Ok(Some(link).filter(|_| account.disabled_at.is_none()));
    }
    let signup = app.config.signup;
    let code = match sign_up_code.filter(|_| signup == Signup::Invite) {
        Some(hash) => accounts::peek(tx, CredentialKind::SignUpCode, &hash, new.now)?,
        None => None,
    };
    // A code that was sent to somebody is not for others.
    let code = code.filter(|it| it.email.as_deref().is_none_or(|to| accounts::same_email(to, email)));
    let may = signup == Signup::Open || code.is_some();
    let sign_up_code = code.map(|code| code.id);
    Ok(may.then(|| NewCredential { email: Some(email.to_owned()), sign_up_code, ..new.clone() }))
}

fn letter(app: &App, to: String, token: &str) -> Letter {
    let Config { host_name, public_url, .. } = &app.config;
    let text = format!(
        "Somebody, most likely you, asked to sign in to the Chorus hub at {host_name}.\n\n\
         This link signs you in, once, within 15 minutes:\n\n\
         {public_url}/signin/{token}\n\n\
         If it was not you, do nothing: without the link nobody gets in.\n"
    );
    Letter { to, subject: format!("Sign in to Chorus at {host_name}"), text }
}

/// Whether a link can be used. That does not use it up, so that a program which looks at the links in a mail does no harm.
pub async fn is_link_good(app: &App, token: &str) -> Result<bool, Error> {
    let (hash, now) = (key_hash(token), app.now());
    let peek = move |tx: &mut dyn Tx| Ok(accounts::peek(tx, CredentialKind::Link, &hash, now)?.is_some());
    app.store.read::<_, Error, _>(peek).await
}

/// A link that signs the operator in, at the first start on a database. Its account is made by its use, whoever else
/// may have one.
pub async fn first_link(
    store: &Store,
    config: &Config,
    environment: &Environment,
) -> Result<Option<String>, StoreError> {
    let token = SecretKind::MagicLink.secret(&environment.random_hex());
    let host = config.host_name.split(':').next().unwrap_or_default();
    let expires_at = Some(environment.now() + FIRST_LINK_LIFE_MS);
    let code = NewCredential {
        expires_at,
        ..credential(
            environment,
            CredentialKind::SignUpCode,
            &SecretKind::SignUpCode.secret(&environment.random_hex()),
        )
    };
    let link = NewCredential {
        expires_at,
        email: Some(format!("operator@{host}")),
        sign_up_code: Some(code.id),
        ..credential(environment, CredentialKind::Link, &token)
    };
    let issue = move |tx: &mut dyn Tx| {
        let (_, first) = settings::set_once(tx, "operator_link", "issued")?;
        if first {
            accounts::issue(tx, &code)?;
            accounts::issue(tx, &link)?;
        }
        Ok(first)
    };
    let first = store.write::<_, StoreError, _>(issue).await?;
    Ok(first.then(|| format!("{}/signin/{token}", config.public_url)))
}
