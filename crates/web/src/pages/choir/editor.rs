//! The editor of a Score: a form that works without a script, with the findings of the paper rehearsal beside
//! it, updated while the author types.

use super::desk::Desk;
use super::form::{self, SWITCHES, VoiceFields, empty_voice};
use super::plain::{self, Plain};
use super::receipt::drawn;
use crate::assets;
use crate::form::Form;
use crate::page::{Fault, fault_page, page, sentence};
use crate::shell::Shell;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use chorus_app::choir::scores;
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::api::scores::RehearsalView;
use chorus_protocol::choir::receipt::{Dimension, Verdict};
use chorus_protocol::choir::score::{EvidenceRequirement, Label, Scenario, Score, Severity, Voice};
use serde_json::Value;

pub(crate) fn routes(path: &str) -> Router<AppState> {
    Router::new().route(path, get(show).post(save))
}

/// The result of a paper rehearsal, or the reason why there is none.
#[derive(Template)]
#[template(path = "score_findings.html")]
pub(super) struct OnPaper {
    pub(super) fault: String,
    pub(super) verdict: Option<Verdict>,
    pub(super) dimensions: Vec<(&'static str, i64)>,
    pub(super) findings: Vec<Plain>,
}

impl OnPaper {
    fn of(found: Result<RehearsalView, Error>) -> Self {
        match found {
            Ok(found) => Self {
                fault: String::new(),
                verdict: found.payload["verdict"].as_str().and_then(Verdict::parse),
                dimensions: Dimension::ALL
                    .iter()
                    .map(|one| (plain::about(*one), found.dimensions.get(*one)))
                    .collect(),
                findings: found.findings.into_iter().map(plain::plain).collect(),
            },
            Err(error) => {
                Self { fault: sentence(&error.message), verdict: None, dimensions: vec![], findings: vec![] }
            }
        }
    }

    fn none() -> Self {
        Self { fault: String::new(), verdict: None, dimensions: vec![], findings: vec![] }
    }

    /// Explains the verdict of the paper rehearsal.
    fn meaning(&self) -> &'static str {
        match self.verdict {
            None => "",
            Some(Verdict::Ready) if self.findings.is_empty() => "Nothing is missing on paper.",
            Some(Verdict::Ready) => "It is ready to be rehearsed; this would make it better.",
            Some(Verdict::Conditional) => "It can be rehearsed; some of it is weak.",
            Some(Verdict::Retune | Verdict::NotReady) => "Too much is missing: mend the largest first.",
        }
    }

    /// Returns the CSS class of the verdict.
    fn look(&self) -> &'static str {
        self.verdict.map_or("", |verdict| drawn(verdict).1)
    }
}

/// Renders the findings alone.
pub(super) fn findings(found: Result<RehearsalView, Error>) -> Result<Response, Fault> {
    page(&OnPaper::of(found))
}

/// Parses a submitted Score so that it can be shown again. Returns `None` if it is not a Score at all.
pub(super) fn offered(body: Value) -> Option<Score> {
    serde_json::from_value(body).ok()
}

#[derive(Template)]
#[template(path = "score_edit.html")]
pub(super) struct EditorPage {
    shell: Shell,
    style: &'static str,
    script: &'static str,
    /// The path of the Score; its other pages are below it. Empty for a new Score.
    base: String,
    action: String,
    by_link: bool,
    may_claim: bool,
    archived: bool,
    fault: String,
    score: Score,
    voices: Vec<VoiceFields>,
    /// The Score's scenarios, followed by empty rows.
    scenarios: Vec<(usize, Scenario)>,
    conflicts: Vec<(usize, String, String)>,
    library: Vec<Scenario>,
    found: OnPaper,
}

fn empty_scenario() -> Scenario {
    Scenario {
        id: Label(String::new()),
        title: String::new(),
        severity: Severity::Medium,
        prompt: String::new(),
        required_voices: vec![],
        expected_escalations: vec![],
        expected_evidence: vec![],
        forbidden_actions: vec![],
        stage: None,
        expects: None,
    }
}

