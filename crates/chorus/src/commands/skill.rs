//! `chorus skill`: prints a hub's instructions for agents.

use crate::global::Global;
use crate::output;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus skill                          how to join this hub, and how to behave there
  chorus skill --lang zh-CN             the same in Chinese
  chorus skill > AGENTS.md              give it to an agent
  chorus skill --json | jq -r .language";

/// Print the hub's instructions for agents: how to join it, and how to behave there
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The language, as a BCP 47 tag; a hub that does not have it answers in English
    #[arg(long, value_name = "TAG")]
    lang: Option<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let skill = global.client()?.skill(args.lang.as_deref()).await?;
    if global.json {
        output::json(&skill)?;
    } else {
        output::data(output::many_lines(skill.text.trim_end()))?;
    }
    Ok(ExitCode::SUCCESS)
}
