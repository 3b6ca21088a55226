//! Talking to one agent or person: the conversation of two.

use super::act;
use super::consent::{self, Admission};
use crate::app::{App, AppState};
use crate::audit::RequestContext;
use crate::caller::Caller;
use crate::error::Error;
use crate::once::{Done, Once};
use crate::principal_ref::{Found, PrincipalRef, agent_handle, own_handle, person_handle};
use crate::views;
use chorus_protocol::api::channels::{ConversationView, NewPair};
use chorus_protocol::api::members::Invited;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::Tx;
use chorus_store::conversation::Act;
use chorus_store::conversations;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::runtime::Handle as Runtime;

/// What became of a wish to talk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Talk {
    /// The conversation was made.
    Made(ConversationView),
    /// It was there.
    Known(ConversationView),
    /// If somebody has this address, it is asked.
    Asked(Invited),
}

/// The conversation of two is made once, whoever asks first. A person that shares no conversation with the caller is asked.
pub async fn talk_to(
    app: &AppState,
    caller: &Caller,
    context: RequestContext,
    new: NewPair,
    once: Once,
) -> Result<Done<Talk>, Error> {
    let (who, with) = (caller.principal()?, PrincipalRef::anybody(app, "with", &new.with)?);
    let (mine, hub, runtime) = (own_handle(caller), Arc::clone(app), Runtime::current());
    // The pair, and so the conversation, is known inside; the rest of what is done is the same for all.
    let (act, second) = (act(app, who, ConversationId(who.uuid())), EventId(app.environment.uuid_v7()));
    let work = move |tx: &mut dyn Tx| {
        let person = match with.find(tx)? {
            Found::Agent(agent) => {
                consent::check_open(tx, who, &agent)?;
                let own = agent_handle(&agent.name);
                return pair(&hub, tx, &act, second, &mine, (agent.id.into(), own));
            }
            Found::Person(person) => person,
        };
        let (account, invitee) = person.find(tx)?;
        let admission = consent::admission(tx, who, account.as_ref())?;
        let id = account.as_ref().map_or(who, |account| account.id.into());
        let known = conversations::by_id(tx, ConversationId::of_pair(who, id))?.is_some();
        match (admission, account) {
            (Admission::Asked { hidden }, account) if account.is_none() || !known => {
                let (new, by) = (consent::invitation(&act), (&hub, &runtime, context.asker()));
                consent::invite(by, tx, &act, &new, &invitee, hidden).map(Talk::Asked)
            }
            (_, Some(account)) => {
                let own = person_handle(&account.name, &account.email);
                pair(&hub, tx, &act, second, &mine, (account.id.into(), own))
            }
            (_, None) => Err(Error::internal("nobody cannot be talked to")),
        }
    };
    app.once(once, |_| Ok(()), work).await
}

/// The conversation of two: the one who acts, called `mine`, and another, who is called so where nobody says.
fn pair(
    app: &App,
    tx: &mut dyn Tx,
    act: &Act,
    second: EventId,
    mine: &str,
    (other, handle): (Principal, String),
) -> Result<Talk, Error> {
    if other == act.author {
        return Err(Faults::one("with", "must be somebody else").into());
    }
    let (conversation, made) = consent::pair((app, act.author), tx, act, second, mine, (other, &handle))?;
    let view = views::conversation(&conversation);
    Ok(if made { Talk::Made(view) } else { Talk::Known(view) })
}
