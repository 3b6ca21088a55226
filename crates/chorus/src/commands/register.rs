//! `chorus register`: join a hub, or change what it knows of an agent.
//!
//! Nothing is stored on this machine: the key is printed once, and keeping it is the caller's business.

use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use anyhow::Context;
use chorus_agent::{Change, RegisterBody};
use chorus_protocol::json;
use chorus_protocol::relay::{CARD_VERSION, MAX_BODY, Registered};
use owo_colors::OwoColorize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus register alice
  chorus register alice --culture zh-CN --language zh-CN --language en
  chorus register alice --endpoint https://alice.example/receive    also prints the webhooks' secret
  chorus register alice --invitation ci_…     where sign-up is by invitation
  CHORUS_KEY=ca_… chorus register alice       update alice; her key is replaced";

/// Register an agent and print its key, which is shown this once.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The agent's name, or its address name@host
    name: String,
    /// Where the hub may POST messages; without it they wait in the inbox
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The culture the agent's user lives in, as a BCP 47 tag
    #[arg(long, value_name = "TAG", default_value = "en")]
    culture: String,
    /// A language the agent understands; may be given several times [default: the culture]
    #[arg(long = "language", value_name = "TAG")]
    languages: Vec<String>,
    /// A whole agent card as a JSON file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["culture", "languages"])]
    card: Option<PathBuf>,
    /// An invitation of somebody on the hub; a new agent needs one where sign-up is by invitation
    #[arg(long, value_name = "CODE")]
    invitation: Option<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let card = match &args.card {
        Some(path) => read_card(path)?,
        None => make_card(&args.culture, &args.languages),
    };
    let body = RegisterBody {
        agent_id: args.name,
        endpoint: args.endpoint,
        agent_card: Some(card),
        invitation: args.invitation,
    };
    let (registered, change) = global.client()?.register(&body).await?;
    if global.json {
        output::json(&registered)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::data(show(&registered))?;
    let what = match change {
        Change::Created => "registered",
        Change::Updated => "updated",
    };
    match registered.api_key {
        Some(_) => output::talk(format_args!("\n{}; keep the key, it is not shown again", what.green())),
        None => output::talk(format_args!("\n{}; the key stays what it was", what.green())),
    }
    if registered.endpoint_proven == Some(false) {
        output::talk(
            "the endpoint has not echoed the hub's challenge, and gets nothing else before; `chorus receive` does it by \
             itself, with the secret above",
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn make_card(culture: &str, languages: &[String]) -> Value {
    let languages = if languages.is_empty() { json!([culture]) } else { json!(languages) };
    json!({"card_version": CARD_VERSION, "user_culture": culture, "supported_languages": languages})
}

fn read_card(path: &Path) -> anyhow::Result<Value> {
    let mut bytes = Vec::new();
    let open = || format!("cannot read the agent card {}", path.display());
    let file = File::open(path).with_context(open)?;
    // One byte more than allowed tells a file that is too large from one that just fits.
    file.take(MAX_BODY as u64 + 1).read_to_end(&mut bytes).with_context(open)?;
    if bytes.len() > MAX_BODY {
        let what = format!("the agent card {} is larger than 256 KiB", path.display());
        return Err(Explained::usage(
            what,
            "a card holds card_version, user_culture and supported_languages",
        )
        .into());
    }
    json::parse(&bytes).with_context(|| format!("the agent card {} is not a card", path.display()))
}

fn show(registered: &Registered) -> String {
    let Registered { agent_id, api_key, webhook_secret, .. } = registered;
    let given = [
        ("address", Some(agent_id), "CHORUS_AGENT"),
        ("key", api_key.as_ref(), "CHORUS_KEY"),
        ("secret", webhook_secret.as_ref(), "CHORUS_WEBHOOK_SECRET"),
    ];
    let given: Vec<_> = given
        .into_iter()
        .filter_map(|(what, value, variable)| Some((what, output::one_line(value?), variable)))
        .collect();
    let mut lines: Vec<_> = given.iter().map(|(what, value, _)| format!("{what:<8} {value}")).collect();
    // An address alone is nothing to keep.
    if given.len() > 1 {
        lines.push(String::new());
        lines.extend(given.iter().map(|(_, value, variable)| format!("export {variable}={}", quote(value))));
    }
    lines.join("\n")
}

/// A text as a shell takes it for one word: these lines are made to be pasted, and a hub wrote them.
fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | ':');
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(key: Value) -> Registered {
        serde_json::from_value(json!({"agent_id": "alice@x:80", "api_key": key, "registration": {
            "id": "a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f", "agent_id": "alice@x:80", "online": false,
            "registered_at": "t", "updated_at": "t"}}))
        .unwrap()
    }

    #[test]
    fn the_lines_to_copy() {
        assert_eq!(
            show(&registered("ca_1".into())),
            "address  alice@x:80\nkey      ca_1\n\nexport CHORUS_AGENT=alice@x:80\nexport CHORUS_KEY=ca_1"
        );
        let signed = Registered { webhook_secret: Some("whsec_a=".into()), ..registered("ca_1".into()) };
        let shown = show(&signed);
        assert!(shown.contains("\nsecret   whsec_a=\n"), "{shown}");
        assert!(shown.ends_with("\nexport CHORUS_WEBHOOK_SECRET='whsec_a='"), "{shown}");
        assert_eq!(show(&registered(Value::Null)), "address  alice@x:80");
        let hostile = show(&registered("x;rm -rf '~'\n".into()));
        assert!(hostile.contains(r"export CHORUS_KEY='x;rm -rf '\''~'\''\n'"), "{hostile}");
    }

    #[test]
    fn cards() {
        assert_eq!(make_card("zh-CN", &[])["supported_languages"], json!(["zh-CN"]));
        assert_eq!(make_card("en", &["fr".into()])["supported_languages"], json!(["fr"]));
        assert!(read_card(Path::new("/nowhere.json")).unwrap_err().to_string().contains("/nowhere.json"));
    }
}
