//! Finding messages by their words. The one area where the two databases are asked differently: SQLite has FTS5,
//! PostgreSQL GIN. Both find messages that hold all words asked for, whatever their letter case; what a word is, is decided
//! here, and what is indexed are numbers made of a conversation and a word. So a search goes through what was said in the
//! caller's own conversations and nowhere else.

use crate::members::{self, MembershipInterval};
use crate::{Kind, StoreError, Tx, TxExt, conversations, log, settings};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::words::EventKind;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The most words of a question.
const MAX_WORDS: usize = 10;
/// So many conversations are searched together.
const TOGETHER: usize = 100;

/// The words of a text, in lower case. Scripts without spaces between words are taken sign by sign.
pub(crate) fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (vec![], String::new());
    for sign in text.chars() {
        let alone = matches!(sign, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
        let alone = alone && sign.is_alphanumeric();
        if (alone || !sign.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if alone {
            words.push(sign.to_string());
        } else if sign.is_alphanumeric() {
            word.extend(sign.to_lowercase());
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// Returns the search term of a word in a conversation. It differs between conversations, so that a search
/// neither finds nor scans messages of other conversations, and reveals nothing about them by its results or
/// its duration.
fn term(conversation: ConversationId, word: &str) -> i64 {
    let digest = Sha256::new().chain_update(conversation.as_bytes()).chain_update(word).finalize();
    digest.iter().take(8).fold(0, |term, byte| term << 8 | i64::from(*byte))
}

/// The terms of these words, each once, as the database is told them: SQLite takes words, PostgreSQL numbers.
fn terms(kind: Kind, conversation: ConversationId, words: &[String]) -> Vec<String> {
    let mut terms: Vec<_> = words.iter().map(|word| term(conversation, word)).collect();
    terms.sort_unstable();
    terms.dedup();
    match kind {
        Kind::Sqlite => terms.iter().map(|term| format!("{term:016x}")).collect(),
        Kind::Postgres => terms.iter().map(ToString::to_string).collect(),
    }
}

/// Makes a message of this conversation findable by the words of this text, and by no others it had before.
pub(crate) fn put(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    event: EventId,
    text: &str,
) -> Result<(), StoreError> {
    remove(tx, event)?;
    let sql = match tx.kind() {
        Kind::Sqlite => "INSERT INTO search (rowid, terms) SELECT rowid, $2 FROM events WHERE id = $1",
        Kind::Postgres => {
            "INSERT INTO search (event_id, terms) VALUES ($1, CAST(string_to_array($2, ' ') AS BIGINT[]))"
        }
    };
    let terms = terms(tx.kind(), conversation, &words(text)).join(" ");
    tx.execute(sql, &[(&event).into(), terms.as_str().into()])?;
    Ok(())
}

/// Makes a message unfindable.
pub(crate) fn remove(tx: &mut dyn Tx, event: EventId) -> Result<(), StoreError> {
    let sql = match tx.kind() {
        Kind::Sqlite => "DELETE FROM search WHERE rowid = (SELECT rowid FROM events WHERE id = $1)",
        Kind::Postgres => "DELETE FROM search WHERE event_id = $1",
    };
    tx.execute(sql, &[(&event).into()])?;
    Ok(())
}

/// The setting that holds the progress of [`index_imported`]: messages from this id on are indexed. Absent when all are.
const INDEXED_FROM: &str = "search_indexed_from";

/// Indexes the messages of an imported database, newest first: an export holds no search index. Goes through `limit` events, and
/// returns whether there are more.
pub fn index_imported(tx: &mut dyn Tx, limit: i64) -> Result<bool, StoreError> {
    let Some(from) = settings::get(tx, INDEXED_FROM)? else { return Ok(false) };
    let mut from = Uuid::try_parse(&from).map_err(StoreError::unexpected)?;
    let sql = "SELECT id, conversation_id, kind FROM events WHERE id < $1 ORDER BY id DESC LIMIT $2";
    let events = tx.query(sql, &[(&from).into(), limit.into()])?;
    let more = events.len() as i64 == limit;
    for mut row in events {
        from = row.uuid("id")?;
        let (event, conversation) = (EventId(from), ConversationId(row.uuid("conversation_id")?));
        if row.text("kind")? == EventKind::Message.as_str() {
            match text_of(tx, event)? {
                Some(text) => put(tx, conversation, event, &text)?,
                None => remove(tx, event)?,
            }
        }
    }
    settings::set_or_remove(tx, INDEXED_FROM, more.then(|| from.to_string()).as_deref())?;
    Ok(more)
}

/// Skips the event that [`index_imported`] would begin with. Returns its id.
pub fn skip_imported(tx: &mut dyn Tx) -> Result<Option<String>, StoreError> {
    let Some(from) = settings::get(tx, INDEXED_FROM)? else { return Ok(None) };
    let from = Uuid::try_parse(&from).map_err(StoreError::unexpected)?;
    let sql = "SELECT id FROM events WHERE id < $1 ORDER BY id DESC LIMIT 1";
    let skipped = tx.first(sql, &[(&from).into()])?.map(|mut row| row.uuid("id")).transpose()?;
    let skipped = skipped.map(|event| event.to_string());
    settings::set_or_remove(tx, INDEXED_FROM, skipped.as_deref())?;
    Ok(skipped)
}

/// Returns the current text of a message, or `None` if it was deleted.
fn text_of(tx: &mut dyn Tx, message: EventId) -> Result<Option<String>, StoreError> {
    let mut said = conversations::event_by_id(tx, message)?;
    for change in log::changes(tx, &[MembershipInterval { from: 0, to: None }], &[message])? {
        match change.kind {
            EventKind::Delete => return Ok(None),
            EventKind::Edit => said = Some(change),
            _ => {}
        }
    }
    let Some(said) = said else { return Ok(None) };
    let body: Value = serde_json::from_str(&said.body).map_err(StoreError::unexpected)?;
    Ok(Some(body["content"].as_str().unwrap_or_default().to_owned()))
}

/// Of the messages found, the newest that `who` may read: in conversations where it is a member, and where only its stays
/// count, what was said during them, both at first and at last.
macro_rules! newest_readable {
    ($found:literal, $joined:literal, $place:literal) => {
        concat!(
            $found,
            $joined,
            " AND (e.seq > c.open_from OR (EXISTS
                 (SELECT 1 FROM members w WHERE w.conversation_id = e.conversation_id AND w.member_id = $1
                    AND e.seq > w.joined_seq AND (w.left_seq IS NULL OR e.seq <= w.left_seq))
               AND NOT EXISTS
                 (SELECT 1 FROM events d WHERE d.target_id = e.id AND d.kind = 'edit' AND d.seq <= c.open_from
                    AND NOT EXISTS (SELECT 1 FROM events n WHERE n.target_id = e.id AND n.kind = 'edit' AND n.seq > d.seq)
                    AND NOT EXISTS (SELECT 1 FROM members w WHERE w.conversation_id = e.conversation_id
                        AND w.member_id = $1 AND d.seq > w.joined_seq AND (w.left_seq IS NULL OR d.seq <= w.left_seq)))))
             ORDER BY ",
            $place,
            " DESC LIMIT $4"
        )
    };
}

// In the order of rows, in which alone FTS5 reads without sorting; it is that of ids but for those of one moment.
const SQLITE: &str = newest_readable!(
    "SELECT e.id, e.rowid AS place FROM search s
     CROSS JOIN events e ON e.rowid = s.rowid
     CROSS JOIN conversations c ON c.id = e.conversation_id
     CROSS JOIN members m ON m.conversation_id = e.conversation_id AND m.member_id = $1 AND m.left_seq IS NULL ",
    "WHERE s.search MATCH $2 AND s.rowid < $5 AND e.id < $3",
    "s.rowid"
);
// Found first and sorted then: a planner that hopes for few rows would go through everybody's in their order.
const POSTGRES: &str = newest_readable!(
    "WITH found AS MATERIALIZED
         (SELECT s.event_id FROM unnest(string_to_array($2, ',')) AS q (terms)
          JOIN search s ON s.terms @> CAST(string_to_array(q.terms, ' ') AS BIGINT[]) WHERE s.event_id < $3)
     SELECT e.id, CAST(0 AS BIGINT) AS place FROM found s
     JOIN events e ON e.id = s.event_id
     JOIN conversations c ON c.id = e.conversation_id
     JOIN members m ON m.conversation_id = e.conversation_id AND m.member_id = $1 AND m.left_seq IS NULL ",
    "WHERE TRUE",
    "e.id"
);

/// The row of an event that `who` may read: the place of a page before it. Any other id is a place by itself, and whether
/// there is such an event does not tell.
const ROW_OF_READABLE: &str =
    "SELECT e.rowid AS place FROM events e JOIN conversations c ON c.id = e.conversation_id
     JOIN members m ON m.conversation_id = e.conversation_id AND m.member_id = $1 AND m.left_seq IS NULL
     WHERE e.id = $2 AND (e.seq > c.open_from OR EXISTS
         (SELECT 1 FROM members w WHERE w.conversation_id = e.conversation_id AND w.member_id = $1
            AND e.seq > w.joined_seq AND (w.left_seq IS NULL OR e.seq <= w.left_seq)))";

/// A page of search results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The newest first.
    pub events: Vec<EventId>,
    /// The `before` with which the search goes on, if there is more to be found.
    pub next: Option<EventId>,
}

/// Messages that hold all words of this text and that `who` may read, in one conversation or in all: the newest first,
/// before the place of the id `before`. Nothing but what `who` may read tells on what is found, nor on where it ends.
pub fn page(
    tx: &mut dyn Tx,
    who: Principal,
    within: Option<ConversationId>,
    text: &str,
    before: Option<EventId>,
    limit: i64,
) -> Result<Found, StoreError> {
    let mut words = words(text);
    words.truncate(MAX_WORDS);
    if words.is_empty() {
        return Ok(Found::default());
    }
    let conversations = match within {
        Some(one) => vec![one],
        None => members::conversations_of(tx, who)?,
    };
    let (kind, who) = (tx.kind(), who.uuid());
    let (sql, and, or) = match kind {
        Kind::Sqlite => (SQLITE, " AND ", ") OR ("),
        Kind::Postgres => (POSTGRES, " ", ","),
    };
    let mut from = before.map_or([0xff; 16], |id| *id.0.as_bytes());
    let mut row = None;
    if let (Kind::Sqlite, Some(before)) = (kind, before)
        && let Some(mut found) = tx.first(ROW_OF_READABLE, &[(&who).into(), (&before).into()])?
    {
        (row, from) = (Some(found.int("place")?), [0xff; 16]);
    }
    let mut found: Vec<(i64, EventId)> = vec![];
    for some in conversations.chunks(TOGETHER) {
        let questions: Vec<_> = some.iter().map(|id| terms(kind, *id, &words).join(and)).collect();
        let mut question = questions.join(or);
        if kind == Kind::Sqlite {
            question = format!("({question})");
        }
        // One more than asked for tells whether there is a next page.
        let mut params =
            vec![(&who).into(), question.as_str().into(), from.as_slice().into(), (limit + 1).into()];
        if kind == Kind::Sqlite {
            params.push(row.unwrap_or(i64::MAX).into());
        }
        tx.each(sql, &params, &mut |mut row| {
            found.push((row.int("place")?, EventId(row.uuid("id")?)));
            Ok(true)
        })?;
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(limit as usize + 1);
    }
    let more = found.len() as i64 > limit;
    let mut events: Vec<_> = found.into_iter().map(|(_, id)| id).collect();
    events.truncate(limit as usize);
    let next = events.last().copied().filter(|_| more);
    Ok(Found { events, next })
}

#[cfg(test)]
mod tests {
    use super::{SQLITE, words};
    use crate::push::plan_of;

    /// A search uses the index of terms in its order and scans nothing else.
    #[tokio::test]
    async fn a_search_begins_with_the_words() {
        let plan = plan_of(SQLITE, 5).await;
        assert!(plan.starts_with("SCAN s VIRTUAL TABLE INDEX"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE") && plan.matches("SCAN").count() == 1, "{plan}");
    }

    #[test]
    fn what_a_word_is() {
        for (text, expected) in [
            ("Hello, World!", vec!["hello", "world"]),
            ("a@b.example/x-y_z", vec!["a", "b", "example", "x", "y", "z"]),
            ("喝杯coffee吗", vec!["喝", "杯", "coffee", "吗"]),
            ("ÉTÉ \"or\" (NEAR)*", vec!["été", "or", "near"]),
            (" \n…", vec![]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
