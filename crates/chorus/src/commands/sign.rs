//! `chorus sign`: signs an evidence bundle with the three headers that a Score's ingest address requires.

use crate::failure::Explained;
use crate::{files, output};
use chorus_agent::{Client, Environment, submit_evidence};
use chorus_choir::signing::{self, PREFIX_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use chorus_protocol::canonical;
use chorus_protocol::code::Code;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus sign --secret acs_… bundle.json                      print the headers for this bundle
  chorus adapt langgraph run.json | chorus sign --submit URL  secret: CHORUS_SIGNING_SECRET";

/// The advice for a signature that the hub rejects.
const NOT_SIGNED: &str = "is the secret (--secret or CHORUS_SIGNING_SECRET) one of this very Score, and not revoked? `chorus score \
    secret ID` makes another";
/// The path of every ingest address.
const INGEST: &str = "/api/public/evidence/";

/// Sign an evidence bundle with a Score's signing secret; print the headers, or send it
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The bundle, or - for standard input
    #[arg(default_value = "-")]
    bundle: String,
    /// The Score's signing secret; better in the environment, where other users cannot see it
    #[arg(long, env = "CHORUS_SIGNING_SECRET", hide_env_values = true)]
    secret: String,
    /// The time in seconds since 1970 [default: now]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(i64).range(0..))]
    timestamp: Option<i64>,
    /// Send the bundle to this ingest address
    #[arg(long, value_name = "URL")]
    submit: Option<String>,
}

pub(crate) async fn run(global: &crate::global::Global, args: Args) -> anyhow::Result<ExitCode> {
    if !signing::is_secret(&args.secret) {
        return Err(Explained::usage(
            "this is no signing secret",
            "it begins with acs_ and was shown once: by `chorus score secret ID`, or on the Score's page",
        )
        .into());
    }
    let body = canonical::text(&files::json(&args.bundle)?);
    let now = || Environment::system().now() / 1000;
    let timestamp = args.timestamp.unwrap_or_else(now).to_string();
    let headers = [
        (SIGNATURE_HEADER, signing::sign(&args.secret, &timestamp, body.as_bytes())),
        (TIMESTAMP_HEADER, timestamp),
        (PREFIX_HEADER, signing::prefix(&args.secret).to_owned()),
    ];
    let Some(address) = args.submit else {
        if global.json {
            let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
            output::json(&serde_json::Value::Object(headers.collect()))?;
        } else {
            for (name, value) in headers {
                output::data(format_args!("{name}: {value}"))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    };
    let parts = address.split_once(INGEST).filter(|(_, slug)| !slug.is_empty());
    let (base, slug) = parts.ok_or_else(|| {
        Explained::usage(
            format!("{address} is no ingest address"),
            "it is shown with the signing secret: …/api/public/evidence/…",
        )
    })?;
    let client = Client::connect(base, None)?;
    let answer = submit_evidence(&client, &format!("{INGEST}{slug}"), body, &headers).await;
    let answer = answer.map_err(|error| match error.code() {
        Some(Code::Unauthorized) => Explained::refused(error.to_string(), NOT_SIGNED).into(),
        _ => anyhow::Error::from(error),
    })?;
    output::json(&answer)?;
    Ok(ExitCode::SUCCESS)
}
