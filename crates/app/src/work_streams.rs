//! Work streams: creating, listing, changing and closing them, and taking part.
//!
//! A member of one of its channels sees a stream, as far as that channel goes. Its owners change and close it,
//! and so do the owners of its channels, so that no stream is without an owner. Only an owner or lead of a
//! channel may add a stream to it, because messages there notify the stream's owners. An owner of a stream
//! must be in one of its channels. A caller cannot remove members or channels that it does not see. Every act
//! is in the audit log.
//!
//! The rule which messages belong to a stream is not here: that is decided where a message is posted.

mod closer;

pub use closer::{Claimed, Closer, look_closer};

use crate::conversation::only;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::idempotency::{Done, Once};
use chorus_node::limits::usage::room;
use chorus_node::page::page;
use chorus_node::{App, AppState};
use chorus_protocol::api::channels::ChannelName;
use chorus_protocol::api::streams::{NewStream, StreamChange, StreamMemberView, StreamPage, StreamView};
use chorus_protocol::api::{Items, Name};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, Principal, StreamId, TraceId};
use chorus_protocol::redact::MaskedText;
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::conversation::{self, ConversationError, MAX_STREAMS};
use chorus_store::digests::{self, DigestPosition, DigestScope};
use chorus_store::work_streams::{self, WorkStream};
use chorus_store::{StoreError, Tx, claims, conversations, members};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The error for a caller that may not add a stream to a channel.
const MAY_ADD: &str = "the owner of a channel and those who lead it let a work stream go on in it";
/// The error for a caller that may not change a stream.
const MAY_CHANGE: &str = "its owners, and the owners of its channels, change and close a work stream";
/// Open streams that one principal may have created.
const MAX_MADE: u64 = 200;
/// Channels per stream.
const MAX_CHANNELS: usize = 50;
/// Members per stream.
const MAX_MEMBERS: u64 = 200;

/// Parses a stream's id. Any other text gives the error for an unknown stream.
pub fn stream_id(text: &str) -> Result<StreamId, Error> {
    StreamId::parse(text).ok_or_else(no_stream)
}

fn no_stream() -> Error {
    Error::not_found("work stream")
}

/// Creates a stream. Its creator owns it, unless the request names other owners.
pub async fn make_stream(
    app: &AppState,
    who: Principal,
    context: RequestContext,
    new: NewStream,
    once: Once,
) -> Result<Done<StreamView>, Error> {
    let name = name(&new.name);
    let stream =
        WorkStream { id: StreamId(app.environment.uuid_v7()), name, created_at: app.now(), closed_at: None };
    let trace = TraceId(app.environment.uuid_v7());
    let log = Log { app: Arc::clone(app), who, context };
    let work = move |tx: &mut dyn Tx| {
        add_to_channels(tx, who, &[], &new.conversations)?;
        // Locked, so that of two concurrent creations the second counts the first.
        tx.lock(who.into())?;
        room("streams", work_streams::made_by(tx, who)?, MAX_MADE)?;
        work_streams::insert(tx, &stream, who, trace)?;
        work_streams::put_conversations(tx, stream.id, &new.conversations)?;
        let owners = if new.owners.is_empty() { vec![who] } else { found(tx, stream.id, who, &new.owners)? };
        work_streams::put_members(tx, stream.id, true, &owners)?;
        let participants = found(tx, stream.id, who, &new.participants)?;
        work_streams::put_members(tx, stream.id, false, &participants)?;
        lead(tx, stream.id, who, new.lead.as_ref(), stream.created_at)?;
        let detail = json!({"name": stream.name, "channels": new.conversations.len()});
        log.record(tx, Action::StreamMade, stream.id, detail)?;
        view(tx, &stream, who)
    };
    app.once(once, |_| Ok(()), work).await
}

/// Lists the open streams of the caller's channels.
pub async fn list_streams(app: &App, who: Principal, asked: StreamPage) -> Result<Items<StreamView>, Error> {
    let StreamPage { after, limit } = asked;
    let find = move |tx: &mut dyn Tx| {
        let found = work_streams::seen_by(tx, who, after, limit + 1)?;
        found.iter().map(|stream| view(tx, stream, who)).collect::<Result<Vec<_>, Error>>()
    };
    let found = app.store.read::<_, Error, _>(find).await?;
    Ok(page(app, found, limit, |last: &StreamView| last.id.clone()))
}

