//! Pages of agents: creating one, its keys and connection strings, and the public card of any agent.

mod settings;

use super::account::Secret;
use super::market::{SkillForm, Standing, owner_called};
use crate::extract::Path;
use crate::face::{Face, State as Is};
use crate::form::{Form, body};
use crate::page::{Fault, page, query};
use crate::shell::{Here, Shell};
use crate::times::{Moment, since};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::{accounts, agents, market};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::api::accounts::KeyReset;
use chorus_protocol::api::agents::{AgentProof, AgentView, NewAgent, NewConnection, NewHarness};
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::{Presence, Skill};
use chorus_protocol::words::{ConnectionState, Word};
use serde_json::{Value, json};

/// The most reputation steps on the page.
const STEPS: i64 = 8;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/directory/new", get(form).post(make))
        .route("/directory/claim", post(claim))
        .route("/directory/{id}", get(show))
        .route("/directory/{id}/key", post(reset_key))
        .route("/directory/{id}/connection", post(connect))
        .route("/directory/{id}/connection/remove", post(disconnect))
        .route("/directory/{id}/harness", post(set_harness))
        .route("/directory/{id}/harness/remove", post(remove_harness))
        .route("/directory/{id}/connection-string", post(rotate))
        .route("/directory/{id}/webhook-secret", post(rotate_webhook_secret))
        .merge(settings::routes())
}

#[derive(Template)]
#[template(path = "agent_new.html")]
struct NewPage {
    shell: Shell,
}

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage {
    shell: Shell,
    agent: AgentView,
    face: Face,
    seen: String,
    /// The fields of the agent's card.
    says: Vec<(String, String)>,
    mine: bool,
    broken: bool,
    connected: bool,
    /// The last delivery error of the agent's harness and its time, shown to the owner.
    trouble: Option<(String, Moment)>,
    url: String,
    /// The agent's market listing, if it has one.
    market: Option<Offers>,
    /// The form for another offer.
    typed: SkillForm,
}

/// An agent's market listing.
struct Offers {
    /// The name of the wallet owner.
    owner: String,
    skills: Vec<Offer>,
    standing: Standing,
    registered: Moment,
    online: bool,
}

struct Offer {
    skill: Skill,
    wants: String,
    gives: String,
    hire: String,
}

