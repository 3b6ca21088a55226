//! The account page: name, tokens, invitations, sessions and deletion.

use crate::cookies::{no_cookie, session_cookie};
use crate::extract::Path;
use crate::form::{Form, body, number};
use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::accounts;
use chorus_node::caller::Caller;
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::api::accounts::{
    AccountChange, Deletion, Line, NewSignUpCode, NewToken, Quota, TokenPage,
};
use chorus_protocol::api::agents::{AgentSearch, AgentView};
use chorus_protocol::ids::CredentialId;
use serde_json::json;

/// The longest label, in characters.
const MAX_LABEL: usize = 100;
/// The most tokens and agents on the page.
const LIMIT: i64 = 100;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/account", get(show).post(change))
        .route("/account/delete", post(delete))
        .route("/tokens", post(make_token))
        .route("/tokens/{id}/revoke", post(revoke_token))
        .route("/invitations", post(invite))
        .route("/invitations/{id}/revoke", post(revoke_invitation))
        .route("/signout", post(leave))
        .route("/signout/elsewhere", post(leave_elsewhere))
}

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage {
    shell: Shell,
    name: String,
    email: String,
    tokens: Vec<Token>,
    agents: Vec<AgentView>,
    quotas: Vec<(String, Quota)>,
    mails: bool,
    may_invite: bool,
    invitations: Vec<Invitation>,
}

/// An unused sign-up invitation.
pub(super) struct Invitation {
    pub(super) id: String,
    pub(super) email: Option<String>,
    pub(super) made: Moment,
    pub(super) until: Option<Moment>,
}

/// Returns the caller's invitations; for the operator, everybody's.
pub(super) async fn invitations(app: &AppState, caller: &Caller) -> Result<Vec<Invitation>, Error> {
    let found = accounts::list_sign_up_codes(app, caller, TokenPage { after: None, limit: LIMIT }).await?;
    let shown = found.items.into_iter().map(|one| Invitation {
        id: one.id.to_string(),
        email: one.email,
        made: Moment::new(&one.created_at),
        until: one.expires_at.as_deref().map(Moment::new),
    });
    Ok(shown.collect())
}

struct Token {
    id: String,
    label: String,
    made: Moment,
}

/// A page with secrets that are shown only once.
#[derive(Template)]
#[template(path = "secret.html")]
pub(crate) struct Secret {
    pub(crate) shell: Shell,
    pub(crate) title: String,
    pub(crate) lead: String,
    /// Pairs of label and secret.
    pub(crate) secrets: Vec<(&'static str, String)>,
    pub(crate) back: String,
}

async fn show(State(app): State<AppState>, visitor: SignedIn) -> Result<Response, Fault> {
    let me = accounts::me(&app, visitor.caller.clone()).await?;
    let asked = TokenPage { after: None, limit: LIMIT };
    let tokens = accounts::list_tokens(&app, visitor.person.id, asked).await?.items;
    let mine = AgentSearch { after: None, limit: LIMIT, q: None, online: None, mine: true };
    let agents = chorus_app::agents::list(&app, &visitor.caller, mine).await?.items;
    let token = |token: chorus_protocol::api::accounts::Token| Token {
        id: token.id.to_string(),
        label: token.label,
        made: Moment::new(&token.created_at),
    };
    page(&AccountPage {
        shell: Shell::of(&app, &visitor.person, Here::Account).await?,
        mails: me.mails.unwrap_or_default(),
        invitations: invitations(&app, &visitor.caller).await?,
        name: visitor.person.name,
        email: visitor.person.email,
        tokens: tokens.into_iter().map(token).collect(),
        agents,
        quotas: me.quotas.into_iter().collect(),
        may_invite: app.config.signup != chorus_node::Signup::Closed,
    })
}

/// Creates a token with this label.
async fn make_token(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let label = form.text("label");
    let label: String = label.chars().filter(|c| !c.is_control()).take(MAX_LABEL).collect();
    let label = Line(if label.is_empty() { "command line".to_owned() } else { label });
    let SignedIn { person, context, .. } = visitor;
    let made = accounts::make_token(&app, context, person.id, NewToken { label }, Once::NO_KEY).await?.result;
    let url = &app.config.public_url;
    page(&Secret {
        shell: Shell::of(&app, &person, Here::Account).await?,
        title: "Your token".into(),
        lead: format!(
            "This is “{}”. It speaks for your account, and is shown this once: keep it where you keep passwords.",
            made.label
        ),
        secrets: vec![
            ("In a shell", format!("export CHORUS_URL={url}\nexport CHORUS_KEY={}", made.token)),
            (
                "Then",
                "chorus channel create ops --context 'Where operations are coordinated'\nchorus channel join CHANNEL \
                 --agent alice\nchorus channel say CHANNEL '@alice hello'\nchorus channel follow CHANNEL"
                    .into(),
            ),
        ],
        back: "/account".into(),
    })
}

async fn revoke_token(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let id = CredentialId::parse(&id).ok_or_else(|| Error::not_found("token"))?;
    accounts::revoke_token(&app, visitor.context, visitor.person.id, id).await?;
    Ok(Redirect::to("/account").into_response())
}

/// Creates a sign-up code, for anybody or for one address.
async fn invite(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let SignedIn { person, context, caller } = visitor;
    let days = form.some("days").map(|days| number("days", &days)).transpose()?;
    let new: NewSignUpCode = body(json!({"email": form.some("email"), "days": days}))?;
    let made = accounts::make_sign_up_code(&app, context, caller, new, Once::NO_KEY).await?.result;
    page(&Secret {
        shell: Shell::of(&app, &person, Here::Account).await?,
        title: "Your invitation".into(),
        lead: format!(
            "Whoever opens this link can have an account here, once, until {}.",
            made.expires_at.get(..10).unwrap_or_default()
        ),
        secrets: vec![("The link", made.url)],
        back: "/account".into(),
    })
}

async fn revoke_invitation(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let id = CredentialId::parse(&id).ok_or_else(|| Error::not_found("invitation"))?;
    accounts::revoke_sign_up_code(&app, visitor.context, visitor.caller, id).await?;
    Ok(Redirect::to("/account").into_response())
}

/// Changes the person's name and the mail setting.
async fn change(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let change: AccountChange =
        body(json!({"name": form.text("name"), "mails": form.some("mails").is_some()}))?;
    accounts::change_me(&app, visitor.person, change).await?;
    Ok(Redirect::to("/account").into_response())
}

/// Deletes the account after its email address was typed as confirmation.
async fn delete(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let deletion = Deletion { confirm: form.text("confirm") };
    accounts::delete_me(&app, visitor.context, visitor.person, deletion).await?;
    Ok(([(header::SET_COOKIE, no_cookie(&app)?)], Redirect::to("/")).into_response())
}

/// Signs this browser out. It also works after the session has expired.
async fn leave(
    State(app): State<AppState>,
    crate::visitor::Context(context): crate::visitor::Context,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    if let Some(session) = session_cookie(&headers) {
        accounts::end_session(&app, context, session).await?;
    }
    Ok(([(header::SET_COOKIE, no_cookie(&app)?)], Redirect::to("/")).into_response())
}

/// Signs out all other browsers.
async fn leave_elsewhere(
    State(app): State<AppState>,
    visitor: SignedIn,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let own = session_cookie(&headers).map(chorus_node::caller::key_hash);
    accounts::end_other_sessions(&app, visitor.context, visitor.person.id, own, false).await?;
    Ok(Redirect::to("/account").into_response())
}
