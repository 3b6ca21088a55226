//! Access to a Score: by its owner, or by the holder of its edit link. Both have the same pages under
//! different addresses. An edit link can also be claimed.

use crate::extract::Path;
use crate::page::Fault;
use crate::shell::{Here, Shell};
use crate::visitor::{Asking, Context, SignedIn, person};
use axum::Router;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use chorus_app::choir::scores;
use chorus_node::audit::RequestContext;
use chorus_node::authentication::look_up;
use chorus_node::caller::{Caller, Person, Shown};
use chorus_node::idempotency::Once;
use chorus_node::{App, AppState, Error};
use chorus_protocol::api::scores::ClaimBody;
use chorus_protocol::code::Code;
use serde::Deserialize;

#[derive(Deserialize)]
struct Place {
    id: String,
    #[serde(default)]
    link: Option<String>,
}

/// A visitor who may edit a Score.
pub(super) struct Desk {
    pub(super) caller: Caller,
    pub(super) context: RequestContext,
    /// The Score's id as in the address.
    pub(super) id: String,
    /// The path of the Score's pages.
    pub(super) base: String,
    /// The signed-in person, if any.
    pub(super) person: Option<Person>,
    /// True if access is by an edit link.
    pub(super) by_link: bool,
}

impl FromRequestParts<AppState> for Desk {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Fault> {
        let Path(Place { id, link }) = Path::from_request_parts(parts, app).await?;
        let Some(link) = link else {
            let SignedIn { person, caller, context } = SignedIn::from_request_parts(parts, app).await?;
            let base = format!("/scores/{id}");
            return Ok(Self { caller, context, id, base, person: Some(person), by_link: false });
        };
        let Context(context) = Context::from_request_parts(parts, app).await?;
        let caller = holder(app, &id, &link).await?;
        let person = person(app, &parts.headers).await?;
        // The path is built from the stored id and link, so that no other text gets into addresses.
        let base = format!("/scores/{id}/edit/{link}");
        Ok(Self { caller, context, id, base, person, by_link: true })
    }
}

/// Returns the caller that holds this edit link. A wrong or a claimed link is an error.
async fn holder(app: &App, id: &str, link: &str) -> Result<Caller, Error> {
    let missing = || Error::not_found("unclaimed Score with this edit link");
    let caller = match look_up(app, &Shown::key(link)).await {
        Err(error) if matches!(error.code, Code::Unauthorized | Code::Forbidden) => return Err(missing()),
        found => found?,
    };
    match caller {
        Caller::EditLink(score) if score.to_string() == id => Ok(caller),
        _ => Err(missing()),
    }
}

impl Desk {
    pub(super) async fn shell(&self, app: &App) -> Result<Shell, Error> {
        Shell::maybe_of(app, self.person.as_ref(), Here::Scores).await
    }

    /// Redirects to one of the Score's pages.
    pub(super) fn go(&self, rest: &str) -> Response {
        Redirect::to(&format!("{}{rest}", self.base)).into_response()
    }

    /// Returns whether the page offers to claim the Score.
    pub(super) fn may_claim(&self) -> bool {
        self.by_link && self.person.is_some()
    }
}

pub(crate) fn claim_routes() -> Router<AppState> {
    Router::new().route("/scores/{id}/edit/{link}/claim", post(claim))
}

/// Makes the signed-in account the permanent owner of the Score.
async fn claim(State(app): State<AppState>, desk: Desk) -> Result<Response, Fault> {
    let person = desk.person.ok_or_else(|| Error::unauthorized("sign in to claim it"))?;
    let edit_link = desk.base.clone();
    let body = ClaimBody { edit_link };
    let made = scores::claim(&app, desk.context, person.id, &desk.id, body, Once::NO_KEY).await?.result;
    Ok(Redirect::to(&format!("/scores/{}", made.score_id)).into_response())
}

/// A caller who may create a Score. On hubs that allow it, anybody may.
pub(super) struct Composer {
    pub(super) caller: Caller,
    pub(super) context: RequestContext,
    pub(super) person: Option<Person>,
}

impl FromRequestParts<AppState> for Composer {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Fault> {
        let Context(context) = Context::from_request_parts(parts, app).await?;
        let Asking(caller) = Asking::from_request_parts(parts, app).await?;
        let anonymous = caller == Caller::Nobody && app.config.anonymous_scores;
        let person = if anonymous { None } else { Some(caller.person()?.clone()) };
        Ok(Self { caller, context, person })
    }
}
