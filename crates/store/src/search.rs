//! Finding messages by their words. The one area where the two databases are asked differently: SQLite has FTS5,
//! PostgreSQL its text search. Both find messages that hold all words asked for, whatever their letter case; what a word
//! is, is decided here, because their own ideas of it differ.

use crate::{Kind, StoreError, Tx, TxExt};
use chorus_protocol::ids::{EventId, Principal};

/// The most words of a question.
const MAX_WORDS: usize = 20;

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

/// What `who` may read: in conversations where it is a member, and where only its stays count, what was said during them,
/// both at first and at last.
macro_rules! readable {
    ($search:literal) => {
        concat!(
            "SELECT e.id FROM search s JOIN events e ON ",
            $search,
            "JOIN members m ON m.conversation_id = e.conversation_id AND m.member_id = $1 AND m.left_seq IS NULL
             JOIN conversations c ON c.id = e.conversation_id
             WHERE e.id < $3 AND (c.history = 'all' OR (EXISTS
                 (SELECT 1 FROM members w WHERE w.conversation_id = e.conversation_id AND w.member_id = $1
                    AND e.seq > w.joined_seq AND (w.left_seq IS NULL OR e.seq <= w.left_seq))
               AND NOT EXISTS
                 (SELECT 1 FROM events d WHERE d.target_id = e.id AND d.kind = 'edit'
                    AND NOT EXISTS (SELECT 1 FROM events n WHERE n.target_id = e.id AND n.kind = 'edit' AND n.seq > d.seq)
                    AND NOT EXISTS (SELECT 1 FROM members w WHERE w.conversation_id = e.conversation_id
                        AND w.member_id = $1 AND d.seq > w.joined_seq AND (w.left_seq IS NULL OR d.seq <= w.left_seq)))))
             ORDER BY e.id DESC LIMIT $4"
        )
    };
}

/// Messages that hold all words of this text and that `who` may read: the newest first, before the event `before`.
pub fn find(
    tx: &mut dyn Tx,
    who: Principal,
    text: &str,
    before: Option<EventId>,
    limit: i64,
) -> Result<Vec<EventId>, StoreError> {
    let mut words = words(text);
    words.truncate(MAX_WORDS);
    if words.is_empty() {
        return Ok(vec![]);
    }
    // Ids of events grow with time, so that the greatest is the newest.
    let before = before.map_or([0xff; 16], |id| *id.0.as_bytes());
    let (sql, question) = match tx.kind() {
        Kind::Sqlite => (
            readable!("e.rowid = s.rowid AND s.content MATCH $2 "),
            // Each word a quoted string: nothing in it is FTS5's own language.
            words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" "),
        ),
        Kind::Postgres => {
            (readable!("e.id = s.event_id AND s.content @@ plainto_tsquery('simple', $2) "), words.join(" "))
        }
    };
    tx.query(sql, &[(&who.uuid()).into(), question.as_str().into(), before.as_slice().into(), limit.into()])?
        .into_iter()
        .map(|mut row| Ok(EventId(row.uuid(0)?)))
        .collect()
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
