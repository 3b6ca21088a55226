//! Accounts and their credentials: sign-up, sign-in links, sessions and tokens, one file per act.
//!
//! The hub stores secrets as hashes, and shows each secret once, to the caller it was issued to. The wire
//! calls a *sign-up code* an invitation; in code, an invitation is always one into a conversation.

mod agent_secrets;
mod make_account;
mod me;
mod own;
mod review;
mod sessions;
mod sign_in_link;
mod sign_up_code;
mod tokens;

pub use agent_secrets::{reset_key, rotate_webhook_secret};
pub use make_account::make_account;
pub use me::me;
pub use own::{change_me, delete_me};
pub(crate) use sessions::counts;
pub use sessions::{Session, begin_session, end_other_sessions, end_session, end_sessions};
pub use sign_in_link::{ask_for_link, first_link, is_link_good};
pub use sign_up_code::{list_sign_up_codes, make_sign_up_code, revoke_sign_up_code};
pub use tokens::{list_tokens, make_token, revoke_token};

use chorus_environment::Environment;
use chorus_node::Error;
use chorus_node::caller::key_hash;
use chorus_node::config::mail::check_address;
use chorus_protocol::api::accounts::EmailAddress;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, CredentialId, TraceId};
use chorus_store::Tx;
use chorus_store::accounts::{self, CredentialKind, NewCredential};

const MINUTE_MS: i64 = 60 * 1000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// The most tokens, and the most open sign-up codes, that one account may have.
const MOST: i64 = 100;

/// Returns a new credential without an owner and without an expiry.
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

/// Checks that an account may have one more credential of this kind.
fn room(tx: &mut dyn Tx, account: AccountId, kind: CredentialKind, full: &str) -> Result<(), Error> {
    // The lock makes the second of two concurrent requests count the first.
    tx.lock(account.into())?;
    let there = accounts::list(tx, account, kind, None, MOST)?.len() as i64;
    if there < MOST { Ok(()) } else { Err(Error::new(Code::Conflict, full)) }
}

/// Checks that an address has the form of a mail address, and returns it.
fn mailable(EmailAddress(email): EmailAddress) -> Result<String, Faults> {
    check_address(&email).map_err(|what| Faults::one("email", what))?;
    Ok(email)
}
