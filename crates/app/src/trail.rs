//! The audit trail: acts, decisions, claims, tool calls, sends and dispositions.
//!
//! Only acts are written for it; the rest is read from its own tables. The operator reads all of it, but of
//! messages only the ephemeral ones, which are stored nowhere else. A channel owner reads the entries of the
//! channel, without network addresses and without those messages. The log of a harness is visible to those who
//! manage its agent.

mod everything;

use crate::agents::{self, AgentRef};
use crate::operator::{audit_log, party_id, party_id_for_owner};
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::page::fitting;
use chorus_node::secrets::MasterKey;
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::api::audit::{TrailEntry, TrailKind, TrailQuery};
use chorus_protocol::api::operator::{AuditParty, AuditQuery, PartyName, RecordedAct};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, AgentId, AuditId, ConversationId, EventId, Principal};
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use chorus_protocol::words::{Action, EventKind, Word};
use chorus_store::attention::classify_stored;
use chorus_store::conversations::Event;
use chorus_store::harness_logs::{self, Line};
use chorus_store::push::{self, Filter, Record};
use chorus_store::tool_calls::{self, ToolCall};
use chorus_store::trail::{self, ClaimHolding, ClaimPlace, TrailScope};
use chorus_store::{StoreError, Tx, claims, conversation, conversations, fleet};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// Rows that are read for one page of a filtered list.
const LOOKED_AT: i64 = 1000;

/// A parsed query.
#[derive(Clone)]
struct Asked {
    key: MasterKey,
    kind: TrailKind,
    actor: Option<Principal>,
    event: Option<EventId>,
    channel: Option<ConversationId>,
    since: i64,
    after: Option<String>,
    limit: i64,
}

/// Returns a page of the trail.
pub async fn list(app: &AppState, caller: Caller, mut query: TrailQuery) -> Result<Items<TrailEntry>, Error> {
    caller.known()?;
    if query.kind == Some(TrailKind::Log) {
        return logged(app, caller, query).await;
    }
    let mut faults = Faults::new();
    let event =
        read(&mut faults, "event", query.event.as_deref(), EventId::parse, "must be an event's id: evt_…");
    let must = "must be a conversation's id: ch_…";
    let channel = read(&mut faults, "channel", query.channel.as_deref(), ConversationId::parse, must);
    let must = "must be a time such as 2026-03-20T10:00:00Z";
    let since = read(&mut faults, "since", query.since.as_deref(), parse_rfc3339, must);
    if !faults.is_empty() {
        return Err(faults.into());
    }
    if caller != Caller::Operator && channel.is_none() {
        let why = "the operator reads everything; the owner of a channel names it: ?channel=ch_…";
        return Err(Error::new(Code::Forbidden, why));
    }
    if let (Some(channel), Some(who)) = (channel, caller.id()) {
        let owned = move |tx: &mut dyn Tx| Ok(conversation::as_reader(tx, channel, who)?.0.owner == who);
        if !app.store.read::<_, Error, _>(owned).await? {
            return Err(Error::new(Code::Forbidden, "this is for the owner of the channel"));
        }
        // The actor is resolved to an id here, so that nothing below looks up email addresses.
        query.actor = id_for_owner(app, query.actor).await?;
    } else if caller != Caller::Operator {
        return Err(Error::new(Code::Forbidden, "this is the operator's, and channel owners'"));
    }
    let kind = match (query.kind, event) {
        (None, Some(_)) => None,
        (kind, _) => Some(kind.unwrap_or(TrailKind::Act)),
    };
    if kind == Some(TrailKind::Act) {
        if event.is_some() {
            return Err(Faults::one(
                "event",
                "needs another kind than act, or none: kind=decision, kind=claim, …",
            )
            .into());
        }
        return acts(app, &caller, channel, query).await;
    }
    let TrailQuery { actor, after, limit, .. } = query;
    let hub = Arc::clone(app);
    let find = move |tx: &mut dyn Tx| {
        let actor = actor.as_ref().map(|PartyName(text)| principal(tx, &hub, text)).transpose()?;
        let (since, after) = (since.unwrap_or_default(), after.clone().filter(|after| !after.is_empty()));
        let key = hub.config.master_key.clone();
        let kind_asked = kind.unwrap_or(TrailKind::Act);
        let asked = Asked { key, kind: kind_asked, actor, event, channel, since, after, limit };
        match (kind, event) {
            (None, Some(event)) => everything::about(tx, &asked, event),
            _ => entries(tx, &asked),
        }
    };
    let (items, next) = app.store.read::<_, Error, _>(find).await?;
    Ok(fitting(app, items, next, |last: &TrailEntry| last.cursor.clone()))
}

