//! The coding agents that are known by name: command, packages and peculiarities of each.

/// A coding agent with an ACP mode.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    /// The program and its arguments.
    pub command: &'static [&'static str],
    /// The instruction that installs the program.
    pub install: &'static str,
    /// The instruction that logs in.
    pub login: &'static str,
    /// Environment variables that make it ask for permission, unless they are set already.
    pub variables: &'static [(&'static str, &'static str)],
    /// The session modes that make it ask for permission, the best one first.
    pub modes: &'static [&'static str],
    /// `true` if messages of the model have a `messageId`, and text without one is a warning of the program.
    pub names_messages: bool,
    /// `true` if a session that is loaded within the minute of its creation loses its history.
    pub loads_after_a_minute: bool,
}

/// The defaults of a preset.
const PLAIN: Preset = Preset {
    name: "",
    command: &[],
    install: "",
    login: "",
    variables: &[],
    modes: &[],
    names_messages: false,
    loads_after_a_minute: false,
};

/// All presets.
pub const PRESETS: [Preset; 9] = [
    Preset {
        name: "claude",
        command: &["claude-agent-acp"],
        install: "npm install -g @anthropic-ai/claude-code @agentclientprotocol/claude-agent-acp (Node 22)",
        login: "claude /login",
        modes: &["default"],
        ..PLAIN
    },
    Preset {
        name: "codex",
        command: &["codex-acp"],
        install: "npm install -g @openai/codex @agentclientprotocol/codex-acp",
        login: "codex login",
        modes: &["read-only", "workspace-write"],
        names_messages: true,
        ..PLAIN
    },
    Preset {
        name: "gemini",
        command: &["gemini", "--acp"],
        install: "npm install -g @google/gemini-cli",
        login: "gemini",
        modes: &["default"],
        loads_after_a_minute: true,
        ..PLAIN
    },
    Preset {
        name: "opencode",
        command: &["opencode", "acp"],
        install: "npm install -g opencode-ai",
        login: "opencode auth login",
        variables: &[("OPENCODE_PERMISSION", r#"{"bash":"ask","edit":"ask","webfetch":"ask"}"#)],
        ..PLAIN
    },
    Preset {
        name: "copilot",
        command: &["copilot", "--acp"],
        install: "npm install -g @github/copilot (Node 22)",
        login: "copilot login",
        ..PLAIN
    },
    Preset {
        name: "goose",
        command: &["goose", "acp"],
        install: "the installer of Goose (it has no npm or pip package)",
        login: "goose configure",
        variables: &[("GOOSE_MODE", "approve")],
        ..PLAIN
    },
    Preset {
        name: "qwen",
        command: &["qwen", "--acp"],
        install: "npm install -g @qwen-code/qwen-code (Node 22)",
        login: "qwen",
        modes: &["default"],
        ..PLAIN
    },
    Preset {
        name: "kimi",
        command: &["kimi", "acp"],
        install: "npm install -g @moonshot-ai/kimi-code (Node 22)",
        login: "kimi login",
        ..PLAIN
    },
    Preset {
        name: "cline",
        command: &["cline", "--acp"],
        install: "npm install -g cline",
        login: "cline auth",
        ..PLAIN
    },
];

impl Preset {
    /// Returns the preset of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }
}

/// Splits a command line into words. Quotes hold words together; a backslash stands for itself.
pub fn split_command(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (vec![], None::<String>, None);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            Some(_) | None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (quote.is_none() && !words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_like_a_shell_splits_words() {
        let split = |line: &str| split_command(line).map(|words| words.join("|"));
        assert_eq!(split(" gemini  --acp ").as_deref(), Some("gemini|--acp"));
        assert_eq!(split(r#"sh -c 'a "b"' "" c\d"#).as_deref(), Some(r#"sh|-c|a "b"||c\d"#));
        assert_eq!((split("a 'b"), split("  ")), (None, None));
    }

    #[test]
    fn presets_are_complete() {
        for preset in &PRESETS {
            assert_eq!(Preset::named(preset.name), Some(preset));
            assert!(!preset.command.is_empty() && !preset.install.is_empty() && !preset.login.is_empty());
        }
    }
}
