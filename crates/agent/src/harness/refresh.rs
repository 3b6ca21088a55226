//! Updates a turn before it runs, by the edits, deletions and additions in its conversation since it came.
//!
//! An inbox reports no edits, and a message that does not mention the agent never reaches it. Therefore the
//! conversation is read before a turn runs. Each message gets its newest text, and deleted messages are left
//! out. In a channel, the author's following messages that mention nobody are added as pieces, as long as no
//! one else has written, within the time for merging pieces, and bounded. If the author has continued after
//! the last delivered message, this module waits for a pause.
//!
//! If the conversation cannot be read, the turn runs unchanged. Nothing is stored here; an answered message
//! stays answered.

use super::core::Run;
use super::history;
use super::turn::{Back, Turn};
use crate::{Client, Retry};
use chorus_attention::turn::LONGEST_MS;
use chorus_environment::Environment;
use chorus_protocol::api::Items;
use chorus_protocol::api::events::EventView;
use chorus_protocol::mentions::mentions;
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::{AuthorKind, Disposition, EntryKind, EventKind, Mode};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The number of messages that are read, including those in threads.
const LOOKED_AT: &str = "100";

/// The limits for the number of added pieces and for their characters in total.
const MAX_ADDED: usize = 20;
const MAX_CHARACTERS: usize = 8000;

/// The time limit for reading the conversation.
const PATIENCE: Duration = Duration::from_secs(5);

/// The deleted messages of a turn, by the ids of the other side.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone(pub(super) Vec<String>);

/// Updates a turn, waiting until its author has paused for `quiet`.
pub(super) async fn refresh(
    hub: Option<&Client>,
    quiet: Duration,
    environment: &Environment,
    came: &Run,
) -> Result<Run, Gone> {
    let mut run = came.clone();
    let Some(hub) = hub.filter(|_| came.turn.kind == EntryKind::Chat) else { return Ok(run) };
    let hub = hub.clone().with_retry(Retry::ONCE);
    let (quiet_ms, begun_ms) = (i64::try_from(quiet.as_millis()).unwrap_or(i64::MAX), environment.elapsed());
    while let Some(events) = read(&hub, came).await {
        let mut now = came.clone();
        let found = apply(&mut now, &events, quiet_ms > 0);
        let mut gone = found.gone;
        for changed in &found.changed {
            if is_withdrawn(&hub, changed, came).await {
                gone.push(changed.clone());
            }
        }
        if !gone.is_empty() {
            return Err(Gone(gone));
        }
        run = now;
        let pause = found.added.map_or(0, |added| added.pause_ms(quiet_ms, environment.elapsed() - begun_ms));
        let Some(pause) = u64::try_from(pause).ok().filter(|pause| *pause > 0) else { break };
        sleep(Duration::from_millis(pause)).await;
    }
    Ok(run)
}

/// Checks whether all messages of a turn were deleted while it ran.
pub(super) async fn is_gone(hub: Option<&Client>, run: &Run) -> bool {
    let Some(hub) = hub.filter(|_| run.turn.kind == EntryKind::Chat) else { return false };
    let events = read(&hub.clone().with_retry(Retry::ONCE), run).await.unwrap_or_default();
    apply(&mut run.clone(), &events, false).gone.len() == run.turns().count()
}

/// Reads the messages of a turn's place since its first one.
async fn read(hub: &Client, run: &Run) -> Option<Vec<EventView>> {
    let place = run.earlier.first().unwrap_or(&run.turn).place.as_ref()?;
    let after = (place.sequence? - 1).to_string();
    let mut query =
        vec![("after", after.as_str()), ("limit", LOOKED_AT), ("kind", EventKind::Message.as_str())];
    query.extend(place.thread.as_deref().map(|thread| ("thread", thread)));
    let path = ["channels", &place.id, "events"];
    let page = timeout(PATIENCE, hub.api_get::<Items<EventView>>(&path, &query)).await;
    page.ok()?.ok().map(|page| page.items)
}

