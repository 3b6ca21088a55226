//! What is wanted of agents: the same for flags and for a file, every fault told at once with its place.

use super::{Args, warn};
use crate::global::Global;
use chorus_agent::harness::{
    AT_ONCE, AgentOptions, Driver, Exec, Guard, Listen, Offering, OpenAi, Peers, QUIET,
};
use chorus_agent::{Environment, Network, WebhookSecret};
use chorus_protocol::address::Address;
use chorus_protocol::faults::Faults;
use chorus_protocol::market::{Credits, Skill, SkillName};
use chorus_protocol::relay::{CARD_VERSION, check_card};
use serde_json::json;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many conversations at once, and how many seconds of quiet, whether a flag says so or a file.
pub(super) const AT_ONCE_RANGE: RangeInclusive<u64> = 1..=64;
pub(super) const QUIET_RANGE: RangeInclusive<u64> = 0..=30;

const DEFAULT_STATE: &str = "./chorus-agent";

/// Where a model's key is, unless somebody says otherwise.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// Where the secret is that requests to an agent are signed with, unless somebody says otherwise.
const SECRET_VARIABLE: &str = "CHORUS_WEBHOOK_SECRET";

/// One agent, as it was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) name: Option<String>,
    pub(super) url: Option<String>,
    pub(super) channels: Vec<String>,
    pub(super) exec: Vec<String>,
    pub(super) openai: Option<String>,
    pub(super) model: Option<String>,
    pub(super) key_variable: Option<String>,
    pub(super) max_tokens: Option<u32>,
    pub(super) state: Option<PathBuf>,
    pub(super) culture: Option<String>,
    pub(super) system: Option<String>,
    pub(super) timeout: Option<u64>,
    pub(super) c2a: bool,
    pub(super) connection: Option<String>,
    pub(super) connection_url: Option<String>,
    pub(super) direct: Option<String>,
    pub(super) peers: Vec<(String, String)>,
    pub(super) no_hub: bool,
    pub(super) invitation: Option<String>,
    /// What requests must be signed with, or the file after @.
    pub(super) webhook_secret: Option<String>,
    pub(super) allow_from: Vec<String>,
    pub(super) allow_private: Vec<String>,
    pub(super) foreign_mcp: bool,
    pub(super) at_once: Option<u64>,
    pub(super) quiet: Option<u64>,
    pub(super) seen: bool,
    /// Each NAME=PRICE, or the file after @.
    pub(super) skills: Vec<String>,
    pub(super) owner: Option<String>,
}

/// Several, each with its place in the file.
pub(super) struct Plans(pub(super) Vec<(String, Plan)>);

impl Plan {
    /// From flags.
    pub(super) fn of(args: Args, faults: &mut Faults) -> Self {
        let mut peers = vec![];
        for peer in &args.peers {
            match peer.split_once('=') {
                Some((agent, url)) => peers.push((agent.to_owned(), url.to_owned())),
                None => faults.add("peer", "must be AGENT=URL"),
            }
        }
        // Of use only to an agent that has a server of its own; other agents of this shell may have one.
        let variable = (args.connection.is_some() || args.direct.is_some())
            .then(|| std::env::var(SECRET_VARIABLE).ok().filter(|secret| !secret.is_empty()));
        Self {
            name: args.name,
            url: None,
            channels: args.channels,
            exec: [args.exec, args.rest].concat(),
            openai: args.openai,
            model: args.model,
            key_variable: args.openai_key_env,
            max_tokens: args.max_tokens,
            state: args.state,
            culture: args.culture,
            system: args.system,
            timeout: args.timeout,
            c2a: args.c2a,
            connection: args.connection,
            connection_url: args.connection_url,
            direct: args.direct,
            peers,
            no_hub: args.no_hub,
            invitation: args.invitation.filter(|invitation| !invitation.is_empty()),
            webhook_secret: args.webhook_secret.or_else(|| variable.flatten()),
            allow_from: args.allow_from,
            allow_private: args.allow_private.into_iter().filter(|network| !network.is_empty()).collect(),
            foreign_mcp: args.foreign_mcp,
            at_once: args.at_once,
            quiet: args.quiet,
            seen: args.seen,
            skills: args.skills,
            owner: args.owner,
        }
    }

