//! Who is in a conversation: adding, listing and removing members.

use super::channels::Making;
use super::consent::{self, Admission, MAY_ADD};
use super::{act, act_by, is_member, not_of_two, only};
use crate::app::{App, AppState};
use crate::attention::cancelling;
use crate::audit::{Deed, RequestContext};
use crate::caller::Caller;
use crate::error::Error;
use crate::mail_limits::Asker;
use crate::once::{Done, Once};
use crate::page::page;
use crate::principal_ref::{Found, PrincipalRef, agent_handle, person_handle};
use crate::views;
use chorus_protocol::api::channels::{ChangedConversation, NewChannel};
use chorus_protocol::api::members::{Invited, MemberChange, MemberView, NewMember};
use chorus_protocol::api::{Items, Name, Page};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::mentions::MAX_HANDLE;
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::conversation::{self, Act, ConversationError, Handle, Newcomer};
use chorus_store::invitations::Invitation;
use chorus_store::{Tx, directory, members};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Handle as Runtime;

/// What became of somebody who was to be added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Added {
    /// It is a member from now on.
    Joined(MemberView),
    /// If somebody has this address, it is asked.
    Asked(Invited),
}

/// Adds a member; the owner and the leads may, and the operator. A person that shares no conversation with the caller is asked.
pub async fn add_member(
    app: &AppState,
    caller: Caller,
    conversation: ConversationId,
    context: RequestContext,
    new: NewMember,
    once: Once,
) -> Result<Done<Added>, Error> {
    let (addition, hub, runtime) = (Addition::new(app, new)?, Arc::clone(app), Runtime::current());
    let by = if caller == Caller::Operator { None } else { Some(caller.principal()?) };
    let act_by = act_by(app, conversation);
    let may = move |tx: &mut dyn Tx| by.map_or(Ok(()), |who| is_member(who, conversation)(tx));
    let work = move |tx: &mut dyn Tx| {
        let added = match by {
            None => addition.by_operator(&hub, tx, &act_by)?,
            Some(who) => addition.by_member((&hub, &runtime, context.asker()), tx, &act_by(who))?,
        };
        record(tx, (&hub, &context, &caller), conversation, &added)?;
        Ok(added)
    };
    app.once(once, may, work).await
}

/// Writes down that somebody joined.
fn record(
    tx: &mut dyn Tx,
    (app, context, caller): (&App, &RequestContext, &Caller),
    conversation: ConversationId,
    added: &Added,
) -> Result<(), Error> {
    let Added::Joined(member) = added else { return Ok(()) };
    let detail = json!({"member": member.id, "handle": member.handle, "lead": member.lead});
    let deed = Deed::new(caller.actor(), Action::MemberAdded, Subject::Channel(conversation), detail);
    Ok(context.record(tx, app, deed)?)
}

/// Makes a channel with members in it from the start: all of it happens, or nothing.
pub async fn make_channel_with(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    new: NewChannel,
    members: Vec<NewMember>,
) -> Result<ChangedConversation, Error> {
    let making = Making::new(app, &caller, new)?;
    let (hub, runtime, Act { author, conversation, .. }) = (Arc::clone(app), Runtime::current(), making.act);
    let addition = |new: NewMember| {
        let name = match &new {
            NewMember::Agent(new) => new.agent.0.clone(),
            NewMember::Account(new) => new.account.0.clone(),
        };
        Ok((name, Addition::new(app, new)?, act(app, author, conversation)))
    };
    let additions = members.into_iter().map(addition).collect::<Result<Vec<_>, Faults>>()?;
    let work = move |tx: &mut dyn Tx| {
        let made = making.run(&hub, tx)?;
        for (name, addition, act) in &additions {
            let added = addition.by_member((&hub, &runtime, context.asker()), tx, act);
            // It is one of several: which one is the first thing that its asker wants to know.
            let added = added
                .map_err(|error| Error { message: format!("agents: {name}: {}", error.message), ..error })?;
            record(tx, (&hub, &context, &caller), conversation, &added)?;
        }
        Ok(made)
    };
    app.store.write(work).await
}

/// Who is to be added, and as what.
struct Addition {
    whom: PrincipalRef,
    handle: Option<String>,
    roles: Vec<String>,
    lead: bool,
}

