//! The messages are in one file per language, by situation, each with a label that it got by hand before the rules
//! were tuned to it. The test prints a confusion matrix per language: rows are labels, columns are effects.

use chorus_attention::{Classified, Event, Recipient, classify, decide, intent};
use chorus_protocol::words::{ConversationKind, Intent, Mode, Policy, Reason};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const LANGUAGES: [(&str, &str); 6] = [
    ("de", include_str!("de.txt")),
    ("en", include_str!("en.txt")),
    ("es", include_str!("es.txt")),
    ("fr", include_str!("fr.txt")),
    ("ja", include_str!("ja.txt")),
    ("zh", include_str!("zh.txt")),
];

const SITUATIONS: [&str; 6] = ["mention", "dm", "question", "work", "role", "unaddressed"];

/// Messages of an agent that wait for an answer: a request for approval, a question, and an offer that does not end
/// with a question mark.
const QUESTIONS: [&str; 3] = [
    "The tests are green. Shall I also update the changelog?",
    "Which of the two do you prefer, and when do you need it?",
    "I can also update the changelog. Tell me if you want that.",
];

/// Messages of an agent that wait for nothing.
const REPORTS: [&str; 2] =
    ["The parser is fixed and pushed.", "Done. Let me know if you need anything else!"];

/// The effect of a message on the agent that it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// The agent must answer.
    Must,
    /// The agent sees the message, or hears of it, and may answer.
    May,
    /// The agent may do no more than note the message.
    Ack,
    /// The agent is not told.
    Nothing,
    /// The message is read as a stop.
    Stop,
}

const EFFECTS: [Effect; 5] = [Effect::Must, Effect::May, Effect::Ack, Effect::Nothing, Effect::Stop];

struct Row {
    situation: &'static str,
    label: &'static str,
    text: String,
}

fn rows(file: &'static str) -> Vec<Row> {
    let (mut rows, mut situation) = (vec![], "");
    for line in file.lines().filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            situation = heading;
            assert!(SITUATIONS.contains(&situation), "{line}");
        } else {
            let (label, text) = line.split_once(" | ").unwrap();
            rows.push(Row { situation, label, text: text.replace("\\n", "\n") });
        }
    }
    rows
}

/// Returns an event as an answer to each of these texts of an agent.
fn after<'a>(texts: &[&str], event: Event<'a>, recipient: Recipient) -> Vec<(Event<'a>, Recipient)> {
    let answering = |text: &&str| {
        let before = classify(Event { text, ..Event::EMPTY }).intent;
        (Event { answers: Some(intent::of_answered(text, before)), ..event }, recipient)
    };
    texts.iter().map(answering).collect()
}

/// Returns the ways in which a row can come about: the event and the agent's relation to it.
fn cases(row: &Row) -> Vec<(Event<'_>, Recipient)> {
    let said = Event { text: &row.text, ..Event::EMPTY };
    let in_thread = Event { in_thread: true, ..said };
    let asked = Recipient { asked_in_thread: true, participates: true, ..Recipient::default() };
    match row.situation {
        "mention" => {
            let named = Recipient { named: true, ..Recipient::default() };
            vec![(Event { names_somebody: true, ..said }, named)]
        }
        "dm" => after(&REPORTS, Event { conversation: ConversationKind::Dm, ..said }, Recipient::default()),
        "question" => {
            let direct = Event { conversation: ConversationKind::Dm, ..said };
            let in_dm = after(&QUESTIONS, direct, Recipient::default());
            [after(&QUESTIONS, in_thread, asked), in_dm].concat()
        }
        "work" => after(&REPORTS, in_thread, asked),
        "role" => {
            let in_named_role = Recipient { in_named_role: true, ..Recipient::default() };
            vec![(Event { names_somebody: true, ..said }, in_named_role)]
        }
        _ => vec![(said, Recipient::default())],
    }
}

fn effect(classified: &Classified<'_>, recipient: &Recipient) -> Effect {
    let decided = decide(classified, recipient);
    match decided.policy {
        Policy::MustNotRespond => Effect::Nothing,
        _ if classified.intent == Intent::Cancellation => Effect::Stop,
        Policy::AckOnly => Effect::Ack,
        _ if matches!(decided.mode, Mode::ToolMailbox | Mode::Digest | Mode::Silent) => Effect::Nothing,
        Policy::MustRespond => Effect::Must,
        Policy::MayRespond => Effect::May,
    }
}

