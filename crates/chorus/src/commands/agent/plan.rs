//! The requested agents, from flags or from a file. All faults are reported at once, with their places.

use super::{Args, warn};
use crate::global::Global;
use chorus_agent::harness::{
    AT_ONCE, Acp, AgentOptions, Driver, Exec, Guard, Listen, Offering, OpenAi, PRESETS, Peers, Preset, QUIET,
    split_command,
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

/// The ranges for parallel conversations and for the pause in seconds, for flags and files alike.
pub(super) const AT_ONCE_RANGE: RangeInclusive<u64> = 1..=64;
pub(super) const QUIET_RANGE: RangeInclusive<u64> = 0..=30;

const DEFAULT_STATE: &str = "./chorus-agent";

/// The default environment variable with a model's key.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// The default environment variable with the webhook secret.
const SECRET_VARIABLE: &str = "CHORUS_WEBHOOK_SECRET";

/// One requested agent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) name: Option<String>,
    pub(super) url: Option<String>,
    pub(super) channels: Vec<String>,
    pub(super) exec: Vec<String>,
    /// The name of a known coding agent.
    pub(super) preset: Option<String>,
    /// The command of a program that speaks ACP.
    pub(super) acp: Option<String>,
    /// More arguments of the coding agent.
    pub(super) rest: Vec<String>,
    pub(super) folder: Option<PathBuf>,
    pub(super) mode: Option<String>,
    pub(super) mcp: bool,
    pub(super) permission_timeout: Option<u64>,
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
    /// The secret by which requests must be signed, or its file after @.
    pub(super) webhook_secret: Option<String>,
    pub(super) allow_from: Vec<String>,
    pub(super) allow_private: Vec<String>,
    pub(super) foreign_mcp: bool,
    pub(super) at_once: Option<u64>,
    pub(super) quiet: Option<u64>,
    pub(super) seen: bool,
    /// Each as NAME=PRICE, or a file after @.
    pub(super) skills: Vec<String>,
    pub(super) owner: Option<String>,
}

/// Several agents, each with its place in the file.
pub(super) struct Plans(pub(super) Vec<(String, Plan)>);

