//! `chorus`: the hub and its command line, in one program.
//!
//! This file only lists the commands. Each has its own file under `commands`, takes its arguments and the
//! global ones, and returns an exit code. Errors are printed in one place, `failure`.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused by the hub (or by a peer of a direct send), 4
//! unreachable, 5 inconclusive (a rehearsal).

mod answer;
mod commands;
mod config_folder;
#[cfg(test)]
mod examples;
mod failure;
mod files;
mod global;
mod message;
mod output;
mod profiles;
mod settings;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser, Subcommand};
use commands::{
    account, adapt, agent, agent_url, agents, approvals, audit, block, c2a_stdio, canonicalize, channel,
    completions, deliveries, demo, dm, doctor, document, fleet, hash, hook, inbox, init, invitations, invite,
    join, login, market, mcp, merge, operator, receipt, receive, register, rehearse, reply, score, search,
    send, sent, serve, sign, skill, stop, stream, token, transfer, unregister, verify, whoami,
};
use global::Global;
use std::collections::HashSet;
use std::num::NonZero;
use std::process::ExitCode;

/// A relay send makes some forty small allocations, half of them freed by another thread. With this allocator
/// a hub relays a tenth more messages per second than with the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  chorus serve                                  start a hub on this machine
  chorus login https://hub.example              keep a hub and your key for all commands
  chorus demo                                   look at one with an ensemble at work
  chorus register alice                         join it as alice; prints a key
  chorus send bob 'Hello Bob' --from alice      say something to bob
  chorus inbox                                  listen
  chorus channel create ops                     a place for people and agents

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused by the hub, 4 unreachable,
            5 inconclusive (a rehearsal)";

/// A hub where AI agents and people work together, and its command line.
#[derive(Parser)]
#[command(name = "chorus", version, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Init(init::Args),
    Serve(serve::Args),
    Demo(demo::Args),
    Login(login::Args),
    Whoami(whoami::Args),
    Logout(login::LogoutArgs),
    Register(register::Args),
    Send(send::Args),
    Reply(reply::Args),
    Sent(sent::Args),
    Inbox(inbox::Args),
    Receive(receive::Args),
    Agents(agents::Args),
    Channel(channel::Args),
    Dm(dm::Args),
    Search(search::Args),
    Document(document::Args),
    Agent(Box<agent::Args>),
    AgentUrl(agent_url::Args),
    #[command(name = "c2a-stdio")]
    C2aStdio(c2a_stdio::Args),
    Mcp(mcp::Args),
    Join(join::Args),
    Leave(join::LeaveArgs),
    Hook(hook::Args),
    Invitations(invitations::Args),
    Approvals(approvals::Args),
    Block(block::Args),
    Invite(invite::Args),
    Token(token::Args),
    Account(account::Args),
    Unregister(unregister::Args),
    Deliveries(deliveries::Args),
    Fleet(fleet::Args),
    Stop(stop::Args),
    Audit(audit::Args),
    Stream(stream::Args),
    Market(Box<market::Args>),
    Operator(operator::Args),
    Score(score::Args),
    Rehearse(rehearse::Args),
    Receipt(receipt::Args),
    Verify(verify::Args),
    Adapt(adapt::Args),
    Merge(merge::Args),
    Sign(sign::Args),
    Canonicalize(canonicalize::Args),
    Hash(hash::Args),
    Skill(skill::Args),
    Doctor(doctor::Args),
    Backup(transfer::BackupArgs),
    Export(transfer::ExportArgs),
    Import(transfer::ImportArgs),
    Completions(completions::Args),
}

impl Command {
    /// Returns whether the command takes a hub and a key from a profile. Those that make profiles do not, and
    /// those that run without a hub need none.
    fn uses_profile(&self) -> bool {
        !matches!(
            self,
            Self::Init(_)
                | Self::Serve(_)
                | Self::Demo(_)
                | Self::Login(_)
                | Self::Logout(_)
                | Self::Hook(_)
                | Self::Leave(_)
                | Self::Backup(_)
                | Self::Export(_)
                | Self::Import(_)
                | Self::Completions(_)
        )
    }
}

fn main() -> ExitCode {
    // This fails only when a provider is installed already, which is harmless.
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::misused(&without_settings(error), global::is_json_asked()),
    };
    let profile = if cli.command.uses_profile() { cli.global.use_profile() } else { Ok(()) };
    let global = &cli.global;
    let (key, json) = (global.key_kind(), global.json);
    let report = if global.has_profile_key() { failure::report_of_profile } else { failure::report };
    profile.and_then(|()| run(cli)).unwrap_or_else(|error| report(&error, key, json))
}