/// Returns one stream, open or closed.
pub async fn look_at_stream(app: &App, who: Principal, id: StreamId) -> Result<StreamView, Error> {
    let find = move |tx: &mut dyn Tx| {
        let stream = visible(tx, id, who)?;
        view(tx, &stream, who)
    };
    app.store.read::<_, Error, _>(find).await
}

/// Changes a stream. Omitted members stay as they are.
pub async fn change_stream(
    app: &AppState,
    who: Principal,
    context: RequestContext,
    id: StreamId,
    change: StreamChange,
    once: Once,
) -> Result<Done<StreamView>, Error> {
    let StreamChange { name: called, conversations, owners, participants, lead: leads } = change;
    if called.is_none()
        && conversations.is_none()
        && owners.is_none()
        && participants.is_none()
        && leads.is_none()
    {
        let what = "must have a name, conversations, owners, participants or a lead";
        return Err(Faults::one("body", what).into());
    }
    let called = called.as_ref().map(name);
    let now = app.now();
    let work = move |tx: &mut dyn Tx, log: &Log| {
        if let Some(conversations) = &conversations {
            let known = work_streams::conversations_of(tx, id, who)?;
            add_to_channels(tx, who, &known, conversations)?;
        }
        let mut stream = hold(tx, id, who)?;
        if let Some(called) = &called {
            stream.name.clone_from(called);
            work_streams::update(tx, &stream)?;
        }
        if let Some(conversations) = &conversations {
            put_conversations(tx, id, who, conversations)?;
        }
        if let Some(owners) = &owners {
            put_members(tx, id, who, true, owners)?;
        }
        if let Some(participants) = &participants {
            put_members(tx, id, who, false, participants)?;
        }
        lead(tx, id, who, leads.as_ref(), now)?;
        let changed = [
            ("name", called.is_some()),
            ("conversations", conversations.is_some()),
            ("owners", owners.is_some()),
            ("participants", participants.is_some()),
            ("lead", leads.is_some()),
        ];
        let changed: Vec<_> = changed.iter().filter(|(_, is)| *is).map(|(what, _)| *what).collect();
        log.record(tx, Action::StreamChanged, id, json!({"name": stream.name, "changed": changed}))?;
        Ok(stream)
    };
    update(app, who, context, id, once, work).await
}

/// Closes a stream, and releases the claims in it. Closing it again changes nothing.
pub async fn close_stream(
    app: &AppState,
    who: Principal,
    context: RequestContext,
    id: StreamId,
    once: Once,
) -> Result<Done<StreamView>, Error> {
    let now = app.now();
    let work = move |tx: &mut dyn Tx, log: &Log| {
        // A claim is written under the lock of its conversation. Locks are taken in the order of ids, as
        // everywhere.
        for conversation in work_streams::conversations(tx, id)? {
            tx.lock(conversation.into())?;
        }
        let mut stream = hold_any(tx, id, who)?;
        if stream.closed_at.is_none() {
            stream.closed_at = Some(now);
            work_streams::update(tx, &stream)?;
            claims::free_stream(tx, id, now)?;
            log.record(tx, Action::StreamClosed, id, json!({"name": stream.name}))?;
        }
        Ok(stream)
    };
    update(app, who, context, id, once, work).await
}

/// Lets the caller take part in a stream of one of its channels.
pub async fn join_stream(
    app: &AppState,
    who: Principal,
    context: RequestContext,
    id: StreamId,
    once: Once,
) -> Result<Done<StreamView>, Error> {
    let work = move |tx: &mut dyn Tx, log: &Log| {
        tx.lock(id.into())?;
        let stream = open(visible(tx, id, who)?)?;
        if work_streams::part_of(tx, id, who)?.is_none() {
            room("stream_members", work_streams::count_members(tx, id)?, MAX_MEMBERS)?;
            work_streams::join(tx, id, who)?;
            log.record(tx, Action::StreamJoined, id, json!({"name": stream.name}))?;
        }
        Ok(stream)
    };
    update(app, who, context, id, once, work).await
}

