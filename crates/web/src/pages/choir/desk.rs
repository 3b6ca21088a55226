//! Who works on a Score, and from where: its owner, or whoever holds its edit link. Both have the same pages, each under its own
//! address; an edit link can also be claimed.

use crate::extract::Path;
use crate::page::Fault;
use crate::shell::{Here, Shell};
use crate::visitor::{Asking, Context, SignedIn, person};
use axum::Router;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use chorus_app::audit::RequestContext;
use chorus_app::authenticate::look_up;
use chorus_app::caller::{Caller, Person, Shown};
use chorus_app::choir::scores;
use chorus_app::once::Once;
use chorus_app::{App, AppState, Error};
use chorus_protocol::api::scores::ClaimBody;
use chorus_protocol::code::Code;
use serde::Deserialize;

#[derive(Deserialize)]
struct Place {
    id: String,
    #[serde(default)]
    link: Option<String>,
}

/// Somebody at a Score.
pub(super) struct Desk {
    pub(super) caller: Caller,
    pub(super) context: RequestContext,
    /// The Score's id, as the address has it.
    pub(super) id: String,
    /// Where its pages are.
    pub(super) base: String,
    /// Who is signed in, if anybody is.
    pub(super) person: Option<Person>,
    /// Whether it is an edit link that opened this.
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
        // Of the id and the link as they were found, so that nothing else gets into addresses.
        let base = format!("/scores/{id}/edit/{link}");
        Ok(Self { caller, context, id, base, person, by_link: true })
    }
}

/// Whoever holds this link of this Score. Any other link, and one that was claimed, opens nothing.
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

    /// To one of the Score's pages.
    pub(super) fn go(&self, rest: &str) -> Response {
        Redirect::to(&format!("{}{rest}", self.base)).into_response()
    }

    /// Whether the button for claiming is there.
    pub(super) fn may_claim(&self) -> bool {
        self.by_link && self.person.is_some()
    }
}

pub(crate) fn claim_routes() -> Router<AppState> {
    Router::new().route("/scores/{id}/edit/{link}/claim", post(claim))
}

/// The Score becomes the account's own, once and for all.
async fn claim(State(app): State<AppState>, desk: Desk) -> Result<Response, Fault> {
    let person = desk.person.ok_or_else(|| Error::unauthorized("sign in to claim it"))?;
    let edit_link = desk.base.clone();
    let body = ClaimBody { edit_link };
    let made = scores::claim(&app, desk.context, person.id, &desk.id, body, Once::NO_KEY).await?.result;
    Ok(Redirect::to(&format!("/scores/{}", made.score_id)).into_response())
}

/// Who asks, for what somebody without a Score may do too: make one. Where the hub allows it, that is anybody.
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
