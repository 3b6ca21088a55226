//! A Score's evidence: the list, adding a bundle or a framework's trace, and the signing secrets.
//!
//! A trace is converted in memory. The author sees the resulting bundle before it is added; the trace itself
//! is not stored.

use super::desk::Desk;
use crate::assets;
use crate::extract::{Path, Query};
use crate::form::Form;
use crate::page::{Fault, page, query, sentence};
use crate::pages::account::Secret;
use crate::shell::Shell;
use crate::times::Moment;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use chorus_app::choir::{adapt, evidence, ingest, scores, signing_secrets};
use chorus_node::idempotency::Once;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_node::{AppState, Error};
use chorus_protocol::api::Page;
use chorus_protocol::api::scores::{Adapting, EvidenceView, SecretView};
use chorus_protocol::canonical;
use chorus_protocol::choir::evidence::Bundle;
use serde::Deserialize;
use serde_json::Value;

/// The most bundles on a page.
const LIMIT: i64 = 50;
/// The formats of a pasted text, with their labels.
const FORMATS: [(&str, &str); 6] = [
    ("auto", "Guess"),
    ("bundle", "An evidence bundle"),
    ("langgraph", "LangGraph"),
    ("crewai", "CrewAI"),
    ("openai", "OpenAI Responses"),
    ("otel", "OpenTelemetry GenAI"),
];

pub(crate) fn routes(path: &str) -> Router<AppState> {
    Router::new()
        .route(&format!("{path}/evidence"), get(show).post(add))
        .route(&format!("{path}/secrets"), post(make_secret))
        .route(&format!("{path}/secrets/{{prefix}}/revoke"), post(revoke_secret))
}

#[derive(Template)]
#[template(path = "score_evidence.html")]
struct EvidencePage {
    shell: Shell,
    style: &'static str,
    script: &'static str,
    base: String,
    id: String,
    title: String,
    version: i64,
    archived: bool,
    rows: Vec<(EvidenceView, Moment)>,
    next: Option<String>,
    secrets: Vec<(SecretView, Moment)>,
    ingest: String,
    voices: Vec<String>,
    scenarios: Vec<String>,
    /// A bundle converted from a trace and not added yet.
    preview: Option<Preview>,
    fault: String,
}

struct Preview {
    bundle: Bundle,
    text: String,
}

#[derive(Deserialize, Default)]
struct Asked {
    after: Option<String>,
}

async fn rendered(
    app: &AppState,
    desk: &Desk,
    asked: Asked,
    preview: Option<Preview>,
    fault: String,
) -> Result<EvidencePage, Fault> {
    let detail = scores::show(app, desk.caller.clone(), &desk.id).await?;
    let wanted = Page { after: asked.after, limit: LIMIT };
    let found = evidence::list(app, desk.caller.clone(), &desk.id, wanted).await?;
    Ok(EvidencePage {
        shell: desk.shell(app).await?,
        style: assets::choir_style(),
        script: assets::score_script(),
        base: desk.base.clone(),
        id: desk.id.clone(),
        voices: detail.score.voices.iter().map(|voice| voice.name.0.clone()).collect(),
        scenarios: detail.score.scenarios.iter().map(|scenario| scenario.id.0.clone()).collect(),
        title: detail.score.title.0,
        version: detail.score.version,
        archived: detail.archived,
        rows: found
            .items
            .into_iter()
            .map(|row| (Moment::new(&row.received_at), row))
            .map(|(at, row)| (row, at))
            .collect(),
        next: found.next.map(|next| query(&[("after", &next)])),
        secrets: detail
            .signing_secrets
            .into_iter()
            .map(|one| (Moment::new(&one.created_at), one))
            .map(|(at, one)| (one, at))
            .collect(),
        ingest: detail.ingest_url,
        preview,
        fault,
    })
}

async fn show(
    State(app): State<AppState>,
    desk: Desk,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    page(&rendered(&app, &desk, asked, None, String::new()).await?)
}

