//! `chorus send`: one message to one agent.
//!
//! A key alone does not tell whose it is, so the sender must be named. Hub and network trouble is tried again with
//! one idempotency key; a receiver's trouble only when `--retry` asks for it.

use crate::failure::{Explained, FAILED};
use crate::global::Global;
use crate::output;
use anyhow::Context;
use chorus_agent::{Retry, SendBody};
use chorus_protocol::relay::{Delivery, MAX_BODY, Outcome};
use owo_colors::OwoColorize;
use std::io::Read;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus send bob 'Shall we meet at three?' --from alice
  git log -1 | chorus send bob - --from alice
  chorus send bob '下午一起喝杯咖啡?' --culture zh-CN --context 'An informal invitation to talk'
  chorus send bob 'And at four?' --conversation meeting-7 --turn 2 --retry 5

CHORUS_AGENT stands for --from, so that it need not be repeated";

/// How much of a receiver's answer is shown.
const MAX_SHOWN: usize = 500;

/// Send a message to an agent and say what became of it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The receiver's name, or its address name@host
    to: String,
    /// What to say; several words are joined by spaces, and - reads standard input
    #[arg(required = true)]
    text: Vec<String>,
    /// The sender: the agent whose key this is
    #[arg(long, value_name = "NAME", env = "CHORUS_AGENT")]
    from: Option<String>,
    /// The culture the text was written in, as a BCP 47 tag
    #[arg(long, value_name = "TAG", default_value = "en")]
    culture: String,
    /// What a reader of another culture should know, in 10 to 500 characters
    #[arg(long, value_name = "TEXT")]
    context: Option<String>,
    /// The conversation this is a turn of; a turn is delivered once
    #[arg(long, value_name = "ID", requires = "turn")]
    conversation: Option<String>,
    /// The place of this turn in its conversation, from 1
    #[arg(long, value_name = "N", requires = "conversation")]
    turn: Option<i64>,
    /// What makes a second try the same message [default: a new one for each message]
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Try again up to N times, also when the receiver could not be reached [default: 3 times, hub trouble only]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    retry: Option<u32>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.agent_client()?;
    let retry = args.retry.map_or_else(Retry::default, |again| Retry {
        tries: again + 1,
        failed_deliveries: true,
        ..Retry::default()
    });
    let (to, key) = (args.to.clone(), args.idempotency_key.clone());
    let outcome = client.with_retry(retry).send(&compose(args)?, key.as_deref()).await?;
    if global.json {
        output::json(&outcome)?;
    } else {
        output::data(show(&to, &outcome)?)?;
    }
    Ok(if outcome.delivery == Delivery::Failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn compose(args: Args) -> anyhow::Result<SendBody> {
    let Some(from) = args.from.filter(|from| !from.is_empty()) else {
        let hint = "name the agent whose key this is with --from NAME, or `export CHORUS_AGENT=NAME`; \
                    a key alone does not tell whose it is";
        return Err(Explained::usage("the sender is not known", hint).into());
    };
    let text = if args.text == ["-"] { read_text(std::io::stdin().lock())? } else { args.text.join(" ") };
    let mut body = SendBody::new(&from, &args.to, &args.culture, &text);
    if let Some(context) = args.context {
        body = body.with("cultural_context", context);
    }
    if let (Some(conversation), Some(turn)) = (args.conversation, args.turn) {
        body = body.with("conversation_id", conversation).with("turn_number", turn);
    }
    Ok(body)
}

/// The whole input, without the line end that shells and editors add.
fn read_text(input: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    // More than any message may hold; what is longer is refused by its length, not cut.
    input.take(MAX_BODY as u64).read_to_string(&mut text).context("cannot read standard input")?;
    let end = text.trim_end_matches(['\n', '\r']).len();
    text.truncate(end);
    Ok(text)
}

fn show(to: &str, outcome: &Outcome) -> anyhow::Result<String> {
    let what = match outcome.delivery {
        Delivery::Delivered => format!("{to}'s endpoint took it"),
        Delivery::DeliveredSse => format!("{to}'s inbox is open"),
        Delivery::Queued => format!("it waits for {to}'s inbox"),
        Delivery::Sending => format!("it is on its way to {to}'s endpoint"),
        Delivery::Failed => {
            let (code, detail) = (outcome.error_code.as_deref(), outcome.detail.as_deref());
            format!("{}, {}", code.unwrap_or("no code"), detail.unwrap_or("no reason given"))
        }
    };
    let answer = match &outcome.receiver_response {
        Some(answer) => format!("; answer {}", cut(&output::json_line(answer)?)),
        None => String::new(),
    };
    let delivery = outcome.delivery.as_str();
    let delivery = match outcome.delivery {
        Delivery::Failed => delivery.red().to_string(),
        _ => delivery.green().to_string(),
    };
    Ok(format!("{delivery}: {}{answer}; trace {}", output::one_line(&what), outcome.trace_id))
}

fn cut(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(outcome: serde_json::Value) -> String {
        let outcome: Outcome = serde_json::from_value(outcome).unwrap();
        anstream::adapter::strip_str(&show("bob", &outcome).unwrap()).to_string()
    }

    #[test]
    fn outcomes_on_one_line() {
        let trace = "0123456789abcdef0123456789abcdef";
        assert_eq!(
            shown(json!({"delivery": "queued", "trace_id": trace})),
            format!("queued: it waits for bob's inbox; trace {trace}")
        );
        assert_eq!(
            shown(
                json!({"delivery": "failed", "error_code": "ERR_TIMEOUT", "detail": "a\nb", "trace_id": trace})
            ),
            format!("failed: ERR_TIMEOUT, a\\nb; trace {trace}")
        );
        assert_eq!(
            shown(json!({"delivery": "delivered", "receiver_response": {"status": "ok"}, "trace_id": trace})),
            format!("delivered: bob's endpoint took it; answer {{\"status\":\"ok\"}}; trace {trace}")
        );
    }

    #[test]
    fn long_answers_are_cut() {
        assert_eq!(cut(&"字".repeat(501)), "字".repeat(500) + "…");
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn input_without_its_last_line_end() {
        assert_eq!(read_text(&b"two\nlines\r\n"[..]).unwrap(), "two\nlines");
        assert!(read_text(&b"\xff"[..]).is_err());
    }
}
