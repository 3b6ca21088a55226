//! Accepts the result of a job from its agent: by key or by callback address, as the response to the POST or
//! later. A job ends once. A late result changes nothing, and a repeated one is accepted again.

use super::asking::{offer_of_text, take_offer};
use super::data_checks::check_output;
use super::decline_verdict;
use super::jobs::{self as views, Part};
use super::own_words::{MAX_WORDS, OwnWords};
use super::settle::{self, Ended};
use super::who;
use crate::delivery::job_result::of_body;
use chorus_market::escrow::{Settlement, Verdict};
use chorus_node::Error;
use chorus_node::caller::{Caller, disabled};
use chorus_node::{App, AppState};
use chorus_protocol::channel::CallbackEvent;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, DeliveryId, EventId, JobId, QuoteId};
use chorus_protocol::json;
use chorus_protocol::market::{
    JobResult, JobStatus, JobView, MakeOffer, ResultTaken, Timestamp, UncountedReason,
};
use chorus_protocol::schema::read_exact;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::EventKind;
use chorus_store::market::jobs::{self, Job};
use chorus_store::push::Due;
use chorus_store::{StoreError, Tx, conversations, deliveries, directory};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the response to a job's POST that are read as its result.
pub const MAX_ANSWER: usize = 256 * 1024;

/// Returns the agent, with its key epoch, that this callback token lets report a job's result.
pub fn agent_of(app: &App, job: JobId, token: &str) -> Option<(AgentId, i64)> {
    app.config.master_key.read_job_token(job, token)
}

/// The error for an unknown callback address.
pub fn no_address() -> Error {
    Error::new(
        Code::NotFound,
        "there is no such address; post to the `callback_url` that came with the job, as it is",
    )
}

/// The reporter of a result.
#[derive(Debug, Clone)]
pub enum Worker {
    /// A caller with the agent's key or its owner's.
    Known(Caller),
    /// The agent, by the callback token that came with the job in this epoch of its keys.
    Given(AgentId, i64),
}

impl Worker {
    /// Checks that this reporter may report the result of a job.
    fn may(&self, tx: &mut dyn Tx, job: &Job) -> Result<(), Error> {
        match self {
            Self::Known(caller) => match views::part(tx, caller, job)? {
                Some(Part::Worker) => Ok(()),
                // A caller that hires itself is both hirer and worker.
                Some(Part::Hirer) if job.agreed.payer == job.agreed.payee => Ok(()),
                Some(Part::Hirer) => {
                    Err(Error::new(Code::Forbidden, "only the agent that is hired reports the result"))
                }
                None => Err(views::unknown()),
            },
            Self::Given(agent, _) if job.agreed.agent != *agent => Err(views::unknown()),
            Self::Given(agent, epoch) => {
                match directory::by_id(tx, *agent)? {
                    Some(known) if known.epoch != *epoch => {
                        let what =
                            "this address ended with the key that the agent had; report with its new one";
                        Err(Error::new(Code::Gone, what))
                    }
                    Some(known) if known.disabled_at.is_some() => Err(disabled("agent")),
                    // The open jobs of an agent that has left may still be reported.
                    Some(_) | None => Ok(()),
                }
            }
        }
    }

    /// Returns the job, if this reporter may report its result.
    fn find(&self, tx: &mut dyn Tx, id: JobId) -> Result<Job, Error> {
        let job = jobs::by_id(tx, id)?.ok_or_else(views::unknown)?;
        self.may(tx, &job)?;
        Ok(job)
    }

    fn is_known(&self) -> Result<(), Error> {
        if matches!(self, Self::Known(caller) if !caller.is_known()) { Err(who::no_key()) } else { Ok(()) }
    }
}

/// Returns the job to a reporter that may report its result.
pub async fn look(app: &App, worker: Worker, id: JobId) -> Result<JobView, Error> {
    worker.is_known()?;
    let find = move |tx: &mut dyn Tx| worker.find(tx, id);
    views::view(&app.store.read::<_, Error, _>(find).await?, None)
}

