//! What the ways to agents can do, and which decisions are deliveries at all.
//!
//! What a harness agreed on in `initialize` is kept in words, whether it is connected or POSTed to: the modes by their names, all
//! else as `utilities.cancellation`.

use chorus_attention::capabilities::Capabilities;
use chorus_protocol::c2a::Capabilities as Agreed;
use chorus_protocol::ids::AgentId;
use chorus_protocol::words::Mode;
use chorus_store::{StoreError, Tx, inboxes};
use serde_json::{Value, json};

/// What a way to an agent shows that knows no knocks: an inbox as server-sent events, an endpoint, a connection string.
pub(super) const WITHOUT_KNOCKS: Capabilities = Capabilities {
    immediate: true,
    buffered: true,
    notify: false,
    tool_mailbox: true,
    digest: false,
    interrupt: false,
};

/// What the way to an agent shows; of who is away, as it was last.
pub(super) fn shows(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<Capabilities, StoreError> {
    Ok(inboxes::shows(tx, agent, now)?.map_or(WITHOUT_KNOCKS, |words| of_words(&words)))
}

/// Whether the way to an agent tells signals from messages.
pub(super) fn knows_signals(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<bool, StoreError> {
    let words = inboxes::shows(tx, agent, now)?;
    let knows = |words: &str| of_words(words).notify && has_agreed(Some(words), "chatTools.reactionSignals");
    Ok(words.as_deref().is_some_and(knows))
}

/// Whether an agent may be sent once more what it has taken already; of who is away, as it was last.
pub(super) fn takes_again(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<bool, StoreError> {
    Ok(agreed_to_repeats(inboxes::shows(tx, agent, now)?.as_deref()))
}

/// The same, by what was agreed on.
pub(crate) fn agreed_to_repeats(words: Option<&str>) -> bool {
    has_agreed(words, "delivery.redelivery") && has_agreed(words, "delivery.idempotency")
}

/// Stands among words with which more than modes is kept, also when nothing more was agreed on.
const GROUPS_KEPT: &str = "groups.kept";

/// Whether this is among what was agreed on. With who speaks no C2A nothing was; of who began when only modes were kept, nothing
/// else is known: those get all.
pub(crate) fn has_agreed(words: Option<&str>, what: &str) -> bool {
    words.is_none_or(|words| !words.contains('.') || words.split(' ').any(|word| word == what))
}

/// What a session shows that is kept with these words.
pub(crate) fn of_words(words: &str) -> Capabilities {
    let has = |mode: Mode| words.split(' ').any(|word| word == mode.as_str());
    Capabilities {
        immediate: has(Mode::Immediate),
        buffered: has(Mode::Buffered),
        notify: has(Mode::Notify),
        tool_mailbox: has(Mode::ToolMailbox),
        digest: has(Mode::Digest),
        interrupt: false,
    }
}

/// What both agreed on, as the words it is kept with.
pub(crate) fn words(can: Agreed) -> Result<String, serde_json::Error> {
    let shows = can.injection;
    // What must be answered is brought to every session: one that names no way to be shown anything is shown it at once.
    let immediate = shows.immediate || !(shows.buffered || shows.notify);
    let modes = [
        (immediate, Mode::Immediate),
        (shows.buffered, Mode::Buffered),
        // Who cannot pull what it is told of has no use for a knock.
        (shows.notify && can.chat_tools.read_thread, Mode::Notify),
        (shows.tool_mailbox, Mode::ToolMailbox),
        (shows.digest, Mode::Digest),
    ];
    let modes: Vec<_> = modes.iter().filter(|(has, _)| *has).map(|(_, mode)| mode.as_str()).collect();
    let mut words = format!("{} {GROUPS_KEPT}", modes.join(" "));
    let Value::Object(groups) = serde_json::to_value(can)? else { return Ok(words) };
    for (group, members) in groups.iter().filter(|(group, _)| *group != "injection") {
        let has = members.as_object().into_iter().flatten().filter(|(_, has)| **has == json!(true));
        for (name, _) in has {
            words.extend([" ", group, ".", name]);
        }
    }
    Ok(words)
}

/// Whether something of this mode is brought to an agent. Everything else it finds when it looks.
pub(super) fn is_delivered(mode: Mode) -> bool {
    match mode {
        Mode::Immediate | Mode::Buffered | Mode::Notify => true,
        Mode::ToolMailbox | Mode::Digest | Mode::Silent => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_agreed_on_is_kept() {
        let mut can = Agreed::ALL;
        can.injection.digest = false;
        can.utilities.cancellation = false;
        let kept = words(can).unwrap();
        for word in ["buffered", "notify", "delivery.redelivery", "chatTools.claim", "utilities.logging"] {
            assert!(kept.split(' ').any(|one| one == word), "{word}: {kept}");
        }
        assert!(!kept.contains("digest"), "{kept}");
        assert!(!has_agreed(Some(&kept), "utilities.cancellation"));
        assert!(has_agreed(Some(&kept), "utilities.progress"));
        let nothing_more = Agreed { injection: Agreed::ALL.injection, ..Agreed::default() };
        let kept = words(nothing_more).unwrap();
        for word in ["delivery.ack", "delivery.redelivery", "utilities.cancellation"] {
            assert!(!has_agreed(Some(&kept), word), "{word}: {kept}");
        }
        assert!(has_agreed(Some("buffered notify"), "utilities.cancellation"), "it began before");
        assert!(has_agreed(None, "utilities.cancellation"), "it speaks no C2A");
    }

    #[test]
    fn repeats_and_knocks_are_for_who_can_tell_and_pull() {
        for (redelivery, idempotency) in [(true, true), (true, false), (false, true)] {
            let mut can = Agreed::ALL;
            (can.delivery.redelivery, can.delivery.idempotency) = (redelivery, idempotency);
            assert_eq!(can.delivery.takes_again(), redelivery && idempotency);
            assert_eq!(agreed_to_repeats(Some(&words(can).unwrap())), redelivery && idempotency);
        }
        for read_thread in [true, false] {
            let mut can = Agreed::ALL;
            can.chat_tools.read_thread = read_thread;
            assert_eq!(of_words(&words(can).unwrap()).notify, read_thread);
        }
    }

    #[test]
    fn modes_come_first() {
        let mut can = Agreed::ALL;
        assert!(
            words(can)
                .unwrap()
                .starts_with("immediate buffered notify tool_mailbox digest groups.kept chatTools.claim ")
        );
        (can.injection.immediate, can.injection.tool_mailbox, can.injection.digest) = (false, false, false);
        assert!(words(can).unwrap().starts_with("buffered notify groups.kept chatTools."));
    }
}
