//! Members of a conversation: adding, listing, changing and removing them.

use super::channels::Making;
use super::consent::{self, Admission, Inviter, MAY_ADD};
use super::{act, act_by, count_message, is_member, not_of_two, only};
use crate::attention::cancellations;
use crate::principal_ref::{Found, PrincipalRef, agent_handle, person_handle};
use crate::views;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::page::page;
use chorus_node::{App, AppState};
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
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle as Runtime;

/// The result of adding somebody.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Added {
    /// The newcomer is a member now.
    Joined(MemberView),
    /// The address was invited, if somebody has it.
    Asked(Invited),
}

/// Adds a member. The owner, the leads and the operator may do this. A person who shares no conversation with
/// the caller is invited instead.
pub async fn add_member(
    app: &AppState,
    caller: Caller,
    conversation: ConversationId,
    context: RequestContext,
    new: NewMember,
    once: Once,
) -> Result<Done<Added>, Error> {
    let (addition, hub, runtime) = (Addition::new(app, new)?, Arc::clone(app), Runtime::current());
    let counted = OnceLock::new();
    let by = if caller == Caller::Operator { None } else { Some(caller.principal()?) };
    let act_by = act_by(app, conversation);
    let may = move |tx: &mut dyn Tx| by.map_or(Ok(()), |who| is_member(who, conversation)(tx));
    let work = move |tx: &mut dyn Tx| {
        let added = match by {
            None => addition.by_operator(&hub, tx, &act_by)?,
            Some(who) => {
                let act = act_by(who);
                count_message(&hub, tx, &act, &counted)?;
                let by = Inviter { app: &hub, runtime: &runtime, asker: context.asker() };
                addition.by_member(&by, tx, &act)?
            }
        };
        record(tx, &hub, &context, &caller, conversation, &added)?;
        Ok(added)
    };
    app.once(once, may, work).await
}

/// Records a new member in the audit log.
fn record(
    tx: &mut dyn Tx,
    app: &App,
    context: &RequestContext,
    caller: &Caller,
    conversation: ConversationId,
    added: &Added,
) -> Result<(), Error> {
    let Added::Joined(member) = added else { return Ok(()) };
    let detail = json!({"member": member.id, "handle": member.handle, "lead": member.lead});
    let deed = Deed::new(caller.actor(), Action::MemberAdded, Subject::Channel(conversation), detail);
    Ok(context.record(tx, app, deed)?)
}

/// Makes a channel with members, in one transaction.
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
            let by = Inviter { app: &hub, runtime: &runtime, asker: context.asker() };
            let added = addition.by_member(&by, tx, act);
            // The error names the member, because there are several.
            let added = added
                .map_err(|error| Error { message: format!("agents: {name}: {}", error.message), ..error })?;
            record(tx, &hub, &context, &caller, conversation, &added)?;
        }
        Ok(made)
    };
    app.store.write(work).await
}

