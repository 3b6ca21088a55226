//! Jobs as those see them who have to do with them, and taking one back.

use super::settle::{self, Ended};
use super::who;
use crate::app::{App, AppState};
use crate::caller::Caller;
use crate::delivery;
use crate::error::Error;
use chorus_market::escrow::Verdict;
use chorus_protocol::api::Items;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::JobId;
use chorus_protocol::market::{Credits, JobError, JobHandout, JobResult, JobSearch, JobStatus, JobView};
use chorus_protocol::time::rfc3339;
use chorus_store::market::jobs::{self, Job, Side};
use chorus_store::market::wallets;
use chorus_store::{StoreError, Tx, conversations, directory, push};
use std::collections::HashSet;
use std::sync::Arc;

/// A job that somebody took back.
const CANCELLED: &str = "CANCELLED";

/// So many are shown at once with all that belongs to them.
const MOST_HANDOUTS: i64 = 20;

/// A job that is not there, or not the caller's: the same to both.
pub fn unknown() -> Error {
    Error::new(Code::NotFound, "there is no such job, or you have nothing to do with it")
}

/// Reads a job's id.
pub fn id(text: &str) -> Result<JobId, Error> {
    JobId::parse(text).ok_or_else(unknown)
}

/// What a caller is to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It hires, or its owner does.
    Hirer,
    /// It is hired, or its owner is.
    Worker,
}

/// What a caller is to a job, if anything. Who hires itself is the hirer.
pub(super) fn part(tx: &mut dyn Tx, caller: &Caller, job: &Job) -> Result<Option<Part>, StoreError> {
    if let Caller::Agent(identity) = caller {
        let (hirer, worker) = (job.agreed.orchestrator == Some(identity.id), job.agreed.agent == identity.id);
        return Ok(hirer.then_some(Part::Hirer).or(worker.then_some(Part::Worker)));
    }
    for (wallet, part) in [(job.agreed.payer, Part::Hirer), (job.agreed.payee, Part::Worker)] {
        if wallets::by_id(tx, wallet)?.is_some_and(|wallet| who::owns(caller, &wallet)) {
            return Ok(Some(part));
        }
    }
    Ok(None)
}

/// A job as it is shown; who pays is for the one who does.
pub(super) fn view(job: &Job, owner: Option<&str>) -> Result<JobView, Error> {
    let agreed = &job.agreed;
    let result = job.result.as_deref().map(serde_json::from_str::<JobResult>).transpose();
    // What the hub made of it: output that breaks its schema is a failure, whatever the agent said.
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

/// One job, for whoever hires or is hired.
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

/// A page of the caller's jobs, the newest first: those it asked for and those it was asked for.
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
        let mut views = vec![];
        for job in found {
            if let Some(part) = part(tx, &caller, &job)? {
                let mut view = shown(tx, &job, part)?;
                if asked.handouts {
                    view.handout = handout(tx, &hub, &caller, &job)?;
                }
                views.push((job.agreed.created_at, view));
            }
        }
        Ok(views)
    };
    let found = app.store.read::<_, Error, _>(read).await?;
    let cursors: std::collections::HashMap<_, _> =
        found.iter().map(|(at, view)| (view.job_id, format!("{at}_{}", view.job_id.0.simple()))).collect();
    let items = found.into_iter().map(|(_, view)| view).collect();
    Ok(crate::page::page(app, items, limit, |view: &JobView| cursors[&view.job_id].clone()))
}

/// An open job as the agent that was hired for it is given it; nothing for anybody else, since it holds what proves the agent.
fn handout(tx: &mut dyn Tx, app: &App, caller: &Caller, job: &Job) -> Result<Option<JobHandout>, Error> {
    let Caller::Agent(identity) = caller else { return Ok(None) };
    if job.status != JobStatus::Pending || job.agreed.agent != identity.id {
        return Ok(None);
    }
    let Some(event) = conversations::event_by_id(tx, job.agreed.event)? else { return Ok(None) };
    let Some(agent) = directory::by_id(tx, identity.id)? else { return Ok(None) };
    let handed = delivery::job::read(app, (agent.id, agent.epoch), event.trace, &event.body);
    handed.map(Some).map_err(Error::internal)
}

/// Those of these jobs that the caller has to do with.
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

/// Those of these open jobs that their agents were handed, as far as the caller has to do with them.
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

/// Takes a job back; what is held for it goes back. Only whoever hires may, and only while it is open.
pub async fn cancel(app: &AppState, caller: Caller, id: JobId) -> Result<JobView, Error> {
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
    app.store.write::<_, Error, _>(work).await
}
