//! `chorus send`: sends one message to one agent, through a hub or, with `--to URL`, directly.
//!
//! A key does not name its agent, so the sender must be given. Failures of the hub and the network are retried
//! with one idempotency key; failures of the receiver only with `--retry`. A direct send shows no key.

use crate::failure::{Explained, FAILED};
use crate::global::Global;
use crate::output;
use anyhow::Context;
use chorus_agent::{Answered, Environment, ReplyEvent, ReplyStream, Retry, SendBody, send_direct};
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::relay::{MAX_BODY, Outcome, ReceiverReply, ReceiverStatus, ReplyKind};
use chorus_protocol::words::DeliveryState;
use owo_colors::OwoColorize;
use serde_json::{Value, json};
use std::io::Read;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus send bob 'Shall we meet at three?' --from alice
  git log -1 | chorus send bob - --from alice
  chorus send bob '下午一起喝杯咖啡?' --culture zh-CN --context 'An informal invitation to talk'
  chorus send bob 'And at four?' --conversation meeting-7 --turn 2 --retry 5
  chorus send bob 'Tell me a story' --stream        see the answer while it is made
  chorus send --to http://127.0.0.1:8788/receive 'Hello Bob' --from alice@example.org
                                                     to `chorus receive`, without a hub

CHORUS_AGENT stands for --from, so that it need not be repeated";

const WHOSE_KEY: &str = "name the agent whose key this is with --from NAME, or `export CHORUS_AGENT=NAME`; \
                         a key alone does not tell whose it is";

/// The number of characters shown of a receiver's answer.
const MAX_SHOWN: usize = 500;

const USAGE: &str = "\
chorus send [OPTIONS] <TO> <TEXT>...
       chorus send [OPTIONS] --to <URL> <TEXT>...";