/// Accepts a result. It is judged before anything is written, because a schema check is slow and a job's
/// output schema never changes.
pub async fn report(
    app: &AppState,
    worker: Worker,
    id: JobId,
    result: JobResult,
) -> Result<ResultTaken, Error> {
    worker.is_known()?;
    // A person who reports for the agent is no sign of life of its program.
    let by_person = matches!(worker, Worker::Known(Caller::Account(_)));
    let (hub, find) = (Arc::clone(app), move |tx: &mut dyn Tx| worker.find(tx, id));
    let job = app.store.read::<_, Error, _>(find).await?;
    let judged = judge(app, &job, &result).await?;
    if !by_person {
        app.caches.market.saw(job.agreed.agent, app.now());
    }
    // The job need not be read again: its terms never change except for the deadline after an outage, and a
    // job that ended meanwhile does not end twice.
    let event = job.agreed.event;
    let work = move |tx: &mut dyn Tx| take(tx, &hub, &job, &result, &judged, None);
    excuse_if_full(app, event, app.store.write::<_, Error, _>(work).await).await
}

/// Passes on the outcome. A job whose result could not be stored is excused from counting.
async fn excuse_if_full<T>(app: &App, event: EventId, taken: Result<T, Error>) -> Result<T, Error> {
    if let Err(error) = &taken
        && error.code == Code::QuotaExceeded
    {
        let note = format!("a result was refused: {}", error.message);
        let excuse = move |tx: &mut dyn Tx| jobs::excuse(tx, event, UncountedReason::AtLimit, &note);
        app.store.write::<_, StoreError, _>(excuse).await?;
    }
    taken
}

/// A verdict, with the code and message of the error if the job failed.
type Judged = (Verdict, Option<(String, String)>);

/// Stores a result in this transaction. The agent had the job by `handed_at`, or by now.
fn take(
    tx: &mut dyn Tx,
    app: &App,
    job: &Job,
    result: &JobResult,
    judged: &Judged,
    handed_at: Option<i64>,
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
    let handed_at = handed_at.or(Some(now));
    let (verdict, error) = match judged {
        (Verdict::Declined, Some((code, message))) => {
            let code = (code != JobStatus::Rejected.as_str()).then_some(code.as_str());
            let (verdict, error) = decline_verdict::judge(tx, job, handed_at, code, message.clone(), now)?;
            (verdict, Some(error))
        }
        judged => judged.clone(),
    };
    let ended = Ended { result: Some(filled), error, handed_at };
    if let Some(Settlement { status, paid, .. }) = settle::settle(tx, app, job, verdict, &ended)? {
        return Ok(ResultTaken { job_id: agreed.id, status: status.into(), settled: paid });
    }
    // The same result may have arrived in the meantime.
    again(&jobs::by_id(tx, agreed.id)?.ok_or_else(views::unknown)?)
}

fn late() -> Error {
    Error::new(Code::Conflict, "the job has ended: this result comes too late, and nothing was moved")
}

async fn judge(app: &App, job: &Job, result: &JobResult) -> Result<Judged, Error> {
    let failed = |message: String| Some((Code::ExecutionError.as_str().to_owned(), message));
    let said = |otherwise: &str| result.error_message.clone().unwrap_or_else(|| otherwise.to_owned());
    match result.status {
        JobStatus::Failure => return Ok((Verdict::Failed, failed(said("the agent reported a failure")))),
        JobStatus::Rejected => {
            let error = (JobStatus::Rejected.as_str().to_owned(), said("the agent declined the job"));
            return Ok((Verdict::Declined, Some(error)));
        }
        JobStatus::Success | JobStatus::Pending => {}
    }
    let output = result.output_data.as_ref().unwrap_or(&Value::Null);
    Ok(match check_output(app, job, output).await? {
        Ok(()) => (Verdict::Done(result.execution_cost), None),
        Err(faults) => {
            (Verdict::BrokenOutput, failed(format!("the output is not what the skill declares: {faults}")))
        }
    })
}

/// Judges a result that came as the answer to the hub's POST. The agent cannot send it again, so this waits for a turn until the
/// deadline.
async fn judge_answer(app: &App, job: &Job, result: &JobResult) -> Result<Judged, Error> {
    loop {
        match judge(app, job, result).await {
            Err(Error { retry_after_ms: Some(pause), .. }) if app.now() < job.agreed.deadline_at => {
                tokio::time::sleep(Duration::from_millis(pause.unsigned_abs())).await;
            }
            judged => return judged,
        }
    }
}

