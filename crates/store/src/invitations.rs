//! Open invitations into conversations.
//!
//! An invitation is for an email address or for an account id, whether or not it exists. The row is kept for
//! the same time in every case, so that neither creating an invitation nor the number of rows reveals whether
//! an account exists, or that an address and an id belong together. An invitation that the invitee must not
//! see is hidden, as is one that repeats another under the invitee's other name. A declined invitation stays
//! until it expires, so that it is not repeated at once.

use crate::accounts::email_key;
use crate::{Param, Row, StoreError, Tx, TxExt, directory};
use chorus_protocol::ids::{AccountId, ConversationId, InvitationId, Principal, TraceId};
use uuid::Uuid;

/// The lifetime of an invitation.
pub const LIFE_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// A stranger gets a mail so often at most, whoever invites it.
pub const MAIL_EVERY_MS: i64 = 24 * 60 * 60 * 1000;
/// The most that one inviter can have made, as long as they have not ended.
pub const MOST_OF_INVITER: i64 = 100;
/// The most that are open for one address, of agents and of people: agents cost nothing and must not keep people out.
const MOST_OF_INVITEE: i64 = 100;
/// The most of an invitee's that agents without an owner have open, whoever registered them: anybody can register one.
const MOST_OF_UNOWNED: i64 = MOST_OF_INVITEE / 10;
/// The most of these by agents that one source registered.
const MOST_OF_SOURCE: i64 = 2;
/// The most of these that are from one inviter, whose owner and its agents count as one: nobody fills them alone.
const MOST_OF_BOTH: i64 = 10;
/// The conversation of an invitation to talk in one of two.
const PAIR: ConversationId = ConversationId(Uuid::nil());

/// The invitee as the inviter wrote it, and the other way to write it if that account exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invitee {
    /// An email address, whether or not it has an account.
    Email(String, Option<AccountId>),
    /// The account of this id.
    Id(AccountId, Option<String>),
}

impl Invitee {
    /// Returns the key of the invitee as written, and the other one, which may be empty.
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
    pub id: AccountId,
    pub email: &'a str,
}

impl Person<'_> {
    fn keys(self) -> (String, String) {
        (email_key(self.email), self.id.to_string())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    pub id: InvitationId,
    pub inviter: Principal,
    /// Into which channel; none for a conversation of two.
    pub conversation: Option<ConversationId>,
    /// The handle for the invitee.
    pub handle: Option<String>,
    pub roles: Vec<String>,
    /// True if the invitee becomes a lead.
    pub lead: bool,
    pub created_at: i64,
}

impl Invitation {
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
    let (kind, id) = (row.text("inviter_kind")?, row.uuid("inviter_id")?);
    let conversation = ConversationId(row.uuid("conversation_id")?);
    Ok(Invitation {
        id: InvitationId(row.uuid("id")?),
        inviter: Principal::new(&kind, id)
            .ok_or_else(|| StoreError::unexpected(format!("an inviter of kind {kind:?}")))?,
        conversation: Some(conversation).filter(|conversation| *conversation != PAIR),
        handle: row.opt_text("handle")?,
        roles: serde_json::from_str(&row.text("roles")?).map_err(StoreError::unexpected)?,
        lead: row.int("lead")? == 1,
        created_at: row.int("created_at")?,
    })
}

/// The outcome of creating an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It is kept, or there was one; a mail is due if it is for a stranger.
    Kept {
        /// True if a mail may be sent to the address now.
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
    let known = tx.first(
        "SELECT id, state FROM invitations WHERE inviter_id = $1 AND invitee = $2 AND conversation_id = $3",
        &[(&inviter).into(), key.as_str().into(), (&conversation).into()],
    )?;
    if let Some(mut known) = known {
        // One that had to give way comes back when it is made again and there is room.
        if known.text("state")? == "hidden" && !hidden && !is_too_much(tx, new, invitee)? {
            make_room_among_unowned(tx, new, invitee)?;
            let sql = "UPDATE invitations SET state = 'open', created_at = $2, expires_at = $3 WHERE id = $1";
            let id = known.uuid("id")?;
            tx.execute(sql, &[(&id).into(), now.into(), new.expires_at().into()])?;
        }
        return Ok(Made::Kept { mail: false });
    }
    let made =
        count(tx, "SELECT COUNT(*) AS count FROM invitations WHERE inviter_id = $1", &[(&inviter).into()])?;
    if made >= MOST_OF_INVITER {
        return Ok(Made::Full);
    }
    let mailed = count(
        tx,
        "SELECT COUNT(*) AS count FROM invitations WHERE invitee = $1 AND mailed_at > $2",
        &[key.as_str().into(), (now - MAIL_EVERY_MS).into()],
    )?;
    let hidden = hidden || is_too_much(tx, new, invitee)?;
    if !hidden {
        make_room_among_unowned(tx, new, invitee)?;
    }
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
    tx.first(sql, params)?.map_or(Ok(0), |mut row| row.int("count"))
}

