//! A person's jobs, as client and as worker, each with its steps and payments.

use super::chart::{FEW, Standing, StepRow};
use super::ledger::{MovementRow, movements};
use crate::extract::{Path, Query};
use crate::face::Face;
use crate::page::{Fault, page, query};
use crate::shell::{Here, Shell};
use crate::times::{Moment, span};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::agents;
use chorus_app::market::{jobs, money};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::{JobSearch, JobStatus, JobView, LedgerSearch};
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::Word;
use serde::Deserialize;

/// The most jobs in a column of the board, and on a page.
const COLUMN: i64 = 8;
const LIMIT: i64 = 50;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/jobs", get(board))
        .route("/jobs/{id}", get(show))
        .route("/jobs/{id}/cancel", post(cancel))
}

/// A job on the board.
pub(crate) struct Row {
    pub(crate) job: JobView,
    /// The name of the hired agent.
    pub(crate) worker: String,
    pub(crate) face: Face,
    /// True if the visitor is the client, and not only the worker's owner.
    pub(crate) hired: bool,
    /// The remaining time, in milliseconds and in words.
    pub(crate) left_ms: i64,
    pub(crate) left: String,
    pub(crate) ended: String,
    /// True if an open job was assigned to its agent.
    pub(crate) at_work: bool,
}

impl Row {
    pub(crate) fn is_open(&self) -> bool {
        status(&self.job) == Some(JobStatus::Pending)
    }

    pub(crate) fn is_paid(&self) -> bool {
        status(&self.job) == Some(JobStatus::Success)
    }

    /// Returns the name of the job's final state.
    pub(crate) fn end(&self) -> &'static str {
        match (status(&self.job), self.job.error.as_ref().map(|error| error.code.as_str())) {
            (Some(JobStatus::Pending), _) => "open",
            (Some(JobStatus::Success), _) => "paid",
            (Some(JobStatus::Rejected), _) => "declined",
            (_, Some("CANCELLED")) => "taken back",
            _ => "failed",
        }
    }
}

fn status(job: &JobView) -> Option<JobStatus> {
    match job.status {
        Word::Known(status) => Some(status),
        Word::Unknown(_) => None,
    }
}

/// Loads a page of jobs with the names of the hired agents.
async fn find(
    app: &AppState,
    visitor: &SignedIn,
    status: Option<JobStatus>,
    after: Option<String>,
    limit: i64,
) -> Result<(Vec<Row>, Option<String>), Error> {
    let asked = JobSearch { status, after, limit, handouts: false };
    let found = jobs::list(app, visitor.caller.clone(), asked).await?;
    Ok((rows(app, visitor, found.items).await?, found.next))
}

async fn rows(app: &AppState, visitor: &SignedIn, all: Vec<JobView>) -> Result<Vec<Row>, Error> {
    let ids: std::collections::BTreeSet<AgentId> = all.iter().map(|job| job.agent_id).collect();
    let agents = agents::some(app, &visitor.caller, ids.into_iter().collect()).await?;
    let open = all.iter().filter(|job| status(job) == Some(JobStatus::Pending)).map(|job| job.job_id);
    let handed = jobs::handed(app, visitor.caller.clone(), open.collect()).await?;
    let row = |job: JobView| {
        let agent = agents.iter().find(|agent| agent.agent_id == job.agent_id);
        let now = app.now();
        let left_ms = parse_rfc3339(&job.deadline_at).map_or(0, |at| (at - now).max(0));
        Row {
            worker: agent.map_or_else(|| "an agent that left".to_owned(), |agent| agent.name.clone()),
            face: Face::agent(&job.agent_id.to_string()).small(),
            hired: job.owner_id.is_some(),
            left: span(left_ms),
            left_ms,
            at_work: handed.contains(&job.job_id),
            ended: job.ended_at.as_deref().map(|at| crate::times::since(now, at)).unwrap_or_default(),
            job,
        }
    };
    Ok(all.into_iter().map(row).collect())
}

/// Returns the open jobs, for the market's first page.
pub(super) async fn open(app: &AppState, visitor: &SignedIn) -> Result<Vec<Row>, Error> {
    Ok(find(app, visitor, Some(JobStatus::Pending), None, COLUMN).await?.0)
}

#[derive(Template)]
#[template(path = "market_jobs.html")]
struct BoardPage {
    shell: Shell,
    columns: Vec<Column>,
    /// True if the page shows one column alone, with pagination.
    alone: bool,
    next: Option<String>,
}

struct Column {
    title: &'static str,
    look: &'static str,
    rows: Vec<Row>,
    /// Links to the full lists, with their labels.
    more: Vec<(&'static str, &'static str)>,
    none: &'static str,
}

