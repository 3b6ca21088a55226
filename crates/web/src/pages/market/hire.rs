//! Hiring an agent by a form. The form carries the job's id, so that sending it twice creates one job.

use super::chart::{self, Standing};
use super::input::{self, Field};
use crate::extract::{Path, Query};
use crate::face::{Face, State as Is};
use crate::form::{Form, exact_body};
use crate::page::{Fault, fault_page, page, sentence};
use crate::shell::{Here, Shell};
use crate::times::since;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use chorus_app::market::{agents, hire, money};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::code::Code;
use chorus_protocol::market::{
    Credits, JobRequest, MarketAgent, Presence, Skill, USUAL_DEADLINE_MS, WalletView,
};
use chorus_protocol::words::Word;
use serde::Deserialize;
use serde_json::json;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/directory/{id}/hire", get(form).post(send))
        .route("/directory/{id}/reputation", get(reputation))
}

#[derive(Template)]
#[template(path = "market_hire.html")]
struct HirePage {
    shell: Shell,
    agent: MarketAgent,
    face: Face,
    online: bool,
    seen: String,
    skill: Skill,
    job: String,
    fields: Vec<Field>,
    budget: String,
    minutes: String,
    wallet: Option<WalletView>,
    fault: String,
}

#[derive(Deserialize)]
struct Asked {
    skill: Option<String>,
}

async fn form(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    page(&prepare(&app, &visitor, &id, asked.skill.as_deref()).await?)
}

/// Prepares an empty form with a new job id.
async fn prepare(
    app: &AppState,
    visitor: &SignedIn,
    id: &str,
    skill: Option<&str>,
) -> Result<HirePage, Error> {
    let agent = agents::agent(app, agents::id(id)?).await?;
    let offered = agent.skills.iter().find(|one| skill.is_none_or(|skill| one.skill_name.0 == skill));
    let offered = offered.cloned().ok_or_else(|| {
        Error::new(Code::NotFound, "this agent does not offer that, or not any more: look at its page")
    })?;
    let usual = offered.min_deadline_ms.unwrap_or_default().max(USUAL_DEADLINE_MS);
    let online = agent.status == Word::Known(Presence::Online);
    // The paying wallet is the account's own, even if the account owns others.
    let own = visitor.person.id.to_string();
    let wallets = money::wallets(app, visitor.caller.clone()).await?;
    Ok(HirePage {
        shell: Shell::of(app, &visitor.person, Here::Market).await?,
        face: Face::agent(&agent.agent_id.to_string()).state(if online { Is::Idle } else { Is::Offline }),
        online,
        seen: agent.last_seen.as_deref().map(|seen| since(app.now(), seen)).unwrap_or_default(),
        job: app.environment.uuid_v4().to_string(),
        fields: input::fields(offered.input_schema.as_ref()),
        budget: offered.cost_per_call.to_string(),
        minutes: (usual as u64).div_ceil(60_000).to_string(),
        wallet: wallets.into_iter().find(|wallet| wallet.owner == own),
        fault: String::new(),
        skill: offered,
        agent,
    })
}

async fn send(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let mut shown = prepare(&app, &visitor, &id, Some(&form.text("skill"))).await?;
    shown.budget = form.text("budget");
    shown.minutes = form.text("minutes");
    let (status, fault) = match read(&mut shown, &form) {
        Err(fault) => (StatusCode::BAD_REQUEST, fault),
        Ok(request) => {
            match hire::hire(&app, visitor.caller.clone(), visitor.context.source(), request, Once::NO_KEY)
                .await
            {
                Ok(done) => return Ok(Redirect::to(&format!("/jobs/{}", done.result.job_id)).into_response()),
                Err(error) if error.code.status() >= 500 && error.code != Code::AgentOffline => {
                    return Err(error.into());
                }
                Err(error) => {
                    // The job was not created, so its id may be used again, unless it belongs to another job.
                    if error.code != Code::Conflict {
                        shown.job = form.text("job_id");
                    }
                    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
                    (status, error.message)
                }
            }
        }
    };
    shown.fault = sentence(&fault);
    fault_page(status, &shown)
}

/// Builds the API request from the form.
fn read(shown: &mut HirePage, form: &Form) -> Result<JobRequest, String> {
    let input = input::read(&mut shown.fields, form)?;
    let budget = Credits::parse(&shown.budget).map_err(|wrong| format!("budget: {wrong}"))?;
    let minutes: i64 = shown.minutes.parse().map_err(|_| "minutes: must be a whole number")?;
    let body: Result<JobRequest, Error> = exact_body(&json!({
        "job_id": form.text("job_id"),
        "agent_id": shown.agent.agent_id,
        "skill_name": shown.skill.skill_name,
        "input_data": input,
        "budget": budget,
        "deadline_ms": minutes.saturating_mul(60_000),
    }));
    body.map_err(|error| error.message)
}

#[derive(Template)]
#[template(path = "market_reputation.html")]
struct ReputationPage {
    shell: Shell,
    agent: MarketAgent,
    face: Face,
    standing: Standing,
    next: Option<String>,
}

#[derive(Deserialize)]
struct After {
    after: Option<String>,
}

/// Shows every step of an agent's reputation with its calculation.
async fn reputation(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    Query(After { after }): Query<After>,
) -> Result<Response, Fault> {
    let agent = agents::agent(&app, agents::id(&id)?).await?;
    let standing = Standing::after(&app, agent.agent_id, after, chart::PAGE).await?;
    page(&ReputationPage {
        shell: Shell::of(&app, &visitor.person, Here::Market).await?,
        face: Face::agent(&agent.agent_id.to_string()),
        next: standing.next.as_deref().map(|next| crate::page::query(&[("after", next)])),
        standing,
        agent,
    })
}
