//! Serving jobs with a program.

use crate::global::Global;
use crate::output;
use chorus_agent::harness::{AT_ONCE, Exec};
use chorus_agent::{JobWorker, WorkerEvent};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Serve jobs: a program gets the input data on its standard input and prints the output data
#[derive(clap::Args)]
pub(super) struct Work {
    /// How long one job may take, in seconds
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// How many jobs it does side by side
    #[arg(long, value_name = "N", default_value_t = AT_ONCE as u64, value_parser = clap::value_parser!(u64).range(1..=64))]
    at_once: u64,
    /// The program
    program: std::path::PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(super) async fn run(global: &Global, work: Work) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    let mut program = Exec::new(work.program, work.args);
    program.limit = Duration::from_secs(work.timeout);
    let do_job = move |job| {
        let program = program.clone();
        async move { program.work(&job).await }
    };
    let (worker, jobs) = JobWorker::new(&client, work.at_once as usize, do_job, |event| tell(&event));
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // Whatever ends it, programs that run end with it.
    tokio::select! {
        served = worker.serve_inbox() => served?,
        () = jobs => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(event: &WorkerEvent<'_>) {
    output::talk(match event {
        WorkerEvent::Listening => "listening for jobs".to_owned(),
        WorkerEvent::Began(job) => format!("job {}: {}", job.job_id, output::one_line(&job.skill_name)),
        WorkerEvent::Reported(taken) => {
            format!("job {}: {}, paid {}", taken.job_id, taken.status, taken.settled)
        }
        WorkerEvent::Refused(job, error) => format!("job {job}: the result was not taken: {error}"),
        WorkerEvent::Left(job) => format!("job {job}: it has ended, and is left"),
        WorkerEvent::TooMany(job) => format!("job {job}: too many wait; it ends by its deadline"),
    });
}
