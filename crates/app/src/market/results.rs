//! Taking what came of a job: from its agent, by its key or by the address it was given; at once as the answer to the POST, or
//! later. A job ends once: what comes too late moves nothing, what comes twice is the same.

use super::asking::{offer_of_text, take_offer};
use super::jobs::{self as views, Part};
use super::settle::{self, Ended};
use super::who;
use crate::app::{App, AppState};
use crate::caller::Caller;
use crate::delivery::job_result::of_body;
use crate::error::Error;
use crate::usage::event_bytes;
use chorus_market::escrow::{Settlement, Verdict};
use chorus_market::schema;
use chorus_protocol::channel::CallbackEvent;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, DeliveryId, EventId, JobId, QuoteId};
use chorus_protocol::json;
use chorus_protocol::market::{JobResult, JobStatus, JobView, MakeOffer, ResultTaken, Timestamp};
use chorus_protocol::schema::read_exact;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::EventKind;
use chorus_store::market::jobs::{self, Job};
use chorus_store::push::Due;
use chorus_store::{StoreError, Tx, conversations, deliveries, directory};
use serde_json::Value;
use std::sync::{Arc, Weak};

/// As much of the answer to a job is read as its result.
pub const MAX_ANSWER: usize = 256 * 1024;
/// So many characters of what an agent says instead are kept.
const MAX_SAID: usize = 500;

/// The agent that may report a job's result at an address that ends like this, if it is still in that epoch.
pub fn agent_of(app: &App, job: JobId, token: &str) -> Option<(AgentId, i64)> {
    app.config.master_key.read_job_token(job, token)
}

/// An address that is none of ours.
pub fn no_address() -> Error {
    Error::new(
        Code::NotFound,
        "there is no such address; post to the `callback_url` that came with the job, as it is",
    )
}

/// Whoever reports a result.
#[derive(Debug, Clone)]
pub enum Worker {
    /// By its key, or its owner's.
    Known(Caller),
    /// The agent that was given the job, by what came with it in this epoch of its keys.
    Given(AgentId, i64),
}

impl Worker {
    /// Whether the result of this job is its to report.
    fn may(&self, tx: &mut dyn Tx, job: &Job) -> Result<(), Error> {
        match self {
            Self::Known(caller) => match views::part(tx, caller, job)? {
                Some(Part::Worker) => Ok(()),
                // Whoever hires itself is both.
                Some(Part::Hirer) if job.agreed.payer == job.agreed.payee => Ok(()),
                Some(Part::Hirer) => {
                    Err(Error::new(Code::Forbidden, "only the agent that is hired reports the result"))
                }
                None => Err(views::unknown()),
            },
            Self::Given(agent, _) if job.agreed.agent != *agent => Err(views::unknown()),
            Self::Given(agent, epoch) => {
                if directory::by_id(tx, *agent)?.is_some_and(|known| known.epoch != *epoch) {
                    let what = "this address ended with the key that the agent had; report with its new one";
                    return Err(Error::new(Code::Gone, what));
                }
                Ok(())
            }
        }
    }

    /// The job, if its result is this one's to report.
    fn find(&self, tx: &mut dyn Tx, id: JobId) -> Result<Job, Error> {
        let job = jobs::by_id(tx, id)?.ok_or_else(views::unknown)?;
        self.may(tx, &job)?;
        Ok(job)
    }

    fn is_known(&self) -> Result<(), Error> {
        if matches!(self, Self::Known(caller) if !caller.is_known()) { Err(who::no_key()) } else { Ok(()) }
    }
}

/// The job, for whoever may report its result.
pub async fn look(app: &App, worker: Worker, id: JobId) -> Result<JobView, Error> {
    worker.is_known()?;
    let find = move |tx: &mut dyn Tx| worker.find(tx, id);
    views::view(&app.store.read::<_, Error, _>(find).await?, None)
}

