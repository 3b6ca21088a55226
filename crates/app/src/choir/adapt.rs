//! Conversion of a pasted trace into an evidence bundle, in memory. Nothing of the trace is stored or logged.
//!
//! The time of a conversion is proportional to the trace, whose size is bounded. A node runs one conversion at
//! a time, off the threads that answer requests, so that conversions keep at most one processor busy.

use super::{declared, own, queue_id, score_id};
use chorus_choir_adapters::{About, Format};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::limits::work_queue::QueuePlace;
use chorus_node::source::Source;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_protocol::api::scores::Adapting;
use chorus_protocol::choir::evidence::Bundle;
use chorus_protocol::faults::Faults;
use chorus_store::Tx;

/// The most bytes of a trace that is converted here. The command line converts larger ones.
pub const MAX_TRACE: usize = 8 << 20;

/// Reserves the caller's place in the queue of conversions, before the trace is read.
pub fn enter(app: &App, caller: &Caller, source: Source) -> Result<QueuePlace, Error> {
    app.limits.conversions.enter(source, queue_id(caller))
}

/// Converts a trace of this format; `auto` detects the format. If a Score is named, its voices give the names.
pub async fn adapt(
    app: &App,
    caller: Caller,
    place: QueuePlace,
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
    let _turn = place.turn(trace.len()).await?;
    block_in_place_if_large(trace.len(), || chorus_choir_adapters::adapt(known, trace, &about))
        .map_err(Error::validation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_environment::{Environment, ManualClock};
    use chorus_node::Config;
    use chorus_node::caller::Identity;
    use chorus_node::secrets::MasterKey;
    use chorus_node::source::rate_key;
    use chorus_protocol::code::Code;
    use chorus_protocol::ids::AgentId;
    use chorus_store::Store;
    use tokio_util::sync::CancellationToken;
    use uuid::Uuid;

    fn agent(n: u128) -> Caller {
        Caller::Agent(Identity { id: AgentId(Uuid::from_u128(n)), name: format!("agent-{n}") })
    }

    #[tokio::test(start_paused = true)]
    async fn conversions_wait_for_each_other_and_nobody_has_two() {
        // This installs the TLS provider that the hub's own client needs.
        drop(chorus_testkit::http::client());
        let environment = Environment::seeded(1, &ManualClock::new(1_774_000_800_000));
        let config = Config::new(environment.uuid_v4(), "hub.example", [0; 32], MasterKey::new([7; 32]));
        let store = Store::in_memory().unwrap();
        let app = App::new(store, config, environment, CancellationToken::new(), true).unwrap();
        let here = rate_key([192, 0, 2, 1].into());
        let convert = async |caller| {
            let place = enter(&app, &caller, here)?;
            adapt(&app, caller, place, "openai", Adapting::default(), br#"{"output": []}"#).await
        };

        let first = app.limits.conversions.begin(here, queue_id(&agent(1))).await.unwrap();
        let refused = convert(agent(1)).await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_ms), (Code::RateLimited, Some(1000)));
        let refused = convert(agent(2)).await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_ms), (Code::Overloaded, Some(1000)));
        drop(first);
        convert(agent(1)).await.unwrap();
        convert(agent(1)).await.unwrap();
    }
}
