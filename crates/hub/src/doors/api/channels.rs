//! Conversations: channels and direct ones, and how they are changed.

use super::answers::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use super::consent::{self, Found, Invited, Way, Whom, agent_handle, own_handle, person_handle};
use super::conversation::{
    MAX_BODY, MemberRequest, Name, conversation_id, fields, handle, line, mask, not_of_two, only, text, word,
};
use super::{Items, Written, artifacts, events, members, read, search, stream, value};
use crate::doors::relay::PageQuery;
use crate::error::ApiError;
use crate::extract::By;
use crate::route::{Route, Routes};
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use chorus_app::mail::MAX_ADDRESS;
use chorus_app::usage::{event_bytes, room};
use chorus_app::views::{ConversationView, MemberView};
use chorus_app::{App, AppState};
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::channel::{self, Handle};
use chorus_store::conversations::{self, Conversation, ConversationKind, History};
use chorus_store::{Tx, usage};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Handle as Runtime;
use utoipa::ToSchema;
use utoipa_axum::routes;

/// The longest name and the longest context of a channel, in characters.
const MAX_NAME: usize = 80;
const MAX_CONTEXT: usize = 4000;
/// Who may change a channel.
const OWNERS: &str = "the owner of the channel changes and archives it";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(list, create))
        .at(Route::API, routes!(one, change, archive))
        .at(Route::API, routes!(dm))
        .and(members::routes())
        .and(events::routes())
        .and(stream::routes())
        .and(artifacts::routes())
        .and(search::routes())
}

/// A channel to be made.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct NewChannelBody {
    /// What people call it: one line.
    #[schema(
        min_length = 1,
        max_length = 80,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        example = "release 1.0"
    )]
    name: String,
    /// What it is for, for people and agents.
    #[schema(max_length = 4000)]
    context: Option<String>,
    /// What a member may read: `all` (unless said), or what was said since it `joined`.
    #[schema(pattern = "^(all|joined)$")]
    history: Option<String>,
    /// What its maker is called in it; unless said, a form of its name.
    handle: Option<Name>,
}

/// What is to be changed of a channel.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct ChannelChangeBody {
    /// What people call it: one line.
    #[schema(
        min_length = 1,
        max_length = 80,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    name: Option<String>,
    /// What it is for; an empty text takes it away.
    #[schema(max_length = 4000)]
    context: Option<String>,
    /// What a member may read: `all`, or what was said since it `joined`.
    #[schema(pattern = "^(all|joined)$")]
    history: Option<String>,
    /// The handle of the member that owns it from now on.
    owner: Option<Name>,
}

/// A conversation, and what the caller is in it.
#[derive(Debug, Serialize, ToSchema)]
struct DetailView {
    #[serde(flatten)]
    conversation: ConversationView,
    /// The caller's own membership.
    me: MemberView,
}

fn history(fields: &mut Fields<'_, '_>) -> Option<History> {
    word(fields, "history", &["all", "joined"], |text| text).and_then(History::parse)
}

/// A conversation that was made or changed.
#[derive(Debug, Serialize, ToSchema)]
struct ChangedView {
    #[serde(flatten)]
    conversation: ConversationView,
    /// The kinds of credentials that were masked in its name and its context.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    masked: Vec<&'static str>,
}