impl Offers {
    async fn find(app: &AppState, visitor: &SignedIn, id: AgentId) -> Result<Option<Self>, Error> {
        let agent = match market::agents::agent(app, id).await {
            Ok(agent) => agent,
            Err(error) if error.code == Code::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let offer = |skill: &Skill| Offer {
            wants: skill.input_schema.as_ref().map(Value::to_string).unwrap_or_default(),
            gives: skill.output_schema.as_ref().map(Value::to_string).unwrap_or_default(),
            hire: format!("/directory/{id}/hire{}", query(&[("skill", &skill.skill_name.0)])),
            skill: skill.clone(),
        };
        Ok(Some(Self {
            skills: agent.skills.iter().map(offer).collect(),
            standing: Standing::of(app, id, STEPS).await?,
            registered: Moment::new(&agent.registered_at),
            owner: owner_called(app, visitor, &agent.owner_id).await?,
            online: agent.status == Word::Known(Presence::Online),
        }))
    }
}

async fn form(State(app): State<AppState>, visitor: SignedIn) -> Result<Response, Fault> {
    page(&NewPage { shell: Shell::of(&app, &visitor.person, Here::Agents).await? })
}

async fn make(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let SignedIn { person, context, .. } = visitor;
    let new: NewAgent = form.body(&["name", "description", "connection_string", "endpoint"])?;
    let made = agents::make(&app, &person, context, new, Once::NO_KEY).await?.result;
    let url = &app.config.public_url;
    let name = made.address.split('@').next().unwrap_or_default();
    page(&Secret {
        shell: Shell::of(&app, &person, Here::Agents).await?,
        title: format!("{} is here", made.address),
        lead: "Its key is shown this once. Whoever has it speaks as the agent.".into(),
        secrets: vec![
            (
                "Run a program of yours as it",
                format!(
                    "CHORUS_URL={url} CHORUS_KEY={} \\\n  chorus agent --name {name} --exec ./my-agent",
                    made.api_key
                ),
            ),
            ("Its connection string, for other services", made.connection_string),
            ("With which requests to it are signed", made.webhook_secret),
        ],
        back: format!("/directory/{}", made.agent_id),
    })
}

async fn claim(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let proof: AgentProof = body(json!({"api_key": form.text("api_key")}))?;
    let claimed = agents::claim(&app, visitor.person, visitor.context, proof, Once::NO_KEY).await?.result;
    Ok(Redirect::to(&format!("/directory/{}", claimed.agent_id)).into_response())
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let agent = agents::agent(&app, visitor.caller.clone(), &id).await?;
    let mine = agent.owner == Some(visitor.person.id);
    let trouble = if mine { agents::harness_trouble(&app, visitor.caller.clone(), &id).await? } else { None };
    let state = if agent.online { Is::Idle } else { Is::Offline };
    let connection = agent.connection.as_ref().map(|connection| connection.state);
    page(&AgentPage {
        shell: Shell::of(&app, &visitor.person, Here::Agents).await?,
        face: Face::agent(&agent.agent_id.to_string()).state(state),
        seen: agent.last_seen.as_deref().map(|seen| since(app.now(), seen)).unwrap_or_default(),
        says: agent
            .description
            .iter()
            .map(|description| ("description".to_owned(), description.clone()))
            .chain(says(agent.card.as_ref()).into_iter().filter(|(name, _)| name != "description"))
            .collect(),
        mine,
        trouble: trouble.map(|(why, at)| (why, Moment::new(&at))),
        broken: connection == Some(ConnectionState::Broken),
        connected: connection.is_some_and(|state| state != ConnectionState::None),
        url: app.config.public_url.clone(),
        market: Offers::find(&app, &visitor, agent.agent_id).await?,
        typed: SkillForm::default(),
        agent,
    })
}

/// Returns the fields of a card as text.
fn says(card: Option<&Value>) -> Vec<(String, String)> {
    let fields = card.and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    fields.map(|(name, value)| (name.clone(), text(value))).collect()
}

async fn reset_key(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let SignedIn { person, caller, context } = visitor;
    let made =
        accounts::reset_key(&app, context, caller, &id, KeyReset::default(), Once::NO_KEY).await?.result;
    page(&Secret {
        shell: Shell::of(&app, &person, Here::Agents).await?,
        title: format!("A new key for {}", made.address),
        lead: "The old one is over at once. This one is shown this once.".into(),
        secrets: vec![("Its key", made.api_key)],
        back: format!("/directory/{id}"),
    })
}

/// Saves the connection string that the owner pasted.
async fn connect(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let new: NewConnection = form.body(&["connection_string"])?;
    agents::connect(&app, visitor.caller, visitor.context, &id, new).await?;
    Ok(Redirect::to(&format!("/directory/{id}")).into_response())
}

async fn disconnect(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    agents::disconnect(&app, visitor.caller, visitor.context, &id).await?;
    Ok(Redirect::to(&format!("/directory/{id}")).into_response())
}

/// Sets the URL of the agent's C2A harness, after the hub has reached it there.
async fn set_harness(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let new: NewHarness = form.body(&["endpoint"])?;
    agents::set_harness(&app, visitor.caller, visitor.context, &id, new).await?;
    Ok(Redirect::to(&format!("/directory/{id}")).into_response())
}

async fn remove_harness(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    agents::remove_harness(&app, visitor.caller, visitor.context, &id).await?;
    Ok(Redirect::to(&format!("/directory/{id}")).into_response())
}

/// Creates a new connection string for other services.
async fn rotate(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let SignedIn { person, caller, context } = visitor;
    let made = agents::rotate(&app, caller, context, &id, Once::NO_KEY).await?.result;
    page(&Secret {
        shell: Shell::of(&app, &person, Here::Agents).await?,
        title: "A new connection string".into(),
        lead: "The old one stopped at once. Whoever has this one can post to the agent.".into(),
        secrets: vec![("For other services", made.connection_string)],
        back: format!("/directory/{id}"),
    })
}

async fn rotate_webhook_secret(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let SignedIn { person, caller, context } = visitor;
    let made = accounts::rotate_webhook_secret(&app, context, caller, &id, Once::NO_KEY).await?.result;
    page(&Secret {
        shell: Shell::of(&app, &person, Here::Agents).await?,
        title: "A new secret for webhooks".into(),
        lead: "Requests to the agent are signed with it; for a while with the old one as well.".into(),
        secrets: vec![("The secret", made.webhook_secret)],
        back: format!("/directory/{id}"),
    })
}
