//! Delivery states of sent envelopes, for their senders and the operator. The content is not included.

use crate::agents::AgentRef;
use crate::deliveries::put_in_order;
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::{Caller, Identity};
use chorus_protocol::api::Items;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::TraceId;
use chorus_protocol::relay::{EnvelopeRung, SentMessage, SentRung};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{DeliveryState, Transport};
use chorus_store::sent::{self, Place, Sent};
use chorus_store::{StoreError, Tx};

/// Returns the agent whose sent envelopes are listed: the caller itself, or the agent that the operator names.
pub async fn sender_of(app: &App, caller: &Caller, named: Option<&str>) -> Result<Identity, Error> {
    let named = match (caller, named) {
        (Caller::Operator, Some(named)) => named,
        (Caller::Operator, None) => return Err(Faults::one("sender", "is required of the operator").into()),
        (caller, _) => return caller.agent().cloned(),
    };
    let agent = AgentRef::parse(app, named)?;
    let found = app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| agent.find(tx)).await?;
    let found = found.ok_or_else(|| {
        Error::new(Code::AgentNotFound, "sender: no agent of this address is registered here")
    })?;
    Ok(Identity { id: found.id, name: found.name })
}

/// Returns a page of the envelopes that an agent sent, the newest first.
pub async fn sent(
    app: &App,
    sender: &Identity,
    after: Option<&str>,
    limit: i64,
) -> Result<Items<SentMessage>, Error> {
    let after = after.map(|text| parse_cursor(app, text)).transpose()?;
    let id = sender.id;
    let read = move |tx: &mut dyn Tx| sent::page(tx, id, after, limit + 1);
    let mut page = app.store.read::<_, StoreError, _>(read).await?;
    let more = page.len() as i64 > limit;
    page.truncate(limit as usize);
    let next = page.last().filter(|_| more).map(|last| {
        let place = app.config.master_key.hide_place(last.trace.as_bytes(), last.seq);
        format!("{}-{place}", last.trace)
    });
    Ok(Items { items: page.into_iter().map(|sent| shown(app, sender, sent)).collect(), next })
}

/// Returns one envelope that an agent sent.
pub async fn sent_one(app: &App, sender: &Identity, trace: &str) -> Result<SentMessage, Error> {
    let missing = || {
        Error::new(
            Code::NotFound,
            "no envelope of this trace_id was sent by this agent, or it is not kept any more",
        )
    };
    let (id, trace) = (sender.id, TraceId::parse(trace).ok_or_else(missing)?);
    let found = app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| sent::one(tx, id, trace)).await?;
    Ok(shown(app, sender, found.ok_or_else(missing)?))
}

fn parse_cursor(app: &App, text: &str) -> Result<Place, Error> {
    let place = text.split_once('-').and_then(|(trace, place)| {
        let (trace, place) = (TraceId::parse(trace)?, place.parse().ok()?);
        Some((trace, app.config.master_key.reveal_place(trace.as_bytes(), place)))
    });
    place.ok_or_else(|| Faults::one("after", "must be `metadata.next` of the page before").into())
}

fn shown(app: &App, sender: &Identity, sent: Sent) -> SentMessage {
    let mut rungs = vec![(EnvelopeRung::Stored, Some(sent.created_at), None)];
    if sent.handed {
        rungs.push((EnvelopeRung::Handed, sent.handed_at, None));
    }
    match sent.state {
        DeliveryState::Delivered => rungs.push((EnvelopeRung::Delivered, Some(sent.updated_at), None)),
        DeliveryState::Failed | DeliveryState::Dead => {
            rungs.push((EnvelopeRung::Failed, Some(sent.updated_at), sent.detail));
        }
        DeliveryState::DeliveredSse
        | DeliveryState::Queued
        | DeliveryState::Sending
        | DeliveryState::Waiting => {}
    }
    let mut times: Vec<_> = rungs.iter().map(|(_, at, _)| *at).collect();
    put_in_order(&mut times);
    let rungs = rungs.into_iter().zip(times);
    let rungs =
        rungs.map(|((rung, _, reason), at)| SentRung { rung: rung.into(), at: at.map(rfc3339), reason });
    SentMessage {
        trace_id: sent.trace,
        sender_id: app.address(&sender.name),
        receiver_id: app.address(&sent.receiver),
        delivery: match sent.state {
            DeliveryState::Queued if sent.handed && sent.transport == Transport::Inbox => {
                DeliveryState::DeliveredSse
            }
            state => state,
        },
        rungs: rungs.collect(),
        timestamp: rfc3339(sent.created_at),
    }
}
