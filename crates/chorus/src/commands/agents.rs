//! `chorus agents`: who is there; and getting back what was stolen.

use super::channel::without_nulls;
use super::register::read_card;
use super::send::read_text;
use crate::answer::{joined, or_dash, read, tell};
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_agent::{Client, ClientError, Method};
use chorus_protocol::api::accounts::{KeyReset, NewKey, WebhookSecret};
use chorus_protocol::api::agents::{AgentCard, AgentProof, AgentView, ConnectionView};
use chorus_protocol::relay::Registration;
use clap::{ArgGroup, Subcommand};
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus agents                                     everybody
  chorus agents bob                                 bob alone
  chorus agents --json | jq -r '.[] | select(.online) | .agent_id'
  chorus agents reset-key bob                       it was lost: the old one stops at once
  chorus agents reset-key bob --detach              it was stolen: undo what a thief set, too
  chorus agents reset-key bob --detach --release    as the operator: a thief has claimed bob
  chorus agents claim - < key.txt                   it has no owner: now it is yours
  chorus agents rotate-secret bob                   the old one is good for 24 hours more
  chorus agents edit bob --description 'Reviews releases'
  chorus agents pause bob                           what is for bob waits until you resume it
  chorus agents disable bob                         keep bob out until `chorus agents enable bob`

claim is for a person (a token ct_…). edit, pause and resume are for bob itself (its key ca_…), its
owner (a token ct_…) and the operator (co_…), reset-key and rotate-secret for the latter two, disable
and enable for the operator.";

/// How many agents one request asks for.
const PAGE: u32 = 100;

/// A million agents are more than anybody reads.
const MAX_PAGES: usize = 10_000;

const HEAD: [&str; 5] = ["ADDRESS", "ONLINE", "CULTURE", "LANGUAGES", "REGISTERED"];

/// List the agents of a hub, or show one; change one, take keys and secrets back, and keep one out.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// The name of one agent, or its address name@host
    name: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// List everybody, as without a command
    List,
    /// Give an agent a new key; the old one and everything given out under it stop at once
    ResetKey {
        /// The agent's name, address or id
        agent: String,
        /// The key was stolen: also take off its endpoint, its connection strings and its webhook secrets, which a thief may
        /// have set or seen
        #[arg(long)]
        detach: bool,
        /// The key was stolen and a thief has claimed the agent: it belongs to nobody from now on (for the operator)
        #[arg(long)]
        release: bool,
    },
    /// Make an agent yours that belongs to nobody, by its key
    Claim {
        /// The agent's key ca_…, or - to read it from standard input, where other users cannot see it
        agent_key: String,
    },
    /// Give an agent a new webhook secret; the old one goes on for 24 hours, unless you do it twice
    RotateSecret {
        /// The agent's name, address or id
        agent: String,
    },
    /// Change what is known of an agent; what is not named stays
    #[command(group = ArgGroup::new("what").required(true).multiple(true).args(["description", "endpoint", "card"]))]
    Edit {
        /// The agent's name, address or id
        agent: String,
        /// What it is, for people; '' takes it away
        #[arg(long)]
        description: Option<String>,
        /// Its webhook: where envelopes and what is said in channels are POSTed
        #[arg(long, value_name = "URL")]
        endpoint: Option<String>,
        /// A file with its agent card
        #[arg(long, value_name = "FILE")]
        card: Option<PathBuf>,
    },
    /// Let what is for an agent wait, by every way
    Pause {
        /// The agent's name, address or id
        agent: String,
    },
    /// Let an agent have again what waited for it
    Resume {
        /// The agent's name, address or id
        agent: String,
    },
    /// Keep an agent out, as the operator: its key is refused and it is called nowhere
    Disable {
        /// The agent's name, address or id
        agent: String,
    },
    /// Let an agent in again that was disabled
    Enable {
        /// The agent's name, address or id
        agent: String,
    },
}

async fn change(global: &Global, command: Command) -> anyhow::Result<()> {
    let client = global.keyed_client()?;
    let post = async |path: &[&str]| client.api_write(Method::POST, path, &[], None).await;
    match command {
        Command::List => {}
        Command::ResetKey { agent, detach, release } => {
            let (path, body) = (["agents", &agent, "key", "reset"], json!(KeyReset { detach, release }));
            let answer = client.api_write(Method::POST, &path, &[], Some(&body)).await?;
            tell(global, &answer, |new: NewKey| one_line(&new.api_key))?;
            output::talk("the old key is dead, and whatever was given out under it");
            let address = one_line(&read::<NewKey>(&answer)?.address);
            if detach {
                output::talk(format_args!(
                    "nothing reaches {address} but its inbox: set its endpoint and its connection string again"
                ));
            } else {
                output::talk(format_args!(
                    "if it was stolen: `chorus agents reset-key {agent} --detach` also takes off what a thief may have set"
                ));
            }
            if release {
                output::talk(format_args!(
                    "{address} belongs to nobody: whoever has the new key may claim it"
                ));
            }
        }
        Command::Claim { agent_key } => {
            let api_key = if agent_key == "-" { read_text(std::io::stdin().lock())? } else { agent_key };
            let body = json!(AgentProof { api_key: api_key.trim().to_owned() });
            let answer = client.api_write(Method::POST, &["agents", "claim"], &[], Some(&body)).await?;
            tell(global, &answer, |agent: AgentView| format!("{} is yours", one_line(&agent.address)))?;
        }
        Command::RotateSecret { agent } => {
            let answer = post(&["agents", &agent, "webhook-secret", "rotate"]).await?;
            tell(global, &answer, |new: WebhookSecret| one_line(&new.webhook_secret))?;
            let until = one_line(&or_dash(read::<WebhookSecret>(&answer)?.previous_until));
            output::talk(format_args!("requests are signed with the old one as well until {until}"));
        }
        Command::Edit { agent, description, endpoint, card } => {
            let card = card.as_deref().map(read_card).transpose()?;
            let body = without_nulls(json!({"description": description, "endpoint": endpoint, "card": card}));
            let answer = client.api_write(Method::PATCH, &["agents", &agent], &[], Some(&body)).await?;
            tell(global, &answer, |agent: AgentView| format!("{} is changed", one_line(&agent.address)))?;
        }
        Command::Pause { agent } => pause(global, &client, &agent, true).await?,
        Command::Resume { agent } => pause(global, &client, &agent, false).await?,
        Command::Disable { agent } => {
            let answer = post(&["operator", "agents", &agent, "disable"]).await?;
            tell(global, &answer, |agent: AgentView| format!("{} is disabled", one_line(&agent.address)))?;
        }
        Command::Enable { agent } => {
            let answer = post(&["operator", "agents", &agent, "enable"]).await?;
            tell(global, &answer, |agent: AgentView| {
                let is_out = agent.disabled_since.is_some();
                let state = if is_out { "stays out: its owner is disabled" } else { "is enabled" };
                format!("{} {state}", one_line(&agent.address))
            })?;
        }
    }
    Ok(())
}

