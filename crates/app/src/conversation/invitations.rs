//! Invitations of a person: listing, accepting and declining them.

use super::act;
use super::consent::{self, Partner};
use crate::blocks::keep_out;
use crate::principal_ref::{agent_handle, person_handle};
use crate::views;
use chorus_node::Error;
use chorus_node::caller::Person;
use chorus_node::page::fitting;
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::api::channels::ConversationView;
use chorus_protocol::api::invitations::{InvitationPage, InvitationView, InviterView};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{BlockId, ConversationId, EventId, InvitationId, Principal, TraceId};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::ConversationKind;
use chorus_store::blocks::{self, Block, Blocked};
use chorus_store::conversation::{self, Act, ConversationError, Handle, Newcomer};
use chorus_store::conversations::{self, Conversation};
use chorus_store::invitations::{self, Invitation};
use chorus_store::usage::Refusal;
use chorus_store::{StoreError, Tx, accounts, directory, members};
use std::sync::Arc;

/// Returns a page of a person's open invitations, the oldest first.
pub async fn list_invitations(
    app: &AppState,
    person: Person,
    asked: InvitationPage,
) -> Result<Items<InvitationView>, Error> {
    let (InvitationPage { after, limit }, now, hub) = (asked, app.now(), Arc::clone(app));
    let find = move |tx: &mut dyn Tx| {
        let mut found = invitations::page(tx, invitee(&person), after, now, limit + 1)?;
        let more = found.len() as i64 > limit;
        found.truncate(limit as usize);
        let next = found.last().filter(|_| more).map(|last| last.id.to_string());
        let mut seen = vec![];
        for invitation in &found {
            seen.extend(shown(&hub, tx, &person, invitation)?);
        }
        Ok((seen, next))
    };
    let (seen, next) = app.store.read::<_, StoreError, _>(find).await?;
    Ok(fitting(app, seen, next, |last: &InvitationView| last.id.to_string()))
}

/// Accepts an invitation: joins the channel with the invited handle and roles, or makes the direct
/// conversation.
pub async fn accept_invitation(app: &AppState, person: Person, id: &str) -> Result<ConversationView, Error> {
    let (id, me) = (InvitationId::parse(id), Principal::from(person.id));
    // The conversation is found inside the transaction; this id is a placeholder.
    let act = act(app, me, ConversationId(person.id.0));
    let (second, hub) = (EventId(app.environment.uuid_v7()), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        let invitation = find(tx, &person, id, act.now)?;
        // Only the first of two concurrent acceptances removes it.
        if !invitations::remove(tx, invitee(&person), &invitation)? {
            return Err(Error::not_found("invitation"));
        }
        if blocks::keeps_out(tx, me, invitation.inviter)? {
            return Err(Error::not_found("invitation"));
        }
        if let Some(channel) = invitation.conversation {
            return join(&hub, tx, &act, &person, &invitation, channel);
        }
        let (_, theirs) = names(&hub, tx, invitation.inviter)?.ok_or_else(over)?;
        // The inviter owns the conversation, as if it had been made with the invitation. Accepting does not
        // depend on the inviter's quota.
        let act = Act { author: invitation.inviter, ..act };
        let mine = person_handle(&person.name, &person.email);
        let me = Partner { principal: me, handle: mine, join: second };
        Ok(consent::pair(tx, &act, &theirs, me, Refusal::Never)?.0)
    };
    let conversation = app.store.write::<_, Error, _>(work).await?;
    Ok(views::conversation(&conversation))
}

/// Declines an invitation. The inviter is not told.
pub async fn decline_invitation(app: &AppState, person: Person, id: &str) -> Result<(), Error> {
    let (id, now) = (InvitationId::parse(id), app.now());
    let work = move |tx: &mut dyn Tx| {
        let invitation = find(tx, &person, id, now)?;
        Ok(invitations::decline(tx, invitee(&person), &invitation)?)
    };
    app.store.write::<_, Error, _>(work).await
}

/// Declines an invitation, and blocks the inviter.
pub async fn block_inviter(app: &AppState, person: Person, id: &str) -> Result<(), Error> {
    let (id, now, hub) = (InvitationId::parse(id), app.now(), Arc::clone(app));
    let (block, trace) = (BlockId(app.environment.uuid_v7()), TraceId(app.environment.uuid_v7()));
    let work = move |tx: &mut dyn Tx| {
        let invitation = find(tx, &person, id, now)?;
        invitations::decline(tx, invitee(&person), &invitation)?;
        let who = invitation.inviter;
        let label = names(&hub, tx, who)?.map_or_else(|| who.to_string(), |(name, _)| name);
        let new = Block { id: block, label, created_at: now };
        keep_out(tx, person.id.into(), &Blocked::Principal(who), &new, trace).map(drop)
    };
    app.store.write::<_, Error, _>(work).await
}

/// Returns the name of an inviter for lists, and its handle as a member.
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

/// Returns an invitation as its invitee sees it. Returns `None` if it can no longer be accepted.
fn shown(
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
            Some(channel) => Some(channel.name.into()),
            None => return Ok(None),
        },
        None => None,
    };
    Ok(Some(InvitationView {
        id: invitation.id,
        kind: if channel.is_some() { ConversationKind::Channel } else { ConversationKind::Dm },
        from: InviterView { who: invitation.inviter.into(), name },
        channel,
        roles: invitation.roles.clone(),
        lead: invitation.lead,
        created_at: rfc3339(invitation.created_at),
        expires_at: rfc3339(invitation.expires_at()),
    }))
}

pub(super) fn invitee(person: &Person) -> invitations::Person<'_> {
    invitations::Person { id: person.id, email: &person.email }
}

/// Returns an open invitation of a person. A malformed id is answered like an unknown one.
fn find(tx: &mut dyn Tx, person: &Person, id: Option<InvitationId>, now: i64) -> Result<Invitation, Error> {
    let found = id.map_or(Ok(None), |id| invitations::open(tx, invitee(person), id, now))?;
    found.ok_or_else(|| Error::not_found("invitation"))
}

fn over() -> Error {
    Error::new(
        Code::Conflict,
        "nothing can come of this invitation any more: whoever made it may not let you in",
    )
}

/// Makes an invitee a member. Fails if the inviter may no longer add members.
fn join(
    app: &App,
    tx: &mut dyn Tx,
    act: &Act,
    person: &Person,
    invitation: &Invitation,
    channel: ConversationId,
) -> Result<Conversation, Error> {
    let conversation =
        conversation::may_add(tx, channel, invitation.inviter).map_err(|error| match error {
            ConversationError::Store(error) => error.into(),
            _ => over(),
        })?;
    let wanted = invitation.handle.clone().unwrap_or_else(|| person_handle(&person.name, &person.email));
    let new = Newcomer {
        principal: person.id.into(),
        // The invited handle may be taken by now.
        handle: Handle::Like(wanted),
        roles: invitation.roles.clone(),
        lead: invitation.lead,
    };
    let act = Act { conversation: channel, ..*act };
    if members::of(tx, channel, new.principal)?.is_none() {
        consent::admit(app, tx, &act, &new)?;
    }
    Ok(conversation)
}
