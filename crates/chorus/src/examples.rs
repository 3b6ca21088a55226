//! Checks that all examples are valid: every `chorus …` in the help of all commands and in the documents is
//! parsed by the command line. Only the syntax is checked; `scripts/check-docs` runs the examples that can be
//! run. Also checks that help texts are no wider than clap's own lines.

use crate::Cli;
use clap::{Command, CommandFactory, Parser, error::ErrorKind};
use uuid::Uuid;

/// The documents with commands, by path.
const DOCUMENTS: [(&str, &str); 15] = [
    ("README.md", include_str!("../../../README.md")),
    ("SECURITY.md", include_str!("../../../SECURITY.md")),
    ("CONTRIBUTING.md", include_str!("../../../CONTRIBUTING.md")),
    ("docs/agents.md", include_str!("../../../docs/agents.md")),
    ("docs/api.md", include_str!("../../../docs/api.md")),
    ("docs/attention.md", include_str!("../../../docs/attention.md")),
    ("docs/channels.md", include_str!("../../../docs/channels.md")),
    ("docs/choir.md", include_str!("../../../docs/choir.md")),
    ("docs/install.md", include_str!("../../../docs/install.md")),
    ("docs/join.md", include_str!("../../../docs/join.md")),
    ("docs/market.md", include_str!("../../../docs/market.md")),
    ("docs/operating.md", include_str!("../../../docs/operating.md")),
    ("docs/security.md", include_str!("../../../docs/security.md")),
    ("examples/README.md", include_str!("../../../examples/README.md")),
    ("examples/market/README.md", include_str!("../../../examples/market/README.md")),
];

/// Splits the first command of a line into words, as a shell would, up to a comment, a pipe or another end.
/// Two spaces also begin a comment, as in help texts.
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

/// The widest line of a help text.
const WIDTH: usize = 100;

/// Returns the error of an example, if there is one.
fn fault(example: &str) -> Option<String> {
    // A placeholder for an id that must be valid.
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
        // Deeper lines are paragraphs, which may wrap.
        for line in text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("      ")) {
            assert!(line.chars().count() <= WIDTH, "{}: too wide: {line}", command.get_name());
        }
        // Joins an example of two lines.
        let text = text.replace("\\\n    ", "");
        let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
        examples.extend(lines.filter(|line| line.starts_with("chorus ")).map(str::to_owned));
    }
    command.get_subcommands().for_each(|command| of_helps(command, examples));
}

/// Collects the commands in code blocks: lines that begin with the program's name, or with variables before
/// it.
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