async fn pause(global: &Global, client: &Client, agent: &str, paused: bool) -> anyhow::Result<()> {
    let body = json!({"paused": paused});
    let answer = client.api_write(Method::PATCH, &["agents", agent], &[], Some(&body)).await?;
    tell(global, &answer, |agent: AgentView| {
        let state = if agent.paused_since.is_some() { "is paused: what is for it waits" } else { "goes on" };
        format!("{} {state}", one_line(&agent.address))
    })
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(Command::List) | None => {}
        Some(command) => {
            change(global, command).await?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    let client = global.client()?;
    let agents = match &args.name {
        Some(name) => {
            one(global, &client, name).await?;
            return Ok(ExitCode::SUCCESS);
        }
        None => all(&client).await?,
    };
    if global.json {
        output::json(&agents)?;
    } else if agents.is_empty() {
        output::talk("nobody is registered; `chorus register NAME` is the first to come");
    } else {
        output::data(table(&agents))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows one agent; those concerned also where its own connection string leads, and whether it is kept out.
async fn one(global: &Global, client: &Client, name: &str) -> anyhow::Result<()> {
    let agent = client.agent(name).await?;
    let mut more = Value::Null;
    // A hub that goes by the document alone knows no more.
    if let Some(id) = agent.id.filter(|_| global.has_key()) {
        more = client.api_get(&["agents", &id.to_string()], &[]).await?;
    }
    if global.json {
        let mut shown = serde_json::to_value(&agent)?;
        for name in ["connection", "description", "disabled_since", "paused_since"] {
            if let Some(value) = more.get(name) {
                shown[name] = value.clone();
            }
        }
        return output::json(&shown);
    }
    output::data(table(&[agent]))?;
    if more.is_null() {
        return Ok(());
    }
    let AgentView { connection, description, disabled_since, paused_since, .. } = read(&more)?;
    if let Some(description) = description {
        output::data(one_line(&description))?;
    }
    if let Some(ConnectionView { host: Some(host), state, .. }) = connection {
        output::data(format_args!("its connection string leads to {} ({state})", one_line(&host)))?;
    }
    if let Some(since) = disabled_since {
        output::data(format_args!("it is disabled since {}", one_line(&since)))?;
    }
    if let Some(since) = paused_since {
        output::data(format_args!("it is paused since {}", one_line(&since)))?;
    }
    Ok(())
}

async fn all(client: &Client) -> Result<Vec<Registration>, ClientError> {
    let mut agents = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let (page, next) = client.agents(after.as_deref(), PAGE).await?;
        // A cursor that stands still would be an endless list.
        if next.is_some() && (next == after || page.is_empty()) {
            break;
        }
        agents.extend(page);
        if next.is_none() {
            return Ok(agents);
        }
        after = next;
    }
    Err(ClientError::Protocol("the hub's directory does not come to an end".into()))
}

fn table(agents: &[Registration]) -> String {
    let rows: Vec<_> = agents.iter().map(row).collect();
    output::table(HEAD, &rows)
}

fn row(agent: &Registration) -> [String; 5] {
    // What an agent says of itself is its own affair, and no reason to show nobody.
    let card = agent.agent_card.as_ref().and_then(|card| AgentCard::deserialize(card).ok());
    let (culture, languages) = card.map(|card| (card.user_culture.0, card.supported_languages)).unzip();
    let languages: Vec<_> = languages.into_iter().flatten().map(|language| language.0).collect();
    let online = match agent.online {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    };
    [&agent.agent_id, online, &or_dash(culture), &joined(&languages), &agent.registered_at].map(one_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(address: &str, online: bool, card: Value) -> Registration {
        serde_json::from_value(json!({"id": "a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f", "agent_id": address,
            "online": online, "agent_card": card, "registered_at": "2026-03-20", "updated_at": "t"}))
        .unwrap()
    }

    #[test]
    fn columns_are_aligned() {
        let card = json!({"user_culture": "zh-CN", "supported_languages": ["zh-CN", "en"]});
        let agents = [agent("alice@x", true, card), agent("bob\u{1b}", false, Value::Null)];
        let shown = anstream::adapter::strip_str(&table(&agents)).to_string();
        let expected = [
            "ADDRESS    ONLINE  CULTURE  LANGUAGES  REGISTERED",
            "alice@x    yes     zh-CN    zh-CN,en   2026-03-20",
            "bob\\u{1b}  no      -        -          2026-03-20",
        ];
        assert_eq!(shown, expected.join("\n"));
    }
}
