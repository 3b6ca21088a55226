//! `chorus agents`: lists and changes agents, and recovers stolen ones.

use super::channel::without_nulls;
use super::register::read_card;
use super::send::read_text;
use crate::answer::{joined, or_dash, read, tell};
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_agent::{Client, ClientError, Method};
use chorus_protocol::api::accounts::{DetachReport, KeyReset, NewKey, WebhookSecret};
use chorus_protocol::api::agents::{
    AgentCard, AgentProof, AgentView, AllowanceView, ConnectionView, NewAllowance,
};
use chorus_protocol::market::Credits;
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
  chorus agents allowance bob 2.50                  bob's key spends this much of your credits a day
  chorus agents disable bob                         keep bob out until `chorus agents enable bob`

claim is for a person (a token ct_…), allowance for bob's owner (ct_…, or cw_… without an account). edit, pause and resume are for bob itself (its key ca_…), its
owner (a token ct_…) and the operator (co_…), reset-key and rotate-secret for the latter two, disable
and enable for the operator.";

/// The number of agents in one request.
const PAGE: u32 = 100;

/// The limit of pages: a million agents.
const MAX_PAGES: usize = 10_000;

const HEAD: [&str; 5] = ["ADDRESS", "ONLINE", "CULTURE", "LANGUAGES", "REGISTERED"];

/// List the agents of a hub, or show one; change one, replace its keys and secrets, or disable it.
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
    /// List all agents, as without a command
    List,
    /// Give an agent a new key; the old one and everything issued under it stop at once
    ResetKey {
        /// The agent's name, address or id
        agent: String,
        /// The key was stolen: also remove its endpoint, its connection strings and its webhook secrets, which
        /// a thief may have set or seen
        #[arg(long)]
        detach: bool,
        /// The key was stolen and a thief has claimed the agent: leave it without an owner (for the operator)
        #[arg(long)]
        release: bool,
    },
    /// Claim an agent without an owner, by its key
    Claim {
        /// The agent's key ca_…, or - to read it from standard input, where other users cannot see it
        agent_key: String,
    },
    /// Give an agent a new webhook secret; the old one is valid for 24 hours, unless you do it twice
    RotateSecret {
        /// The agent's name, address or id
        agent: String,
    },
    /// Change an agent; options that are not given leave it unchanged
    #[command(group = ArgGroup::new("what").required(true).multiple(true).args(["description", "endpoint", "card"]))]
    Edit {
        /// The agent's name, address or id
        agent: String,
        /// A description for people; '' removes it
        #[arg(long)]
        description: Option<String>,
        /// Its webhook, to which envelopes and channel messages are POSTed
        #[arg(long, value_name = "URL")]
        endpoint: Option<String>,
        /// A file with its agent card
        #[arg(long, value_name = "FILE")]
        card: Option<PathBuf>,
    },
    /// Pause an agent: all its messages wait
    Pause {
        /// The agent's name, address or id
        agent: String,
    },
    /// Resume a paused agent: the waiting messages are delivered
    Resume {
        /// The agent's name, address or id
        agent: String,
    },
    /// Show the credits that an agent's key may spend in a day, or set them as its owner
    Allowance {
        /// The agent's name, address or id
        agent: String,
        /// The credits for one day (UTC), or off: an account's agent then spends nothing, others without a
        /// limit
        #[arg(value_name = "CREDITS|off", value_parser = NewLimit::parse)]
        limit: Option<NewLimit>,
    },
    /// Disable an agent, as the operator: its key is refused and it is not called
    Disable {
        /// The agent's name, address or id
        agent: String,
    },
    /// Enable a disabled agent
    Enable {
        /// The agent's name, address or id
        agent: String,
    },
}

