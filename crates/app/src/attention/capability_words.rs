//! The words in which an agent's capabilities are stored: the modes by their names, everything else as `utilities.cancellation`.
//! The engine reads them (`chorus_attention::capabilities`).

use chorus_protocol::c2a::Capabilities as Agreed;
use chorus_protocol::words::Mode;
use serde_json::{Value, json};

/// Marks stored words that include more than modes, even if nothing more was agreed on.
const GROUPS_KEPT: &str = "groups.kept";

/// Returns the agreed capabilities in their stored form, as words.
pub(crate) fn words(can: Agreed) -> Result<String, serde_json::Error> {
    let shows = can.injection;
    // Events that must be answered go to every session. A session that declares no way to show events is shown
    // them at once.
    let immediate = shows.immediate || !(shows.buffered || shows.notify);
    let modes = [
        (immediate, Mode::Immediate),
        (shows.buffered, Mode::Buffered),
        // A harness that cannot fetch the content has no use for a knock.
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

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_attention::capabilities::{Capabilities, agreed_to_repeats, has_agreed};

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
            assert_eq!(Capabilities::of_words(&words(can).unwrap()).notify, read_thread);
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
