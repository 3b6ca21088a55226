//! Hires an agent: checks skill, price and presence, holds the budget and dispatches the job.

use super::data_checks;
use super::discover::look_who_is_online;
use super::frame;
use super::jobs::view;
use super::presence::{is_alive, presence, seen_since};
use super::probe;
use super::who::{self, Fresh, Hirer};
use crate::allowance;
use crate::attention;
use chorus_market::counting::skill_time_ms;
use chorus_market::escrow::check_budget;
use chorus_market::money;
use chorus_node::Error;
use chorus_node::caches::market::Takes;
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::limits::usage::room;
use chorus_node::source::Source;
use chorus_node::{App, AppState};
use chorus_protocol::attention::Attention;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, EventId, JobId, WalletId};
use chorus_protocol::market::{
    CURRENCY, Credits, JobHandout, JobRequest, JobView, Presence, Reputation, USUAL_DEADLINE_MS,
};
use chorus_protocol::schema::StepBudget;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{Reason, Transport};
use chorus_store::directory::{self, Agent};
use chorus_store::market::agents::{self, Hireable, Listing, Skill};
use chorus_store::market::discovery::{self, Search};
use chorus_store::market::jobs::{self, Agreed, Job};
use chorus_store::market::ledger::{self, Cause};
use chorus_store::market::wallets;
use chorus_store::{StoreError, Tx, blocks};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use url::Url;

/// A price from an accepted offer. It replaces the skill's current price.
pub(super) struct Offered {
    pub(super) price: Credits,
}

/// Candidates that are tried to find one that has not blocked the caller.
const MOST_TRIED: i64 = 20;

/// The attention that a job asks of its agent.
const JOB: Attention = Attention { reason: Reason::Assignment, ..attention::FOREIGN };

/// Attempts to hire while the declared schemas change between the check and the write.
pub(super) const LOOKS: usize = 3;

/// Requests a job. A repeated `job_id` returns the same job in its current state. One idempotency key requests
/// it once.
pub async fn hire(
    app: &AppState,
    caller: Caller,
    source: Source,
    body: JobRequest,
    once: Once,
) -> Result<Done<JobView>, Error> {
    if let Some(done) = app.replay(&once).await? {
        return Ok(done);
    }
    let act = Arc::new(prepare(app, caller, source, body).await?);
    let mut guess = act.fits_as_before();
    for _ in 0..LOOKS {
        let checked = match guess.take() {
            Some(Takes(schema)) => schema,
            None => act.check_input().await?,
        };
        let hire = Arc::clone(&act);
        let work = move |tx: &mut dyn Tx| hire.run(tx, None, checked.as_deref());
        if let Some(done) = app.once_prepared(once.clone(), |_| Ok(()), work).await? {
            return Ok(done);
        }
    }
    Err(changing())
}

/// The error for offers that changed during every attempt.
pub(super) fn changing() -> Error {
    Error::new(Code::Overloaded, "what is offered changed while it was looked at; try again")
        .retry_after_ms(1000)
}

/// A requested job, with everything that a retried transaction must not create twice.
pub(super) struct Hire {
    app: AppState,
    caller: Caller,
    source: Source,
    pub(super) body: JobRequest,
    pub(super) id: JobId,
    event: EventId,
    callback: Option<Vec<u8>>,
    fresh: Fresh,
    /// Schemas that this input does not match, with the faults. Their agents are skipped.
    unfit: Mutex<Vec<(String, Faults)>>,
    /// Steps left for checks of the input.
    steps: tokio::sync::Mutex<StepBudget>,
}

pub(super) async fn prepare(
    app: &AppState,
    caller: Caller,
    source: Source,
    body: JobRequest,
) -> Result<Hire, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let id = body.job_id.unwrap_or(JobId(app.environment.uuid_v4()));
    let mut callback = None;
    if let Some(url) = &body.callback_url {
        if let Ok(url) = Url::parse(&url.0) {
            app.transport.outbound.check("callback_url", &url).await?;
        }
        let sealed = app.config.master_key.seal(app.environment.bytes(), id.as_bytes(), &url.0);
        callback = Some(sealed.ok_or_else(|| Error::internal("a callback could not be sealed"))?);
    }
    match body.agent_id {
        // An agent that was seen lately or has an open inbox on this node needs no probe.
        Some(named) if is_alive(app, named) || app.transport.live.dialect(named).is_some() => {}
        Some(named) => probe::wake(app, named).await?,
        None => {
            look_who_is_online(app).await?;
            let search = search(app, &body.skill_name.0, body.budget, true, body.orchestrator_id);
            probe::wake_found(app, &search, MOST_TRIED as usize).await?;
        }
    }
    let fresh = Fresh::new(app);
    Ok(Hire {
        app: Arc::clone(app),
        caller,
        source,
        body,
        id,
        event: EventId(app.environment.uuid_v7()),
        callback,
        fresh,
        unfit: Mutex::default(),
        steps: tokio::sync::Mutex::new(data_checks::request_budget()),
    })
}

