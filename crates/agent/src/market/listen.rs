//! Takes jobs at the agent's own address, as section 3.3 of the market's document specifies: from a hub that
//! knows the address, or straight from a hiring agent.
//!
//! The result is the response if it exists within a few seconds. Otherwise the response is `PENDING`, and the
//! result is POSTed to the job's `callback_url` later. A repeated request gets the same answer. Everything is
//! bounded: connections, bodies, queues, parallel jobs, remembered results, and every step in time. Callback
//! URLs are chosen by strangers, so they are called as [`Reach`] allows, and separately from the work: a
//! callback that hangs delays no job.
//!
//! A direct job is done before it is paid, and may never be paid. Therefore these jobs have a queue of their
//! own, so that strangers cannot delay jobs for which the hub holds money.

use super::book::{Book, Standing};
use super::queue::WorkQueue;
use super::worker::{JobWorker, WorkerEvent, result};
use crate::receive::{Limits, Refusal, Server, challenge, json_answer, read_body};
use crate::{BindError, Callback, ClientError, Network, Reach, WebhookSecret};
use bytes::Bytes;
use chorus_protocol::ids::{AgentId, JobId};
use chorus_protocol::market::{CURRENCY, Credits, JobHandout, JobResult, JobStatus, Skill, Timestamp};
use chorus_protocol::relay::MAX_BODY;
use chorus_protocol::time::rfc3339;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use url::Url;

/// The time for which a request waits for the result. A hub waits 30 s for the whole request.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time limit for the headers of a request, and for its body.
const STEP: Duration = Duration::from_secs(10);
/// The number of callbacks called in parallel.
const CALLBACKS: usize = 16;

/// The settings for taking jobs at the agent's own address.
#[derive(Debug, Clone)]
pub struct JobListen {
    pub agent: AgentId,
    /// The offered skills. Other jobs are refused.
    pub skills: Vec<Skill>,
    /// The secret by which requests must be signed. `None` accepts requests from everyone.
    pub secret: Option<WebhookSecret>,
    /// The networks that requests may come from; empty allows all. Behind a proxy this is the proxy's address.
    pub sources: Vec<Network>,
    /// The outbound policy for callbacks.
    pub reach: Reach,
}

/// A server for jobs. Dropping it stops it; [`JobServer::close`] sends the last answers first.
pub struct JobServer {
    server: Server,
    shared: Arc<Shared>,
    /// The tasks for direct jobs and callbacks.
    _beside: JoinSet<()>,
}

