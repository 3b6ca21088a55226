//! Who was asked into a conversation, and has not said yes yet.
//!
//! An invitation is for an email address, whether or not it has an account, or for the id of an account, whether or not
//! there is one: for whatever its inviter wrote a row is kept for the same time, so that neither its making nor how many there
//! are tells anything, nor that an address and an id are the same person's. One that its invitee must not see is hidden, as
//! is one that was made before in the other way; one that was declined stays until it ends, so that it is not made again at
//! once.

use crate::accounts::email_key;
use crate::{Param, Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, ConversationId, InvitationId, Principal, TraceId};
use uuid::Uuid;

/// How long an invitation is open.
pub const LIFE_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// A stranger gets a mail so often at most, whoever invites it.
pub const MAIL_EVERY_MS: i64 = 24 * 60 * 60 * 1000;
/// The most that one inviter can have made, as long as they have not ended.
pub const MOST_OF_INVITER: i64 = 100;
/// The most that are open for one address, of agents and of people: agents cost nothing and must not keep people out.
const MOST_OF_INVITEE: i64 = 100;
/// The most of these that are from one inviter, whose owner and its agents count as one: nobody fills them alone.
const MOST_OF_BOTH: i64 = 10;
/// The conversation of an invitation to talk in one of two.
const PAIR: ConversationId = ConversationId(Uuid::nil());

/// Whom an invitation is for, as its inviter wrote it, and how else it could have if there is such a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invitee {
    /// Whoever has, or will have, this address.
    Email(String, Option<AccountId>),
    /// The account of this id.
    Id(AccountId, Option<String>),
}

impl Invitee {
    /// What was written, and the other way; empty if there is none.
    fn keys(&self) -> (String, String) {
        match self {
            Self::Email(email, id) => (email_key(email), id.map(|id| id.to_string()).unwrap_or_default()),
            Self::Id(id, email) => (id.to_string(), email.as_deref().map(email_key).unwrap_or_default()),
        }
    }
}

/// Somebody who looks at its invitations: the account and its address.
#[derive(Debug, Clone, Copy)]
pub struct Person<'a> {
    /// Its id.
    pub id: AccountId,
    /// Its address.
    pub email: &'a str,
}

impl Person<'_> {
    fn keys(self) -> (String, String) {
        (email_key(self.email), self.id.to_string())
    }
}

/// An invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Its id.
    pub id: InvitationId,
    /// Who invites.
    pub inviter: Principal,
    /// Into which channel; none for a conversation of two.
    pub conversation: Option<ConversationId>,
    /// What the invitee is to be called there.
    pub handle: Option<String>,
    /// What it is to do there.
    pub roles: Vec<String>,
    /// Whether it is to answer for the others.
    pub lead: bool,
    /// When it was made.
    pub created_at: i64,
}

impl Invitation {
    /// When it ends.
    pub fn expires_at(&self) -> i64 {
        self.created_at + LIFE_MS
    }
}

macro_rules! select_invitation {
    ($rest:literal) => {
        concat!(
            "SELECT id, inviter_kind, inviter_id, conversation_id, handle, roles, lead, created_at FROM invitations ",
            $rest
        )
    };
}

fn invitation(mut row: Row) -> Result<Invitation, StoreError> {
    let (kind, id) = (row.text(1)?, row.uuid(2)?);
    let conversation = ConversationId(row.uuid(3)?);
    Ok(Invitation {
        id: InvitationId(row.uuid(0)?),
        inviter: Principal::new(&kind, id)
            .ok_or_else(|| StoreError::unexpected(format!("an inviter of kind {kind:?}")))?,
        conversation: Some(conversation).filter(|conversation| *conversation != PAIR),
        handle: row.opt_text(4)?,
        roles: serde_json::from_str(&row.text(5)?).map_err(StoreError::unexpected)?,
        lead: row.int(6)? == 1,
        created_at: row.int(7)?,
    })
}

/// What became of an invitation that was to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It is kept, or there was one; a mail is due if it is for a stranger.
    Kept {
        /// Whether the address may get a mail now.
        mail: bool,
    },
    /// The inviter has made as many as it may.
    Full,
}

/// Makes an invitation, unless its inviter made the same one before. `hidden` keeps it from its invitee.
pub fn insert(
    tx: &mut dyn Tx,
    new: &Invitation,
    invitee: &Invitee,
    hidden: bool,
    trace: TraceId,
) -> Result<Made, StoreError> {
    let ((key, _), inviter, now) = (invitee.keys(), new.inviter.uuid(), new.created_at);
    let conversation = new.conversation.unwrap_or(PAIR);
    tx.execute(
        "DELETE FROM invitations WHERE inviter_id = $1 AND expires_at <= $2",
        &[(&inviter).into(), now.into()],
    )?;
    let again = count(
        tx,
        "SELECT COUNT(*) FROM invitations WHERE inviter_id = $1 AND invitee = $2 AND conversation_id = $3",
        &[(&inviter).into(), key.as_str().into(), (&conversation).into()],
    )?;
    if again > 0 {
        return Ok(Made::Kept { mail: false });
    }
    let made = count(tx, "SELECT COUNT(*) FROM invitations WHERE inviter_id = $1", &[(&inviter).into()])?;
    if made >= MOST_OF_INVITER {
        return Ok(Made::Full);
    }
    let mailed = count(
        tx,
        "SELECT COUNT(*) FROM invitations WHERE invitee = $1 AND mailed_at > $2",
        &[key.as_str().into(), (now - MAIL_EVERY_MS).into()],
    )?;
    let hidden = hidden || is_too_much(tx, new, invitee)?;
    let mail = !hidden && mailed == 0 && matches!(invitee, Invitee::Email(_, None));
    let roles = serde_json::to_string(&new.roles).map_err(StoreError::unexpected)?;
    tx.execute(
        "INSERT INTO invitations (id, inviter_kind, inviter_id, invitee, conversation_id, handle, roles, lead, state,
                                  created_at, expires_at, mailed_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (inviter_id, invitee, conversation_id) DO NOTHING",
        &[
            (&new.id).into(),
            new.inviter.kind().as_str().into(),
            (&inviter).into(),
            key.as_str().into(),
            (&conversation).into(),
            new.handle.as_deref().into(),
            roles.as_str().into(),
            i64::from(new.lead).into(),
            if hidden { "hidden" } else { "open" }.into(),
            now.into(),
            new.expires_at().into(),
            mail.then_some(now).into(),
            (&trace).into(),
        ],
    )?;
    Ok(Made::Kept { mail })
}