/// Ends the caller's part in a stream.
pub async fn leave_stream(
    app: &AppState,
    who: Principal,
    context: RequestContext,
    id: StreamId,
    once: Once,
) -> Result<Done<StreamView>, Error> {
    let work = move |tx: &mut dyn Tx, log: &Log| {
        tx.lock(id.into())?;
        let stream = visible(tx, id, who)?;
        if work_streams::remove_member(tx, id, who)? {
            log.record(tx, Action::StreamLeft, id, json!({"name": stream.name}))?;
        }
        Ok(stream)
    };
    update(app, who, context, id, once, work).await
}

/// Runs an update of a stream that the caller sees, and returns the stream after it.
async fn update(
    app: &AppState,
    who: Principal,
    context: RequestContext,
    id: StreamId,
    once: Once,
    work: impl Fn(&mut dyn Tx, &Log) -> Result<WorkStream, Error> + Send + 'static,
) -> Result<Done<StreamView>, Error> {
    let log = Log { app: Arc::clone(app), who, context };
    let work = move |tx: &mut dyn Tx| {
        visible(tx, id, who)?;
        let stream = work(tx, &log)?;
        view(tx, &stream, who)
    };
    app.once(once, is_visible(who, id), work).await
}

/// The caller and the request, for entries in the audit log.
struct Log {
    app: AppState,
    who: Principal,
    context: RequestContext,
}

impl Log {
    fn record(&self, tx: &mut dyn Tx, action: Action, id: StreamId, detail: Value) -> Result<(), StoreError> {
        let (actor, subject) = (Actor::Principal(self.who), Subject::Stream(id));
        self.context.record(tx, &self.app, Deed::new(actor, action, subject, detail))
    }
}

/// Returns the name with credentials masked.
fn name(ChannelName(name): &ChannelName) -> MaskedText {
    MaskedText::new(name.clone())
}

/// Checks that the caller may add a stream to the new channels, and locks them in the order of ids.
fn add_to_channels(
    tx: &mut dyn Tx,
    who: Principal,
    known: &[ConversationId],
    wanted: &[ConversationId],
) -> Result<(), Error> {
    for id in wanted.iter().collect::<BTreeSet<_>>() {
        if known.contains(id) {
            continue;
        }
        conversation::may_add(tx, *id, who).map_err(only(MAY_ADD))?;
        let used = work_streams::open_in(tx, *id, MAX_STREAMS)?.len() as i64;
        room("streams_of_channel", used, MAX_STREAMS as u64)?;
    }
    Ok(())
}

/// Sets the channels of a stream. Channels that the caller does not see are kept.
fn put_conversations(
    tx: &mut dyn Tx,
    id: StreamId,
    who: Principal,
    wanted: &[ConversationId],
) -> Result<(), Error> {
    let known = work_streams::conversations_of(tx, id, who)?;
    let mut all: BTreeSet<_> = work_streams::conversations(tx, id)?.into_iter().collect();
    all.retain(|one| !known.contains(one));
    all.extend(wanted);
    if all.len() > MAX_CHANNELS {
        return Err(Faults::one("conversations", "must be 50 at most, with those of others").into());
    }
    Ok(work_streams::put_conversations(tx, id, &all.into_iter().collect::<Vec<_>>())?)
}

/// Sets the owners or members of a stream. Those that the caller does not see are kept.
fn put_members(
    tx: &mut dyn Tx,
    id: StreamId,
    who: Principal,
    owns: bool,
    wanted: &[Name],
) -> Result<(), Error> {
    let mut all = found(tx, id, who, wanted)?;
    all.extend(work_streams::members_hidden_from(tx, id, owns, who)?);
    work_streams::put_members(tx, id, owns, &all)?;
    let others = work_streams::count_members(tx, id)? - 1;
    Ok(room("stream_members", others, MAX_MEMBERS)?)
}

/// Resolves handles in those channels of the stream that the caller is in.
fn found(tx: &mut dyn Tx, id: StreamId, who: Principal, handles: &[Name]) -> Result<Vec<Principal>, Error> {
    let places = work_streams::conversations_of(tx, id, who)?;
    let mut found: Vec<Principal> = vec![];
    for Name(handle) in handles {
        let mut member = None;
        for place in &places {
            member = members::by_handle(tx, *place, handle)?;
            if member.is_some() {
                break;
            }
        }
        let member = member.ok_or_else(|| ConversationError::NoHandle(handle.clone()))?;
        if !found.contains(&member.principal) {
            found.push(member.principal);
        }
    }
    Ok(found)
}