impl JobServer {
    /// Returns the URL for jobs, as seen from this machine.
    pub fn url(&self) -> String {
        format!("http://{}/jobs", self.address())
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Takes the jobs that are open at the hub, such as those left by a process that died. Their results are
    /// sent to their callbacks.
    pub async fn take_open_jobs(&self) -> Result<(), ClientError> {
        let shared = &self.shared;
        for job in shared.worker.hub.open_jobs().await? {
            let id = job.job_id;
            let Standing::New(tell, _) = shared.book().begin(&job) else { continue };
            shared.book().put_off(id);
            if shared.worker.queue.put(work(Arc::clone(shared), job, tell)).is_err() {
                shared.book().forget(id);
                (shared.worker.tell)(WorkerEvent::TooMany(id));
            }
        }
        Ok(())
    }

    /// Stops taking jobs and waits for a short while until the last answers are sent.
    pub async fn close(self) {
        self.server.close().await;
    }
}

impl JobWorker {
    /// Takes jobs at `address`, such as `127.0.0.1:8790`. Port 0 picks a free port.
    pub async fn listen(&self, address: &str, options: JobListen) -> Result<JobServer, BindError> {
        let limits = Limits { head: STEP, body: STEP, answer: PATIENCE };
        let (callbacks, call) = WorkQueue::start(CALLBACKS);
        let (direct, serve) = WorkQueue::start(self.at_once);
        let (worker, book) = (self.clone(), Mutex::default());
        let shared = Arc::new(Shared { worker, options, book, direct, callbacks });
        let asked = Arc::clone(&shared);
        let answer = move |from, request| {
            let shared = Arc::clone(&asked);
            async move { take(&shared, from, request).await.unwrap_or_else(Refusal::answer) }
        };
        let server = Server::bind(address, limits, answer).await?;
        let mut beside = JoinSet::new();
        beside.spawn(call);
        beside.spawn(serve);
        Ok(JobServer { server, shared, _beside: beside })
    }
}

/// The state shared by all requests.
struct Shared {
    worker: JobWorker,
    options: JobListen,
    book: Mutex<Book>,
    /// The queue for direct jobs. Jobs of the hub use the worker's queue.
    direct: WorkQueue,
    callbacks: WorkQueue,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn price(&self, skill: &str) -> Option<Credits> {
        let offered = self.options.skills.iter().find(|offered| offered.skill_name.0 == skill);
        offered.map(|offered| offered.cost_per_call)
    }
}

/// A job request: the members of the document, most of them optional, and those that a hub adds.
#[derive(Deserialize)]
struct Asked {
    job_id: JobId,
    orchestrator_id: Option<AgentId>,
    skill_name: String,
    #[serde(default)]
    input_data: Value,
    budget: Credits,
    currency: Option<String>,
    callback_url: Option<String>,
    #[serde(default)]
    timestamp_utc: String,
    agent_id: Option<AgentId>,
    deadline_at: Option<String>,
    trace_id: Option<String>,
}

impl Asked {
    fn handout(self) -> JobHandout {
        JobHandout {
            job_id: self.job_id,
            // A requester without an id is identified by its job.
            orchestrator_id: self.orchestrator_id.unwrap_or(AgentId(self.job_id.0)),
            skill_name: self.skill_name,
            input_data: self.input_data,
            budget: self.budget,
            currency: CURRENCY.to_owned(),
            callback_url: self.callback_url.unwrap_or_default(),
            timestamp_utc: self.timestamp_utc,
            agent_id: self.agent_id,
            deadline_at: self.deadline_at,
            trace_id: self.trace_id,
        }
    }
}

async fn take(
    shared: &Arc<Shared>,
    from: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let (head, body) = request.into_parts();
    // The body is read first, so that no sender is cut off while it writes.
    let body = read_body(body, MAX_BODY, STEP).await;
    admit(&shared.options, from, &head)?;
    let body = body.map_err(|fault| Refusal::new(fault.status(), "VALIDATION", fault))?;
    if let Some(secret) = &shared.options.secret {
        let verified = secret.verify(&head.headers, &body, shared.worker.hub.environment().now());
        verified.map_err(|fault| Refusal::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", fault))?;
    }
    if let Some(challenge) = challenge(&body) {
        return Ok(json_answer(StatusCode::OK, None, &challenge));
    }
    if !head.uri.path().ends_with("/jobs") {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", "jobs are POSTed to the path /jobs"));
    }
    let job = read(shared, &body)?;
    let id = job.job_id;
    let standing = shared.book().begin(&job);
    let (mut outcome, callback) = match standing {
        Standing::New(tell, outcome) => {
            let callback = job.callback_url.clone();
            let queue = if is_brokered(&job) { &shared.worker.queue } else { &shared.direct };
            if queue.put(work(Arc::clone(shared), job, tell)).is_err() {
                shared.book().forget(id);
                return Err(Refusal::busy("OVERLOADED", "too many jobs wait for this agent; try again"));
            }
            (outcome, callback)
        }
        Standing::Known(outcome) => (outcome, job.callback_url),
        Standing::Other => {
            let what = "job_id: this id was used for another job; take a new one";
            return Err(Refusal::new(StatusCode::CONFLICT, "CONFLICT", what));
        }
    };
    let there = match timeout(PATIENCE, outcome.wait_for(Option::is_some)).await {
        Ok(Ok(result)) => result.clone(),
        Ok(Err(_)) => {
            shared.book().forget(id);
            return Err(Refusal::busy("AGENT_OFFLINE", "the agent ends, and left the job; try again"));
        }
        Err(_) => shared.book().put_off(id),
    };
    if let Some(result) = there {
        return Ok(json_bytes(result));
    }
    (shared.worker.tell)(WorkerEvent::Deferred(id));
    Ok(json_answer(StatusCode::ACCEPTED, None, &pending(shared, id, &callback).await))
}

/// Checks that a request comes from an allowed network and from a program.
fn admit(options: &JobListen, from: IpAddr, head: &Parts) -> Result<(), Refusal> {
    let forbidden = |what| Err(Refusal::new(StatusCode::FORBIDDEN, "FORBIDDEN", what));
    if !Network::admit(&options.sources, from) {
        return forbidden("requests from this address are not taken");
    }
    if head.method != Method::POST {
        let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "NOT_FOUND", "jobs come by POST");
        return Err(refusal.with(ALLOW, "POST"));
    }
    if head.headers.contains_key(ORIGIN) {
        // Programs do not send this header, but browsers always do. No web page may have an agent work for a
        // person who views it.
        return forbidden("jobs do not come from web pages");
    }
    Ok(())
}

/// Reads a job and checks that this agent offers it.
fn read(shared: &Shared, body: &[u8]) -> Result<JobHandout, Refusal> {
    let invalid = |what: String| Refusal::new(StatusCode::BAD_REQUEST, "VALIDATION", what);
    let asked: Asked = serde_json::from_slice(body).map_err(|error| invalid(format!("no job: {error}")))?;
    if asked.currency.as_deref().is_some_and(|currency| currency != CURRENCY) {
        return Err(invalid(format!("currency: must be {CURRENCY}")));
    }
    if asked.agent_id.is_some_and(|named| named != shared.options.agent) {
        return Err(invalid("agent_id: this is another agent".into()));
    }
    let unfit = |code, what: String| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, code, what);
    let price = shared.price(&asked.skill_name).ok_or_else(|| {
        unfit("SKILL_MISMATCH", "skill_name: this agent does not have the requested skill".into())
    })?;
    let job = asked.handout();
    // The price of a hub's job was agreed there.
    if !is_brokered(&job) && job.budget < price {
        let what = format!("budget: {} is below this agent's cost of {price}", job.budget);
        return Err(unfit("BUDGET_INSUFFICIENT", what));
    }
    Ok(job)
}

