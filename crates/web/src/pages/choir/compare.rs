//! A comparison of two receipts.

use super::charts::{Line, Radar, lines};
use super::receipt::{Head, read, shell};
use crate::assets;
use crate::extract::Path;
use crate::page::{Fault, page};
use crate::shell::Shell;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use chorus_app::choir::receipts;
use chorus_node::AppState;
use chorus_protocol::choir::receipt::Payload;
use serde_json::Value;

/// The most changed lines of the Score that are shown.
const MOST_CHANGES: usize = 60;
/// The most characters of one value.
const MOST_OF_VALUE: usize = 300;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/compare/{slug}", get(show))
}

/// A changed field of a voice: its name, the old and the new value.
struct Retuned {
    voice: String,
    field: String,
    before: Option<String>,
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    shell: Shell,
    style: &'static str,
    script: &'static str,
    slug: String,
    sides: Vec<Head>,
    radar: Radar,
    lines: Vec<Line>,
    gone: Vec<String>,
    new: Vec<String>,
    regressions: Vec<String>,
    worse: bool,
    same_score: bool,
    retuned: Vec<Retuned>,
    disclaimer: String,
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.chars().take(MOST_OF_VALUE).collect()
}

/// Returns the fields of a voice.
fn fields(payload: &Payload, name: &str) -> Option<serde_json::Map<String, Value>> {
    let voice = payload.score.voices.iter().find(|voice| voice.name.0 == name)?;
    serde_json::to_value(voice).ok()?.as_object().cloned()
}

fn retuned(before: &Payload, after: &Payload) -> Vec<Retuned> {
    let mut names: Vec<&str> = before.score.voices.iter().map(|voice| &*voice.name.0).collect();
    for voice in &after.score.voices {
        if !names.contains(&&*voice.name.0) {
            names.push(&voice.name.0);
        }
    }
    let mut found = vec![];
    for name in names {
        let voice = || name.to_owned();
        match (fields(before, name), fields(after, name)) {
            (Some(old), Some(new)) => found.extend(old.iter().filter_map(|(field, was)| {
                let is = new.get(field).unwrap_or(&Value::Null);
                (was != is).then(|| Retuned {
                    voice: voice(),
                    field: field.clone(),
                    before: Some(shown(was)),
                    after: Some(shown(is)),
                })
            })),
            (Some(_), None) => found.push(Retuned {
                voice: voice(),
                field: "voice".into(),
                before: Some("declared".into()),
                after: None,
            }),
            (None, _) => found.push(Retuned {
                voice: voice(),
                field: "voice".into(),
                before: None,
                after: Some("declared".into()),
            }),
        }
    }
    found.truncate(MOST_CHANGES);
    found
}

async fn show(
    State(app): State<AppState>,
    headers: HeaderMap,
    Path(slug): Path<String>,
) -> Result<Response, Fault> {
    let (first, second, comparison) = receipts::comparison(&app, &slug).await?;
    let (one, before) = read(&app, &first).await?;
    let (other, after) = read(&app, &second).await?;
    let risk = |payload: &Payload| payload.false_harmony.risk;
    let mut all = lines(&before.dimensions, &after.dimensions);
    all.push(Line {
        name: "False-harmony risk",
        about: "what a smooth answer could be hiding; less is better",
        before: risk(&before),
        after: risk(&after),
        is_risk: true,
    });
    let both = |mismatches: &[String], findings: &[String]| [mismatches, findings].concat();
    page(&ComparePage {
        shell: shell(&app, &headers).await?,
        style: assets::choir_style(),
        script: assets::verify_script(),
        slug,
        sides: vec![Head::of(&one, &before), Head::of(&other, &after)],
        radar: Radar { before: before.dimensions, after: after.dimensions, names: ("A", "B") },
        lines: all,
        gone: both(&comparison.mismatches.removed, &comparison.findings.removed),
        new: both(&comparison.mismatches.added, &comparison.findings.added),
        regressions: comparison.regressions,
        worse: comparison.worse,
        same_score: comparison.same_score,
        retuned: retuned(&before, &after),
        disclaimer: after.disclaimer,
    })
}