impl Addition {
    fn new(app: &App, new: NewMember) -> Result<Self, Faults> {
        let (whom, handle, roles, lead) = match new {
            NewMember::Agent(new) => (PrincipalRef::agent(app, &new.agent)?, new.handle, new.roles, new.lead),
            NewMember::Account(new) => {
                (PrincipalRef::account(&new.account)?, new.handle, new.roles, new.lead)
            }
        };
        let mut roles: Vec<_> = roles.into_iter().map(|Name(role)| role).collect();
        roles.sort_unstable();
        roles.dedup();
        Ok(Self { whom, handle: handle.map(|Name(handle)| handle), roles, lead })
    }

    /// The newcomer it makes of somebody that is called `own` where nobody says.
    fn newcomer(&self, principal: impl Into<Principal>, own: String) -> Newcomer {
        let handle = self.handle.clone().map_or(Handle::Like(own), Handle::Exactly);
        Newcomer { principal: principal.into(), handle, roles: self.roles.clone(), lead: self.lead }
    }

    /// By the operator: in at once, and by its own act.
    fn by_operator(
        &self,
        app: &App,
        tx: &mut dyn Tx,
        act_by: &dyn Fn(Principal) -> Act,
    ) -> Result<Added, Error> {
        let new = match self.whom.find(tx)? {
            Found::Agent(agent) => self.newcomer(agent.id, agent_handle(&agent.name)),
            Found::Person(person) => {
                let account = person.find(tx)?.0.ok_or_else(|| Error::not_found("account"))?;
                self.newcomer(account.id, person_handle(&account.name, &account.email))
            }
        };
        let member = consent::admit(app, tx, &act_by(new.principal), &new)?;
        Ok(Added::Joined(views::member(member)))
    }

    /// By the owner or a lead.
    fn by_member(
        &self,
        (app, runtime, asker): (&AppState, &Runtime, Asker),
        tx: &mut dyn Tx,
        act: &Act,
    ) -> Result<Added, Error> {
        // Strangers are not told who there is, nor is who may not add anybody.
        let (conversation, _) = conversation::as_reader(tx, act.conversation, act.author)?;
        not_of_two(&conversation)?;
        conversation::may_add(tx, act.conversation, act.author).map_err(only(MAY_ADD))?;
        let (account, invitee) = match self.whom.find(tx)? {
            Found::Agent(agent) => {
                consent::check_agent(tx, act.author, &agent)?;
                let new = self.newcomer(agent.id, agent_handle(&agent.name));
                return Ok(Added::Joined(views::member(consent::add(app, tx, act, &new)?)));
            }
            Found::Person(person) => person.find(tx)?,
        };
        match (consent::admission(tx, act.author, account.as_ref())?, account) {
            (Admission::AtOnce, Some(account)) => {
                let new = self.newcomer(account.id, person_handle(&account.name, &account.email));
                Ok(Added::Joined(views::member(consent::add(app, tx, act, &new)?)))
            }
            (Admission::Asked { hidden }, _) => {
                let new = Invitation {
                    conversation: Some(act.conversation),
                    handle: self.handle.clone(),
                    roles: self.roles.clone(),
                    lead: self.lead,
                    ..consent::invitation(act)
                };
                consent::invite((app, runtime, asker), tx, act, &new, &invitee, hidden).map(Added::Asked)
            }
            (Admission::AtOnce, None) => Err(Error::internal("nobody cannot be let in")),
        }
    }
}

/// The members, in the order of their handles.
pub async fn list_members(
    app: &App,
    who: Principal,
    id: ConversationId,
    Page { after, limit }: Page,
) -> Result<Items<MemberView>, Error> {
    let after = after.unwrap_or_default();
    let find = move |tx: &mut dyn Tx| {
        conversation::as_reader(tx, id, who)?;
        Ok(members::page(tx, id, &after, limit + 1)?)
    };
    let found = app.store.read::<_, Error, _>(find).await?.into_iter().map(views::member).collect();
    Ok(page(app, found, limit, |last: &MemberView| last.handle.clone()))
}

