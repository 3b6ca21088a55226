//! Quotes: offers of several agents for a skill, and accepting one before it expires.
//!
//! The agents are asked and may answer for a while. An agent that says nothing counts with its list price.

use super::asking::{self, Question, take_offer, unknown};
use super::data_checks::{self, Fit};
use super::discover::look_who_is_online;
use super::hire::{self, Offered};
use super::probe;
use super::who::{self, Fresh};
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::source::Source;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{EventId, JobId, QuoteId};
use chorus_protocol::market::{
    Accept, Credits, JobRequest, JobView, MakeOffer, Offer, OfferMade, QuoteRequest, QuoteStatus, QuoteView,
    SkillName,
};
use chorus_protocol::schema::StepBudget;
use chorus_protocol::time::rfc3339;
use chorus_store::market::discovery::{self, Search};
use chorus_store::market::quotes::{self, Quote};
use chorus_store::market::{agents, jobs, wallets};
use chorus_store::{StoreError, Tx, directory};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::runtime::Handle;

const USUAL_OFFERS: i64 = 5;
const USUAL_VALID_MS: i64 = 60_000;
const USUAL_ANSWER_MS: i64 = 5000;
/// Open quotes per wallet.
const MOST_OPEN: i64 = 50;

/// Parses a quote's id.
pub fn id(text: &str) -> Result<QuoteId, Error> {
    QuoteId::parse(text).ok_or_else(unknown)
}

/// Asks the best agents of a skill for their price. Their answers, or else their list prices, stand until the
/// quote expires. One idempotency key asks once.
pub async fn ask(
    app: &AppState,
    caller: Caller,
    source: Source,
    body: QuoteRequest,
    once: Once,
) -> Result<Done<QuoteView>, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    if let Some(done) = app.replay(&once).await? {
        return Ok(done);
    }
    look_who_is_online(app).await?;
    let search = hire::search(app, &body.skill_name.0, body.budget.unwrap_or(Credits::MAX), true, None);
    let limit = body.limit.unwrap_or(USUAL_OFFERS);
    probe::wake_found(app, &search, limit.max(1) as usize).await?;
    let act = Arc::new(Ask {
        id: QuoteId(app.environment.uuid_v4()),
        event: EventId(app.environment.uuid_v7()),
        fresh: Fresh::new(app),
        app: Arc::clone(app),
        caller,
        source,
        body,
        search,
        steps: tokio::sync::Mutex::new(data_checks::request_budget()),
    });
    for _ in 0..hire::LOOKS {
        let (asked, fits, runtime) = (Arc::clone(&act), act.check_input().await?, Handle::current());
        let work = move |tx: &mut dyn Tx| {
            let Some((quote, question)) = asked.run(tx, &fits)? else { return Ok(None) };
            if let Some(question) = question {
                let (app, runtime) = (Arc::clone(&asked.app), runtime.clone());
                let call = move || {
                    drop(app.tasks.tracker.spawn_on(asking::call(Arc::clone(&app), question), &runtime));
                };
                tx.after_commit(Box::new(call));
            }
            Ok(Some(quote))
        };
        if let Some(done) = app.once_prepared(once.clone(), |_| Ok(()), work).await? {
            return Ok(done);
        }
    }
    Err(hire::changing())
}

/// A requested quote, with everything that a retried transaction must not create twice.
struct Ask {
    app: AppState,
    caller: Caller,
    source: Source,
    body: QuoteRequest,
    search: Search,
    id: QuoteId,
    event: EventId,
    fresh: Fresh,
    /// Steps left for checks of the input.
    steps: tokio::sync::Mutex<StepBudget>,
}

/// The result of the input check for each schema that was checked.
type Fits = HashMap<String, Fit>;

impl Ask {
    fn limit(&self) -> i64 {
        self.body.limit.unwrap_or(USUAL_OFFERS)
    }

    /// Checks the input against the schemas of the agents that would be asked now. The check is slow, so it
    /// runs before anything is written.
    async fn check_input(&self) -> Result<Fits, Error> {
        let Some(input) = &self.body.input_data else { return Ok(Fits::new()) };
        // One more than the limit, because the asking agent itself is left out.
        let (search, limit) = (self.search.clone(), self.limit() + 1);
        let find = move |tx: &mut dyn Tx| {
            let mut schemas = vec![];
            for found in discovery::search(tx, &search, None, limit)? {
                let schema = agents::input_schema(tx, found.place.agent, &found.place.name)?;
                if schema.is_some() && !schemas.contains(&schema) {
                    schemas.push(schema);
                }
            }
            Ok(schemas)
        };
        let schemas = self.app.store.read::<_, StoreError, _>(find).await?;
        let mut steps = self.steps.lock().await;
        let caller = (&self.caller, self.source);
        let checked = data_checks::check_input(&self.app, caller, &schemas, false, input, &mut steps).await?;
        Ok(schemas.into_iter().flatten().zip(checked).collect())
    }

