//! Agents that talk among themselves for too long: when what one of them says is no longer answered.
//!
//! A loop is an exchange that passes a number of turns without a person, or one that repeats itself: the same words
//! again, or a message with another message inside of it that is no marked quotation, as two programs do that print
//! what they read. Work on something that was given is no loop however long it takes; repeating oneself is no work.
//!
//! What it needs of the past is an [`Exchange`]: a count and the last few texts. It remembers nothing by itself and
//! never concerns what a person says.

use crate::fold;

/// How many turns agents may take among themselves when nobody says.
pub const DEFAULT_TURNS: u32 = 8;

/// How many of the last messages are looked at.
pub const RECENT: usize = 8;

/// How many characters of a message are read, and how many of an earlier one are looked for in it.
const READ: usize = 4_000;
const PROBE: usize = 400;

/// How many letters another's words must have to be told from a phrase that anybody uses; fewer when they name somebody.
const TELLING: usize = 12;
const TELLING_NAMES: usize = 8;

/// One message of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spoken<'a> {
    /// A person said it.
    pub by_person: bool,
    /// What it says.
    pub text: &'a str,
}

/// What is known of the past when an agent says something, of the thread it says it in or, outside of threads, of the
/// conversation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exchange<'a> {
    /// How many messages of agents obliged or offered another agent something since a person spoke last.
    pub turns: u32,
    /// The last messages, whoever said them; more than [`RECENT`] are not looked at.
    pub recent: &'a [Spoken<'a>],
    /// The author or whom it addresses has claimed or deferred something of the other's, or has an open job of its.
    pub on_task: bool,
}

/// Why an exchange is a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// So many turns went without a person.
    Turns(u32),
    /// What was said is said again.
    Repeats,
}

/// Whether what an agent says now goes on with a loop. `limit` is the number of turns; without one the guard is off.
pub fn find_loop(text: &str, exchange: &Exchange<'_>, limit: Option<u32>) -> Option<Loop> {
    let limit = limit?;
    if exchange.turns >= limit && !exchange.on_task {
        return Some(Loop::Turns(exchange.turns));
    }
    repeats(text, exchange).then_some(Loop::Repeats)
}

fn repeats(text: &str, exchange: &Exchange<'_>) -> bool {
    let own = fold::letters(text, READ);
    if own.is_empty() {
        // Nothing but what another said. A smile, or a message without text, has something else to show.
        return text.lines().any(|line| line.trim_start().starts_with('>'));
    }
    exchange.recent.iter().take(RECENT).any(|earlier| {
        let probe = fold::letters(earlier.text, PROBE);
        let length = probe.chars().count();
        // `done` after `done` may well be progress.
        let same = probe == own && (length >= TELLING || !exchange.on_task);
        let names = probe.contains('@');
        // A person's words without a name in them may be passed on as they are.
        let telling = (length >= TELLING && !earlier.by_person) || (length >= TELLING_NAMES && names);
        same || (telling && own.contains(&probe))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ON: Option<u32> = Some(DEFAULT_TURNS);

    fn is_loop(text: &str, exchange: &Exchange<'_>, limit: Option<u32>) -> bool {
        find_loop(text, exchange, limit).is_some()
    }

    fn agent(text: &str) -> Spoken<'_> {
        Spoken { by_person: false, text }
    }

    fn person(text: &str) -> Spoken<'_> {
        Spoken { by_person: true, text }
    }

    #[test]
    fn the_ninth_turn() {
        for (turns, on_task, limit, expected) in [
            (0, false, ON, false),
            (7, false, ON, false),
            (8, false, ON, true),
            (100, true, ON, false),
            (2, false, Some(2), true),
            (100, false, None, false),
        ] {
            let exchange = Exchange { turns, on_task, recent: &[] };
            assert_eq!(
                is_loop("the parser reads dates now", &exchange, limit),
                expected,
                "{turns} {on_task}"
            );
        }
    }

    #[test]
    fn repetition() {
        let rows: &[(&str, Spoken<'_>, bool, bool)] = &[
            ("I agree.", agent("I AGREE!!!"), false, true),
            ("done", agent("done"), false, true),
            ("done", agent("done"), true, false),
            ("please look at the parser again", agent("Please look at the parser again"), true, true),
            ("You said: the parser is broken again.", agent("the parser is broken again"), false, true),
            ("From: Ann\n-----\n@ada @bob hello\n-----", person("@ada @bob hello"), false, true),
            // A marked quotation is how one answers, an answer is no repetition, and work may be passed on.
            (
                "> the parser is broken again\nFixed in 1.2.",
                agent("the parser is broken again"),
                false,
                false,
            ),
            ("@bob deploy the api", person("@ada deploy the api"), false, false),
            ("@bob now run all of the tests", person("now run all of the tests"), false, false),
            ("ok, the parser is fixed", agent("ok"), false, false),
            // But nothing beside it says nothing.
            ("> the parser is broken again", agent("something else"), false, true),
            (":)", agent("something else"), false, false),
            ("\u{2026}", agent("something else"), false, false),
            ("", agent("something else"), false, false),
        ];
        for (text, earlier, on_task, expected) in rows {
            let exchange = Exchange { turns: 1, recent: &[*earlier], on_task: *on_task };
            assert_eq!(is_loop(text, &exchange, ON), *expected, "{text:?} after {earlier:?}");
            assert!(!is_loop(text, &exchange, None));
        }
    }

    proptest! {
        /// Two programs that print what they read, whatever is put around it, stop at their first words.
        #[test]
        fn what_prints_its_input_stops(
            said in "[a-z ]{0,40}",
            before in "[A-Za-z:\n -]{0,200}",
            after in "[A-Za-z\n -]{0,50}",
        ) {
            let question = format!("@ada @bob {said}");
            let echo = format!("{before}\n{question}\n{after}");
            let recent = [person(&question)];
            let exchange = Exchange { recent: &recent, ..Exchange::default() };
            prop_assert!(is_loop(&echo, &exchange, ON));
            // Also when each only ever saw the other's.
            let nested = format!("{before}\n{echo}\n{after}");
            let recent = [agent(&echo)];
            let exchange = Exchange { recent: &recent, on_task: true, ..Exchange::default() };
            prop_assert!(is_loop(&nested, &exchange, ON));
        }

        #[test]
        fn whatever_is_said_it_ends(text in any::<String>(), turns in 8u32..) {
            let exchange = Exchange { turns, ..Exchange::default() };
            prop_assert!(is_loop(&text, &exchange, ON));
        }
    }
}