/// Removes a member. Everybody may leave but the owner; the owner and the leads may remove others, and whoever owns an agent
/// takes it out of wherever somebody has put it.
pub async fn remove_member(
    app: &AppState,
    who: Principal,
    (id, handle): (ConversationId, String),
    context: RequestContext,
    once: Once,
) -> Result<Done<()>, Error> {
    let (act, hub) = (act(app, who, id), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        // Its owner has it leave.
        let author = own_agent(tx, id, who, &handle)?.unwrap_or(who);
        let act = Act { author, ..act };
        hold_channel_of(tx, id, author, &handle)?;
        let gone = members::by_handle(tx, id, &handle)?;
        conversation::remove_member(tx, &act, &handle).map_err(only(
            "the owner of the channel and its leads remove others; and the owner is removed by nobody",
        ))?;
        if let Some(agent) = gone.as_ref().and_then(|gone| gone.principal.agent()) {
            cancelling::leave(&hub, tx, (agent, id), act.now)?;
        }
        // Who leaves by itself takes nothing from anybody.
        if let Some(gone) = gone.filter(|gone| gone.principal != who) {
            let detail = json!({"member": gone.principal.to_string(), "handle": gone.handle});
            let (actor, subject) = (Actor::Principal(who), Subject::Channel(id));
            context.record(tx, &hub, Deed::new(actor, Action::MemberRemoved, subject, detail))?;
        }
        Ok(())
    };
    // Who left may ask again whether it did.
    app.once(once, |_| Ok(()), work).await
}

/// Changes what a member is called and does; the owner and the leads may, and everybody what it is called itself.
pub async fn change_member(
    app: &AppState,
    who: Principal,
    (id, handle): (ConversationId, String),
    context: RequestContext,
    change: MemberChange,
    once: Once,
) -> Result<Done<MemberView>, Error> {
    let MemberChange { handle: name, roles, lead } = change;
    if name.is_none() && roles.is_none() && lead.is_none() {
        return Err(Faults::one("body", "must have a handle, roles or lead").into());
    }
    let roles = roles.map(|roles| {
        let mut roles: Vec<_> = roles.into_iter().map(|Name(role)| role).collect();
        roles.sort_unstable();
        roles.dedup();
        roles
    });
    let change = conversation::MemberChange { handle: name.map(|Name(name)| name), roles, lead };
    let (act, hub) = (act(app, who, id), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        hold_channel_of(tx, id, who, &handle)?;
        let changed = conversation::change_member(tx, &act, &handle, &change).map_err(only(
            "the owner of the channel and its leads change others, and the owner alone says who leads",
        ))?;
        if changed.principal != who || change.lead.is_some() {
            let member = changed.principal.to_string();
            let detail = json!({"member": member, "handle": changed.handle, "roles": changed.roles, "lead": changed.lead});
            let (actor, subject) = (Actor::Principal(who), Subject::Channel(id));
            context.record(tx, &hub, Deed::new(actor, Action::MemberChanged, subject, detail))?;
        }
        Ok(views::member(changed))
    };
    app.once(once, is_member(who, id), work).await
}

/// The agent that is called this here, if it belongs to `who`.
fn own_agent(
    tx: &mut dyn Tx,
    id: ConversationId,
    who: Principal,
    handle: &str,
) -> Result<Option<Principal>, Error> {
    let Principal::Account(owner) = who else { return Ok(None) };
    let member = members::by_handle(tx, id, handle)?.map(|member| member.principal);
    let Some(agent) = member.and_then(Principal::agent) else { return Ok(None) };
    let is_own = directory::by_id(tx, agent)?.is_some_and(|agent| agent.owner == Some(owner));
    Ok(is_own.then_some(agent.into()))
}

/// Holds a channel for a member that wants to change another, which this may be the handle of.
fn hold_channel_of(tx: &mut dyn Tx, id: ConversationId, who: Principal, handle: &str) -> Result<(), Error> {
    let (conversation, _) = conversation::lock_as_speaker(tx, id, who)?;
    not_of_two(&conversation)?;
    if is_handle(handle) { Ok(()) } else { Err(ConversationError::NoHandle(handle.to_owned()).into()) }
}

/// Whether a member can be called this.
fn is_handle(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_HANDLE).contains(&text.len()) && text.bytes().all(sign)
}