/// The hired agent with its route, its wallet and the skill.
struct Worker {
    agent: Agent,
    wallet: WalletId,
    skill: Skill,
}

impl Worker {
    fn new(agent: Agent, listing: Listing, skill: Skill) -> Self {
        Self { agent: agents::reached_at(agent, listing.endpoint), wallet: listing.wallet, skill }
    }
}

impl Hire {
    /// Returns the schema that the agent declared at the last check, if the input matches it.
    pub(super) fn fits_as_before(&self) -> Option<Takes> {
        let takes = self.app.caches.market.schemas.find(self.body.agent_id?, &self.body.skill_name.0)?;
        data_checks::fits_at_once(&self.app, takes.0.as_deref(), &self.body.input_data).then_some(takes)
    }

    /// Checks the input against the schema of the agent that would be hired now, and returns that schema. If
    /// the caller named no agent, an agent whose schema does not match is skipped. The check is slow, so it
    /// runs before anything is written.
    pub(super) async fn check_input(self: &Arc<Self>) -> Result<Option<String>, Error> {
        let mut steps = self.steps.lock().await;
        for _ in 0..LOOKS {
            let Some(offered) = self.declared_now().await? else { return Ok(None) };
            let (caller, input) = ((&self.caller, self.source), &self.body.input_data);
            let checked =
                data_checks::check_input(&self.app, caller, &offered, true, input, &mut steps).await?;
            for (schema, fit) in offered.into_iter().zip(checked) {
                match (fit, schema) {
                    (Err(faults), Some(schema)) if self.body.agent_id.is_none() => {
                        self.unfit().push((schema, faults));
                    }
                    (fit, schema) => return fit.map(|()| schema).map_err(Into::into),
                }
            }
            // No candidate matched. The next candidate reports the faults, unless a new one appeared.
        }
        Err(changing())
    }

    fn unfit(&self) -> MutexGuard<'_, Vec<(String, Faults)>> {
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the distinct schemas of the agents that can be hired now, the best first. Returns `None` for a
    /// job that exists already: its input is not checked again.
    async fn declared_now(self: &Arc<Self>) -> Result<Option<Vec<Option<String>>>, Error> {
        let act = Arc::clone(self);
        let find = move |tx: &mut dyn Tx| {
            if jobs::by_id(tx, act.id)?.is_some() {
                return Ok(None);
            }
            let orchestrator = match &act.caller {
                Caller::Agent(identity) => Some(identity.id),
                _ => act.body.orchestrator_id,
            };
            let mut schemas = vec![];
            for Worker { agent, skill, .. } in act.hireable(tx, orchestrator, MOST_TRIED as usize)? {
                act.app.caches.market.schemas.remember(agent.id, &skill.name, skill.input_schema.as_deref());
                if !schemas.contains(&skill.input_schema) {
                    schemas.push(skill.input_schema);
                }
            }
            Ok(Some(schemas))
        };
        self.app.store.read::<_, Error, _>(find).await
    }

