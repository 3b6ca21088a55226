//! `chorus login` and `chorus logout`: keep a hub and a key for all commands, and forget them.

use crate::failure::Explained;
use crate::global::Global;
use crate::output::{self, one_line};
use crate::profiles::{self, Profile};
use chorus_agent::Client;
use chorus_protocol::api::accounts::Me;
use owo_colors::OwoColorize as _;
use serde_json::json;
use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::process::{Command, ExitCode, Stdio};

const LOGIN_EXAMPLES: &str = "\
Examples:
  chorus login https://hub.example                  asks for a key or token, and keeps it
  chorus login https://hub.example < token.txt      the same, from a file
  chorus login https://hub.example --profile work   under a name of its own
  chorus channel list --profile work                with that profile

People make a token on the hub's page, under Account. Agents have a key from `chorus register NAME`.
Options and CHORUS_URL or CHORUS_KEY win over a profile. Its key is sent to its own hub only.";

const LOGOUT_EXAMPLES: &str = "\
Examples:
  chorus logout
  chorus logout --profile work

The key stays valid. `chorus token revoke` revokes a person's token, a new `chorus register NAME` an
agent's key.";

/// The longest key that is read, in bytes.
const MAX_KEY: u64 = 4096;

/// Keep a hub and a key for all commands
#[derive(clap::Args)]
#[command(after_help = LOGIN_EXAMPLES)]
pub(crate) struct Args {
    /// The hub's URL [default: --url or CHORUS_URL, else http://127.0.0.1:8787]
    #[arg(value_name = "URL")]
    hub: Option<String>,
}

/// Forget the hub and the key that `chorus login` keeps
#[derive(clap::Args)]
#[command(after_help = LOGOUT_EXAMPLES)]
pub(crate) struct LogoutArgs {}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let name = global.profile_name();
    // A wrong name is told before a key is asked for.
    profiles::path(name)?;
    let url = args.hub.unwrap_or_else(|| global.url().to_owned());
    let key = match global.key() {
        Some(key) => key.to_owned(),
        None => read_key(&url)?,
    };
    let client = Client::connect(&url, Some(key.clone()))?;
    let me: Me = client.api_get(&["me"], &[]).await?;
    let file = profiles::keep(name, &Profile { url: url.clone(), key })?;
    if global.json {
        output::json(&json!({
            "profile": name, "url": url, "file": file, "kind": me.kind, "id": me.id, "name": me.name,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (kind, who) = (me.kind, me.name);
    output::data(one_line(&format!("{url}  {kind}  {who}")))?;
    output::talk(format_args!("\n{}; the key is kept in {}", "logged in".green(), file.display()));
    Ok(ExitCode::SUCCESS)
}

/// Reads a key from standard input. A terminal is asked for it and does not show it.
fn read_key(url: &str) -> anyhow::Result<String> {
    let input = std::io::stdin();
    let is_asked = input.is_terminal();
    if is_asked {
        let page = one_line(&format!("{}/account", url.trim_end_matches('/')));
        output::unended(format_args!("A key, or a token from {page}: "));
        show_typing(false);
    }
    let mut line = String::new();
    let read = input.lock().take(MAX_KEY).read_line(&mut line);
    if is_asked {
        show_typing(true);
        output::talk("");
    }
    read?;
    let key = line.trim();
    if key.is_empty() {
        let hint = "type it, pass it on standard input, or set CHORUS_KEY; people make a token on the hub's page, under Account";
        return Err(Explained::usage("there is no key", hint).into());
    }
    Ok(key.to_owned())
}

/// Switches whether the terminal shows what is typed. Without `stty` it does.
fn show_typing(is_shown: bool) {
    let word = if is_shown { "echo" } else { "-echo" };
    Command::new("stty").arg(word).stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
}

pub(crate) fn logout(global: &Global, _: &LogoutArgs) -> anyhow::Result<ExitCode> {
    let name = global.profile_name();
    let file = profiles::path(name)?;
    if !file.exists() {
        return Err(profiles::absent(name));
    }
    profiles::delete(name)?;
    if global.json {
        output::json(&json!({"profile": name, "file": file}))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::talk(format_args!("logged out; {} is deleted, and its key stays valid", file.display()));
    Ok(ExitCode::SUCCESS)
}
