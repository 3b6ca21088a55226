//! Offers that stand for a while, each at what its agent answered when it was asked, or else at the price it lists.

use super::{agents, credits};
use crate::deliveries::{self, Bringing, Chat, Lease, NewDelivery, Way};
use crate::directory::Agent;
use crate::{StoreError, Tx, TxExt, conversations, directory};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, JobId, Principal, QuoteId, TraceId, WalletId};
use chorus_protocol::market::{Credits, Reputation};
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};
use std::collections::BTreeSet;

/// Offers that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// Which.
    pub id: QuoteId,
    /// Whose wallet would pay.
    pub payer: WalletId,
    /// The agent that would hire, if it is one.
    pub orchestrator: Option<AgentId>,
    /// For what.
    pub skill: String,
    /// With what, JSON.
    pub input: Option<String>,
    /// What it became.
    pub job: Option<JobId>,
    /// Until when one can be taken.
    pub valid_until: i64,
    /// Until when agents may answer.
    pub answers_until: i64,
    /// When they were asked for.
    pub created_at: i64,
    /// What it belongs to.
    pub trace: TraceId,
    /// The best first.
    pub offers: Vec<Offer>,
}

/// One agent's offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Whose.
    pub agent: AgentId,
    /// What it asks.
    pub price: Credits,
    /// How long it takes: as it said, or usually.
    pub expected_ms: Option<i64>,
    /// When it answered, if it did.
    pub answered_at: Option<i64>,
    /// Whether it would rather not.
    pub declined: bool,
    /// What is thought of it.
    pub reputation: Reputation,
}

/// Remembers offers.
pub fn insert(tx: &mut dyn Tx, quote: &Quote) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO quotes (id, payer_id, skill, input, valid_until, created_at, trace_id, answers_until, orchestrator_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            (&quote.id).into(),
            (&quote.payer).into(),
            quote.skill.as_str().into(),
            quote.input.as_deref().into(),
            quote.valid_until.into(),
            quote.created_at.into(),
            (&quote.trace).into(),
            quote.answers_until.into(),
            quote.orchestrator.as_ref().into(),
        ],
    )?;
    for (place, offer) in (0_i64..).zip(&quote.offers) {
        tx.execute(
            "INSERT INTO offers (quote_id, place, agent_id, price, expected_ms, reputation) VALUES ($1, $2, $3, $4, $5, $6)",
            &[
                (&quote.id).into(),
                place.into(),
                (&offer.agent).into(),
                offer.price.hundredths().into(),
                offer.expected_ms.into(),
                offer.reputation.ten_thousandths().into(),
            ],
        )?;
    }
    Ok(())
}

/// The offers of this id.
pub fn by_id(tx: &mut dyn Tx, id: QuoteId) -> Result<Option<Quote>, StoreError> {
    let row = tx.first(
        "SELECT payer_id, skill, input, job_id, valid_until, created_at, trace_id, answers_until, orchestrator_id
         FROM quotes WHERE id = $1",
        &[(&id).into()],
    )?;
    let Some(mut row) = row else { return Ok(None) };
    let offers = tx.query(
        "SELECT agent_id, price, expected_ms, reputation, answered_at, declined FROM offers WHERE quote_id = $1 ORDER BY place",
        &[(&id).into()],
    )?;
    let offers = offers.into_iter().map(|mut row| {
        Ok(Offer {
            agent: AgentId(row.uuid(0)?),
            price: credits(row.int(1)?)?,
            expected_ms: row.opt_int(2)?,
            reputation: Reputation::clamped(row.int(3)?),
            answered_at: row.opt_int(4)?,
            declined: row.int(5)? != 0,
        })
    });
    Ok(Some(Quote {
        id,
        payer: WalletId(row.uuid(0)?),
        skill: row.text(1)?,
        input: row.opt_text(2)?,
        job: row.opt_bytes(3)?.as_deref().and_then(JobId::from_slice),
        valid_until: row.int(4)?,
        created_at: row.int(5)?,
        trace: TraceId(row.uuid(6)?),
        answers_until: row.int(7)?,
        orchestrator: row.opt_uuid(8)?.map(AgentId),
        offers: offers.collect::<Result<_, StoreError>>()?,
    }))
}

/// How many requests of a wallet stand at this time.
pub fn count_open(tx: &mut dyn Tx, payer: WalletId, now: i64) -> Result<i64, StoreError> {
    let row = tx.first(
        "SELECT COUNT(*) FROM quotes WHERE payer_id = $1 AND valid_until > $2 AND job_id IS NULL",
        &[(&payer).into(), now.into()],
    )?;
    row.map_or(Ok(0), |mut row| row.int(0))
}