/// Reads the pasted text: a bundle, or a trace to convert. The second value tells whether the bundle needs a
/// preview.
async fn read(app: &AppState, desk: &Desk, form: &Form) -> Result<(Value, bool), Error> {
    let (text, format) = (form.text("text"), form.text("format"));
    let is_bundle =
        |value: &Value| value["schema"].as_str().is_some_and(|schema| schema.starts_with("choir."));
    if format == "bundle" || format == "auto" {
        match block_in_place_if_large(text.len(), || canonical::parse(text.as_bytes())) {
            Ok(value) if format == "bundle" || is_bundle(&value) => return Ok((value, false)),
            Err(error) if format == "bundle" => return Err(Error::validation(error)),
            _ => {}
        }
    }
    let asked = Adapting {
        score: Some(desk.id.clone()),
        run_id: form.some("run_id"),
        scenario: form.some("scenario"),
        voice: form.some("voice"),
        complete: form.some("complete").is_some(),
    };
    let place = adapt::enter(app, &desk.caller, desk.context.source())?;
    let bundle = adapt::adapt(app, desk.caller.clone(), place, &format, asked, text.as_bytes()).await?;
    Ok((serde_json::to_value(bundle).map_err(Error::internal)?, true))
}

async fn add(State(app): State<AppState>, desk: Desk, form: Form) -> Result<Response, Fault> {
    let read = read(&app, &desk, &form).await;
    let (value, is_new) = match read {
        Ok(read) => read,
        Err(error) => return again(&app, &desk, error).await,
    };
    if is_new {
        let bundle: Bundle = serde_json::from_value(value.clone()).map_err(Error::internal)?;
        let preview = Preview { text: canonical::text(&value), bundle };
        return page(&rendered(&app, &desk, Asked::default(), Some(preview), String::new()).await?);
    }
    match ingest::assert(&app, desk.caller.clone(), desk.context.source(), &desk.id, value, Once::NO_KEY)
        .await
    {
        Ok(taken) if taken.result.warnings.is_empty() => Ok(desk.go("/evidence")),
        Ok(taken) => {
            let told: Vec<_> = taken.result.warnings.iter().map(|one| one.message.as_str()).collect();
            let told = format!("It was taken, but counts for less than was meant: {}.", told.join("; "));
            page(&rendered(&app, &desk, Asked::default(), None, told).await?)
        }
        Err(error) => again(&app, &desk, error).await,
    }
}

/// Shows the page again with the error. The pasted text is left out, because it may hold secrets.
async fn again(app: &AppState, desk: &Desk, error: Error) -> Result<Response, Fault> {
    let status = axum::http::StatusCode::from_u16(error.code.status());
    if error.code.status() >= 500 || error.code.status() == 404 {
        return Err(error.into());
    }
    let shown = rendered(app, desk, Asked::default(), None, sentence(&error.message)).await?;
    crate::page::fault_page(status.unwrap_or_default(), &shown)
}

async fn make_secret(State(app): State<AppState>, desk: Desk) -> Result<Response, Fault> {
    let made = signing_secrets::make(&app, desk.context.clone(), desk.caller.clone(), &desk.id, Once::NO_KEY)
        .await?;
    let (secret, url) = (made.result.secret.unwrap_or_default(), made.result.ingest_url.unwrap_or_default());
    page(&Secret {
        shell: desk.shell(&app).await?,
        title: "A signing secret".into(),
        lead: format!(
            "It is shown this once. Evidence that is signed with it counts as verified; its public beginning is {}.",
            made.result.prefix
        ),
        secrets: vec![
            (
                "Submit a run from a shell",
                format!(
                    "export CHORUS_SIGNING_SECRET={secret}\nchorus adapt auto run.json | \\\n  chorus sign --submit {url} -"
                ),
            ),
            ("The secret", secret.clone()),
            ("Where signed evidence goes", url.clone()),
        ],
        back: format!("{}/evidence", desk.base),
    })
}

#[derive(Deserialize)]
struct Which {
    prefix: String,
}

async fn revoke_secret(
    State(app): State<AppState>,
    desk: Desk,
    Path(Which { prefix }): Path<Which>,
) -> Result<Response, Fault> {
    signing_secrets::revoke(&app, desk.context.clone(), desk.caller.clone(), &desk.id, prefix).await?;
    Ok(desk.go("/evidence"))
}
