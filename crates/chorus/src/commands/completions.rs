//! `chorus completions`: prints the completion script of a shell.

use crate::output;
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  source <(chorus completions bash)
  chorus completions zsh > ~/.zfunc/_chorus
  chorus completions fish > ~/.config/fish/completions/chorus.fish";

/// Print the completion script of a shell.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Generated in memory first: the generator panics when it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "chorus", &mut script);
    output::data(String::from_utf8(script)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