fn read<T>(
    faults: &mut Faults,
    name: &str,
    text: Option<&str>,
    parse: impl Fn(&str) -> Option<T>,
    must: &str,
) -> Option<T> {
    let text = text?;
    let found = parse(text);
    if found.is_none() {
        faults.add(name, must);
    }
    found
}

/// Resolves a filter to an agent or a person.
fn principal(tx: &mut dyn Tx, app: &App, text: &str) -> Result<Principal, Error> {
    let id = party_id(tx, app, "actor", text)?;
    principal_id(&id).ok_or_else(|| {
        Faults::one("actor", "must be an agent or an account, unless acts are asked for").into()
    })
}

/// Parses the id of an agent or a person.
fn principal_id(id: &str) -> Option<Principal> {
    AgentId::parse(id).map(Principal::from).or_else(|| AccountId::parse(id).map(Principal::from))
}

async fn id_for_owner(app: &AppState, actor: Option<PartyName>) -> Result<Option<PartyName>, Error> {
    let Some(PartyName(text)) = actor else { return Ok(None) };
    let hub = Arc::clone(app);
    let find = move |tx: &mut dyn Tx| party_id_for_owner(tx, &hub, "actor", &text);
    Ok(Some(PartyName(app.store.read::<_, Error, _>(find).await?)))
}

fn wrong_place() -> Error {
    Faults::one("after", "must be the next of a page before").into()
}

/// Lists the recorded acts.
async fn acts(
    app: &AppState,
    caller: &Caller,
    channel: Option<ConversationId>,
    query: TrailQuery,
) -> Result<Items<TrailEntry>, Error> {
    let TrailQuery { actor, action, subject, since, after, limit, .. } = query;
    let after = after.filter(|after| !after.is_empty());
    let after = after.map(|after| AuditId::parse(&after).ok_or_else(wrong_place)).transpose()?;
    let subject = channel.map(|id| PartyName(id.to_string())).or(subject);
    let found = audit_log(app, AuditQuery { actor, action, subject, since, after, limit }).await?;
    let whole = *caller == Caller::Operator;
    let detail = |act: &RecordedAct| match act.action {
        // An ephemeral message was for those who looked at the time. A channel owner does not read it later.
        Word::Known(Action::MessageShown) if !whole => json!({}),
        _ => act.detail.clone(),
    };
    let items = found.items.into_iter().map(|act| TrailEntry {
        detail: detail(&act),
        id: act.id.to_string(),
        kind: TrailKind::Act,
        at: act.at,
        actor: act.actor,
        action: act.action.to_string(),
        subject: act.subject,
        request_id: if whole { act.request_id } else { String::new() },
        client_request_id: if whole { act.client_request_id } else { String::new() },
        repeats: act.repeats,
        client: if whole { act.client } else { String::new() },
        cursor: String::new(),
    });
    Ok(Items { items: items.collect(), next: found.next })
}

/// Lists the log lines of an agent's harness, for those who manage the agent and the operator.
async fn logged(app: &AppState, caller: Caller, query: TrailQuery) -> Result<Items<TrailEntry>, Error> {
    let TrailQuery { actor, since, after, limit, .. } = query;
    let Some(PartyName(name)) = actor else {
        return Err(Faults::one("actor", "must name an agent: a log is of one agent's harness").into());
    };
    let named = AgentRef::parse(app, &name)?;
    let after = after.filter(|after| !after.is_empty());
    let after = after.map(|after| Uuid::try_parse(&after).map_err(|_| wrong_place())).transpose()?;
    let since = since.as_deref().map(|text| parse_rfc3339(text).ok_or_else(wrong_time)).transpose()?;
    let find = move |tx: &mut dyn Tx| {
        let agent = agents::managed(tx, &caller, &named)?;
        Ok((harness_logs::list(tx, agent.id, after, since.unwrap_or_default(), limit + 1)?, agent.id))
    };
    let (lines, agent) = app.store.read::<_, Error, _>(find).await?;
    let more = lines.len() as i64 > limit;
    let items: Vec<_> = lines.into_iter().take(limit as usize).map(|line| said(agent, line)).collect();
    let next = items.last().filter(|_| more).map(|last| last.cursor.clone());
    Ok(fitting(app, items, next, |last: &TrailEntry| last.cursor.clone()))
}

