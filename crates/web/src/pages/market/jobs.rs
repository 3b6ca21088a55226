//! One's jobs: those one hired for and those one's agents were hired for; each with its steps and its money.

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
use chorus_app::market::{jobs, money};
use chorus_app::{AppState, Error, agents};
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::{JobSearch, JobStatus, JobView, LedgerSearch};
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::Word;
use serde::Deserialize;

/// As many as a column of the board shows, and as one page does.
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
    /// Who is hired.
    pub(crate) worker: String,
    pub(crate) face: Face,
    /// Whether the reader hired, and did not only earn.
    pub(crate) hired: bool,
    /// What is left of its time, in milliseconds and in words.
    pub(crate) left_ms: i64,
    pub(crate) left: String,
    pub(crate) ended: String,
    /// Whether its agent was handed it, of an open one.
    pub(crate) at_work: bool,
}

impl Row {
    pub(crate) fn is_open(&self) -> bool {
        status(&self.job) == Some(JobStatus::Pending)
    }

    pub(crate) fn is_paid(&self) -> bool {
        status(&self.job) == Some(JobStatus::Success)
    }

    /// What its end is called.
    pub(crate) fn end(&self) -> &'static str {
        match (status(&self.job), self.job.error.as_ref().map(|error| error.code.as_str())) {
            (Some(JobStatus::Pending), _) => "open",
            (Some(JobStatus::Success), _) => "paid",
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

/// A page of jobs, with the names of those who are hired.
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

/// The open ones, for the market's first page.
pub(super) async fn open(app: &AppState, visitor: &SignedIn) -> Result<Vec<Row>, Error> {
    Ok(find(app, visitor, Some(JobStatus::Pending), None, COLUMN).await?.0)
}

#[derive(Template)]
#[template(path = "market_jobs.html")]
struct BoardPage {
    shell: Shell,
    columns: Vec<Column>,
    /// One column alone, with its next page.
    alone: bool,
    next: Option<String>,
}

struct Column {
    title: &'static str,
    look: &'static str,
    rows: Vec<Row>,
    /// Where there is more of it, and what that is called.
    more: Vec<(&'static str, &'static str)>,
    none: &'static str,
}

/// What a list of one kind alone is called.
const ALONE: [(JobStatus, &str, &str); 3] = [
    (JobStatus::Pending, "Open and at work", "work"),
    (JobStatus::Success, "Paid", "good"),
    (JobStatus::Failure, "Came to nothing", "bad"),
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

/// What waits for its agent, what is at work, and what has ended.
async fn columns(app: &AppState, visitor: &SignedIn) -> Result<Vec<Column>, Error> {
    let (pending, more) = find(app, visitor, Some(JobStatus::Pending), None, 2 * COLUMN).await?;
    let (at_work, open) = pending.into_iter().partition(|row: &Row| row.at_work);
    let all_open = more.map(|_| ("/jobs?status=PENDING", "More")).into_iter().collect::<Vec<_>>();
    let (mut ended, mut more) = (vec![], vec![]);
    let ends = [
        (JobStatus::Success, "/jobs?status=SUCCESS", "All paid"),
        (JobStatus::Failure, "/jobs?status=FAILURE", "All that came to nothing"),
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
    /// What it did to what is thought of the agent.
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
        // The agent left the market.
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

/// How long a job took: often less than a second.
fn took(ms: i64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { span(ms) }
}

async fn cancel(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let job = jobs::cancel(&app, visitor.caller, jobs::id(&id)?).await?;
    Ok(Redirect::to(&format!("/jobs/{}", job.job_id)).into_response())
}
