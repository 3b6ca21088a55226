//! Trace adapters: convert a framework's trace of a run into an evidence bundle.
//!
//! Adapters translate and do not judge: they map what is certain, warn about what they cannot map, and invent nothing.
//! Missed entries, breaches of authority, unsupported claims and false harmony are inferred by the engine (`chorus_choir`) only.
//! Of a trace they copy names and the short explanations of guards and reviewers, masked. Prompts, questions to people,
//! arguments and keys are not copied.
//! A trace is read as a stream: memory is bounded by the bundle and by the distinct ids of its calls.

mod clean;
mod collector;
mod crewai;
mod guess;
mod langgraph;
mod node;
mod openai;
mod otel;
mod reader;
mod records;
mod reviews;
mod secrets;
mod signs;
mod sources;
#[cfg(test)]
mod tests;

pub use reader::ReadError;

use chorus_choir::names::{Voices, same};
use chorus_protocol::canonical::hex;
use chorus_protocol::choir::evidence::{Adapter as Made, Bundle, MAX_NAME};
use chorus_protocol::choir::score::{Score, Voice};
use collector::Collector;
use records::{Adapter, Records};
use ring::digest::{Context, SHA256};
use std::io::{self, Read};

/// The bytes of a trace that are examined to guess its framework.
const BEGINNING: u64 = 64 * 1024;
/// The version of all adapters. It changes whenever the output for the same trace changes.
const VERSION: &str = "1.0.0";

/// The framework that wrote a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenAI's Responses.
    OpenAi,
    /// LangGraph's streams.
    LangGraph,
    /// CrewAI's events and results.
    CrewAi,
    /// OpenTelemetry's spans.
    Otel,
}

impl Format {
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::LangGraph, Self::CrewAi, Self::Otel];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::LangGraph => "langgraph",
            Self::CrewAi => "crewai",
            Self::Otel => "otel",
        }
    }

    /// The adapter's name in a bundle.
    pub const fn adapter(self) -> &'static str {
        match self {
            Self::OpenAi => "openai.responses.v1",
            Self::LangGraph => "langgraph.stream.v1",
            Self::CrewAi => "crewai.kickoff.v1",
            Self::Otel => "otel.genai.v1",
        }
    }

    /// Reads a short name or an adapter's.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| text == format.as_str() || text == format.adapter())
    }
}

/// Facts about a run that its trace does not contain, given by the caller.
#[derive(Debug, Clone, Default)]
pub struct About<'s> {
    pub run_id: Option<String>,
    /// The scenario that was run.
    pub scenario_id: Option<String>,
    /// The trace contains everything that happened. A trace that is visibly incomplete overrides this.
    pub complete: bool,
    /// Pairs of a name in the trace and the voice it stands for.
    pub names: Vec<(String, String)>,
    /// The voice of events that name no voice.
    pub voice: Option<String>,
    /// The voices of the Score; empty without one.
    pub voices: &'s [Voice],
}

