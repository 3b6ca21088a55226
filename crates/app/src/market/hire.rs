//! Hiring through the hub: skill, price and presence are checked, the budget is held, and the job is on its way.

use super::discover::{declared, look_who_is_online};
use super::frame;
use super::jobs::view;
use super::presence::{is_alive, presence, seen_since};
use super::probe;
use super::who::{self, Fresh, Hirer};
use crate::app::{App, AppState};
use crate::attention;
use crate::caller::Caller;
use crate::error::Error;
use crate::market_memory::Takes;
use crate::usage::{event_bytes, room};
use chorus_market::escrow::check_budget;
use chorus_market::{money, schema};
use chorus_protocol::attention::Attention;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, EventId, JobId, WalletId};
use chorus_protocol::market::{
    CURRENCY, Credits, JobHandout, JobRequest, JobView, Presence, Reputation, USUAL_DEADLINE_MS,
};
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

/// A price that was offered before, whatever the skill costs now.
pub(super) struct Offered {
    pub(super) price: Credits,
}

/// So many are looked at for one that wants to hear from whoever hires.
const MOST_TRIED: i64 = 20;

/// What a job is for its agent.
const JOB: Attention = Attention { reason: Reason::Assignment, ..attention::FOREIGN };

/// What changes while it is looked at is looked at again, so often.
pub(super) const LOOKS: usize = 3;

/// Asks for a job. The same job again is the same job, however it stands by then.
pub async fn hire(app: &AppState, caller: Caller, body: JobRequest) -> Result<JobView, Error> {
    let act = Arc::new(prepare(app, caller, body).await?);
    let mut guess = act.fits_as_before();
    for _ in 0..LOOKS {
        let checked = match guess.take() {
            Some(Takes(schema)) => schema,
            None => act.check_input().await?,
        };
        let hire = Arc::clone(&act);
        let work = move |tx: &mut dyn Tx| hire.run(tx, None, checked.as_deref());
        if let Some(job) = app.store.write::<_, Error, _>(work).await? {
            return Ok(job);
        }
    }
    Err(changing())
}

/// The offers are others each time they are looked at.
pub(super) fn changing() -> Error {
    Error::new(Code::Overloaded, "what is offered changed while it was looked at; try again")
        .retry_after_ms(1000)
}

/// A job that is asked for, with everything that must not be made twice.
pub(super) struct Hire {
    app: AppState,
    caller: Caller,
    pub(super) body: JobRequest,
    pub(super) id: JobId,
    event: EventId,
    callback: Option<Vec<u8>>,
    fresh: Fresh,
    /// What offers declare that this input does not fit, and why not: they are passed over.
    unfit: Mutex<Vec<(String, Faults)>>,
}

pub(super) async fn prepare(app: &AppState, caller: Caller, body: JobRequest) -> Result<Hire, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let id = body.job_id.unwrap_or(JobId(app.environment.uuid_v4()));
    let mut callback = None;
    if let Some(url) = &body.callback_url {
        if let Ok(url) = Url::parse(&url.0) {
            app.outbound.check("callback_url", &url).await?;
        }
        let sealed = app.config.master_key.seal(app.environment.bytes(), id.as_bytes(), &url.0);
        callback = Some(sealed.ok_or_else(|| Error::internal("a callback could not be sealed"))?);
    }
    match body.agent_id {
        // Nothing has to be looked up of one that was seen lately, or whose inbox is open here.
        Some(named) if is_alive(app, named) || app.live.dialect(named).is_some() => {}
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
        body,
        id,
        event: EventId(app.environment.uuid_v7()),
        callback,
        fresh,
        unfit: Mutex::default(),
    })
}

