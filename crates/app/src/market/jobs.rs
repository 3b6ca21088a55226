//! Jobs as their participants see them, and cancellation.

use super::settle::{self, Ended};
use super::who;
use crate::delivery;
use chorus_market::escrow::Verdict;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::JobId;
use chorus_protocol::market::{Credits, JobError, JobHandout, JobResult, JobSearch, JobStatus, JobView};
use chorus_protocol::time::rfc3339;
use chorus_store::market::jobs::{self, Job, Side};
use chorus_store::market::{handing, wallets};
use chorus_store::{StoreError, Tx, conversations, directory, push};
use std::collections::HashSet;
use std::sync::Arc;

/// The error code of a cancelled job.
const CANCELLED: &str = "CANCELLED";

/// Jobs per page when their full content is included.
const MOST_HANDOUTS: i64 = 20;

/// The error for a job that does not exist or does not concern the caller.
pub fn unknown() -> Error {
    Error::new(Code::NotFound, "there is no such job, or you have nothing to do with it")
}

/// Parses a job's id.
pub fn id(text: &str) -> Result<JobId, Error> {
    JobId::parse(text).ok_or_else(unknown)
}

/// A caller's role in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The hiring agent, or its owner.
    Hirer,
    /// The hired agent, or its owner.
    Worker,
}

/// Returns the caller's role in a job. A caller that hires itself is the hirer.
pub(super) fn part(tx: &mut dyn Tx, caller: &Caller, job: &Job) -> Result<Option<Part>, StoreError> {
    if let Caller::Agent(identity) = caller {
        let (hirer, worker) = (job.agreed.orchestrator == Some(identity.id), job.agreed.agent == identity.id);
        return Ok(hirer.then_some(Part::Hirer).or(worker.then_some(Part::Worker)));
    }
    for (wallet, part) in [(job.agreed.payer, Part::Hirer), (job.agreed.payee, Part::Worker)] {
        if wallets::by_id(tx, wallet)?.is_some_and(|wallet| caller.owns(&wallet)) {
            return Ok(Some(part));
        }
    }
    Ok(None)
}

/// Renders a job. `owner` is the payer, which only the payer sees.
pub(super) fn view(job: &Job, owner: Option<&str>) -> Result<JobView, Error> {
    let agreed = &job.agreed;
    let result = job.result.as_deref().map(serde_json::from_str::<JobResult>).transpose();
    // The hub's verdict wins: output that breaks its schema is a failure, whatever the agent reported.
    let result = result.map_err(Error::internal)?.map(|result| JobResult { status: job.status, ..result });
    let pending = job.status == JobStatus::Pending;
    // Taken from the terms, not from the hold: both change in one transaction.
    let held = if pending { agreed.budget } else { Credits::ZERO };
    Ok(JobView {
        job_id: agreed.id,
        agent_id: agreed.agent,
        orchestrator_id: agreed.orchestrator,
        owner_id: owner.map(str::to_owned),
        skill_name: agreed.skill.clone(),
        status: job.status.into(),
        budget: agreed.budget,
        held,
        settled: job.paid,
        result,
        error: job.error.clone().map(|(code, message)| JobError { code, message }),
        note: job.note.clone(),
        deadline_at: rfc3339(agreed.deadline_at),
        created_at: rfc3339(agreed.created_at),
        ended_at: job.ended_at.map(rfc3339),
        trace_id: Some(agreed.trace.to_string()),
        handout: None,
    })
}

/// Returns one job for its hirer or worker.
pub async fn job(app: &App, caller: Caller, id: JobId) -> Result<JobView, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let read = move |tx: &mut dyn Tx| {
        let job = jobs::by_id(tx, id)?.ok_or_else(unknown)?;
        let part = part(tx, &caller, &job)?.ok_or_else(unknown)?;
        shown(tx, &job, part)
    };
    app.store.read::<_, Error, _>(read).await
}

fn shown(tx: &mut dyn Tx, job: &Job, part: Part) -> Result<JobView, Error> {
    let owner = match part {
        Part::Hirer => wallets::by_id(tx, job.agreed.payer)?.map(|wallet| wallet.owner),
        Part::Worker => None,
    };
    view(job, owner.as_deref())
}