/// Puts the agent's own code and message into the error of a job that it did not do.
fn in_own_words((verdict, error): Judged, result: &JobResult, said: &[u8]) -> Judged {
    let is_undone = matches!(verdict, Verdict::Failed | Verdict::Declined);
    let Some(words) = OwnWords::read(said).filter(|_| is_undone) else { return (verdict, error) };
    let message = (!words.message.is_empty()).then_some(words.message);
    let error = error.map(|(code, otherwise)| {
        (words.code.unwrap_or(code), result.error_message.clone().or(message).unwrap_or(otherwise))
    });
    (verdict, error)
}

/// Returns the result with the fields that the hub fills in.
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

/// Returns whether a job ended with this very result.
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

/// Parses the reply of an agent that speaks the Channel Protocol only: an object or a text.
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

/// Parses a reply in the form of the job document: an object with this job's id and one of its statuses. Any
/// other reply is output and returns `None`. Faults in such an object are reported.
fn of_document(job: JobId, text: &str) -> Result<Option<JobResult>, Faults> {
    let Ok(said) = json::parse(text.trim().as_bytes()) else { return Ok(None) };
    let word = |name: &str| said.get(name).and_then(Value::as_str);
    let is_result = word("job_id").and_then(JobId::parse) == Some(job)
        && word("status").and_then(JobStatus::parse).is_some();
    if is_result { read_exact(text.trim().as_bytes()).map(Some) } else { Ok(None) }
}

/// Handles an agent's response to the POST of a job that was sent at `at`. The response is `None` if it was
/// too long to read. A result ends the job. Any other response only shows that the agent took the job, and the
/// job records why it was no result. For a refusal, returns the agent's own words.
pub async fn handle_post_response(
    app: &AppState,
    due: &Due,
    at: i64,
    status: u16,
    answer: Option<&[u8]>,
) -> Option<OwnWords> {
    // An agent that answers is alive. A 5xx may come from a proxy before a dead server.
    if status < 500 {
        app.caches.market.saw(due.id.agent, app.now());
    }
    if !(200..300).contains(&status) {
        return answer.and_then(OwnWords::read);
    }
    let read = match answer {
        Some([]) => return None,
        Some(answer) => {
            read_exact(answer).map(|result| (result, answer.to_vec())).map_err(|faults| faults.to_string())
        }
        None => Err(format!("it is longer than {MAX_ANSWER} bytes")),
    };
    if status == 202 && read.is_err() {
        // The agent took the job and will report later.
        return None;
    }
    if let Err(error) = take_answer(app, due, at, read).await {
        tracing::info!(error = error.message, "an answer to a job was not taken as its result");
    }
    None
}

async fn take_answer(
    app: &AppState,
    due: &Due,
    at: i64,
    read: Result<(JobResult, Vec<u8>), String>,
) -> Result<(), Error> {
    let (hub, asked) = (Arc::clone(app), due.clone());
    let find = move |tx: &mut dyn Tx| of_event(tx, &asked);
    let Some(job) = app.store.read::<_, Error, _>(find).await? else { return Ok(()) };
    let id = job.agreed.id;
    let read = match read {
        Ok((result, answer)) => {
            let judged = judge_answer(app, &job, &result).await?;
            Ok((in_own_words(judged, &result, &answer), result))
        }
        Err(why) => Err(why),
    };
    let work = move |tx: &mut dyn Tx| {
        let Some(job) = jobs::by_id(tx, id)? else { return Ok(()) };
        let why = match &read {
            Ok((judged, result)) => match take(tx, &hub, &job, result, judged, Some(at)) {
                Err(error) if error.code == Code::Validation => error.message,
                taken => return taken.map(drop),
            },
            Err(why) => why.clone(),
        };
        let why: String = why.chars().take(MAX_WORDS).collect();
        Ok(jobs::note(tx, id, &format!("what the agent answered is no result of this job: {why}"))?)
    };
    excuse_if_full(app, due.event, app.store.write::<_, Error, _>(work).await).await
}

/// Returns the job that this delivery carries.
pub(super) fn of_event(tx: &mut dyn Tx, due: &Due) -> Result<Option<Job>, Error> {
    let event = conversations::event_by_id(tx, due.event)?;
    Ok(event.map_or(Ok(None), |event| of_body(tx, &event.body))?)
}