impl ChangedView {
    fn new(conversation: &Conversation, masked: &[&'static str]) -> Self {
        Self { conversation: conversation.into(), masked: masked.to_vec() }
    }
}

/// Its name and what it is for, without credentials, and what they were. An empty context is none.
type About = (Option<String>, Option<Option<String>>, Vec<&'static str>);

fn about(fields: &mut Fields<'_, '_>) -> About {
    let (name, mut masked) = line(fields, "name", MAX_NAME).map(mask).unzip();
    let (context, more) = text(fields, "context", 0, MAX_CONTEXT).map(mask).unzip();
    let masked = masked.get_or_insert_default();
    masked.extend(more.unwrap_or_default());
    masked.sort_unstable();
    masked.dedup();
    (name, context.map(|context| Some(context).filter(|context| !context.is_empty())), std::mem::take(masked))
}

/// What a conversation counts of which this is said.
fn said_of(conversation: &Conversation) -> i64 {
    event_bytes(conversation.name.len() + conversation.context.as_ref().map_or(0, String::len))
}

/// Make a channel
///
/// Its maker is its owner and first member.
#[utoipa::path(post, path = "/api/v1/channels", operation_id = "create_channel", tag = "conversations", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = NewChannelBody),
    responses((status = 201, description = "Made", body = ChangedView),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn create(State(app): State<AppState>, request: Request) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let ((name, context, masked), history, handle) = fields(&asked.json()?, |fields| {
        fields.required("name");
        (about(fields), history(fields).unwrap_or(History::All), handle(fields, "handle"))
    })?;
    let act = asked.act(&app, ConversationId(app.sources.uuid_v7()));
    let new = Conversation {
        id: act.conversation,
        kind: ConversationKind::Channel,
        name: name.unwrap_or_default(),
        context: context.flatten(),
        owner: asked.who,
        history,
        created_at: act.now,
        archived_at: None,
    };
    let handle = handle.map_or_else(|| Handle::Like(own_handle(asked.caller())), Handle::Exactly);
    let hub = Arc::clone(&app);
    asked
        .write(&app, move |tx| {
            hub.room_for_channel(tx, act.author)?;
            hub.count_bytes(tx, act.author, said_of(&new) + event_bytes(0))?;
            channel::create(tx, &act, &new, handle.clone())?;
            Ok((StatusCode::CREATED, value(&ChangedView::new(&new, &masked))?))
        })
        .await
}

/// List your conversations
///
/// Those you are a member of, without archived ones.
#[utoipa::path(get, path = "/api/v1/channels", operation_id = "list_channels", tag = "conversations", security(("key" = [])),
    params(("after" = Option<String>, Query, pattern = "^(ch_[0-9a-f]{32})?$", description = "`next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said")),
    responses((status = 200, description = "A page", body = Items<ConversationView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    By(caller): By,
    uri: Uri,
) -> Result<Json<Items<ConversationView>>, ApiError> {
    let (who, query) = (caller.principal()?, PageQuery::parse(&uri)?);
    let after = query.after.map(|after| {
        ConversationId::parse(&after).ok_or_else(|| Faults::one("after", "must be `next` of a page"))
    });
    let (after, limit) = (after.transpose()?, query.limit);
    let mine = read(&app, move |tx| Ok(conversations::of_member(tx, who, after, limit + 1)?)).await?;
    let mine = mine.iter().map(ConversationView::from).collect();
    Ok(Json(super::page(&app, mine, limit, |last: &ConversationView| last.id.clone())))
}

/// Look at a conversation
#[utoipa::path(get, path = "/api/v1/channels/{id}", operation_id = "channel", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of", example = "ch_0190a3c4d5e67f8090a1b2c3d4e5f607")),
    responses((status = 200, description = "The conversation", body = DetailView),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn one(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<DetailView>, ApiError> {
    let (who, id) = (caller.principal()?, conversation_id(&id)?);
    let (conversation, me) = read(&app, move |tx| Ok(channel::look(tx, id, who)?)).await?;
    Ok(Json(DetailView { conversation: (&conversation).into(), me: me.into() }))
}

/// Change a channel
///
/// Its owner may, and hands it on by naming another `owner`.
#[utoipa::path(patch, path = "/api/v1/channels/{id}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = ChannelChangeBody),
    responses((status = 200, description = "As it is now", body = ChangedView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn change(
    State(app): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let ((name, context, masked), history, owner) =
        fields(&asked.json()?, |fields| (about(fields), history(fields), handle(fields, "owner")))?;
    if name.is_none() && context.is_none() && history.is_none() && owner.is_none() {
        return Err(Faults::one("body", "must have a name, a context, a history or an owner").into());
    }
    let act = asked.act(&app, conversation_id(&id)?);
    let (hub, request) = (Arc::clone(&app), asked.request_context());
    asked
        .write(&app, move |tx| {
            let (conversation, _) = channel::enter(tx, act.conversation, act.author)?;
            not_of_two(&conversation)?;
            let changed = channel::change(tx, &act, owner.as_deref(), &|conversation| {
                conversation.name = name.clone().unwrap_or_else(|| conversation.name.clone());
                conversation.context = context.clone().unwrap_or_else(|| conversation.context.clone());
                conversation.history = history.unwrap_or(conversation.history);
            })
            .map_err(only(OWNERS))?;
            hub.count_bytes(tx, act.author, said_of(&changed))?;
            if changed.owner != conversation.owner {
                // It is among those of its new owner by now.
                let used = usage::channels(tx, changed.owner)? - 1;
                room("channels", used, hub.config.quotas.channels)?;
                let (actor, subject) = (Actor::Principal(act.author), Subject::Channel(changed.id));
                let detail = json!({"owner": changed.owner.to_string()});
                request.record_as(tx, &hub, actor, Action::ChannelOwnerChanged, subject, detail)?;
            }
            Ok((StatusCode::OK, value(&ChangedView::new(&changed, &masked))?))
        })
        .await
}

/// Archive a channel
///
/// Its owner may. It can still be read; nothing can be said in it any more.
#[utoipa::path(delete, path = "/api/v1/channels/{id}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of")),
    responses((status = 204, description = "Archived, now or before"),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn archive(
    State(app): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let act = asked.act(&app, conversation_id(&id)?);
    asked
        .write(&app, move |tx| {
            let (conversation, _) = channel::look(tx, act.conversation, act.author)?;
            not_of_two(&conversation)?;
            channel::archive(tx, &act).map_err(only(OWNERS))?;
            Ok((StatusCode::NO_CONTENT, ().into()))
        })
        .await
}

/// Whom to talk to.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct DmBody {
    /// An agent's address or id, or an account's email address or id.
    #[schema(
        max_length = 254,
        pattern = "^([A-Za-z0-9_-][A-Za-z0-9._-]{0,127}|[!-?A-~]+@[!-?A-~]+)$",
        example = "bob@chorus.example"
    )]
    with: String,
}

/// Talk to one agent or person
///
/// The conversation of two is made once, whoever asks first. Everything said in it wakes the other, if that is an agent. A
/// person you share no conversation with is asked first: 202, the same for every address, whether or not somebody has it; the
/// conversation is made when it accepts.
#[utoipa::path(post, path = "/api/v1/dms", tag = "conversations", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = DmBody),
    responses((status = 201, description = "Made", body = ConversationView),
              (status = 200, description = "It was there", body = ConversationView),
              (status = 202, description = "If somebody has this address, it is asked", body = Invited),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn dm(State(app): State<AppState>, request: Request) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let with = fields(&asked.json()?, |fields| {
        let with = fields.required_text("with").unwrap_or_default();
        let whom = Whom::anybody(&app, with);
        if whom.is_none() && !with.is_empty() {
            fields.fault("with", "must be an agent's address or id, or an account's email address or id");
        }
        fields.check_length("with", with, 1, MAX_ADDRESS);
        whom
    })?;
    let with = with.ok_or_else(|| ApiError::internal("nobody, and no fault"))?;
    let (mine, hub, runtime) = (own_handle(asked.caller()), Arc::clone(&app), Runtime::current());
    let asker = asked.request_context().asker();
    // The pair, and so the conversation, is known inside; the rest of what is done is the same for all.
    let (act, second) = (asked.act(&app, ConversationId(asked.who.uuid())), EventId(app.sources.uuid_v7()));
    asked
        .write(&app, move |tx| {
            let person = match with.find(tx)? {
                Found::Agent(agent) => {
                    consent::check_open(tx, act.author, &agent)?;
                    let own = agent_handle(&agent.name);
                    return talk(&hub, tx, &act, second, &mine, (agent.id.into(), own));
                }
                Found::Person(person) => person,
            };
            let (account, invitee) = person.find(tx)?;
            let way = consent::way(tx, act.author, account.as_ref())?;
            let id = account.as_ref().map_or(act.author, |account| account.id.into());
            let known = conversations::by_id(tx, ConversationId::of_pair(act.author, id))?.is_some();
            match (way, account) {
                (Way::Asked { hidden }, account) if account.is_none() || !known => {
                    let new = consent::invitation(&act);
                    consent::invite((&hub, &runtime, asker), tx, &act, &new, &invitee, hidden)
                }
                (_, Some(account)) => {
                    let own = person_handle(&account.name, &account.email);
                    talk(&hub, tx, &act, second, &mine, (account.id.into(), own))
                }
                (_, None) => Err(ApiError::internal("nobody cannot be talked to")),
            }
        })
        .await
}

/// The conversation of two: the one who acts, called `mine`, and another, who is called so where nobody says.
fn talk(
    app: &App,
    tx: &mut dyn Tx,
    act: &channel::Act,
    second: EventId,
    mine: &str,
    (other, handle): (Principal, String),
) -> Result<Written, ApiError> {
    if other == act.author {
        return Err(Faults::one("with", "must be somebody else").into());
    }
    let (conversation, made) = consent::pair((app, act.author), tx, act, second, mine, (other, &handle))?;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, value(&ConversationView::from(&conversation))?))
}
