//! Who was asked into a conversation, and has not said yes yet.
//!
//! An invitation is for an email address, whether or not it has an account, or for the id of an account that there may not
//! be: for all of them the same row is kept for the same time, so that neither its making nor how many there are tells
//! anything. One that its invitee must not see is hidden; one that was declined stays until it ends, so that it is not
//! made again at once.

use crate::accounts::email_key;
use crate::{Row, StoreError, Tx, TxExt};
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
/// The conversation of an invitation to talk in one of two.
const PAIR: ConversationId = ConversationId(Uuid::nil());

/// Whom an invitation is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invitee {
    /// Whoever has, or will have, this address.
    Email(String),
    /// An account that there is not.
    Unknown(AccountId),
}

impl Invitee {
    fn key(&self) -> String {
        match self {
            Self::Email(email) => email_key(email),
            Self::Unknown(id) => id.to_string(),
        }
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

/// Makes an invitation, unless its inviter made the same one before. `hidden` keeps it from its invitee, `stranger` says
/// that nobody has its address.
pub fn insert(
    tx: &mut dyn Tx,
    new: &Invitation,
    invitee: &Invitee,
    (hidden, stranger): (bool, bool),
    trace: TraceId,
) -> Result<Made, StoreError> {
    let (key, inviter, now) = (invitee.key(), new.inviter.uuid(), new.created_at);
    let conversation = new.conversation.unwrap_or(PAIR);
    tx.execute(
        "DELETE FROM invitations WHERE inviter_id = $1 AND expires_at <= $2",
        &[(&inviter).into(), now.into()],
    )?;
    let mut count =
        |sql, params: &[crate::Param<'_>]| tx.first(sql, params)?.map_or(Ok(0), |mut row| row.int(0));
    let again = count(
        "SELECT COUNT(*) FROM invitations WHERE inviter_id = $1 AND invitee = $2 AND conversation_id = $3",
        &[(&inviter).into(), key.as_str().into(), (&conversation).into()],
    )?;
    if again > 0 {
        return Ok(Made::Kept { mail: false });
    }
    let made = count("SELECT COUNT(*) FROM invitations WHERE inviter_id = $1", &[(&inviter).into()])?;
    if made >= MOST_OF_INVITER {
        return Ok(Made::Full);
    }
    let open = count(
        "SELECT COUNT(*) FROM invitations WHERE invitee = $1 AND inviter_kind = $2 AND state = 'open' AND expires_at > $3",
        &[key.as_str().into(), new.inviter.kind().into(), now.into()],
    )?;
    let mailed = count(
        "SELECT COUNT(*) FROM invitations WHERE invitee = $1 AND mailed_at > $2",
        &[key.as_str().into(), (now - MAIL_EVERY_MS).into()],
    )?;
    let hidden = hidden || open >= MOST_OF_INVITEE;
    let mail = stranger && !hidden && mailed == 0 && matches!(invitee, Invitee::Email(_));
    let roles = serde_json::to_string(&new.roles).map_err(StoreError::unexpected)?;
    tx.execute(
        "INSERT INTO invitations (id, inviter_kind, inviter_id, invitee, conversation_id, handle, roles, lead, state,
                                  created_at, expires_at, mailed_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (inviter_id, invitee, conversation_id) DO NOTHING",
        &[
            (&new.id).into(),
            new.inviter.kind().into(),
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

/// The open invitations of an address, in the order of their ids, after `after`.
pub fn page(
    tx: &mut dyn Tx,
    email: &str,
    after: Option<InvitationId>,
    now: i64,
    limit: i64,
) -> Result<Vec<Invitation>, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), InvitationId::as_bytes);
    tx.query(
        select_invitation!(
            "WHERE invitee = $1 AND id > $2 AND state = 'open' AND expires_at > $3 ORDER BY id LIMIT $4"
        ),
        &[email_key(email).as_str().into(), after.into(), now.into(), limit.into()],
    )?
    .into_iter()
    .map(invitation)
    .collect()
}

/// An open invitation of an address.
pub fn open(
    tx: &mut dyn Tx,
    email: &str,
    id: InvitationId,
    now: i64,
) -> Result<Option<Invitation>, StoreError> {
    tx.first(
        select_invitation!("WHERE id = $1 AND invitee = $2 AND state = 'open' AND expires_at > $3"),
        &[(&id).into(), email_key(email).as_str().into(), now.into()],
    )?
    .map(invitation)
    .transpose()
}

/// An invitation was accepted: it is gone. Of two who accept at the same time one is told `true`.
pub fn remove(tx: &mut dyn Tx, id: InvitationId) -> Result<bool, StoreError> {
    Ok(tx.execute("DELETE FROM invitations WHERE id = $1 AND state = 'open'", &[(&id).into()])? == 1)
}

/// An invitation was declined. Its inviter is not told, and cannot tell.
pub fn decline(tx: &mut dyn Tx, id: InvitationId) -> Result<(), StoreError> {
    tx.execute("UPDATE invitations SET state = 'declined' WHERE id = $1", &[(&id).into()]).map(drop)
}

/// A reconciler: forgets a bounded number of invitations that have ended.
pub fn remove_expired(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM invitations WHERE id IN
             (SELECT id FROM invitations WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
        &[now.into(), limit.into()],
    )
}