/// A checked request to add a member.
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

    /// Returns the newcomer, with a handle like `own` if the request names none.
    fn newcomer(&self, principal: impl Into<Principal>, own: String) -> Newcomer {
        let handle = self.handle.clone().map_or(Handle::Like(own), Handle::Exactly);
        Newcomer { principal: principal.into(), handle, roles: self.roles.clone(), lead: self.lead }
    }

    /// Adds the newcomer for the operator: at once, recorded as the newcomer's own act.
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

    /// Adds the newcomer for the owner or a lead.
    fn by_member(&self, by: &Inviter<'_>, tx: &mut dyn Tx, act: &Act) -> Result<Added, Error> {
        // The permission is checked first, so that callers without it do not learn who exists.
        let (conversation, _) = conversation::as_reader(tx, act.conversation, act.author)?;
        not_of_two(&conversation)?;
        conversation::may_add(tx, act.conversation, act.author).map_err(only(MAY_ADD))?;
        let (account, invitee) = match self.whom.find(tx)? {
            Found::Agent(agent) => {
                consent::check_agent(tx, act.author, &agent)?;
                let new = self.newcomer(agent.id, agent_handle(&agent.name));
                return Ok(Added::Joined(views::member(consent::add(by.app, tx, act, &new)?)));
            }
            Found::Person(person) => person.find(tx)?,
        };
        match (consent::admission(tx, act.author, account.as_ref())?, account) {
            (Admission::AtOnce, Some(account)) => {
                let new = self.newcomer(account.id, person_handle(&account.name, &account.email));
                Ok(Added::Joined(views::member(consent::add(by.app, tx, act, &new)?)))
            }
            (Admission::Asked { hidden }, _) => {
                let new = Invitation {
                    conversation: Some(act.conversation),
                    handle: self.handle.clone(),
                    roles: self.roles.clone(),
                    lead: self.lead,
                    ..consent::invitation(act)
                };
                consent::invite(by, tx, act, &new, &invitee, hidden).map(Added::Asked)
            }
            (Admission::AtOnce, None) => Err(Error::internal("nobody cannot be let in")),
        }
    }
}

/// Returns a page of the members, ordered by handle.
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

/// The place of a member: a conversation, and the handle there.
pub struct MemberPath {
    pub conversation: ConversationId,
    pub handle: String,
}

/// Removes a member. Everybody except the owner may leave. The owner and the leads may remove others. The
/// owner of an agent may remove it from any channel.
pub async fn remove_member(
    app: &AppState,
    who: Principal,
    MemberPath { conversation: id, handle }: MemberPath,
    context: RequestContext,
    once: Once,
) -> Result<Done<()>, Error> {
    let (act, hub) = (act(app, who, id), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        // An agent that its owner removes leaves by its own act.
        let author = own_agent(tx, id, who, &handle)?.unwrap_or(who);
        let act = Act { author, ..act };
        hold_channel_of(tx, id, author, &handle)?;
        let gone = members::by_handle(tx, id, &handle)?;
        conversation::remove_member(tx, &act, &handle).map_err(only(
            "the owner of the channel and its leads remove others; and the owner is removed by nobody",
        ))?;
        if let Some(agent) = gone.as_ref().and_then(|gone| gone.principal.agent()) {
            cancellations::leave(&hub, tx, (agent, id), act.now)?;
        }
        // Leaving by oneself is not recorded in the audit log.
        if let Some(gone) = gone.filter(|gone| gone.principal != who) {
            let detail = json!({"member": gone.principal.to_string(), "handle": gone.handle});
            let (actor, subject) = (Actor::Principal(who), Subject::Channel(id));
            context.record(tx, &hub, Deed::new(actor, Action::MemberRemoved, subject, detail))?;
        }
        Ok(())
    };
    // A former member may repeat the request and get the first answer.
    app.once(once, |_| Ok(()), work).await
}

/// Changes a member's handle, roles or lead. The owner and the leads may change others; everybody may change
/// the own handle.
pub async fn change_member(
    app: &AppState,
    who: Principal,
    MemberPath { conversation: id, handle }: MemberPath,
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
    let (act, hub, counted) = (act(app, who, id), Arc::clone(app), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        count_message(&hub, tx, &act, &counted)?;
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

/// Returns the agent with this handle if it belongs to `who`.
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

/// Locks a channel for a change of the member with this handle. Fails if the handle is malformed.
fn hold_channel_of(tx: &mut dyn Tx, id: ConversationId, who: Principal, handle: &str) -> Result<(), Error> {
    let (conversation, _) = conversation::lock_as_speaker(tx, id, who)?;
    not_of_two(&conversation)?;
    if is_handle(handle) { Ok(()) } else { Err(ConversationError::NoHandle(handle.to_owned()).into()) }
}

/// Returns `true` if a text has the form of a handle.
fn is_handle(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_HANDLE).contains(&text.len()) && text.bytes().all(sign)
}