/// The hub's report on the deliveries of an event.
#[derive(Deserialize)]
struct Way {
    deliveries: Vec<Delivery>,
}

#[derive(Deserialize)]
struct Delivery {
    recipient: Recipient,
    disposition: Option<String>,
}

#[derive(Deserialize)]
struct Recipient {
    handle: String,
}

/// Checks whether an edited message no longer asks this agent for anything. A session is notified of that; an
/// inbox is not.
async fn is_withdrawn(hub: &Client, message: &str, run: &Run) -> bool {
    let Some(handle) = run.turn.handle.as_deref().filter(|_| matches!(run.turn.back, Back::Callback(_)))
    else {
        return false;
    };
    let way = timeout(PATIENCE, hub.api_get::<Way>(&["events", message], &[])).await;
    let Ok(Ok(Way { deliveries })) = way else { return false };
    let last = deliveries.iter().rev().find(|one| one.recipient.handle == handle);
    last.is_some_and(|one| one.disposition.as_deref() == Some(Disposition::Superseded.as_str()))
}

/// The differences between a turn and its conversation.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// The deleted messages.
    gone: Vec<String>,
    /// The messages with another text.
    changed: Vec<String>,
    /// The pieces added after the last delivered message, if the author may continue.
    added: Option<Added>,
}

/// The times of messages by the hub's clock, in milliseconds.
#[derive(Debug, PartialEq, Eq)]
struct Added {
    /// The first message of the turn.
    began: i64,
    /// The last delivered message. Its pause was over before the turn began.
    came: i64,
    /// The last added message.
    last: i64,
}

impl Added {
    /// Returns the remaining wait, `elapsed_ms` after the turn began.
    fn pause_ms(&self, quiet_ms: i64, elapsed_ms: i64) -> i64 {
        let now_ms = self.came.saturating_add(quiet_ms).saturating_add(elapsed_ms);
        let quiet_at_ms = self.last.saturating_add(quiet_ms);
        quiet_at_ms.min(self.began.saturating_add(LONGEST_MS)).saturating_sub(now_ms)
    }
}

/// Checks whether later messages without a mention must be added. In a thread and in a direct conversation
/// they are delivered anyway.
fn takes_pieces(turn: &Turn) -> bool {
    turn.author == Some(AuthorKind::Human) && turn.mode == Some(Mode::Buffered) && !history::goes_on(turn)
}

/// Updates a turn by the messages of its conversation.
fn apply(run: &mut Run, events: &[EventView], assembles: bool) -> Found {
    let thread = run.turn.place.as_ref().and_then(|place| place.thread.clone());
    let takes_pieces = assembles && takes_pieces(&run.turn);
    let (mut found, mut author, mut began_ms, mut came_ms) = (Found::default(), None, None, None);
    let (mut added, mut left) = (0, MAX_CHARACTERS);
    // The message that the next pieces belong to.
    let mut open: Option<usize> = None;
    let here = |event: &&EventView| event.kind.known() == Some(EventKind::Message) && event.thread == thread;
    for event in events.iter().filter(here) {
        let said_ms = parse_rfc3339(&event.created_at);
        let text = event.content.as_deref().filter(|_| !event.deleted);
        let own = run.turns().position(|turn| turn.stands_for(&event.event_id));
        if let Some(own) = own {
            (open, found.added) = (Some(own), None);
            (author, came_ms) = (Some(event.author.id.as_str()), said_ms);
            began_ms = began_ms.or(said_ms);
            let turn = turn_at(run, own);
            match text {
                None => found.gone.push(turn.message_id.clone()),
                Some(text) => {
                    if event.edited_at.is_some() && turn.text != text {
                        found.changed.push(turn.message_id.clone());
                    }
                    text.clone_into(&mut turn.text);
                }
            }
            continue;
        }
        let Some((own, text)) = open.zip(text).filter(|_| takes_pieces) else { continue };
        let times = began_ms.zip(came_ms).zip(said_ms).map(|((began, came), said)| (began, came, said));
        let in_time = times.filter(|(began, _, said)| said - began <= LONGEST_MS);
        let is_piece = author == Some(event.author.id.as_str()) && is_for_nobody(event, text);
        let (Some((began_ms, came_ms, last_ms)), true) = (in_time, is_piece) else {
            // Another author, another recipient or too late: the following messages are no longer pieces.
            (open, found.added) = (None, None);
            continue;
        };
        let length = text.chars().count();
        if added >= MAX_ADDED || length > left {
            (open, found.added) = (None, None);
            continue;
        }
        (added, left) = (added + 1, left - length);
        turn_at(run, own).text.extend(["\n", text]);
        found.added = Some(Added { began: began_ms, came: came_ms, last: last_ms });
    }
    found
}

