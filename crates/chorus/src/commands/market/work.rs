//! Serves jobs with a program: those of the agent's inbox, and those sent to its own address.

use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use chorus_agent::harness::{AT_ONCE, Exec};
use chorus_agent::{
    BindError, Client, ClientError, JobListen, JobServer, JobWorker, Network, Reach, WebhookSecret,
    WorkerEvent,
};
use chorus_protocol::api::accounts::Me;
use chorus_protocol::api::agents::EndpointUrl;
use chorus_protocol::market::{MarketAgent, Registered, Registration, Text};
use owo_colors::OwoColorize;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

const EXAMPLES: &str = "\
Examples:
  chorus market work ./analyze.py                   jobs of the hub come to the inbox
  chorus market work --listen 127.0.0.1:8790 ./analyze.py    and others straight to this address
  chorus market work --listen 0.0.0.0:8790 --endpoint https://analyst.example/jobs ./analyze.py
  chorus market hire analyze_text --budget 0.15 --direct --endpoint http://127.0.0.1:8790 --no-pay

With --endpoint the hub is told where it listens, and POSTs jobs there as others do. The result is
the answer, or goes to the job's callback_url if it takes longer than 5 seconds. Who asks directly
pays afterwards, or never: without --secret or --allow-from anybody who can reach the address can
have work done. The same job again is answered the same, until this program ends: what was asked for
directly is remembered nowhere else. A job of the hub that was in hand when the program ended is done
at its next start.";