/// Who is hired: the agent as jobs reach it, whose wallet is paid, for which skill.
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
    /// What the agent declared when somebody last looked, if the input fits that.
    pub(super) fn fits_as_before(&self) -> Option<Takes> {
        let takes = self.app.market.schemas.find(self.body.agent_id?, &self.body.skill_name.0)?;
        let fits = schema::check(declared(takes.0.as_deref()).as_ref(), &self.body.input_data, "input_data");
        fits.is_ok().then_some(takes)
    }

    /// Holds the input against what the agent declares that would be hired now, and says what that is; if nobody was named, one that
    /// does not take this input gives way to the next. A check takes its time, so nobody who writes waits for it.
    pub(super) async fn check_input(self: &Arc<Self>) -> Result<Option<String>, Error> {
        for _ in 0..=MOST_TRIED {
            let declares = self.declared_now().await?;
            let fits =
                schema::check(declared(declares.as_deref()).as_ref(), &self.body.input_data, "input_data");
            match (fits, declares) {
                (Err(faults), Some(schema)) if self.body.agent_id.is_none() => {
                    self.unfit().push((schema, faults));
                }
                (fits, declares) => return fits.map(|()| declares).map_err(Into::into),
            }
        }
        Err(changing())
    }

    fn unfit(&self) -> MutexGuard<'_, Vec<(String, Faults)>> {
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the agent declares that would be hired now. The input of a job that is known already is not looked at again.
    async fn declared_now(self: &Arc<Self>) -> Result<Option<String>, Error> {
        let act = Arc::clone(self);
        let find = move |tx: &mut dyn Tx| {
            if jobs::by_id(tx, act.id)?.is_some() {
                return Ok(None);
            }
            let orchestrator = match &act.caller {
                Caller::Agent(identity) => Some(identity.id),
                _ => act.body.orchestrator_id,
            };
            let Worker { agent, skill, .. } = act.choose(tx, orchestrator)?;
            act.app.market.schemas.remember(agent.id, &skill.name, skill.input_schema.as_deref());
            Ok(skill.input_schema)
        };
        self.app.store.read::<_, Error, _>(find).await
    }

    /// Hires, unless the input was `checked` against something else than what the agent declares by now.
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
        let Worker { agent, wallet, skill } = self.choose(tx, hirer.agent)?;
        let price = offered.map_or(skill.cost, |offered| offered.price);
        check_budget(self.body.budget, price).map_err(|short| Error::new(Code::BudgetInsufficient, short))?;
        if skill.input_schema.as_deref() != checked {
            return Ok(None);
        }
        let now = self.fresh.now;
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
            created_at: now,
            trace: self.fresh.trace,
        };
        // Whatever may be refused is refused before anything is written: else others who write would have to do it again.
        let payer = money::Wallet { id: hirer.wallet.id, balance: hirer.wallet.balance };
        let held = money::hold(payer, self.id, self.body.budget)?;
        let most_open = self.app.config.quotas.open_jobs;
        room("open_jobs", jobs::count_open(tx, hirer.wallet.id, up_to(most_open))?, most_open)?;
        let (author, body) = (who::author(&self.caller, &hirer), self.handout(&hirer, &agreed)?);
        self.app.count_bytes(tx, author, event_bytes(body.len()))?;
        if !jobs::insert(tx, &agreed)? {
            return Err(taken());
        }
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

    /// The job as it is kept for its agent.
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

    /// Everything that makes it this job and no other.
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

    /// The agent that is hired, with its skill: the one that was named, or the best that can be had.
    fn choose(&self, tx: &mut dyn Tx, orchestrator: Option<AgentId>) -> Result<Worker, Error> {
        let Some(named) = self.body.agent_id else { return self.best(tx, orchestrator) };
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
        Ok(Worker::new(agent, listing, skill))
    }

    /// How much an agent may have to do: ten times what one owner may ask for, so that nobody alone keeps the others from it.
    fn most_open(&self) -> u64 {
        self.app.config.quotas.open_jobs.saturating_mul(10)
    }

    /// Whether an agent has room for this job. What nothing is held for has half of it, so that those who have nothing to lose never
    /// keep out those who pay.
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

    /// How long the job may take. Nobody's money is held longer than it said, or than is usual, whatever an agent needs.
    fn deadline_ms(&self) -> i64 {
        self.body.deadline_ms.unwrap_or(USUAL_DEADLINE_MS)
    }

    /// Whether the job is given as long as a skill needs.
    fn has_time(&self, least: Option<i64>) -> Result<(), Error> {
        let Some(least) = least.filter(|least| self.deadline_ms() < *least) else { return Ok(()) };
        let unsaid = match self.body.deadline_ms {
            Some(_) => String::new(),
            None => format!(", and without deadline_ms a job has {USUAL_DEADLINE_MS}"),
        };
        let what = format_args!("must be {least} or more: for less the agent does not take this job{unsaid}");
        Err(Faults::one("deadline_ms", what).into())
    }

    /// Whether a skill takes this input, as far as that was looked at.
    fn takes_input(&self, skill: &Skill) -> Result<(), Error> {
        let unfit = self.unfit();
        match unfit.iter().find(|(schema, _)| skill.input_schema.as_ref() == Some(schema)) {
            Some((_, faults)) => Err(faults.clone().into()),
            None => Ok(()),
        }
    }

    fn best(&self, tx: &mut dyn Tx, orchestrator: Option<AgentId>) -> Result<Worker, Error> {
        let name = &self.body.skill_name.0;
        let affordable = search(&self.app, name, self.body.budget, true, orchestrator);
        let in_time = Search { max_deadline_ms: Some(self.deadline_ms()), ..affordable.clone() };
        let mut found = discovery::search(tx, &in_time, None, MOST_TRIED)?;
        if found.is_empty() {
            // Whoever is there then says how long it needs.
            found = discovery::search(tx, &affordable, None, 1)?;
        }
        let is_empty = found.is_empty();
        let mut cannot = None;
        for found in found {
            let Some(agent) = directory::by_id(tx, found.place.agent)? else { continue };
            if keeps_out(tx, &agent, &self.caller, orchestrator)? {
                continue;
            }
            // It may have left since it was found.
            let Some(Hireable { listing, skill: Some(skill), open_jobs }) =
                agents::with_skill(tx, agent.id, name, up_to(self.most_open()))?
            else {
                continue;
            };
            let can = self.has_time(skill.min_deadline_ms);
            let can = can.and_then(|()| self.has_room(tx, agent.id, open_jobs));
            match can.and_then(|()| self.takes_input(&skill)) {
                Ok(()) => return Ok(Worker::new(agent, listing, skill)),
                Err(why) => cannot = cannot.or(Some(why)),
            }
        }
        if let Some(why) = cannot {
            return Err(why);
        }
        Err(nobody(tx, &affordable, is_empty)?)
    }
}

/// Why nobody can be had who is looked for online: of those who are found nobody wants to hear from the caller; or nobody is found, for
/// this budget, now, or at all.
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

/// Whether an agent, or its owner, does not want to hear from this caller, nor from the agent it hires for. The key of a wallet
/// is kept out with the agents that earn for it: else it were a way around every block.
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

/// Who does this, for so much.
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
        few_online: app.market.online.are_few(),
    }
}

/// So many are counted, and no more.
fn up_to(most: u64) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

fn taken() -> Error {
    Error::new(Code::Conflict, "job_id: this id was used for another job; take a new one")
}

fn offline(what: &str) -> Error {
    Error::new(Code::AgentOffline, what).retry_after_ms(30_000)
}
