//! What the caller was invited to, and what it says to that.

use super::answers::{Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, Unknown};
use super::blocks::keep_out;
use super::consent::{self, agent_handle, person_handle};
use super::conversation::act_in;
use super::{Items, not_found, read};
use crate::doors::relay::PageQuery;
use crate::error::ApiError;
use crate::extract::By;
use crate::route::{Route, Routes};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use chorus_app::caller::Person;
use chorus_app::views::{ConversationView, PrincipalView};
use chorus_app::{App, AppState};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{BlockId, ConversationId, EventId, InvitationId, Principal, TraceId};
use chorus_protocol::relay::Code;
use chorus_protocol::time::rfc3339;
use chorus_store::blocks::{self, Block, Blocked};
use chorus_store::channel::{self, Act, ChannelError, Handle, Newcomer};
use chorus_store::conversations::{self, Conversation};
use chorus_store::invitations::{self, Invitation};
use chorus_store::{StoreError, Tx, accounts, directory};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(list))
        .at(Route::API, routes!(accept))
        .at(Route::API, routes!(decline))
        .at(Route::API, routes!(block))
}

/// An invitation.
#[derive(Debug, Serialize, ToSchema)]
struct InvitationView {
    /// Its id.
    #[schema(example = "inv_0190a3c4d5e67f8090a1b2c3d4e5f607")]
    id: String,
    /// Into what: `channel`, or `dm` for a conversation of two.
    kind: &'static str,
    /// Who invites.
    from: InviterView,
    /// What people call the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// What you are to do there.
    roles: Vec<String>,
    /// Whether you are to answer for the others.
    lead: bool,
    /// When it was made.
    created_at: String,
    /// When it ends.
    expires_at: String,
}

/// Who invites.
#[derive(Debug, Serialize, ToSchema)]
struct InviterView {
    #[serde(flatten)]
    who: PrincipalView,
    /// What a person is called; the address of an agent.
    name: String,
}

/// What somebody who invites is called: in a list, and as a member.
fn names(app: &App, tx: &mut dyn Tx, who: Principal) -> Result<Option<(String, String)>, StoreError> {
    Ok(match who {
        Principal::Agent(id) => {
            directory::by_id(tx, id)?.map(|agent| (app.address(&agent.name), agent_handle(&agent.name)))
        }
        Principal::Account(id) => accounts::by_id(tx, id)?.map(|account| {
            let handle = person_handle(&account.name, &account.email);
            (account.name, handle)
        }),
    })
}

/// An invitation as its invitee sees it, unless nothing can come of it.
fn view(
    app: &App,
    tx: &mut dyn Tx,
    person: &Person,
    invitation: &Invitation,
) -> Result<Option<InvitationView>, StoreError> {
    if blocks::keeps_out(tx, person.id.into(), invitation.inviter)? {
        return Ok(None);
    }
    let Some((name, _)) = names(app, tx, invitation.inviter)? else { return Ok(None) };
    let channel = match invitation.conversation {
        Some(id) => match conversations::by_id(tx, id)?.filter(|channel| channel.archived_at.is_none()) {
            Some(channel) => Some(channel.name),
            None => return Ok(None),
        },
        None => None,
    };
    Ok(Some(InvitationView {
        id: invitation.id.to_string(),
        kind: if channel.is_some() { "channel" } else { "dm" },
        from: InviterView { who: invitation.inviter.into(), name },
        channel,
        roles: invitation.roles.clone(),
        lead: invitation.lead,
        created_at: rfc3339(invitation.created_at),
        expires_at: rfc3339(invitation.expires_at()),
    }))
}

/// List what you are invited to
///
/// Oldest first. An invitation ends after 30 days.
#[utoipa::path(get, path = "/api/v1/me/invitations", operation_id = "list_invitations", tag = "people", security(("key" = [])),
    params(("after" = Option<String>, Query, pattern = "^(inv_[0-9a-f]{32})?$", description = "`next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said")),
    responses((status = 200, description = "A page", body = Items<InvitationView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    By(caller): By,
    uri: Uri,
) -> Result<Json<Items<InvitationView>>, ApiError> {
    let (person, PageQuery { after, limit }) = (caller.person()?.clone(), PageQuery::parse(&uri)?);
    let after = after.map(|text| {
        InvitationId::parse(&text).ok_or_else(|| Faults::one("after", "must be `next` of a page"))
    });
    let (after, now, hub) = (after.transpose()?, app.now(), Arc::clone(&app));
    let page = read(&app, move |tx| {
        let mut found = invitations::page(tx, invitee(&person), after, now, limit + 1)?;
        let more = found.len() as i64 > limit;
        found.truncate(limit as usize);
        let next = found.last().filter(|_| more).map(|last| last.id.to_string());
        let mut shown = vec![];
        for invitation in &found {
            shown.extend(view(&hub, tx, &person, invitation)?);
        }
        Ok((shown, next))
    });
    let (shown, next) = page.await?;
    Ok(Json(super::fitting(&app, shown, next, |last: &InvitationView| last.id.clone())))
}

fn invitee(person: &Person) -> invitations::Person<'_> {
    invitations::Person { id: person.id, email: &person.email }
}

