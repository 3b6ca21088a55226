//! `chorus sent`: shows the delivery state of the envelopes that an agent sent.

use crate::failure::Explained;
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_protocol::ids::TraceId;
use chorus_protocol::relay::{SentMessage, SentRung};
use owo_colors::OwoColorize;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus sent                                       the last twenty, and how far each came
  chorus sent 0190a3c4d5e67f8090a1b2c3d4e5f607      one of them, by its trace_id
  CHORUS_KEY=co_… chorus sent --sender alice        as the operator: those of alice

The rungs: stored (committed), handed (to the receiver's connection), delivered (its endpoint took
it), failed (why).
The key (--key or CHORUS_KEY) is an agent's key ca_… or the operator's co_…";

/// The largest page that is requested.
const PAGE: u32 = 100;

/// Show the delivery of the envelopes you sent, newest first
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// One envelope, by its trace id
    #[arg(value_name = "TRACE_ID")]
    trace: Option<String>,
    /// For the operator: the sender of the envelopes
    #[arg(long, value_name = "AGENT")]
    sender: Option<String>,
    /// The maximum number of envelopes
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "trace", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let (client, sender) = (global.agent_client()?, args.sender.as_deref());
    if let Some(trace) = &args.trace {
        let odd = || {
            Explained::usage("a trace_id has 32 hex digits", "`chorus send --json` and `chorus sent` tell it")
        };
        let one = client.sent_one(sender, TraceId::parse(trace).ok_or_else(odd)?).await?;
        if global.json {
            output::json(&one)?;
        } else {
            output::data(show(&one))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (mut sent, mut after, mut left) = (Vec::new(), None::<String>, args.limit);
    while left > 0 {
        let (page, next) = client.sent(sender, after.as_deref(), left.min(PAGE)).await?;
        left = left.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        let stuck = page.is_empty() || next == after;
        sent.extend(page);
        // A cursor that does not move would make an endless list.
        if stuck || next.is_none() {
            break;
        }
        after = next;
    }
    if global.json {
        output::json(&sent)?;
    } else if sent.is_empty() {
        output::talk("nothing was sent, or it is not kept any more");
    } else {
        output::data(sent.iter().map(show).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats an envelope as one line, with a line for each stage of its delivery.
fn show(sent: &SentMessage) -> String {
    let rung = |SentRung { rung, at, reason }: &SentRung| {
        let reason = reason.as_deref().map(|why| format!(": {}", one_line(why))).unwrap_or_default();
        format!(
            "\n  {:<9}  {}{reason}",
            one_line(&rung.to_string()),
            one_line(at.as_deref().unwrap_or("time not noted"))
        )
    };
    let rungs: String = sent.rungs.iter().map(rung).collect();
    format!(
        "{} to {} {}{rungs}",
        sent.trace_id.to_string().dimmed(),
        one_line(&sent.receiver_id).bold(),
        sent.delivery
    )
}
