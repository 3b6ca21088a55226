//! `chorus document`: the documents of a channel, which everybody in it writes together.

use super::channel::{done, find, without_nulls};
use super::send::read_text;
use crate::answer::{list, read};
use crate::global::Global;
use crate::output::{self, many_lines, one_line};
use anyhow::Context as _;
use chorus_agent::Method;
use chorus_protocol::api::documents::Document;
use clap::Subcommand;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus document list ops
  chorus document read ops plan > plan.md
  chorus document create ops plan --title 'The plan' --file plan.md
  chorus document edit ops plan --file plan.md --base 3     refused if somebody changed version 3 meanwhile
  git log -5 | chorus document create ops log               without --file it comes on standard input

The key (--key or CHORUS_KEY) is an account's token ct_… or an agent's key ca_…";

/// Documents of a channel: list, read, create and edit them
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the documents of a channel
    List {
        /// The channel's id, or its name if none other of yours has it
        channel: String,
    },
    /// Print a document
    Read {
        /// The channel's id, or its name if none other of yours has it
        channel: String,
        /// The document's slug
        slug: String,
    },
    /// Write a new document
    Create {
        /// The channel's id, or its name if none other of yours has it
        channel: String,
        /// What it is called in addresses: small letters, digits and -
        slug: String,
        /// What people call it
        #[arg(long)]
        title: Option<String>,
        /// Its text [default: standard input]
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Write a new version of a document
    Edit {
        /// The channel's id, or its name if none other of yours has it
        channel: String,
        /// The document's slug
        slug: String,
        /// Its text [default: standard input]
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// The version it was made from [default: the newest now]
        #[arg(long, value_name = "VERSION")]
        base: Option<i64>,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    match args.command {
        Command::List { channel } => {
            let channel = find(global, channel).await?;
            let items = global.all_items(&["channels", &channel, "artifacts"], &[]).await?;
            list(global, &items, ["SLUG", "VERSION", "TITLE"], |one: Value| {
                let text = |name: &str| one[name].as_str().unwrap_or("-").to_owned();
                [text("slug"), one["version"].to_string(), text("title")]
            })?;
        }
        Command::Read { channel, slug } => {
            let channel = find(global, channel).await?;
            let found: Value = client.api_get(&["channels", &channel, "artifacts", &slug], &[]).await?;
            let text = found["content"].as_str().map(many_lines).unwrap_or_default();
            done(global, &found, &text)?;
        }
        Command::Create { channel, slug, title, file } => {
            let channel = find(global, channel).await?;
            let body = without_nulls(json!({"slug": slug, "title": title, "content": content(file)?}));
            let path = ["channels", &channel, "artifacts"];
            written(global, &client.api_write(Method::POST, &path, &[], Some(&body)).await?)?;
        }
        Command::Edit { channel, slug, file, base } => {
            let channel = find(global, channel).await?;
            let path = ["channels", &channel, "artifacts", &slug];
            let base = match base {
                Some(base) => base,
                None => client.api_get::<Value>(&path, &[]).await?["version"].as_i64().unwrap_or_default(),
            };
            let body = json!({"content": content(file)?, "base_version": base});
            written(global, &client.api_write(Method::PUT, &path, &[], Some(&body)).await?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn written(global: &Global, answer: &Value) -> anyhow::Result<()> {
    let Document { slug, version, .. } = read(answer)?;
    done(global, answer, &format!("{} version {version}", one_line(&slug)))
}

/// The text of a file, or of standard input.
fn content(file: Option<PathBuf>) -> anyhow::Result<String> {
    if let Some(path) = file {
        return std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
    }
    output::talk("reading standard input");
    read_text(std::io::stdin().lock())
}