/// Describes what was removed from a detached agent, one line each.
fn taken_off(report: &DetachReport) -> Vec<String> {
    let DetachReport {
        endpoint,
        harness,
        connection,
        market_endpoint,
        skills,
        offers,
        job_callbacks,
        owner_keys,
    } = report;
    let hosts = [
        ("its endpoint", endpoint),
        ("its harness", harness),
        ("its connection string", connection),
        ("its endpoint for jobs", market_endpoint),
    ];
    let hosts = hosts.into_iter().filter_map(|(what, host)| Some(format!("{what} at {}", host.as_ref()?)));
    let counts = [("skills", skills), ("open offers", offers), ("callbacks of jobs", job_callbacks)];
    let counts = counts.into_iter().filter(|(_, count)| **count > 0);
    let keys = owner_keys.iter().map(|owner| format!("the owner key of {owner}"));
    hosts.chain(counts.map(|(what, count)| format!("{count} {what}"))).chain(keys).collect()
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
            let NewKey { address, detached, .. } = read(&answer)?;
            let address = one_line(&address);
            for taken in detached.iter().flat_map(taken_off) {
                output::talk(format_args!("taken off: {}", one_line(&taken)));
            }
            if detach {
                output::talk(format_args!(
                    "nothing reaches {address} but its inbox: set its endpoints and its connection string, and offer its skills, again"
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
        Command::Allowance { agent, limit } => allowance(global, &client, &agent, limit).await?,
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

/// A new allowance, or its removal.
#[derive(Debug, Clone, Copy)]
enum NewLimit {
    PerDay(Credits),
    Off,
}

impl NewLimit {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            amount => Credits::parse(amount).map(Self::PerDay).map_err(|wrong| wrong.to_string()),
        }
    }
}

async fn allowance(
    global: &Global,
    client: &Client,
    agent: &str,
    limit: Option<NewLimit>,
) -> anyhow::Result<()> {
    let path = ["agents", agent, "allowance"];
    let answer: Value = match limit {
        None => client.api_get(&path[..2], &[]).await?,
        Some(NewLimit::Off) => client.api_write(Method::DELETE, &path, &[], None).await?,
        Some(NewLimit::PerDay(credits_per_day)) => {
            let body = json!(NewAllowance { credits_per_day });
            client.api_write(Method::PUT, &path, &[], Some(&body)).await?
        }
    };
    tell(global, &answer, |agent: AgentView| match agent.allowance {
        Some(allowance) => format!("{} {}", one_line(&agent.address), spends(&allowance)),
        None => format!(
            "{} has no allowance that you may see: it spends without a limit, or is not yours",
            one_line(&agent.address)
        ),
    })
}

fn spends(allowance: &AllowanceView) -> String {
    let AllowanceView { credits_per_day, spent_today, left_today } = allowance;
    format!("may spend {credits_per_day} credits a day; {spent_today} today, {left_today} left")
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

/// Shows one agent. Its owner and the operator also see the host of its connection string, and whether it is
/// disabled.
async fn one(global: &Global, client: &Client, name: &str) -> anyhow::Result<()> {
    let agent = client.agent(name).await?;
    let mut more = Value::Null;
    // A hub that implements only the relay has no more details.
    if let Some(id) = agent.id.filter(|_| global.has_key()) {
        more = client.api_get(&["agents", &id.to_string()], &[]).await?;
    }
    if global.json {
        let mut shown = serde_json::to_value(&agent)?;
        for name in [
            "connection",
            "description",
            "disabled_since",
            "endpoint",
            "harness",
            "market_endpoint",
            "paused_since",
            "allowance",
        ] {
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
    let AgentView {
        connection,
        description,
        disabled_since,
        endpoint,
        harness,
        market_endpoint,
        paused_since,
        allowance,
        ..
    } = read(&more)?;
    if let Some(description) = description {
        output::data(one_line(&description))?;
    }
    if let Some(ConnectionView { host: Some(host), state, .. }) = connection {
        output::data(format_args!("its connection string leads to {} ({state})", one_line(&host)))?;
    }
    if let Some(allowance) = allowance {
        output::data(format_args!("it {}", spends(&allowance)))?;
    }
    for (what, host) in [
        ("its endpoint is", endpoint),
        ("its harness is called", harness),
        ("its jobs from the market are POSTed", market_endpoint),
    ] {
        if let Some(host) = host {
            output::data(format_args!("{what} at {}", one_line(&host)))?;
        }
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
        // A cursor that does not move would make an endless list.
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
    // An invalid card is ignored, so that the list is still shown.
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
