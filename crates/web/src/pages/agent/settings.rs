//! Settings of one's own agent: directory entry, endpoint, pausing and deletion.

use crate::extract::{Path, Query};
use crate::form::{Form, body};
use crate::page::{Fault, Saved, fault_page, page, refused};
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::{agents, relay};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::api::agents::{AgentChange, AgentView, NewAllowance};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::market::Credits;
use serde_json::{Map, Value};

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/directory/{id}/settings", get(show).post(change))
        .route("/directory/{id}/settings/{act}", post(act))
}

#[derive(Template)]
#[template(path = "agent_settings.html")]
struct SettingsPage {
    shell: Shell,
    agent: AgentView,
    /// The time since which it is paused.
    paused: Option<Moment>,
    description: String,
    card: String,
    endpoint: String,
    /// The daily credit limit, as typed.
    credits: String,
    card_bytes: u64,
    saved: bool,
    fault: String,
}

async fn prepare(app: &AppState, visitor: &SignedIn, id: &str) -> Result<SettingsPage, Error> {
    let agent = agents::agent(app, visitor.caller.clone(), id).await?;
    if agent.owner != Some(visitor.person.id) {
        return Err(Error::new(Code::Forbidden, "this is for the agent's owner"));
    }
    let card = agent.card.as_ref().map(serde_json::to_string_pretty).transpose().map_err(Error::internal)?;
    Ok(SettingsPage {
        shell: Shell::of(app, &visitor.person, Here::Agents).await?,
        paused: agent.paused_since.as_deref().map(Moment::new),
        description: agent.description.clone().unwrap_or_default(),
        card: card.unwrap_or_default(),
        endpoint: String::new(),
        credits: agent.allowance.as_ref().map(|it| it.credits_per_day.to_string()).unwrap_or_default(),
        card_bytes: app.config.quotas.card_bytes,
        saved: false,
        fault: String::new(),
        agent,
    })
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    Query(saved): Query<Saved>,
) -> Result<Response, Fault> {
    let shown = prepare(&app, &visitor, &id).await?;
    page(&SettingsPage { saved: saved.is_told(), ..shown })
}

/// Returns to the settings: saved, or with the input and the error.
async fn answer(
    app: &AppState,
    visitor: &SignedIn,
    id: &str,
    done: Result<(), Error>,
    form: &Form,
) -> Result<Response, Fault> {
    let Err(error) = done else {
        return Ok(Redirect::to(&format!("/directory/{id}/settings?told=saved")).into_response());
    };
    let (status, fault) = refused(error)?;
    let mut shown = prepare(app, visitor, id).await?;
    let SettingsPage { description, card, endpoint, credits, .. } = &mut shown;
    let fields =
        [("description", description), ("card", card), ("endpoint", endpoint), ("credits_per_day", credits)];
    for (name, field) in fields {
        *field = form.given(name).unwrap_or_else(|| std::mem::take(field));
    }
    fault_page(status, &SettingsPage { fault, ..shown })
}

async fn change(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let (caller, context) = (visitor.caller.clone(), visitor.context.clone());
    let done = match read(&form) {
        Ok(new) => agents::change(&app, caller, context, &id, new, Once::NO_KEY).await.map(drop),
        Err(error) => Err(error),
    };
    answer(&app, &visitor, &id, done, &form).await
}

/// Reads the fields that the form has. A description can be removed; a card and an endpoint can only be
/// replaced.
fn read(form: &Form) -> Result<AgentChange, Error> {
    let mut said = Map::new();
    if let Some(text) = form.given("description") {
        said.insert("description".to_owned(), text.into());
    }
    if let Some(text) = form.some("card") {
        let wrong = |error| Faults::one("card", format_args!("must be a JSON object: {error}"));
        let card: Value = serde_json::from_str(&text).map_err(wrong)?;
        said.insert("card".to_owned(), card);
    }
    if let Some(url) = form.some("endpoint") {
        said.insert("endpoint".to_owned(), url.into());
    }
    body(said.into())
}

async fn act(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, act)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Fault> {
    let (caller, context) = (visitor.caller.clone(), visitor.context.clone());
    let done = match &*act {
        "pause" | "resume" => {
            let new = AgentChange { paused: Some(act == "pause"), ..AgentChange::default() };
            agents::change(&app, caller, context, &id, new, Once::NO_KEY).await.map(drop)
        }
        "allowance" => match Credits::parse(&form.text("credits_per_day")) {
            Ok(credits_per_day) => {
                let new = NewAllowance { credits_per_day };
                agents::set_allowance(&app, caller, context, &id, new, Once::NO_KEY).await.map(drop)
            }
            Err(wrong) => Err(Faults::one("credits_per_day", wrong).into()),
        },
        "unhook" => agents::remove_endpoint(&app, caller, context, &id).await.map(drop),
        "remove" => {
            let agent = prepare(&app, &visitor, &id).await?.agent;
            if form.text("confirm") == agent.name {
                relay::unregister(&app, caller, context, agent.agent_id.to_string()).await?;
                return Ok(Redirect::to("/account").into_response());
            }
            Err(Faults::one(
                "confirm",
                "must be the name of the agent, so that nothing is removed by accident",
            )
            .into())
        }
        _ => return Err(Error::not_found("page").into()),
    };
    answer(&app, &visitor, &id, done, &form).await
}
