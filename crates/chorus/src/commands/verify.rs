//! `chorus verify`: whether a receipt is what it says, from a file or from the hub that issued it.

use crate::failure::Explained;
use crate::global::Global;
use crate::{files, output};
use chorus_agent::{Client, read_public};
use chorus_choir::verify::{Keys, verify};
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus verify receipt.json                            recompute the hash
  chorus verify receipt.json --keys chorus-keys.json    and check what the hub signed
  chorus verify https://hub.example/verify/0f3a…        fetch it first, with the keys of that hub";

/// Where a hub publishes its keys.
const KEYS: &str = "/.well-known/chorus-keys.json";

/// Check a receipt: its hash, and, with the keys of its hub, its signature and its place in the log, which it must then have
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A receipt's file, - for standard input, or its address at a hub
    receipt: String,
    /// The keys of the hub that issued it, as it publishes them
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
        }))?,
        Ok(verified) => {
            let checks = verified.checks.join(", ");
            let (label, verdict) = (output::one_line(&verified.label), output::one_line(&verified.verdict));
            output::data(format_args!("ok: {label}, {verdict}; {checks}; {}", verified.payload_hash))?;
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

/// A receipt from the hub that issued it, by any of its addresses, and the hub's keys.
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