/// Takes a result from whoever may report it. What it means is found out before anything is written: a schema takes its time, and what a
/// job must give never changes.
pub async fn report(
    app: &AppState,
    worker: Worker,
    id: JobId,
    result: JobResult,
) -> Result<ResultTaken, Error> {
    worker.is_known()?;
    // A person who reports for it tells nothing of its program.
    let by_person = matches!(worker, Worker::Known(Caller::Account(_)));
    let (hub, find) = (Arc::clone(app), move |tx: &mut dyn Tx| worker.find(tx, id));
    let job = app.store.read::<_, Error, _>(find).await?;
    let judged = judge(&job, &result);
    if !by_person {
        app.market.saw(job.agreed.agent, app.now());
    }
    // What was agreed on never changes, and a job that ended meanwhile does not end again: it need not be read twice.
    let work = move |tx: &mut dyn Tx| take(tx, &hub, &job, &result, &judged);
    app.store.write::<_, Error, _>(work).await
}

/// What a result means: the verdict, and why it is none if it is not.
type Judged = (Verdict, Option<(String, String)>);

/// Takes a result in this transaction.
fn take(
    tx: &mut dyn Tx,
    app: &App,
    job: &Job,
    result: &JobResult,
    (verdict, error): &Judged,
) -> Result<ResultTaken, Error> {
    let agreed = &job.agreed;
    let mut faults = Faults::new();
    if result.job_id != agreed.id {
        faults.add("job_id", "is another job's");
    }
    if result.agent_id.is_some_and(|agent| agent != agreed.agent) {
        faults.add("agent_id", "is another agent's");
    }
    if !faults.is_empty() {
        return Err(faults.into());
    }
    let taken =
        |job: &Job| ResultTaken { job_id: job.agreed.id, status: job.status.into(), settled: job.paid };
    if result.status == JobStatus::Pending {
        return Ok(taken(job));
    }
    let again = |job: &Job| if is_same(job, result) { Ok(taken(job)) } else { Err(late()) };
    if job.status != JobStatus::Pending {
        return again(job);
    }
    let now = app.now();
    if now >= agreed.deadline_at {
        return Err(late());
    }
    let filled = filled(job, result, now);
    let size = serde_json::to_string(&filled).map_err(Error::internal)?.len();
    app.count_bytes(tx, agreed.agent.into(), event_bytes(size))?;
    let ended = Ended { result: Some(filled), error: error.clone() };
    if let Some(Settlement { status, paid, .. }) = settle::settle(tx, app, job, *verdict, &ended)? {
        return Ok(ResultTaken { job_id: agreed.id, status: status.into(), settled: paid });
    }
    // The same may have come in the meantime.
    again(&jobs::by_id(tx, agreed.id)?.ok_or_else(views::unknown)?)
}

fn late() -> Error {
    Error::new(Code::Conflict, "the job has ended: this result comes too late, and nothing was moved")
}

fn judge(job: &Job, result: &JobResult) -> Judged {
    let failed = |message: String| Some((Code::ExecutionError.as_str().to_owned(), message));
    if result.status == JobStatus::Failure {
        let message = result.error_message.clone().unwrap_or_else(|| "the agent reported a failure".into());
        return (Verdict::Failed, failed(message));
    }
    let declared = super::discover::declared(job.agreed.output_schema.as_deref());
    let output = result.output_data.as_ref().unwrap_or(&Value::Null);
    match schema::check(declared.as_ref(), output, "output_data") {
        Ok(()) => (Verdict::Done(result.execution_cost), None),
        Err(faults) => {
            (Verdict::BrokenOutput, failed(format!("the output is not what the skill declares: {faults}")))
        }
    }
}

