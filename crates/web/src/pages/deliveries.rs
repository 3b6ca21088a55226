//! Deliveries with their attempts, dead letters and replay: for owners of agents and for the operator.

use crate::extract::Query;
use crate::face::Face;
use crate::form::Form;
use crate::page::{Fault, page, query};
use crate::shell::{Here, Shell};
use crate::times::{Moment, since};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::agents::AgentRef;
use chorus_app::deliveries::{self, Asked};
use chorus_node::audit::RequestContext;
use chorus_node::caller::Caller;
use chorus_node::{AppState, Error};
use chorus_protocol::api::deliveries::{AttemptView, DeliveryView};
use chorus_protocol::words::DeliveryState;
use serde::Deserialize;

/// The most deliveries on a page and in one replay.
const LIMIT: i64 = 50;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/fleet/deliveries", get(show)).route("/fleet/deliveries/replay", post(replay))
}

/// The query that selects deliveries.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    state: Option<String>,
    agent: Option<String>,
    after: Option<String>,
    /// The delivery whose attempts are shown.
    id: Option<String>,
}

#[derive(Template)]
#[template(path = "deliveries.html")]
pub(crate) struct DeliveriesPage {
    shell: Shell,
    /// The path of this page, for its links and forms.
    at: &'static str,
    state: String,
    agent: String,
    rows: Vec<Row>,
    next: Option<String>,
    chosen: Option<Chosen>,
}

struct Row {
    view: DeliveryView,
    name: String,
    face: Face,
    age: String,
    look: &'static str,
    next_try: String,
    link: String,
    replayable: bool,
    word: &'static str,
}

struct Chosen {
    id: String,
    /// The state of the selected delivery, if it is on this page.
    state: Option<DeliveryState>,
    attempts: Vec<Attempt>,
    event: String,
    channel: String,
}

struct Attempt {
    at: Moment,
    view: AttemptView,
}

impl DeliveriesPage {
    fn filters(&self) -> Vec<(String, &'static str, bool)> {
        let all = [
            ("", "All"),
            ("dead", "Dead"),
            ("failed", "Refused"),
            ("waiting", "Waiting"),
            ("queued", "Queued"),
            ("delivered_sse", "Handed to an inbox"),
            ("delivered", "Taken by an endpoint"),
        ];
        let link = |state| query(&[("state", state), ("agent", &self.agent)]);
        all.into_iter().map(|(state, word)| (link(state), word, self.state == state)).collect()
    }
}

/// Builds the page as this caller may see it.
pub(crate) async fn find(
    app: &AppState,
    caller: Caller,
    shell: Shell,
    at: &'static str,
    wanted: Wanted,
) -> Result<DeliveriesPage, Error> {
    let state = wanted.state.as_deref().and_then(DeliveryState::parse);
    let agent = wanted.agent.as_deref().filter(|agent| !agent.is_empty());
    let asked = Asked {
        state,
        agent: agent.map(|agent| AgentRef::parse(app, agent)).transpose()?,
        ..Asked::default()
    };
    let found = deliveries::list(app, caller.clone(), asked, wanted.after.as_deref(), LIMIT).await?;
    let (state, agent) = (
        state.map(|state| state.as_str().to_owned()).unwrap_or_default(),
        agent.unwrap_or_default().to_owned(),
    );
    let chosen = match wanted.id {
        Some(id) => {
            let attempts = deliveries::attempts(app, caller, &id).await?;
            let view = found.items.iter().find(|view| view.id == id);
            let attempts = attempts.into_iter().rev().map(|view| Attempt { at: Moment::new(&view.at), view });
            Some(Chosen {
                event: view.map(|view| view.event_id.clone()).unwrap_or_default(),
                channel: view.map(|view| view.channel.clone()).unwrap_or_default(),
                attempts: attempts.collect(),
                state: view.map(|view| view.state),
                id,
            })
        }
        None => None,
    };
    let row = |view: DeliveryView| {
        let name = view.agent.address.split('@').next().unwrap_or_default().to_owned();
        Row {
            face: Face::agent(&view.agent.id).small(),
            name,
            age: since(app.now(), &view.created_at),
            look: look(view.state),
            next_try: view
                .next_try
                .as_deref()
                .and_then(|next| next.get(11..19))
                .unwrap_or_default()
                .to_owned(),
            link: query(&[("state", &state), ("agent", &agent), ("id", &view.id)]),
            replayable: is_replayable(view.state),
            word: word(view.state),
            view,
        }
    };
    let next = found.next.map(|next| query(&[("state", &state), ("agent", &agent), ("after", &next)]));
    let rows = found.items.into_iter().map(row).collect();
    Ok(DeliveriesPage { shell, at, state, agent, rows, next, chosen })
}

/// Returns the name of a delivery state for people.
fn word(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Delivered => "taken",
        DeliveryState::DeliveredSse => "handed over",
        DeliveryState::Queued => "in its inbox",
        DeliveryState::Failed => "refused",
        DeliveryState::Sending => "being sent",
        DeliveryState::Waiting => "waiting",
        DeliveryState::Dead => "dead",
    }
}

fn is_replayable(state: DeliveryState) -> bool {
    matches!(state, DeliveryState::Dead | DeliveryState::Failed)
}

impl Chosen {
    fn is_replayable(&self) -> bool {
        self.state.is_none_or(is_replayable)
    }

    /// Explains why there are no attempts to show.
    fn untried(&self) -> &'static str {
        match self.state {
            Some(DeliveryState::DeliveredSse) => {
                "It was handed over through the agent's open inbox, which needs no tries."
            }
            Some(DeliveryState::Queued) => {
                "It waits in the agent's inbox until the agent opens it: nothing is tried for that."
            }
            _ => "It was not tried yet.",
        }
    }
}

fn look(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Dead | DeliveryState::Failed => "bad",
        DeliveryState::Waiting | DeliveryState::Sending => "warn",
        DeliveryState::Delivered | DeliveryState::DeliveredSse => "good",
        DeliveryState::Queued => "",
    }
}

/// Replays the selected deliveries, or all dead ones.
pub(crate) async fn try_anew(
    app: &AppState,
    caller: &Caller,
    context: &RequestContext,
    form: &Form,
) -> Result<(), Error> {
    if form.some("all").is_some() {
        let asked = Asked { state: Some(DeliveryState::Dead), ..Asked::default() };
        return deliveries::replay_all(app, caller.clone(), context.clone(), asked).await.map(drop);
    }
    // A delivery that cannot be replayed does not stop the others.
    let mut done = Ok(());
    for id in form.all("id").iter().take(LIMIT as usize) {
        done = done.and(deliveries::replay(app, caller.clone(), context.clone(), id).await.map(drop));
    }
    done
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Fault> {
    let shell = Shell::of(&app, &visitor.person, Here::Fleet).await?;
    page(&find(&app, visitor.caller, shell, "/fleet/deliveries", wanted).await?)
}

async fn replay(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    try_anew(&app, &visitor.caller, &visitor.context, &form).await?;
    Ok(Redirect::to("/fleet/deliveries").into_response())
}
