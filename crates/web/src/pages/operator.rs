//! The operator's console: health of the hub, deliveries and the audit log. Entering the operator key sets a
//! cookie that lasts one hour and is sent to these pages only.

mod audit;

use super::account::{Invitation, invitations};
use super::deliveries::{self, Wanted};
use crate::cookies;
use crate::extract::{Path, Query};
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
use chorus_app::choir::log::{self, LogHealth};
use chorus_app::deliveries::{Asked, list};
use chorus_app::operator::{RateLimit, StoreHealth};
use chorus_app::{accounts, agents, operator};
use chorus_node::authentication::is_operator;
use chorus_node::caller::Caller;
use chorus_node::caller::key_hash;
use chorus_node::config::quotas::{OFF, Quota, Quotas};
use chorus_node::source::rate_key;
use chorus_node::{App, AppState, Error, Signup};
use chorus_protocol::api::operator::Overview;
use chorus_protocol::ids::CredentialId;
use chorus_protocol::words::DeliveryState;

/// The name of the operator cookie, and its lifetime.
const COOKIE: &str = "chorus_operator";
const LIFE_MS: i64 = 60 * 60 * 1000;
/// The most deliveries counted per state.
const COUNTED: i64 = 200;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/operator", get(show).post(enter))
        .route("/operator/leave", post(leave))
        .route("/operator/deliveries", get(show_deliveries))
        .route("/operator/deliveries/replay", post(replay))
        .route("/operator/invitations", post(invite))
        .route("/operator/invitations/{id}/revoke", post(revoke))
        .merge(audit::routes())
}

/// A visitor whose browser holds a valid operator cookie.
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
    store: StoreHealth,
    /// `None` if the head of the log cannot be signed.
    log: Option<Log>,
    up: String,
    agents: i64,
    counts: Vec<(&'static str, usize, &'static str)>,
    stored: String,
    writes: String,
    refused: String,
    /// The result of the last check of the books (`true` if they balanced), and its time.
    books: Option<(bool, Moment)>,
    rates: Vec<Rate>,
    limits: Vec<Limit>,
    may_invite: bool,
    invitations: Vec<Invitation>,
}

/// A rate limit, formatted.
struct Rate {
    what: &'static str,
    setting: &'static str,
    limit: String,
    /// The sources that are refused now, each with the remaining time.
    at_limit: Vec<String>,
}

fn rate(limit: RateLimit) -> Rate {
    let at_limit = limit.at_limit.into_iter().map(|(who, wait)| format!("{who}, for {}", span(wait)));
    Rate {
        what: limit.what,
        setting: limit.setting,
        limit: limit.per_minute.map_or_else(|| "no limit".to_owned(), readable),
        at_limit: at_limit.collect(),
    }
}

/// The transparency log, formatted.
struct Log {
    health: LogHealth,
    newest: Option<Moment>,
    key_since: Option<Moment>,
    signed: Moment,
}

async fn log(app: &AppState) -> Option<Log> {
    match log::health(app).await {
        Ok(health) => Some(Log {
            newest: health.newest_at.as_deref().map(Moment::new),
            key_since: health.key_since.as_deref().map(Moment::new),
            signed: Moment::new(&health.signed_at),
            health,
        }),
        Err(error) => {
            tracing::error!(error = %error.message, "the head of the transparency log cannot be signed");
            None
        }
    }
}

/// Formats bytes in the largest useful unit.
fn bytes(count: i64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = count as f64;
    if size < 1024.0 {
        return format!("{count} bytes");
    }
    let mut unit = "";
    for next in units {
        (size, unit) = (size / 1024.0, next);
        if size < 1024.0 {
            break;
        }
    }
    format!("{size:.1} {unit}")
}

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

/// Formats a number in groups of three digits.
fn readable(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
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
    let store = operator::store_health(&app).await?;
    let market = store.report.as_ref().and_then(|report| report.market.as_ref());
    let mut counts = vec![];
    for state in [DeliveryState::Dead, DeliveryState::Waiting, DeliveryState::Queued] {
        let asked = Asked { state: Some(state), ..Asked::default() };
        let found = list(&app, Caller::Operator, asked, None, COUNTED).await?;
        counts.push((state.as_str(), found.items.len(), if found.next.is_some() { "+" } else { "" }));
    }
    page(&OperatorPage {
        shell,
        overview: operator::overview(&app),
        up: store.report.as_ref().map(|report| span(report.uptime_s as i64 * 1000)).unwrap_or_default(),
        stored: bytes(store.bytes),
        writes: readable(store.writes),
        refused: readable(store.refused),
        books: market.map(|market| (market.balanced, Moment::new(&market.checked_at))),
        store,
        log: log(&app).await,
        agents: agents::count(&app).await?,
        counts,
        rates: operator::rate_limits(&app).await?.into_iter().map(rate).collect(),
        limits: limits(&app.config.quotas),
        may_invite: app.config.signup != Signup::Closed,
        invitations: invitations(&app, &Caller::Operator).await?,
    })
}

/// Checks the operator key and sets the cookie. Wrong keys count against the client like any other wrong
/// secret.
async fn enter(
    State(app): State<AppState>,
    Context(context): Context,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Fault> {
    if !is_operator(&app, &key_hash(&form.text("key"))) {
        app.limits.count_bad_secret(rate_key(context.client))?;
        let shown =
            KeyPage { shell: shell(&app, &headers).await?, fault: "This is not the operator’s key." };
        return fault_page(StatusCode::FORBIDDEN, &shown);
    }
    let token = app.config.master_key.operator_token(&app.config.operator_key, app.now() + LIFE_MS);
    set_cookie(&app, &token, LIFE_MS / 1000)
}

/// Sets the cookie as `SameSite=Strict`: browsers omit it on requests from other sites.
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

/// Creates a sign-up link.
async fn invite(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Fault> {
    let new = crate::form::body(serde_json::json!({"email": form.some("email")}))?;
    let once = chorus_node::idempotency::Once::NO_KEY;
    let made = accounts::make_sign_up_code(&app, context, Caller::Operator, new, once).await?.result;
    page(&super::account::Secret {
        shell: shell(&app, &headers).await?,
        title: "An invitation".into(),
        lead: "Whoever opens this link can have an account here, once.".into(),
        secrets: vec![("The link", made.url)],
        back: "/operator".into(),
    })
}

async fn revoke(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let id = CredentialId::parse(&id).ok_or_else(|| Error::not_found("invitation"))?;
    accounts::revoke_sign_up_code(&app, context, Caller::Operator, id).await?;
    Ok(Redirect::to("/operator").into_response())
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
        assert_eq!([12, 2048, 5 << 30].map(bytes), ["12 bytes", "2.0 KiB", "5.0 GiB"]);
        assert_eq!([1, 999, 1000, 1_234_567].map(readable), ["1", "999", "1,000", "1,234,567"]);
    }
}