fn wrong_time() -> Error {
    Faults::one("since", "must be a time such as 2026-03-20T10:00:00Z").into()
}

fn said(agent: AgentId, line: Line) -> TrailEntry {
    let detail = json!({"logger": line.logger, "text": line.text});
    TrailEntry {
        at: rfc3339(line.at()),
        actor: party("agent", &agent),
        action: line.level.to_string(),
        subject: party("agent", &agent),
        cursor: line.id.to_string(),
        ..entry(TrailKind::Log, line.id.to_string(), detail)
    }
}

type Found = (Vec<TrailEntry>, Option<String>);

fn entries(tx: &mut dyn Tx, asked: &Asked) -> Result<Found, Error> {
    if let Some(event) = asked.event {
        return about(tx, asked, event);
    }
    let scope = match (asked.channel, asked.actor) {
        (Some(id), _) => TrailScope::Conversation(id),
        (None, Some(who)) => TrailScope::Author(who),
        (None, None) => {
            return Err(Faults::one("kind", "needs an actor, a channel or an event, unless it is act").into());
        }
    };
    match asked.kind {
        TrailKind::Decision | TrailKind::Disposition => deliveries(tx, asked),
        TrailKind::Claim => taken(tx, asked, scope),
        TrailKind::ToolCall => called(tx, asked, scope),
        TrailKind::Send => done(tx, asked, scope, EventKind::Message),
        // These kinds are read elsewhere.
        TrailKind::Act | TrailKind::Log => Ok((vec![], None)),
    }
}

/// Returns all entries of one kind about one event, which fit one page.
fn about(tx: &mut dyn Tx, asked: &Asked, event: EventId) -> Result<Found, Error> {
    let nothing = || Ok((vec![], None));
    let Some(said) = conversations::event_by_id(tx, event)? else { return nothing() };
    if asked.channel.is_some_and(|channel| channel != said.conversation) {
        return nothing();
    }
    let by = |who: Principal| asked.actor.is_none_or(|actor| actor == who);
    let items: Vec<TrailEntry> = match asked.kind {
        TrailKind::Decision | TrailKind::Disposition => {
            let records = push::of_event(tx, event, asked.limit)?;
            let mine = records.iter().filter(|record| by(record.id.agent.into()));
            mine.filter_map(|record| delivery(tx, asked, record).transpose()).collect::<Result<_, _>>()?
        }
        TrailKind::Claim => {
            let holders = claims::holders(tx, event, asked.limit)?;
            let mine = holders.into_iter().filter(|held| by(held.holder));
            mine.map(|held| claim(&ClaimHolding { event, conversation: said.conversation, held })).collect()
        }
        TrailKind::ToolCall => return called_about(tx, asked, &said),
        TrailKind::Send => {
            let is_sent = said.kind == EventKind::Message && by(said.author);
            Some(said).filter(|_| is_sent).iter().map(step).collect()
        }
        TrailKind::Act | TrailKind::Log => vec![],
    };
    Ok((items, None))
}

/// Lists decisions for agents, or the agents' dispositions.
fn deliveries(tx: &mut dyn Tx, asked: &Asked) -> Result<Found, Error> {
    let agent = match asked.actor {
        Some(Principal::Agent(id)) => Some(id),
        // Decisions are made for agents only.
        Some(Principal::Account(_)) => return Ok((vec![], None)),
        None => None,
    };
    let after = asked.after.as_deref().map(|text| {
        let (time, id) = text.split_once('.')?;
        Some((time.parse().ok()?, asked.key.named_delivery(id)?))
    });
    let after = after.map(|place| place.ok_or_else(wrong_place)).transpose()?;
    let filter = Filter { agent, conversation: asked.channel, since: asked.since, ..Filter::default() };
    let found = push::list(tx, &filter, after, asked.limit + 1)?;
    let more = found.len() as i64 > asked.limit;
    let records = &found[..found.len().min(asked.limit as usize)];
    let next = records.last().filter(|_| more).map(|record| place_of(asked, record));
    let entries = records.iter().filter_map(|record| delivery(tx, asked, record).transpose());
    Ok((entries.collect::<Result<_, _>>()?, next))
}

fn place_of(asked: &Asked, record: &Record) -> String {
    format!("{}.{}", record.created_at, asked.key.delivery_name(record.id))
}

