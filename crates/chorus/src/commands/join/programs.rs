//! The programs that `chorus join` knows: their files, and what is written there.

use super::changes::{Change, FileChange};
use crate::failure::Explained;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A program that people work in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Program {
    ClaudeCode,
    Codex,
    Gemini,
    Opencode,
    Cursor,
}

/// The name of our entries.
const NAME: &str = "chorus";

/// The etiquette, for programs that read skills or instructions.
const ETIQUETTE: &str = include_str!("etiquette.md");
const SKILL_HEAD: &str = "---\nname: chorus\ndescription: Work with people and other agents on a Chorus hub: read the inbox, answer, claim, \
                          defer. Use when a message says that something waits in Chorus, or when you are asked to tell or ask others.\n---\n\
                          <!-- Written by `chorus join`. `chorus leave` deletes this file. -->\n\n";
const PLUGIN: &str = include_str!("opencode_plugin.js");

/// The folders of the user, from the environment.
pub(super) struct Homes {
    pub(super) home: PathBuf,
    config: PathBuf,
    claude: Option<PathBuf>,
    codex: PathBuf,
}

impl Homes {
    pub(super) fn from_environment() -> Result<Self, Explained> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let missing = || Explained::usage("there is no home folder", "set HOME to the user's folder");
        let home = set("HOME").ok_or_else(missing)?;
        Ok(Self {
            config: set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            claude: set("CLAUDE_CONFIG_DIR"),
            codex: set("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            home,
        })
    }

    fn claude(&self, name: &str) -> PathBuf {
        self.claude.clone().unwrap_or_else(|| self.home.join(".claude")).join(name)
    }
}

/// The command that the program starts, and its arguments.
pub(super) struct Started {
    /// The program `chorus`, by its name or its path.
    pub(super) chorus: String,
    pub(super) agent: String,
    /// The folder of the kept keys, if it is not the default.
    pub(super) config: Option<PathBuf>,
}

impl Started {
    fn args(&self, command: &[&str]) -> Vec<String> {
        let mut args: Vec<_> = command.iter().map(|arg| (*arg).to_owned()).collect();
        args.extend(["--agent".to_owned(), self.agent.clone()]);
        if let Some(config) = &self.config {
            args.extend(["--config".to_owned(), config.display().to_string()]);
        }
        args
    }

    /// Returns a hook as a shell command.
    fn hook(&self, program: &str) -> String {
        let words = std::iter::once(self.chorus.clone()).chain(self.args(&["hook", program]));
        words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@' | ':');
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

fn member(path: &[&str], value: Value) -> Change {
    Change::Member { path: path.iter().map(|key| (*key).to_owned()).collect(), value }
}

fn element(path: &[&str], value: Value, marker: &str) -> Change {
    let path = path.iter().map(|key| (*key).to_owned()).collect();
    Change::Element { path, value, marker: marker.to_owned() }
}

/// Returns the etiquette as lines between marks, for a file of instructions that belongs to the person.
fn instructions(path: PathBuf) -> FileChange {
    let change = Change::Block {
        begin: "<!-- chorus join: begin -->".into(),
        lines: ETIQUETTE.trim_end().to_owned(),
        end: "<!-- chorus join: end -->".into(),
    };
    FileChange { path, changes: vec![change] }
}

fn one(path: PathBuf, changes: Vec<Change>) -> FileChange {
    FileChange { path, changes }
}

impl Program {
    /// Returns the program's name in commands and records.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Cursor => "cursor",
        }
    }

