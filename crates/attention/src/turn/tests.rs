use super::*;
use proptest::prelude::*;

fn source(author: &str) -> Source {
    Source { author: author.into(), conversation: "c1".into() }
}

fn piece(event_id: &str) -> Piece<&str> {
    Piece { event_id: event_id.into(), body: event_id }
}

fn said<'a>(author: &str, mode: Mode, event_id: &'a str) -> Arrival<&'a str> {
    Arrival::Message(source(author), mode, piece(event_id))
}

fn bodies(turn: Option<Assembled<&str>>) -> Option<Vec<&str>> {
    turn.map(|turn| turn.pieces.into_iter().map(|piece| piece.body).collect())
}

/// Checks the specification's example of five messages.
#[test]
fn somebody_types_in_pieces() {
    let mut assembly = Assembly::default();
    let text = ["when someone types", "in", "pieces", "like this", "the agent should wait"];
    for (now_ms, line) in (0..).step_by(2_000).zip(text) {
        assert_eq!(assembly.due(now_ms), None);
        assert_eq!(assembly.take(said("ann", Mode::Buffered, line), now_ms), None);
    }
    assert_eq!(assembly.next_due_ms(), Some(11_000));
    assert_eq!(assembly.due(10_999), None);
    assert_eq!(bodies(assembly.due(11_000)), Some(text.to_vec()));
    assert_eq!((assembly.due(11_000), assembly.next_due_ms()), (None, None));
}

#[test]
fn no_longer_than_thirty_seconds() {
    let mut assembly = Assembly::default();
    let ids: Vec<_> = (0..40).map(|number| number.to_string()).collect();
    for (now_ms, id) in (0..30_000).step_by(1_000).zip(&ids) {
        assembly.take(said("ann", Mode::Buffered, id), now_ms);
    }
    assert_eq!(assembly.next_due_ms(), Some(30_000));
    assert_eq!(bodies(assembly.due(30_000)).map(|pieces| pieces.len()), Some(30));
}

#[test]
fn typing_keeps_it_waiting() {
    let mut assembly = Assembly::default();
    assembly.take(said("ann", Mode::Buffered, "1"), 0);
    assembly.take(Arrival::Typing(source("ann")), 2_500);
    assembly.take(Arrival::Typing(source("bob")), 5_000);
    assert_eq!(assembly.due(5_499), None);
    assert_eq!(bodies(assembly.due(5_500)), Some(vec!["1"]));
}

#[test]
fn each_author_and_conversation_for_itself() {
    let mut assembly = Assembly::default();
    let elsewhere = Source { conversation: "c2".into(), ..source("ann") };
    assembly.take(said("ann", Mode::Buffered, "1"), 0);
    assembly.take(said("bob", Mode::Buffered, "2"), 0);
    assembly.take(Arrival::Message(elsewhere, Mode::Buffered, piece("3")), 0);
    assembly.take(said("ann", Mode::Buffered, "4"), 0);
    assert_eq!(bodies(assembly.due(3_000)), Some(vec!["1", "4"]));
    assert_eq!(bodies(assembly.due(3_000)), Some(vec!["2"]));
    assert_eq!(bodies(assembly.due(3_000)), Some(vec!["3"]));
}

#[test]
fn what_is_immediate_goes_with_what_waited_before_it() {
    let mut assembly = Assembly::default();
    assembly.take(said("ann", Mode::Buffered, "1"), 0);
    assembly.take(said("ann", Mode::Immediate, "2"), 1_000);
    assert_eq!(bodies(assembly.due(1_000)), Some(vec!["1", "2"]));
}

#[test]
fn edits_replace_and_deletions_remove() {
    let mut assembly = Assembly::default();
    let edit = |supersedes: &str, event_id| Arrival::Edited {
        supersedes: supersedes.into(),
        source: source("ann"),
        mode: Mode::Buffered,
        piece: piece(event_id),
    };
    for id in ["1", "2", "3"] {
        assembly.take(said("ann", Mode::Buffered, id), 0);
    }
    assert_eq!(assembly.take(edit("1", "1b"), 1_000), None);
    assert_eq!(assembly.take(edit("1b", "1c"), 1_000), None);
    assert_eq!(assembly.take(Arrival::Deleted("2".into()), 1_000), None);
    assert_eq!(bodies(assembly.due(4_000)), Some(vec!["1c", "3"]));
    // A turn that has left can no longer be changed.
    assert_eq!(assembly.take(edit("3", "3b"), 5_000), Some(edit("3", "3b")));
    assert_eq!(assembly.take(Arrival::Deleted("3".into()), 5_000), Some(Arrival::Deleted("3".into())));
    // A turn whose pieces are all deleted is dropped.
    assembly.take(said("ann", Mode::Buffered, "4"), 6_000);
    assembly.take(Arrival::Deleted("4".into()), 6_000);
    assert_eq!((assembly.waiting(), assembly.next_due_ms()), (0, None));
}

