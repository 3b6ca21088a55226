//! Streams of exports that name them by their id alone: each gets the kind of the table in which its id is found.

use crate::streams::StreamKey;
use crate::{StoreError, Tx};

/// Writes a row of such an export, whose columns are the id and the head.
pub(super) const INSERT: &str = "INSERT INTO streams (kind, id, head) VALUES ('unsorted', $1, $2)";

/// An id that stands in two tables gives the stream to both. No number is given out twice so, and a gap does no harm.
const SORT: [&str; 4] = [
    "INSERT INTO streams (kind, id, head)
     SELECT 'inbox', s.id, s.head FROM streams s JOIN agents a ON a.id = s.id WHERE s.kind = 'unsorted'",
    "INSERT INTO streams (kind, id, head)
     SELECT 'conversation', s.id, s.head FROM streams s JOIN conversations c ON c.id = s.id WHERE s.kind = 'unsorted'",
    "INSERT INTO streams (kind, id, head)
     SELECT 'work', s.id, s.head FROM streams s JOIN work_streams w ON w.id = s.id WHERE s.kind = 'unsorted'",
    "INSERT INTO streams (kind, id, head)
     SELECT 'growth', g.conversation_id, MAX(g.version) FROM growing g
     WHERE EXISTS (SELECT 1 FROM streams s WHERE s.kind = 'unsorted') GROUP BY g.conversation_id",
];

/// Sorts all rows that [`INSERT`] wrote, and does nothing without any.
pub(super) fn sort(tx: &mut dyn Tx) -> Result<(), StoreError> {
    for sql in SORT {
        tx.execute(sql, &[])?;
    }
    let log = "INSERT INTO streams (kind, id, head)
               SELECT 'log', s.id, s.head FROM streams s WHERE s.kind = 'unsorted' AND s.id = $1";
    tx.execute(log, &[(&StreamKey::LOG.id).into()])?;
    tx.execute("DELETE FROM streams WHERE kind = 'unsorted'", &[])?;
    Ok(())
}
