//! `chorus adapt`: converts a framework's trace of a run to an evidence bundle, without a hub.

use crate::failure::Explained;
use crate::{files, output};
use chorus_choir_adapters::{About, AdaptError, Format, ReadError, adapt};
use chorus_protocol::choir::evidence::Bundle;
use std::io::Read;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus adapt langgraph run.json > bundle.json              chunks, a line each or in a list
  chorus adapt auto run.json --score score.json --scenario refund --complete   nothing is missing
  chorus adapt openai run.json --scenario refund --voice Drafter   what a trace does not say
  chorus adapt crewai - --voice 'Senior Writer=Drafter'      who is meant by a name in the trace
  chorus adapt crewai - --run-id 17 < events.json | chorus sign --secret acs_… --submit URL -

Formats: openai (Responses, their streams, run steps), langgraph (every stream mode, events, run
logs), crewai (events, traces, results), otel (GenAI spans and log records), auto. Nothing is
copied but names and short explanations; what cannot be mapped is in adapter_warnings.";

/// Convert a framework's trace to an evidence bundle and print it
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// openai, langgraph, crewai, otel, or auto
    #[arg(value_parser = format)]
    format: Asked,
    /// The trace, or - for standard input
    #[arg(default_value = "-")]
    file: String,
    /// The Score with the voices; a voice's aliases are its names in traces
    #[arg(long, value_name = "SCORE")]
    score: Option<String>,
    /// The id of the run
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// The scenario that was run
    #[arg(long, value_name = "ID")]
    scenario: Option<String>,
    /// The voice of events without a name; or, as NAME=VOICE, the voice of events with this name. Can be given
    /// several times
    #[arg(long, value_name = "[NAME=]VOICE")]
    voice: Vec<String>,
    /// The trace is complete; only then is a missing event a violation
    #[arg(long)]
    complete: bool,
    /// The address at which the trace can be seen; {ref} stands for an event's id in it, {run_id} for the run
    #[arg(long, value_name = "URL")]
    trace_url: Option<String>,
}

/// The format. `None` detects it.
#[derive(Clone)]
struct Asked(Option<Format>);

fn format(text: &str) -> Result<Asked, String> {
    let format = Format::parse(text);
    if format.is_none() && text != "auto" {
        return Err("must be openai, langgraph, crewai, otel or auto".into());
    }
    Ok(Asked(format))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let score = args.score.as_ref().map(|path| files::score(path)).transpose()?.map(|(_, score)| score);
    let (names, voice) = voices(&args.voice)?;
    let about = About {
        run_id: args.run_id.clone(),
        scenario_id: args.scenario.clone(),
        complete: args.complete,
        names,
        voice,
        voices: score.as_ref().map_or(&[], |score| &score.voices),
    };
    if let Some(score) = &score {
        about.check(score).map_err(|error| {
            Explained::usage(error.to_string(), "`--voice` and `--scenario` name what the Score has")
        })?;
    }
    let mut bundle =
        adapt(args.format.0, open(&args.file)?, &about).map_err(|error| explained(&args.file, error))?;
    bundle.trace_url.clone_from(&args.trace_url);
    // The bundle's own rules say what an address is.
    Bundle::read(serde_json::to_value(&bundle)?).map_err(|faults| {
        Explained::usage(faults.to_string(), "`--trace-url https://traces.example/{run_id}?span={ref}`")
    })?;
    output::json(&bundle)?;
    Ok(ExitCode::SUCCESS)
}

type Names = Vec<(String, String)>;

/// Parses the options: `NAME=VOICE` maps a name, a voice alone is for events without a name.
fn voices(given: &[String]) -> anyhow::Result<(Names, Option<String>)> {
    let (mut names, mut unnamed) = (Vec::new(), None);
    for one in given {
        match one.rsplit_once('=') {
            Some((name, voice)) if !name.trim().is_empty() && !voice.trim().is_empty() => {
                names.push((name.trim().to_owned(), voice.trim().to_owned()));
            }
            None if !one.trim().is_empty() && unnamed.is_none() => unnamed = Some(one.trim().to_owned()),
            _ => {
                let what = format!("--voice {one} says no voice, or one more for those that name nobody");
                return Err(Explained::usage(what, "give one VOICE, and NAME=VOICE for each name").into());
            }
        }
    }
    Ok((names, unnamed))
}

fn open(path: &str) -> anyhow::Result<Box<dyn Read>> {
    if path == "-" {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let file = std::fs::File::open(path);
    Ok(Box::new(file.map_err(|error| anyhow::Error::from(error).context(format!("cannot read {path}")))?))
}

fn explained(path: &str, error: AdaptError) -> anyhow::Error {
    let hint = match &error {
        AdaptError::Read(ReadError::Io(_)) => "is it a file?",
        AdaptError::Read(_) => {
            "write traces with a JSON library: json.dumps in Python, JSON.stringify in JavaScript"
        }
        AdaptError::TooLong(_) => "`--run-id`, `--scenario` and `--voice` are names",
        AdaptError::Empty | AdaptError::Scalar(_) => "`chorus adapt --help` says what can be adapted",
        AdaptError::UnknownVoice(_) | AdaptError::UnknownScenario(_) => "the Score says what there is",
        AdaptError::OtherFormat { .. } => "name the framework that wrote it, or `auto`",
        AdaptError::NothingKnown(_) => "`chorus adapt auto` guesses the framework",
        AdaptError::Unknown => "name the framework that wrote it instead of `auto`",
    };
    Explained::failed(format!("{path}: {error}"), hint).into()
}
