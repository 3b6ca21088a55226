//! Read marks: how far people have read their conversations, and which messages addressed to them they have
//! not read. They are used for unread counts and for mail to people who are away.
//!
//! A row is made when a person reads or is addressed. Other messages write nothing.

mod standings;

pub use standings::{Standing, of_account};

use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, ConversationId, EventId};

/// More unread messages of one conversation are not counted.
pub const MAX_COUNT: i64 = 100;

/// The unread messages of one person in one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadConversation {
    pub conversation: ConversationId,
    pub name: String,
    /// Its kind, as a word.
    pub kind: String,
    /// Everything up to here was read.
    pub read_seq: i64,
    /// The number of messages of others since then, up to [`MAX_COUNT`].
    pub count: i64,
    /// True if one of them mentions the person or is in a direct conversation, or a message waits for
    /// approval.
    pub asked: bool,
    /// The number of messages of others that wait for approval.
    pub held: i64,
}

/// Those of a person's conversations that hold something unread, in the order of their ids, after `after`.
pub fn unread(
    tx: &mut dyn Tx,
    account: AccountId,
    after: Option<ConversationId>,
    limit: i64,
) -> Result<Vec<UnreadConversation>, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), ConversationId::as_bytes);
    let rows = tx.query(
        "SELECT q.id, q.name, q.kind, q.read_seq, q.asked_seq,
                (SELECT COUNT(*) FROM (SELECT 1 FROM events e WHERE e.conversation_id = q.id AND e.kind = 'message'
                     AND e.seq <> 0 AND e.seq > q.read_seq AND e.author_id <> $1 LIMIT $4) AS newer) AS unread, q.held
         FROM (SELECT c.id, c.name, c.kind, COALESCE(r.asked_seq, 0) AS asked_seq,
                      CASE WHEN COALESCE(r.read_seq, 0) > m.joined_seq THEN r.read_seq ELSE m.joined_seq END AS read_seq,
                      (SELECT COUNT(*) FROM approvals a WHERE a.conversation_id = c.id AND a.state = 'held'
                          AND a.author_id <> $1) AS held
               FROM members m JOIN conversations c ON c.id = m.conversation_id
               JOIN streams s ON s.kind = 'conversation' AND s.id = c.id
               LEFT JOIN readings r ON r.account_id = m.member_id AND r.conversation_id = m.conversation_id
               WHERE m.member_id = $1 AND m.left_seq IS NULL AND c.archived_at IS NULL AND c.id > $2
                 AND (s.head > COALESCE(r.read_seq, 0)
                      OR EXISTS (SELECT 1 FROM approvals a WHERE a.conversation_id = c.id AND a.state = 'held'
                                   AND a.author_id <> $1))
               ORDER BY c.id LIMIT $3) AS q
         ORDER BY q.id",
        &[(&account).into(), after.into(), limit.into(), MAX_COUNT.into()],
    )?;
    let unread = |mut row: crate::Row| {
        let (read_seq, asked_seq, held) = (row.int("read_seq")?, row.int("asked_seq")?, row.int("held")?);
        Ok(UnreadConversation {
            conversation: ConversationId(row.uuid("id")?),
            name: row.opt_text("name")?.unwrap_or_default(),
            kind: row.text("kind")?,
            read_seq,
            count: row.int("unread")?,
            asked: asked_seq > read_seq || held > 0,
            held,
        })
    };
    rows.into_iter().map(unread).collect()
}

/// A person has read a conversation up to here; it never goes back. Says how far it has.
pub fn read_through(
    tx: &mut dyn Tx,
    account: AccountId,
    conversation: ConversationId,
    seq: i64,
) -> Result<i64, StoreError> {
    let seq = seq.min(tx.head(conversation.into())?);
    let row = tx.first(
        "INSERT INTO readings (account_id, conversation_id, read_seq) VALUES ($1, $2, $3)
         ON CONFLICT (account_id, conversation_id) DO UPDATE SET
             read_seq = CASE WHEN readings.read_seq > $3 THEN readings.read_seq ELSE $3 END,
             asked_at = CASE WHEN readings.asked_seq > $3 THEN readings.asked_at END
         RETURNING read_seq",
        &[(&account).into(), (&conversation).into(), seq.into()],
    )?;
    row.map_or(Ok(seq), |mut row| row.int("read_seq"))
}

