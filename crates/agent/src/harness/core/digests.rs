//! Digests, and knocks that were not followed up. They are shown before the next message that is answered, and
//! never start a turn of their own.
//!
//! They stay in the journal until the result of a turn that showed them is recorded, so that neither a restart
//! nor a failed or cancelled turn loses one. A digest is shown twice only if the process dies between the two
//! journal records.

use super::{Command, Core};
use crate::harness::ledger::{Ledger, Record};
use crate::harness::turn::Turn;
use chorus_protocol::words::Mode;
use std::collections::BTreeMap;

/// The longest digest that is kept, in characters.
const MAX_CHARACTERS: usize = 2000;

/// Returns the journal record of a message that is a digest.
fn record(turn: &Turn) -> Option<Record> {
    let is_one = turn.mode == Some(Mode::Digest) && !turn.text.is_empty();
    let text = || turn.text.chars().take(MAX_CHARACTERS).collect();
    is_one.then(|| Record::Digest { id: turn.id.clone(), text: text() })
}

/// Returns the journal record of a knock whose text is still withheld.
fn knock(turn: &Turn) -> Option<Record> {
    let knock = turn.knock.as_deref().filter(|_| turn.withheld)?;
    let line = crate::harness::prompt::knock_line(&turn.message_id, knock);
    let text = line.chars().take(MAX_CHARACTERS).collect();
    Some(Record::Knock { id: turn.id.clone(), text })
}

/// The task that shows each digest or knock, by its id.
#[derive(Debug, Default)]
pub(super) struct Digests(BTreeMap<String, u64>);

impl Digests {
    /// Assigns all digests that no other task shows to this task.
    pub(super) fn of(&mut self, ledger: &Ledger, task: u64) -> Vec<String> {
        let mut texts = vec![];
        for (id, text) in ledger.digests() {
            if *self.0.entry(id.clone()).or_insert(task) == task {
                texts.push(text.clone());
            }
        }
        texts
    }

    /// Releases the digests of a task and returns their ids.
    pub(super) fn release(&mut self, task: u64) -> Vec<String> {
        self.0.extract_if(.., |_, by| *by == task).map(|(id, _)| id).collect()
    }
}

impl Core {
    /// Stores a message that is a digest.
    pub(super) fn keep_digest(&mut self, turn: &Turn, out: &mut Vec<Command>) {
        // A repeated knock may be followed up this time.
        if turn.withheld && self.ledger.digests().any(|(id, _)| *id == turn.id) {
            self.write(Record::Told { digests: vec![turn.id.clone()] }, out);
        }
        if let Some(record) = record(turn) {
            self.write(record, out);
        }
    }

    /// Stores the knock of a message that is not processed here.
    pub(super) fn keep_knock(&mut self, turn: &Turn, out: &mut Vec<Command>) {
        if let Some(record) = knock(turn) {
            self.write(record, out);
        }
    }

    /// Marks the digests of a completed turn as shown. After a failure they are kept, because they may not
    /// have been seen.
    pub(super) fn end_digests(&mut self, task: u64, failed: bool, out: &mut Vec<Command>) {
        let told = self.digests.release(task);
        if !told.is_empty() && !failed {
            self.write(Record::Told { digests: told }, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::ledger::MAX_DIGESTS;
    use crate::harness::prompt::after_digests;
    use serde_json::json;

    fn turn(mode: &str, id: usize, text: &str) -> Turn {
        let delivery = json!({"eventId": format!("evt_{id}"), "conversation": {"kind": "system"},
            "target": {"directedness": "ambient"}, "content": [{"type": "text", "text": text}],
            "attention": {"policy": "must_not_respond", "reason": "digest"}, "injection": {"mode": mode},
            "reliability": {"idempotencyKey": "evt_1:lead"}});
        Turn::delivery(delivery).unwrap()
    }

    fn keep(ledger: &mut Ledger, n: usize) {
        let turn = turn("digest", n, &format!("{n} messages in this channel\nC2A EVENT"));
        if let Some(record) = record(&turn) {
            ledger.apply(record);
        }
    }

    #[test]
    fn the_newest_and_nothing_else() {
        let (mut digests, mut ledger) = (Digests::default(), Ledger::default());
        assert!(digests.of(&ledger, 1).is_empty());
        assert_eq!(record(&turn("buffered", 0, "no digest")), None);
        for n in 0..MAX_DIGESTS + 2 {
            keep(&mut ledger, n);
            // The same digest comes again.
            keep(&mut ledger, n);
        }
        let prompt = after_digests(&digests.of(&ledger, 1), "asked".into(), "d");
        assert!(
            prompt.starts_with("C2A DIGEST\n----- digest d\n2 messages") && prompt.ends_with("asked"),
            "{prompt}"
        );
        assert!(prompt.contains("6 messages") && prompt.contains("\\C2A EVENT"), "{prompt}");
        assert!(!prompt.contains("1 messages"), "{prompt}");
        assert_eq!(prompt.matches("6 messages").count(), 1);
    }

    #[test]
    fn each_is_shown_by_one_task_at_a_time() {
        let (mut digests, mut ledger) = (Digests::default(), Ledger::default());
        keep(&mut ledger, 1);
        let first = digests.of(&ledger, 1);
        assert!(first[0].contains("1 messages"));
        assert!(digests.of(&ledger, 2).is_empty());
        keep(&mut ledger, 2);
        let other = digests.of(&ledger, 2);
        assert!(other.len() == 1 && other[0].contains("2 messages"), "{other:?}");
        // The first task was cancelled, so the next one shows its digest.
        assert_eq!(digests.release(1).len(), 1);
        assert_eq!(digests.of(&ledger, 3), first);
        ledger.apply(Record::Told { digests: digests.release(3) });
        assert!(digests.of(&ledger, 4).is_empty());
    }
}