/// Returns the environment variables of all commands.
pub(crate) fn variables() -> HashSet<String> {
    fn collect(command: &clap::Command, into: &mut HashSet<String>) {
        let named = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
        into.extend(named.map(str::to_owned));
        command.get_subcommands().for_each(|command| collect(command, into));
    }
    let mut variables = HashSet::new();
    collect(&Cli::command(), &mut variables);
    variables
}

/// Removes options that come from the environment from a usage line: `clap` shows them as if they were
/// required.
fn without_settings(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) {
        let settings = [" --url <URL>", " --key <KEY>", " --profile <NAME>"];
        let usage = settings.iter().fold(usage.to_string(), |usage, setting| usage.replace(setting, ""));
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage.into()));
    }
    error
}

fn run(Cli { global, command }: Cli) -> anyhow::Result<ExitCode> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if matches!(command, Command::Serve(_)) {
        // One core is reserved for the store's writer, which all requests wait for.
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        runtime.worker_threads(cores.saturating_sub(1).max(1));
    }
    runtime.enable_all().build()?.block_on(async {
        match command {
            Command::Init(args) => init::run(&global, &args),
            Command::Serve(args) => serve::run(&global, args).await,
            Command::Demo(args) => demo::run(&global, args).await,
            Command::Login(args) => login::run(&global, args).await,
            Command::Whoami(args) => whoami::run(&global, args).await,
            Command::Logout(args) => login::logout(&global, &args),
            Command::Register(args) => register::run(&global, args).await,
            Command::Send(args) => send::run(&global, args).await,
            Command::Reply(args) => reply::run(&global, args).await,
            Command::Sent(args) => sent::run(&global, args).await,
            Command::Inbox(args) => inbox::run(&global, args).await,
            Command::Receive(args) => receive::run(&global, args).await,
            Command::Agents(args) => agents::run(&global, args).await,
            Command::Channel(args) => channel::run(&global, args).await,
            Command::Agent(args) => agent::run(&global, *args).await,
            Command::AgentUrl(args) => agent_url::run(&global, args).await,
            Command::C2aStdio(args) => c2a_stdio::run(&global, args).await,
            Command::Mcp(args) => mcp::run(&global, args).await,
            Command::Join(args) => join::run(&global, args).await,
            Command::Leave(args) => join::leave(&global, &args),
            Command::Hook(args) => hook::run(args).await,
            Command::Dm(args) => dm::run(&global, args).await,
            Command::Search(args) => search::run(&global, args).await,
            Command::Document(args) => document::run(&global, args).await,
            Command::Invite(args) => invite::run(&global, args).await,
            Command::Block(args) => block::run(&global, args).await,
            Command::Token(args) => token::run(&global, args).await,
            Command::Account(args) => account::run(&global, args).await,
            Command::Unregister(args) => unregister::run(&global, args).await,
            Command::Invitations(args) => invitations::run(&global, args).await,
            Command::Approvals(args) => approvals::run(&global, args).await,
            Command::Deliveries(args) => deliveries::run(&global, args).await,
            Command::Fleet(args) => fleet::run(&global, args).await,
            Command::Stop(args) => stop::run(&global, args).await,
            Command::Audit(args) => audit::run(&global, args).await,
            Command::Stream(args) => stream::run(&global, args).await,
            Command::Market(args) => market::run(&global, *args).await,
            Command::Operator(args) => operator::run(&global, args).await,
            Command::Score(args) => score::run(&global, args).await,
            Command::Rehearse(args) => rehearse::run(&global, &args),
            Command::Receipt(args) => receipt::run(&global, args).await,
            Command::Verify(args) => verify::run(&global, args).await,
            Command::Adapt(args) => adapt::run(&args),
            Command::Merge(args) => merge::run(&args),
            Command::Sign(args) => sign::run(&global, args).await,
            Command::Canonicalize(args) => canonicalize::run(&args),
            Command::Hash(args) => hash::run(&global, &args),
            Command::Skill(args) => skill::run(&global, args).await,
            Command::Doctor(args) => doctor::run(&global, args).await,
            Command::Backup(args) => transfer::backup(&global, args),
            Command::Export(args) => transfer::export(&global, args).await,
            Command::Import(args) => transfer::import(&global, args).await,
            Command::Completions(args) => completions::run(args),
        }
    })
}
