//! Accounts of people, and their credentials.
//!
//! An account is found by its email address, ignoring letter case. Sign-in links, sessions, tokens and sign-up
//! codes are credentials; only their hashes are stored. A credential for one use is deleted when it is used,
//! so that only one of two concurrent uses succeeds.

mod find;
mod sign_up_codes;

pub use find::{Found, LOOKED_AT, search};
pub use sign_up_codes::{revoke_sign_up_code, sign_up_codes};

use crate::directory::KeyHash;
use crate::{Row, StoreError, Tx, TxExt, revocation};
use chorus_protocol::ids::{AccountId, CredentialId, TraceId};

/// The longest name of an account, in characters.
pub const MAX_NAME: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub id: AccountId,
    /// The email address as the person spelled it.
    pub email: String,
    pub name: String,
    pub created_at: i64,
    /// Since when the operator keeps it out.
    pub disabled_at: Option<i64>,
    /// The time of the last sign of life; 0 for never.
    pub seen_at: i64,
}

/// The purpose of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// Signs in once whoever reads the mail it was sent in.
    Link,
    /// A browser that is signed in.
    Session,
    /// A program that speaks for the account.
    Token,
    /// Lets somebody make an account where not everybody may.
    SignUpCode,
}

impl CredentialKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Session => "session",
            Self::Token => "token",
            Self::SignUpCode => "invitation",
        }
    }
}

/// A credential to be issued.
#[derive(Debug, Clone)]
pub struct NewCredential {
    /// Its id, which is no secret.
    pub id: CredentialId,
    /// The hash of its secret.
    pub hash: KeyHash,
    pub kind: CredentialKind,
    /// The account it belongs to, if there is one already.
    pub account: Option<AccountId>,
    /// To whom it was sent.
    pub email: Option<String>,
    /// A name that its owner gave it.
    pub label: Option<String>,
    /// Of a link: the sign-up code that lets it make an account.
    pub sign_up_code: Option<CredentialId>,
    pub expires_at: Option<i64>,
    pub trace: TraceId,
    pub now: i64,
}

/// A credential as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    pub id: CredentialId,
    /// A name that its owner gave it.
    pub label: Option<String>,
    /// To whom it was sent.
    pub email: Option<String>,
    pub created_at: i64,
    pub expires_at: Option<i64>,
}

/// A used credential for one use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redeemed {
    pub id: CredentialId,
    /// The account it belonged to, if any. For a sign-up code, the account that issued the code.
    pub account: Option<AccountId>,
    /// To whom it was sent.
    pub email: Option<String>,
    /// Of a link: the sign-up code that lets it make an account.
    pub sign_up_code: Option<CredentialId>,
}

/// The key an address is found by. Only ASCII letters are folded: other foldings make one address of two that different
/// people may hold (`K`, the Kelvin sign, would be `k`).
pub(crate) fn email_key(email: &str) -> String {
    email.to_ascii_lowercase()
}

/// Returns whether two spellings are the same email address.
pub fn same_email(one: &str, other: &str) -> bool {
    email_key(one) == email_key(other)
}

fn account(mut row: Row) -> Result<Account, StoreError> {
    Ok(Account {
        id: AccountId(row.uuid("id")?),
        email: row.text("email")?,
        name: row.text("name")?,
        created_at: row.int("created_at")?,
        disabled_at: row.opt_int("disabled_at")?,
        seen_at: row.int("seen_at")?,
    })
}

/// The account of this address.
pub fn by_email(tx: &mut dyn Tx, email: &str) -> Result<Option<Account>, StoreError> {
    let sql = "SELECT id, email, name, created_at, disabled_at, seen_at FROM accounts WHERE email_key = $1 AND deleted_at IS NULL";
    tx.first(sql, &[email_key(email).as_str().into()])?.map(account).transpose()
}

/// The account of this id.
pub fn by_id(tx: &mut dyn Tx, id: AccountId) -> Result<Option<Account>, StoreError> {
    let sql = "SELECT id, email, name, created_at, disabled_at, seen_at FROM accounts WHERE id = $1 AND deleted_at IS NULL";
    tx.first(sql, &[(&id).into()])?.map(account).transpose()
}

