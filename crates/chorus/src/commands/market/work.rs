//! Serving jobs with a program.

use crate::global::Global;
use crate::output;
use chorus_agent::WorkerEvent;
use chorus_agent::harness::Exec;
use std::process::ExitCode;
use std::time::Duration;

/// Serve jobs: a program gets the input data on its standard input and prints the output data
#[derive(clap::Args)]
pub(super) struct Work {
    /// How long one job may take, in seconds
    #[arg(long, default_value_t = 120)]
    timeout: u64,
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
    let serve = client.serve_jobs(
        |job| {
            let program = program.clone();
            async move { program.work(&job).await }
        },
        |event| match event {
            WorkerEvent::Listening => output::talk("listening for jobs"),
            WorkerEvent::Began(job) => output::talk(format!("job {}: {}", job.job_id, job.skill_name)),
            WorkerEvent::Reported(taken) => {
                output::talk(format!("job {}: {}, paid {}", taken.job_id, taken.status, taken.settled));
            }
            WorkerEvent::Refused(error) => output::talk(format!("the result was not taken: {error}")),
        },
    );
    tokio::select! {
        served = serve => served?,
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(ExitCode::SUCCESS)
}
