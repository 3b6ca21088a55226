//! The audit log.

use crate::agents::AgentRef;
use chorus_node::Error;
use chorus_node::page::page;
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::api::operator::{AuditParty, AuditQuery, PartyName, RecordedAct};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, AgentId, ConversationId, CredentialId, ScoreId, StreamId};
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use chorus_store::audit::{self, Filter, Recorded};
use chorus_store::{Tx, accounts};
use std::sync::Arc;

/// Returns a page of recorded acts, the newest first.
pub async fn audit_log(app: &AppState, asked: AuditQuery) -> Result<Items<RecordedAct>, Error> {
    let AuditQuery { actor, action, subject, since, after, limit } = asked;
    let since = since.map(|since| {
        parse_rfc3339(&since)
            .ok_or_else(|| Faults::one("since", "must be a time such as 2026-03-20T10:00:00Z"))
    });
    let since = since.transpose()?.unwrap_or_default();
    let hub = Arc::clone(app);
    let list = move |tx: &mut dyn Tx| {
        let mut id = |name, party: &Option<PartyName>| {
            party.as_ref().map(|PartyName(text)| party_id(tx, &hub, name, text)).transpose()
        };
        let (actor, subject) = (id("actor", &actor)?, id("subject", &subject)?);
        Ok(audit::list(tx, &Filter { actor, action, subject, since }, after, limit + 1)?)
    };
    let found = app.store.read::<_, Error, _>(list).await?.into_iter().map(shown).collect();
    Ok(page(app, found, limit, |last: &RecordedAct| last.id.to_string()))
}

fn shown(recorded: Recorded) -> RecordedAct {
    let party = |(kind, id): (String, String)| AuditParty { kind, id };
    RecordedAct {
        id: recorded.id,
        at: rfc3339(recorded.at),
        actor: party(recorded.actor),
        action: recorded.action.into(),
        subject: party(recorded.subject),
        detail: serde_json::from_str(&recorded.detail).unwrap_or_default(),
        request_id: recorded.request_id,
        client_request_id: recorded.client_request_id,
        client: recorded.client,
        repeats: recorded.repeats,
    }
}

/// Resolves a filter of the operator to an id. An id is taken as it is, even if nobody has it any more.
/// Otherwise this is the current holder of the name or address. An email address takes precedence over an
/// agent's address that looks the same.
pub(crate) fn party_id(tx: &mut dyn Tx, app: &App, name: &str, text: &str) -> Result<String, Error> {
    let account = match written_id(text) {
        Some(id) => return Ok(id),
        None => accounts::by_email(tx, text)?,
    };
    let id = match account {
        Some(account) => Some(account.id.to_string()),
        None => agent_called(tx, app, text)?,
    };
    id.ok_or_else(|| {
        let takes = "an agent's id, name or address, an account's id (acc_…) or email address, a channel's id (ch_…), a \
                     credential's (crd_…), a Score's (sc_…), a work stream's (stream_…), `operator`, `nobody` or `hub`; this is none of \
                     them, or nobody has it now";
        Error::new(Code::NotFound, format_args!("{name}: takes {takes}"))
    })
}

/// Resolves a filter of a channel owner to an id. Email addresses are not looked up, so that an owner cannot
/// find out which accounts exist.
pub(crate) fn party_id_for_owner(
    tx: &mut dyn Tx,
    app: &App,
    name: &str,
    text: &str,
) -> Result<String, Error> {
    let id = match written_id(text) {
        Some(id) => Some(id),
        None => agent_called(tx, app, text)?,
    };
    id.ok_or_else(|| {
        let takes = "an agent's id, name or address, an account's id (acc_…), `operator`, `nobody` or `hub`; this is none of \
                     them, or nobody has it now";
        Error::new(Code::NotFound, format_args!("{name}: takes {takes}"))
    })
}

/// Returns a text that is already an id or a fixed word for a party.
fn written_id(text: &str) -> Option<String> {
    AgentId::parse(text)
        .map(|id| id.to_string())
        .or_else(|| AccountId::parse(text).map(|id| id.to_string()))
        .or_else(|| ConversationId::parse(text).map(|id| id.to_string()))
        .or_else(|| CredentialId::parse(text).map(|id| id.to_string()))
        .or_else(|| ScoreId::parse(text).map(|id| id.to_string()))
        .or_else(|| StreamId::parse(text).map(|id| id.to_string()))
        .or_else(|| ["operator", "nobody", "hub"].contains(&text).then(|| text.to_owned()))
}

fn agent_called(tx: &mut dyn Tx, app: &App, text: &str) -> Result<Option<String>, Error> {
    let agent = AgentRef::parse(app, text).ok().map(|agent| agent.find(tx)).transpose()?.flatten();
    Ok(agent.map(|agent| agent.id.to_string()))
}