/// Adds an account, unless somebody has its address, and says whether it did.
pub fn insert(tx: &mut dyn Tx, account: &Account, trace: TraceId) -> Result<bool, StoreError> {
    let inserted = tx.execute(
        "INSERT INTO accounts (id, email, email_key, name, created_at, trace_id) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (email_key) DO NOTHING",
        &[
            (&account.id).into(),
            account.email.as_str().into(),
            email_key(&account.email).as_str().into(),
            account.name.as_str().into(),
            account.created_at.into(),
            (&trace).into(),
        ],
    )?;
    Ok(inserted == 1)
}

/// Changes what to call a person, and whether it is told by mail of what waits, each if it is said.
pub fn change(
    tx: &mut dyn Tx,
    id: AccountId,
    name: Option<&str>,
    mails: Option<bool>,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE accounts SET name = COALESCE($2, name), mails = COALESCE($3, mails) WHERE id = $1",
        &[(&id).into(), name.into(), mails.map(i64::from).into()],
    )?;
    // Caches of the name must read it again.
    revocation::announce(tx, id)
}

/// Returns whether an account wants mail about waiting messages.
pub fn wants_mails(tx: &mut dyn Tx, id: AccountId) -> Result<bool, StoreError> {
    let row = tx.first("SELECT mails FROM accounts WHERE id = $1", &[(&id).into()])?;
    row.map_or(Ok(false), |mut row| Ok(row.int("mails")? == 1))
}

/// A person showed a sign of life.
pub fn seen(tx: &mut dyn Tx, id: AccountId, now: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE accounts SET seen_at = $2 WHERE id = $1", &[(&id).into(), now.into()])?;
    Ok(())
}

/// Takes an account away, of which only its id and this name are left, and frees its address.
pub(crate) fn remove(tx: &mut dyn Tx, id: AccountId, name: &str, now: i64) -> Result<(), StoreError> {
    // No address has this form.
    let nowhere = format!("deleted:{id}");
    tx.execute(
        "UPDATE accounts SET email = $2, email_key = $2, name = $3, deleted_at = $4 WHERE id = $1",
        &[(&id).into(), nowhere.as_str().into(), name.into(), now.into()],
    )?;
    Ok(())
}

pub fn issue(tx: &mut dyn Tx, new: &NewCredential) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO credentials
             (id, hash, kind, account_id, email, email_key, label, invitation_id, created_at, expires_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &[
            (&new.id).into(),
            new.hash.as_slice().into(),
            new.kind.as_str().into(),
            new.account.as_ref().into(),
            new.email.as_deref().into(),
            new.email.as_deref().map(email_key).as_deref().into(),
            new.label.as_deref().into(),
            new.sign_up_code.as_ref().into(),
            new.now.into(),
            new.expires_at.into(),
            (&new.trace).into(),
        ],
    )?;
    Ok(())
}

/// The account that a credential of this kind proves.
pub fn by_credential(
    tx: &mut dyn Tx,
    kind: CredentialKind,
    hash: &KeyHash,
    now: i64,
) -> Result<Option<Account>, StoreError> {
    tx.first(
        "SELECT a.id, a.email, a.name, a.created_at, a.disabled_at, a.seen_at FROM credentials c JOIN accounts a ON a.id = c.account_id
         WHERE c.hash = $1 AND c.kind = $2 AND (c.expires_at IS NULL OR c.expires_at > $3)",
        &[hash.as_slice().into(), kind.as_str().into(), now.into()],
    )?
    .map(account)
    .transpose()
}

/// The conditions for every credential for one use: its account and its issuer are not disabled.
macro_rules! of_one_use {
    ($begin:literal, $end:literal) => {
        concat!(
            $begin,
            " AND kind = $2 AND expires_at > $3 AND NOT EXISTS
                 (SELECT 1 FROM accounts a WHERE a.id = credentials.account_id AND a.disabled_at IS NOT NULL)",
            $end
        )
    };
}

/// Returns the purpose of a credential for one use, without using it.
pub fn peek(
    tx: &mut dyn Tx,
    kind: CredentialKind,
    hash: &KeyHash,
    now: i64,
) -> Result<Option<Redeemed>, StoreError> {
    tx.first(
        of_one_use!("SELECT id, account_id, email, invitation_id FROM credentials WHERE hash = $1", ""),
        &[hash.as_slice().into(), kind.as_str().into(), now.into()],
    )?
    .map(redeemed)
    .transpose()
}