    /// Says how an idle session learns that something waits.
    pub(super) fn waking(self) -> &'static str {
        match self {
            Self::ClaudeCode => "an open session is woken when something waits, also while it is idle",
            Self::Codex => {
                "an open session is woken when something waits, after its first turn; Codex asks once whether it may run the hook"
            }
            Self::Opencode => "an open session is woken when something waits, after its first turn",
            Self::Gemini => {
                "Gemini CLI cannot be woken while it is idle: it learns at the end of a turn what waits. Messages wait in the \
                 inbox; for answers at any time run `chorus agent --acp`"
            }
            Self::Cursor => {
                "Cursor cannot be woken while it is idle: it learns at the end of a turn what waits. Messages wait in the inbox"
            }
        }
    }

    /// Returns the changes that connect the program with the hub.
    pub(super) fn changes(self, homes: &Homes, started: &Started) -> Vec<FileChange> {
        let hook = started.hook(self.word());
        let mark = format!("hook {}", self.word());
        let server = json!({"command": started.chorus, "args": started.args(&["mcp"])});
        match self {
            Self::ClaudeCode => {
                let args = started.args(&["mcp", "--wake", "claude-code"]);
                let server = json!({"type": "stdio", "command": started.chorus, "args": args, "env": {}});
                let waits = json!({"hooks": [{"type": "command", "command": hook, "asyncRewake": true, "timeout": 86_400}]});
                // The file lies beside the folder, unless the folder is named.
                let file = homes.claude.as_ref().unwrap_or(&homes.home).join(".claude.json");
                let hooks =
                    ["SessionStart", "Stop"].map(|event| element(&["hooks", event], waits.clone(), &mark));
                vec![
                    one(file, vec![member(&["mcpServers", NAME], server)]),
                    one(homes.claude("settings.json"), hooks.into()),
                    one(
                        homes.claude("skills/chorus/SKILL.md"),
                        vec![Change::Whole(format!("{SKILL_HEAD}{ETIQUETTE}"))],
                    ),
                ]
            }
            Self::Codex => {
                let args = json!(started.args(&["mcp", "--wake", "codex"]));
                let block = Change::Block {
                    begin: "# chorus join: begin".into(),
                    lines: format!(
                        "[mcp_servers.{NAME}]\ncommand = {}\nargs = {args}",
                        json!(started.chorus)
                    ),
                    end: "# chorus join: end".into(),
                };
                let start = json!({"hooks": [{"type": "command", "command": hook}]});
                vec![
                    one(homes.codex.join("config.toml"), vec![block]),
                    one(
                        homes.codex.join("hooks.json"),
                        vec![element(&["hooks", "SessionStart"], start, &mark)],
                    ),
                    instructions(homes.codex.join("AGENTS.md")),
                ]
            }
            Self::Gemini => {
                let after =
                    json!({"hooks": [{"name": NAME, "type": "command", "command": hook, "timeout": 10_000}]});
                let changes = vec![
                    member(&["mcpServers", NAME], server),
                    element(&["hooks", "AfterAgent"], after, &mark),
                ];
                let folder = homes.home.join(".gemini");
                vec![one(folder.join("settings.json"), changes), instructions(folder.join("GEMINI.md"))]
            }
            Self::Opencode => {
                let folder = homes.config.join("opencode");
                let command: Vec<_> =
                    std::iter::once(started.chorus.clone()).chain(started.args(&["mcp"])).collect();
                let server = json!({"type": "local", "command": command, "enabled": true});
                let wait: Vec<_> = std::iter::once(started.chorus.clone())
                    .chain(started.args(&["hook", "opencode"]))
                    .collect();
                let plugin = PLUGIN.replace("COMMAND", &json!(wait).to_string());
                vec![
                    one(opencode_file(&folder), vec![member(&["mcp", NAME], server)]),
                    one(folder.join("plugin/chorus.js"), vec![Change::Whole(plugin)]),
                    instructions(folder.join("AGENTS.md")),
                ]
            }
            Self::Cursor => {
                let folder = homes.home.join(".cursor");
                let hooks = folder.join("hooks.json");
                let stop = element(&["hooks", "stop"], json!({"command": hook}), &mark);
                // A new file of hooks names its version; one that is there has it already.
                let version = (!hooks.exists()).then(|| member(&["version"], json!(1)));
                vec![
                    one(folder.join("mcp.json"), vec![member(&["mcpServers", NAME], server)]),
                    one(hooks, version.into_iter().chain([stop]).collect()),
                ]
            }
        }
    }
}

/// OpenCode reads either file. One that is there is used.
fn opencode_file(folder: &Path) -> PathBuf {
    let commented = folder.join("opencode.jsonc");
    if commented.exists() { commented } else { folder.join("opencode.json") }
}