    /// What the harness needs; it counts only if there are no faults.
    fn options(self, place: &str, global: &Global, faults: &mut Faults) -> Option<AgentOptions> {
        let at = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
        let name = self.name.clone().unwrap_or_default();
        if let Err(fault) = Address::parse(&name) {
            faults.add(&at("name"), fault);
        }
        let culture = self.culture.clone().unwrap_or_else(|| "en".into());
        let card =
            json!({"card_version": CARD_VERSION, "user_culture": culture, "supported_languages": [culture]});
        let mut wrong = Faults::new();
        check_card(&card, "card", &mut wrong);
        if !wrong.is_empty() {
            faults.add(&at("culture"), "must be a BCP 47 tag such as en or zh-CN");
        }
        let system = self.system.as_deref().and_then(|text| read_text(text, &at("system"), faults));
        self.check_use(&at, faults);
        let skills = skills(&self.skills, &at("skills"), faults);
        let driver = self.driver(system.as_deref(), &at, faults);
        let listen = self.listen(&at, faults);
        let allow_private = networks(&self.allow_private, &at("allow_private"), faults);
        let url = self.url.clone().unwrap_or_else(|| global.url().to_owned());
        Some(AgentOptions {
            name,
            url: (!self.no_hub).then_some(url),
            invitation: self.invitation,
            // An agent that a person starts belongs to that person.
            key: None,
            token: global.key().filter(|key| key.starts_with("ct_")).map(str::to_owned),
            state: self.state.clone().unwrap_or_else(|| DEFAULT_STATE.into()),
            culture,
            system,
            channels: self.channels,
            listen,
            driver: driver?,
            allow_private,
            foreign_mcp: self.foreign_mcp,
            at_once: self.at_once.and_then(|number| usize::try_from(number).ok()).unwrap_or(AT_ONCE),
            quiet: self.quiet.map_or(QUIET, Duration::from_secs),
            seen: self.seen,
            offering: Offering { skills, owner: self.owner },
            environment: Environment::system(),
        })
    }

    /// Nothing is accepted that would do nothing.
    fn check_use(&self, at: &impl Fn(&str) -> String, faults: &mut Faults) {
        let server = self.connection.is_some() || self.direct.is_some();
        let needs_server = "is of use only with connection or direct";
        for (name, useless, what) in [
            (
                "connection_url",
                self.connection_url.is_some() && self.connection.is_none(),
                "is of use only with connection",
            ),
            ("peers", !self.peers.is_empty() && self.direct.is_none(), "is of use only with direct"),
            ("webhook_secret", self.webhook_secret.is_some() && !server, needs_server),
            ("allow_from", !self.allow_from.is_empty() && !server, needs_server),
            ("no_hub", self.no_hub && !server, needs_server),
            (
                "skills",
                !self.skills.is_empty() && (server || self.exec.is_empty()),
                "are served with exec, by the inbox or c2a",
            ),
            ("owner", self.owner.is_some() && self.skills.is_empty(), "is of use only with skills"),
            ("url", self.no_hub && self.url.is_some(), "must not be given together with no_hub"),
            ("channels", self.no_hub && !self.channels.is_empty(), "must not be given together with no_hub"),
            ("max_tokens", self.max_tokens.is_some() && self.openai.is_none(), "is of use only with openai"),
            (
                "openai_key_env",
                self.key_variable.is_some() && self.openai.is_none(),
                "is of use only with openai",
            ),
        ] {
            if useless {
                faults.add(&at(name), what);
            }
        }
    }

    fn driver(
        &self,
        system: Option<&str>,
        at: &impl Fn(&str) -> String,
        faults: &mut Faults,
    ) -> Option<Driver> {
        let limit = self.timeout.map(Duration::from_secs);
        if limit.is_some_and(|limit| limit.is_zero() || limit > Duration::from_hours(24)) {
            faults.add(&at("timeout"), "must be 1 to 86400 seconds");
        }
        match (self.exec.split_first(), &self.openai, &self.model) {
            (Some((program, args)), None, None) if !program.is_empty() => {
                let mut exec = Exec::new(program, args.to_vec());
                exec.limit = limit.unwrap_or(exec.limit);
                Some(Driver::Exec(exec))
            }
            (None, Some(url), Some(model)) if !model.is_empty() => {
                let variable = self.key_variable.as_deref().unwrap_or(KEY_VARIABLE);
                let key = std::env::var(variable).ok().filter(|key| !key.is_empty());
                if key.is_none() && self.key_variable.is_some() {
                    faults.add(&at("openai_key_env"), format_args!("the variable {variable} is not set"));
                }
                match OpenAi::new(url, model, key.as_deref()) {
                    Ok(mut openai) => {
                        openai.system = system.map(str::to_owned);
                        openai.max_tokens = self.max_tokens.unwrap_or(openai.max_tokens);
                        openai.turn_limit = limit.unwrap_or(openai.turn_limit);
                        Some(Driver::OpenAi(Box::new(openai)))
                    }
                    Err(error) => {
                        faults.add(&at("openai"), error);
                        None
                    }
                }
            }
            _ => {
                faults.add(&at("exec"), "either exec (a program), or openai and model, must be given");
                None
            }
        }
    }

    fn listen(&self, at: &impl Fn(&str) -> String, faults: &mut Faults) -> Listen {
        match (&self.connection, &self.direct) {
            (None, None) if self.c2a => Listen::C2a,
            (None, None) => Listen::Inbox,
            _ if self.c2a => {
                faults.add(&at("c2a"), "must not be given together with connection or direct");
                Listen::C2a
            }
            (Some(address), None) => {
                let (address, base) = (address.clone(), self.connection_url.clone());
                Listen::Connection { address, base, guard: self.guard(at, faults) }
            }
            (None, Some(address)) => {
                let mut peers = Peers::default();
                for (agent, url) in &self.peers {
                    if let Err(fault) = peers.add(agent, url) {
                        faults.add(&at("peers"), fault);
                    }
                }
                Listen::Direct { address: address.clone(), peers, guard: self.guard(at, faults) }
            }
            (Some(_), Some(_)) => {
                faults.add(&at("direct"), "must not be given together with connection");
                Listen::Inbox
            }
        }
    }

