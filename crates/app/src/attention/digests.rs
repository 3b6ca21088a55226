//! Digests: tells the leads of a conversation how many events they were not given.
//!
//! This is a step of background work. It checks by itself that the recipient still leads, that something
//! happened, and that the digest is due; otherwise it does nothing. An agent with neither a session nor a
//! harness of its own gets no digest, and neither does one that still has a digest waiting. Its events are
//! counted further until then, so that neither a restart nor a long absence loses any. The engine decides the
//! time and the wording.

use chorus_attention::digest::{self, Digest, EVERY_MS};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, StreamId, TraceId};
use chorus_protocol::inbox::{DigestBody, DigestCount};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{AuthorKind, PrincipalKind};
use chorus_store::attention::abilities;
use chorus_store::digests::{self, DigestEvents, DigestPosition, DigestScope};
use chorus_store::{StoreError, Tx, conversations, members, work_streams};
use uuid::Uuid;

/// The number of newest messages that a digest names.
const MAX_REFERENCES: i64 = 10;

/// Returns up to `limit` agents and places whose digest is due.
pub fn find(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<(AgentId, Uuid)>, StoreError> {
    digests::due(tx, now - EVERY_MS, now, limit)
}

/// Sends an agent the digest of one place if it is due. Returns the number of events in the digest.
pub fn tell(
    tx: &mut dyn Tx,
    now: i64,
    of: (AgentId, Uuid),
    ids: (EventId, TraceId),
) -> Result<u64, StoreError> {
    // The lock serializes two nodes that find the same digest.
    tx.lock(of.0.into())?;
    let Some(told) = digests::of(tx, of.0, of.1)? else { return Ok(0) };
    if !leads(tx, &told)? {
        digests::end(tx, of.0, of.1)?;
        return Ok(0);
    }
    if told.since_at > now - EVERY_MS || !abilities(tx, told.agent, now)?.shows.digest {
        return Ok(0);
    }
    let happened = digests::happened(tx, &told, MAX_REFERENCES)?;
    let digest = sum_up(&told, &happened);
    let mut events = 0;
    if digest.due_at().is_some_and(|at| at <= now) {
        let body = serde_json::to_string(&body(tx, &told, &happened, &digest)?);
        let body = body.map_err(|error| StoreError::Unexpected(error.into()))?;
        if !digests::deliver(tx, &told, ids.0, ids.1, &body, now)? {
            return Ok(0);
        }
        events = digest.by(AuthorKind::Agent) + digest.by(AuthorKind::Human);
    }
    digests::advance(tx, of.0, of.1, happened.through, now)?;
    Ok(events)
}

/// Returns `true` if the recipient of a digest still leads in its place.
pub fn still_leads(tx: &mut dyn Tx, of: (AgentId, Uuid)) -> Result<bool, StoreError> {
    digests::of(tx, of.0, of.1)?.map_or(Ok(false), |told| leads(tx, &told))
}

fn leads(tx: &mut dyn Tx, told: &DigestPosition) -> Result<bool, StoreError> {
    match told.scope {
        DigestScope::Channel => {
            let id = ConversationId(told.id);
            let open = conversations::by_id(tx, id)?.is_some_and(|place| place.archived_at.is_none());
            Ok(open && members::of(tx, id, told.agent.into())?.is_some_and(|member| member.lead))
        }
        DigestScope::Stream => {
            let id = StreamId(told.id);
            let open = work_streams::by_id(tx, id)?.is_some_and(|stream| stream.closed_at.is_none());
            let leads = work_streams::part_of(tx, id, told.agent.into())?.is_some_and(|part| part.lead);
            Ok(open && leads && !work_streams::conversations_of(tx, id, told.agent.into())?.is_empty())
        }
    }
}

fn sum_up(told: &DigestPosition, happened: &DigestEvents) -> Digest {
    let scope = match told.scope {
        DigestScope::Channel => digest::Scope::Channel,
        DigestScope::Stream => digest::Scope::Stream,
    };
    let mut digest = Digest::new(scope, told.since_at);
    for (kind, author, count) in &happened.counts {
        digest.add(*kind, author_kind(*author), u32::try_from(*count).unwrap_or(u32::MAX));
    }
    digest
}

fn author_kind(author: PrincipalKind) -> AuthorKind {
    match author {
        PrincipalKind::Account => AuthorKind::Human,
        PrincipalKind::Agent => AuthorKind::Agent,
        PrincipalKind::Owner | PrincipalKind::Operator | PrincipalKind::Nobody | PrincipalKind::System => {
            AuthorKind::System
        }
    }
}

fn body(
    tx: &mut dyn Tx,
    told: &DigestPosition,
    happened: &DigestEvents,
    digest: &Digest,
) -> Result<DigestBody, StoreError> {
    let after = match told.scope {
        DigestScope::Channel => told.through.to_string(),
        DigestScope::Stream => {
            let last = work_streams::last_until(tx, StreamId(told.id), told.agent.into(), told.through)?;
            work_streams::cursor(last)
        }
    };
    let counts = happened.counts.iter().map(|(kind, author, count)| DigestCount {
        kind: *kind,
        author: author_kind(*author),
        count: u32::try_from(*count).unwrap_or(u32::MAX),
    });
    Ok(DigestBody {
        conversation: (told.scope == DigestScope::Channel).then_some(ConversationId(told.id)),
        stream: (told.scope == DigestScope::Stream).then_some(StreamId(told.id)),
        since: rfc3339(told.since_at),
        summary: digest.to_string(),
        counts: counts.collect(),
        references: happened.newest.clone(),
        after,
    })
}
