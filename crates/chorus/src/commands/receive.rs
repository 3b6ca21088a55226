//! `chorus receive`: receives envelopes directly from peers, or a hub's webhooks, without an inbox.
//!
//! A sender is answered only after its envelope was printed. Envelopes go to standard output, everything else
//! to standard error.

use crate::failure::Explained;
use crate::global::Global;
use crate::{message, output};
use chorus_agent::{BindError, Environment, ReceiveOptions, Received, Receiver, WebhookSecret};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::EntryKind;
use owo_colors::OwoColorize;
use serde_json::json;
use std::pin::pin;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus receive                                    listen until Ctrl-C
  chorus receive --count 1 --json | jq -r .envelope.original_text
  chorus receive --listen 0.0.0.0:8788 --path /bob  for peers on other machines
  chorus send --to http://127.0.0.1:8788/receive 'Hello' --from alice@example.org

For a hub's webhooks, register the address and give the secret that is printed:
  chorus register bob --endpoint https://bob.example/receive
  CHORUS_WEBHOOK_SECRET=whsec_… chorus receive --listen 0.0.0.0:8788

Without a secret anybody who can reach the address can write, under any name";

const LISTEN_HINT: &str = "choose another address with --listen, or port 0 for any free one";

/// Receive messages directly, from peers or from a hub's webhooks, and print them as they come
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8788")]
    listen: String,
    /// The path that takes messages
    #[arg(long, value_name = "PATH", default_value = "/receive")]
    path: String,
    /// The webhook secret of the registration; only requests signed with it are accepted
    #[arg(long, value_name = "SECRET", env = "CHORUS_WEBHOOK_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// End after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let mut receiver = bind(&args).await?;
    output::talk(format_args!("listening on {}", receiver.url()));
    if args.secret.is_none() && !receiver.address().ip().is_loopback() {
        let what =
            "whoever can reach this address can write, under any name; --secret takes signed messages only";
        output::talk(format_args!("{}: {what}", "warning".yellow()));
    }
    let followed = follow(global, &args, &mut receiver).await;
    receiver.close().await;
    followed.map(|()| ExitCode::SUCCESS)
}

async fn bind(args: &Args) -> anyhow::Result<Receiver> {
    // An empty variable counts as unset.
    let secret = args.secret.as_deref().filter(|secret| !secret.is_empty());
    let secret = secret.map(WebhookSecret::parse).transpose().map_err(|fault| {
        let hint =
            "`chorus register NAME --endpoint URL` prints it, and prints it again when repeated with --key";
        Explained::usage(format!("secret: {fault}"), hint)
    })?;
    let options =
        ReceiveOptions { path: args.path.clone(), secret, ..ReceiveOptions::new(Environment::system()) };
    let bound = Receiver::bind(&args.listen, options).await;
    bound.map_err(|error| match error {
        BindError::Path => Explained::usage(error.to_string(), "the usual one is --path /receive").into(),
        BindError::Listen { ref source, .. } => {
            Explained::failed(format!("{error}: {source}"), LISTEN_HINT).into()
        }
    })
}

async fn follow(global: &Global, args: &Args, receiver: &mut Receiver) -> anyhow::Result<()> {
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    let mut count = 0;
    while args.count != Some(count) {
        let received = tokio::select! {
            received = receiver.next() => received,
            listening = &mut interrupt => return Ok(listening?),
        };
        let Some(received) = received else { break };
        count += 1;
        show(global, count, &received)?;
        received.accept();
    }
    Ok(())
}

fn show(global: &Global, number: u64, received: &Received) -> anyhow::Result<()> {
    let Received { kind, envelope, sender_id, webhook_id, received_at, .. } = received;
    let (id, time) = (number.to_string(), rfc3339(*received_at));
    if *kind == EntryKind::Chat {
        return message::tell_chat(global, Some(&id), envelope.get());
    }
    if global.json {
        return output::json(&json!({"id": id, "webhook_id": webhook_id, "sender_id": sender_id,
            "received_at": time, "envelope": envelope}));
    }
    Ok(output::data(message::show(Some(&id), &time, sender_id, envelope))?)
}