/// The place of a message, for whoever has read up to it.
pub fn place_of(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    event: EventId,
) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT seq FROM events WHERE id = $1 AND conversation_id = $2";
    tx.first(sql, &[(&event).into(), (&conversation).into()])?.map(|mut row| row.int("seq")).transpose()
}

/// A message is for these people: it names them, or is in a conversation of two.
pub fn ask(
    tx: &mut dyn Tx,
    people: &[AccountId],
    conversation: ConversationId,
    seq: i64,
    now: i64,
) -> Result<(), StoreError> {
    for account in people {
        tx.execute(
            "INSERT INTO readings (account_id, conversation_id, asked_seq, asked_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (account_id, conversation_id) DO UPDATE SET
                 asked_seq = $3, asked_at = COALESCE(readings.asked_at, $4)",
            &[(account).into(), (&conversation).into(), seq.into(), now.into()],
        )?;
    }
    Ok(())
}

/// Somebody who is away and is to be told of what waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    pub email: String,
    /// The conversations where something waits, the latest first.
    pub waits: Vec<(ConversationId, String)>,
}

/// People for whom something has waited since before `before`, who were not seen since `unseen_since`, and were not told of
/// anything since `untold_since`: some of them.
pub fn find_away(
    tx: &mut dyn Tx,
    before: i64,
    unseen_since: i64,
    untold_since: i64,
    limit: i64,
) -> Result<Vec<AccountId>, StoreError> {
    tx.query(
        "SELECT DISTINCT r.account_id FROM readings r JOIN accounts a ON a.id = r.account_id
         WHERE r.asked_at IS NOT NULL AND r.asked_at <= $1 AND a.mails = 1 AND a.deleted_at IS NULL
           AND a.disabled_at IS NULL AND a.seen_at < $2 AND a.mailed_at < $3 LIMIT $4",
        &[before.into(), unseen_since.into(), untold_since.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(AccountId(row.uuid("account_id")?)))
    .collect()
}

/// Takes it on to tell one of them, unless somebody else has or it is here again, and says what waits, at most
/// so many conversations.
pub fn take_away(
    tx: &mut dyn Tx,
    account: AccountId,
    unseen_since: i64,
    untold_since: i64,
    now: i64,
    limit: i64,
) -> Result<Option<Away>, StoreError> {
    let row = tx.first(
        "UPDATE accounts SET mailed_at = $2 WHERE id = $1 AND mails = 1 AND seen_at < $3 AND mailed_at < $4
             AND deleted_at IS NULL AND disabled_at IS NULL RETURNING email",
        &[(&account).into(), now.into(), unseen_since.into(), untold_since.into()],
    )?;
    let Some(mut row) = row else { return Ok(None) };
    let email = row.text("email")?;
    let waits = tx.query(
        "SELECT r.conversation_id, c.name FROM readings r JOIN conversations c ON c.id = r.conversation_id
         JOIN members m ON m.conversation_id = r.conversation_id AND m.member_id = r.account_id AND m.left_seq IS NULL
         WHERE r.account_id = $1 AND r.asked_at IS NOT NULL ORDER BY r.asked_at DESC LIMIT $2",
        &[(&account).into(), limit.into()],
    )?;
    let waits = waits
        .into_iter()
        .map(|mut row| Ok((ConversationId(row.uuid("conversation_id")?), row.text("name")?)));
    let waits = waits.collect::<Result<Vec<_>, StoreError>>()?;
    // It is told once of each.
    tx.execute(
        "UPDATE readings SET asked_at = NULL WHERE account_id = $1 AND asked_at IS NOT NULL",
        &[(&account).into()],
    )?;
    Ok(Some(Away { email, waits }).filter(|away| !away.waits.is_empty()))
}
