//! The open items of one bundle, with a form to answer them.

use super::desk::Desk;
use crate::assets;
use crate::extract::Path;
use crate::form::Form;
use crate::page::{Fault, page};
use crate::shell::Shell;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chorus_app::choir::{answers, ingest, scores};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::choir::evidence::{Bundle, Event, EventType};
use chorus_protocol::choir::receipt::VerificationStatus;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(crate) fn routes(path: &str) -> Router<AppState> {
    Router::new().route(&format!("{path}/evidence/{{evidence}}/answers"), get(show).post(answer))
}

/// An event with open questions.
struct Question {
    index: usize,
    kind: String,
    voice: String,
    what: String,
    asks_reach: bool,
    asks_fate: bool,
    asks_voice: bool,
    asks_scenario: bool,
}

/// Returns the questions that a bundle leaves open, in the order of its events.
fn questions(bundle: &Bundle) -> Vec<Question> {
    let question = |(index, event): (usize, &Event)| {
        let is_signal = matches!(event.event_type, EventType::Warning | EventType::Dissent);
        let question = Question {
            index,
            kind: event.event_type.as_str().replace('_', " "),
            voice: event.voice_name.clone().unwrap_or_default(),
            what: event.action.clone().or_else(|| event.detail.clone()).unwrap_or_default(),
            asks_reach: is_signal && event.reached_output.is_none(),
            asks_fate: event.event_type == EventType::Dissent && event.disposition.is_none(),
            asks_voice: event.voice_name.is_none(),
            asks_scenario: event.scenario_id.is_none() && bundle.scenario_id.is_none(),
        };
        let is_open =
            question.asks_reach || question.asks_fate || question.asks_voice || question.asks_scenario;
        is_open.then_some(question)
    };
    bundle.events.iter().enumerate().filter_map(question).collect()
}

#[derive(Template)]
#[template(path = "score_answers.html")]
struct AnswersPage {
    shell: Shell,
    style: &'static str,
    base: String,
    evidence: String,
    title: String,
    version: i64,
    archived: bool,
    is_signed: bool,
    questions: Vec<Question>,
    voices: Vec<String>,
    scenarios: Vec<String>,
}

#[derive(Deserialize)]
struct Place {
    evidence: String,
}

async fn show(
    State(app): State<AppState>,
    desk: Desk,
    Path(Place { evidence }): Path<Place>,
) -> Result<Response, Fault> {
    let detail = scores::show(&app, desk.caller.clone(), &desk.id).await?;
    let (view, bundle) = answers::open_bundle(&app, desk.caller.clone(), &desk.id, &evidence).await?;
    page(&AnswersPage {
        shell: desk.shell(&app).await?,
        style: assets::choir_style(),
        base: desk.base.clone(),
        evidence: view.evidence_id.to_string(),
        title: detail.score.title.0,
        version: detail.score.version,
        archived: detail.archived,
        is_signed: view.verification_status != VerificationStatus::UserAsserted,
        questions: questions(&bundle),
        voices: detail.score.voices.iter().map(|voice| voice.name.0.clone()).collect(),
        scenarios: detail.score.scenarios.iter().map(|scenario| scenario.id.0.clone()).collect(),
    })
}

/// Sends the filled fields as a record of answers, as asserted by the owner.
async fn answer(
    State(app): State<AppState>,
    desk: Desk,
    Path(Place { evidence }): Path<Place>,
    form: Form,
) -> Result<Response, Fault> {
    let (view, bundle) = answers::open_bundle(&app, desk.caller.clone(), &desk.id, &evidence).await?;
    let mut given = vec![];
    for question in questions(&bundle) {
        let field = |name: &str| form.some(&format!("{name}-{}", question.index));
        let mut answer = Map::new();
        if let Some(reached) = field("reached") {
            answer.insert("reached_output".into(), json!(reached == "yes"));
        }
        for (name, member) in [("fate", "disposition"), ("voice", "voice_name"), ("scenario", "scenario_id")]
        {
            if let Some(text) = field(name) {
                answer.insert(member.into(), Value::String(text));
            }
        }
        if !answer.is_empty() {
            answer.insert("event".into(), json!(question.index));
            given.push(Value::Object(answer));
        }
    }
    if given.is_empty() {
        return Err(Error::validation("answer at least one question").into());
    }
    let record = json!({"schema": "choir.answers.v1", "bundle_sha256": view.bundle_sha256, "answers": given});
    ingest::assert(&app, desk.caller.clone(), desk.context.source(), &desk.id, record, Once::NO_KEY).await?;
    Ok(desk.go("/evidence"))
}
