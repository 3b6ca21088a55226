//! `chorus init`: writes the settings file of a new hub, from options or from answers on a terminal.

use crate::failure::Explained;
use crate::global::Global;
use crate::output::{self, one_line};
use crate::settings::{self, Layer, Settings};
use anyhow::Context as _;
use chorus_hub::Environment;
use owo_colors::OwoColorize as _;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{BufRead, ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use url::Url;

const EXAMPLES: &str = "\
Examples:
  chorus init                                       asks, and writes ./chorus/chorus.toml
  chorus init --yes                                 a hub for this machine, without questions
  chorus init --dir /srv/chorus --public-url https://hub.example --mail smtps://U:P@mail.example
  chorus init --yes --database postgres://chorus@db.example/chorus

Then `chorus serve --config FILE` runs the hub. The file may hold a master key and passwords: only you
can read it. `chorus serve --help` lists all settings that may stand in it.";

/// The number of tries at one question.
const TRIES: usize = 5;

/// The longest answer, in bytes.
const MAX_ANSWER: u64 = 4096;

/// The name of the settings file in its folder.
const FILE: &str = "chorus.toml";

/// Write the settings file of a new hub
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder of the settings file and of the data [default: ./chorus]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The address to listen on [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The URL at which people and agents reach the hub [default: the address it listens on]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Proxies in front of the hub, separated by commas [default: 127.0.0.1 if the URL is https]
    #[arg(long, value_name = "ADDRESSES")]
    trusted_proxies: Option<String>,
    /// The people who may register: open, invite or closed [default: open; invite if there is a URL]
    #[arg(long, value_name = "WHO")]
    signup: Option<String>,
    /// The way mails are sent: log, dir:PATH, smtp://… or smtps://… [default: log]
    #[arg(long, value_name = "WAY")]
    mail: Option<String>,
    /// postgres://… instead of SQLite
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Ask nothing; what is not given has its default
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(global: &Global, args: &Args) -> anyhow::Result<ExitCode> {
    let input = std::io::stdin();
    let mut answers = (!args.yes && input.is_terminal()).then(|| input.lock());
    let plan = Plan::new(args, answers.as_mut().map(|answers| answers as &mut dyn BufRead))?;
    let file = plan.folder.join(FILE);
    let text = plan.text();
    let fault =
        |fault| Explained::usage(format!("{fault}"), "`chorus init --help` shows what each option takes");
    settings::file(&text).and_then(|layer| Settings::load(&[layer])).map_err(fault)?;
    write(&file, &text)?;
    if global.json {
        output::json(&json!({"config": file, "data": plan.data(), "public_url": plan.get("public_url")}))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::data(format_args!("wrote {}", file.display()))?;
    output::talk(format_args!("\n{}\n{}", "next:".bold(), plan.next_steps(&file)));
    Ok(ExitCode::SUCCESS)
}

/// Writes the settings file, which must not exist.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let told = || format!("cannot write {}", file.display());
    super::serve::prepare_folder(file.parent().unwrap_or(Path::new(".")))?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(mut open) => open.write_all(text.as_bytes()).and_then(|()| open.sync_all()).with_context(told),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let hint = "edit it, or choose another folder with --dir";
            Err(Explained::failed(format!("{} is there already", file.display()), hint).into())
        }
        Err(error) => Err(error).with_context(told),
    }
}