/// The content of a delivery: a job, or a question for a quote.
pub(super) enum Assignment {
    Job(Box<Job>),
    Question(QuoteId),
}

pub(super) fn assignment(tx: &mut dyn Tx, body: &str) -> Result<Option<Assignment>, Error> {
    /// The part of a question that identifies it.
    #[derive(serde::Deserialize)]
    struct Asked {
        quote_id: Option<QuoteId>,
    }
    let asked: Asked = serde_json::from_str(body).map_err(Error::internal)?;
    match asked.quote_id {
        Some(quote) => Ok(Some(Assignment::Question(quote))),
        None => Ok(of_body(tx, body)?.map(|job| Assignment::Job(Box::new(job)))),
    }
}

/// A callback's report: the judged result of a job, or an offer for a quote.
pub enum WorkerReport {
    Result(Box<JobResult>, Judged),
    Offer(QuoteId, MakeOffer),
}

/// Parses and judges an agent's callback about its assignment. For a job, a text is the result and an error is
/// a failure. For a question, a text is the price and an error is a refusal. The judgement is made here,
/// before anything is written.
pub async fn parse_report(
    app: &AppState,
    delivery: DeliveryId,
    event: &CallbackEvent,
) -> Result<Option<WorkerReport>, Error> {
    let (failed, text) = match event {
        CallbackEvent::Message { content } => (false, content),
        CallbackEvent::Error { message, .. } => (true, message),
        // Progress events carry no result.
        _ => return Ok(None),
    };
    told_about(app, move |tx| deliveries::event_of(tx, delivery), failed, text).await
}

/// Does the same for an agent that replies to the event itself.
pub async fn answered_by_text(
    app: &AppState,
    event: EventId,
    text: &str,
) -> Result<Option<WorkerReport>, Error> {
    told_about(app, move |_| Ok(Some(event)), false, text).await
}

async fn told_about(
    app: &AppState,
    event: impl Fn(&mut dyn Tx) -> Result<Option<EventId>, StoreError> + Send + 'static,
    failed: bool,
    text: &str,
) -> Result<Option<WorkerReport>, Error> {
    let find = move |tx: &mut dyn Tx| {
        let Some(event) = event(tx)? else { return Ok(None) };
        let event = conversations::event_by_id(tx, event)?.filter(|event| event.kind == EventKind::Job);
        event.map_or(Ok(None), |event| assignment(tx, &event.body))
    };
    let job = match app.store.read::<_, Error, _>(find).await? {
        Some(Assignment::Job(job)) => job,
        Some(Assignment::Question(quote)) => {
            let declined = MakeOffer { price: None, expected_ms: None };
            let offer = if failed { Some(declined) } else { offer_of_text(text) };
            let what =
                "must be {\"price\": …}, or a price alone: an amount of credits with at most two decimals";
            let offer = offer.ok_or_else(|| Faults::one("content", what))?;
            return Ok(Some(WorkerReport::Offer(quote, offer)));
        }
        None => return Ok(None),
    };
    if let Some(result) = of_document(job.agreed.id, text)?.filter(|_| !failed) {
        let judged = in_own_words(judge(app, &job, &result).await?, &result, text.trim().as_bytes());
        return Ok(Some(WorkerReport::Result(Box::new(result), judged)));
    }
    let mut result = of_text(job.agreed.id, text);
    if failed {
        (result.status, result.output_data) = (JobStatus::Failure, None);
        result.error_message = Some(text.chars().take(2000).collect());
    }
    let judged = judge(app, &job, &result).await?;
    Ok(Some(WorkerReport::Result(Box::new(result), judged)))
}

/// Stores an agent's report in this transaction.
pub fn apply_report(tx: &mut dyn Tx, app: &App, agent: AgentId, told: &WorkerReport) -> Result<(), Error> {
    match told {
        WorkerReport::Result(result, judged) => {
            let job = jobs::by_id(tx, result.job_id)?.ok_or_else(views::unknown)?;
            take(tx, app, &job, result, judged, None)?;
        }
        WorkerReport::Offer(quote, offer) => drop(take_offer(tx, agent, *quote, offer, app.now())?),
    }
    app.caches.market.saw(agent, app.now());
    Ok(())
}