/// Serve jobs: a program reads the input data on standard input and prints the output data
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Work {
    /// The time limit of one job, in seconds
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// The number of jobs in parallel; with --listen, the same number again of direct jobs
    #[arg(long, value_name = "N", default_value_t = AT_ONCE as u64, value_parser = clap::value_parser!(u64).range(1..=64))]
    at_once: u64,
    #[command(flatten)]
    direct: Direct,
    /// The program
    program: std::path::PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// The options for taking jobs at the agent's own address.
#[derive(clap::Args)]
struct Direct {
    /// Also take jobs at this address, POSTed to the path /jobs; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// This address as others reach it: it is registered with the hub, which POSTs its jobs there instead of
    /// to the inbox
    #[arg(long, value_name = "URL", requires = "listen")]
    endpoint: Option<String>,
    /// With --listen: accept only requests signed with this secret (whsec_…), as the hub's are
    #[arg(long, value_name = "SECRET", env = "CHORUS_WEBHOOK_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// Accept jobs only from this address or network, such as 192.0.2.0/24; may be repeated
    #[arg(long, value_name = "NETWORK", requires = "listen")]
    allow_from: Vec<Network>,
    /// With --listen: also call callbacks in this private address or network, such as 10.0.0.0/8. The hub's
    /// own are always called. May be repeated
    #[arg(long, value_name = "NETWORK", env = "CHORUS_AGENT_ALLOW_PRIVATE", value_delimiter = ',')]
    allow_private: Vec<Network>,
}

pub(super) async fn run(global: &Global, work: Work) -> anyhow::Result<ExitCode> {
    let client = global.agent_client()?;
    let mut program = Exec::new(work.program, work.args);
    program.limit = Duration::from_secs(work.timeout);
    let do_job = move |job| {
        let program = program.clone();
        async move { program.work(&job).await }
    };
    let (worker, jobs) = JobWorker::new(&client, work.at_once as usize, do_job, |event| tell(&event));
    let server = match &work.direct.listen {
        Some(address) => Some(listen(global, &client, &worker, address, &work.direct).await?),
        None => None,
    };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // While an inbox is open, the hub sends jobs to it, even if an endpoint is registered.
    let inbox = async {
        match &work.direct.endpoint {
            None => worker.serve_inbox().await,
            Some(_) => std::future::pending().await,
        }
    };
    // Running programs end with the command.
    tokio::select! {
        served = inbox => served?,
        () = jobs => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    if let Some(server) = server {
        server.close().await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts to listen, and registers the endpoint with the hub if there is one.
async fn listen(
    global: &Global,
    client: &Client,
    worker: &JobWorker,
    address: &str,
    direct: &Direct,
) -> anyhow::Result<JobServer> {
    let listed = listing(client).await?;
    // An empty variable counts as unset.
    let secret = direct.secret.as_deref().filter(|secret| !secret.is_empty()).map(WebhookSecret::parse);
    let secret = secret.transpose().map_err(|fault| {
        Explained::usage(format!("secret: {fault}"), "`chorus agents rotate-secret NAME` gives the agent one")
    })?;
    let guarded = secret.is_some() || !direct.allow_from.is_empty();
    let options = JobListen {
        agent: listed.agent_id,
        skills: listed.skills.clone(),
        secret,
        sources: direct.allow_from.clone(),
        reach: Reach::new(Some(global.url()), direct.allow_private.clone()),
    };
    let server = worker.listen(address, options).await.map_err(|error| match error {
        BindError::Path => Explained::usage(error.to_string(), "the path is /jobs"),
        BindError::Listen { ref source, .. } => Explained::failed(
            format!("{error}: {source}"),
            "choose another address with --listen, or port 0 for any free one",
        ),
    })?;
    output::talk(format_args!("listening for jobs at {}", server.url()));
    if !guarded && !server.address().ip().is_loopback() {
        let what =
            "whoever can reach this address can have jobs done; --allow-from or --secret admits others only";
        output::talk(format_args!("{}: {what}", "warning".yellow()));
    }
    if let Some(endpoint) = &direct.endpoint {
        let body = Registration {
            agent_id: None,
            agent_name: Text(listed.agent_name),
            owner_id: None,
            api_endpoint: Some(EndpointUrl(endpoint.clone())),
            skills: listed.skills,
            version: Some("0.1".into()),
            timestamp_utc: None,
            invitation: None,
        };
        let _: Registered = client.market_post(&["register"], &body).await?;
        // From here on the hub POSTs new jobs. Earlier ones, sent to a process that ended, are requested.
        server.take_open_jobs().await?;
        output::talk(format_args!("registered: the hub sends jobs to {}", output::one_line(endpoint)));
    }
    Ok(server)
}

/// Returns the agent's listing on the market.
async fn listing(client: &Client) -> anyhow::Result<MarketAgent> {
    let me: Me = client.api_get(&["me"], &[]).await?;
    match client.market_get(&["agents", &me.id], &[]).await {
        Err(ClientError::Refused { status: 404, .. }) => Err(Explained::refused(
            "this is the key of nobody who offers a skill",
            "`chorus market register NAME --owner OWNER --skill NAME=PRICE` comes to the market, and prints the agent's key",
        )
        .into()),
        listed => Ok(listed?),
    }
}

fn tell(event: &WorkerEvent<'_>) {
    output::talk(match event {
        WorkerEvent::Listening => "listening for jobs".to_owned(),
        WorkerEvent::Began(job) => format!("job {}: {}", job.job_id, output::one_line(&job.skill_name)),
        WorkerEvent::Reported(taken) => {
            format!("job {}: {}, paid {}", taken.job_id, taken.status, taken.settled)
        }
        WorkerEvent::Answered(result) => format!("job {}: {}", result.job_id, result.status.as_str()),
        WorkerEvent::Deferred(job) => {
            format!("job {job}: it takes longer; its result goes to the callback address")
        }
        WorkerEvent::Refused(job, error) => format!("job {job}: the result was not taken: {error}"),
        WorkerEvent::NotCalledBack(job, why) => {
            format!("job {job}: the result could not be brought: {}", output::one_line(why))
        }
        WorkerEvent::Left(job) => format!("job {job}: it has ended, and is left"),
        WorkerEvent::NotAsked(error) => format!("could not ask which jobs are open: {error}"),
        WorkerEvent::TooMany(job) => format!("job {job}: too many wait; it ends by its deadline"),
    });
}
