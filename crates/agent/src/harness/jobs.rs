//! Jobs, processed beside conversations: the agent's program receives the input data and prints the result. A
//! request for an offer is answered with the listed price.
//!
//! The market worker (`market::worker`) executes the jobs. As many jobs run in parallel as conversations do; a
//! bounded number waits.

use super::activity::{Activity, Observer};
use super::error::HarnessError;
use super::exec::Exec;
use super::home::Home;
use crate::market::WorkQueue;
use crate::seen::{REMEMBERED, Seen};
use crate::{Client, WorkerEvent};
use chorus_protocol::api::accounts::Me;
use chorus_protocol::c2a::{Delivery, Exposure};
use chorus_protocol::market::{
    JobHandout, MakeOffer, MarketAgent, OwnerId, QuoteAsked, Registered, Registration, Skill, Text,
};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An agent's offering on the market.
#[derive(Debug, Clone, Default)]
pub struct Offering {
    /// The offered skills. Empty if the agent is not on the market.
    pub skills: Vec<Skill>,
    /// The owner whose wallet is paid. `None` keeps the previous owner, or takes the account that the agent
    /// belongs to.
    pub owner: Option<String>,
}

/// Lists the agent with its skills on the market.
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
    if let Some(owner) = owner {
        check_owner(hub, home, owner).await?;
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

/// Refuses to move a listed agent to another owner: a mistyped name would send its earnings to a new wallet.
/// An agent that is not listed yet may name any owner.
async fn check_owner(hub: &Client, home: &Home, owner: &str) -> Result<(), HarnessError> {
    let listed = match hub.api_get::<Me>(&["me"], &[]).await {
        Ok(me) => hub.market_get::<MarketAgent>(&["agents", &me.id], &[]).await,
        Err(error) => Err(error),
    };
    match listed {
        Ok(listed) if listed.owner_id != owner => Err(HarnessError::OtherOwner {
            name: home.name().to_owned(),
            listed: listed.owner_id,
            owner: owner.to_owned(),
        }),
        // Other errors are reported by the registration.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The queue for incoming jobs.
#[derive(Debug, Clone)]
pub(super) struct Jobs {
    queue: WorkQueue,
    desk: Desk,
    /// The ids of jobs that are in progress or done, to drop duplicates.
    seen: Arc<Mutex<Seen>>,
}

impl Jobs {
    /// Creates the queue and the task that serves it. Returns `None` for an agent that offers no skill.
    pub(super) fn start(
        exec: &Exec,
        offering: &Offering,
        at_once: usize,
        hub: Option<&Client>,
        observer: &Observer,
    ) -> Option<(Self, impl Future<Output = ()> + use<>)> {
        let hub = hub.filter(|_| !offering.skills.is_empty())?;
        let desk = Desk {
            hub: hub.clone(),
            exec: exec.clone(),
            observer: observer.clone(),
            skills: offering.skills.clone().into(),
            took_ms: Arc::default(),
        };
        let (queue, serve) = WorkQueue::start(at_once);
        Some((Self { queue, desk, seen: Arc::new(Mutex::new(Seen::new(REMEMBERED))) }, serve))
    }

    /// Takes a job from the data of an inbox event.
    pub(super) fn take(&self, data: &str) {
        match serde_json::from_str(data) {
            Ok(job) => self.put_job(job),
            Err(error) => self.skip(format!("a job: {error}")),
        }
    }

    /// Takes a request for an offer from the data of an inbox event.
    pub(super) fn take_quote(&self, data: &str) {
        match serde_json::from_str(data) {
            Ok(quote) => self.put(self.desk.clone().offer(quote)),
            Err(error) => self.skip(format!("a question: {error}")),
        }
    }

    /// Takes a job from a session's delivery. Returns `false` if the delivery is not a job.
    pub(super) fn take_delivery(&self, params: &Map<String, Value>) -> bool {
        let Ok(Delivery { exposure: Exposure::Shown { content, .. }, .. }) =
            Delivery::read(Value::Object(params.clone()))
        else {
            return false;
        };
        let Some(job) = content.job else { return false };
        let data = Value::Object(job);
        if data.get("quote_id").is_some() {
            self.take_quote(&data.to_string());
        } else {
            self.take(&data.to_string());
        }
        true
    }

    /// Takes the jobs that are open at the hub, such as those left by a process that died. Runs beside new
    /// jobs.
    pub(super) fn take_open(&self) {
        let jobs = self.clone();
        self.put(async move {
            match jobs.desk.hub.open_jobs().await {
                Ok(open) => open.into_iter().for_each(|job| jobs.put_job(job)),
                Err(error) => jobs.skip(format!("the question which jobs are open: {error}")),
            }
        });
    }

    fn put_job(&self, job: JobHandout) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_new(&job.job_id.to_string()) {
            self.put(self.desk.clone().work(job));
        }
    }

    fn put(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Err(why) = self.queue.put(work) {
            self.skip(format!("a job: {why}; it ends by its deadline"));
        }
    }

    fn skip(&self, what: String) {
        self.desk.observer.tell(Activity::Skipped { what });
    }
}

/// Executes jobs and makes offers.
#[derive(Debug, Clone)]
struct Desk {
    hub: Client,
    exec: Exec,
    observer: Observer,
    skills: Arc<[Skill]>,
    /// The duration of the last completed job of each skill, in milliseconds.
    took_ms: Arc<Mutex<HashMap<String, i64>>>,
}

impl Desk {
    /// Makes an offer with the listed price and the duration of the last job of this skill.
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
        self.hub.do_job(&job, || self.run(&job), |event| self.tell(&event)).await;
    }

    async fn run(&self, job: &JobHandout) -> Result<Value, String> {
        let begun = tokio::time::Instant::now();
        let output = self.exec.work(job).await?;
        // Only listed skills are stored, which bounds the map.
        if self.skills.iter().any(|skill| skill.skill_name.0 == job.skill_name) {
            self.took_ms().insert(job.skill_name.clone(), begun.elapsed().as_millis() as i64);
        }
        Ok(output)
    }

    fn tell(&self, event: &WorkerEvent<'_>) {
        self.observer.tell(match event {
            WorkerEvent::Began(job) => {
                Activity::JobBegan { job: job.job_id.to_string(), skill: job.skill_name.clone() }
            }
            WorkerEvent::Reported(taken) => Activity::JobReported {
                job: taken.job_id.to_string(),
                status: taken.status.to_string(),
                paid: taken.settled.to_string(),
            },
            WorkerEvent::Refused(job, error) => {
                Activity::Skipped { what: format!("the result of the job {job}: {error}") }
            }
            WorkerEvent::Left(job) => Activity::JobLeft { job: job.to_string() },
            // These events concern a worker that listens by itself.
            WorkerEvent::Listening
            | WorkerEvent::TooMany(_)
            | WorkerEvent::NotAsked(_)
            | WorkerEvent::Answered(_)
            | WorkerEvent::Deferred(_)
            | WorkerEvent::NotCalledBack(..) => return,
        });
    }
}