/// The settings of a new hub.
struct Plan {
    folder: PathBuf,
    /// The settings that differ from their defaults, by their names in the file.
    settings: Vec<(&'static str, String)>,
}

impl Plan {
    /// Takes each setting from its option, else from an answer, else its default.
    fn new(args: &Args, answers: Option<&mut dyn BufRead>) -> anyhow::Result<Self> {
        let mut asker = Asker { answers };
        let folder = args.dir.as_ref().map(|folder| folder.display().to_string());
        let folder = asker.ask("the folder of the settings and the data", "", folder.as_ref(), "./chorus")?;
        let folder = std::path::absolute(folder)?;
        let mut plan = Self { folder, settings: vec![] };
        let text = "the address to listen on";
        plan.add("listen", asker.ask(text, "listen", args.listen.as_ref(), "127.0.0.1:8787")?);
        let text =
            "the URL at which others reach it, such as https://hub.example; empty for this machine only";
        let url = asker.ask(text, "public_url", args.public_url.as_ref(), "")?;
        let (has_url, has_tls) = (!url.is_empty(), url.starts_with("https:"));
        plan.add("public_url", url);
        let text = "the address of the proxy with TLS in front of it";
        if has_tls {
            let proxies = args.trusted_proxies.as_ref();
            plan.add("trusted_proxies", asker.ask(text, "trusted_proxies", proxies, "127.0.0.1")?);
        } else {
            plan.add("trusted_proxies", args.trusted_proxies.clone().unwrap_or_default());
        }
        let text = "who may register: open, invite or closed";
        let usual = if has_url { "invite" } else { "open" };
        plan.add("signup", asker.ask(text, "signup", args.signup.as_ref(), usual)?);
        let text = "how mails are sent: log, or smtps://USER:PASSWORD@HOST?from=ADDRESS";
        plan.add("mail", asker.ask(text, "mail", args.mail.as_ref(), "log")?);
        let text = "a PostgreSQL database, postgres://…; empty for SQLite";
        let database = asker.ask(text, "database_url", args.database.as_ref(), "")?;
        if !database.is_empty() {
            let environment = Environment::system();
            let key = format!("{}{}", environment.random_hex(), environment.random_hex());
            plan.add("master_key", key);
        }
        plan.add("database_url", database);
        Ok(plan)
    }

    fn add(&mut self, name: &'static str, value: String) {
        if !value.is_empty() {
            self.settings.push((name, value));
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Returns the settings file.
    fn text(&self) -> String {
        let mut text = "# The settings of a hub, for `chorus serve --config`. `chorus serve --help` lists all of them.\n".to_owned();
        let data = self.data().display().to_string();
        for (name, value) in
            [("data", &data)].into_iter().chain(self.settings.iter().map(|(name, value)| (*name, value)))
        {
            // Writing to a string cannot fail.
            writeln!(text, "{name} = {}", toml::Value::from(value.as_str())).unwrap_or_default();
        }
        text
    }

    /// Returns what to do with the file.
    fn next_steps(&self, file: &Path) -> String {
        let listen = self.get("listen").unwrap_or_default();
        // A hub that listens everywhere is reached on this machine, too.
        let here = listen.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]");
        let url = self.get("public_url").map_or_else(|| format!("http://{here}"), str::to_owned);
        let url = url.trim_end_matches('/');
        let mut steps = vec![format!(
            "chorus serve --config {}\n     runs the hub; open the sign-in link that it prints",
            shell_word(&file.display().to_string())
        )];
        if let Some(host) = Url::parse(url)
            .ok()
            .filter(|url| url.scheme() == "https")
            .and_then(|url| Some(url.host_str()?.to_owned()))
        {
            steps.push(format!(
                "caddy reverse-proxy --from {host} --to {here}\n     or another proxy with TLS in front of it"
            ));
        }
        steps.push(format!(
            "chorus login {}\n     keeps a token, which you make on the page under Account, for all commands",
            shell_word(url)
        ));
        let numbered =
            steps.iter().enumerate().map(|(n, step)| format!("  {}. {}", n + 1, output::many_lines(step)));
        numbered.collect::<Vec<_>>().join("\n")
    }
}

/// Quotes a text as one word for a shell.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Asks for what was not given.
struct Asker<'a> {
    /// `None` if nobody can be asked.
    answers: Option<&'a mut dyn BufRead>,
}

impl Asker<'_> {
    /// Returns the given value, else the answer, else the default. A wrong answer is told and asked again.
    fn ask(
        &mut self,
        text: &str,
        name: &str,
        given: Option<&String>,
        default: &str,
    ) -> anyhow::Result<String> {
        let Some(answers) = self.answers.as_mut().filter(|_| given.is_none()) else {
            return Ok(given.cloned().unwrap_or_else(|| default.to_owned()));
        };
        for _ in 0..TRIES {
            let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
            output::unended(format_args!("{text}{shown}: "));
            let mut line = String::new();
            if std::io::Read::take(&mut **answers, MAX_ANSWER).read_line(&mut line)? == 0 {
                return Err(Explained::usage("the answers ended", "`chorus init --yes` asks nothing").into());
            }
            let answer = line.trim();
            let answer = if answer.is_empty() { default } else { answer };
            match fault(name, answer) {
                None => return Ok(answer.to_owned()),
                Some(fault) => output::talk(one_line(&fault)),
            }
        }
        Err(Explained::usage("that was no answer", "`chorus init --help` shows what each option takes")
            .into())
    }
}