/// Returns a page of the jobs in which the caller is hirer or worker, the newest first.
pub async fn list(app: &AppState, caller: Caller, asked: JobSearch) -> Result<Items<JobView>, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let before = asked.after.as_deref().map(read_cursor);
    if before == Some(None) {
        return Err(Faults::one("after", "must be the `next` of a page").into());
    }
    let (before, status) = (before.flatten(), asked.status);
    let limit = if asked.handouts { asked.limit.min(MOST_HANDOUTS) } else { asked.limit };
    let hub = Arc::clone(app);
    let read = move |tx: &mut dyn Tx| {
        let sides: Vec<_> = match &caller {
            Caller::Agent(identity) => vec![Side::Agent(identity.id)],
            other => who::own(tx, other)?.into_iter().map(|wallet| Side::Wallet(wallet.id)).collect(),
        };
        let mut found = vec![];
        for side in sides {
            found.extend(jobs::list(tx, side, status, before, limit + 1)?);
        }
        found.sort_by_key(|job| std::cmp::Reverse((job.agreed.created_at, job.agreed.id)));
        found.dedup_by_key(|job| job.agreed.id);
        found.truncate((limit + 1).max(0) as usize);
        let (mut views, mut polled) = (vec![], vec![]);
        for job in found {
            if let Some(part) = part(tx, &caller, &job)? {
                let mut view = shown(tx, &job, part)?;
                if asked.handouts {
                    view.handout = handout(tx, &hub, &caller, &job)?;
                    polled.extend(view.handout.is_some().then_some(job.agreed.event));
                }
                views.push((job.agreed.created_at, view));
            }
        }
        Ok((views, handing::unrecorded(tx, &polled)?))
    };
    let (found, polled) = app.store.read::<_, Error, _>(read).await?;
    if !polled.is_empty() {
        let now = app.now();
        let write = move |tx: &mut dyn Tx| handing::record_all(tx, &polled, now);
        app.store.write::<_, StoreError, _>(write).await?;
    }
    let cursors: std::collections::HashMap<_, _> =
        found.iter().map(|(at, view)| (view.job_id, format!("{at}_{}", view.job_id.0.simple()))).collect();
    let items = found.into_iter().map(|(_, view)| view).collect();
    Ok(chorus_node::page::page(app, items, limit, |view: &JobView| cursors[&view.job_id].clone()))
}

/// Returns an open job as its hired agent gets it. Returns `None` for other callers, because it holds the
/// agent's callback token.
fn handout(tx: &mut dyn Tx, app: &App, caller: &Caller, job: &Job) -> Result<Option<JobHandout>, Error> {
    let Caller::Agent(identity) = caller else { return Ok(None) };
    if job.status != JobStatus::Pending || job.agreed.agent != identity.id {
        return Ok(None);
    }
    let Some(event) = conversations::event_by_id(tx, job.agreed.event)? else { return Ok(None) };
    let Some(agent) = directory::by_id(tx, identity.id)? else { return Ok(None) };
    let handed = delivery::job::read(app, agent.id, agent.epoch, event.trace, &event.body);
    handed.map(Some).map_err(Error::internal)
}

/// Returns those of these jobs that concern the caller.
pub async fn some(app: &App, caller: Caller, ids: Vec<JobId>) -> Result<Vec<JobView>, Error> {
    let look = move |tx: &mut dyn Tx| {
        let mut found = vec![];
        for id in &ids {
            let Some(job) = jobs::by_id(tx, *id)? else { continue };
            if let Some(part) = part(tx, &caller, &job)? {
                found.push(shown(tx, &job, part)?);
            }
        }
        Ok(found)
    };
    app.store.read::<_, Error, _>(look).await
}

/// Returns those of these open jobs that were handed to their agents and concern the caller.
pub async fn handed(app: &App, caller: Caller, ids: Vec<JobId>) -> Result<HashSet<JobId>, Error> {
    let look = move |tx: &mut dyn Tx| {
        let mut found = HashSet::new();
        for id in &ids {
            let Some(job) = jobs::by_id(tx, *id)? else { continue };
            if part(tx, &caller, &job)?.is_some()
                && push::of_event(tx, job.agreed.event, 1)?.iter().any(|delivery| delivery.handed)
            {
                found.insert(*id);
            }
        }
        Ok(found)
    };
    app.store.read::<_, Error, _>(look).await
}

fn read_cursor(text: &str) -> Option<jobs::Cursor> {
    let (at, id) = text.split_once('_')?;
    Some((at.parse().ok()?, JobId(uuid::Uuid::try_parse(id).ok()?)))
}

/// Cancels a job and refunds its budget. Only the hirer may, and only while the job is open.
pub async fn cancel(app: &AppState, caller: Caller, id: JobId, once: Once) -> Result<Done<JobView>, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let hub = Arc::clone(app);
    let work = move |tx: &mut dyn Tx| {
        let job = jobs::by_id(tx, id)?.ok_or_else(unknown)?;
        match part(tx, &caller, &job)?.ok_or_else(unknown)? {
            Part::Hirer => {}
            Part::Worker => {
                let what = "only whoever hired takes a job back; report a FAILURE instead";
                return Err(Error::new(Code::Forbidden, what));
            }
        }
        let was_cancelled = job.error.as_ref().is_some_and(|(code, _)| code == CANCELLED);
        let why = Ended::because(CANCELLED, "whoever hired took the job back");
        if !was_cancelled && settle::settle(tx, &hub, &job, Verdict::Cancelled, &why)?.is_none() {
            return Err(Error::new(Code::Conflict, "the job has ended already"));
        }
        let job = jobs::by_id(tx, id)?.ok_or_else(unknown)?;
        shown(tx, &job, Part::Hirer)
    };
    app.once(once, |_| Ok(()), work).await
}
