//! `chorus agents`: who is there.

use crate::global::Global;
use crate::output;
use chorus_agent::{Client, ClientError};
use chorus_protocol::relay::Registration;
use serde_json::Value;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus agents                                     everybody
  chorus agents bob                                 bob alone
  chorus agents --json | jq -r '.[] | select(.online) | .agent_id'";

/// How many agents one request asks for.
const PAGE: u32 = 100;

/// A million agents are more than anybody reads.
const MAX_PAGES: usize = 10_000;

const HEAD: [&str; 5] = ["ADDRESS", "ONLINE", "CULTURE", "LANGUAGES", "REGISTERED"];

/// List the agents of a hub, or show one.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The name of one agent, or its address name@host
    name: Option<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.client()?;
    let agents = match &args.name {
        Some(name) => {
            let agent = client.agent(name).await?;
            if global.json {
                output::json(&agent)?;
                return Ok(ExitCode::SUCCESS);
            }
            vec![agent]
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
    let card = |name: &str| agent.agent_card.as_ref().and_then(|card| card.get(name));
    let culture = card("user_culture").and_then(Value::as_str).unwrap_or("-");
    let languages: Vec<_> = card("supported_languages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let languages = if languages.is_empty() { "-".to_owned() } else { languages.join(",") };
    let online = if agent.online { "yes" } else { "no" };
    [&agent.agent_id, online, culture, &languages, &agent.registered_at].map(output::one_line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
