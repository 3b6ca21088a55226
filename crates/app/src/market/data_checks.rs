//! Checks data against the schemas that agents declare, within a budget of steps for the whole request.
//!
//! Neither schemas nor data are trusted. A short check runs at once. A longer one leaves the runtime's thread
//! and queues with other long ones: at most one runs on a node, turns go round between parties, and a caller has
//! one at a time. The party of an input is the caller's network address. That of an output is the owner of the
//! worker, or the address that registered it, since a pushed job is answered to the hub's own request.

use chorus_market::schema::{STEPS_OF_CHECK, Schema};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::source::Source;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::Principal;
use chorus_protocol::schema::StepBudget;
use chorus_store::market::jobs::Job;
use chorus_store::{StoreError, Tx, directory};
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

/// Steps of a short check: about one millisecond.
const SHORT_STEPS: usize = 200_000;
/// Steps of all long checks of one request together.
const REQUEST_STEPS: usize = 4_000_000;
/// A size that always counts as large.
const ANY_SIZE: usize = usize::MAX;

/// `Ok` if the data matches the schema, otherwise every fault in it.
pub(super) type Fit = Result<(), Faults>;

/// Returns the step budget for the long checks of one request.
pub(super) fn request_budget() -> StepBudget {
    StepBudget::new(REQUEST_STEPS)
}

/// Checks the input of a job against schemas in order, stopping at the first match if `until_fit`. An absent
/// schema matches everything.
///
/// Each schema gets an equal share of the remaining budget, so that an expensive one leaves enough for the
/// others.
pub(super) async fn check_input(
    app: &App,
    (caller, source): (&Caller, Source),
    schemas: &[Option<String>],
    until_fit: bool,
    input: &Value,
    budget: &mut StepBudget,
) -> Result<Vec<Fit>, Error> {
    let mut short = StepBudget::new(SHORT_STEPS);
    let fits = check_each(app, schemas, until_fit, input, &mut short, |_| 1);
    if !short.is_exhausted() {
        return Ok(fits);
    }
    let party = Uuid::from_bytes(app.config.master_key.source_mark(source));
    let _turn = app.limits.data_checks.begin(party, caller_id(caller)).await?;
    Ok(block_in_place_if_large(ANY_SIZE, || check_each(app, schemas, until_fit, input, budget, |left| left)))
}

/// Checks input against one schema, if that does not take long.
pub(super) fn fits_at_once(app: &App, schema: Option<&str>, input: &Value) -> bool {
    check(app, schema, input, "input_data", &mut StepBudget::new(SHORT_STEPS)).is_ok()
}

/// Checks the output of a job against the schema that its worker declared. Fails if too many long checks wait.
pub(super) async fn check_output(app: &App, job: &Job, output: &Value) -> Result<Fit, Error> {
    let schema = job.agreed.output_schema.as_deref();
    let mut short = StepBudget::new(SHORT_STEPS);
    let fits = check(app, schema, output, "output_data", &mut short);
    if !short.is_exhausted() {
        return Ok(fits);
    }
    let worker = job.agreed.agent;
    let party =
        app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| directory::party(tx, worker)).await?;
    let _turn = app.limits.data_checks.begin(party, job.agreed.id.0).await?;
    Ok(block_in_place_if_large(ANY_SIZE, || {
        check(app, schema, output, "output_data", &mut StepBudget::new(STEPS_OF_CHECK))
    }))
}

/// `shares` gets the number of schemas left and returns the divisor for the remaining budget.
fn check_each(
    app: &App,
    schemas: &[Option<String>],
    until_fit: bool,
    input: &Value,
    budget: &mut StepBudget,
    shares: fn(usize) -> usize,
) -> Vec<Fit> {
    let mut fits = vec![];
    for (index, schema) in schemas.iter().enumerate() {
        let mut share = budget.take_share(shares(schemas.len() - index));
        let fit = check(app, schema.as_deref(), input, "input_data", &mut share);
        budget.put_back(share);
        let is_last = until_fit && fit.is_ok();
        fits.push(fit);
        if is_last {
            break;
        }
    }
    fits
}

fn check(app: &App, schema: Option<&str>, data: &Value, path: &str, steps: &mut StepBudget) -> Fit {
    let Some(text) = schema else { return Ok(()) };
    if let Some(known) = app.caches.market.compiled.find(text) {
        return known.check(data, path, steps);
    }
    let schema = Arc::new(Schema::compile(text, path, steps)?);
    app.telemetry.metrics.schemas_compiled.inc();
    app.caches.market.compiled.remember(text, &schema);
    schema.check(data, path, steps)
}

/// Returns the id under which a caller has one long check at a time.
fn caller_id(caller: &Caller) -> Uuid {
    match caller {
        Caller::Owner(wallet) => wallet.0,
        caller => caller.id().map_or(Uuid::nil(), Principal::uuid),
    }
}