/// Send a message to an agent and show the result of its delivery.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Args {
    /// The receiver's name, or its address name@host; not given with --to
    #[arg(value_name = "TO", required_unless_present = "to")]
    name: Option<String>,
    /// The message; several words are joined by spaces, and - reads standard input
    #[arg(required_unless_present = "to")]
    text: Vec<String>,
    /// Send directly to the agent that receives at this URL: no hub, no key
    #[arg(long, value_name = "URL", conflicts_with = "idempotency_key")]
    to: Option<String>,
    /// The sender: the agent that the key belongs to; with --to, your address name@host
    #[arg(long, value_name = "NAME", env = "CHORUS_AGENT")]
    from: Option<String>,
    /// The culture of the text's author, as a BCP 47 tag
    #[arg(long, value_name = "TAG", default_value = "en")]
    culture: String,
    /// An explanation for readers of another culture, in 10 to 500 characters
    #[arg(long, value_name = "TEXT")]
    context: Option<String>,
    /// The conversation that this is a turn of; a turn is delivered once
    #[arg(long, value_name = "ID", requires = "turn")]
    conversation: Option<String>,
    /// The number of this turn in its conversation, from 1
    #[arg(long, value_name = "N", requires = "conversation")]
    turn: Option<i64>,
    /// The idempotency key of retries [default: a new one for each message]
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Stream the receiver's answer
    #[arg(long, conflicts_with_all = ["to", "retry"])]
    stream: bool,
    /// Retry up to N times, also when the receiver could not be reached [default: 3 times, hub failures only]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    retry: Option<u32>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let retry = args.retry.map_or_else(Retry::default, |again| Retry {
        tries: again + 1,
        failed_deliveries: true,
        ..Retry::default()
    });
    if let Some(url) = args.to.clone() {
        let reply = send_direct(&url, &compose(args)?, retry, &Environment::system()).await?;
        return tell_reply(global, &url, &reply);
    }
    if global.key_kind() == Some(SecretKind::ApiToken) {
        let hint = "`chorus dm NAME TEXT` writes to an agent as a person; or use an agent's own key ca_…";
        let what = "this key is a person's token, and envelopes are sent by agents";
        return Err(Explained::usage(what, hint).into());
    }
    let client = global.agent_client()?;
    let (to, key) = (args.name.clone().unwrap_or_default(), args.idempotency_key.clone());
    let outcome = if args.stream {
        match client.send_stream(&compose(args)?, key.as_deref()).await? {
            Answered::Stream(stream) => return listen(global, *stream).await,
            Answered::Outcome(outcome) => outcome,
        }
    } else {
        client.with_retry(retry).send(&compose(args)?, key.as_deref()).await?
    };
    if global.json {
        output::json(&outcome)?;
    } else {
        output::data(show(&to, &outcome)?)?;
    }
    Ok(if outcome.delivery == DeliveryState::Failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Prints a streamed answer.
async fn listen(global: &Global, mut stream: ReplyStream) -> anyhow::Result<ExitCode> {
    let mut begun = false;
    while let Some(said) = stream.next().await {
        let ReplyEvent { kind, data } = said?;
        if global.json {
            output::json(&json!({"event": kind, "data": parsed(&data)}))?;
        }
        match kind {
            ReplyKind::Chunk if !global.json => {
                output::piece(output::many_lines(&text_of(&data, "text")))?;
                begun = true;
            }
            ReplyKind::Done if !global.json => {
                // After the pieces the whole text is not printed again.
                output::data(if begun {
                    String::new()
                } else {
                    output::many_lines(&text_of(&data, "result"))
                })?;
            }
            ReplyKind::Error => {
                if begun {
                    output::data("")?;
                }
                let why = text_of(&data, "message");
                return Err(
                    Explained::failed(why, "the message counts as failed; it may be sent again").into()
                );
            }
            ReplyKind::Chunk | ReplyKind::Done => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn parsed(data: &str) -> Value {
    serde_json::from_str(data).unwrap_or_else(|_| data.into())
}

/// Returns the text of a piece: its member `name`, or all of it.
fn text_of(data: &str, name: &str) -> String {
    let value = parsed(data);
    let said = value.get(name).unwrap_or(&value);
    said.as_str().map_or_else(|| said.to_string(), str::to_owned)
}

/// Prints a peer's reply in the format of an outcome, so that scripts can treat both alike.
fn tell_reply(global: &Global, url: &str, reply: &ReceiverReply) -> anyhow::Result<ExitCode> {
    let took = reply.status == ReceiverStatus::Ok;
    let delivery = if took { DeliveryState::Delivered } else { DeliveryState::Failed };
    if global.json {
        output::json(&json!({"delivery": delivery, "receiver_response": reply}))?;
    } else if took {
        output::data(format_args!("{}: {} took it", delivery.as_str().green(), output::one_line(url)))?;
    } else {
        let (code, detail) = (reply.error_code.as_deref(), reply.detail.as_deref());
        let why = format!("{}, {}", code.unwrap_or("no code"), detail.unwrap_or("no reason given"));
        output::data(format_args!("{}: {}", delivery.as_str().red(), cut(&output::one_line(&why))))?;
    }
    Ok(if took { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn compose(args: Args) -> anyhow::Result<SendBody> {
    // With --to there is no receiver's name, so the first word belongs to the text.
    let (receiver, first) = if args.to.is_some() { (None, args.name) } else { (args.name, None) };
    let words: Vec<_> = first.into_iter().chain(args.text).collect();
    if words.is_empty() {
        let hint = "say it after the address: chorus send --to URL TEXT";
        return Err(Explained::usage("there is no TEXT to send", hint).into());
    }
    let Some(from) = args.from.filter(|from| !from.is_empty()) else {
        let hint = if receiver.is_some() { WHOSE_KEY } else { "say who writes with --from NAME@HOST" };
        return Err(Explained::usage("the sender is not known", hint).into());
    };
    let text = if words == ["-"] { read_text(std::io::stdin().lock())? } else { words.join(" ") };
    let mut body = match receiver {
        Some(receiver) => SendBody::new(&from, &receiver, &args.culture, &text),
        None => SendBody::direct(&from, &args.culture, &text),
    };
    if let Some(context) = args.context {
        body = body.with("cultural_context", context);
    }
    if let (Some(conversation), Some(turn)) = (args.conversation, args.turn) {
        body = body.with("conversation_id", conversation).with("turn_number", turn);
    }
    Ok(body)
}

/// Reads the whole input, without the final line break that shells and editors add.
pub(crate) fn read_text(input: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    // One byte more than the limit distinguishes a text that is too long from one that just fits, so that
    // nothing is cut.
    let most = MAX_BODY as u64;
    input.take(most + 1).read_to_string(&mut text).context("cannot read standard input")?;
    if text.len() as u64 > most {
        let what = format!("what standard input says is longer than {} KiB", most / 1024);
        return Err(Explained::usage(what, "nothing was sent; say it in parts").into());
    }
    let end = text.trim_end_matches(['\n', '\r']).len();
    text.truncate(end);
    Ok(text)
}

fn show(to: &str, outcome: &Outcome) -> anyhow::Result<String> {
    let what = match outcome.delivery {
        DeliveryState::Delivered => format!("{to}'s endpoint took it"),
        DeliveryState::DeliveredSse => format!("{to}'s inbox is open"),
        DeliveryState::Queued => format!("it waits for {to}'s inbox"),
        DeliveryState::Sending | DeliveryState::Waiting => format!("it is on its way to {to}'s endpoint"),
        DeliveryState::Failed | DeliveryState::Dead => {
            let (code, detail) = (outcome.error_code.as_deref(), outcome.detail.as_deref());
            format!("{}, {}", code.unwrap_or("no code"), detail.unwrap_or("no reason given"))
        }
    };
    let answer = match &outcome.receiver_response {
        // The endpoint accepted it without an answer.
        Some(Value::Null) | None => String::new(),
        Some(Value::String(text)) if text.is_empty() => String::new(),
        Some(answer) => format!("; answer {}", cut(&output::json_line(answer)?)),
    };
    let delivery = outcome.delivery.as_str();
    let delivery = match outcome.delivery {
        DeliveryState::Failed => delivery.red().to_string(),
        _ => delivery.green().to_string(),
    };
    let trace = outcome.trace_id.as_ref().map_or_else(String::new, |trace| format!("; trace {trace}"));
    Ok(format!("{delivery}: {}{answer}{}", output::one_line(&what), output::one_line(&trace)))
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
        assert_eq!(
            shown(json!({"delivery": "delivered", "receiver_response": "", "trace_id": trace})),
            format!("delivered: bob's endpoint took it; trace {trace}")
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
        let long = "a".repeat(MAX_BODY);
        assert_eq!(read_text(long.as_bytes()).unwrap().len(), MAX_BODY);
        let error = read_text(format!("{long}a").as_bytes()).unwrap_err().to_string();
        assert!(error.contains("longer than 256 KiB"), "{error}");
    }
}