impl EditorPage {
    /// Explains the severity of a scenario.
    fn grave(one: &Scenario) -> &'static str {
        plain::severity(one.severity)
    }

    /// Returns the severities to choose from: the stored word and its label.
    fn severities() -> Vec<(&'static str, &'static str)> {
        Severity::ALL.iter().map(|one| (one.as_str(), plain::severity(*one))).collect()
    }

    fn proofs() -> Vec<(&'static str, &'static str)> {
        EvidenceRequirement::ALL.iter().map(|one| (one.as_str(), plain::proof(*one))).collect()
    }

    fn of(shell: Shell, base: String, score: Score, found: OnPaper) -> Self {
        let voices = score.voices.iter().cloned().chain([empty_voice()]);
        let pair = |pair: &Vec<Label>| match &pair[..] {
            [one, other] => (one.0.clone(), other.0.clone()),
            _ => (String::new(), String::new()),
        };
        let conflicts = score.conflicting_mandates.iter().map(pair).chain([(String::new(), String::new())]);
        let known = |one: &Scenario| score.scenarios.iter().any(|other| other.id == one.id);
        Self {
            shell,
            style: assets::choir_style(),
            script: assets::score_script(),
            action: if base.is_empty() { "/scores/new".into() } else { base.clone() },
            base,
            by_link: false,
            may_claim: false,
            archived: false,
            fault: String::new(),
            voices: voices.enumerate().map(|(n, voice)| VoiceFields { n, voice }).collect(),
            scenarios: score.scenarios.iter().cloned().chain([empty_scenario()]).enumerate().collect(),
            conflicts: conflicts.enumerate().map(|(n, (one, other))| (n, one, other)).collect(),
            library: scores::library().into_iter().filter(|one| !known(one)).collect(),
            found,
            score,
        }
    }

    /// Returns the editor of a new Score.
    pub(super) fn empty(shell: Shell) -> Self {
        let named = |name: &str| Voice { name: Label(name.into()), ..empty_voice() };
        let score = Score {
            title: Label(String::new()),
            protocol_version: chorus_protocol::choir::score::ProtocolVersion::default(),
            version: 0,
            voices: vec![named(""), named("")],
            conflicting_mandates: vec![],
            arbitration: None,
            waivers: vec![],
            scenarios: vec![],
        };
        Self::of(shell, String::new(), score, OnPaper::none())
    }

    /// Shows the editor again with the input and the error.
    pub(super) fn again(self, offered: Option<Score>, error: Error) -> Result<Response, Fault> {
        let Some(score) = offered else { return Err(error.into()) };
        let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let Self { shell, base, by_link, may_claim, archived, .. } = self;
        let again = Self::of(shell, base, score, OnPaper::none());
        let fault = sentence(&error.message);
        fault_page(status, &Self { by_link, may_claim, archived, fault, ..again })
    }
}

async fn show(State(app): State<AppState>, desk: Desk) -> Result<Response, Fault> {
    let detail = scores::show(&app, desk.caller.clone(), &desk.id).await?;
    let found = OnPaper::of(scores::on_paper(&app, desk.caller.clone(), &desk.id).await);
    let made = EditorPage::of(desk.shell(&app).await?, desk.base.clone(), detail.score, found);
    let (by_link, may_claim) = (desk.by_link, desk.may_claim());
    page(&EditorPage { by_link, may_claim, archived: detail.archived, ..made })
}

async fn save(State(app): State<AppState>, desk: Desk, form: Form) -> Result<Response, Fault> {
    let detail = scores::show(&app, desk.caller.clone(), &desk.id).await?;
    let body = form::score(&form, Some(&detail.score), &scores::library());
    match scores::change(
        &app,
        desk.caller.clone(),
        desk.context.source(),
        &desk.id,
        body.clone(),
        Once::NO_KEY,
    )
    .await
    {
        Ok(_) => Ok(desk.go("")),
        Err(error) => {
            let made =
                EditorPage::of(desk.shell(&app).await?, desk.base.clone(), detail.score, OnPaper::none());
            let (by_link, may_claim) = (desk.by_link, desk.may_claim());
            EditorPage { by_link, may_claim, archived: detail.archived, ..made }.again(offered(body), error)
        }
    }
}
