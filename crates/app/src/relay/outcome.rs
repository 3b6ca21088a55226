//! Outcomes of envelopes that are handed over after the commit, and their recording.

use chorus_node::App;
use chorus_protocol::code::Code;
use chorus_protocol::relay::Outcome;
use chorus_protocol::words::DeliveryState;
use chorus_store::relay::{self, Pending};
use chorus_store::{StoreError, Tx};

/// Returns the outcome of an envelope that the receiver took.
pub(super) fn delivered(pending: &Pending) -> Outcome {
    Outcome {
        delivery: DeliveryState::Delivered,
        receiver_response: None,
        error_code: None,
        detail: None,
        trace_id: Some(pending.trace.into()),
    }
}

/// Returns the outcome of an envelope that the receiver did not take.
pub(super) fn failed(pending: &Pending, code: Code, why: impl ToString) -> Outcome {
    let (error_code, detail) = (Some(code.as_str().into()), Some(why.to_string()));
    Outcome { delivery: DeliveryState::Failed, error_code, detail, ..delivered(pending) }
}

/// Records an outcome that was not known when the message was committed.
pub(super) async fn record(app: &App, pending: Pending, outcome: &Outcome) {
    let (known, now, trace) = (outcome.clone(), app.now(), pending.trace);
    let record = move |tx: &mut dyn Tx| relay::record_outcome(tx, &pending, &known, now);
    let recorded = app.store.write::<_, StoreError, _>(record).await;
    if let Err(error) = recorded {
        // The delivery cannot be undone. Its lease will expire, and the record will say "failed".
        tracing::error!(error = &error as &dyn std::error::Error, trace_id = %trace, "an outcome was not recorded");
    }
}
