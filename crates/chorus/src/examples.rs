//! What is shown as an example can be typed: every `chorus …` in the helps of all commands and in the documents is held against
//! the commands there are. Only how it is spelled; `scripts/check-docs` runs what can be run. And helps are no wider than clap
//! makes them, which would break their columns.

use crate::Cli;
use clap::{Command, CommandFactory, Parser, error::ErrorKind};
use uuid::Uuid;

/// The documents with commands in them, and where they are.
const DOCUMENTS: [(&str, &str); 6] = [
    ("README.md", include_str!("../../../README.md")),
    ("SECURITY.md", include_str!("../../../SECURITY.md")),
    ("CONTRIBUTING.md", include_str!("../../../CONTRIBUTING.md")),
    ("bench/README.md", include_str!("../../../bench/README.md")),
    ("examples/README.md", include_str!("../../../examples/README.md")),
    ("examples/market/README.md", include_str!("../../../examples/market/README.md")),
];

/// The words of the first command of a line, as a shell would split them, up to a comment, a pipe or whatever else ends it. Two
/// spaces begin a comment too, as helps write them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (vec![], String::new(), None, false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(c), true),
            (None, ' ') => {
                if begun || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
                let redirects = rest.clone().take(2).eq(['2', '>']);
                if redirects || matches!(rest.peek(), None | Some(' ' | '#' | '|' | '>' | '<' | '&' | ';')) {
                    return words;
                }
            }
            (None, ';' | ')') => break,
            (_, c) => word.push(c),
        }
    }
    if begun || !word.is_empty() {
        words.push(word);
    }
    words
}

/// The widest line of a help.
const WIDTH: usize = 100;

/// What is wrong with an example, if anything is.
fn fault(example: &str) -> Option<String> {
    // What stands for an id that must be one.
    let words =
        words(example).into_iter().map(|word| if word == "AGENT" { Uuid::nil().to_string() } else { word });
    let error = Cli::try_parse_from(words).err()?;
    let shown = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!shown).then(|| format!("{example}\n{error}"))
}

fn of_helps(command: &Command, examples: &mut Vec<String>) {
    let help = [command.get_after_help(), command.get_after_long_help()].into_iter().flatten();
    for help in help {
        let text = help.to_string();
        // Deeper ones are paragraphs, which may be broken anywhere.
        for line in text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("      ")) {
            assert!(line.chars().count() <= WIDTH, "{}: too wide: {line}", command.get_name());
        }
        // An example of two lines.
        let text = text.replace("\\\n    ", "");
        let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
        examples.extend(lines.filter(|line| line.starts_with("chorus ")).map(str::to_owned));
    }
    command.get_subcommands().for_each(|command| of_helps(command, examples));
}

/// In blocks: whatever begins with the program's name, or with variables before it.
fn of_document(text: &str, examples: &mut Vec<String>) {
    let blocks = text.split("\n```").skip(1).step_by(2);
    for line in blocks
        .filter(|block| block.starts_with("sh\n") || block.starts_with("console\n"))
        .flat_map(str::lines)
    {
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let begin = line.find("chorus ").filter(|at| {
            line[..*at].split(' ').all(|word| word.is_empty() || word.contains('='))
                || line[..*at].ends_with("$(")
        });
        examples.extend(begin.map(|at| line[at..].to_owned()));
    }
}

#[test]
fn examples_can_be_typed() {
    let (mut helps, mut documents) = (vec![], vec![]);
    of_helps(&Cli::command(), &mut helps);
    for (_, text) in DOCUMENTS {
        of_document(text, &mut documents);
    }
    assert!(helps.len() > 100 && documents.len() > 40, "{} and {} found", helps.len(), documents.len());
    let faults: Vec<_> = helps.iter().chain(&documents).filter_map(|example| fault(example)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_line_is_split_as_a_shell_does() {
    for (line, expected) in [
        (
            "chorus send bob 'Hello Bob' --from \"a b\"   say it",
            &["chorus", "send", "bob", "Hello Bob", "--from", "a b"][..],
        ),
        ("chorus skill > x.md", &["chorus", "skill"]),
        ("chorus skill # teaches", &["chorus", "skill"]),
        ("chorus skill 2>&1 | tail", &["chorus", "skill"]),
        ("chorus fleet | less", &["chorus", "fleet"]),
        ("chorus verify x; echo", &["chorus", "verify", "x"]),
        ("chorus send bob ''", &["chorus", "send", "bob", ""]),
    ] {
        assert_eq!(words(line), expected, "{line}");
    }
    assert!(fault("chorus serve --no-such-flag").is_some());
}
