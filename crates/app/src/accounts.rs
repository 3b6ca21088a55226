//! What people do with their accounts, and how they come to have one: one file for each.
//!
//! Secrets are kept as hashes: whoever is given one is shown it once. *Sign-up code* is what the wire calls an invitation;
//! in code, an invitation is into a conversation.

mod agent_secrets;
mod make_account;
mod me;
mod own;
mod sessions;
mod sign_in_link;
mod sign_up_code;
mod tokens;

pub use agent_secrets::{reset_key, rotate_webhook_secret};
pub use make_account::make_account;
pub use me::me;
pub use own::{change_me, delete_me};
pub use sessions::{Session, begin_session, end_other_sessions, end_session, end_sessions};
pub use sign_in_link::{ask_for_link, first_link, is_link_good};
pub use sign_up_code::{list_sign_up_codes, make_sign_up_code, revoke_sign_up_code};
pub use tokens::{list_tokens, make_token, revoke_token};

use crate::caller::key_hash;
use crate::error::Error;
use crate::mail::check_address;
use chorus_environment::Environment;
use chorus_protocol::api::accounts::EmailAddress;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, CredentialId, TraceId};
use chorus_store::Tx;
use chorus_store::accounts::{self, CredentialKind, NewCredential};

const MINUTE_MS: i64 = 60 * 1000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// The most tokens, and the most open sign-up codes, of one account.
const MOST: i64 = 100;

/// A new credential without an owner and without an end.
fn credential(environment: &Environment, kind: CredentialKind, secret: &str) -> NewCredential {
    NewCredential {
        id: CredentialId(environment.uuid_v7()),
        hash: key_hash(secret),
        kind,
        account: None,
        email: None,
        label: None,
        sign_up_code: None,
        expires_at: None,
        trace: TraceId(environment.uuid_v7()),
        now: environment.now(),
    }
}

/// Whether an account may have one more of these.
fn room(tx: &mut dyn Tx, account: AccountId, kind: CredentialKind, full: &str) -> Result<(), Error> {
    // Of two at once the second counts the first.
    tx.lock(account.0)?;
    let there = accounts::list(tx, account, kind, None, MOST)?.len() as i64;
    if there < MOST { Ok(()) } else { Err(Error::new(Code::Conflict, full)) }
}

/// An address that a mail can be sent to, as far as can be told.
fn mailable(EmailAddress(email): EmailAddress) -> Result<String, Faults> {
    check_address(&email).map_err(|what| Faults::one("email", what))?;
    Ok(email)
}
