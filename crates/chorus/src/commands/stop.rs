//! `chorus stop`: ends the work of agents on a message, or all work of an agent.

use crate::commands::channel::{find, whole_id};
use crate::global::Global;
use crate::output;
use chorus_agent::Method;
use chorus_protocol::api::messages::StopResult;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus stop ops '#12'          end the work on a message, and in the thread that it began
  chorus stop --agent ann        end everything that an agent of yours works on

Who asked for work may stop it, also a person that leads or owns the channel or the stream, and the agent's owner.";

/// Stop the work of agents
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The channel's id, or its name if only one of yours has it
    #[arg(required_unless_present = "agent", requires = "event")]
    channel: Option<String>,
    /// The message: its id, the end of it, or its #number, as shown by `chorus channel history`
    event: Option<String>,
    /// An agent of yours, by its name or address: stop all its work
    #[arg(long, conflicts_with_all = ["channel", "event"])]
    agent: Option<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    let stopped: serde_json::Value = match (args.agent, args.channel, args.event) {
        (Some(agent), ..) => client.api_write(Method::POST, &["agents", &agent, "stop"], &[], None).await?,
        (None, Some(channel), Some(event)) => {
            let channel = find(global, channel).await?;
            let event = whole_id(global, &channel, event).await?;
            let path = ["channels", &channel, "messages", &event, "stop"];
            client.api_write(Method::POST, &path, &[], None).await?
        }
        (None, ..) => return Ok(ExitCode::FAILURE),
    };
    crate::answer::tell(global, &stopped, |result: StopResult| {
        let lines = result
            .stopped
            .iter()
            .map(|work| output::one_line(&format!("stopped {} on {}", work.agent, work.event_id)));
        let lines: Vec<_> = lines.collect();
        if lines.is_empty() { "there is no work to stop".into() } else { lines.join("\n") }
    })?;
    Ok(ExitCode::SUCCESS)
}