#[test]
fn only_content_enters_and_only_once() {
    let mut assembly = Assembly::default();
    for mode in [Mode::Notify, Mode::ToolMailbox, Mode::Digest, Mode::Silent] {
        assert_eq!(assembly.take(said("ann", mode, "1"), 0), Some(said("ann", mode, "1")));
    }
    assembly.take(said("ann", Mode::Buffered, "1"), 0);
    assembly.take(said("ann", Mode::Buffered, "1"), 2_000);
    assert_eq!(bodies(assembly.due(3_000)), Some(vec!["1"]));
}

#[test]
fn a_turn_that_was_broken_off_is_merged() {
    let mut assembly = Assembly::default();
    assembly.take(said("ann", Mode::Buffered, "1"), 0);
    let running = assembly.due(3_000).unwrap();
    assembly.take(said("ann", Mode::Buffered, "2"), 4_000);
    assembly.give_back(running, 4_000);
    assert_eq!(bodies(assembly.due(7_000)), Some(vec!["1", "2"]));
    // The wait does not start again.
    assembly.take(said("ann", Mode::Buffered, "3"), 10_000);
    let running = assembly.due(13_000).unwrap();
    assembly.take(said("ann", Mode::Buffered, "4"), 39_000);
    assembly.give_back(running, 39_000);
    assert_eq!(assembly.next_due_ms(), Some(40_000));
}

proptest! {
    /// Checks that each piece comes out once, in order and in time, and that the number of waiting pieces
    /// stays bounded.
    #[test]
    fn nothing_is_lost_doubled_or_kept(
        steps in prop::collection::vec((0i64..4_000, 0usize..300, any::<bool>()), 1..600),
    ) {
        let mut assembly = Assembly::default();
        let (mut now_ms, mut out, mut arrived) = (0, vec![], vec![]);
        for (number, (passed, author, at_once)) in steps.into_iter().enumerate() {
            now_ms += passed / 8;
            let mode = if at_once && number % 5 == 0 { Mode::Immediate } else { Mode::Buffered };
            arrived.push((author, number, now_ms));
            let piece = Piece { event_id: number.to_string(), body: number };
            assembly.take(Arrival::Message(source(&author.to_string()), mode, piece), now_ms);
            prop_assert!(assembly.waiting() <= MOST_TURNS + 1);
            while let Some(turn) = assembly.due(now_ms) {
                prop_assert!(!turn.pieces.is_empty() && turn.pieces.len() <= MOST_PIECES);
                out.extend(turn.pieces.iter().map(|piece| (turn.source.author.clone(), piece.body, now_ms)));
            }
            prop_assert!(assembly.next_due_ms().is_none_or(|due| due > now_ms && due <= now_ms + LONGEST_MS));
        }
        while let Some(turn) = assembly.due(now_ms + LONGEST_MS) {
            out.extend(turn.pieces.iter().map(|piece| (turn.source.author.clone(), piece.body, now_ms)));
        }
        prop_assert_eq!(out.len(), arrived.len());
        for author in 0..300usize {
            let name = author.to_string();
            let left: Vec<_> = out.iter().filter(|(who, ..)| *who == name).map(|(_, body, _)| *body).collect();
            let came = arrived.iter().filter(|(who, ..)| *who == author).map(|(_, number, _)| *number);
            let came: Vec<_> = came.collect();
            prop_assert_eq!(left, came);
        }
    }
}

#[test]
fn what_comes_again_after_an_edit_is_there_once() {
    let edited = |supersedes: &str, now| Arrival::Edited {
        supersedes: supersedes.into(),
        source: source("ann"),
        mode: Mode::Buffered,
        piece: piece(now),
    };
    let mut assembly = Assembly::default();
    for _ in 0..2 {
        for arrival in
            [said("ann", Mode::Buffered, "1"), edited("1", "2"), edited("1", "3"), edited("2", "3")]
        {
            assert_eq!(assembly.take(arrival, 0), None);
        }
    }
    assert_eq!(bodies(assembly.clone().due(QUIET_MS)), Some(vec!["3"]));
    // The message is deleted under its first id.
    assert_eq!(assembly.take(Arrival::Deleted("1".into()), 0), None);
    assert_eq!(assembly.waiting(), 0);
}
