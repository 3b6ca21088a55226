//! A person's channels: active and archived ones.

use crate::extract::Query;
use crate::page::{Fault, page, query};
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chorus_app::conversation;
use chorus_node::AppState;
use chorus_protocol::api::channels::{ConversationPage, ConversationView};
use chorus_protocol::ids::ConversationId;
use chorus_protocol::words::{ConversationKind, Word};
use serde::Deserialize;

/// The most channels on a page.
const LIMIT: i64 = 50;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/channels", get(show))
}

struct Row {
    view: ConversationView,
    made: Moment,
    mine: bool,
}

#[derive(Template)]
#[template(path = "channels.html")]
struct ListPage {
    shell: Shell,
    rows: Vec<Row>,
    archived: bool,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Asked {
    archived: Option<String>,
    after: Option<String>,
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    let (archived, me) = (asked.archived.is_some(), visitor.who().to_string());
    let after = asked.after.as_deref().and_then(ConversationId::parse);
    let wanted = ConversationPage { after, limit: LIMIT, archived };
    let found = conversation::list_conversations(&app, visitor.who(), wanted).await?;
    let channels = found.items.into_iter().filter(|one| one.kind == Word::Known(ConversationKind::Channel));
    let row =
        |view: ConversationView| Row { made: Moment::new(&view.created_at), mine: view.owner.id == me, view };
    let which = if archived { "true" } else { "" };
    page(&ListPage {
        shell: Shell::of(&app, &visitor.person, Here::Elsewhere).await?,
        rows: channels.map(row).collect(),
        archived,
        next: found.next.map(|next| query(&[("archived", which), ("after", &next)])),
    })
}
