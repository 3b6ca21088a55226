//! The first page: an introduction to this hub and the next steps. A signed-in person with channels sees the
//! current activity.

use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::visitor::person;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use chorus_app::agents;
use chorus_app::conversation::{At, Filter, Kinds, conversation_id, read_events};
use chorus_app::health_report::{self, HealthReader};
use chorus_node::caller::Person;
use chorus_node::{AppState, Error};
use chorus_protocol::words::{EventKind, PrincipalKind, Word};

/// The number of conversations, and of events in each, that are searched for a message by an agent.
const LOOKED_INTO: usize = 5;
const LOOKED_BACK: i64 = 20;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/", get(first))
}

#[derive(Template)]
#[template(path = "first.html")]
struct First {
    shell: Shell,
    url: String,
    agents: i64,
    open: usize,
    /// The duration of a checked write in milliseconds; `None` if the check failed.
    write_ms: Option<u64>,
    name: Option<String>,
    /// True if an agent has posted in one of this person's conversations.
    answered: bool,
}

impl First {
    /// Returns the steps of setting up, each with whether it is done.
    fn steps(&self) -> Vec<(bool, &'static str)> {
        let signed_in = self.shell.person.is_some();
        let mut steps = vec![
            (true, "Hub runs"),
            (signed_in, if signed_in { "You are signed in" } else { "Sign in" }),
            (self.agents > 0, if self.agents > 0 { "First agent" } else { "Waiting for the first agent" }),
            (!self.shell.channels.is_empty(), "First channel"),
        ];
        // Messages are visible to signed-in people only.
        if signed_in {
            steps.push((self.answered, "First answer"));
        }
        steps
    }

    /// Returns whether this is the first step that is not done.
    fn is_next(&self, words: &str) -> bool {
        self.steps().iter().find(|(done, _)| !done).is_some_and(|(_, next)| *next == words)
    }
}

async fn first(State(app): State<AppState>, headers: HeaderMap) -> Result<Response, Fault> {
    let person = person(&app, &headers).await?;
    let agents = agents::count(&app).await?;
    let health = health_report::report(&app, HealthReader::Public).await.ok();
    let shell = Shell::maybe_of(&app, person.as_ref(), Here::First).await?;
    let answered = match &person {
        Some(person) => is_answered(&app, person, &shell).await?,
        None => true,
    };
    page(&First {
        shell,
        answered,
        url: app.config.public_url.clone(),
        agents,
        open: app.transport.live.open_inboxes(),
        write_ms: health.map(|health| health.store.write_latency_ms),
        name: person.map(|person| person.name),
    })
}

/// Returns whether an agent has recently posted in one of this person's conversations.
async fn is_answered(app: &AppState, person: &Person, shell: &Shell) -> Result<bool, Error> {
    for entry in shell.channels.iter().chain(&shell.direct).take(LOOKED_INTO) {
        let filter = Filter { thread: None, kinds: Kinds::Only(EventKind::Message) };
        let (id, at) = (conversation_id(&entry.id)?, At::Before(i64::MAX));
        let log = read_events(app, person.id.into(), id, filter, at, LOOKED_BACK).await?;
        if log.items.iter().any(|event| event.author.kind == Word::Known(PrincipalKind::Agent)) {
            return Ok(true);
        }
    }
    Ok(false)
}
