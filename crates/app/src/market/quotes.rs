//! Offers: what several agents ask for a skill, and taking one of them before they end.
//!
//! They are asked, and may answer for a while; whoever says nothing counts with the price it lists.

use super::asking::{self, Question, take_offer, unknown};
use super::discover::{declared, look_who_is_online};
use super::hire::{self, Offered};
use super::probe;
use super::who::{self, Fresh};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::Error;
use crate::once::{Done, Once};
use crate::usage::event_bytes;
use chorus_market::schema;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{EventId, JobId, QuoteId};
use chorus_protocol::market::{
    Accept, Credits, JobRequest, JobView, MakeOffer, Offer, OfferMade, QuoteRequest, QuoteStatus, QuoteView,
    SkillName,
};
use chorus_protocol::time::rfc3339;
use chorus_store::market::discovery::{self, Search};
use chorus_store::market::quotes::{self, Quote};
use chorus_store::market::{agents, jobs, wallets};
use chorus_store::{StoreError, Tx, directory};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;

const USUAL_OFFERS: i64 = 5;
const USUAL_VALID_MS: i64 = 60_000;
const USUAL_ANSWER_MS: i64 = 5000;
/// So many requests of one wallet stand at a time.
const MOST_OPEN: i64 = 50;

/// Reads the id of offers.
pub fn id(text: &str) -> Result<QuoteId, Error> {
    QuoteId::parse(text).ok_or_else(unknown)
}

/// Asks the best agents of a skill what they would do it for. What they say, or else what they list, stands until the offers end.
/// Under one idempotency key they are asked once.
pub async fn ask(
    app: &AppState,
    caller: Caller,
    body: QuoteRequest,
    once: Once,
) -> Result<Done<QuoteView>, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
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
        body,
        search,
        stale: AtomicBool::new(false),
    });
    for _ in 0..hire::LOOKS {
        let (asked, fits, runtime) = (Arc::clone(&act), act.check_input().await?, Handle::current());
        let work = move |tx: &mut dyn Tx| {
            let Some((quote, question)) = asked.run(tx, &fits)? else {
                asked.stale.store(true, Ordering::Release);
                return Err(hire::changing());
            };
            if let Some(question) = question {
                let (app, runtime) = (Arc::clone(&asked.app), runtime.clone());
                let call =
                    move || drop(app.tasks.spawn_on(asking::call(Arc::clone(&app), question), &runtime));
                tx.after_commit(Box::new(call));
            }
            Ok(quote)
        };
        let done = app.once(once.clone(), |_| Ok(()), work).await;
        // A transaction that ran again may have found it otherwise: what was committed stands.
        if done.is_ok() || !act.stale.swap(false, Ordering::AcqRel) {
            return done;
        }
    }
    Err(hire::changing())
}

/// Offers that are asked for, with everything that must not be made twice.
struct Ask {
    app: AppState,
    caller: Caller,
    body: QuoteRequest,
    search: Search,
    id: QuoteId,
    event: EventId,
    fresh: Fresh,
    /// Somebody was found who declares what was not looked at: it is to be looked at again.
    stale: AtomicBool,
}

/// Whether the input fits what was declared, or why not, of each declaration that was looked at.
type Fits = HashMap<String, Result<(), Faults>>;

impl Ask {
    fn limit(&self) -> i64 {
        self.body.limit.unwrap_or(USUAL_OFFERS)
    }

    /// Holds the input against what those declare who would be asked now: before anything is written, because it takes its time.
    async fn check_input(&self) -> Result<Fits, Error> {
        let Some(input) = &self.body.input_data else { return Ok(Fits::new()) };
        // One more, because whoever asks is not among them.
        let (search, limit) = (self.search.clone(), self.limit() + 1);
        let find = move |tx: &mut dyn Tx| discovery::search(tx, &search, None, limit);
        let found = self.app.store.read::<_, StoreError, _>(find).await?;
        let mut fits = Fits::new();
        for schema in found.into_iter().filter_map(|found| found.input_schema) {
            fits.entry(schema).or_insert_with_key(|schema| {
                schema::check(declared(Some(schema)).as_ref(), input, "input_data")
            });
        }
        Ok(fits)
    }

    /// The offers, and what their agents are asked; unless somebody is among them who declares something that was not looked at.
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
            // Whoever does not want to hear from this caller is neither asked nor shown.
            let agent = directory::by_id(tx, found.place.agent)?;
            let Some(agent) = agent else { continue };
            if hire::keeps_out(tx, &agent, &self.caller, hirer.agent)? {
                continue;
            }
            let fits = match (&body.input_data, &found.input_schema) {
                (Some(_), Some(schema)) => match fits.get(schema) {
                    Some(fits) => fits.as_ref(),
                    None => return Ok(None),
                },
                _ => Ok(&()),
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
            skill: body.skill_name.0.clone(),
            input: body.input_data.as_ref().map(ToString::to_string),
            job: None,
            valid_until: now + valid_ms,
            answers_until: now + answer_ms,
            created_at: now,
            trace: self.fresh.trace,
            offers,
        };
        // It is kept for the wallet, whoever is asked: and counts for it until it is forgotten.
        let bytes = event_bytes(quote.input.as_ref().map_or(0, String::len));
        self.app.count_bytes(tx, who::by_wallet(hirer.wallet.id), bytes)?;
        quotes::insert(tx, &quote)?;
        let mut question = None;
        if answer_ms > 0 {
            let asked = (&quote, self.event);
            question = Some(asking::put(tx, &self.app, &self.caller, &hirer, asked, body.budget)?);
        }
        Ok(Some((view(tx, quote, now)?, question)))
    }
}

/// What offers there are, for whoever asked.
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

/// Offers that this caller asked for.
fn own(tx: &mut dyn Tx, caller: &Caller, id: QuoteId) -> Result<Quote, Error> {
    let quote = quotes::by_id(tx, id)?.ok_or_else(unknown)?;
    let payer = wallets::by_id(tx, quote.payer)?.ok_or_else(unknown)?;
    if !who::sees(tx, caller, &payer)? || *caller == Caller::Operator {
        return Err(unknown());
    }
    Ok(quote)
}

/// An agent that was asked answers: a price, or that it would rather not. Its first answer stands; the same again is the same.
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

/// Takes one offer: it becomes a job at the price that was offered. The same again is the same job.
pub async fn accept(app: &AppState, caller: Caller, id: QuoteId, body: Accept) -> Result<JobView, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let asks = caller.clone();
    let quote = app.store.read::<_, Error, _>(move |tx: &mut dyn Tx| own(tx, &asks, id)).await?;
    let offer = quote.offers.iter().find(|offer| offer.agent == body.agent_id && !offer.declined).cloned();
    let offer = offer.ok_or_else(|| Faults::one("agent_id", "made no offer here"))?;
    let kept = || quote.input.as_deref().and_then(|kept| serde_json::from_str(kept).ok());
    let request = JobRequest {
        job_id: body.job_id.or(quote.job),
        // An agent hires for itself, also where another of its owner's has asked.
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
    let act = Arc::new(hire::prepare(app, caller.clone(), request).await?);
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
        if let Some(job) = app.store.write::<_, Error, _>(work).await? {
            return Ok(job);
        }
    }
    Err(hire::changing())
}

fn taken() -> Error {
    Error::new(Code::Conflict, "an offer was taken already; it is one job")
}

/// Whether an offer can be taken as this job.
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
