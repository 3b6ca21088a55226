//! The operator's console: how the hub is, deliveries, who did what. The key is shown once and becomes a cookie that is good
//! for an hour, on these pages only.

use super::deliveries::{self, Wanted};
use crate::cookies;
use crate::extract::Query;
use crate::form::Form;
use crate::page::{Fault, fault_page, page};
use crate::shell::{Here, Shell};
use crate::times::{Moment, span};
use crate::visitor::{Context, person};
use askama::Template;
use axum::Router;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::authenticate::is_operator;
use chorus_app::caller::Caller;
use chorus_app::charge::count_bad_secret;
use chorus_app::deliveries::{Asked, list};
use chorus_app::quotas::{OFF, Quota, Quotas};
use chorus_app::rate::rate_key;
use chorus_app::{App, AppState, Error, agents, health_report, key_hash, operator};
use chorus_protocol::api::operator::{AuditQuery, Overview, RecordedAct};
use chorus_protocol::ids::AuditId;
use chorus_protocol::relay::HealthReport;
use chorus_protocol::words::{DeliveryState, Word};
use serde::Deserialize;

/// The name of the cookie, and how long it is good.
const COOKIE: &str = "chorus_operator";
const LIFE_MS: i64 = 60 * 60 * 1000;
/// Of each state so many deliveries are counted.
const COUNTED: i64 = 200;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/operator", get(show).post(enter))
        .route("/operator/leave", post(leave))
        .route("/operator/deliveries", get(show_deliveries))
        .route("/operator/deliveries/replay", post(replay))
        .route("/operator/audit", get(audit))
        .route("/operator/invitations", post(invite))
}

/// Somebody whose browser has shown the operator's key.
pub(super) struct Operator;

impl FromRequestParts<AppState> for Operator {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Fault> {
        if is_in(app, &parts.headers) {
            return Ok(Self);
        }
        Err(Error::new(
            chorus_protocol::code::Code::Forbidden,
            "this is the operator's: enter the key at /operator",
        )
        .into())
    }
}

fn is_in(app: &App, headers: &HeaderMap) -> bool {
    let until = cookies::cookie(headers, COOKIE)
        .and_then(|token| app.config.master_key.read_operator_token(&app.config.operator_key, token));
    until.is_some_and(|until| until > app.now())
}

#[derive(Template)]
#[template(path = "operator_key.html")]
struct KeyPage {
    shell: Shell,
    fault: &'static str,
}

#[derive(Template)]
#[template(path = "operator.html")]
struct OperatorPage {
    shell: Shell,
    overview: Overview,
    health: Option<HealthReport>,
    up: String,
    agents: i64,
    counts: Vec<(&'static str, usize, &'static str)>,
    limits: Vec<Limit>,
}

/// A limit as a person reads it.
struct Limit {
    variable: &'static str,
    value: String,
    meaning: &'static str,
}

fn limits(quotas: &Quotas) -> Vec<Limit> {
    let rows = Quotas::TABLE.iter().zip(quotas.values());
    rows.map(|(&Quota { variable, meaning, .. }, value)| Limit {
        variable,
        value: if value == OFF { "no limit:".into() } else { readable(value) },
        meaning,
    })
    .collect()
}

/// A number in groups of three.
fn readable(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    shell: Shell,
    acts: Vec<Act>,
    next: Option<String>,
}

struct Act {
    at: Moment,
    action: String,
    view: RecordedAct,
}

pub(super) async fn shell(app: &App, headers: &HeaderMap) -> Result<Shell, Error> {
    let person = person(app, headers).await?;
    Shell::maybe_of(app, person.as_ref(), Here::Operator).await
}

async fn show(State(app): State<AppState>, headers: HeaderMap) -> Result<Response, Fault> {
    let shell = shell(&app, &headers).await?;
    if !is_in(&app, &headers) {
        return page(&KeyPage { shell, fault: "" });
    }
    let health = health_report::report(&app).await.ok();
    let mut counts = vec![];
    for state in [DeliveryState::Dead, DeliveryState::Waiting, DeliveryState::Queued] {
        let asked = Asked { state: Some(state), ..Asked::default() };
        let found = list(&app, Caller::Operator, asked, None, COUNTED).await?;
        counts.push((state.as_str(), found.items.len(), if found.next.is_some() { "+" } else { "" }));
    }
    page(&OperatorPage {
        shell,
        overview: operator::overview(&app),
        up: health.as_ref().map(|health| span(health.uptime_s as i64 * 1000)).unwrap_or_default(),
        health,
        agents: agents::count(&app).await?,
        counts,
        limits: limits(&app.config.quotas),
    })
}