    /// Hires, unless the agent now declares a schema other than `checked`.
    pub(super) fn run(
        &self,
        tx: &mut dyn Tx,
        offered: Option<&Offered>,
        checked: Option<&str>,
    ) -> Result<Option<JobView>, Error> {
        let mut hirer = who::hirer(tx, &self.app, &self.caller, self.body.orchestrator_id, &self.fresh)?;
        hirer.wallet = wallets::keep(tx, hirer.wallet)?;
        let content = self.content(hirer.agent);
        if let Some(known) = jobs::by_id(tx, self.id)? {
            if known.agreed.payer != hirer.wallet.id || known.agreed.content != content {
                return Err(taken());
            }
            return view(&known, Some(&hirer.wallet.owner)).map(Some);
        }
        // The caller may have paid for this id by a transfer. It must not pay twice.
        if self.body.job_id.is_some() && ledger::was_paid_directly(tx, self.id, hirer.wallet.id)? {
            let what = "job_id: you have paid for this job by a transfer; take a new id";
            return Err(Error::new(Code::Conflict, what));
        }
        let Some(Worker { agent, wallet, skill }) = self.hireable(tx, hirer.agent, 1)?.pop() else {
            return Ok(None);
        };
        let price = offered.map_or(skill.cost, |offered| offered.price);
        check_budget(self.body.budget, price).map_err(|short| Error::new(Code::BudgetInsufficient, short))?;
        if skill.input_schema.as_deref() != checked {
            return Ok(None);
        }
        let now = self.fresh.now;
        let allowance_day = allowance::check(tx, &self.caller, &hirer.wallet, self.body.budget, now)?;
        let agreed = Agreed {
            id: self.id,
            content,
            orchestrator: hirer.agent,
            payer: hirer.wallet.id,
            agent: agent.id,
            payee: wallet,
            skill: skill.name,
            price,
            budget: self.body.budget,
            output_schema: skill.output_schema,
            event: self.event,
            callback: self.callback.clone(),
            deadline_at: now + self.deadline_ms(),
            skill_time_ms: skill_time_ms(skill.min_deadline_ms),
            created_at: now,
            allowance_day,
            trace: self.fresh.trace,
        };
        // Every refusal comes before the first write. Otherwise a rollback would make other writers repeat
        // their work.
        let payer = money::Wallet { id: hirer.wallet.id, balance: hirer.wallet.balance };
        let held = money::hold(payer, self.id, self.body.budget)?;
        let most_open = self.app.config.quotas.open_jobs;
        room("open_jobs", jobs::count_open(tx, hirer.wallet.id, up_to(most_open))?, most_open)?;
        let (author, body) = (who::author(&self.caller, &hirer), self.handout(&hirer, &agreed)?);
        if !jobs::insert(tx, &agreed)? {
            return Err(taken());
        }
        allowance::count(tx, &agreed)?;
        let cause = Cause { job: Some(self.id), transfer: None, trace: self.fresh.trace };
        ledger::apply(tx, held.as_slice(), cause, now)?;
        let attention = Attention { deadline_ms: Some(agreed.deadline_at - now), ..JOB };
        let (seq, transport) = jobs::hand_out(tx, &agreed, &agent, author, &body, attention)?;
        if transport == Transport::Inbox {
            frame::put(tx, &self.app, &agent, &agreed, seq, body)?;
        } else {
            self.app.push_after(tx);
        }
        view(&Job::asked(agreed), Some(&hirer.wallet.owner)).map(Some)
    }

    /// Returns the job as stored for its agent.
    fn handout(&self, hirer: &Hirer, agreed: &Agreed) -> Result<String, Error> {
        let handout = JobHandout {
            job_id: self.id,
            orchestrator_id: hirer.agent.unwrap_or(AgentId(hirer.wallet.id.0)),
            skill_name: agreed.skill.clone(),
            input_data: self.body.input_data.clone(),
            budget: agreed.budget,
            currency: CURRENCY.into(),
            callback_url: String::new(),
            timestamp_utc: rfc3339(agreed.created_at),
            agent_id: Some(agreed.agent),
            deadline_at: Some(rfc3339(agreed.deadline_at)),
            trace_id: None,
        };
        serde_json::to_string(&handout).map_err(Error::internal)
    }

    /// Hashes everything that identifies this job, to detect another job under the same id.
    fn content(&self, orchestrator: Option<AgentId>) -> [u8; 32] {
        let body = &self.body;
        let said = serde_json::json!([
            orchestrator,
            body.agent_id,
            body.skill_name,
            body.input_data,
            body.budget.hundredths(),
            body.callback_url,
            body.deadline_ms,
        ]);
        Sha256::digest(said.to_string().as_bytes()).into()
    }

    /// Returns the candidates with their skill: the named agent, or the best ones up to `limit`. Fails if
    /// there is none.
    fn hireable(
        &self,
        tx: &mut dyn Tx,
        orchestrator: Option<AgentId>,
        limit: usize,
    ) -> Result<Vec<Worker>, Error> {
        match self.body.agent_id {
            Some(named) => Ok(vec![self.named(tx, named, orchestrator)?]),
            None => self.best(tx, orchestrator, limit),
        }
    }

