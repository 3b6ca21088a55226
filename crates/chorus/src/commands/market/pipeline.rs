//! A sequence of jobs within a budget.

use crate::answer::tell;
use crate::failure::Explained;
use crate::global::Global;
use anyhow::Context as _;
use chorus_agent::{Finished, Pipeline, PipelineError};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
A pipeline:
  {\"budget\": 0.50, \"input_data\": {\"text\": \"…\"},
   \"steps\": [{\"skill_name\": \"extract\"}, {\"skill_name\": \"price\", \"budget\": 0.20}]}

Each step gets what the one before gave. A step that nobody does for what is left is not begun.";

/// Do jobs one after the other, each with the output of the one before, within a total budget
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Run {
    /// The file with the pipeline, in JSON
    pipeline: PathBuf,
}

pub(super) async fn run(global: &Global, run: Run) -> anyhow::Result<ExitCode> {
    let path = run.pipeline.display();
    let text = std::fs::read_to_string(&run.pipeline).with_context(|| format!("cannot read {path}"))?;
    let odd = |error: serde_json::Error| {
        Explained::usage(format!("{path} is no pipeline: {error}"), "`chorus market run --help` shows one")
    };
    let pipeline: Pipeline = serde_json::from_str(&text).map_err(odd)?;
    let finished = global.keyed_client()?.pipeline(&pipeline).await.map_err(explain)?;
    tell(global, &serde_json::to_value(&finished)?, |done: Finished| {
        let mut lines: Vec<_> = done
            .jobs
            .iter()
            .map(|job| format!("{}  {}  {}  paid {}", job.job_id, job.skill_name, job.status, job.settled))
            .collect();
        lines.push(format!("paid {} of {}", done.cost, pipeline.budget));
        lines.push(done.output_data.to_string());
        lines.join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn explain(error: PipelineError) -> anyhow::Error {
    match error {
        PipelineError::Client(error) => error.into(),
        error @ PipelineError::Steps => {
            Explained::usage(error.to_string(), "`chorus market run --help` shows one").into()
        }
        error @ PipelineError::Failed { .. } => {
            Explained::failed(error.to_string(), "`chorus market jobs` shows what each step gave").into()
        }
        error @ PipelineError::Budget { .. } => {
            Explained::failed(error.to_string(), "raise the budget, or see `chorus market discover`").into()
        }
    }
}
