//! Registration: an agent offers skills and earns for an owner.
//!
//! The first use of an owner name claims it and returns a key. Later uses need that key, or the account that
//! was signed in. An agent that is new on the market is added to the directory too, with its name as the slug.

use super::who::{self, Fresh};
use crate::admission::Admission;
use crate::agents::own;
use chorus_market::schema::Schema;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::{Caller, key_hash};
use chorus_node::idempotency::{Done, Once};
use chorus_node::source::rate_key;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_protocol::address::MAX_LEN;
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, is_id};
use chorus_protocol::market::{Credits, OwnerId, Registered, Registration, RegistrationStatus};
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent, KeyHash, Record};
use chorus_store::market::agents::{self, ListingChange, NewListing, Skill};
use chorus_store::market::wallets::{self, NewWallet, Wallet};
use chorus_store::{Tx, inboxes, usage};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use url::Url;

/// Names that are tried if a slug is taken.
const MOST_NAMES: usize = 50;
/// Regex patterns in the schemas of one registration. Each one is compiled to check it.
const MAX_PATTERNS: usize = 200;
/// The longest slug, in characters.
const MAX_SLUG: usize = 48;

/// Registers an agent on the market, or replaces its registration. The result says whether it is new. A new
/// agent shows an invitation code if sign-up needs one. Both keys are returned only once, and again for a
/// retry under the same idempotency key.
pub async fn register(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    body: Registration,
    once: Once,
) -> Result<Done<(bool, Registered)>, Error> {
    if caller != Caller::Operator {
        app.limits.count_listing(rate_key(context.client))?;
    }
    let skills = check_skills(&body)?;
    if let Some(id) = body.agent_id.filter(|id| !(1..=7).contains(&id.0.get_version_num())) {
        return Err(
            Faults::one("agent_id", format_args!("must be a UUID of version 1 to 7, not {id}")).into()
        );
    }
    if let Some(endpoint) = &body.api_endpoint {
        // An invalid URL was refused earlier.
        if let Ok(url) = Url::parse(&endpoint.0) {
            app.transport.outbound.check("api_endpoint", &url).await?;
        }
    }
    let (agent_secret, owner_secret) = (app.secret(SecretKind::AgentKey), app.secret(SecretKind::OwnerKey));
    let fresh = Fresh { key: key_hash(&owner_secret), ..Fresh::new(app) };
    let admission = match &caller {
        // A known caller is responsible for its agents. An owner name can be claimed by anybody.
        Caller::Account(_) | Caller::Operator => Admission::Everybody,
        _ => Admission::of(app, body.invitation.as_deref()),
    };
    let act = Act {
        app: Arc::clone(app),
        caller,
        context,
        body,
        skills,
        new_agent: AgentId(app.environment.uuid_v4()),
        agent_key: key_hash(&agent_secret),
        admission,
        fresh,
        counted: OnceLock::new(),
        counted_bytes: OnceLock::new(),
    };
    let work = move |tx: &mut dyn Tx| {
        let put = act.run(tx)?;
        let status = if put.is_new { RegistrationStatus::Registered } else { RegistrationStatus::Updated };
        let registered = Registered {
            status: status.into(),
            agent_id: put.agent.id,
            reputation_score: put.reputation,
            address: Some(act.app.address(&put.agent.name)),
            owner_id: Some(put.owner),
            api_key: put.agent_made.then(|| agent_secret.clone()),
            owner_key: put.owner_made.then(|| owner_secret.clone()),
        };
        Ok((put.is_new, registered))
    };
    app.once(once, |_| Ok(()), work).await
}