    fn named(&self, tx: &mut dyn Tx, named: AgentId, orchestrator: Option<AgentId>) -> Result<Worker, Error> {
        let not_here = || Error::new(Code::NotFound, "agent_id: there is no such agent on the market");
        let agent = directory::by_id(tx, named)?.ok_or_else(not_here)?;
        let Hireable { listing, skill, open_jobs } =
            agents::with_skill(tx, named, &self.body.skill_name.0, up_to(self.most_open()))?
                .ok_or_else(not_here)?;
        let skill = skill.ok_or_else(|| {
            let what = format_args!("agent {named} does not offer {:?}", self.body.skill_name.0);
            Error::new(Code::SkillMismatch, what)
        })?;
        if agent.paused_at.is_some() {
            return Err(offline("the agent is paused: its owner lets everything for it wait"));
        }
        if agent.disabled_at.is_some() || presence(&self.app, (&agent).into()).0 == Presence::Offline {
            return Err(offline("the agent has shown no sign of life lately"));
        }
        if keeps_out(tx, &agent, &self.caller, orchestrator)? {
            return Err(Error::new(Code::Forbidden, "the agent does not want to hear from you"));
        }
        self.has_time(skill.min_deadline_ms)?;
        self.has_room(tx, named, open_jobs)?;
        self.can_store_result(tx, named)?;
        Ok(Worker::new(agent, listing, skill))
    }

    /// Returns the limit of open jobs per agent: ten times that of one owner, so that no single owner can fill
    /// it.
    fn most_open(&self) -> u64 {
        self.app.config.quotas.open_jobs.saturating_mul(10)
    }

    /// Checks that an agent has room for this job. Jobs without a held budget may use half of the room, so
    /// that free jobs never displace paid ones.
    fn has_room(&self, tx: &mut dyn Tx, agent: AgentId, open_jobs: i64) -> Result<(), Error> {
        let (most, mut full) = (self.most_open(), None);
        if open_jobs >= up_to(most) {
            full = Some(format!("{most} open jobs"));
        } else if self.body.budget.is_zero() {
            let most = most.div_ceil(2);
            let is_full = jobs::count_free(tx, agent, up_to(most))? >= up_to(most);
            full = is_full.then(|| format!("{most} open jobs without a budget"));
        }
        let Some(full) = full else { return Ok(()) };
        let what = format_args!("the agent has {full} already; hire another, or try again later");
        Err(Error::new(Code::RateLimited, what).retry_after_ms(30_000))
    }

    /// Checks that the agent's storage quota leaves room for a result.
    fn can_store_result(&self, tx: &mut dyn Tx, agent: AgentId) -> Result<(), Error> {
        if self.app.limits.usage.has_room_for_result(tx, agent.into())? {
            return Ok(());
        }
        let what =
            "the agent has used up its storage and could give no result; hire another, or try again later";
        Err(Error::new(Code::RateLimited, what).retry_after_ms(30_000))
    }

    /// Returns the job's time limit. Funds are never held longer than the caller asked or the default,
    /// whatever the agent needs.
    fn deadline_ms(&self) -> i64 {
        self.body.deadline_ms.unwrap_or(USUAL_DEADLINE_MS)
    }

    /// Checks that the job's time limit is at least the skill's minimum.
    fn has_time(&self, least: Option<i64>) -> Result<(), Error> {
        let Some(least) = least.filter(|least| self.deadline_ms() < *least) else { return Ok(()) };
        let unsaid = match self.body.deadline_ms {
            Some(_) => String::new(),
            None => format!(", and without deadline_ms a job has {USUAL_DEADLINE_MS}"),
        };
        let what = format_args!("must be {least} or more: for less the agent does not take this job{unsaid}");
        Err(Faults::one("deadline_ms", what).into())
    }

    /// Checks the input against the faults that are known of this skill's schema.
    fn takes_input(&self, skill: &Skill) -> Result<(), Error> {
        let unfit = self.unfit();
        match unfit.iter().find(|(schema, _)| skill.input_schema.as_ref() == Some(schema)) {
            Some((_, faults)) => Err(faults.clone().into()),
            None => Ok(()),
        }
    }

