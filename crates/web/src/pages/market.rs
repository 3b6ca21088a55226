//! The market for people: offers with prices, hiring, jobs and wallets; and for the operator the whole
//! economy.
//!
//! A signed-in person acts as the owner of the account's wallets. Money moves only in the acts of
//! `chorus_app::market`. Each form carries an idempotency id, so that sending it twice has one effect.

mod chart;
mod hire;
mod input;
mod issue;
mod jobs;
mod ledger;
mod offering;
mod quotes;
mod wallet;

pub(crate) use chart::Standing;
pub(crate) use ledger::owner_called;
pub(crate) use offering::SkillForm;
pub(crate) use wallet::Books;

use crate::extract::Query;
use crate::face::{Face, State as Is};
use crate::page::{Fault, page, query};
use crate::shell::{Here, Shell};
use crate::times::since;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chorus_app::market::{discover, money};
use chorus_node::{AppState, Error};
use chorus_protocol::market::{Discover, Found, Presence, SkillSearch, SkillSummary, WalletView};
use chorus_protocol::words::Word;
use serde::Deserialize;
use std::sync::Arc;

/// The most offers, and the most skill names above them, on a page.
const OFFERS: i64 = 20;
const SKILLS: i64 = 12;
/// The longest search text, in characters.
const MAX_QUESTION: usize = 100;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/market", get(show))
        .merge(hire::routes())
        .merge(issue::routes())
        .merge(jobs::routes())
        .merge(offering::routes())
        .merge(quotes::routes())
        .merge(wallet::routes())
}

#[derive(Debug, Default, Deserialize)]
struct Asked {
    q: Option<String>,
    skill: Option<String>,
    max_cost: Option<String>,
    min_reputation: Option<String>,
    offline: Option<String>,
    after: Option<String>,
}

/// The search, as the form shows it again.
struct Wanted {
    q: String,
    skill: String,
    max_cost: String,
    min_reputation: String,
    offline: bool,
}

impl Wanted {
    fn read(asked: &Asked) -> Self {
        let text = |field: &Option<String>| -> String {
            field.as_deref().unwrap_or_default().trim().chars().take(MAX_QUESTION).collect()
        };
        Self {
            q: text(&asked.q),
            skill: text(&asked.skill),
            max_cost: text(&asked.max_cost),
            min_reputation: text(&asked.min_reputation),
            offline: asked.offline.is_some(),
        }
    }

    /// Returns whether the search has filters besides words.
    fn is_fine(&self) -> bool {
        self.offline
            || [&self.skill, &self.max_cost, &self.min_reputation].iter().any(|field| !field.is_empty())
    }

    /// Returns the query of the form that requests quotes.
    fn ask(&self) -> String {
        query(&[("skill", &self.skill)])
    }

    /// Returns the query for another skill, from the beginning or from a cursor.
    fn link(&self, skill: &str, after: &str) -> String {
        query(&[
            ("q", &self.q),
            ("skill", skill),
            ("max_cost", &self.max_cost),
            ("min_reputation", &self.min_reputation),
            ("offline", if self.offline { "true" } else { "" }),
            ("after", after),
        ])
    }
}

#[derive(Template)]
#[template(path = "market.html")]
struct MarketPage {
    shell: Shell,
    wanted: Wanted,
    /// The error of the search.
    fault: String,
    skills: Vec<SkillSummary>,
    offers: Vec<OfferRow>,
    total: i64,
    next: Option<String>,
    wallets: Vec<WalletView>,
    books: Books,
    jobs: Vec<jobs::Row>,
}

struct OfferRow {
    found: Found,
    face: Face,
    seen: String,
    online: bool,
    standing: Standing,
    /// The reputation, rounded for comparison at a glance.
    score: String,
    hire: String,
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    let wanted = Wanted::read(&asked);
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let search = Discover {
        skill: some(&wanted.skill),
        min_reputation: some(&wanted.min_reputation),
        max_cost: some(&wanted.max_cost),
        q: some(&wanted.q),
        include_offline: wanted.offline,
        after: asked.after,
        limit: OFFERS,
    };
    let (found, fault) = match discover::discover(&app, search).await {
        Ok(found) => (Some(Arc::unwrap_or_clone(found)), String::new()),
        // The form is shown again with its input and the error.
        Err(error) if error.code.status() < 500 => (None, crate::page::sentence(&error.message)),
        Err(error) => return Err(error.into()),
    };
    let (agents, total, next) =
        found.map_or((vec![], 0, None), |found| (found.agents, found.total, found.next));
    let mut offers = vec![];
    for found in agents {
        offers.push(offer(&app, found).await?);
    }
    let skills = discover::skills(&app, SkillSearch { after: None, limit: SKILLS }).await?.items;
    let next = next.map(|next| wanted.link(&wanted.skill, &next));
    page(&MarketPage {
        shell: Shell::of(&app, &visitor.person, Here::Market).await?,
        fault,
        skills,
        offers,
        total,
        next,
        wallets: money::wallets(&app, visitor.caller.clone()).await?,
        books: Books::count(&app, visitor.caller.clone()).await?,
        jobs: jobs::open(&app, &visitor).await?,
        wanted,
    })
}

async fn offer(app: &AppState, found: Found) -> Result<OfferRow, Error> {
    let online = found.status == Word::Known(Presence::Online);
    let state = if online { Is::Idle } else { Is::Offline };
    Ok(OfferRow {
        face: Face::agent(&found.agent_id.to_string()).medium().state(state),
        seen: found.last_seen.as_deref().map(|seen| since(app.now(), seen)).unwrap_or_default(),
        online,
        standing: Standing::of(app, found.agent_id, chart::FEW).await?,
        score: format!("{:.2}", found.reputation_score.ten_thousandths() as f64 / 10_000.0),
        hire: format!("/directory/{}/hire{}", found.agent_id, query(&[("skill", &found.skill.skill_name)])),
        found,
    })
}
