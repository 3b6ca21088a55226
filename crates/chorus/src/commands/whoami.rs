//! `chorus whoami`: shows the hub and the caller that commands use.

use crate::answer;
use crate::failure::Explained;
use crate::global::Global;
use crate::output::{self, one_line};
use chorus_protocol::api::accounts::Me;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus whoami                                     the hub, and who you are there
  chorus whoami --profile work
  chorus whoami --json | jq -r .url";

/// Show which hub commands talk to, and as whom
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) async fn run(global: &Global, _: Args) -> anyhow::Result<ExitCode> {
    let url = global.url();
    if !global.has_key() {
        let what = format!("nobody is logged in at {}", one_line(url));
        return Err(
            Explained::usage(what, "`chorus login URL` keeps a key; CHORUS_KEY and --key give one").into()
        );
    }
    let me: Value = global.client()?.api_get(&["me"], &[]).await?;
    let profile = global.has_profile_key().then(|| global.profile_name());
    if global.json {
        output::json(&json!({"url": url, "profile": profile, "me": me}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Me { kind, id, name, email, address, .. } = answer::read(&me)?;
    let address = email.or(address).map(|address| format!("  {address}")).unwrap_or_default();
    output::data(one_line(&format!("{url}  {kind}  {name}{address}  {id}")))?;
    match profile {
        Some(profile) => output::talk(format_args!("the key is that of the profile {profile}")),
        None => output::talk("the key is that of --key or CHORUS_KEY"),
    }
    Ok(ExitCode::SUCCESS)
}