/// Returns the skills as stored, or all faults in them.
fn check_skills(body: &Registration) -> Result<Vec<Skill>, Error> {
    let text = |schema: &Option<Value>| schema.as_ref().map(ToString::to_string);
    let kept = body.skills.iter().map(|skill| Skill {
        name: skill.skill_name.0.clone(),
        description: skill.description.clone(),
        cost: skill.cost_per_call,
        input_schema: text(&skill.input_schema),
        output_schema: text(&skill.output_schema),
        min_deadline_ms: skill.min_deadline_ms,
    });
    let kept: Vec<_> = kept.collect();
    let schemas = || kept.iter().flat_map(|skill| [&skill.input_schema, &skill.output_schema]).flatten();
    if schemas().map(|text| Schema::count_patterns(text)).sum::<usize>() > MAX_PATTERNS {
        let what = format_args!("must have at most {MAX_PATTERNS} patterns in the schemas of all");
        return Err(Faults::one("skills", what).into());
    }
    let faults =
        block_in_place_if_large(schemas().map(|text| Schema::weight(text)).sum(), || faults_of(body));
    if faults.is_empty() { Ok(kept) } else { Err(faults.into()) }
}

fn faults_of(body: &Registration) -> Faults {
    let (mut faults, mut names) = (Faults::new(), HashSet::new());
    if body.agent_name.0.chars().any(turns_text) {
        faults.add("agent_name", "must not have signs that turn the direction of text");
    }
    for (index, skill) in body.skills.iter().enumerate() {
        if !names.insert(&skill.skill_name) {
            faults.add(&format!("skills[{index}].skill_name"), "is there twice");
        }
        for (name, schema) in [("input_schema", &skill.input_schema), ("output_schema", &skill.output_schema)]
        {
            if let Some(schema) = schema {
                Schema::read(schema, &format!("skills[{index}].{name}"), &mut faults);
            }
        }
    }
    faults
}