    /// Stores the quote and returns it with the question for its agents. Returns `None` if a candidate
    /// declares a schema that was not checked.
    fn run(&self, tx: &mut dyn Tx, fits: &Fits) -> Result<Option<(QuoteView, Option<Question>)>, Error> {
        let (body, now) = (&self.body, self.fresh.now);
        let hirer = who::hirer(tx, &self.app, &self.caller, body.orchestrator_id, &self.fresh)?;
        if quotes::count_open(tx, hirer.wallet.id, now)? >= MOST_OPEN {
            let what = format_args!(
                "{MOST_OPEN} of your requests for offers stand; take one, or wait until one has ended"
            );
            return Err(Error::new(Code::RateLimited, what).retry_after_ms(USUAL_VALID_MS));
        }
        let search = Search { except: hirer.agent, ..self.search.clone() };
        let (mut offers, mut unfit) = (vec![], None);
        let found = discovery::search(tx, &search, None, self.limit())?;
        let is_empty = found.is_empty();
        for found in found {
            // An agent that blocks this caller is neither asked nor shown.
            let agent = directory::by_id(tx, found.place.agent)?;
            let Some(agent) = agent else { continue };
            if hire::keeps_out(tx, &agent, &self.caller, hirer.agent)? {
                continue;
            }
            let schema = match &body.input_data {
                Some(_) => agents::input_schema(tx, agent.id, &found.place.name)?,
                None => None,
            };
            let fits = match &schema {
                Some(schema) => match fits.get(schema) {
                    Some(fits) => fits.as_ref(),
                    None => return Ok(None),
                },
                None => Ok(&()),
            };
            if let Err(faults) = fits {
                unfit = unfit.or(Some(faults));
            } else {
                let expected_ms = jobs::usual_time(tx, found.place.agent, &found.place.name)?;
                let (agent, price, reputation) = (found.place.agent, found.cost, found.reputation);
                let (answered_at, declined) = (None, false);
                offers.push(quotes::Offer { agent, price, expected_ms, answered_at, declined, reputation });
            }
        }
        if offers.is_empty() {
            if let Some(faults) = unfit {
                return Err(faults.clone().into());
            }
            return Err(hire::nobody(tx, &search, is_empty)?);
        }
        let valid_ms = body.valid_ms.unwrap_or(USUAL_VALID_MS);
        let answer_ms = body.answer_ms.unwrap_or(USUAL_ANSWER_MS).min(valid_ms);
        let quote = Quote {
            id: self.id,
            payer: hirer.wallet.id,
            orchestrator: hirer.agent,
            budget: body.budget,
            skill: body.skill_name.0.clone(),
            input: body.input_data.as_ref().map(ToString::to_string),
            job: None,
            valid_until: now + valid_ms,
            answers_until: now + answer_ms,
            created_at: now,
            trace: self.fresh.trace,
            offers,
        };
        quotes::insert(tx, &quote)?;
        let mut question = None;
        if answer_ms > 0 {
            question = Some(asking::put(tx, &self.app, &self.caller, &hirer, &quote, self.event)?);
        }
        Ok(Some((view(tx, quote, now)?, question)))
    }
}

/// Returns a quote to the caller that asked for it.
pub async fn show(app: &AppState, caller: Caller, id: QuoteId) -> Result<QuoteView, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let now = app.now();
    let read = move |tx: &mut dyn Tx| {
        let quote = own(tx, &caller, id)?;
        Ok(view(tx, quote, now)?)
    };
    app.store.read::<_, Error, _>(read).await
}

/// Returns a quote that this caller asked for.
fn own(tx: &mut dyn Tx, caller: &Caller, id: QuoteId) -> Result<Quote, Error> {
    let quote = quotes::by_id(tx, id)?.ok_or_else(unknown)?;
    let payer = wallets::by_id(tx, quote.payer)?.ok_or_else(unknown)?;
    if !who::sees(tx, caller, &payer)? || *caller == Caller::Operator {
        return Err(unknown());
    }
    Ok(quote)
}

/// Stores the answer of an agent that was asked: a price, or a refusal. The first answer stands, and repeating
/// it changes nothing.
pub async fn answer(
    app: &AppState,
    caller: Caller,
    id: QuoteId,
    body: MakeOffer,
) -> Result<OfferMade, Error> {
    let agent = match &caller {
        Caller::Agent(identity) => identity.id,
        Caller::Nobody => return Err(Error::unauthorized("this needs the key of an agent that was asked")),
        _ => return Err(unknown()),
    };
    let now = app.now();
    app.store.write::<_, Error, _>(move |tx: &mut dyn Tx| take_offer(tx, agent, id, &body, now)).await
}