fn delivery(tx: &mut dyn Tx, asked: &Asked, record: &Record) -> Result<Option<TrailEntry>, StoreError> {
    let (event, agent) = (party("event", &record.event), party("agent", &record.id.agent));
    let channel = record.conversation.to_string();
    let (kind, attention) = (asked.kind, record.attention);
    let (at, actor, action, subject, detail) = if kind == TrailKind::Decision {
        let detail = json!({
            "event_id": record.event.to_string(), "channel": channel, "directedness": attention.directedness,
            "mode": attention.mode, "reason": attention.reason, "priority": attention.priority,
            "classification": classify_stored(tx, record.event)?,
            "transport": record.transport, "trace_id": record.trace.to_string(),
        });
        (record.created_at, party("hub", &"hub"), attention.policy.to_string(), agent, detail)
    } else {
        let Some((disposition, at)) = record.disposition else { return Ok(None) };
        let detail =
            json!({"channel": channel, "policy": attention.policy, "trace_id": record.trace.to_string()});
        (at, agent, disposition.to_string(), event, detail)
    };
    Ok(Some(TrailEntry {
        at: rfc3339(at),
        actor,
        action,
        subject,
        cursor: place_of(asked, record),
        ..entry(kind, asked.key.delivery_name(record.id), detail)
    }))
}

/// Lists claims.
fn taken(tx: &mut dyn Tx, asked: &Asked, scope: TrailScope) -> Result<Found, Error> {
    let after = asked.after.as_deref().map(|text| claim_place(text).ok_or_else(wrong_place)).transpose()?;
    let found = trail::claims(tx, scope, after, asked.since, asked.limit + 1)?;
    let more = found.len() as i64 > asked.limit;
    let found = &found[..found.len().min(asked.limit as usize)];
    let next = found.last().filter(|_| more).map(|last| claim(last).cursor);
    let by = |taken: &&ClaimHolding| asked.actor.is_none_or(|actor| actor == taken.held.holder);
    Ok((found.iter().filter(by).map(claim).collect(), next))
}

fn claim_place(text: &str) -> Option<ClaimPlace> {
    let mut parts = text.split('.');
    let place = (EventId::parse(parts.next()?)?, parts.next()?.parse().ok()?, principal_id(parts.next()?)?);
    parts.next().is_none().then_some(place)
}

fn claim(taken: &ClaimHolding) -> TrailEntry {
    let ClaimHolding { event, conversation, held } = taken;
    let detail = json!({"channel": conversation.to_string(), "until": rfc3339(held.until)});
    TrailEntry {
        at: rfc3339(held.since),
        actor: party(held.holder.kind().as_str(), &held.holder),
        action: held.state.to_string(),
        subject: party("event", event),
        cursor: format!("{event}.{}.{}", held.since, held.holder),
        ..entry(TrailKind::Claim, event.to_string(), detail)
    }
}

/// The prefix of a cursor among calls of the hub's own tools.
const OF_HUB: &str = "call-";

/// Lists tool calls: those that agents report of their own tools, then those of the hub's tools.
fn called(tx: &mut dyn Tx, asked: &Asked, scope: TrailScope) -> Result<Found, Error> {
    let after = asked.after.as_deref().and_then(|after| after.strip_prefix(OF_HUB));
    let mut items = vec![];
    if after.is_none() {
        let (told, next) = done(tx, asked, scope, EventKind::ToolCall)?;
        if next.is_some() {
            return Ok((told, next));
        }
        items = told;
    }
    let after = after.map(|id| Uuid::try_parse(id).map_err(|_| wrong_place())).transpose()?;
    let room = asked.limit - items.len() as i64;
    let calls = tool_calls::list(tx, scope, after, asked.since, room + 1)?;
    let more = calls.len() as i64 > room;
    let calls = &calls[..calls.len().min(room.max(0) as usize)];
    let next = calls.last().map_or_else(|| format!("{OF_HUB}{}", Uuid::nil()), place_of_call);
    let by = |call: &&ToolCall| asked.actor.is_none_or(|actor| actor == call.caller);
    items.extend(calls.iter().filter(by).map(call));
    Ok((items, more.then_some(next)))
}

