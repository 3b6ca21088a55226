//! The fleet: every agent somebody may see, how it is, what it is doing and where; those that need somebody first.
//!
//! Nothing of it is kept: it is read from the log, claims, deliveries and presence. Somebody sees its own agents and those it
//! meets in conversations, the operator all. What an agent does in a conversation that the caller is not in counts nowhere; to
//! whoever manages it, it is "busy" then, to others it does nothing there. What is wrong with an agent is for whoever manages it.
//! The operator sees where, and not what was said.

mod follow;
mod reading;

pub use follow::Watcher;

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::Error;
use crate::page::page;
use chorus_protocol::api::fleet::{FleetAgent, FleetState};
use chorus_protocol::api::{Items, Page};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::Principal;
use chorus_store::Tx;
use reading::{Known, Looker};
use std::sync::Arc;

/// So many agents are put in order together: in a larger fleet those that need somebody come first among so many, in the
/// order of names.
const TOGETHER: i64 = 200;

/// Who looks: nobody in particular is the operator.
fn looker(caller: &Caller) -> Result<Option<Principal>, Error> {
    match caller {
        Caller::Operator => Ok(None),
        Caller::Agent(_) | Caller::Account(_) => caller.principal().map(Some),
        Caller::Owner(_) => Err(Error::new(Code::Forbidden, "an owner's key is for the market only")),
        Caller::EditLink(_) | Caller::Nobody => {
            caller.known()?;
            caller.principal().map(Some)
        }
    }
}

/// A place in the list: after which name those that are in order together begin, and the last of them that was shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Place {
    begin: String,
    last: Option<(FleetState, String)>,
}

impl Place {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('~');
        let begin = parts.next()?.to_owned();
        let last = match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => None,
            (Some(state), Some(name), None) => Some((FleetState::parse(state)?, name.to_owned())),
            _ => return None,
        };
        Some(Self { begin, last })
    }

    fn write(&self) -> String {
        match &self.last {
            None => self.begin.clone(),
            Some((state, name)) => format!("{}~{state}~{name}", self.begin),
        }
    }
}

/// A page of the fleet.
pub async fn list(app: &AppState, caller: &Caller, asked: Page) -> Result<Items<FleetAgent>, Error> {
    let who = looker(caller)?;
    let place = asked.after.as_deref().map_or(Some(Place::default()), Place::read);
    let place = place.ok_or_else(|| Faults::one("after", "must be the next of a page before"))?;
    let (hub, caller, limit) = (Arc::clone(app), caller.clone(), asked.limit.clamp(1, TOGETHER));
    let read = move |tx: &mut dyn Tx| {
        let mut looker = Looker::new(tx, &hub, &caller, who)?;
        let agents = chorus_store::fleet::visible(tx, who, &place.begin, TOGETHER + 1)?;
        let mut known = vec![];
        let more = agents.len() as i64 > TOGETHER;
        for agent in agents.into_iter().take(TOGETHER as usize) {
            known.push(looker.look(tx, agent)?);
        }
        let end = known.last().map(Known::key).filter(|_| more);
        known.sort_by_key(|one| (one.state, one.key()));
        known
            .retain(|one| place.last.as_ref().is_none_or(|last| (one.state, &one.key()) > (last.0, &last.1)));
        known.truncate(limit as usize + 1);
        let mut items = vec![];
        for one in known {
            let last = Some((one.state, one.key()));
            let cursor = Place { begin: place.begin.clone(), last }.write();
            items.push(FleetAgent { cursor, ..looker.show(tx, one)? });
        }
        Ok((items, end))
    };
    let (items, end) = app.store.read::<_, Error, _>(read).await?;
    let mut page = page(app, items, limit, |last: &FleetAgent| last.cursor.clone());
    // Those that were in order together are at their end; others follow.
    if page.next.is_none() {
        page.next = end;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for last in [None, Some((FleetState::Working, "bob".to_owned()))] {
            let place = Place { begin: "anna".into(), last };
            assert_eq!(Place::read(&place.write()), Some(place));
        }
        for wrong in ["a~b", "a~nowhere~c", "a~idle~b~c"] {
            assert_eq!(Place::read(wrong), None, "{wrong}");
        }
    }
}