    /// Returns the best candidates. Their schemas match the input or were not checked yet.
    fn best(
        &self,
        tx: &mut dyn Tx,
        orchestrator: Option<AgentId>,
        limit: usize,
    ) -> Result<Vec<Worker>, Error> {
        let name = &self.body.skill_name.0;
        let affordable = search(&self.app, name, self.body.budget, true, orchestrator);
        let in_time = Search { max_deadline_ms: Some(self.deadline_ms()), ..affordable.clone() };
        let mut found = discovery::search(tx, &in_time, None, MOST_TRIED)?;
        if found.is_empty() {
            // The agent that is found then reports its minimum time.
            found = discovery::search(tx, &affordable, None, 1)?;
        }
        let is_empty = found.is_empty();
        let (mut can_be_hired, mut cannot) = (vec![], None);
        for found in found {
            let Some(agent) = directory::by_id(tx, found.place.agent)? else { continue };
            if keeps_out(tx, &agent, &self.caller, orchestrator)? {
                continue;
            }
            // The agent may have left since the search.
            let Some(Hireable { listing, skill: Some(skill), open_jobs }) =
                agents::with_skill(tx, agent.id, name, up_to(self.most_open()))?
            else {
                continue;
            };
            let can = self.has_time(skill.min_deadline_ms);
            let can = can.and_then(|()| self.has_room(tx, agent.id, open_jobs));
            let can = can.and_then(|()| self.can_store_result(tx, agent.id));
            match can.and_then(|()| self.takes_input(&skill)) {
                Ok(()) => can_be_hired.push(Worker::new(agent, listing, skill)),
                Err(why) => cannot = cannot.or(Some(why)),
            }
            if can_be_hired.len() == limit {
                break;
            }
        }
        match (can_be_hired.is_empty(), cannot) {
            (false, _) => Ok(can_be_hired),
            (true, Some(why)) => Err(why),
            (true, None) => Err(nobody(tx, &affordable, is_empty)?),
        }
    }
}

/// Returns the error for a search without candidates. It says whether all found agents block the caller, or
/// whether none exists at all, for this budget, or online now.
pub(super) fn nobody(tx: &mut dyn Tx, search: &Search, is_empty: bool) -> Result<Error, StoreError> {
    let name = search.skill.as_deref().unwrap_or_default();
    if !is_empty {
        let what = format_args!("nobody who does {name:?} for this budget wants to hear from you");
        return Ok(Error::new(Code::Forbidden, what));
    }
    let for_anything = Search { max_cost: Credits::MAX, ..search.clone() };
    if !discovery::search(tx, &for_anything, None, 1)?.is_empty() {
        let what = format_args!("nobody does {name:?} for {} credits", search.max_cost);
        return Ok(Error::new(Code::BudgetInsufficient, what));
    }
    let at_any_time = Search { seen_since: None, ..for_anything };
    if !discovery::search(tx, &at_any_time, None, 1)?.is_empty() {
        return Ok(offline("nobody who offers this skill has shown a sign of life lately"));
    }
    Ok(Error::new(Code::SkillMismatch, format_args!("nobody offers {name:?}")))
}

/// Returns whether an agent or its owner blocks this caller or the agent it hires for. A wallet key is blocked
/// together with the agents that earn for it; otherwise it would get around every block.
pub(super) fn keeps_out(
    tx: &mut dyn Tx,
    agent: &Agent,
    caller: &Caller,
    hires_for: Option<AgentId>,
) -> Result<bool, StoreError> {
    if !agent.has_blocks {
        return Ok(false);
    }
    for who in [caller.id(), hires_for.map(Into::into)].into_iter().flatten() {
        if blocks::keeps_out(tx, agent.id.into(), who)? {
            return Ok(true);
        }
    }
    match caller {
        Caller::Owner(wallet) => blocks::keeps_out_wallet(tx, agent.id.into(), *wallet),
        _ => Ok(false),
    }
}

/// Builds the search for agents with this skill at this price or less.
pub(super) fn search(
    app: &App,
    skill: &str,
    max_cost: Credits,
    online: bool,
    except: Option<AgentId>,
) -> Search {
    Search {
        skill: Some(skill.to_owned()),
        min_reputation: Reputation::MIN,
        max_cost,
        words: vec![],
        seen_since: online.then(|| seen_since(app)),
        now: app.now(),
        except,
        max_deadline_ms: None,
        few_online: app.caches.market.online.are_few(),
    }
}

/// Returns the number at which counting stops.
fn up_to(most: u64) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

fn taken() -> Error {
    Error::new(Code::Conflict, "job_id: this id was used for another job; take a new one")
}

fn offline(what: &str) -> Error {
    Error::new(Code::AgentOffline, what).retry_after_ms(30_000)
}