fn count(tx: &mut dyn Tx, sql: &'static str, params: &[Param<'_>]) -> Result<i64, StoreError> {
    tx.first(sql, params)?.map_or(Ok(0), |mut row| row.int(0))
}

/// Whether the invitee has enough of them: the same one by its other name, many, or many of this inviter.
fn is_too_much(tx: &mut dyn Tx, new: &Invitation, invitee: &Invitee) -> Result<bool, StoreError> {
    let ((key, other), inviter, now) = (invitee.keys(), new.inviter.uuid(), new.created_at);
    let conversation = new.conversation.unwrap_or(PAIR);
    let otherwise = count(
        tx,
        "SELECT COUNT(*) FROM invitations
         WHERE inviter_id = $1 AND invitee = $2 AND conversation_id = $3 AND state <> 'hidden'",
        &[(&inviter).into(), other.as_str().into(), (&conversation).into()],
    )?;
    let open = count(
        tx,
        "SELECT COUNT(*) FROM invitations
         WHERE invitee IN ($1, $2) AND inviter_kind = $3 AND state = 'open' AND expires_at > $4",
        &[key.as_str().into(), other.as_str().into(), new.inviter.kind().as_str().into(), now.into()],
    )?;
    // An agent's are its owner's.
    let theirs = count(
        tx,
        "SELECT COUNT(*) FROM invitations i
         WHERE i.invitee IN ($1, $2) AND i.state = 'open' AND i.expires_at > $3
           AND COALESCE((SELECT a.owner_id FROM agents a WHERE a.id = i.inviter_id), i.inviter_id)
             = COALESCE((SELECT a.owner_id FROM agents a WHERE a.id = $4), $4)",
        &[key.as_str().into(), other.as_str().into(), now.into(), (&inviter).into()],
    )?;
    Ok(otherwise > 0 || open >= MOST_OF_INVITEE || theirs >= MOST_OF_BOTH)
}

/// The open invitations of a person, in the order of their ids, after `after`.
pub fn page(
    tx: &mut dyn Tx,
    person: Person<'_>,
    after: Option<InvitationId>,
    now: i64,
    limit: i64,
) -> Result<Vec<Invitation>, StoreError> {
    let (after, (email, id)) = (after.as_ref().map_or([].as_slice(), InvitationId::as_bytes), person.keys());
    tx.query(
        select_invitation!(
            "WHERE invitee IN ($1, $2) AND id > $3 AND state = 'open' AND expires_at > $4 ORDER BY id LIMIT $5"
        ),
        &[email.as_str().into(), id.as_str().into(), after.into(), now.into(), limit.into()],
    )?
    .into_iter()
    .map(invitation)
    .collect()
}

/// An open invitation of a person.
pub fn open(
    tx: &mut dyn Tx,
    person: Person<'_>,
    invitation_id: InvitationId,
    now: i64,
) -> Result<Option<Invitation>, StoreError> {
    let (email, id) = person.keys();
    tx.first(
        select_invitation!("WHERE id = $1 AND invitee IN ($2, $3) AND state = 'open' AND expires_at > $4"),
        &[(&invitation_id).into(), email.as_str().into(), id.as_str().into(), now.into()],
    )?
    .map(invitation)
    .transpose()
}

/// An invitation was accepted: it is gone, and so is the same one that was written in another way. Of two who accept at the
/// same time one is told `true`.
pub fn remove(tx: &mut dyn Tx, person: Person<'_>, accepted: &Invitation) -> Result<bool, StoreError> {
    let sql = "DELETE FROM invitations WHERE id = $1 AND state = 'open'";
    let is_first = tx.execute(sql, &[(&accepted.id).into()])? == 1;
    let (email, id) = person.keys();
    tx.execute(
        "DELETE FROM invitations WHERE inviter_id = $1 AND invitee IN ($2, $3) AND conversation_id = $4",
        &[
            (&accepted.inviter.uuid()).into(),
            email.as_str().into(),
            id.as_str().into(),
            (&accepted.conversation.unwrap_or(PAIR)).into(),
        ],
    )?;
    Ok(is_first)
}

/// An invitation was declined, however it was written. Its inviter is not told, and cannot tell.
pub fn decline(tx: &mut dyn Tx, person: Person<'_>, declined: &Invitation) -> Result<(), StoreError> {
    let (email, id) = person.keys();
    tx.execute(
        "UPDATE invitations SET state = 'declined'
         WHERE inviter_id = $1 AND invitee IN ($2, $3) AND conversation_id = $4 AND state = 'open'",
        &[
            (&declined.inviter.uuid()).into(),
            email.as_str().into(),
            id.as_str().into(),
            (&declined.conversation.unwrap_or(PAIR)).into(),
        ],
    )
    .map(drop)
}

/// A reconciler: forgets a bounded number of invitations that have ended.
pub fn remove_expired(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM invitations WHERE id IN
             (SELECT id FROM invitations WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
        &[now.into(), limit.into()],
    )
}
