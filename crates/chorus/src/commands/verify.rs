//! `chorus verify`: verifies a receipt from a file or from the hub that issued it.

use crate::failure::Explained;
use crate::global::Global;
use crate::{files, output};
use chorus_agent::{Client, read_public};
use chorus_choir::verify::{Keys, VerdictCheck, verify};
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus verify receipt.json                            recompute the hash and the verdict
  chorus verify receipt.json --keys chorus-keys.json    and check what the hub signed
  chorus verify https://hub.example/verify/0f3a…        fetch it first, with the keys of that hub";

/// The path at which a hub publishes its keys.
const KEYS: &str = "/.well-known/chorus-keys.json";

/// Verify a receipt: its hash and its verdict; with its hub's keys also its signature and its entry in the log,
/// which are then required
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A receipt's file, - for standard input, or its address at a hub
    receipt: String,
    /// The published keys of the hub that issued it
    #[arg(long, value_name = "FILE")]
    keys: Option<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let remote = args.receipt.starts_with("http://") || args.receipt.starts_with("https://");
    let (receipt, fetched) =
        if remote { fetch(&args.receipt).await? } else { (files::json(&args.receipt)?, None) };
    let keys = match &args.keys {
        Some(path) => {
            Some(files::read(path, "list of keys", |value| Keys::read(&value).ok_or("no keys in it"))?)
        }
        None => fetched,
    };
    match verify(&receipt, keys.as_ref()) {
        Ok(verified) if global.json => output::json(&json!({
            "match": true, "payload_hash": verified.payload_hash, "label": verified.label,
            "verdict": verified.verdict, "checks": verified.checks, "origin": verified.origin,
            "verified": keys.is_some(), "recomputed": verified.verdict_check == VerdictCheck::Recomputed,
        }))?,
        Ok(verified) => {
            let checks = verified.checks.join(", ");
            let (label, verdict) = (output::one_line(&verified.label), output::one_line(&verified.verdict));
            // Without keys the receipt is whole in itself, and nobody vouches for it.
            let first = if keys.is_some() { "ok" } else { "unverified: no keys" };
            output::data(format_args!("{first}: {label}, {verdict}; {checks}; {}", verified.payload_hash))?;
            if keys.is_none() {
                output::talk(
                    "the receipt is whole in itself; `--keys FILE` or its address says who issued it",
                );
            }
            if verified.verdict_check == VerdictCheck::OtherRules {
                output::talk("verdict: other rules, events not recomputed");
            }
            let moved = verified.origin.filter(|origin| keys.is_some_and(|keys| keys.origin != *origin));
            if let Some(origin) = moved {
                output::talk(format_args!("it was signed when the hub was {}", output::one_line(&origin)));
            }
        }
        Err(error) => {
            let hint = "do not rely on this file; the hub that issued it has the whole receipt at /api/v1/receipts/ID";
            return Err(Explained::failed(error.to_string(), hint).into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Fetches a receipt from the hub that issued it, by any of its addresses, and the hub's keys.
async fn fetch(address: &str) -> anyhow::Result<(Value, Option<Keys>)> {
    let parts = ["/api/public/verify/", "/verify/", "/api/v1/receipts/"]
        .iter()
        .find_map(|path| address.split_once(path))
        .filter(|(_, id)| !id.is_empty() && !id.contains('/'));
    let (base, id) = parts.ok_or_else(|| {
        Explained::usage(format!("{address} is no receipt's address"), "it looks like …/verify/ID")
    })?;
    let client = Client::connect(base, None)?;
    let receipt = client.api_get::<Value>(&["receipts", id], &[]).await?;
    let keys = Keys::read(&read_public(&client, KEYS).await?);
    let keys =
        keys.ok_or_else(|| Explained::failed("the hub's keys cannot be read", "is this a Chorus hub?"))?;
    Ok((receipt, Some(keys)))
}
