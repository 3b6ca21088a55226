//! Jobs, beside conversations: what the agent was hired for is given to its program, and what that prints is the result. Asked what it
//! would do one for, it answers what it lists.
//!
//! A job that has ended at the hub, because whoever hired took it back or its time is over, ends its program here. Nothing is kept:
//! a job that dies with the process is refunded at its deadline. So many run at a time as conversations do; some more wait.

use super::activity::{Activity, Observer};
use super::error::HarnessError;
use super::exec::Exec;
use super::home::Home;
use crate::Client;
use crate::seen::{REMEMBERED, Seen};
use chorus_protocol::c2a::{Delivery, Exposure};
use chorus_protocol::ids::JobId;
use chorus_protocol::market::{
    JobHandout, JobResult, JobStatus, MakeOffer, OwnerId, QuoteAsked, Registered, Registration, Skill, Text,
};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// So many jobs wait for their turn; more are left to their deadline.
const WAITING: usize = 256;
/// How often a running job is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What an agent offers on the market.
#[derive(Debug, Clone, Default)]
pub struct Offering {
    /// Its skills; none if it offers none.
    pub skills: Vec<Skill>,
    /// Whose wallet is paid; the account's that it belongs to, or the one it had before, unless said.
    pub owner: Option<String>,
}

/// Puts the agent on the market with its skills.
pub(super) async fn offer(
    hub: &Client,
    offering: &Offering,
    home: &Home,
    observer: &Observer,
) -> Result<(), HarnessError> {
    let Offering { skills, owner } = offering;
    if skills.is_empty() {
        return Ok(());
    }
    let body = Registration {
        agent_id: None,
        agent_name: Text(home.name().to_owned()),
        owner_id: owner.clone().map(OwnerId),
        api_endpoint: None,
        skills: skills.clone(),
        version: None,
        timestamp_utc: None,
        invitation: None,
    };
    let registered: Registered = hub.market_post(&["register"], &body).await?;
    let kept_in = match &registered.owner_key {
        Some(key) => Some(home.keep_owner_key(key)?.display().to_string()),
        None => None,
    };
    let skills =
        skills.iter().map(|skill| format!("{}={}", skill.skill_name.0, skill.cost_per_call)).collect();
    observer.tell(Activity::Offering { skills, owner: registered.owner_id.unwrap_or_default(), kept_in });
    Ok(())
}

/// Where jobs are put that came.
#[derive(Debug, Clone)]
pub(super) struct Jobs {
    queue: mpsc::Sender<Asked>,
    observer: Observer,
}

/// What comes from the market.
#[derive(Debug)]
enum Asked {
    Job(JobHandout),
    /// What it would do a job for.
    Quote(QuoteAsked),
}

impl Jobs {
    /// A place for jobs, and the task that does them; nothing for an agent that offers nothing.
    pub(super) fn start(
        exec: &Exec,
        offering: &Offering,
        at_once: usize,
        hub: Option<&Client>,
        observer: &Observer,
    ) -> Option<(Self, impl Future<Output = ()> + use<>)> {
        let hub = hub.filter(|_| !offering.skills.is_empty())?;
        let (queue, jobs) = mpsc::channel(WAITING);
        let desk = Desk {
            hub: hub.clone(),
            exec: exec.clone(),
            observer: observer.clone(),
            skills: offering.skills.clone().into(),
            took_ms: Arc::default(),
        };
        Some((Self { queue, observer: observer.clone() }, desk.serve(jobs, at_once)))
    }

    /// Takes the data of an inbox's event.
    pub(super) fn take(&self, data: &str) {
        match serde_json::from_str(data) {
            Ok(job) => self.put(Asked::Job(job)),
            Err(error) => self.observer.tell(Activity::Skipped { what: format!("a job: {error}") }),
        }
    }

    /// Takes the data of a question what a job would cost.
    pub(super) fn take_quote(&self, data: &str) {
        match serde_json::from_str(data) {
            Ok(quote) => self.put(Asked::Quote(quote)),
            Err(error) => self.observer.tell(Activity::Skipped { what: format!("a question: {error}") }),
        }
    }

    /// Takes what a session brought, and says whether it was a job.
    pub(super) fn take_delivery(&self, params: &Map<String, Value>) -> bool {
        let Ok(Delivery { exposure: Exposure::Shown { content, .. }, .. }) =
            Delivery::read(Value::Object(params.clone()))
        else {
            return false;
        };
        let Some(job) = content.job else { return false };
        let is_quote = job.contains_key("quote_id");
        let asked = if is_quote {
            serde_json::from_value(Value::Object(job)).map(Asked::Quote)
        } else {
            serde_json::from_value(Value::Object(job)).map(Asked::Job)
        };
        match asked {
            Ok(asked) => self.put(asked),
            Err(error) => self.observer.tell(Activity::Skipped { what: format!("a job: {error}") }),
        }
        true
    }

