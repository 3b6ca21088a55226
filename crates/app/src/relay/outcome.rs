//! What came of an envelope that had to be handed over after it was committed, and recording it.

use crate::app::App;
use chorus_protocol::code::Code;
use chorus_protocol::relay::Outcome;
use chorus_protocol::words::DeliveryState;
use chorus_store::relay::{self, Pending};
use chorus_store::{StoreError, Tx};

/// The receiver took it.
pub(super) fn delivered(pending: &Pending) -> Outcome {
    Outcome {
        delivery: DeliveryState::Delivered,
        receiver_response: None,
        error_code: None,
        detail: None,
        trace_id: Some(pending.trace.into()),
    }
}

/// It did not.
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
        // The receiver has it or has not; that cannot be undone. The lease runs out and the record says "failed".
        tracing::error!(error = &error as &dyn std::error::Error, trace_id = %trace, "an outcome was not recorded");
    }
}