/// Uses a credential for one use up.
pub fn redeem(
    tx: &mut dyn Tx,
    kind: CredentialKind,
    hash: &KeyHash,
    now: i64,
) -> Result<Option<Redeemed>, StoreError> {
    tx.first(
        of_one_use!(
            "DELETE FROM credentials WHERE hash = $1",
            " RETURNING id, account_id, email, invitation_id"
        ),
        &[hash.as_slice().into(), kind.as_str().into(), now.into()],
    )?
    .map(redeemed)
    .transpose()
}

fn redeemed(mut row: Row) -> Result<Redeemed, StoreError> {
    Ok(Redeemed {
        id: CredentialId(row.uuid("id")?),
        account: row.opt_bytes("account_id")?.as_deref().and_then(AccountId::from_slice),
        email: row.opt_text("email")?,
        sign_up_code: row.opt_bytes("invitation_id")?.as_deref().and_then(CredentialId::from_slice),
    })
}

/// Counts the usable links to this address that expire within `life_ms`. Links from before the clock was set
/// back live longer and do not count, so that they do not keep new ones from being issued.
pub fn live_links(tx: &mut dyn Tx, email: &str, now: i64, life_ms: i64) -> Result<i64, StoreError> {
    let (email, kind) = (email_key(email), CredentialKind::Link.as_str());
    tx.first(
        "SELECT count(*) AS count FROM credentials WHERE email_key = $1 AND kind = $2 AND expires_at > $3 AND expires_at <= $4",
        &[email.as_str().into(), kind.into(), now.into(), (now + life_ms).into()],
    )?
    .map_or(Ok(0), |mut row| row.int("count"))
}

/// Somebody comes with a sign-in link.
#[derive(Debug, Clone)]
pub struct SignIn {
    /// The hash of the link's secret.
    pub link: KeyHash,
    /// The id of the account, if one has to be made.
    pub new: AccountId,
    /// True if anybody may create an account.
    pub open: bool,
    /// The session that begins: its id, the hash of its secret and its end.
    pub session: (CredentialId, KeyHash, i64),
    pub trace: TraceId,
    pub now: i64,
}

/// Uses a link up and begins a session of the account of its address, which is made if there is none and somebody may
/// make it: everybody, or whoever was invited. Nobody is signed in by a link that is used, over or never was, and nobody whose
/// account is kept out.
pub fn sign_in(tx: &mut dyn Tx, with: &SignIn) -> Result<Option<Account>, StoreError> {
    let Some(link) = redeem(tx, CredentialKind::Link, &with.link, with.now)? else { return Ok(None) };
    let email = link.email.ok_or_else(|| StoreError::unexpected("a link without an address"))?;
    let mut found = by_email(tx, &email)?;
    if found.is_none() {
        let invited = match link.sign_up_code {
            Some(code) => use_sign_up_code(tx, code, with.now)?,
            None => false,
        };
        if !invited && !with.open {
            return Ok(None);
        }
        let name = name_of(&email);
        let (id, created_at) = (with.new, with.now);
        let new = Account { id, email: email.clone(), name, created_at, disabled_at: None, seen_at: 0 };
        insert(tx, &new, with.trace)?;
        // Another link to the same address may have created the account first.
        found = by_email(tx, &email)?;
    }
    let Some(account) = found.filter(|account| account.disabled_at.is_none()) else { return Ok(None) };
    let (id, hash, expires_at) = with.session;
    let session = NewCredential {
        id,
        hash,
        kind: CredentialKind::Session,
        account: Some(account.id),
        email: None,
        label: None,
        sign_up_code: None,
        expires_at: Some(expires_at),
        trace: with.trace,
        now: with.now,
    };
    issue(tx, &session)?;
    Ok(Some(account))
}

/// Derives a display name from an email address.
pub fn name_of(email: &str) -> String {
    email.split('@').next().unwrap_or_default().chars().take(MAX_NAME).collect()
}

fn use_sign_up_code(tx: &mut dyn Tx, id: CredentialId, now: i64) -> Result<bool, StoreError> {
    let sql = of_one_use!("DELETE FROM credentials WHERE id = $1", "");
    Ok(tx.execute(sql, &[(&id).into(), CredentialKind::SignUpCode.as_str().into(), now.into()])? == 1)
}

