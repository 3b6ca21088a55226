//! The settings of a channel: name, purpose, rules, members' roles, owner and archiving.
//!
//! Every change is a form that works without a script. The acts check permissions; the page offers only
//! permitted changes.

use super::Place;
use crate::extract::{Path, Query};
use crate::face::Face;
use crate::form::{Form, body, number};
use crate::page::{Fault, Saved, fault_page, page, refused};
use crate::shell::{Here, Shell};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::conversation::{self, LONGEST_TASK_MS, MemberPath, USUAL_LOOP_TURNS, conversation_id};
use chorus_node::idempotency::Once;
use chorus_node::{App, AppState, Error};
use chorus_protocol::api::channels::{ChannelChange, ConversationDetail};
use chorus_protocol::api::members::MemberChange;
use chorus_protocol::words::{ConversationKind, History, PrincipalKind, Signal, Word};
use serde_json::{Map, Value, json};

/// A minute, in milliseconds.
const MINUTE_MS: i64 = 60_000;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/c/{id}/settings", get(show).post(change))
        .route("/c/{id}/settings/members/{handle}", post(change_member))
        .route("/c/{id}/settings/{act}", post(act))
}

/// The values of the form: the saved ones, or rejected input.
struct Fields {
    name: String,
    context: String,
    joined: bool,
    keep_days: String,
    loop_guard: String,
    /// In minutes.
    longest_task: String,
    /// Each signal with its glyph.
    glyphs: Vec<(&'static str, String)>,
}

impl Fields {
    fn of(place: &ConversationDetail) -> Self {
        let place = &place.conversation;
        let glyphs = place.glyphs.clone().unwrap_or_default();
        Self {
            name: place.name.clone(),
            context: place.context.clone().unwrap_or_default(),
            joined: place.history == Word::Known(History::Joined),
            keep_days: place.keep_days.map(|days| days.to_string()).unwrap_or_default(),
            loop_guard: place.loop_guard.unwrap_or(USUAL_LOOP_TURNS.into()).to_string(),
            longest_task: ((place.longest_task_ms.unwrap_or(LONGEST_TASK_MS) + MINUTE_MS - 1) / MINUTE_MS)
                .to_string(),
            glyphs: Signal::ALL.iter().map(|one| (one.as_str(), glyphs.of(*one).to_owned())).collect(),
        }
    }