/// The result with what the hub knows of it.
fn filled(job: &Job, result: &JobResult, now: i64) -> JobResult {
    JobResult {
        agent_id: Some(job.agreed.agent),
        execution_cost: result
            .execution_cost
            .or((result.status == JobStatus::Success).then_some(job.agreed.price)),
        execution_time_ms: result.execution_time_ms.or(Some(now - job.agreed.created_at)),
        timestamp_utc: result.timestamp_utc.clone().or_else(|| Some(Timestamp(rfc3339(now)))),
        ..result.clone()
    }
}

/// Whether a job ended by this very result.
fn is_same(job: &Job, result: &JobResult) -> bool {
    let kept: Option<JobResult> = job.result.as_deref().and_then(|kept| serde_json::from_str(kept).ok());
    kept.is_some_and(|kept| {
        let again = filled(job, result, 0);
        let said = |result: &JobResult| {
            (result.status, result.output_data.clone(), result.execution_cost, result.error_message.clone())
        };
        said(&kept) == said(&again)
    })
}

/// What an agent that knows the Channel Protocol only says back: an object, or a text.
pub fn of_text(job: JobId, text: &str) -> JobResult {
    let output = serde_json::from_str(text.trim()).ok().filter(Value::is_object);
    let output = output.unwrap_or_else(|| serde_json::json!({"text": text}));
    JobResult {
        job_id: job,
        agent_id: None,
        status: JobStatus::Success,
        output_data: Some(output),
        execution_cost: None,
        execution_time_ms: None,
        error_message: None,
        timestamp_utc: None,
    }
}

/// What an agent says back in the document's own form: an object with this job's id and a status of the document. Anything else is
/// output; what is wrong with such a result is told.
fn of_document(job: JobId, text: &str) -> Result<Option<JobResult>, Faults> {
    let Ok(said) = json::parse(text.trim().as_bytes()) else { return Ok(None) };
    let word = |name: &str| said.get(name).and_then(Value::as_str);
    let is_result = word("job_id").and_then(JobId::parse) == Some(job)
        && word("status").and_then(JobStatus::parse).is_some();
    if is_result { read_exact(text.trim().as_bytes()).map(Some) } else { Ok(None) }
}

/// Why an agent did not take a job, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnWords {
    /// Its code, if it is spelled like one.
    code: Option<String>,
    message: String,
}

impl OwnWords {
    /// Reads `{"error": {"code", "message"}}`, the document's result, or whatever text there is.
    fn read(answer: &[u8]) -> Option<Self> {
        let value = json::parse(answer).unwrap_or_else(|_| String::from_utf8_lossy(answer).into());
        let text = |path: &str| value.pointer(path).and_then(Value::as_str);
        let code =
            ["/error/code", "/error_code", "/code"].into_iter().find_map(text).filter(|code| is_code(code));
        let messages = ["/error/message", "/error_message", "/message", "/detail", "/error", ""];
        let message = messages.into_iter().find_map(text).unwrap_or_default();
        let message: String = message.chars().filter(|sign| !sign.is_control()).take(MAX_SAID).collect();
        let code = code.map(str::to_owned);
        (code.is_some() || !message.trim().is_empty()).then_some(Self { code, message })
    }
}

