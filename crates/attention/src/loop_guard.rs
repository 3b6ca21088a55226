//! The loop guard: stops agents that talk among themselves for too long.
//!
//! An exchange is what two agents say to each other in one conversation since a person last spoke there. It is a
//! loop if it exceeds a number of turns, or if it repeats itself. An exchange repeats itself if it contains the
//! same words again, or a message that contains another message without marking it as a quotation, as two
//! programs do that print their input.
//!
//! An exchange about a task may take longer: up to [`LONGEST_TURNS`]. Only a person or a job gives a task, and
//! only before the exchange begins, so that two agents cannot give each other reasons to go on. Claims,
//! deferrals and reactions of the agents change nothing. Repetition is not work.
//!
//! The guard keeps no state. It needs an [`Exchange`]: a count and the last few texts. It never applies to a
//! person's messages.

use crate::fold;

/// The default number of turns that agents may take among themselves.
pub const DEFAULT_TURNS: u32 = 8;

/// The number of turns after which every exchange ends, also one about a task and where the guard is off.
pub const LONGEST_TURNS: u32 = 40;

/// The number of recent messages that are compared.
pub const RECENT: usize = 8;

/// The number of characters that are read of a message, and of an earlier message that is searched for in it.
const READ: usize = 4_000;
const PROBE: usize = 400;

/// The number of letters that repeated words need to count as another's message and not as a common phrase.
/// Fewer are enough if the words name somebody.
const TELLING: usize = 12;
const TELLING_NAMES: usize = 8;

/// An earlier message of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spoken<'a> {
    /// The author is a person.
    pub by_person: bool,
    pub text: &'a str,
}

/// The exchange of two agents, and the recent history of the thread that one of them speaks in or, outside of
/// threads, of the conversation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exchange<'a> {
    /// The number of messages by which one of the two woke the other, since a person last spoke.
    pub turns: u32,
    /// The last messages by any author. Only [`RECENT`] of them are compared.
    pub recent: &'a [Spoken<'a>],
    /// One of the two works on a task that a person, or a job of the other, gave it before the exchange began.
    pub on_task: bool,
}

/// The reason why an exchange is a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// The number of turns without a person has reached the limit.
    Turns(u32),
    /// The message repeats an earlier one.
    Repeats,
}

/// Returns the kind of loop that an agent's message continues, if any. `limit` is the number of turns of an
/// exchange that is about no task. `None` turns the guard off, up to [`LONGEST_TURNS`].
pub fn find_loop(text: &str, exchange: &Exchange<'_>, limit: Option<u32>) -> Option<Loop> {
    let most = limit.filter(|_| !exchange.on_task).unwrap_or(LONGEST_TURNS).min(LONGEST_TURNS);
    if exchange.turns >= most {
        return Some(Loop::Turns(exchange.turns));
    }
    (limit.is_some() && repeats(text, exchange)).then_some(Loop::Repeats)
}

fn repeats(text: &str, exchange: &Exchange<'_>) -> bool {
    let own = fold::letters(text, READ);
    if own.is_empty() {
        // The text is only a quotation. An emoji or a message without text has other content.
        return text.lines().any(|line| line.trim_start().starts_with('>'));
    }
    exchange.recent.iter().take(RECENT).any(|earlier| {
        let probe = fold::letters(earlier.text, PROBE);
        let length = probe.chars().count();
        // A second `done` may be progress.
        let same = probe == own && (length >= TELLING || !exchange.on_task);
        let names = probe.contains('@');
        // A person's words without a name may be passed on unchanged.
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
    fn exchanges_have_a_last_turn() {
        for (turns, on_task, limit, expected) in [
            (0, false, ON, false),
            (7, false, ON, false),
            (8, false, ON, true),
            (2, false, Some(2), true),
            // A task lifts the first number, and nothing lifts the second.
            (39, true, ON, false),
            (40, true, ON, true),
            (39, false, None, false),
            (40, false, None, true),
            (39, false, Some(1000), false),
            (40, false, Some(1000), true),
            (3, true, Some(2), false),
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
            // A marked quotation is a normal way to answer, an answer is not a repetition, and work may be
            // passed on.
            (
                "> the parser is broken again\nFixed in 1.2.",
                agent("the parser is broken again"),
                false,
                false,
            ),
            ("@bob deploy the api", person("@ada deploy the api"), false, false),
            ("@bob now run all of the tests", person("now run all of the tests"), false, false),
            ("ok, the parser is fixed", agent("ok"), false, false),
            // A quotation without any other text is a repetition.
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
        /// Checks that two programs that print their input, with any text around it, stop at their first
        /// message.
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
            // The same holds if each program only sees the other's messages.
            let nested = format!("{before}\n{echo}\n{after}");
            let recent = [agent(&echo)];
            let exchange = Exchange { recent: &recent, on_task: true, ..Exchange::default() };
            prop_assert!(is_loop(&nested, &exchange, ON));
        }

        #[test]
        fn whatever_is_said_it_ends(
            text in any::<String>(),
            more in 0u32..1000,
            on_task in any::<bool>(),
            limit in prop::option::of(1u32..100),
        ) {
            let turns = limit.filter(|_| !on_task).unwrap_or(LONGEST_TURNS).min(LONGEST_TURNS) + more;
            let exchange = Exchange { turns, on_task, ..Exchange::default() };
            prop_assert!(is_loop(&text, &exchange, limit));
        }
    }
}
