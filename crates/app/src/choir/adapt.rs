//! A pasted trace as an evidence bundle: converted in memory, and nothing of it is stored or logged.
//!
//! A conversion takes time in proportion to its trace, which is bounded. One runs at a time on a node, beside the threads that
//! answer requests, so that however many are asked for, one processor at most is busy with them.

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
use uuid::Uuid;

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
    let asker = who(&caller);
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
    let _permit = app.conversions.begin(asker).await?;
    long_work(trace.len(), || adapters::adapt(known, trace, &about)).map_err(Error::validation)
}

/// Who asks: each of these has one conversion at a time.
fn who(caller: &Caller) -> Uuid {
    match caller {
        Caller::Agent(identity) => identity.id.0,
        Caller::Account(person) => person.id.0,
        Caller::EditLink(score) => score.0,
        Caller::Owner(wallet) => wallet.0,
        // Apart, so that the operator is not refused because a stranger has one under way.
        Caller::Operator => Uuid::max(),
        Caller::Nobody => Uuid::nil(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Identity;
    use crate::config::Config;
    use crate::secrets::MasterKey;
    use chorus_environment::{Environment, ManualClock};
    use chorus_protocol::code::Code;
    use chorus_protocol::ids::AgentId;
    use chorus_store::Store;
    use tokio_util::sync::CancellationToken;

    fn agent(n: u128) -> Caller {
        Caller::Agent(Identity { id: AgentId(Uuid::from_u128(n)), name: format!("agent-{n}") })
    }

    #[tokio::test(start_paused = true)]
    async fn conversions_wait_for_each_other_and_nobody_has_two() {
        // It brings the TLS provider which the hub's own client needs.
        drop(chorus_testkit::http::client());
        let environment = Environment::seeded(1, &ManualClock::new(1_774_000_800_000));
        let config = Config::new(environment.uuid_v4(), "hub.example", [0; 32], MasterKey::new([7; 32]));
        let store = Store::in_memory().unwrap();
        let app = App::new(store, config, environment, CancellationToken::new(), true).unwrap();
        let convert = |caller| adapt(&app, caller, "openai", Adapting::default(), br#"{"output": []}"#);

        let first = app.conversions.begin(who(&agent(1))).await.unwrap();
        let refused = convert(agent(1)).await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_ms), (Code::RateLimited, Some(1000)));
        let refused = convert(agent(2)).await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_ms), (Code::Overloaded, Some(1000)));
        drop(first);
        convert(agent(1)).await.unwrap();
        convert(agent(1)).await.unwrap();
    }
}