/// Lists tool calls about one event, which may itself report a call. A channel owner reads the calls of the
/// channel's members.
fn called_about(tx: &mut dyn Tx, asked: &Asked, said: &Event) -> Result<Found, Error> {
    let by = |who: Principal| asked.actor.is_none_or(|actor| actor == who);
    let after = asked.after.as_deref().map(|after| {
        after.strip_prefix(OF_HUB).and_then(|id| Uuid::try_parse(id).ok()).ok_or_else(wrong_place)
    });
    let after = after.transpose()?;
    let tells = after.is_none() && said.kind == EventKind::ToolCall && by(said.author);
    let mut items: Vec<_> = tells.then(|| step(said)).into_iter().collect();
    let calls = tool_calls::about(tx, said.id, after, asked.since, asked.limit + 1)?;
    let more = calls.len() as i64 > asked.limit;
    let calls = &calls[..calls.len().min(asked.limit as usize)];
    let next = calls.last().filter(|_| more).map(place_of_call);
    let is_there = |call: &&ToolCall| asked.channel.is_none() || call.conversation == asked.channel;
    items.extend(calls.iter().filter(|call| by(call.caller)).filter(is_there).map(call));
    Ok((items, next))
}

fn place_of_call(call: &ToolCall) -> String {
    format!("{OF_HUB}{}", call.id)
}

fn call(call: &ToolCall) -> TrailEntry {
    let detail = json!({
        "channel": call.conversation.map(|id| id.to_string()), "door": call.door, "outcome": call.outcome,
    });
    let subject = match (call.event, call.conversation) {
        (Some(event), _) => party("event", &event),
        (None, Some(conversation)) => party("channel", &conversation),
        (None, None) => party(call.caller.kind().as_str(), &call.caller),
    };
    TrailEntry {
        at: rfc3339(call.at()),
        actor: party(call.caller.kind().as_str(), &call.caller),
        action: call.tool.clone(),
        subject,
        cursor: place_of_call(call),
        ..entry(TrailKind::ToolCall, call.id.to_string(), detail)
    }
}

/// Lists events of one kind: the tool calls that agents reported, or messages.
fn done(tx: &mut dyn Tx, asked: &Asked, scope: TrailScope, kind: EventKind) -> Result<Found, Error> {
    let after = asked.after.as_deref();
    let found = match scope {
        TrailScope::Conversation(id) => {
            let after = after.map(|after| after.parse::<i64>().map_err(|_| wrong_place())).transpose()?;
            let begin = fleet::place_at(tx, id, asked.since)?;
            trail::done_in(tx, id, kind, after.unwrap_or_default().max(begin), LOOKED_AT)?
        }
        TrailScope::Author(who) => {
            let after = after.map(|after| EventId::parse(after).ok_or_else(wrong_place)).transpose()?;
            trail::done_by(tx, who, after, asked.since, LOOKED_AT)?
        }
    };
    let place = |event: &Event| match scope {
        TrailScope::Conversation(_) => event.seq.to_string(),
        TrailScope::Author(_) => event.id.to_string(),
    };
    let by = |event: &&Event| event.kind == kind && asked.actor.is_none_or(|actor| actor == event.author);
    let looked_at = found.last().filter(|_| found.len() as i64 == LOOKED_AT).map(place);
    let mut items: Vec<_> =
        found.iter().filter(by).map(|event| TrailEntry { cursor: place(event), ..step(event) }).collect();
    if items.len() as i64 > asked.limit {
        items.truncate(asked.limit as usize);
        let next = items.last().map(|last| last.cursor.clone());
        return Ok((items, next));
    }
    Ok((items, looked_at))
}

fn step(event: &Event) -> TrailEntry {
    let body: Value = serde_json::from_str(&event.body).unwrap_or_default();
    let (kind, action) = if event.kind == EventKind::ToolCall {
        (TrailKind::ToolCall, body["name"].as_str().unwrap_or("tool").to_owned())
    } else {
        (TrailKind::Send, event.kind.to_string())
    };
    let id = |id: Option<EventId>| id.map(|id| id.to_string());
    let detail = json!({
        "channel": event.conversation.to_string(), "sequence": event.seq, "thread": id(event.thread),
        "about": id(event.target), "trace_id": event.trace.to_string(),
    });
    TrailEntry {
        at: rfc3339(event.created_at),
        actor: party(event.author.kind().as_str(), &event.author),
        action,
        subject: party("event", &event.id),
        ..entry(kind, event.id.to_string(), detail)
    }
}

fn party(kind: &str, id: &impl ToString) -> AuditParty {
    AuditParty { kind: kind.to_owned(), id: id.to_string() }
}

fn entry(kind: TrailKind, id: String, detail: Value) -> TrailEntry {
    let nobody = AuditParty { kind: String::new(), id: String::new() };
    TrailEntry {
        id,
        kind,
        at: String::new(),
        actor: nobody.clone(),
        action: String::new(),
        subject: nobody,
        detail,
        request_id: String::new(),
        client_request_id: String::new(),
        client: String::new(),
        repeats: 0,
        cursor: String::new(),
    }
}