impl About<'_> {
    /// Checks that the caller's texts fit into a bundle.
    fn fits(&self) -> Result<(), AdaptError> {
        let said = [("run_id", &self.run_id), ("scenario_id", &self.scenario_id), ("voice", &self.voice)];
        let names = self.names.iter().map(|(_, voice)| ("voice", voice));
        let mut said = said.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))).chain(names);
        let long = said.find(|(_, text)| text.chars().count() > MAX_NAME);
        long.map_or(Ok(()), |(name, _)| Err(AdaptError::TooLong(name)))
    }

    /// Checks that the Score has the voices and the scenario that the caller names.
    pub fn check(&self, score: &Score) -> Result<(), AdaptError> {
        let known = Voices::of(&score.voices);
        let mut named = self.names.iter().map(|(_, voice)| voice).chain(&self.voice);
        if let Some(voice) = named.find(|voice| known.find(voice).is_none()) {
            return Err(AdaptError::UnknownVoice(voice.clone()));
        }
        match &self.scenario_id {
            Some(id) if !score.scenarios.iter().any(|scenario| same(&scenario.id, id)) => {
                Err(AdaptError::UnknownScenario(id.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// The reason why a trace could not be converted.
#[derive(Debug, thiserror::Error)]
pub enum AdaptError {
    /// The trace is not JSON, or could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the trace is empty")]
    Empty,
    /// The trace is JSON, but neither a list nor an object.
    #[error("the trace is {0}: a trace is a list, an object, or one of them on each line")]
    Scalar(&'static str),
    /// The trace looks like another framework's.
    #[error("this is no {} trace: it looks like one of {}", .asked.as_str(), .found.as_str())]
    OtherFormat { asked: Format, found: Format },
    /// Nothing in the trace is of the format that was named.
    #[error("nothing in this trace is of {}: no record has a form that it writes", .0.as_str())]
    NothingKnown(Format),
    /// The framework could not be guessed.
    #[error("nothing in the trace says which framework wrote it; name it: openai, langgraph, crewai or otel")]
    Unknown,
    /// A text of the caller is too long for a bundle.
    #[error("{0}: must be at most {MAX_NAME} characters")]
    TooLong(&'static str),
    #[error("the Score has no voice \"{0}\"")]
    UnknownVoice(String),
    #[error("the Score has no scenario \"{0}\"")]
    UnknownScenario(String),
}

/// Converts a trace into a bundle. Without a format, the format is guessed.
pub fn adapt(format: Option<Format>, mut trace: impl Read, about: &About<'_>) -> Result<Bundle, AdaptError> {
    about.fits()?;
    let mut beginning = Vec::new();
    trace.by_ref().take(BEGINNING).read_to_end(&mut beginning).map_err(ReadError::from)?;
    if beginning.trim_ascii().is_empty() {
        return Err(AdaptError::Empty);
    }
    let guessed = guess::guess(&beginning);
    // The guess matters only if the trace is JSON; the reader reports that with a better error.
    let format = format.or(guessed);
    let whole = beginning.as_slice().chain(trace);
    match format {
        Some(Format::OpenAi) => {
            let mut adapter = openai::OpenAi::default();
            let mut bundle = read(&mut adapter, Format::OpenAi, guessed, whole, about)?;
            if adapter.is_deprecated() {
                bundle.adapter = Some(made("openai.assistants.v1 (deprecated)"));
            }
            Ok(bundle)
        }
        Some(Format::LangGraph) => {
            read(&mut langgraph::LangGraph::default(), Format::LangGraph, guessed, whole, about)
        }
        Some(Format::CrewAi) => read(&mut crewai::CrewAi::default(), Format::CrewAi, guessed, whole, about),
        Some(Format::Otel) => read(&mut otel::Otel::default(), Format::Otel, guessed, whole, about),
        None => {
            // Read only for the errors of a trace that is no JSON.
            match read(&mut openai::OpenAi::default(), Format::OpenAi, None, whole, about) {
                Ok(_) | Err(AdaptError::NothingKnown(_)) => Err(AdaptError::Unknown),
                Err(error) => Err(error),
            }
        }
    }
}

fn read<A: Adapter>(
    adapter: &mut A,
    format: Format,
    guessed: Option<Format>,
    trace: impl Read,
    about: &About<'_>,
) -> Result<Bundle, AdaptError> {
    let mut collector = Collector::new(about);
    let mut trace = Digesting { source: trace, digest: Context::new(&SHA256) };
    let (top, secrets) = Records::new(&mut trace, adapter, &mut collector).run()?;
    if let Some(kind) = top.scalar {
        return Err(AdaptError::Scalar(kind));
    }
    if let Some(found) = guessed.filter(|found| *found != format && !collector.recognised()) {
        return Err(AdaptError::OtherFormat { asked: format, found });
    }
    // A result of CrewAI is an object of any form, so that its adapter knows no unknown record.
    if guessed.is_none() && collector.knows_nothing() {
        return Err(AdaptError::NothingKnown(format));
    }
    let mut bundle = Bundle::new(Some(made(format.adapter())));
    bundle.run_id.clone_from(&about.run_id);
    bundle.scenario_id.clone_from(&about.scenario_id);
    bundle.complete = about.complete;
    let digest = trace.digest.finish();
    collector.finish(&mut bundle, &secrets, &hex(&digest.as_ref()[..6]));
    Ok(bundle)
}

/// A reader that computes the digest of what was read. The digest keeps positions in different traces apart.
struct Digesting<R> {
    source: R,
    digest: Context,
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.digest.update(&buffer[..count]);
        Ok(count)
    }
}

fn made(id: &str) -> Made {
    Made { id: id.to_owned(), version: VERSION.to_owned() }
}
