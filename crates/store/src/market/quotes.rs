//! Offers that stand for a while, each at what its agent answered when it was asked, or else at the price it lists.

use super::{agents, credits};
use crate::conversations::{self, NewEvent};
use crate::deliveries::{self, Bringing, Chat, Lease, NewDelivery, Way};
use crate::directory::Agent;
use crate::usage::{self, ROW_BYTES, Refusal, length, row_bytes};
use crate::{StoreError, Tx, TxExt, directory};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, JobId, QuoteId, TraceId, WalletId};
use chorus_protocol::market::{Credits, Reputation};
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};
use std::collections::BTreeSet;

/// Offers that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    pub id: QuoteId,
    /// The wallet that would pay.
    pub payer: WalletId,
    /// The agent that would hire, if it is one.
    pub orchestrator: Option<AgentId>,
    /// The highest price that the payer accepts.
    pub budget: Option<Credits>,
    pub skill: String,
    /// The input as JSON.
    pub input: Option<String>,
    pub job: Option<JobId>,
    /// Until when one can be taken.
    pub valid_until: i64,
    /// Until when agents may answer.
    pub answers_until: i64,
    pub created_at: i64,
    pub trace: TraceId,
    /// The best first.
    pub offers: Vec<Offer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub agent: AgentId,
    pub price: Credits,
    /// The expected duration, as the agent answered or from past jobs.
    pub expected_ms: Option<i64>,
    /// The time the agent answered.
    pub answered_at: Option<i64>,
    /// True if the agent declined.
    pub declined: bool,
    pub reputation: Reputation,
}

/// Remembers offers. They count for the wallet that asks until they are forgotten.
pub fn insert(tx: &mut dyn Tx, quote: &Quote) -> Result<(), StoreError> {
    let payer = usage::payer_by_id(tx, quote.payer)?;
    usage::charge(tx, payer, row_bytes([length(quote.input.as_deref())]), Refusal::WhenFull)?;
    tx.execute(
        "INSERT INTO quotes (id, payer_id, skill, input, valid_until, created_at, trace_id, answers_until, orchestrator_id,
                             budget)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
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
            quote.budget.map(Credits::hundredths).into(),
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
        "SELECT payer_id, skill, input, job_id, valid_until, created_at, trace_id, answers_until, orchestrator_id, budget
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
            agent: AgentId(row.uuid("agent_id")?),
            price: credits(row.int("price")?)?,
            expected_ms: row.opt_int("expected_ms")?,
            reputation: Reputation::clamped(row.int("reputation")?),
            answered_at: row.opt_int("answered_at")?,
            declined: row.int("declined")? != 0,
        })
    });
    Ok(Some(Quote {
        id,
        payer: WalletId(row.uuid("payer_id")?),
        skill: row.text("skill")?,
        input: row.opt_text("input")?,
        job: row.opt_bytes("job_id")?.as_deref().and_then(JobId::from_slice),
        valid_until: row.int("valid_until")?,
        created_at: row.int("created_at")?,
        trace: TraceId(row.uuid("trace_id")?),
        answers_until: row.int("answers_until")?,
        orchestrator: row.opt_uuid("orchestrator_id")?.map(AgentId),
        budget: row.opt_int("budget")?.map(credits).transpose()?,
        offers: offers.collect::<Result<_, StoreError>>()?,
    }))
}

/// Counts the open requests of a wallet at this time.
pub fn count_open(tx: &mut dyn Tx, payer: WalletId, now: i64) -> Result<i64, StoreError> {
    let row = tx.first(
        "SELECT COUNT(*) AS count FROM quotes WHERE payer_id = $1 AND valid_until > $2 AND job_id IS NULL",
        &[(&payer).into(), now.into()],
    )?;
    row.map_or(Ok(0), |mut row| row.int("count"))
}

/// An agent, as jobs reach it, that is to be called with a question.
#[derive(Debug, Clone)]
pub struct Called {
    pub agent: Agent,
    /// The place of the question in its inbox.
    pub seq: i64,
    pub transport: Transport,
}

/// A question that was stored.
#[derive(Debug, Default)]
pub struct QuestionDelivery {
    /// True if any agent is asked.
    pub is_any: bool,
    /// Those that are to be called.
    pub called: Vec<Called>,
}

/// The question goes to those of these agents that can be reached now, as one event: into the inboxes that are open, and the others
/// are to be called under this lease. It is for now or never: nothing waits for whoever is away.
pub fn ask(
    tx: &mut dyn Tx,
    quote: &Quote,
    question: &NewEvent,
    body: &str,
    attention: Attention,
    lease: Lease,
) -> Result<QuestionDelivery, StoreError> {
    let (now, conversation) = (quote.created_at, question.conversation);
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
        return Ok(QuestionDelivery::default());
    }
    conversations::append_job(tx, question, body, now)?;
    let mut called = vec![];
    for (agent, transport) in reached {
        let (state, lease) = match transport {
            Transport::Inbox => (DeliveryState::DeliveredSse, None),
            _ => (DeliveryState::Sending, Some(lease)),
        };
        let delivery = NewDelivery {
            agent: agent.id,
            event: question.id,
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
        let seq = tx.next_seq(agent.id.into())?;
        deliveries::append(tx, &delivery, seq, now)?;
        if lease.is_some() {
            called.push(Called { agent, seq, transport });
        }
    }
    Ok(QuestionDelivery { is_any: true, called })
}

/// Records an agent's answer. Only the first counts. Returns whether this one did.
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

/// Declines for an agent whatever it was asked for and nobody has accepted yet. Returns how much that was.
pub(super) fn withdraw(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<u64, StoreError> {
    tx.execute(
        "UPDATE offers SET declined = 1, answered_at = COALESCE(answered_at, $2) WHERE agent_id = $1 AND declined = 0
             AND quote_id IN (SELECT id FROM quotes WHERE job_id IS NULL AND valid_until > $2)",
        &[(&agent).into(), now.into()],
    )
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
        "SELECT id, payer_id, COALESCE(OCTET_LENGTH(input), 0) AS input_bytes FROM quotes WHERE valid_until < $1 LIMIT $2",
        &[cutoff.into(), limit.into()],
    )?;
    let mut removed = vec![];
    for mut row in old {
        let id = QuoteId(row.uuid("id")?);
        tx.execute("DELETE FROM offers WHERE quote_id = $1", &[(&id).into()])?;
        tx.execute("DELETE FROM quotes WHERE id = $1", &[(&id).into()])?;
        let (wallet, bytes) = (WalletId(row.uuid("payer_id")?), row.int("input_bytes")?);
        let payer = usage::payer_by_id(tx, wallet)?;
        usage::give_back(tx, payer, bytes + ROW_BYTES)?;
        removed.push((wallet, bytes));
    }
    Ok(removed)
}
