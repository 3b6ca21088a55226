//! The fleet: every agent that the caller may see, with its state and activity; agents that need attention
//! come first.
//!
//! Nothing of it is stored: it is read from the log, claims, deliveries and presence. A caller sees its own
//! agents and those in its conversations; the operator sees all. Activity in a conversation that the caller is
//! not in is hidden: those who manage the agent see "busy", others see nothing. Problems of an agent are
//! visible to those who manage it. The operator sees the conversation but not the content.

mod follow;
mod reading;

pub use follow::Watcher;

use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::page::page;
use chorus_protocol::api::fleet::{FleetAgent, FleetState};
use chorus_protocol::api::{Items, Page};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::Principal;
use chorus_store::Tx;
use reading::{Known, Looker};
use std::sync::Arc;

/// Agents that are sorted together. In a larger fleet, agents that need attention come first within each group
/// of this size, and the groups follow in the order of names.
const TOGETHER: i64 = 200;

/// Returns the caller as a principal. `None` is the operator.
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

/// A cursor of the list: the name after which the current group begins, and the last agent of it that was
/// shown.
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

/// Returns a page of the fleet.
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
    // The current group is complete; the next one follows.
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
