//! Adding, changing and removing an offer of one's own agent. An agent's offers are registered together, so
//! the others are sent again unchanged; of two simultaneous forms the later one wins.

use crate::extract::Path;
use crate::form::{Form, exact_body};
use crate::page::{Fault, fault_page, sentence};
use crate::shell::{Here, Shell};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use chorus_app::agents;
use chorus_app::market::{self, register};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::api::agents::AgentView;
use chorus_protocol::code::Code;
use chorus_protocol::market::{Credits, MarketAgent, Registration, Skill};
use serde_json::{Value, json};

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/directory/{id}/skills", post(offer))
        .route("/directory/{id}/skills/remove", post(remove))
}

/// The values of the form.
#[derive(Default)]
pub(crate) struct SkillForm {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) cost: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) seconds: String,
}

#[derive(Template)]
#[template(path = "market_offer.html")]
struct OfferPage {
    shell: Shell,
    agent: AgentView,
    typed: SkillForm,
    fault: String,
}

/// Returns an agent of the visitor and its current listing.
async fn find(
    app: &AppState,
    visitor: &SignedIn,
    id: &str,
) -> Result<(AgentView, Option<MarketAgent>), Error> {
    let agent = agents::agent(app, visitor.caller.clone(), id).await?;
    if agent.owner != Some(visitor.person.id) {
        return Err(Error::new(Code::Forbidden, "only its owner says what an agent offers"));
    }
    match market::agents::agent(app, agent.agent_id).await {
        Ok(listed) => Ok((agent, Some(listed))),
        Err(error) if error.code == Code::NotFound => Ok((agent, None)),
        Err(error) => Err(error),
    }
}

/// Saves the agent's registration with these skills.
async fn save(
    app: &AppState,
    visitor: SignedIn,
    agent: &AgentView,
    listed: Option<&MarketAgent>,
    skills: &[Value],
) -> Result<(), Error> {
    let mut body = json!({
        "agent_id": agent.agent_id,
        "agent_name": listed.map_or(&agent.name, |listed| &listed.agent_name),
        "skills": skills,
    });
    if let Some(endpoint) = listed.and_then(|listed| listed.api_endpoint.as_ref()) {
        body["api_endpoint"] = json!(endpoint);
    }
    let body: Registration = exact_body(&body)?;
    register::register(app, visitor.caller, visitor.context, body, Once::NO_KEY).await.map(drop)
}

/// Returns all skills except `but`.
fn others(listed: Option<&MarketAgent>, but: &str) -> Vec<Value> {
    let skills = listed.map_or(&[] as &[Skill], |listed| &listed.skills);
    skills.iter().filter(|skill| skill.skill_name.0 != but).map(|skill| json!(skill)).collect()
}

impl SkillForm {
    fn of(form: &Form) -> Self {
        Self {
            name: form.text("skill_name"),
            description: form.text("description"),
            cost: form.text("cost"),
            input: form.text("input_schema"),
            output: form.text("output_schema"),
            seconds: form.text("min_seconds"),
        }
    }

    fn read(&self) -> Result<Value, String> {
        let cost = Credits::parse(&self.cost).map_err(|wrong| format!("price: {wrong}"))?;
        let mut skill = json!({"skill_name": self.name, "cost_per_call": cost});
        if !self.description.is_empty() {
            skill["description"] = json!(self.description);
        }
        for (field, label, text) in
            [("input_schema", "wants", &self.input), ("output_schema", "gives", &self.output)]
        {
            if !text.is_empty() {
                let wrong = |_| format!("{label}: must be a JSON object, such as {{\"text\": \"string\"}}");
                skill[field] = serde_json::from_str(text).map_err(wrong)?;
            }
        }
        if !self.seconds.is_empty() {
            let seconds = self.seconds.parse::<u32>().map_err(|_| "needs: must be whole seconds")?;
            skill["min_deadline_ms"] = json!(u64::from(seconds) * 1000);
        }
        Ok(skill)
    }
}

async fn offer(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let (agent, listed) = find(&app, &visitor, &id).await?;
    let shell = Shell::of(&app, &visitor.person, Here::Agents).await?;
    let typed = SkillForm::of(&form);
    let (status, fault) = match typed.read() {
        Err(fault) => (StatusCode::BAD_REQUEST, fault),
        Ok(skill) => {
            let mut skills = others(listed.as_ref(), &typed.name);
            skills.push(skill);
            match save(&app, visitor, &agent, listed.as_ref(), &skills).await {
                Ok(()) => return Ok(Redirect::to(&format!("/directory/{id}")).into_response()),
                Err(error) if error.code.status() >= 500 => return Err(error.into()),
                Err(error) => {
                    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
                    (status, error.message)
                }
            }
        }
    };
    fault_page(status, &OfferPage { shell, agent, typed, fault: sentence(&fault) })
}

async fn remove(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let (agent, listed) = find(&app, &visitor, &id).await?;
    let skills = others(listed.as_ref(), &form.text("skill_name"));
    save(&app, visitor, &agent, listed.as_ref(), &skills).await?;
    Ok(Redirect::to(&format!("/directory/{id}")).into_response())
}