    fn put(&self, asked: Asked) {
        if let Err(error) = self.queue.try_send(asked) {
            let why = match error {
                mpsc::error::TrySendError::Full(_) => "too many wait",
                mpsc::error::TrySendError::Closed(_) => "the agent ends",
            };
            let what = format!("a job: {why}; it ends by its deadline");
            self.observer.tell(Activity::Skipped { what });
        }
    }
}

/// Who does jobs.
#[derive(Clone)]
struct Desk {
    hub: Client,
    exec: Exec,
    observer: Observer,
    skills: Arc<[Skill]>,
    /// How long the last job of each skill took that was done.
    took_ms: Arc<Mutex<HashMap<String, i64>>>,
}

impl Desk {
    async fn serve(self, mut jobs: mpsc::Receiver<Asked>, at_once: usize) {
        let (mut running, mut seen) = (JoinSet::new(), Seen::new(REMEMBERED));
        loop {
            tokio::select! {
                Some(_) = running.join_next() => {}
                job = jobs.recv(), if running.len() < at_once => match job {
                    // Whatever comes again is being done, or was.
                    Some(Asked::Job(job)) if seen.is_new(&job.job_id.to_string()) => {
                        running.spawn(self.clone().work(job));
                    }
                    Some(Asked::Job(_)) => {}
                    Some(Asked::Quote(quote)) => drop(running.spawn(self.clone().offer(quote))),
                    None => return,
                },
            }
        }
    }

    /// Answers with the listed price, and with how long the last job of this skill took.
    async fn offer(self, quote: QuoteAsked) {
        let Some(skill) = self.skills.iter().find(|skill| skill.skill_name.0 == quote.skill_name) else {
            return;
        };
        let expected_ms = self.took_ms().get(&quote.skill_name).copied();
        let offer = MakeOffer { price: Some(skill.cost_per_call), expected_ms };
        let told = match self.hub.make_offer(quote.quote_id, &offer).await {
            Ok(_) => Activity::OfferMade { skill: quote.skill_name, price: skill.cost_per_call.to_string() },
            Err(error) => Activity::Skipped { what: format!("a question for an offer: {error}") },
        };
        self.observer.tell(told);
    }

    fn took_ms(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.took_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work(self, job: JobHandout) {
        let (id, begun) = (job.job_id, tokio::time::Instant::now());
        self.observer.tell(Activity::JobBegan { job: id.to_string(), skill: job.skill_name.clone() });
        let done = tokio::select! {
            done = self.exec.work(&job) => done,
            // Dropped, its program is killed with everything it started.
            () = self.has_ended(id) => {
                return self.observer.tell(Activity::JobLeft { job: id.to_string() });
            }
        };
        // Of what it offers, so that there are no more than it has.
        if done.is_ok() && self.skills.iter().any(|skill| skill.skill_name.0 == job.skill_name) {
            self.took_ms().insert(job.skill_name.clone(), begun.elapsed().as_millis() as i64);
        }
        let result = result(&job, done);
        let told = match self.hub.report_result(&result).await {
            Ok(taken) => Activity::JobReported {
                job: id.to_string(),
                status: taken.status.to_string(),
                paid: taken.settled.to_string(),
            },
            Err(error) => Activity::Skipped { what: format!("the result of the job {id}: {error}") },
        };
        self.observer.tell(told);
    }

    /// Returns when the job has ended at the hub.
    async fn has_ended(&self, id: JobId) {
        loop {
            tokio::time::sleep(LOOK).await;
            // A hub that is away now will be there later.
            if let Ok(job) = self.hub.job(id).await
                && job.status.known() != Some(JobStatus::Pending)
            {
                return;
            }
        }
    }
}

/// What is reported of a job.
pub(crate) fn result(job: &JobHandout, done: Result<Value, String>) -> JobResult {
    let (status, output_data, error_message) = match done {
        Ok(output) => (JobStatus::Success, Some(output), None),
        Err(why) => (JobStatus::Failure, None, Some(why.chars().take(2000).collect())),
    };
    JobResult {
        job_id: job.job_id,
        agent_id: job.agent_id,
        status,
        output_data,
        execution_cost: None,
        execution_time_ms: None,
        error_message,
        timestamp_utc: None,
    }
}
