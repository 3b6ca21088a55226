//! Finding messages by their words. The one area where the two databases are asked differently: SQLite has FTS5,
//! PostgreSQL its text search. Both find messages that hold all words asked for, whatever their letter case; what a word
//! is, is decided here, because their own ideas of it differ.

use crate::{Kind, Param, StoreError, Tx};
use chorus_protocol::ids::{EventId, Principal};

/// The most words of a question.
const MAX_WORDS: usize = 20;
/// How many messages one page looks at.
pub const LOOKED_AT: i64 = 1000;

/// The words of a text, in lower case. Scripts without spaces between words are taken sign by sign.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (vec![], String::new());
    for sign in text.chars() {
        let alone = matches!(sign, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
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

/// Makes a message findable by the words of this text, and by no others it had before.
pub fn put(tx: &mut dyn Tx, event: EventId, text: &str) -> Result<(), StoreError> {
    remove(tx, event)?;
    let sql = match tx.kind() {
        Kind::Sqlite => "INSERT INTO search (rowid, content) SELECT rowid, $2 FROM events WHERE id = $1",
        Kind::Postgres => "INSERT INTO search (event_id, content) VALUES ($1, to_tsvector('simple', $2))",
    };
    tx.execute(sql, &[(&event).into(), words(text).join(" ").as_str().into()])?;
    Ok(())
}

/// Makes a message unfindable.
pub fn remove(tx: &mut dyn Tx, event: EventId) -> Result<(), StoreError> {
    let sql = match tx.kind() {
        Kind::Sqlite => "DELETE FROM search WHERE rowid = (SELECT rowid FROM events WHERE id = $1)",
        Kind::Postgres => "DELETE FROM search WHERE event_id = $1",
    };
    tx.execute(sql, &[(&event).into()])?;
    Ok(())
}

/// The newest messages that hold the words, and of each whether `who` may read it: in conversations where it is a member,
/// and where only its stays count, what was said during them, both at first and at last.
macro_rules! looked_at {
    ($newest:literal, $is:literal) => {
        concat!(
            "SELECT e.id, CASE WHEN m.member_id IS NOT NULL AND (c.history = 'all' OR (EXISTS
                 (SELECT 1 FROM members w WHERE w.conversation_id = e.conversation_id AND w.member_id = $1
                    AND e.seq > w.joined_seq AND (w.left_seq IS NULL OR e.seq <= w.left_seq))
               AND NOT EXISTS
                 (SELECT 1 FROM events d WHERE d.target_id = e.id AND d.kind = 'edit'
                    AND NOT EXISTS (SELECT 1 FROM events n WHERE n.target_id = e.id AND n.kind = 'edit' AND n.seq > d.seq)
                    AND NOT EXISTS (SELECT 1 FROM members w WHERE w.conversation_id = e.conversation_id
                        AND w.member_id = $1 AND d.seq > w.joined_seq AND (w.left_seq IS NULL OR d.seq <= w.left_seq)))))
               THEN 1 ELSE 0 END
             FROM (",
            $newest,
            ") s JOIN events e ON ",
            $is,
            " JOIN conversations c ON c.id = e.conversation_id
             LEFT JOIN members m ON m.conversation_id = e.conversation_id AND m.member_id = $1 AND m.left_seq IS NULL
             ORDER BY s.place DESC"
        )
    };
}

// Ids of events grow with time, so that the greatest is the newest; and so do the places of their rows, in which order
// alone FTS5 reads without sorting.
const SQLITE: &str = looked_at!(
    "SELECT rowid AS place FROM search WHERE content MATCH $2
       AND rowid < COALESCE((SELECT b.rowid FROM events b WHERE b.id = $3), $5)
     ORDER BY rowid DESC LIMIT $4",
    "e.rowid = s.place"
);
const POSTGRES: &str = looked_at!(
    "SELECT event_id AS place FROM search WHERE content @@ plainto_tsquery('simple', $2) AND event_id < $3
     ORDER BY event_id DESC LIMIT $4",
    "e.id = s.place"
);

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The newest first.
    pub events: Vec<EventId>,
    /// The `before` with which the search goes on, if it did not come to its end.
    pub next: Option<EventId>,
}

/// Messages that hold all words of this text and that `who` may read: the newest first, before the event `before`. Of the
/// hub's messages with these words no more than [`LOOKED_AT`] are looked at, most of which may be other people's: a page
/// may hold few, or none, although there are more.
pub fn page(
    tx: &mut dyn Tx,
    who: Principal,
    text: &str,
    before: Option<EventId>,
    limit: i64,
) -> Result<Found, StoreError> {
    let mut words = words(text);
    words.truncate(MAX_WORDS);
    if words.is_empty() {
        return Ok(Found::default());
    }
    let sqlite = tx.kind() == Kind::Sqlite;
    let question = if sqlite {
        // Each word a quoted string: nothing in it is FTS5's own language.
        words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" ")
    } else {
        words.join(" ")
    };
    let (who, from) = (who.uuid(), before.map_or([0xff; 16], |id| *id.0.as_bytes()));
    let mut params =
        vec![Param::from(&who), question.as_str().into(), from.as_slice().into(), LOOKED_AT.into()];
    if sqlite {
        // Without a `before` from the end; after one that never was, nothing.
        params.push(if before.is_none() { i64::MAX } else { 0 }.into());
    }
    let (mut found, mut last, mut looked_at) = (Found::default(), None, 0);
    tx.each(if sqlite { SQLITE } else { POSTGRES }, &params, &mut |mut row| {
        if found.events.len() as i64 == limit {
            found.next = last;
            return Ok(false);
        }
        let id = EventId(row.uuid(0)?);
        found.events.extend((row.int(1)? == 1).then_some(id));
        (last, looked_at) = (Some(id), looked_at + 1);
        Ok(true)
    })?;
    if looked_at == LOOKED_AT {
        found.next = last;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::words;

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
