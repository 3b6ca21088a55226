//! Sign-in links: asking for one by mail, and the first link of a hub.
//!
//! No answer reveals whether an address has an account. Everything that depends on it happens after the
//! answer.

use super::{DAY_MS, MINUTE_MS, credential, mailable};
use chorus_environment::Environment;
use chorus_node::Error;
use chorus_node::caller::key_hash;
use chorus_node::limits::mail::Asker;
use chorus_node::transport::mailer::Letter;
use chorus_node::{App, AppState};
use chorus_node::{Config, Signup};
use chorus_protocol::api::accounts::{Accepted, Line, SignIn};
use chorus_protocol::credentials::SecretKind;
use chorus_store::accounts::{self, Account, CredentialKind, NewCredential};
use chorus_store::directory::KeyHash;
use chorus_store::{Store, StoreError, Tx, settings};
use std::cell::OnceCell;
use std::sync::Arc;

/// The lifetime of a link.
const LINK_LIFE_MS: i64 = 15 * MINUTE_MS;
/// The lifetime of the link that the hub prints at its first start.
const FIRST_LINK_LIFE_MS: i64 = DAY_MS;
/// The most valid links to one address. This is more than the mailer sends within the life of a link, so that
/// a person who reached the hourly limit of mails still has a link that works.
const MOST_LINKS: i64 = 10;

/// Mails a link to an address, if its reader has an account or may make one. The check runs after this
/// function has returned, so that the answer and its duration are the same for every address.
pub fn ask_for_link(app: &AppState, asker: Asker, new: SignIn) -> Result<Accepted, Error> {
    let email = mailable(new.email)?;
    let message = "if this address may sign in here, a link is on its way to it".to_owned();
    let Some(slot) = app.transport.mailer.room(&email, asker)? else { return Ok(Accepted { message }) };
    let code = new.sign_up_code.map(|Line(code)| key_hash(&code));
    let hub = Arc::clone(app);
    app.tasks.tracker.spawn(async move {
        match issue_link(&hub, email, code, asker).await {
            Ok(Some(letter)) => hub.transport.mailer.send(letter, slot).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a sign-in link was not issued");
            }
        }
    });
    Ok(Accepted { message })
}

/// Issues a link and returns the letter with it. Returns `None` if nobody may sign in with this address, or if
/// a limit is reached.
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
    // The mail is counted once, even if the transaction is retried.
    let (hub, counted) = (Arc::clone(app), OnceCell::new());
    let issue = move |tx: &mut dyn Tx| {
        let account = accounts::by_email(tx, &email)?;
        let Some(link) = admit(tx, &hub, account, &email, sign_up_code, &new)? else { return Ok(None) };
        let to = link.email.as_deref().unwrap_or(&email);
        if accounts::live_links(tx, to, now, LINK_LIFE_MS)? >= MOST_LINKS {
            return Ok(None);
        }
        // The mail is counted before the link is issued. Links that are never mailed would use up the limit of
        // the address.
        if !counted.get_or_init(|| hub.transport.mailer.count(to, asker)) {
            return Ok(None);
        }
        accounts::issue(tx, &link)?;
        Ok(link.email)
    };
    let to = app.store.write::<_, StoreError, _>(issue).await?;
    Ok(to.map(|to| letter(app, to, &token)))
}

/// Returns the link for an address, with its recipient and its sign-up code. Returns `None` if the address may
/// not sign in.
fn admit(
    tx: &mut dyn Tx,
    app: &App,
    account: Option<Account>,
    email: &str,
    sign_up_code: Option<KeyHash>,
    new: &NewCredential,
) -> Result<Option<NewCredential>, StoreError> {
    if let Some(account) = account {
        // The mail goes to the address as the account spells it.
        let link = NewCredential { account: Some(account.id), email: Some(account.email), ..new.clone() };
        return Ok(Some(link).filter(|_| account.disabled_at.is_none()));
    }
    let signup = app.config.signup;
    let code = match sign_up_code.filter(|_| signup == Signup::Invite) {
        Some(hash) => accounts::peek(tx, CredentialKind::SignUpCode, &hash, new.now)?,
        None => None,
    };
    // A code that was made for an address is valid for that address only.
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

/// Returns `true` if a link can be used. This does not redeem the link, so a program that follows the links of
/// a mail does no harm.
pub async fn is_link_good(app: &App, token: &str) -> Result<bool, Error> {
    let (hash, now) = (key_hash(token), app.now());
    let peek = move |tx: &mut dyn Tx| Ok(accounts::peek(tx, CredentialKind::Link, &hash, now)?.is_some());
    app.store.read::<_, Error, _>(peek).await
}

/// Issues a link that signs the operator in, at the first start on a database. Redeeming it makes the
/// operator's account, even if sign-up is closed. Returns `None` at later starts.
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
