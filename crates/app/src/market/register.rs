//! Coming to the market: an agent offers skills, and earns for an owner.
//!
//! An owner is claimed by its first use, which gives it a key; later uses need that key, or the account that was signed in. An agent
//! that is new here is new in the directory as well, under its name as a slug.

use super::who::{self, Fresh};
use crate::admission::Admission;
use crate::agents::own;
use crate::app::AppState;
use crate::audit::{Deed, RequestContext};
use crate::caller::{Caller, key_hash};
use crate::charge::count_registration;
use crate::error::Error;
use crate::once::{Done, Once};
use crate::rate::rate_key;
use chorus_market::schema::Schema;
use chorus_protocol::address::MAX_LEN;
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, is_id};
use chorus_protocol::market::{Credits, OwnerId, Registered, Registration, RegistrationStatus};
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent, KeyHash, Record};
use chorus_store::market::agents::{self, NewListing, Skill};
use chorus_store::market::wallets::{self, NewWallet, Wallet};
use chorus_store::{Tx, inboxes};
use serde_json::json;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use url::Url;

/// So many names are tried for a slug that is taken.
const MOST_NAMES: usize = 50;
/// A slug is so long at most.
const MAX_SLUG: usize = 48;

/// Puts an agent on the market, or replaces what it says there. Says whether it is new there. Where sign-up needs a code, a new agent
/// shows one. Both keys are shown this once, and to whoever asks again under the same idempotency key because it heard no answer.
pub async fn register(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    body: Registration,
    once: Once,
) -> Result<Done<(bool, Registered)>, Error> {
    let skills = check_skills(&body)?;
    if let Some(id) = body.agent_id.filter(|id| !(1..=7).contains(&id.0.get_version_num())) {
        return Err(
            Faults::one("agent_id", format_args!("must be a UUID of version 1 to 7, not {id}")).into()
        );
    }
    if let Some(endpoint) = &body.api_endpoint {
        // What is no URL was refused before.
        if let Ok(url) = Url::parse(&endpoint.0) {
            app.outbound.check("api_endpoint", &url).await?;
        }
    }
    let (agent_secret, owner_secret) = (app.secret(SecretKind::AgentKey), app.secret(SecretKind::OwnerKey));
    let fresh = Fresh { key: key_hash(&owner_secret), ..Fresh::new(app) };
    let admission = match &caller {
        // Whoever is known here answers for its agents; an owner is claimed by anybody.
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

/// The skills as they are kept, or everything that is wrong with them.
fn check_skills(body: &Registration) -> Result<Vec<Skill>, Error> {
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
    if !faults.is_empty() {
        return Err(faults.into());
    }
    let kept = body.skills.iter().map(|skill| Skill {
        name: skill.skill_name.0.clone(),
        description: skill.description.clone(),
        cost: skill.cost_per_call,
        input_schema: skill.input_schema.as_ref().map(ToString::to_string),
        output_schema: skill.output_schema.as_ref().map(ToString::to_string),
        min_deadline_ms: skill.min_deadline_ms,
    });
    Ok(kept.collect())
}

/// Whether a sign turns what stands around it: a name with one could look like another, or change the page it is on.
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
    /// Whether there is room for a new agent: the transaction may run again, and what was decided stands.
    counted: OnceLock<Result<(), Error>>,
}

/// What was put on the market.
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
        if known.is_none() && self.caller != Caller::Operator {
            let count = || count_registration(&self.app, rate_key(self.context.client));
            self.counted.get_or_init(count).clone()?;
        }
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
        let (reputation, is_new) = agents::save(tx, &listing, self.fresh.now)?;
        // A worker registers itself, whoever's key it shows: a program may well have its account's token.
        inboxes::seen(tx, agent.id, self.fresh.now)?;
        let detail = json!({"name": agent.name, "owner": wallet.owner, "skills": self.skills.len()});
        let subject = Subject::Agent(agent.id);
        let deed = Deed::new(self.caller.actor(), Action::SkillsOffered, subject, detail);
        self.context.record(tx, &self.app, deed)?;
        Ok(Put { agent, agent_made, owner: wallet.owner, owner_made, reputation, is_new })
    }

    /// The agent that is meant, if it is there, and this caller may speak for it.
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
        if by_account || wallet.is_some_and(|wallet| who::owns(&self.caller, &wallet)) {
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

    /// Whose wallet is paid, and whether its owner is new.
    fn wallet(&self, tx: &mut dyn Tx, agent: Option<&Agent>) -> Result<(Wallet, bool), Error> {
        let listed = agent.map_or(Ok(None), |agent| agents::by_id(tx, agent.id))?;
        let listed = listed.map_or(Ok(None), |listed| wallets::by_id(tx, listed.wallet))?;
        let account = match &self.caller {
            Caller::Account(person) => Some(person.id),
            // Its key speaks for it, and it earns for the account it belongs to.
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
            // Its key does work for its owner, and takes nobody's earnings elsewhere.
            if listed.owner == owner {
                return Ok((listed, false));
            }
            let what = "owner_id: this agent earns for another owner; leave it out, or show that owner's key as \
                        Authorization: Bearer cw_…";
            return Err(self.refused(what));
        }
        if let Some(wallet) = wallets::by_owner(tx, owner)? {
            if who::owns(&self.caller, &wallet) {
                return Ok((wallet, false));
            }
            return Err(self.refused(
                "owner_id: this owner is known; show the owner's key as Authorization: Bearer cw_…",
            ));
        }
        if let Some(why) = OwnerId::unfit_to_claim(owner) {
            return Err(Faults::one("owner_id", why).into());
        }
        let new = NewWallet {
            id: self.fresh.wallet,
            owner: owner.to_owned(),
            account,
            key: Some(self.fresh.key),
            trace: self.fresh.trace,
        };
        // An agent that goes from owner to owner is given nothing each time.
        let grant = if is_listed { Credits::ZERO } else { self.app.config.market_grant };
        let made = who::make(tx, &new, grant, self.fresh.now)?;
        let made =
            made.ok_or_else(|| Error::new(Code::Conflict, "owner_id: somebody claimed it at this moment"))?;
        Ok((made, true))
    }

    /// A new agent of the directory.
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
        if let Caller::Account(person) = &self.caller {
            own(tx, &self.app, id, person.id, None)?;
        }
        let (subject, detail) = (Subject::Agent(id), json!({"name": agent.name, "endpoint": null}));
        let deed = Deed::new(self.caller.actor(), Action::AgentRegistered, subject, detail);
        self.context.record(tx, &self.app, deed)?;
        Ok(agent)
    }
}

/// A name for an address: letters, digits, '.', '_' and '-' as they are, runs of anything else as one '-'.
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