/// Checks whether a job claims to come from a hub: only a hub sets a deadline. The claim is verified before
/// the job is done.
fn is_brokered(job: &JobHandout) -> bool {
    job.deadline_at.is_some()
}

/// Does a job, stores its result, and calls back if the result was deferred.
async fn work(shared: Arc<Shared>, job: JobHandout, tell: watch::Sender<Option<Bytes>>) {
    let (worker, begun) = (&shared.worker, Instant::now());
    let run = || {
        (worker.tell)(WorkerEvent::Began(&job));
        (worker.work)(job.clone())
    };
    let brokered = is_brokered(&job);
    let done = if brokered {
        match worker.hub.job(job.job_id).await {
            Err(ClientError::Refused { status: 403 | 404, .. }) => {
                Some(Err("deadline_at: the hub knows no such job".into()))
            }
            Ok(_) | Err(_) => worker.hub.unless_ended(job.job_id, run).await,
        }
    } else {
        Some(run().await)
    };
    let ended = done.is_none();
    let mut result = result(&job, done.unwrap_or_else(|| Err("the job has ended".into())));
    result.agent_id = Some(shared.options.agent);
    result.execution_time_ms = i64::try_from(begun.elapsed().as_millis()).ok();
    result.timestamp_utc = Some(Timestamp(rfc3339(worker.hub.environment().now())));
    if !brokered && result.status == JobStatus::Success {
        result.execution_cost = shared.price(&job.skill_name);
    }
    let body = Bytes::from(serde_json::to_vec(&result).unwrap_or_default());
    let put_off = shared.book().finish(job.job_id, &tell, body.clone());
    (worker.tell)(if ended { WorkerEvent::Left(job.job_id) } else { WorkerEvent::Answered(&result) });
    if put_off && !ended && !job.callback_url.is_empty() {
        let call = call_back(Arc::clone(&shared), job.job_id, job.callback_url, body);
        if let Err(why) = shared.callbacks.put(call) {
            (worker.tell)(WorkerEvent::NotCalledBack(job.job_id, &why.to_string()));
        }
    }
}

async fn call_back(shared: Arc<Shared>, id: JobId, url: String, body: Bytes) {
    let called = match Callback::open(&url, &shared.options.reach) {
        Ok(callback) => callback.deliver(&id.to_string(), body).await,
        Err(error) => Err(error),
    };
    if let Err(error) = called {
        (shared.worker.tell)(WorkerEvent::NotCalledBack(id, &error.to_string()));
    }
}

/// Builds the `PENDING` response. It says so if the callback cannot be called and the requester must ask
/// again.
async fn pending(shared: &Shared, id: JobId, callback: &str) -> JobResult {
    let not_called = match Url::parse(callback) {
        // A requester without a callback asks again anyway.
        Err(_) if callback.is_empty() => None,
        Ok(url) => shared.options.reach.check(&url).await.err().map(|blocked| blocked.to_string()),
        Err(_) => Some("it is no URL".into()),
    };
    JobResult {
        job_id: id,
        agent_id: Some(shared.options.agent),
        status: JobStatus::Pending,
        output_data: None,
        execution_cost: None,
        execution_time_ms: None,
        error_message: not_called
            .map(|why| format!("callback_url is not called: {why}; ask again with the same job")),
        timestamp_utc: None,
    }
}

/// Builds a response from serialized JSON.
fn json_bytes(body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