fn turn_at(run: &mut Run, place: usize) -> &mut Turn {
    run.earlier.get_mut(place).unwrap_or(&mut run.turn)
}

/// Checks whether a message mentions nobody and replies to nothing, and is therefore delivered to nobody.
fn is_for_nobody(event: &EventView, text: &str) -> bool {
    let is_to = event.more.get("to").and_then(|to| to.as_array()).is_some_and(|to| !to.is_empty());
    mentions(text).is_empty() && event.reply_to.is_none() && !is_to
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::time::rfc3339;
    use serde_json::{Value, json};

    const BEGAN_MS: i64 = 1_774_000_800_000;

    fn turn(id: &str, text: &str) -> Turn {
        let data = json!({"channel": {"id": "ch_1", "kind": "channel"}, "callback": "http://hub/cb", "handle": "h1",
            "attention": {"reason": "direct_mention", "policy": "must_respond", "mode": "buffered"},
            "event": {"event_id": id, "sequence": 7, "kind": "message", "content": text,
                "author": {"id": "acc_1", "kind": "account", "handle": "anna"}}});
        Turn::chat(&data.to_string()).ok().unwrap()
    }

    fn run(ids: &[&str]) -> Run {
        let mut earlier: Vec<_> = ids.iter().map(|id| turn(id, &format!("@h1 {id}"))).collect();
        let turn = earlier.pop().unwrap();
        Run { task: 1, turn, earlier, digests: vec![], delimiter: "d".into() }
    }

    /// A message sent `after_ms` milliseconds after the first.
    fn said(id: &str, author: &str, text: &str, after_ms: i64) -> Value {
        json!({"event_id": id, "kind": "message", "author": {"id": author, "kind": "account"}, "content": text,
            "created_at": rfc3339(BEGAN_MS + after_ms)})
    }

    fn applied(run: &mut Run, events: &[Value]) -> Found {
        let events: Vec<_> =
            events.iter().map(|event| serde_json::from_value(event.clone()).unwrap()).collect();
        apply(run, &events, true)
    }

    fn texts(run: &Run) -> Vec<&str> {
        run.turns().map(|turn| turn.text.as_str()).collect()
    }

    /// The example of the C2A document, as typed in a channel.
    #[test]
    fn pieces_join_in_order() {
        let mut run = run(&["e1", "e4"]);
        let found = applied(
            &mut run,
            &[
                said("e1", "acc_1", "@h1 when someone types", 0),
                said("e2", "acc_1", "in", 700),
                said("e3", "acc_1", "pieces", 1400),
                said("e4", "acc_1", "like this @h1", 2100),
                said("e5", "acc_1", "the agent should wait", 2800),
            ],
        );
        assert_eq!(
            texts(&run),
            ["@h1 when someone types\nin\npieces", "like this @h1\nthe agent should wait"]
        );
        let added = found.added.unwrap();
        // Three seconds after e4 the author has paused for 2.3 seconds.
        assert_eq!((added.pause_ms(3000, 0), added.pause_ms(3000, 700)), (700, 0));
        assert!(Added { last: BEGAN_MS + 29_000, ..added }.pause_ms(3000, 24_900) == 0, "30 s at most");
    }

    #[test]
    fn the_newest_words_and_what_was_taken_back() {
        let mut now = run(&["e1", "e2", "e3"]);
        let mut edited = said("e1", "acc_1", "@h1 second wording", 0);
        edited["edited_at"] = rfc3339(BEGAN_MS + 1000).into();
        let mut deleted = said("e2", "acc_1", "", 100);
        (deleted["content"], deleted["deleted"]) = (Value::Null, true.into());
        let found = applied(&mut now, &[edited, deleted, said("e3", "acc_1", "@h1 e3", 200)]);
        assert_eq!(found, Found { gone: vec!["e2".into()], changed: vec!["e1".into()], added: None });
        assert_eq!(texts(&now), ["@h1 second wording", "@h1 e2", "@h1 e3"]);
        // A message that is not on the page stays unchanged.
        let mut unseen = run(&["e9"]);
        assert_eq!(applied(&mut unseen, &[said("e1", "acc_1", "@h1 x", 0)]), Found::default());
        assert_eq!(unseen, run(&["e9"]));
    }

    #[test]
    fn what_is_no_piece() {
        let first = || said("e1", "acc_1", "@h1 e1", 0);
        let with = |name: &str, value: Value| {
            let mut event = said("e2", "acc_1", "no piece", 100);
            event[name] = value;
            event
        };
        for (what, between) in [
            ("somebody else", said("e2", "acc_2", "hm", 100)),
            ("for somebody else", said("e2", "acc_1", "@bob and you?", 100)),
            ("comes by itself", said("e2", "acc_1", "and @h1", 100)),
            ("to somebody", with("to", json!(["bob"]))),
            ("an answer", with("reply_to", json!("e0"))),
            ("too late", said("e2", "acc_1", "no piece", LONGEST_MS + 1)),
            ("too long", said("e2", "acc_1", &"x".repeat(MAX_CHARACTERS + 1), 100)),
        ] {
            let mut run = run(&["e1"]);
            let found = applied(&mut run, &[first(), between, said("e3", "acc_1", "after that", 200)]);
            assert_eq!((texts(&run), found), (vec!["@h1 e1"], Found::default()), "{what}");
        }
        // Messages elsewhere, deleted messages and messages in a thread are no pieces either.
        let mut here = run(&["e1"]);
        let mut deleted = with("deleted", true.into());
        deleted["content"] = Value::Null;
        let elsewhere = with("thread", json!("e0"));
        let found = applied(&mut here, &[first(), elsewhere, deleted, said("e3", "acc_1", "a piece", 200)]);
        assert_eq!((texts(&here), found.gone.len()), (vec!["@h1 e1\na piece"], 0));
        let events = [first(), said("e2", "acc_1", "more", 100)];
        let mut thread = run(&["e1"]);
        thread.turn.place.as_mut().unwrap().thread = Some("e0".into());
        let in_thread = events.clone().map(|mut event| {
            event["thread"] = "e0".into();
            event
        });
        applied(&mut thread, &in_thread);
        let mut agents = run(&["e1"]);
        agents.turn.author = Some(AuthorKind::Agent);
        applied(&mut agents, &events);
        let mut urgent = run(&["e1"]);
        urgent.turn.mode = Some(Mode::Immediate);
        applied(&mut urgent, &events);
        let mut alone = run(&["e1"]);
        apply(&mut alone, &events.map(|event| serde_json::from_value(event).unwrap()), false);
        for run in [thread, agents, urgent, alone] {
            assert_eq!(texts(&run), ["@h1 e1"]);
        }
    }

    #[test]
    fn pieces_are_bounded() {
        let mut run = run(&["e1"]);
        let mut events = vec![said("e1", "acc_1", "@h1 e1", 0)];
        events.extend((0..30).map(|n| said(&format!("f{n}"), "acc_1", "piece", n)));
        applied(&mut run, &events);
        assert_eq!(texts(&run)[0].lines().count(), 1 + MAX_ADDED);
    }
}
