//! The operator's part of the market: creating credits, removing them, and the balance of the books. The form
//! carries an idempotency key, so its response is a page and not a redirect.

use super::wallet::{Books, amount};
use crate::form::{Form, exact_body};
use crate::page::{Fault, fault_page, page, sentence};
use crate::pages::operator::{Operator, shell};
use crate::shell::Shell;
use crate::visitor::Context;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use chorus_app::market::money;
use chorus_node::caller::Caller;
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::market::{Issue, Issued};
use serde_json::json;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/operator/market", get(show).post(issue))
}

#[derive(Template)]
#[template(path = "market_issue.html")]
struct IssuePage {
    shell: Shell,
    books: Books,
    key: String,
    owner: String,
    amount: String,
    fault: String,
    /// A description of the completed change.
    done: String,
}

async fn prepare(app: &AppState, headers: &HeaderMap) -> Result<IssuePage, Error> {
    Ok(IssuePage {
        shell: shell(app, headers).await?,
        books: Books::count(app, Caller::Operator).await?,
        key: app.environment.uuid_v4().to_string(),
        owner: String::new(),
        amount: String::new(),
        fault: String::new(),
        done: String::new(),
    })
}

async fn show(State(app): State<AppState>, _: Operator, headers: HeaderMap) -> Result<Response, Fault> {
    page(&prepare(&app, &headers).await?)
}

async fn issue(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Fault> {
    let burns = form.text("act") == "burn";
    let act = if burns { "burn" } else { "mint" };
    let done: Result<Issued, Error> = async {
        let body: Issue = exact_body(&json!({"owner": form.text("owner"), "amount": amount(&form)?}))?;
        let words = json!([body.owner, body.amount]).to_string();
        let once = Once::new(&app, "page", &"operator", act, form.some("key").as_deref(), words.as_bytes());
        let done = if burns {
            money::burn(&app, context, body, once).await?
        } else {
            money::mint(&app, context, body, once).await?
        };
        Ok(done.result)
    }
    .await;
    let mut shown = prepare(&app, &headers).await?;
    match done {
        Ok(Issued { owner, amount, balance }) => {
            let words = if burns { "Took away" } else { "Made" };
            shown.done = format!("{words} {amount} credits: {owner} has {balance} now.");
            page(&shown)
        }
        Err(error) if error.code.status() >= 500 => Err(error.into()),
        Err(error) => {
            shown.owner = form.text("owner");
            shown.amount = form.text("amount");
            shown.fault = sentence(&error.message);
            let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
            fault_page(status, &shown)
        }
    }
}
