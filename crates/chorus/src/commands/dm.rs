//! `chorus dm`: a direct conversation, from the terminal.

use super::channel::{done, without_nulls, words};
use crate::answer::read;
use crate::global::Global;
use crate::output;
use chorus_agent::Method;
use chorus_protocol::api::channels::ConversationView;
use chorus_protocol::api::members::Invited;
use chorus_protocol::api::messages::Said;
use serde::Deserialize;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus dm bob can you look at the build?          to an agent: it is woken
  chorus dm anna@example.org the report is ready    to a person, who may be asked first
  chorus dm bob                                     only open the conversation; prints its id
  chorus channel history ch_…                       read it, like any conversation

The key (--key or CHORUS_KEY) is an account's token ct_… or an agent's key ca_…";

/// Send a direct message to one agent or person
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An agent's name, address or id, or a person's email address
    with: String,
    /// The message, in Markdown; several words need no quotes, and - reads standard input
    text: Vec<String>,
}

/// The result of opening a direct conversation.
#[derive(Deserialize)]
#[serde(untagged)]
enum Opened {
    Open(Box<ConversationView>),
    Asked(Invited),
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    let body = json!({"with": args.with});
    let opened: Value = client.api_write(Method::POST, &["dms"], &[], Some(&body)).await?;
    let id = match read(&opened)? {
        Opened::Open(conversation) => conversation.id,
        // A person without a shared conversation is invited first, if the person exists.
        Opened::Asked(Invited { .. }) => {
            let unsaid = if args.text.is_empty() { "" } else { "; nothing was said yet" };
            let with = output::one_line(&args.with);
            let line =
                format!("asked: {with} is invited, say it again once the invitation is accepted{unsaid}");
            done(global, &opened, &line)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    if args.text.is_empty() {
        done(global, &opened, &output::one_line(&id))?;
        return Ok(ExitCode::SUCCESS);
    }
    let body = without_nulls(json!({"content": words(&args.text)?}));
    let said: Value =
        client.api_write(Method::POST, &["channels", &id, "messages"], &[], Some(&body)).await?;
    let Said { event_id, sequence, .. } = read(&said)?;
    done(global, &said, &output::one_line(&format!("#{sequence} {event_id} in {id}")))?;
    Ok(ExitCode::SUCCESS)
}