/// Returns the effects that are right for a label in a situation.
fn right(situation: &str, label: &str) -> &'static [Effect] {
    match (situation, label) {
        ("unaddressed", _) => &[Effect::Nothing],
        (_, "stop") => &[Effect::Stop],
        ("role", "courtesy") => &[Effect::Nothing, Effect::Ack],
        ("role", _) | (_, "courtesy_plus" | "news") => &[Effect::May],
        (_, "courtesy") => &[Effect::Ack],
        ("work", "chat") => &[Effect::May, Effect::Must],
        (_, "answer" | "order" | "question" | "chat") => &[Effect::Must],
        other => panic!("{other:?} is no label"),
    }
}

/// The results of one language.
#[derive(Default)]
struct Matrix {
    counts: BTreeMap<(&'static str, Effect), usize>,
    right: usize,
    addressed: usize,
    wrong: Vec<String>,
}

impl Matrix {
    fn share(&self) -> f64 {
        self.right as f64 / self.addressed as f64
    }

    fn print(&self, language: &str) -> String {
        let mut out = format!("\n{language}: {:.1} % of {} right\n", self.share() * 100.0, self.addressed);
        write!(out, "{:>14}", "").unwrap();
        for effect in EFFECTS.map(|effect| format!("{effect:?}")) {
            write!(out, "{effect:>9}").unwrap();
        }
        let labels: BTreeSet<_> = self.counts.keys().map(|(label, _)| *label).collect();
        for label in labels {
            write!(out, "\n{label:>14}").unwrap();
            for effect in EFFECTS {
                write!(out, "{:>9}", self.counts.get(&(label, effect)).unwrap_or(&0)).unwrap();
            }
        }
        for wrong in &self.wrong {
            write!(out, "\n  {wrong}").unwrap();
        }
        out
    }
}

#[test]
fn ordinary_messages_mean_what_people_mean() {
    let (mut count, mut missed, mut interrupting, mut lost, mut weak) = (0, vec![], vec![], vec![], vec![]);
    for (language, file) in LANGUAGES {
        let mut matrix = Matrix::default();
        let mut situations = BTreeSet::new();
        for row in rows(file) {
            count += 1;
            situations.insert(row.situation);
            let allowed = right(row.situation, row.label);
            let mut found = allowed[0];
            for (event, recipient) in cases(&row) {
                let classified = classify(event);
                let effect = effect(&classified, &recipient);
                // Of the ways in which a message can come about, the worst counts.
                if !allowed.contains(&effect) {
                    found = effect;
                }
                let Row { situation, label, text } = &row;
                let what = format!("{language} {situation} {label}: {text:?} {}", classified.intent);
                let is_addressed = *situation != "unaddressed";
                if *label == "order" && is_addressed && !matches!(effect, Effect::Must | Effect::May) {
                    missed.push(what.clone());
                }
                let interrupts = classified.intent == Intent::Cancellation
                    || matches!(
                        decide(&classified, &recipient).reason,
                        Reason::Cancellation | Reason::Safety
                    );
                if *label != "stop" && is_addressed && interrupts {
                    interrupting.push(what.clone());
                }
                if *label == "answer" && effect != Effect::Must {
                    lost.push(what);
                }
            }
            if row.situation != "unaddressed" {
                *matrix.counts.entry((row.label, found)).or_default() += 1;
                matrix.addressed += 1;
            }
            if !allowed.contains(&found) {
                matrix.wrong.push(format!("{} {}: {:?} {found:?}", row.situation, row.label, row.text));
            } else if row.situation != "unaddressed" {
                matrix.right += 1;
            }
        }
        println!("{}", matrix.print(language));
        assert_eq!(situations.len(), SITUATIONS.len(), "{language} lacks a situation");
        if matrix.share() < 0.9 {
            weak.push(language);
        }
    }
    assert!(count >= 600, "{count} messages");
    assert!(missed.is_empty(), "orders that are missed: {missed:#?}");
    assert!(interrupting.is_empty(), "messages that interrupt and are no stop: {interrupting:#?}");
    assert!(lost.is_empty(), "answers that are lost: {lost:#?}");
    assert!(weak.is_empty(), "below 90 %: {weak:?}");
}