    fn guard(&self, at: &impl Fn(&str) -> String, faults: &mut Faults) -> Guard {
        let mut guard = Guard::default();
        let place = at("webhook_secret");
        let secret = self.webhook_secret.as_deref().and_then(|text| read_text(text, &place, faults));
        match secret.map(|secret| WebhookSecret::parse(secret.trim())).transpose() {
            Ok(secret) => guard.secret = secret,
            Err(fault) => faults.add(&place, fault),
        }
        guard.sources = networks(&self.allow_from, &at("allow_from"), faults);
        guard
    }
}

/// Networks, as far as they are some.
fn networks(texts: &[String], place: &str, faults: &mut Faults) -> Vec<Network> {
    let mut networks = vec![];
    for text in texts {
        match text.parse() {
            Ok(network) => networks.push(network),
            Err(fault) => faults.add(place, fault),
        }
    }
    networks
}

impl Plans {
    /// What the harness needs for all of them.
    pub(super) fn options(self, global: &Global, faults: &mut Faults) -> Vec<AgentOptions> {
        let several = self.0.len() > 1;
        match global.key() {
            Some(key) if key.starts_with("ca_") && several => {
                warn("the given key is not used: it is one agent's, and these are several");
            }
            Some(key) if !key.starts_with("ct_") && !key.starts_with("ca_") => {
                warn(
                    "the given key is not used: it is neither an agent's (ca_…) nor a person's token (ct_…)",
                );
            }
            _ => {}
        }
        let mut names = HashSet::new();
        let mut agents = Vec::new();
        for (place, plan) in self.0 {
            let (name, state) = (plan.name.clone().unwrap_or_default(), plan.state.clone());
            if !name.is_empty() && !names.insert((name, state)) {
                faults.add(
                    &format!("{place}.name"),
                    "another agent of this file has the same name and state folder",
                );
            }
            let options = plan.options(&place, global, faults);
            let key = global.key().filter(|key| key.starts_with("ca_") && !several).map(str::to_owned);
            agents.extend(options.map(|options| AgentOptions { key, ..options }));
        }
        agents
    }
}

/// A text, or what is in the file after @.
fn read_text(text: &str, place: &str, faults: &mut Faults) -> Option<String> {
    let Some(path) = text.strip_prefix('@') else { return Some(text.to_owned()) };
    match std::fs::read_to_string(Path::new(path)) {
        Ok(text) => Some(text),
        Err(error) => {
            faults.add(place, format_args!("cannot read {path}: {error}"));
            None
        }
    }
}

fn skill(text: &str) -> Result<Skill, String> {
    if let Some(path) = text.strip_prefix('@') {
        let text = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let read = chorus_protocol::schema::read_exact::<Skill>(&text);
        return read.map_err(|wrong| format!("{path} is no skill: {wrong}"));
    }
    let (name, price) = text.split_once('=').ok_or("must be NAME=PRICE, such as price=0.10, or @FILE")?;
    let cost_per_call = Credits::parse(price).map_err(|wrong| format!("the price {wrong}"))?;
    let skill_name = SkillName(name.to_owned());
    let (description, input_schema, output_schema, min_deadline_ms) = (None, None, None, None);
    Ok(Skill { skill_name, description, cost_per_call, input_schema, output_schema, min_deadline_ms })
}

/// What an agent offers: each `NAME=PRICE`, or a file with a skill as the market's document has it.
fn skills(texts: &[String], place: &str, faults: &mut Faults) -> Vec<Skill> {
    let mut skills = vec![];
    for text in texts {
        match skill(text) {
            Ok(skill) => skills.push(skill),
            Err(why) => faults.add(place, why),
        }
    }
    skills
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_do_nothing_is_told() {
        let faults = |plan: Plan| {
            let mut faults = Faults::new();
            plan.check_use(&|name| name.to_owned(), &mut faults);
            faults.to_string()
        };
        let server = || Plan { connection: Some("127.0.0.1:0".into()), no_hub: true, ..Plan::default() };
        assert_eq!(faults(server()), "");
        let secret = Some("whsec_x".into());
        assert_eq!(faults(Plan { webhook_secret: secret.clone(), connection_url: secret, ..server() }), "");
        assert_eq!(
            faults(Plan { peers: vec![("a".into(), "b".into())], url: Some("http://x".into()), ..server() }),
            "peers: is of use only with direct; url: must not be given together with no_hub"
        );
        let plan = Plan {
            connection_url: Some("https://x".into()),
            allow_from: vec!["192.0.2.7".into()],
            max_tokens: Some(1),
            ..Plan::default()
        };
        assert_eq!(
            faults(plan),
            "connection_url: is of use only with connection; allow_from: is of use only with connection or direct; \
             max_tokens: is of use only with openai"
        );
    }
}