fn view(tx: &mut dyn Tx, quote: Quote, now: i64) -> Result<QuoteView, StoreError> {
    let status = match quote.job {
        Some(_) => QuoteStatus::Accepted,
        None if now >= quote.valid_until => QuoteStatus::Expired,
        None => QuoteStatus::Open,
    };
    let mut offers = vec![];
    for offer in quote.offers.into_iter().filter(|offer| !offer.declined) {
        let name = agents::by_id(tx, offer.agent)?.map(|listing| listing.display_name);
        offers.push(Offer {
            agent_id: offer.agent,
            agent_name: name.unwrap_or_default(),
            price: offer.price,
            expected_ms: offer.expected_ms,
            answered: offer.answered_at.is_some(),
            reputation_score: offer.reputation,
        });
    }
    Ok(QuoteView {
        quote_id: quote.id,
        skill_name: quote.skill,
        status: status.into(),
        offers,
        answers_until: rfc3339(quote.answers_until),
        valid_until: rfc3339(quote.valid_until),
    })
}

/// Accepts one offer, which becomes a job at the offered price. Accepting it again returns the same job.
pub async fn accept(
    app: &AppState,
    caller: Caller,
    source: Source,
    id: QuoteId,
    body: Accept,
    once: Once,
) -> Result<Done<JobView>, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    if let Some(done) = app.replay(&once).await? {
        return Ok(done);
    }
    let asks = caller.clone();
    let quote = app.store.read::<_, Error, _>(move |tx: &mut dyn Tx| own(tx, &asks, id)).await?;
    let offer = quote.offers.iter().find(|offer| offer.agent == body.agent_id && !offer.declined).cloned();
    let offer = offer.ok_or_else(|| Faults::one("agent_id", "made no offer here"))?;
    if body.price.is_some_and(|seen| seen != offer.price) {
        let what = format_args!("the price of this offer is {} now; read it again, then accept", offer.price);
        return Err(Error::new(Code::Conflict, what));
    }
    let kept = || quote.input.as_deref().and_then(|kept| serde_json::from_str(kept).ok());
    let request = JobRequest {
        job_id: body.job_id.or(quote.job),
        // An agent hires for itself, even if another agent of its owner asked for the quote.
        orchestrator_id: quote.orchestrator.filter(|_| !matches!(caller, Caller::Agent(_))),
        agent_id: Some(body.agent_id),
        skill_name: SkillName(quote.skill.clone()),
        input_data: body.input_data.or_else(kept).unwrap_or_else(|| Value::Object(serde_json::Map::new())),
        budget: offer.price,
        currency: None,
        callback_url: body.callback_url,
        deadline_ms: body.deadline_ms,
        timestamp_utc: None,
    };
    let act = Arc::new(hire::prepare(app, caller.clone(), source, request).await?);
    let now = app.now();
    check_offer(&quote, &offer, act.id, now)?;
    for _ in 0..hire::LOOKS {
        let (hire, checked) = (Arc::clone(&act), act.check_input().await?);
        let (caller, offer) = (caller.clone(), offer.clone());
        let work = move |tx: &mut dyn Tx| {
            let quote = own(tx, &caller, id)?;
            check_offer(&quote, &offer, hire.id, now)?;
            let known = quote.job.map_or(Ok(None), |known| jobs::by_id(tx, known))?;
            if known.is_some_and(|known| known.agreed.agent != offer.agent) {
                return Err(taken());
            }
            let job = hire.run(tx, Some(&Offered { price: offer.price }), checked.as_deref())?;
            if job.is_some() && quote.job.is_none() && !quotes::accept(tx, id, hire.id)? {
                return Err(Error::new(Code::Conflict, "an offer was taken at this moment; it is one job"));
            }
            Ok(job)
        };
        if let Some(done) = app.once_prepared(once.clone(), |_| Ok(()), work).await? {
            return Ok(done);
        }
    }
    Err(hire::changing())
}

fn taken() -> Error {
    Error::new(Code::Conflict, "an offer was taken already; it is one job")
}

/// Checks that an offer can be accepted as this job.
fn check_offer(quote: &Quote, offer: &quotes::Offer, job: JobId, now: i64) -> Result<(), Error> {
    let conflict = |what: &str| Err(Error::new(Code::Conflict, what));
    match quote.job {
        Some(known) if known != job => Err(taken()),
        None if !quote.offers.contains(offer) => {
            conflict("the agent answered at this moment; look at the offers again")
        }
        None if now >= quote.valid_until => conflict("the offers have ended; ask again"),
        Some(_) | None => Ok(()),
    }
}