/// Returns whether a character changes the text direction. A name with one could imitate another name or
/// distort the page.
fn turns_text(sign: char) -> bool {
    matches!(sign, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

struct Act {
    app: AppState,
    caller: Caller,
    context: RequestContext,
    body: Registration,
    skills: Vec<Skill>,
    new_agent: AgentId,
    agent_key: KeyHash,
    admission: Admission,
    fresh: Fresh,
    /// The result of the rate limit check, which counts once even if the transaction runs again.
    counted: OnceLock<Result<(), Error>>,
    /// The same for the bytes of the agent's record and its offers.
    counted_bytes: OnceLock<Result<(), Error>>,
}

/// The outcome of a registration.
struct Put {
    agent: Agent,
    agent_made: bool,
    owner: String,
    owner_made: bool,
    reputation: chorus_protocol::market::Reputation,
    is_new: bool,
}

impl Act {
    fn run(&self, tx: &mut dyn Tx) -> Result<Put, Error> {
        let known = self.known_agent(tx)?;
        let (is_operator, source) = (self.caller == Caller::Operator, rate_key(self.context.client));
        if known.is_none() && !is_operator {
            self.counted.get_or_init(|| self.app.limits.count_registration(source)).clone()?;
        }
        let before = known.as_ref().map_or(Ok(0), |agent| usage::of_record(tx, agent.id))?;
        let (wallet, owner_made) = self.wallet(tx, known.as_ref())?;
        let agent_made = known.is_none();
        let agent = match known {
            Some(agent) => agent,
            None => self.make_agent(tx)?,
        };
        let listing = NewListing {
            agent: agent.id,
            wallet: wallet.id,
            display_name: self.body.agent_name.0.clone(),
            endpoint: self.body.api_endpoint.as_ref().map(|endpoint| endpoint.0.clone()),
            skills: self.skills.clone(),
            trace: self.fresh.trace,
        };
        let change = ListingChange::of(tx, &listing)?;
        let (reputation, is_new) = (change.reputation(), change.is_new());
        let owner = wallet.owner.clone();
        let put = Put { agent, agent_made, owner, owner_made, reputation, is_new };
        if !change.is_empty() && !agent_made && !is_operator {
            self.counted.get_or_init(|| self.app.limits.count_offer_change(put.agent.id, source)).clone()?;
        }
        change.save(tx, self.fresh.now)?;
        if put.agent.owner.is_none() && !matches!(self.caller, Caller::Account(_) | Caller::Operator) {
            let grown = usage::of_record(tx, put.agent.id)? - before;
            self.counted_bytes
                .get_or_init(|| self.app.limits.count_registered_bytes(source, grown))
                .clone()?;
        }
        // Every registration is a sign of life, whichever key it shows: a worker's program may use its
        // account's token.
        inboxes::seen(tx, put.agent.id, self.fresh.now)?;
        if change.is_empty() {
            return Ok(put);
        }
        let due = Arc::clone(&self.app.tasks.skill_words_due);
        tx.after_commit(Box::new(move || due.notify_one()));
        let detail = json!({"name": put.agent.name, "owner": wallet.owner, "skills": self.skills.len()});
        let subject = Subject::Agent(put.agent.id);
        let deed = Deed::new(self.caller.actor(), Action::SkillsOffered, subject, detail);
        self.context.record(tx, &self.app, deed)?;
        Ok(put)
    }

    /// Returns the named agent, if it exists and this caller may act for it.
    fn known_agent(&self, tx: &mut dyn Tx) -> Result<Option<Agent>, Error> {
        if let Caller::Agent(identity) = &self.caller {
            if self.body.agent_id.is_some_and(|named| named != identity.id) {
                let what = "agent_id: your key is another agent's; leave it out, or register without a key";
                return Err(Error::new(Code::Forbidden, what));
            }
            let agent = directory::by_id(tx, identity.id)?;
            return agent.map(Some).ok_or_else(|| Error::unauthorized("this key is not valid (any more)"));
        }
        let Some(named) = self.body.agent_id else { return Ok(None) };
        let Some(agent) = directory::by_id(tx, named)? else {
            if agents::was_agent(tx, named)? || agents::is_foreign_id(tx, named.0)? {
                return Err(Error::new(
                    Code::Conflict,
                    "agent_id: this id was used before; take another one",
                ));
            }
            return Ok(None);
        };
        let listed = agents::by_id(tx, named)?;
        let wallet = listed.map_or(Ok(None), |listed| wallets::by_id(tx, listed.wallet))?;
        let by_account = matches!(&self.caller, Caller::Account(person) if agent.owner == Some(person.id));
        if by_account || wallet.is_some_and(|wallet| who::answers_for(&self.caller, &agent, &wallet)) {
            return Ok(Some(agent));
        }
        Err(self.refused(
            "agent_id: this agent is there already; show its key or its owner's as Authorization: Bearer",
        ))
    }

    fn refused(&self, what: &str) -> Error {
        match self.caller {
            Caller::Nobody => Error::unauthorized(what),
            _ => Error::new(Code::Forbidden, what),
        }
    }

    /// Returns the wallet to pay, and whether its key is new and has to be shown.
    fn wallet(&self, tx: &mut dyn Tx, agent: Option<&Agent>) -> Result<(Wallet, bool), Error> {
        let listed = agent.map_or(Ok(None), |agent| wallets::of_listed(tx, agent.id))?;
        let account = match &self.caller {
            Caller::Account(person) => Some(person.id),
            // The agent's key acts for the agent, which earns for its account.
            Caller::Agent(_) => agent.and_then(|agent| agent.owner),
            Caller::Owner(_) | Caller::Operator | Caller::EditLink(_) | Caller::Nobody => None,
        };
        let Some(owner) = self.body.owner_id.as_ref().map(|owner| owner.0.as_str()) else {
            let own = match &self.caller {
                Caller::Owner(id) => wallets::by_id(tx, *id)?,
                _ => listed,
            };
            return match (own, account) {
                (Some(own), _) => Ok((own, false)),
                (None, Some(account)) => Ok((who::of_account(tx, &self.app, account, &self.fresh)?, false)),
                (None, None) => Err(Faults::one("owner_id", "is required").into()),
            };
        };
        if who::is_reserved(owner) {
            let own = account
                .filter(|account| who::is_account(&self.caller, owner) || account.to_string() == owner);
            let own = own.ok_or_else(|| {
                self.refused(
                    "owner_id: account ids and email addresses are for their accounts only; show its token",
                )
            })?;
            return Ok((who::of_account(tx, &self.app, own, &self.fresh)?, false));
        }
        let is_listed = listed.is_some();
        if let (Caller::Agent(_), Some(listed)) = (&self.caller, listed) {
            // The agent's key may keep its owner, but cannot redirect its earnings.
            if listed.owner == owner {
                return Ok((listed, false));
            }
            let what = "owner_id: this agent earns for another owner; leave it out, or show that owner's key as \
                        Authorization: Bearer cw_…";
            return Err(self.refused(what));
        }
        if let Some(wallet) = wallets::by_owner(tx, owner)? {
            if self.caller.owns(&wallet) {
                return Ok((wallet, false));
            }
            return Err(self.refused(
                "owner_id: this owner is known; show the owner's key as Authorization: Bearer cw_…",
            ));
        }
        if let Some(why) = OwnerId::unfit_to_claim(owner) {
            return Err(Faults::one("owner_id", why).into());
        }
        // The key of an account's agent creates no owner key: the account is the owner and uses the wallet
        // directly.
        let by_agent = matches!(self.caller, Caller::Agent(_));
        let keyed = !(by_agent && account.is_some());
        let new = NewWallet {
            id: self.fresh.wallet,
            owner: owner.to_owned(),
            account,
            key: keyed.then_some(self.fresh.key),
            issued_to: agent.filter(|_| by_agent && keyed).map(|agent| agent.id),
            trace: self.fresh.trace,
        };
        // An agent that changes owners gets no further grant.
        let grant = if is_listed { Credits::ZERO } else { self.app.config.market_grant };
        let made = who::make(tx, &new, grant, self.fresh.now)?;
        let made =
            made.ok_or_else(|| Error::new(Code::Conflict, "owner_id: somebody claimed it at this moment"))?;
        Ok((made, keyed))
    }

    /// Creates a new agent in the directory.
    fn make_agent(&self, tx: &mut dyn Tx) -> Result<Agent, Error> {
        self.admission.admit(tx, self.fresh.now)?;
        let host = self.app.config.host_name.len();
        let slug = slug(&self.body.agent_name.0, MAX_SLUG.min(MAX_LEN.saturating_sub(host + 40)));
        let mut name = None;
        for n in 1..=MOST_NAMES {
            let tried = if n == 1 { slug.clone() } else { format!("{slug}-{n}") };
            if !is_id(&tried) && directory::by_name(tx, &tried)?.is_none() {
                name = Some(tried);
                break;
            }
        }
        let id = self.body.agent_id.unwrap_or(self.new_agent);
        let name = name.unwrap_or_else(|| format!("{slug}-{}", self.new_agent.0.simple()));
        let record = Record { name, endpoint: None, card: None };
        let agent = directory::insert(tx, id, &record, &self.agent_key, self.fresh.trace, self.fresh.now)?;
        match &self.caller {
            Caller::Account(person) => own(tx, &self.app, id, person.id, None)?,
            _ => self.context.keep_source(tx, &self.app, id)?,
        }
        let (subject, detail) = (Subject::Agent(id), json!({"name": agent.name, "endpoint": null}));
        let deed = Deed::new(self.caller.actor(), Action::AgentRegistered, subject, detail);
        self.context.record(tx, &self.app, deed)?;
        Ok(agent)
    }
}

/// Makes a slug: keeps letters, digits, '.', '_' and '-', and replaces each run of other characters by one
/// '-'.
fn slug(name: &str, longest: usize) -> String {
    let mut slug = String::new();
    for sign in name.chars() {
        match sign {
            sign if sign.is_ascii_alphanumeric() || matches!(sign, '.' | '_' | '-') => slug.push(sign),
            _ if slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let slug: String = slug.trim_matches(['-', '.']).chars().take(longest.max(8)).collect();
    if slug.bytes().any(|byte| byte.is_ascii_alphanumeric()) { slug } else { "agent".into() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_becomes_an_address() {
        for (name, slug) in [
            ("Text-Analyst-3000", "Text-Analyst-3000"),
            ("Human-readable name", "Human-readable-name"),
            ("  a  b  ", "a-b"),
            ("下午", "agent"),
            ("...", "agent"),
            ("x下午y", "x-y"),
        ] {
            assert_eq!(super::slug(name, 48), slug);
        }
        assert_eq!(super::slug(&"x".repeat(100), 48).len(), 48);
    }
}
