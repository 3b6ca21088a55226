//! Agents on the market: what is known of them, that they live, what is thought of them, and their leaving.

use super::discover::declared;
use super::presence::{Signs, is_alive, presence};
use super::settle::{self, Ended};
use super::who;
use crate::agents::may_manage;
use crate::app::{App, AppState};
use crate::audit::{Deed, RequestContext};
use crate::caller::Caller;
use crate::error::Error;
use chorus_market::escrow::Verdict;
use chorus_protocol::api::Page;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::{MarketAgent, ReputationView, Skill, SkillName, Step};
use chorus_protocol::relay::Unregistered;
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent};
use chorus_store::market::agents::{self, Listing};
use chorus_store::market::{jobs, reputation, wallets};
use chorus_store::{StoreError, Tx, access, inboxes};
use serde_json::json;
use std::sync::Arc;

/// So many open jobs of an agent that leaves are refunded at once; the others in the next steps.
const REFUNDED_AT_ONCE: i64 = 500;

fn not_here() -> Error {
    Error::new(Code::NotFound, "there is no such agent on the market")
}

/// An agent that is on the market.
fn find(tx: &mut dyn Tx, id: AgentId) -> Result<(Agent, Listing), Error> {
    let agent = directory::by_id(tx, id)?.ok_or_else(not_here)?;
    let listing = agents::by_id(tx, id)?.ok_or_else(not_here)?;
    Ok((agent, listing))
}

/// Reads an agent's id.
pub fn id(text: &str) -> Result<AgentId, Error> {
    AgentId::parse(text).ok_or_else(not_here)
}

/// One agent, as everybody may see it.
pub async fn agent(app: &AppState, id: AgentId) -> Result<MarketAgent, Error> {
    let hub = Arc::clone(app);
    let read = move |tx: &mut dyn Tx| {
        let (agent, listing) = find(tx, id)?;
        let owner = wallets::by_id(tx, listing.wallet)?.map(|wallet| wallet.owner).unwrap_or_default();
        let skills = agents::skills(tx, id)?;
        let (status, last_seen) = presence(&hub, (&agent).into());
        Ok(MarketAgent {
            agent_id: id,
            agent_name: listing.display_name,
            address: hub.address(&agent.name),
            owner_id: owner,
            api_endpoint: listing.endpoint,
            skills: skills.into_iter().map(skill).collect(),
            reputation_score: listing.reputation,
            status: status.into(),
            last_seen: last_seen.map(rfc3339),
            registered_at: rfc3339(listing.registered_at),
        })
    };
    app.store.read::<_, Error, _>(read).await
}

fn skill(skill: agents::Skill) -> Skill {
    Skill {
        input_schema: declared(skill.input_schema.as_deref()),
        output_schema: declared(skill.output_schema.as_deref()),
        skill_name: SkillName(skill.name),
        description: skill.description,
        cost_per_call: skill.cost,
        min_deadline_ms: skill.min_deadline_ms,
    }
}

/// What is thought of an agent, with a page of its changes.
pub async fn reputation(app: &App, id: AgentId, page: Page) -> Result<ReputationView, Error> {
    let before = page.after.as_deref().map_or(Some(i64::MAX), |after| after.parse().ok());
    let before = before.ok_or_else(|| Faults::one("after", "must be the `next` of a page"))?;
    let limit = page.limit;
    let read = move |tx: &mut dyn Tx| {
        let (_, listing) = find(tx, id)?;
        Ok((listing.reputation, reputation::changes(tx, id, before, limit + 1)?))
    };
    let (reputation_score, changes) = app.store.read::<_, Error, _>(read).await?;
    let steps = changes.into_iter().map(|change| Step {
        number: change.number,
        job_id: change.job,
        status: change.status.into(),
        old_score: change.old,
        new_score: change.new,
        arithmetic: change.arithmetic,
        at: rfc3339(change.created_at),
    });
    let page = crate::page::page(app, steps.collect(), limit, |step| step.number.to_string());
    Ok(ReputationView { agent_id: id, reputation_score, changes: page.items, next: page.next })
}

/// An agent lives. It costs no commit of its own, unless it was taken for dead.
pub async fn heartbeat(app: &AppState, caller: Caller, id: AgentId) -> Result<(), Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let is_news = match &caller {
        // Nothing has to be looked up of one that shows its own key and lives anyway.
        Caller::Agent(identity) if identity.id == id && is_alive(app, id) => false,
        _ => {
            let hub = Arc::clone(app);
            let read = move |tx: &mut dyn Tx| {
                let (agent, listing) = find(tx, id)?;
                let wallet = wallets::by_id(tx, listing.wallet)?;
                if !may_manage(&caller, &agent) && !wallet.is_some_and(|wallet| who::owns(&caller, &wallet)) {
                    return Err(Error::new(
                        Code::Forbidden,
                        "only the agent itself or its owner says that it lives",
                    ));
                }
                // News even if its inbox is open, and whoever lets things wait for it.
                let seen = Signs { is_paused: false, open_until: 0, seen_at: agent.seen_at };
                Ok(presence(&hub, seen).0 == chorus_protocol::market::Presence::Offline)
            };
            app.store.read::<_, Error, _>(read).await?
        }
    };
    let now = app.now();
    if is_news {
        app.store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| inboxes::seen(tx, id, now)).await?;
    }
    app.market.saw(id, now);
    Ok(())
}

/// Takes an agent off the market and out of the directory; what is held for its open jobs goes back. It may do so itself, its
/// owner may, and the operator. Nothing happens if it is absent already.
pub async fn unregister(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    id: AgentId,
) -> Result<Unregistered, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let hub = Arc::clone(app);
    let leave = move |tx: &mut dyn Tx| {
        let Some(agent) = directory::by_id(tx, id)? else { return Ok(None) };
        let wallet = agents::wallet_of(tx, id)?;
        // Another's is answered like one that never was.
        if !may_manage(&caller, &agent) && !wallet.is_some_and(|wallet| who::owns(&caller, &wallet)) {
            return Ok(None);
        }
        refund(tx, &hub, &[id])?;
        access::delete_agent(tx, id, hub.now(), &|| hub.environment.uuid_v7())?;
        let (subject, detail) = (Subject::Agent(id), json!({"name": agent.name}));
        context.record(tx, &hub, Deed::new(caller.actor(), Action::AgentUnregistered, subject, detail))?;
        Ok(Some(agent))
    };
    let deleted = app.store.write::<_, Error, _>(leave).await?;
    Ok(Unregistered { agent_id: id.to_string(), removed: deleted.is_some() })
}

/// Agents leave, by whatever door: what is held for their open jobs goes back, of the first ones at once.
pub fn refund(tx: &mut dyn Tx, app: &App, ids: &[AgentId]) -> Result<(), Error> {
    let mut open = vec![];
    for id in ids {
        let left = REFUNDED_AT_ONCE - open.len() as i64;
        open.extend(jobs::open_of_agent(tx, *id, app.now(), left)?);
    }
    let found = open.into_iter().map(|job| jobs::by_id(tx, job)).collect::<Result<Vec<_>, _>>()?;
    let found: Vec<_> = found.into_iter().flatten().collect();
    // All of them first, so that two that leave at once take wallets in one order.
    wallets::hold(tx, found.iter().flat_map(|job| [job.agreed.payer, job.agreed.payee]))?;
    for job in &found {
        let why = Ended::because(Code::AgentOffline.as_str(), "the agent left the market");
        settle::settle(tx, app, job, Verdict::AgentGone, &why)?;
    }
    Ok(())
}
