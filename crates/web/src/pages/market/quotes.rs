//! Requesting quotes from several agents: the request, the offers as they arrive, and accepting one before it
//! expires.
//!
//! The page of offers carries the id of the job to create, so that pressing twice creates one job.

use crate::extract::{Path, Query};
use crate::face::Face;
use crate::form::{Form, exact_body};
use crate::page::{Fault, fault_page, page, query, sentence};
use crate::shell::{Here, Shell};
use crate::times::span;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::market::{discover, quotes};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::market::{
    Accept, Offer, QuoteRequest, QuoteStatus, QuoteView, SkillSearch, SkillSummary,
};
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::Word;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The most skill names that the form suggests.
const SKILLS: i64 = 100;
/// The defaults of the form: how long agents may answer, and how long their offers are valid.
const USUAL_SECONDS: &str = "20";
const USUAL_MINUTES: &str = "10";

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/quotes/new", get(form).post(send))
        .route("/quotes/{id}", get(show))
        .route("/quotes/{id}/take", post(take))
}

#[derive(Template)]
#[template(path = "market_ask.html")]
struct AskPage {
    shell: Shell,
    skills: Vec<SkillSummary>,
    skill: String,
    input: String,
    budget: String,
    seconds: String,
    minutes: String,
    fault: String,
}

#[derive(Deserialize)]
struct Asked {
    skill: Option<String>,
}

impl AskPage {
    async fn new(app: &AppState, visitor: &SignedIn) -> Result<Self, Error> {
        Ok(Self {
            shell: Shell::of(app, &visitor.person, Here::Market).await?,
            skills: discover::skills(app, SkillSearch { after: None, limit: SKILLS }).await?.items,
            skill: String::new(),
            input: String::new(),
            budget: String::new(),
            seconds: USUAL_SECONDS.into(),
            minutes: USUAL_MINUTES.into(),
            fault: String::new(),
        })
    }

    /// Builds the API request from the form.
    fn read(&self) -> Result<QuoteRequest, String> {
        let mut body = Map::from_iter([("skill_name".to_owned(), json!(self.skill))]);
        if !self.input.is_empty() {
            let input: Value =
                serde_json::from_str(&self.input).map_err(|_| "input: must be a JSON object")?;
            body.insert("input_data".into(), input);
        }
        if !self.budget.is_empty() {
            let budget = chorus_protocol::market::Credits::parse(&self.budget);
            body.insert("budget".into(), json!(budget.map_err(|wrong| format!("budget: {wrong}"))?));
        }
        for (field, text, unit_ms) in
            [("answer_ms", &self.seconds, 1000), ("valid_ms", &self.minutes, 60_000)]
        {
            let name = if field == "answer_ms" { "seconds" } else { "minutes" };
            let number: i64 = text.parse().map_err(|_| format!("{name}: must be a whole number"))?;
            body.insert(field.into(), json!(number.saturating_mul(unit_ms)));
        }
        exact_body(&Value::Object(body)).map_err(|error: Error| error.message)
    }
}

async fn form(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    page(&AskPage { skill: asked.skill.unwrap_or_default(), ..AskPage::new(&app, &visitor).await? })
}

async fn send(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let shown = AskPage {
        skill: form.text("skill"),
        input: form.text("input"),
        budget: form.text("budget"),
        seconds: form.text("seconds"),
        minutes: form.text("minutes"),
        ..AskPage::new(&app, &visitor).await?
    };
    let (status, fault) = match shown.read() {
        Err(fault) => (StatusCode::BAD_REQUEST, fault),
        Ok(request) => {
            match quotes::ask(&app, visitor.caller, visitor.context.source(), request, Once::NO_KEY).await {
                Ok(done) => {
                    return Ok(Redirect::to(&format!("/quotes/{}", done.result.quote_id)).into_response());
                }
                Err(error) => refusal(error)?,
            }
        }
    };
    fault_page(status, &AskPage { fault: sentence(&fault), ..shown })
}

/// Returns the message beside the form. An error of the hub itself gets its own page.
fn refusal(error: Error) -> Result<(StatusCode, String), Fault> {
    if error.code.status() >= 500 {
        return Err(error.into());
    }
    Ok((StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST), error.message))
}

#[derive(Template)]
#[template(path = "market_offers.html")]
struct OffersPage {
    shell: Shell,
    quote: QuoteView,
    rows: Vec<Row>,
    open: bool,
    taken: bool,
    /// The time left to accept an offer, and the time left for agents to answer, in milliseconds and in words.
    left: (i64, String),
    answers: (i64, String),
    job: String,
    /// The query of the form that repeats the request.
    again: String,
    fault: String,
}

struct Row {
    offer: Offer,
    face: Face,
    /// The agent's estimate of the duration.
    takes: String,
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    page(&offers(&app, &visitor, &id).await?)
}

async fn offers(app: &AppState, visitor: &SignedIn, id: &str) -> Result<OffersPage, Error> {
    let quote = quotes::show(app, visitor.caller.clone(), quotes::id(id)?).await?;
    let left = |until: &str| {
        let ms = parse_rfc3339(until).map_or(0, |at| (at - app.now()).max(0));
        (ms, span(ms))
    };
    let row = |offer: &Offer| Row {
        face: Face::agent(&offer.agent_id.to_string()).small(),
        takes: offer.expected_ms.map(|ms| span(ms.max(1000))).unwrap_or_default(),
        offer: offer.clone(),
    };
    Ok(OffersPage {
        shell: Shell::of(app, &visitor.person, Here::Market).await?,
        rows: quote.offers.iter().map(row).collect(),
        open: quote.status == Word::Known(QuoteStatus::Open),
        taken: quote.status == Word::Known(QuoteStatus::Accepted),
        left: left(&quote.valid_until),
        answers: left(&quote.answers_until),
        job: app.environment.uuid_v4().to_string(),
        again: query(&[("skill", &quote.skill_name)]),
        fault: String::new(),
        quote,
    })
}

async fn take(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let body: Accept =
        exact_body(&json!({"agent_id": form.text("agent_id"), "job_id": form.text("job_id")}))?;
    let (caller, source) = (visitor.caller.clone(), visitor.context.source());
    match quotes::accept(&app, caller, source, quotes::id(&id)?, body, Once::NO_KEY).await {
        Ok(done) => Ok(Redirect::to(&format!("/jobs/{}", done.result.job_id)).into_response()),
        Err(error) => {
            let (status, fault) = refusal(error)?;
            let shown = offers(&app, &visitor, &id).await?;
            fault_page(status, &OffersPage { fault: sentence(&fault), ..shown })
        }
    }
}
