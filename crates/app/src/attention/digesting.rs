//! Digests: who leads is told how much happened that it was not given.
//!
//! A step of background work: it finds out for itself whether somebody still leads, what happened since, and whether it is time,
//! and is harmless if it is not. Nothing is told to who has neither a session nor a harness of its own, nor while something waits
//! there already; it is counted on until then, so that neither a restart nor a night loses anything. When it is time, and in which words, is the engine's to say.

use super::ways::shows;
use chorus_attention::digest::{self, Digest, EVERY_MS};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, StreamId, TraceId};
use chorus_protocol::inbox::{DigestBody, DigestCount};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{AuthorKind, PrincipalKind};
use chorus_store::digests::{self, Happened, Scope, Told};
use chorus_store::{StoreError, Tx, conversations, members, work_streams};
use uuid::Uuid;

/// How many of the newest messages a digest names.
const MAX_REFERENCES: i64 = 10;

/// For whom it is time, some of them.
pub fn find(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<(AgentId, Uuid)>, StoreError> {
    digests::due(tx, now - EVERY_MS, now, limit)
}

/// Tells one how much happened in one place, if anything did. How many events it was told of.
pub fn tell(
    tx: &mut dyn Tx,
    now: i64,
    of: (AgentId, Uuid),
    ids: (EventId, TraceId),
) -> Result<u64, StoreError> {
    // Of two nodes that find the same one comes first.
    tx.lock(of.0.0)?;
    let Some(told) = digests::of(tx, of)? else { return Ok(0) };
    if !leads(tx, &told)? {
        digests::end(tx, of)?;
        return Ok(0);
    }
    if told.since_at > now - EVERY_MS || !shows(tx, told.agent, now)?.digest {
        return Ok(0);
    }
    let happened = digests::happened(tx, &told, MAX_REFERENCES)?;
    let digest = sum_up(&told, &happened);
    let mut events = 0;
    if digest.due_at().is_some_and(|at| at <= now) {
        let body = serde_json::to_string(&body(tx, &told, &happened, &digest)?);
        let body = body.map_err(|error| StoreError::Unexpected(error.into()))?;
        if !digests::deliver(tx, &told, ids, &body, digest::attention(false), now)? {
            return Ok(0);
        }
        events = digest.by(AuthorKind::Agent) + digest.by(AuthorKind::Human);
    }
    digests::advance(tx, of, happened.through, now)?;
    Ok(events)
}

/// Whether somebody who is told of a place still leads there.
pub fn still_leads(tx: &mut dyn Tx, of: (AgentId, Uuid)) -> Result<bool, StoreError> {
    digests::of(tx, of)?.map_or(Ok(false), |told| leads(tx, &told))
}

fn leads(tx: &mut dyn Tx, told: &Told) -> Result<bool, StoreError> {
    match told.scope {
        Scope::Channel => {
            let id = ConversationId(told.id);
            let open = conversations::by_id(tx, id)?.is_some_and(|place| place.archived_at.is_none());
            Ok(open && members::of(tx, id, told.agent.into())?.is_some_and(|member| member.lead))
        }
        Scope::Stream => {
            let id = StreamId(told.id);
            let open = work_streams::by_id(tx, id)?.is_some_and(|stream| stream.closed_at.is_none());
            let leads = work_streams::part_of(tx, id, told.agent.into())?.is_some_and(|part| part.lead);
            Ok(open && leads && !work_streams::conversations_of(tx, id, told.agent.into())?.is_empty())
        }
    }
}

fn sum_up(told: &Told, happened: &Happened) -> Digest {
    let scope = match told.scope {
        Scope::Channel => digest::Scope::Channel,
        Scope::Stream => digest::Scope::Stream,
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
    told: &Told,
    happened: &Happened,
    digest: &Digest,
) -> Result<DigestBody, StoreError> {
    let after = match told.scope {
        Scope::Channel => told.through.to_string(),
        Scope::Stream => {
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
        conversation: (told.scope == Scope::Channel).then_some(ConversationId(told.id)),
        stream: (told.scope == Scope::Stream).then_some(StreamId(told.id)),
        since: rfc3339(told.since_at),
        summary: digest.to_string(),
        counts: counts.collect(),
        references: happened.newest.clone(),
        after,
    })
}