impl Plan {
    /// Creates a plan from flags.
    pub(super) fn of(args: Args, faults: &mut Faults) -> Self {
        let mut peers = vec![];
        for peer in &args.peers {
            match peer.split_once('=') {
                Some((agent, url)) => peers.push((agent.to_owned(), url.to_owned())),
                None => faults.add("peer", "must be AGENT=URL"),
            }
        }
        // The secret is used only by an agent with its own server. Other agents of the same shell may have
        // one.
        let variable = (args.connection.is_some() || args.direct.is_some())
            .then(|| std::env::var(SECRET_VARIABLE).ok().filter(|secret| !secret.is_empty()));
        Self {
            name: args.name,
            url: None,
            channels: args.channels,
            rest: if args.exec.is_empty() { args.rest.clone() } else { vec![] },
            exec: if args.exec.is_empty() { vec![] } else { [args.exec, args.rest].concat() },
            preset: args.agent,
            acp: args.acp,
            folder: args.folder,
            mode: args.mode,
            mcp: args.mcp,
            permission_timeout: args.permission_timeout,
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

    /// Converts the plan to the harness's options. The result is valid only if there are no faults.
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
            // An agent started with a person's token belongs to that person.
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

    /// Refuses options that would have no effect.
    fn check_use(&self, at: &impl Fn(&str) -> String, faults: &mut Faults) {
        let server = self.connection.is_some() || self.direct.is_some();
        let needs_server = "is of use only with connection or direct";
        let is_acp = self.acp.is_some() || self.preset.is_some();
        let needs_acp = "is of use only with agent or acp";
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
            ("folder", self.folder.is_some() && !is_acp, needs_acp),
            ("mode", self.mode.is_some() && !is_acp, needs_acp),
            ("mcp", self.mcp && !is_acp, needs_acp),
            ("permission_timeout", self.permission_timeout.is_some() && !is_acp, needs_acp),
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
        if self.acp.is_some() || self.preset.is_some() {
            return self.acp_driver(limit, at, faults).map(|acp| Driver::Acp(Box::new(acp)));
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
                faults.add(
                    &at("exec"),
                    "one of exec (a program), agent (a coding agent), acp, or openai and model must be given",
                );
                None
            }
        }
    }

    /// Reads the settings of a coding agent.
    fn acp_driver(
        &self,
        limit: Option<Duration>,
        at: &impl Fn(&str) -> String,
        faults: &mut Faults,
    ) -> Option<Acp> {
        if !self.exec.is_empty() || self.openai.is_some() || (self.acp.is_some() && self.preset.is_some()) {
            faults.add(&at("acp"), "only one of exec, agent, acp and openai may be given");
            return None;
        }
        let folder = self.folder.clone().unwrap_or_else(|| ".".into());
        let folder = match folder.canonicalize() {
            Ok(folder) if folder.is_dir() => folder,
            _ => {
                faults.add(&at("folder"), format_args!("there is no folder {}", folder.display()));
                return None;
            }
        };
        let rest = self.rest.clone();
        let mut acp = if let Some(name) = &self.preset {
            let Some(preset) = Preset::named(name) else {
                let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
                faults.add(&at("agent"), format_args!("must be one of {}", names.join(", ")));
                return None;
            };
            Acp::preset(preset, rest, folder)
        } else {
            let words = self.acp.as_deref().and_then(split_command);
            let Some((program, args)) = words.as_deref().and_then(<[String]>::split_first) else {
                faults.add(&at("acp"), "must be a command, such as 'gemini --acp'");
                return None;
            };
            Acp::new(program, [args, rest.as_slice()].concat(), folder)
        };
        let permission = self.permission_timeout.map(Duration::from_secs);
        if permission.is_some_and(|limit| limit.is_zero() || limit > Duration::from_hours(24)) {
            faults.add(&at("permission_timeout"), "must be 1 to 86400 seconds");
        }
        acp.limit = limit.unwrap_or(acp.limit);
        acp.permission_limit = permission.unwrap_or(acp.permission_limit);
        (acp.mode, acp.mcp) = (self.mode.clone(), self.mcp);
        Some(acp)
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

/// Parses networks and reports the faults of the others.
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
    /// Converts all plans to the harness's options.
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

/// Returns a text, or the content of the file after @.
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

/// Parses the offered skills: each `NAME=PRICE`, or a file with a skill in the market's format.
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
    fn coding_agents() {
        let driver = |plan: Plan| {
            let mut faults = Faults::new();
            let driver = plan.driver(None, &|name| name.to_owned(), &mut faults);
            match driver {
                Some(Driver::Acp(acp)) => format!("{} {}", acp.program.display(), acp.args.join("|")),
                _ => faults.to_string(),
            }
        };
        let preset = |name: &str| Plan { preset: Some(name.into()), ..Plan::default() };
        let rest = vec!["-v".into()];
        assert_eq!(driver(Plan { rest: rest.clone(), ..preset("gemini") }), "gemini --acp|-v");
        let acp = Plan { acp: Some("sh -c 'a b'".into()), rest, ..Plan::default() };
        assert_eq!(driver(acp), "sh -c|a b|-v");
        let names = "claude, codex, gemini, opencode, copilot, goose, qwen, kimi, cline";
        assert_eq!(driver(preset("nobody")), format!("agent: must be one of {names}"));
        let both = Plan { acp: Some("a".into()), ..preset("gemini") };
        assert_eq!(driver(both), "acp: only one of exec, agent, acp and openai may be given");
        let nowhere = Plan { folder: Some("/no/such".into()), ..preset("gemini") };
        assert_eq!(driver(nowhere), "folder: there is no folder /no/such");
        let open = Plan { acp: Some("a 'b".into()), ..Plan::default() };
        assert_eq!(driver(open), "acp: must be a command, such as 'gemini --acp'");
    }

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
