//! Listing deliveries.

use super::unknown;
use crate::agents::{AgentRef, may_manage};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::page::page;
use chorus_protocol::api::Items;
use chorus_protocol::api::deliveries::{DeliveryView, RecipientAgent};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::ConversationId;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::DeliveryState;
use chorus_store::Tx;
use chorus_store::push::{self, Cursor, Filter, Record};

/// A filter for deliveries.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub state: Option<DeliveryState>,
    pub agent: Option<AgentRef>,
    pub conversation: Option<ConversationId>,
    /// Only deliveries stored at or after this time, in milliseconds.
    pub since: i64,
    /// Only deliveries stored before this time, in milliseconds.
    pub until: Option<i64>,
}

impl Asked {
    /// Returns the filter limited to what this caller may see. Returns `None` if it names an agent that the
    /// caller does not manage.
    pub(super) fn filter(&self, tx: &mut dyn Tx, caller: &Caller) -> Result<Option<Filter>, Error> {
        let Self { state, ref agent, conversation, since, until } = *self;
        let mut filter = Filter { state, conversation, since, until, ..Filter::default() };
        match caller {
            Caller::Operator => {}
            Caller::Account(person) => filter.owner = Some(person.id),
            Caller::Agent(identity) => filter.agent = Some(identity.id),
            Caller::Owner(_) => {
                return Err(Error::new(Code::Forbidden, "an owner's key is for the market only"));
            }
            Caller::EditLink(_) | Caller::Nobody => return Err(unknown()),
        }
        if let Some(agent) = agent {
            match agent.find(tx)? {
                Some(agent) if may_manage(caller, &agent) => filter.agent = Some(agent.id),
                _ => return Ok(None),
            }
        }
        Ok(Some(filter))
    }
}

/// Returns a page of deliveries in the order of time: for an account those to its agents, for an agent its
/// own, for the operator all. `after` is `next` of the page before.
pub async fn list(
    app: &App,
    caller: Caller,
    asked: Asked,
    after: Option<&str>,
    limit: i64,
) -> Result<Items<DeliveryView>, Error> {
    let after = after.map(|text| parse_cursor(app, text)).transpose()?;
    let find = move |tx: &mut dyn Tx| match asked.filter(tx, &caller)? {
        Some(filter) => Ok(push::list(tx, &filter, after, limit + 1)?),
        None => Ok(vec![]),
    };
    let found = app.store.read::<_, Error, _>(find).await?;
    let items = found.iter().map(|record| view(app, record)).collect();
    Ok(page(app, items, limit, |last: &DeliveryView| last.cursor.clone()))
}

/// Parses a cursor: the time and the name of a delivery.
fn parse_cursor(app: &App, text: &str) -> Result<Cursor, Faults> {
    let parse = || {
        let (time, id) = text.split_once('.')?;
        Some((time.parse().ok()?, app.config.master_key.named_delivery(id)?))
    };
    parse().ok_or_else(|| Faults::one("after", "must be `next` of the page before"))
}

fn view(app: &App, record: &Record) -> DeliveryView {
    let id = app.config.master_key.delivery_name(record.id);
    DeliveryView {
        cursor: format!("{}.{id}", record.created_at),
        id,
        event_id: record.event.to_string(),
        channel: record.conversation.to_string(),
        agent: RecipientAgent { id: record.id.agent.to_string(), address: app.address(&record.agent) },
        kind: record.kind,
        transport: record.transport,
        state: record.state,
        reason: Some(record.attention.reason),
        attempts: record.attempt,
        next_try: record.due_at.map(rfc3339),
        error: record.detail.clone(),
        created_at: rfc3339(record.created_at),
    }
}
