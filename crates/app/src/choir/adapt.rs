//! A pasted trace as an evidence bundle: converted in memory, and nothing of it is stored or logged.

use super::{declared, own, score_id};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::long_work;
use chorus_choir::adapters::{self, About, Format};
use chorus_protocol::api::scores::Adapting;
use chorus_protocol::choir::evidence::Bundle;
use chorus_protocol::faults::Faults;
use chorus_store::Tx;

/// The largest trace that is converted here; larger ones are for the command line.
pub const MAX_TRACE: usize = 8 << 20;

/// Converts a trace of this format, or of whichever it looks like (`auto`), with the names of a Score's voices if one is named.
pub async fn adapt(
    app: &App,
    caller: Caller,
    format: &str,
    asked: Adapting,
    trace: &[u8],
) -> Result<Bundle, Error> {
    let known = Format::parse(format);
    if known.is_none() && format != "auto" {
        return Err(Faults::one("format", "must be openai, langgraph, crewai, otel or auto").into());
    }
    let score = match &asked.score {
        None => None,
        Some(id) => {
            let id = score_id(id)?;
            let find = move |tx: &mut dyn Tx| {
                let row = own(tx, &caller, id)?;
                declared(tx, &row)
            };
            Some(app.store.read::<_, Error, _>(find).await?)
        }
    };
    let about = About {
        run_id: asked.run_id,
        scenario_id: asked.scenario,
        complete: asked.complete,
        names: vec![],
        voice: asked.voice,
        voices: score.as_ref().map_or(&[], |score| &score.voices),
    };
    if let Some(score) = &score {
        about.check(score).map_err(Error::validation)?;
    }
    long_work(trace.len(), || adapters::adapt(known, trace, &about)).map_err(Error::validation)
}