/// Returns whether the invitee has too many: the same one under its other name, too many in total, or too many
/// of this inviter.
fn is_too_much(tx: &mut dyn Tx, new: &Invitation, invitee: &Invitee) -> Result<bool, StoreError> {
    let ((key, other), inviter, now) = (invitee.keys(), new.inviter.uuid(), new.created_at);
    let conversation = new.conversation.unwrap_or(PAIR);
    let otherwise = count(
        tx,
        "SELECT COUNT(*) AS count FROM invitations
         WHERE inviter_id = $1 AND invitee = $2 AND conversation_id = $3 AND state <> 'hidden'",
        &[(&inviter).into(), other.as_str().into(), (&conversation).into()],
    )?;
    // Agents without an owner have a part of their own.
    let open = count(
        tx,
        "SELECT COUNT(*) AS count FROM invitations i
         WHERE i.invitee IN ($1, $2) AND i.inviter_kind = $3 AND i.state = 'open' AND i.expires_at > $4
           AND (i.inviter_kind <> 'agent'
                OR EXISTS (SELECT 1 FROM agents a WHERE a.id = i.inviter_id AND a.owner_id IS NOT NULL))",
        &[key.as_str().into(), other.as_str().into(), new.inviter.kind().as_str().into(), now.into()],
    )?;
    // An agent's are its owner's.
    let theirs = count(
        tx,
        "SELECT COUNT(*) AS count FROM invitations i
         WHERE i.invitee IN ($1, $2) AND i.state = 'open' AND i.expires_at > $3
           AND COALESCE((SELECT a.owner_id FROM agents a WHERE a.id = i.inviter_id), i.inviter_id)
             = COALESCE((SELECT a.owner_id FROM agents a WHERE a.id = $4), $4)",
        &[key.as_str().into(), other.as_str().into(), now.into(), (&inviter).into()],
    )?;
    Ok(otherwise > 0 || open >= MOST_OF_INVITEE || theirs >= MOST_OF_BOTH)
}

/// The open invitations of an invitee by agents that have no owner, the oldest first. An agent whose source is not known
/// counts as a source of its own.
const OPEN_OF_UNOWNED: &str =
    "SELECT i.id, COALESCE(a.registered_from, i.inviter_id) AS source FROM invitations i
     LEFT JOIN agents a ON a.id = i.inviter_id
     WHERE i.invitee IN ($1, $2) AND i.inviter_kind = 'agent' AND a.owner_id IS NULL AND i.state = 'open'
       AND i.expires_at > $3
     ORDER BY i.created_at, i.id";

/// Hides the oldest invitation by an agent without an owner if the invitee has as many of these as it may: one of the same source
/// if that has its share, else the oldest of a source that has several, else the oldest of all. Inviters of other kinds need no room here.
fn make_room_among_unowned(tx: &mut dyn Tx, new: &Invitation, invitee: &Invitee) -> Result<(), StoreError> {
    let Principal::Agent(agent) = new.inviter else { return Ok(()) };
    let (owner, source) = directory::registrar(tx, agent)?;
    if owner.is_some() {
        return Ok(());
    }
    let source = source.unwrap_or_else(|| agent.as_bytes().to_vec());
    let (key, other) = invitee.keys();
    let params = [key.as_str().into(), other.as_str().into(), new.created_at.into()];
    let mut open = vec![];
    for mut row in tx.query(OPEN_OF_UNOWNED, &params)? {
        open.push((row.uuid("id")?, row.bytes("source")?));
    }
    let of_source = || open.iter().filter(|(_, from)| *from == source);
    let gives_way = if of_source().count() as i64 >= MOST_OF_SOURCE {
        of_source().next()
    } else if open.len() as i64 >= MOST_OF_UNOWNED {
        // The oldest of a source that has several, else the oldest.
        let has_several = |from: &Vec<u8>| open.iter().filter(|(_, other)| other == from).count() > 1;
        open.iter().find(|(_, from)| has_several(from)).or_else(|| open.first())
    } else {
        None
    };
    if let Some((id, _)) = gives_way {
        tx.execute("UPDATE invitations SET state = 'hidden' WHERE id = $1", &[id.into()])?;
    }
    Ok(())
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