/// The key, entered. Wrong ones are counted like wrong keys anywhere.
async fn enter(
    State(app): State<AppState>,
    Context(context): Context,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Fault> {
    if !is_operator(&app, &key_hash(&form.text("key"))) {
        count_bad_secret(&app, rate_key(context.client))?;
        let shown =
            KeyPage { shell: shell(&app, &headers).await?, fault: "This is not the operator’s key." };
        return fault_page(StatusCode::FORBIDDEN, &shown);
    }
    let token = app.config.master_key.operator_token(&app.config.operator_key, app.now() + LIFE_MS);
    set_cookie(&app, &token, LIFE_MS / 1000)
}

/// Strict: it goes with nothing that begins on another site's page.
fn set_cookie(app: &App, token: &str, seconds: i64) -> Result<Response, Fault> {
    let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/operator; Max-Age={seconds}");
    Ok(([(header::SET_COOKIE, cookies::set(app, &cookie)?)], Redirect::to("/operator")).into_response())
}

async fn leave(State(app): State<AppState>) -> Result<Response, Fault> {
    set_cookie(&app, "", 0)
}

async fn show_deliveries(
    State(app): State<AppState>,
    _: Operator,
    headers: HeaderMap,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Fault> {
    let shell = shell(&app, &headers).await?;
    page(&deliveries::find(&app, Caller::Operator, shell, "/operator/deliveries", wanted).await?)
}

async fn replay(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    form: Form,
) -> Result<Response, Fault> {
    deliveries::try_anew(&app, &Caller::Operator, &context, &form).await?;
    Ok(Redirect::to("/operator/deliveries").into_response())
}

#[derive(Deserialize)]
struct After {
    after: Option<String>,
}

async fn audit(
    State(app): State<AppState>,
    _: Operator,
    headers: HeaderMap,
    Query(After { after }): Query<After>,
) -> Result<Response, Fault> {
    let after = after.as_deref().and_then(AuditId::parse);
    let asked = AuditQuery { actor: None, action: None, subject: None, since: None, after, limit: 50 };
    let found = operator::audit_log(&app, asked).await?;
    let act = |view: RecordedAct| Act {
        at: Moment::new(&view.at),
        action: match &view.action {
            Word::Known(action) => action.as_str().to_owned(),
            Word::Unknown(word) => word.clone(),
        },
        view,
    };
    let next = found.next.map(|next| crate::page::query(&[("after", &next)]));
    let acts = found.items.into_iter().map(act).collect();
    page(&AuditPage { shell: shell(&app, &headers).await?, acts, next })
}

/// A link by which somebody may have an account.
async fn invite(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Fault> {
    let new = crate::form::body(serde_json::json!({"email": form.some("email")}))?;
    let once = chorus_app::once::Once::NO_KEY;
    let made =
        chorus_app::accounts::make_sign_up_code(&app, context, Caller::Operator, new, once).await?.result;
    page(&super::account::Secret {
        shell: shell(&app, &headers).await?,
        title: "An invitation".into(),
        lead: "Whoever opens this link can have an account here, once.".into(),
        secrets: vec![("The link", made.url)],
        back: "/operator".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shown_with_what_they_mean() {
        let shown = limits(&Quotas { account_bytes: OFF, ..Quotas::default() });
        let of = |variable| shown.iter().find(|limit| limit.variable == variable).unwrap();
        assert_eq!(of("CHORUS_QUOTA_AGENT_BYTES").value, "104,857,600");
        assert_eq!(of("CHORUS_QUOTA_ACCOUNT_BYTES").value, "no limit:");
        assert_eq!(of("CHORUS_QUOTA_AGENTS").meaning, "agents that one account owns");
        assert_eq!([1, 999, 1000, 1_234_567].map(readable), ["1", "999", "1,000", "1,234,567"]);
    }
}