fn lead(tx: &mut dyn Tx, id: StreamId, who: Principal, leads: Option<&Name>, now: i64) -> Result<(), Error> {
    let Some(leads) = leads else { return Ok(()) };
    for leads in found(tx, id, who, std::slice::from_ref(leads))? {
        if work_streams::part_of(tx, id, leads)?.is_none() {
            return Err(Faults::one("lead", "must be one of the owners or participants").into());
        }
        work_streams::set_lead(tx, id, leads.uuid())?;
        if let Some(agent) = leads.agent() {
            let through = digests::head(tx, DigestScope::Stream, id.0)?;
            digests::begin(
                tx,
                &DigestPosition { agent, id: id.0, scope: DigestScope::Stream, through, since_at: now },
            )?;
        }
    }
    Ok(())
}

/// Returns a stream that the caller may see.
fn visible(tx: &mut dyn Tx, id: StreamId, who: Principal) -> Result<WorkStream, Error> {
    let stream = work_streams::by_id(tx, id)?.ok_or_else(no_stream)?;
    if work_streams::conversations_of(tx, id, who)?.is_empty() { Err(no_stream()) } else { Ok(stream) }
}

fn is_visible(who: Principal, id: StreamId) -> impl Fn(&mut dyn Tx) -> Result<(), Error> + Send {
    move |tx| visible(tx, id, who).map(drop)
}

fn open(stream: WorkStream) -> Result<WorkStream, Error> {
    match stream.closed_at {
        None => Ok(stream),
        Some(_) => Err(Error::new(Code::Conflict, "this work stream is closed: make another")),
    }
}

/// Returns an open stream that the caller may change, locked until the transaction ends.
fn hold(tx: &mut dyn Tx, id: StreamId, who: Principal) -> Result<WorkStream, Error> {
    open(hold_any(tx, id, who)?)
}

fn hold_any(tx: &mut dyn Tx, id: StreamId, who: Principal) -> Result<WorkStream, Error> {
    // Checked before the lock, so that a caller without permission makes nobody wait, and after it, because
    // the permission may have ended meanwhile.
    changeable(tx, id, who)?;
    tx.lock(id.into())?;
    changeable(tx, id, who)
}

fn changeable(tx: &mut dyn Tx, id: StreamId, who: Principal) -> Result<WorkStream, Error> {
    let stream = visible(tx, id, who)?;
    if may_change(tx, id, who)? { Ok(stream) } else { Err(Error::new(Code::Forbidden, MAY_CHANGE)) }
}

/// Returns whether a principal owns the stream or one of its channels.
fn may_change(tx: &mut dyn Tx, id: StreamId, who: Principal) -> Result<bool, StoreError> {
    if work_streams::part_of(tx, id, who)?.is_some_and(|part| part.owns) {
        return Ok(true);
    }
    for place in work_streams::conversations_of(tx, id, who)? {
        if conversations::by_id(tx, place)?.is_some_and(|place| place.owner == who) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Renders a stream for a member of some of its channels.
fn view(tx: &mut dyn Tx, stream: &WorkStream, who: Principal) -> Result<StreamView, Error> {
    let (mut owners, mut participants, mut lead) = (vec![], vec![], None);
    for (principal, handle, part) in work_streams::members_seen_by(tx, stream.id, who)? {
        let member = StreamMemberView { id: principal.to_string(), kind: principal.kind().into(), handle };
        lead = lead.or_else(|| part.lead.then(|| member.clone()));
        if part.owns { &mut owners } else { &mut participants }.push(member);
    }
    let places = work_streams::conversations_of(tx, stream.id, who)?;
    Ok(StreamView {
        id: stream.id.to_string(),
        name: stream.name.to_string(),
        owners,
        participants,
        lead,
        conversations: places.iter().map(ToString::to_string).collect(),
        created_at: rfc3339(stream.created_at),
        closed_at: stream.closed_at.map(rfc3339),
    })
}