/// An agent, as jobs reach it, that is to be called with a question.
#[derive(Debug, Clone)]
pub struct Called {
    /// Which.
    pub agent: Agent,
    /// The place of the question in its inbox.
    pub seq: i64,
    /// How it is called.
    pub transport: Transport,
}

/// A question that was stored.
#[derive(Debug, Default)]
pub struct Asked {
    /// Whether anybody is asked at all.
    pub is_any: bool,
    /// Those that are to be called.
    pub called: Vec<Called>,
}

/// The question goes to those of these agents that can be reached now, as one event: into the inboxes that are open, and the others
/// are to be called under this lease. It is for now or never: nothing waits for whoever is away.
pub fn ask(
    tx: &mut dyn Tx,
    quote: &Quote,
    event: EventId,
    (author, body): (Principal, &str),
    attention: Attention,
    lease: Lease,
) -> Result<Asked, StoreError> {
    let (now, conversation) = (quote.created_at, ConversationId::of_quote(quote.id));
    // The smaller stream first, as everywhere.
    let asked: BTreeSet<_> = quote.offers.iter().map(|offer| offer.agent).collect();
    let mut reached = vec![];
    for id in asked {
        let Some(agent) = directory::by_id(tx, id)? else { continue };
        let agent = agents::as_worker(tx, agent)?;
        match deliveries::way(&agent, None, now) {
            Way::Session => reached.push((agent, Transport::Inbox)),
            Way::Harness | Way::Webhook | Way::Connection => {
                let transport = deliveries::push_transport(&agent);
                reached.push((agent, transport));
            }
            Way::Inbox | Way::WaitForOwner(_) | Way::WaitBehind(_) => {}
        }
    }
    if reached.is_empty() {
        return Ok(Asked::default());
    }
    let said = conversations::NewEvent {
        id: event,
        conversation,
        author,
        trace: quote.trace,
        thread: None,
        target: None,
    };
    conversations::append_job(tx, &said, body, now)?;
    let mut called = vec![];
    for (agent, transport) in reached {
        let (state, lease) = match transport {
            Transport::Inbox => (DeliveryState::DeliveredSse, None),
            _ => (DeliveryState::Sending, Some(lease)),
        };
        let delivery = NewDelivery {
            agent: agent.id,
            event,
            kind: EntryKind::Quote,
            transport,
            state,
            lease,
            chat: Some(Chat {
                conversation,
                attention,
                push: None,
                bringing: Bringing::FIRST,
                next_at: None,
            }),
            trace: quote.trace,
        };
        let seq = tx.next_seq(agent.id.0)?;
        deliveries::append(tx, &delivery, seq, now)?;
        if lease.is_some() {
            called.push(Called { agent, seq, transport });
        }
    }
    Ok(Asked { is_any: true, called })
}

/// What an agent answered; the first answer stands. Says whether it was this one.
pub fn answer(
    tx: &mut dyn Tx,
    id: QuoteId,
    agent: AgentId,
    price: Option<Credits>,
    expected_ms: Option<i64>,
    now: i64,
) -> Result<bool, StoreError> {
    let answered = tx.execute(
        "UPDATE offers SET price = COALESCE($3, price), expected_ms = COALESCE($4, expected_ms), declined = $5, answered_at = $6
         WHERE quote_id = $1 AND agent_id = $2 AND answered_at IS NULL",
        &[
            (&id).into(),
            (&agent).into(),
            price.map(Credits::hundredths).into(),
            expected_ms.into(),
            i64::from(price.is_none()).into(),
            now.into(),
        ],
    )?;
    Ok(answered == 1)
}

/// One offer is taken, and says whether none was before.
pub fn accept(tx: &mut dyn Tx, id: QuoteId, job: JobId) -> Result<bool, StoreError> {
    let taken = tx.execute(
        "UPDATE quotes SET job_id = $2 WHERE id = $1 AND job_id IS NULL",
        &[(&id).into(), (&job).into()],
    )?;
    Ok(taken == 1)
}

/// A reconciler: forgets offers that ended before `cutoff`, a bounded number at a time. Says whose they were, and how many bytes
/// each took besides its row.
pub fn remove_before(tx: &mut dyn Tx, cutoff: i64, limit: i64) -> Result<Vec<(WalletId, i64)>, StoreError> {
    let old = tx.query(
        "SELECT id, payer_id, COALESCE(OCTET_LENGTH(input), 0) FROM quotes WHERE valid_until < $1 LIMIT $2",
        &[cutoff.into(), limit.into()],
    )?;
    let mut removed = vec![];
    for mut row in old {
        let id = QuoteId(row.uuid(0)?);
        tx.execute("DELETE FROM offers WHERE quote_id = $1", &[(&id).into()])?;
        tx.execute("DELETE FROM quotes WHERE id = $1", &[(&id).into()])?;
        removed.push((WalletId(row.uuid(1)?), row.int(2)?));
    }
    Ok(removed)
}