/// An account's credentials of one kind, in the order of their ids, after `after`.
pub fn list(
    tx: &mut dyn Tx,
    account: AccountId,
    kind: CredentialKind,
    after: Option<CredentialId>,
    limit: i64,
) -> Result<Vec<Credential>, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), CredentialId::as_bytes);
    tx.query(
        "SELECT id, label, created_at, expires_at, email FROM credentials
         WHERE account_id = $1 AND kind = $2 AND id > $3 ORDER BY id LIMIT $4",
        &[(&account).into(), kind.as_str().into(), after.into(), limit.into()],
    )?
    .into_iter()
    .map(credential)
    .collect()
}

fn credential(mut row: Row) -> Result<Credential, StoreError> {
    Ok(Credential {
        id: CredentialId(row.uuid("id")?),
        label: row.opt_text("label")?,
        created_at: row.int("created_at")?,
        expires_at: row.opt_int("expires_at")?,
        email: row.opt_text("email")?,
    })
}

/// Ends one of an account's credentials of one kind, and says whether there was one. One of somebody else's is none.
pub fn revoke(
    tx: &mut dyn Tx,
    account: AccountId,
    kind: CredentialKind,
    id: CredentialId,
) -> Result<bool, StoreError> {
    let sql = "DELETE FROM credentials WHERE id = $1 AND account_id = $2 AND kind = $3";
    if tx.execute(sql, &[(&id).into(), (&account).into(), kind.as_str().into()])? == 0 {
        return Ok(false);
    }
    revocation::announce(tx, account)?;
    Ok(true)
}

/// Ends the credential of this secret, and says whose it was.
pub fn end(tx: &mut dyn Tx, kind: CredentialKind, hash: &KeyHash) -> Result<Option<AccountId>, StoreError> {
    let sql = "DELETE FROM credentials WHERE hash = $1 AND kind = $2 RETURNING account_id";
    let ended = tx.first(sql, &[hash.as_slice().into(), kind.as_str().into()])?;
    let whose = ended.map(|mut row| row.opt_uuid("account_id")).transpose()?.flatten().map(AccountId);
    if let Some(account) = whose {
        revocation::announce(tx, account)?;
    }
    Ok(whose)
}

/// Signs an account out of all browsers but the one with this session, and says of how many; links to sign in end as well.
pub fn end_sessions(tx: &mut dyn Tx, account: AccountId, but: Option<&KeyHash>) -> Result<u64, StoreError> {
    let ended = end_all(tx, account, CredentialKind::Session, but)?;
    end_all(tx, account, CredentialKind::Link, but)?;
    revocation::announce(tx, account)?;
    Ok(ended)
}

/// Returns the time at which the oldest session, link or token of an account was made, except the credential `but`.
pub fn oldest_credential(
    tx: &mut dyn Tx,
    account: AccountId,
    but: Option<&KeyHash>,
) -> Result<Option<i64>, StoreError> {
    let but = but.map_or([].as_slice(), <[u8; 32]>::as_slice);
    let sql = "SELECT MIN(created_at) AS oldest FROM credentials
         WHERE account_id = $1 AND kind IN ('session', 'link', 'token') AND hash <> $2";
    tx.first(sql, &[(&account).into(), but.into()])?.map_or(Ok(None), |mut row| row.opt_int("oldest"))
}

/// Revokes all tokens of an account but the one with this secret, and says how many.
pub fn revoke_tokens(tx: &mut dyn Tx, account: AccountId, but: Option<&KeyHash>) -> Result<u64, StoreError> {
    let revoked = end_all(tx, account, CredentialKind::Token, but)?;
    revocation::announce(tx, account)?;
    Ok(revoked)
}

fn end_all(
    tx: &mut dyn Tx,
    account: AccountId,
    kind: CredentialKind,
    but: Option<&KeyHash>,
) -> Result<u64, StoreError> {
    let but = but.map_or([].as_slice(), <[u8; 32]>::as_slice);
    let sql = "DELETE FROM credentials WHERE account_id = $1 AND kind = $2 AND hash <> $3";
    tx.execute(sql, &[(&account).into(), kind.as_str().into(), but.into()])
}

/// A reconciler: forgets a bounded number of credentials that have ended.
pub fn remove_expired(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM credentials WHERE id IN
             (SELECT id FROM credentials WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
        &[now.into(), limit.into()],
    )
}