/// Returns the fault of one setting.
fn fault(name: &str, value: &str) -> Option<String> {
    if name.is_empty() || value.is_empty() {
        return None;
    }
    let layer: Layer = [(format!("CHORUS_{}", name.to_uppercase()), value.to_owned())].into();
    Settings::load(&[layer]).err().map(|faults| faults.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::io::Cursor;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn plan(line: &[&str], answers: Option<&str>) -> anyhow::Result<Plan> {
        let args = Line::parse_from([&["init"], line].concat()).args;
        let mut answers = answers.map(|answers| Cursor::new(answers.to_owned()));
        Plan::new(&args, answers.as_mut().map(|answers| answers as &mut dyn BufRead))
    }

    #[test]
    fn answers_become_settings() {
        let told = "/srv/chorus\n\nftp://x\nhttps://hub.example\n\n\nsmtps://u:p@mail.example\n\n";
        let plan = plan(&[], Some(told)).unwrap();
        assert_eq!(
            plan.text().lines().skip(1).collect::<Vec<_>>(),
            [
                "data = \"/srv/chorus/data\"",
                "listen = \"127.0.0.1:8787\"",
                "public_url = \"https://hub.example\"",
                "trusted_proxies = \"127.0.0.1\"",
                "signup = \"invite\"",
                "mail = \"smtps://u:p@mail.example\"",
            ]
        );
        let steps = plan.next_steps(Path::new("/srv/chorus/chorus.toml"));
        assert!(steps.contains("1. chorus serve --config /srv/chorus/chorus.toml\n"), "{steps}");
        assert!(steps.contains("2. caddy reverse-proxy --from hub.example --to 127.0.0.1:8787\n"), "{steps}");
        assert!(steps.contains("3. chorus login https://hub.example\n"), "{steps}");
    }

    #[test]
    fn what_is_given_is_not_asked() {
        let given = [
            "--dir",
            "/srv/c",
            "--listen",
            "[::1]:80",
            "--public-url",
            "http://hub.example",
            "--signup",
            "closed",
        ];
        let plan = plan(&given, Some("log\npostgres://db/x\n")).unwrap();
        assert_eq!(plan.get("signup"), Some("closed"));
        assert_eq!(plan.get("database_url"), Some("postgres://db/x"));
        assert_eq!(plan.get("master_key").map(str::len), Some(64));
        assert_eq!(plan.get("trusted_proxies"), None, "no TLS, no proxy");
        let open = self::plan(&["--listen", "0.0.0.0:80"], None).unwrap();
        assert!(open.next_steps(Path::new("x")).contains("chorus login http://127.0.0.1:80\n"));
        let layer = settings::file(&plan.text()).unwrap();
        Settings::load(&[layer]).unwrap();
    }

    #[test]
    fn nobody_is_asked_without_a_terminal() {
        let plan = plan(&[], None).unwrap();
        assert!(plan.folder.ends_with("chorus"));
        assert_eq!((plan.get("listen"), plan.get("signup")), (Some("127.0.0.1:8787"), Some("open")));
        assert!(plan.next_steps(Path::new("/a b/c")).contains("--config '/a b/c'\n"));
    }

    #[test]
    fn wrong_answers_come_to_an_end() {
        let error = plan(&["--dir", "/x", "--listen", "127.0.0.1:1"], Some("ftp://x\n".repeat(9).as_str()))
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "that was no answer");
        let error = plan(&[], Some("/x\n")).err().unwrap();
        assert_eq!(error.to_string(), "the answers ended");
    }
}