/// The status, title and CSS class of each list that can be shown alone.
const ALONE: [(JobStatus, &str, &str); 4] = [
    (JobStatus::Pending, "Open and at work", "work"),
    (JobStatus::Success, "Paid", "good"),
    (JobStatus::Failure, "Came to nothing", "bad"),
    (JobStatus::Rejected, "Declined", "bad"),
];

#[derive(Deserialize)]
struct Asked {
    status: Option<String>,
    after: Option<String>,
}

async fn board(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    let alone = ALONE.iter().find(|(status, ..)| asked.status.as_deref() == Some(status.as_str()));
    let (columns, next) = match alone {
        Some(&(status, title, look)) => {
            let (rows, next) = find(&app, &visitor, Some(status), asked.after, LIMIT).await?;
            let next = next.map(|next| query(&[("status", status.as_str()), ("after", &next)]));
            (vec![Column { title, look, rows, more: vec![], none: "None." }], next)
        }
        None => (columns(&app, &visitor).await?, None),
    };
    page(&BoardPage {
        shell: Shell::of(&app, &visitor.person, Here::Market).await?,
        columns,
        alone: alone.is_some(),
        next,
    })
}

/// Loads the three columns: waiting, in progress, ended.
async fn columns(app: &AppState, visitor: &SignedIn) -> Result<Vec<Column>, Error> {
    let (pending, more) = find(app, visitor, Some(JobStatus::Pending), None, 2 * COLUMN).await?;
    let (at_work, open) = pending.into_iter().partition(|row: &Row| row.at_work);
    let all_open = more.map(|_| ("/jobs?status=PENDING", "More")).into_iter().collect::<Vec<_>>();
    let (mut ended, mut more) = (vec![], vec![]);
    let ends = [
        (JobStatus::Success, "/jobs?status=SUCCESS", "All paid"),
        (JobStatus::Failure, "/jobs?status=FAILURE", "All that came to nothing"),
        (JobStatus::Rejected, "/jobs?status=REJECTED", "All declined"),
    ];
    for (status, link, words) in ends {
        let (rows, _) = find(app, visitor, Some(status), None, COLUMN).await?;
        more.extend((!rows.is_empty()).then_some((link, words)));
        ended.extend(rows);
    }
    ended.sort_by(|one, other| other.job.ended_at.cmp(&one.job.ended_at));
    ended.truncate(COLUMN as usize);
    let column = |title, look, rows, more, none| Column { title, look, rows, more, none };
    Ok(vec![
        column("Open", "work", open, all_open.clone(), "Nothing waits for its agent."),
        column(
            "At work",
            "work",
            at_work,
            all_open,
            "No agent is at work for you, or for others on your account.",
        ),
        column("Ended", "good", ended, more, "Nothing has ended yet."),
    ])
}

#[derive(Template)]
#[template(path = "market_job.html")]
struct JobPage {
    shell: Shell,
    row: Row,
    face: Face,
    created: Moment,
    deadline: Moment,
    ended: Option<Moment>,
    took: String,
    output: Option<String>,
    movements: Vec<MovementRow>,
    /// The job's effect on the agent's reputation.
    step: Option<StepRow>,
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let id = jobs::id(&id)?;
    let job = jobs::job(&app, visitor.caller.clone(), id).await?;
    let search = LedgerSearch { owner: None, job: Some(id), since: None, after: None, limit: LIMIT };
    let moved = money::ledger(&app, visitor.caller.clone(), search).await?.items;
    let standing = match Standing::of(&app, job.agent_id, FEW).await {
        Ok(standing) => Some(standing),
        // The agent has left the market.
        Err(error) if error.code == Code::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let step = standing.and_then(|standing| standing.steps.into_iter().find(|row| row.step.job_id == id));
    let result = job.result.as_ref();
    let output = result.and_then(|result| result.output_data.as_ref());
    let output = output.map(serde_json::to_string_pretty).transpose().map_err(Error::internal)?;
    let took = result.and_then(|result| result.execution_time_ms).map(took).unwrap_or_default();
    let row = rows(&app, &visitor, vec![job]).await?.pop();
    let row = row.ok_or_else(|| Error::internal("one job is one row"))?;
    page(&JobPage {
        shell: Shell::of(&app, &visitor.person, Here::Market).await?,
        face: Face::agent(&row.job.agent_id.to_string()),
        created: Moment::new(&row.job.created_at),
        deadline: Moment::new(&row.job.deadline_at),
        ended: row.job.ended_at.as_deref().map(Moment::new),
        took,
        output,
        movements: movements(&app, &visitor, moved, None).await?,
        step,
        row,
    })
}

/// Formats the duration of a job, which is often below a second.
fn took(ms: i64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { span(ms) }
}

async fn cancel(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let job = jobs::cancel(&app, visitor.caller, jobs::id(&id)?, Once::NO_KEY).await?.result;
    Ok(Redirect::to(&format!("/jobs/{}", job.job_id)).into_response())
}
