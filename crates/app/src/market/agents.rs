//! Agents on the market: their public view, heartbeats, reputation and removal.

use super::presence::{Signs, is_alive, presence};
use super::settle::{self, Ended};
use super::who;
use crate::agents::{may_manage, may_unregister};
use chorus_market::escrow::Verdict;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_node::{App, AppState};
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

/// Open jobs of a leaving agent that are refunded at once. The reconciler refunds the rest.
const REFUNDED_AT_ONCE: i64 = 500;

fn not_here() -> Error {
    Error::new(Code::NotFound, "there is no such agent on the market")
}

/// Returns an agent that is listed on the market.
fn find(tx: &mut dyn Tx, id: AgentId) -> Result<(Agent, Listing), Error> {
    let agent = directory::by_id(tx, id)?.ok_or_else(not_here)?;
    let listing = agents::by_id(tx, id)?.ok_or_else(not_here)?;
    Ok((agent, listing))
}

/// Parses an agent's id.
pub fn id(text: &str) -> Result<AgentId, Error> {
    AgentId::parse(text).ok_or_else(not_here)
}

/// Returns the public view of one agent.
pub async fn agent(app: &AppState, id: AgentId) -> Result<MarketAgent, Error> {
    let read = move |tx: &mut dyn Tx| {
        let (agent, listing) = find(tx, id)?;
        let owner = wallets::by_id(tx, listing.wallet)?.map(|wallet| wallet.owner).unwrap_or_default();
        Ok((agent, listing, owner, agents::skills(tx, id)?))
    };
    let (agent, listing, owner_id, skills) = app.store.read::<_, Error, _>(read).await?;
    let (status, last_seen) = presence(app, (&agent).into());
    let schemas = skills.iter().flat_map(|skill| [&skill.input_schema, &skill.output_schema]).flatten();
    let bytes = schemas.map(String::len).sum();
    Ok(MarketAgent {
        agent_id: id,
        agent_name: listing.display_name,
        address: app.address(&agent.name),
        owner_id,
        api_endpoint: listing.endpoint,
        // Schemas are parsed outside the transaction, and off the runtime's threads if they are large.
        skills: block_in_place_if_large(bytes, || skills.into_iter().map(skill).collect()),
        reputation_score: listing.reputation,
        decline_rate: listing.declines.rate(),
        status: status.into(),
        last_seen: last_seen.map(rfc3339),
        registered_at: rfc3339(listing.registered_at),
    })
}

fn skill(skill: agents::Skill) -> Skill {
    let declared = |schema: Option<&str>| schema.and_then(|schema| serde_json::from_str(schema).ok());
    Skill {
        input_schema: declared(skill.input_schema.as_deref()),
        output_schema: declared(skill.output_schema.as_deref()),
        skill_name: SkillName(skill.name),
        description: skill.description,
        cost_per_call: skill.cost,
        min_deadline_ms: skill.min_deadline_ms,
    }
}

/// Returns an agent's reputation with a page of its changes.
pub async fn reputation(app: &App, id: AgentId, page: Page) -> Result<ReputationView, Error> {
    let before = page.after.as_deref().map_or(Some(i64::MAX), |after| after.parse().ok());
    let before = before.ok_or_else(|| Faults::one("after", "must be the `next` of a page"))?;
    let limit = page.limit;
    let read = move |tx: &mut dyn Tx| {
        let (_, listing) = find(tx, id)?;
        Ok((listing, reputation::changes(tx, id, before, limit + 1)?))
    };
    let (listing, changes) = app.store.read::<_, Error, _>(read).await?;
    let steps = changes.into_iter().map(|change| Step {
        number: change.number,
        job_id: change.job,
        status: change.status.into(),
        not_counted: change.not_counted.map(Into::into),
        old_score: change.old,
        new_score: change.new,
        arithmetic: change.arithmetic,
        at: rfc3339(change.created_at),
    });
    let page = chorus_node::page::page(app, steps.collect(), limit, |step| step.number.to_string());
    Ok(ReputationView {
        agent_id: id,
        reputation_score: listing.reputation,
        decline_rate: listing.declines.rate(),
        changes: page.items,
        next: page.next,
    })
}

/// Records a sign of life of an agent. It costs no commit of its own unless the agent counted as offline.
pub async fn heartbeat(app: &AppState, caller: Caller, id: AgentId) -> Result<(), Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let is_news = match &caller {
        // An agent with its own key that counts as alive needs no lookup.
        Caller::Agent(identity) if identity.id == id && is_alive(app, id) => false,
        _ => {
            let hub = Arc::clone(app);
            let read = move |tx: &mut dyn Tx| {
                let (agent, listing) = find(tx, id)?;
                let wallet = wallets::by_id(tx, listing.wallet)?;
                if !may_manage(&caller, &agent)
                    && !wallet.is_some_and(|wallet| who::answers_for(&caller, &agent, &wallet))
                {
                    return Err(Error::new(
                        Code::Forbidden,
                        "only the agent itself or its owner says that it lives",
                    ));
                }
                // This is news even if the inbox is open, or if the owner has paused the agent.
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
    app.caches.market.saw(id, now);
    Ok(())
}

/// Takes an agent off the market and out of the directory, and refunds its open jobs. Its owner and the operator may do
/// this, and an agent that no account owns. Does nothing if the agent is already gone.
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
        // Another owner's agent gets the same answer as one that never existed.
        if !may_manage(&caller, &agent)
            && !wallet.is_some_and(|wallet| who::answers_for(&caller, &agent, &wallet))
        {
            return Ok(None);
        }
        if may_manage(&caller, &agent) && !may_unregister(&caller, &agent) {
            return Err(Error::new(
                Code::Forbidden,
                "this agent belongs to an account, and only its owner removes it",
            ));
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

/// Refunds the first open jobs of agents that leave. The reconciler refunds the rest.
pub fn refund(tx: &mut dyn Tx, app: &App, ids: &[AgentId]) -> Result<(), Error> {
    let mut open = vec![];
    for id in ids {
        let left = REFUNDED_AT_ONCE - open.len() as i64;
        open.extend(jobs::open_of_agent(tx, *id, left)?);
    }
    let found = open.into_iter().map(|job| jobs::by_id(tx, job)).collect::<Result<Vec<_>, _>>()?;
    let found: Vec<_> = found.into_iter().flatten().collect();
    // Locks all wallets first, so that two agents that leave at once lock them in one order.
    wallets::hold(tx, found.iter().flat_map(|job| [job.agreed.payer, job.agreed.payee]))?;
    for job in &found {
        let why = Ended::because(Code::AgentOffline.as_str(), "the agent left the market");
        settle::settle(tx, app, job, Verdict::AgentGone, &why)?;
    }
    Ok(())
}