/// Whether a text is spelled like the document's codes.
fn is_code(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|sign: char| sign.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// What an agent answered to the POST of a job. It is its result, if it is one; else it says no more than that the agent took the
/// job, and why it was no result is noted there. Of a refusal the agent's own words are returned.
pub async fn answered(app: &AppState, due: &Due, status: u16, answer: &[u8]) -> Option<OwnWords> {
    // Whoever answers lives. What stands before a server that is gone answers as well.
    if status < 500 {
        app.market.saw(due.id.agent, app.now());
    }
    if !(200..300).contains(&status) {
        return OwnWords::read(answer);
    }
    if answer.is_empty() {
        return None;
    }
    if let Err(error) = take_answer(app, due, status, read_exact(answer)).await {
        tracing::info!(error = error.message, "an answer to a job was not taken as its result");
    }
    None
}

async fn take_answer(
    app: &AppState,
    due: &Due,
    status: u16,
    read: Result<JobResult, Faults>,
) -> Result<(), Error> {
    if status == 202 && read.is_err() {
        // Taken, and what comes of it comes later.
        return Ok(());
    }
    let (hub, asked) = (Arc::clone(app), due.clone());
    let find = move |tx: &mut dyn Tx| of_event(tx, &asked);
    let Some(job) = app.store.read::<_, Error, _>(find).await? else { return Ok(()) };
    let id = job.agreed.id;
    let read = read.map(|result| (judge(&job, &result), result));
    let work = move |tx: &mut dyn Tx| {
        let Some(job) = jobs::by_id(tx, id)? else { return Ok(()) };
        let why = match &read {
            Ok((judged, result)) => match take(tx, &hub, &job, result, judged) {
                Err(error) if error.code == Code::Validation => error.message,
                taken => return taken.map(drop),
            },
            Err(faults) => faults.to_string(),
        };
        let why: String = why.chars().take(MAX_SAID).collect();
        Ok(jobs::note(tx, id, &format!("what the agent answered is no result of this job: {why}"))?)
    };
    app.store.write::<_, Error, _>(work).await
}

/// The job that is delivered by this.
fn of_event(tx: &mut dyn Tx, due: &Due) -> Result<Option<Job>, Error> {
    let event = conversations::event_by_id(tx, due.event)?;
    Ok(event.map_or(Ok(None), |event| of_body(tx, &event.body))?)
}

/// What an agent was given: a job, or the question what one would cost.
enum Given {
    Job(Box<Job>),
    Question(QuoteId),
}

fn given(tx: &mut dyn Tx, body: &str) -> Result<Option<Given>, Error> {
    /// As much of a question as tells that it is one.
    #[derive(serde::Deserialize)]
    struct Asked {
        quote_id: Option<QuoteId>,
    }
    let asked: Asked = serde_json::from_str(body).map_err(Error::internal)?;
    match asked.quote_id {
        Some(quote) => Ok(Some(Given::Question(quote))),
        None => Ok(of_body(tx, body)?.map(|job| Given::Job(Box::new(job)))),
    }
}

/// The agent will never take this job: it fails at once, with the agent's own code and words if it gave any.
pub fn refused(
    tx: &mut dyn Tx,
    app: &Weak<App>,
    due: &Due,
    why: Option<&str>,
    said: Option<&OwnWords>,
) -> Result<(), Error> {
    let Some(app) = app.upgrade() else { return Ok(()) };
    let Some(job) = of_event(tx, due)? else { return Ok(()) };
    let mut message = format!("the agent did not take the job: {}", why.unwrap_or("it refused"));
    if let Some(said) = said.filter(|said| !said.message.is_empty()) {
        message = format!("{message}: {}", said.message);
    }
    let code = said.and_then(|said| said.code.as_deref()).unwrap_or(Code::ExecutionError.as_str());
    settle::settle(tx, &app, &job, Verdict::Failed, &Ended::because(code, message))?;
    Ok(())
}

/// The agent will not do what it was given by this event: if that is an open job of its, it fails at once. Says whether it did.
pub fn given_up(
    tx: &mut dyn Tx,
    app: &App,
    agent: AgentId,
    event: EventId,
    why: Option<&str>,
) -> Result<bool, Error> {
    let Some(event) = conversations::event_by_id(tx, event)?.filter(|event| event.kind == EventKind::Job)
    else {
        return Ok(false);
    };
    let Some(Given::Job(job)) = given(tx, &event.body)? else { return Ok(false) };
    if job.agreed.agent != agent || job.status != JobStatus::Pending {
        return Ok(false);
    }
    let why = why.filter(|why| !why.is_empty()).map(|why| why.chars().take(MAX_SAID).collect::<String>());
    let message =
        format!("the agent declined the job{}", why.map(|why| format!(": {why}")).unwrap_or_default());
    let ended = Ended::because(Code::ExecutionError.as_str(), message);
    Ok(settle::settle(tx, app, &job, Verdict::Failed, &ended)?.is_some())
}

/// What an agent said by its callback about a job, and what that means; or what it would do one for.
pub enum Told {
    /// What came of the job.
    Result(Box<JobResult>, Judged),
    /// Its price.
    Offer(QuoteId, MakeOffer),
}

/// What an agent says by its callback about what it was given, if that was a job: a text is the result, an error is a failure; or if it
/// was a question: a text is the price, an error is that it would rather not. What it means is found out here, before anything is
/// written.
pub async fn told(
    app: &AppState,
    delivery: DeliveryId,
    event: &CallbackEvent,
) -> Result<Option<Told>, Error> {
    let (failed, text) = match event {
        CallbackEvent::Message { content } => (false, content),
        CallbackEvent::Error { message, .. } => (true, message),
        // What it does meanwhile is nobody's business.
        _ => return Ok(None),
    };
    told_about(app, move |tx| deliveries::event_of(tx, delivery), failed, text).await
}

/// The same of an agent that answers the event itself.
pub async fn answered_by_text(app: &AppState, event: EventId, text: &str) -> Result<Option<Told>, Error> {
    told_about(app, move |_| Ok(Some(event)), false, text).await
}

async fn told_about(
    app: &AppState,
    event: impl Fn(&mut dyn Tx) -> Result<Option<EventId>, StoreError> + Send + 'static,
    failed: bool,
    text: &str,
) -> Result<Option<Told>, Error> {
    let find = move |tx: &mut dyn Tx| {
        let Some(event) = event(tx)? else { return Ok(None) };
        let event = conversations::event_by_id(tx, event)?.filter(|event| event.kind == EventKind::Job);
        event.map_or(Ok(None), |event| given(tx, &event.body))
    };
    let job = match app.store.read::<_, Error, _>(find).await? {
        Some(Given::Job(job)) => job,
        Some(Given::Question(quote)) => {
            let declined = MakeOffer { price: None, expected_ms: None };
            let offer = if failed { Some(declined) } else { offer_of_text(text) };
            let what =
                "must be {\"price\": …}, or a price alone: an amount of credits with at most two decimals";
            let offer = offer.ok_or_else(|| Faults::one("content", what))?;
            return Ok(Some(Told::Offer(quote, offer)));
        }
        None => return Ok(None),
    };
    if let Some(result) = of_document(job.agreed.id, text)?.filter(|_| !failed) {
        let (verdict, mut error) = judge(&job, &result);
        if let (Verdict::Failed, Some(words)) = (verdict, OwnWords::read(text.trim().as_bytes())) {
            let message = (!words.message.is_empty()).then_some(words.message);
            error = error.map(|(code, said)| {
                (words.code.unwrap_or(code), result.error_message.clone().or(message).unwrap_or(said))
            });
        }
        return Ok(Some(Told::Result(Box::new(result), (verdict, error))));
    }
    let mut result = of_text(job.agreed.id, text);
    if failed {
        (result.status, result.output_data) = (JobStatus::Failure, None);
        result.error_message = Some(text.chars().take(2000).collect());
    }
    let judged = judge(&job, &result);
    Ok(Some(Told::Result(Box::new(result), judged)))
}

/// Takes in this transaction what this agent said.
pub fn said(tx: &mut dyn Tx, app: &App, agent: AgentId, told: &Told) -> Result<(), Error> {
    match told {
        Told::Result(result, judged) => {
            let job = jobs::by_id(tx, result.job_id)?.ok_or_else(views::unknown)?;
            take(tx, app, &job, result, judged)?;
        }
        Told::Offer(quote, offer) => drop(take_offer(tx, agent, *quote, offer, app.now())?),
    }
    app.market.saw(agent, app.now());
    Ok(())
}