/// The open invitation of this person that a path names.
fn find(tx: &mut dyn Tx, person: &Person, id: &str, now: i64) -> Result<Invitation, ApiError> {
    let id = InvitationId::parse(id);
    let found = id.map_or(Ok(None), |id| invitations::open(tx, invitee(person), id, now))?;
    found.ok_or_else(|| not_found("invitation"))
}

/// Accept an invitation
///
/// You are a member from now on: of the channel, as you were asked for, if that is still possible; or of the conversation of
/// two, which is made by this.
#[utoipa::path(post, path = "/api/v1/me/invitations/{id}/accept", operation_id = "accept_invitation", tag = "people", security(("key" = [])),
    params(("id" = String, Path, pattern = "^inv_[0-9a-f]{32}$", description = "The invitation's id")),
    responses((status = 200, description = "The conversation you are in", body = ConversationView),
              Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
async fn accept(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<ConversationView>, ApiError> {
    let person = caller.person()?.clone();
    // In which conversation is known inside.
    let act_of = act_in(&app, ConversationId(person.id.0));
    let (second, hub) = (EventId(app.sources.uuid_v7()), Arc::clone(&app));
    let work = move |tx: &mut dyn Tx| {
        let act = act_of(person.id.into());
        let invitation = find(tx, &person, &id, act.now)?;
        // Of two who accept at the same time one comes first.
        if !invitations::remove(tx, invitee(&person), &invitation)? {
            return Err(not_found("invitation"));
        }
        if blocks::keeps_out(tx, person.id.into(), invitation.inviter)? {
            return Err(not_found("invitation"));
        }
        if let Some(channel) = invitation.conversation {
            return join(&hub, tx, &act, &person, &invitation, channel);
        }
        let (_, theirs) = names(&hub, tx, invitation.inviter)?.ok_or_else(over)?;
        // It is the inviter's, as if it had been made when it was asked for, and counts for whoever accepts.
        let act = Act { author: invitation.inviter, ..act };
        let (me, mine) = (Principal::from(person.id), person_handle(&person.name, &person.email));
        Ok(consent::pair((&hub, me), tx, &act, second, &theirs, (me, &mine))?.0)
    };
    let conversation = app.store.write::<_, ApiError, _>(work).await?;
    Ok(Json(ConversationView::from(&conversation)))
}

fn over() -> ApiError {
    ApiError::new(
        Code::Conflict,
        "nothing can come of this invitation any more: whoever made it may not let you in",
    )
}

/// Makes an invitee a member, if its inviter may still add members.
fn join(
    app: &App,
    tx: &mut dyn Tx,
    act: &Act,
    person: &Person,
    invitation: &Invitation,
    channel: ConversationId,
) -> Result<Conversation, ApiError> {
    let conversation = channel::may_add(tx, channel, invitation.inviter).map_err(|error| match error {
        ChannelError::Store(error) => error.into(),
        _ => over(),
    })?;
    let wanted = invitation.handle.clone().unwrap_or_else(|| person_handle(&person.name, &person.email));
    let new = Newcomer {
        principal: person.id.into(),
        // What it was to be called may be taken by now.
        handle: Handle::Like(wanted),
        roles: invitation.roles.clone(),
        lead: invitation.lead,
    };
    let act = Act { conversation: channel, ..*act };
    if chorus_store::members::of(tx, channel, new.principal)?.is_none() {
        consent::admit(app, tx, &act, &new)?;
    }
    Ok(conversation)
}

/// Decline an invitation
///
/// Whoever made it is not told.
#[utoipa::path(post, path = "/api/v1/me/invitations/{id}/decline", operation_id = "decline_invitation", tag = "people", security(("key" = [])),
    params(("id" = String, Path, pattern = "^inv_[0-9a-f]{32}$", description = "The invitation's id")),
    responses((status = 204, description = "Declined"),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn decline(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let (person, now) = (caller.person()?.clone(), app.now());
    let work = move |tx: &mut dyn Tx| {
        let invitation = find(tx, &person, &id, now)?;
        Ok(invitations::decline(tx, invitee(&person), &invitation)?)
    };
    app.store.write::<_, ApiError, _>(work).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Decline an invitation, and keep out whoever made it
///
/// As with `POST /api/v1/me/blocks`. It is not told.
#[utoipa::path(post, path = "/api/v1/me/invitations/{id}/block", operation_id = "block_inviter", tag = "people", security(("key" = [])),
    params(("id" = String, Path, pattern = "^inv_[0-9a-f]{32}$", description = "The invitation's id")),
    responses((status = 204, description = "Declined, and kept out"),
              Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
async fn block(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let (person, now, hub) = (caller.person()?.clone(), app.now(), Arc::clone(&app));
    let (block, trace) = (BlockId(app.sources.uuid_v7()), TraceId(app.sources.uuid_v7()));
    let work = move |tx: &mut dyn Tx| {
        let invitation = find(tx, &person, &id, now)?;
        invitations::decline(tx, invitee(&person), &invitation)?;
        let who = invitation.inviter;
        let label = names(&hub, tx, who)?.map_or_else(|| who.to_string(), |(name, _)| name);
        let new = Block { id: block, label, created_at: now };
        keep_out(tx, person.id.into(), &Blocked::Principal(who), &new, trace).map(drop)
    };
    app.store.write::<_, ApiError, _>(work).await?;
    Ok(StatusCode::NO_CONTENT)
}
