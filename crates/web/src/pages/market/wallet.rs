//! A person's wallets with their movements, and the balance of the hub's books.

use super::ledger::{MovementRow, movements};
use crate::extract::Query;
use crate::form::{Form, exact_body};
use crate::page::{Fault, fault_page, page, query, sentence};
use crate::shell::{Here, Shell};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::market::money;
use chorus_node::caller::Caller;
use chorus_node::idempotency::Once;
use chorus_node::{App, AppState, Error};
use chorus_protocol::market::{Credits, Economy, LedgerSearch, Transfer, WalletDiscrepancy, WalletView};
use serde::Deserialize;
use serde_json::json;

/// The most movements on a page.
const LIMIT: i64 = 50;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/wallet", get(show)).route("/wallet/send", post(send))
}

/// The hub's books as two sums that must be equal.
pub(crate) struct Books {
    pub(crate) wallets: String,
    pub(crate) held: String,
    pub(crate) minted: String,
    pub(crate) burned: String,
    pub(crate) balanced: bool,
    /// The wallets that do not balance, as far as the visitor may see them.
    pub(crate) discrepancies: Vec<WalletDiscrepancy>,
}

impl Books {
    /// Sums up the books now.
    pub(crate) async fn count(app: &App, caller: Caller) -> Result<Self, Error> {
        let economy = money::economy(app, caller).await?;
        let Economy { minted, burned, wallets, held, balanced, discrepancies } = economy;
        let shown = |credits: f64| format!("{credits:.2}");
        Ok(Self {
            wallets: shown(wallets),
            held: shown(held),
            minted: shown(minted),
            burned: shown(burned),
            balanced,
            discrepancies,
        })
    }
}

#[derive(Deserialize)]
struct Asked {
    owner: Option<String>,
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "market_wallet.html")]
struct WalletPage {
    shell: Shell,
    wallets: Vec<WalletView>,
    /// The wallet whose movements are shown.
    chosen: Option<WalletView>,
    /// The name of its owner.
    called: String,
    rows: Vec<MovementRow>,
    next: Option<String>,
    books: Books,
    transfer: String,
    to: String,
    amount: String,
    fault: String,
    account: String,
}

impl WalletPage {
    /// Returns for each wallet its link, name, balance, and whether it is selected.
    fn links(&self) -> Vec<(String, &str, &WalletView, bool)> {
        let chosen = self.chosen.as_ref().map(|wallet| wallet.owner.as_str());
        let link = |wallet: &WalletView| query(&[("owner", &wallet.owner)]);
        let shown = self.wallets.iter().map(|wallet| {
            let name = if wallet.owner == self.account { "Your account" } else { &wallet.owner };
            (link(wallet), name, wallet, chosen == Some(&*wallet.owner))
        });
        shown.collect()
    }
}

async fn prepare(app: &AppState, visitor: &SignedIn, asked: Asked) -> Result<WalletPage, Error> {
    let wallets = money::wallets(app, visitor.caller.clone()).await?;
    let account = visitor.person.id.to_string();
    let named = asked.owner.as_deref().unwrap_or(&account);
    let chosen = wallets.iter().find(|wallet| wallet.owner == named).or(wallets.first()).cloned();
    let (mut rows, mut next) = (vec![], None);
    if let Some(wallet) = &chosen {
        let owner = Some(wallet.owner.clone());
        let search = LedgerSearch { owner, job: None, since: None, after: asked.after, limit: LIMIT };
        let found = money::ledger(app, visitor.caller.clone(), search).await?;
        rows = movements(app, visitor, found.items, Some(&wallet.owner)).await?;
        next = found.next.map(|next| query(&[("owner", &wallet.owner), ("after", &next)]));
    }
    Ok(WalletPage {
        shell: Shell::of(app, &visitor.person, Here::Market).await?,
        called: match &chosen {
            Some(wallet) if wallet.owner != account => wallet.owner.clone(),
            _ => visitor.person.name.clone(),
        },
        wallets,
        chosen,
        rows,
        next,
        books: Books::count(app, visitor.caller.clone()).await?,
        transfer: app.environment.uuid_v4().to_string(),
        to: String::new(),
        amount: String::new(),
        fault: String::new(),
        account,
    })
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    page(&prepare(&app, &visitor, asked).await?)
}

/// Transfers credits to another owner. The form carries the transfer's id, so that sending it twice transfers
/// once.
async fn send(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let from = form.text("from_owner");
    let done = match read(&form) {
        Ok(transfer) => money::transfer(&app, visitor.caller.clone(), transfer, Once::NO_KEY).await.map(drop),
        Err(error) => Err(error),
    };
    let Err(error) = done else {
        return Ok(Redirect::to(&format!("/wallet{}", query(&[("owner", &from)]))).into_response());
    };
    if error.code.status() >= 500 {
        return Err(error.into());
    }
    let asked = Asked { owner: Some(from), after: None };
    let mut shown = prepare(&app, &visitor, asked).await?;
    shown.to = form.text("to_owner");
    shown.amount = form.text("amount");
    shown.fault = sentence(&error.message);
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
    fault_page(status, &shown)
}

fn read(form: &Form) -> Result<Transfer, Error> {
    exact_body(&json!({
        "transfer_id": form.text("transfer_id"),
        "from_owner": form.text("from_owner"),
        "to_owner": form.text("to_owner"),
        "amount": amount(form)?,
    }))
}

/// Parses an amount of credits.
pub(super) fn amount(form: &Form) -> Result<Credits, Error> {
    let wrong = |wrong| chorus_protocol::faults::Faults::one("amount", wrong);
    Ok(Credits::parse(&form.text("amount")).map_err(wrong)?)
}
