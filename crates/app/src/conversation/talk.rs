//! Direct conversations with one agent or person.

use super::act;
use super::consent::{self, Admission, Inviter, Partner};
use crate::principal_ref::{Found, PrincipalRef, agent_handle, own_handle, person_handle};
use crate::views;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::RequestContext;
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_protocol::api::channels::{ConversationView, NewPair};
use chorus_protocol::api::members::Invited;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, EventId};
use chorus_store::Tx;
use chorus_store::conversation::Act;
use chorus_store::conversations;
use chorus_store::usage::Refusal;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::runtime::Handle as Runtime;

/// The result of opening a direct conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Talk {
    /// The conversation was made now.
    Made(ConversationView),
    /// The conversation existed already.
    Known(ConversationView),
    /// The address was invited, if somebody has it.
    Asked(Invited),
}

/// Opens the direct conversation of the caller and another. There is one per pair, whoever opens it first. A
/// person who shares no conversation with the caller is invited instead.
pub async fn talk_to(
    app: &AppState,
    caller: &Caller,
    context: RequestContext,
    new: NewPair,
    once: Once,
) -> Result<Done<Talk>, Error> {
    let (who, with) = (caller.principal()?, PrincipalRef::anybody(app, "with", &new.with)?);
    let (mine, hub, runtime) = (own_handle(caller), Arc::clone(app), Runtime::current());
    // The conversation is found inside the transaction; this id is a placeholder.
    let (act, second) = (act(app, who, ConversationId(who.uuid())), EventId(app.environment.uuid_v7()));
    let work = move |tx: &mut dyn Tx| {
        let person = match with.find(tx)? {
            Found::Agent(agent) => {
                consent::check_open(tx, who, &agent)?;
                let own = agent_handle(&agent.name);
                let other = Partner { principal: agent.id.into(), handle: own, join: second };
                return pair(tx, &act, &mine, other);
            }
            Found::Person(person) => person,
        };
        let (account, invitee) = person.find(tx)?;
        let admission = consent::admission(tx, who, account.as_ref())?;
        let id = account.as_ref().map_or(who, |account| account.id.into());
        let known = conversations::by_id(tx, ConversationId::of_pair(who, id))?.is_some();
        match (admission, account) {
            (Admission::Asked { hidden }, account) if account.is_none() || !known => {
                let by = Inviter { app: &hub, runtime: &runtime, asker: context.asker() };
                let new = consent::invitation(&act);
                consent::invite(&by, tx, &act, &new, &invitee, hidden).map(Talk::Asked)
            }
            (_, Some(account)) => {
                let own = person_handle(&account.name, &account.email);
                pair(tx, &act, &mine, Partner { principal: account.id.into(), handle: own, join: second })
            }
            (_, None) => Err(Error::internal("nobody cannot be talked to")),
        }
    };
    app.once(once, |_| Ok(()), work).await
}

/// Opens the direct conversation of the author, with the handle `mine`, and another.
fn pair(tx: &mut dyn Tx, act: &Act, mine: &str, other: Partner) -> Result<Talk, Error> {
    if other.principal == act.author {
        return Err(Faults::one("with", "must be somebody else").into());
    }
    let (conversation, made) = consent::pair(tx, act, mine, other, Refusal::WhenFull)?;
    let view = views::conversation(&conversation);
    Ok(if made { Talk::Made(view) } else { Talk::Known(view) })
}
