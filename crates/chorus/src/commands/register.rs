//! `chorus register`: registers an agent at a hub, or updates it.
//!
//! Nothing is stored on this machine: the key is printed once, and the caller must store it.

use super::channel::without_nulls;
use crate::failure::{self, Explained};
use crate::global::Global;
use crate::{answer, output};
use anyhow::Context;
use chorus_agent::{Change, Client, ClientError, Method, RegisterBody};
use chorus_protocol::api::agents::{AgentView, MadeAgent};
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::json;
use chorus_protocol::relay::{CARD_VERSION, MAX_BODY, Registered};
use owo_colors::OwoColorize;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus register alice
  chorus register alice --culture zh-CN --language zh-CN --language en
  chorus register alice --endpoint https://alice.example/receive    and prints its secret
  chorus register alice --invitation ci_…     where sign-up is by invitation
  CHORUS_KEY=ct_… chorus register alice       with a person's token: alice is hers
  CHORUS_KEY=ca_… chorus register alice       with alice's own key, which is replaced";

/// Register an agent and print its key, which is shown only once.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The agent's name, or its address name@host
    name: String,
    /// The URL to which the hub POSTs messages [default: none, messages wait in the inbox]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The culture of the agent's user, as a BCP 47 tag [default: en]
    #[arg(long, value_name = "TAG")]
    culture: Option<String>,
    /// A language the agent understands; may be repeated [default: the culture]
    #[arg(long = "language", value_name = "TAG")]
    languages: Vec<String>,
    /// A whole agent card as a JSON file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["culture", "languages"])]
    card: Option<PathBuf>,
    /// An invitation to the hub, required for a new agent where sign-up is by invitation
    #[arg(long, value_name = "CODE")]
    invitation: Option<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.client()?;
    if global.key_kind() == Some(SecretKind::ApiToken) {
        return register_own(global, &client, args).await;
    }
    let known = known_card(global, &client, &args.name).await?;
    let body = RegisterBody {
        agent_card: card(&args, known)?,
        agent_id: args.name,
        endpoint: args.endpoint,
        invitation: args.invitation,
    };
    let (registered, change) = client.register(&body).await?;
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
    talk_of_challenge(registered.endpoint_proven);
    Ok(ExitCode::SUCCESS)
}

/// Creates an agent that belongs to the token's account.
async fn register_own(global: &Global, client: &Client, args: Args) -> anyhow::Result<ExitCode> {
    let body =
        without_nulls(json!({"name": args.name, "card": card(&args, None)?, "endpoint": args.endpoint}));
    let answer: Value = match client.api_write(Method::POST, &["agents"], &[], Some(&body)).await {
        Err(error) if error.code() == Some(Code::Conflict) => {
            return Err(taken(client, &args.name, error).await);
        }
        answer => answer?,
    };
    if global.json {
        output::json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let made: MadeAgent = answer::read(&answer)?;
    let secret = args.endpoint.is_some().then_some(&made.webhook_secret);
    output::data(lines(&made.address, Some(&made.api_key), secret))?;
    let said = "registered, and yours".green().to_string();
    output::talk(format_args!("\n{said}; keep the key, it is not shown again"));
    let string = output::one_line(&made.connection_string);
    output::talk(format_args!(
        "other services reach it at {string}, which is not shown again either: `chorus agent-url rotate` makes another"
    ));
    talk_of_challenge(made.endpoint_proven);
    Ok(ExitCode::SUCCESS)
}

/// Adds advice to the error for a name that is taken, perhaps by an agent of the same account.
async fn taken(client: &Client, name: &str, error: ClientError) -> anyhow::Error {
    // Only an agent's owner sees its owner.
    let owned =
        client.api_get::<AgentView>(&["agents", name], &[]).await.is_ok_and(|agent| agent.owner.is_some());
    let hint = if owned {
        "it is yours: `chorus agents reset-key NAME` gives it a new key, `chorus unregister NAME` takes it off the hub"
    } else {
        "choose another name"
    };
    Explained::refused(failure::sentence(&error), hint).into()
}

fn talk_of_challenge(endpoint_proven: Option<bool>) {
    if endpoint_proven == Some(false) {
        output::talk(
            "the endpoint has not echoed the hub's challenge, and gets nothing else before; `chorus receive` does it by \
             itself, with the secret above",
        );
    }
}

/// Returns the hub's card of the agent, if a key is given.
async fn known_card(global: &Global, client: &Client, name: &str) -> anyhow::Result<Option<Value>> {
    if !global.has_key() {
        return Ok(None);
    }
    match client.agent(name).await {
        Ok(agent) => Ok(agent.agent_card),
        Err(error) if error.code() == Some(Code::AgentNotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the card to send. Values that are not given stay as the hub has them.
fn card(args: &Args, known: Option<Value>) -> anyhow::Result<Option<Value>> {
    if let Some(path) = &args.card {
        return Ok(Some(read_card(path)?));
    }
    let (culture, languages) = (args.culture.as_deref(), &args.languages[..]);
    Ok(match known {
        Some(Value::Object(known)) => change_card(known, culture, languages),
        _ => Some(make_card(culture.unwrap_or("en"), languages)),
    })
}

fn change_card(mut card: Map<String, Value>, culture: Option<&str>, languages: &[String]) -> Option<Value> {
    if let Some(culture) = culture {
        card.insert("user_culture".into(), culture.into());
    }
    if !languages.is_empty() {
        card.insert("supported_languages".into(), json!(languages));
    }
    let said = culture.is_some() || !languages.is_empty();
    said.then_some(Value::Object(card))
}

fn make_card(culture: &str, languages: &[String]) -> Value {
    let languages = if languages.is_empty() { json!([culture]) } else { json!(languages) };
    json!({"card_version": CARD_VERSION, "user_culture": culture, "supported_languages": languages})
}

pub(crate) fn read_card(path: &Path) -> anyhow::Result<Value> {
    let mut bytes = Vec::new();
    let open = || format!("cannot read the agent card {}", path.display());
    let file = File::open(path).with_context(open)?;
    // One byte more than allowed distinguishes a file that is too large from one that just fits.
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
    lines(agent_id, api_key.as_ref(), webhook_secret.as_ref())
}

/// Formats the issued values, and the shell commands that set them.
fn lines(address: &String, key: Option<&String>, secret: Option<&String>) -> String {
    let given = [
        ("address", Some(address), "CHORUS_AGENT"),
        ("key", key, "CHORUS_KEY"),
        ("secret", secret, "CHORUS_WEBHOOK_SECRET"),
    ];
    let given: Vec<_> = given
        .into_iter()
        .filter_map(|(what, value, variable)| Some((what, output::one_line(value?), variable)))
        .collect();
    let mut lines: Vec<_> = given.iter().map(|(what, value, _)| format!("{what:<8} {value}")).collect();
    // An address alone is not worth exporting.
    if given.len() > 1 {
        lines.push(String::new());
        lines.extend(given.iter().map(|(_, value, variable)| format!("export {variable}={}", quote(value))));
    }
    lines.join("\n")
}

/// Quotes a text as one word for a shell: these lines are meant to be pasted, and a hub wrote them.
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
        let known = || make_card("de", &[]).as_object().unwrap().clone();
        assert_eq!(change_card(known(), None, &[]), None, "what is not said stays");
        let changed = change_card(known(), Some("fr"), &[]).unwrap();
        assert_eq!(
            (&changed["user_culture"], &changed["supported_languages"]),
            (&json!("fr"), &json!(["de"]))
        );
        assert!(read_card(Path::new("/nowhere.json")).unwrap_err().to_string().contains("/nowhere.json"));
    }
}