    /// Returns the fields with the values of a submitted form.
    fn typed(mut self, form: &Form) -> Self {
        let Self { name, context, keep_days, loop_guard, longest_task, .. } = &mut self;
        let fields = [
            ("name", name),
            ("context", context),
            ("keep_days", keep_days),
            ("loop_guard", loop_guard),
            ("longest_task", longest_task),
        ];
        for (field, value) in fields {
            *value = form.given(field).unwrap_or_else(|| std::mem::take(value));
        }
        self.joined =
            form.given("history").map_or(self.joined, |history| history == History::Joined.as_str());
        for (signal, glyph) in &mut self.glyphs {
            *glyph = form.given(&format!("glyph.{signal}")).unwrap_or_else(|| std::mem::take(glyph));
        }
        self
    }
}

/// A member and its editable settings.
struct Part {
    handle: String,
    face: Face,
    roles: String,
    lead: bool,
    is_me: bool,
    is_owner: bool,
}

#[derive(Template)]
#[template(path = "channel_settings.html")]
struct SettingsPage {
    shell: Shell,
    id: String,
    place: ConversationDetail,
    fields: Fields,
    members: Vec<Part>,
    /// True if the visitor owns the channel.
    owns: bool,
    leads: bool,
    /// The owner's handle, if the owner is still a member.
    owner: Option<String>,
    /// The days for which this hub keeps messages; `None` if it keeps them for ever.
    hub_days: Option<u64>,
    saved: bool,
    fault: String,
}

impl SettingsPage {
    /// Returns whether the visitor may change the settings: the owner may, until the channel is archived.
    fn may_change(&self) -> bool {
        self.owns && !self.place.conversation.archived
    }
}

async fn prepare(app: &App, visitor: &SignedIn, id: &str) -> Result<SettingsPage, Error> {
    let Place { detail, members, .. } = Place::find(app, visitor, id).await?;
    if detail.conversation.kind != Word::Known(ConversationKind::Channel) {
        return Err(Error::not_found("channel"));
    }
    let owner = &detail.conversation.owner.id;
    let parts = members.into_iter().map(|one| {
        let is_agent = one.kind == Word::Known(PrincipalKind::Agent);
        Part {
            face: Face::of(is_agent, &one.id, &one.handle).medium(),
            roles: one.roles.join(" "),
            lead: one.lead,
            is_me: one.handle == detail.me.handle,
            is_owner: one.id == *owner,
            handle: one.handle,
        }
    });
    let members: Vec<_> = parts.collect();
    let owns = *owner == visitor.who().to_string();
    Ok(SettingsPage {
        shell: Shell::of(app, &visitor.person, Here::Conversation(id.to_owned())).await?,
        id: id.to_owned(),
        fields: Fields::of(&detail),
        owner: members.iter().find(|one| one.is_owner).map(|one| one.handle.clone()),
        members,
        owns,
        leads: owns || detail.me.lead,
        hub_days: app.config.retention.map(|keep| keep.as_secs() / 86_400),
        place: detail,
        saved: false,
        fault: String::new(),
    })
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    Query(saved): Query<Saved>,
) -> Result<Response, Fault> {
    let shown = prepare(&app, &visitor, &id).await?;
    page(&SettingsPage { saved: saved.is_told(), ..shown })
}

/// Returns to the settings: saved, or with the input and the error.
async fn answer(
    app: &AppState,
    visitor: &SignedIn,
    id: &str,
    done: Result<(), Error>,
    form: &Form,
) -> Result<Response, Fault> {
    let Err(error) = done else {
        return Ok(Redirect::to(&format!("/c/{id}/settings?told=saved")).into_response());
    };
    let (status, fault) = refused(error)?;
    let shown = prepare(app, visitor, id).await?;
    let fields = Fields::of(&shown.place).typed(form);
    fault_page(status, &SettingsPage { fields, fault, ..shown })
}

async fn change(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let (place, who, context) = (conversation_id(&id)?, visitor.who(), visitor.context.clone());
    let done = match read(&form) {
        Ok(change) => conversation::change_channel(&app, who, place, context, change, Once::NO_KEY).await,
        Err(error) => Err(error),
    };
    answer(&app, &visitor, &id, done.map(drop), &form).await
}

/// Reads the fields that the form has.
fn read(form: &Form) -> Result<ChannelChange, Error> {
    let mut said = Map::new();
    for name in ["name", "context", "history", "owner"] {
        if let Some(text) = form.given(name) {
            said.insert(name.to_owned(), text.into());
        }
    }
    // An empty field means the hub's own retention, or the default number of turns.
    for (name, usual) in [("keep_days", 0), ("loop_guard", USUAL_LOOP_TURNS.into())] {
        if let Some(text) = form.given(name) {
            let count = if text.is_empty() { usual } else { number(name, &text)? };
            said.insert(name.to_owned(), count.into());
        }
    }
    if let Some(text) = form.given("longest_task") {
        let minutes = if text.is_empty() { 0 } else { number("longest_task", &text)? };
        said.insert("longest_task_ms".to_owned(), minutes.saturating_mul(MINUTE_MS).into());
    }
    let glyph = |signal: &Signal| {
        let glyph = form.some(&format!("glyph.{}", signal.as_str()))?;
        Some((signal.as_str().to_owned(), Value::from(glyph)))
    };
    let glyphs: Map<_, _> = Signal::ALL.iter().filter_map(glyph).collect();
    if form.given("glyph.seen").is_some() {
        said.insert("glyphs".to_owned(), glyphs.into());
    }
    body(said.into())
}

async fn change_member(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, handle)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Fault> {
    let member = MemberPath { conversation: conversation_id(&id)?, handle };
    let (who, context) = (visitor.who(), visitor.context.clone());
    let done = match read_member(&form) {
        Ok(change) => conversation::change_member(&app, who, member, context, change, Once::NO_KEY).await,
        Err(error) => Err(error),
    };
    answer(&app, &visitor, &id, done.map(drop), &form).await
}

/// Reads a member's new handle, roles and lead flag. Roles and flag change only if the form asks for them.
fn read_member(form: &Form) -> Result<MemberChange, Error> {
    let mut said = json!({"handle": form.text("handle")});
    if let Some(roles) = form.given("roles") {
        let roles = roles.split([',', ' ']).filter(|role| !role.is_empty());
        said["roles"] = roles.collect::<Vec<_>>().into();
    }
    if form.some("asks_lead").is_some() {
        said["lead"] = form.some("lead").is_some().into();
    }
    body(said)
}

async fn act(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, act)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Fault> {
    let (place, who) = (conversation_id(&id)?, visitor.who());
    let done = match &*act {
        "archive" => conversation::archive(&app, who, place, Once::NO_KEY).await.map(drop),
        "restore" => conversation::restore(&app, who, place, Once::NO_KEY).await.map(drop),
        "leave" => {
            let handle = conversation::look_at(&app, who, place).await?.me.handle;
            let (me, context) = (MemberPath { conversation: place, handle }, visitor.context.clone());
            let left = conversation::remove_member(&app, who, me, context, Once::NO_KEY).await;
            if left.is_ok() {
                return Ok(Redirect::to("/channels").into_response());
            }
            left.map(drop)
        }
        _ => return Err(Error::not_found("page").into()),
    };
    answer(&app, &visitor, &id, done, &form).await
}
