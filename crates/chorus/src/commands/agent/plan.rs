//! What is wanted of agents: the same for flags and for a file, every fault told at once with its place.

use super::{Args, warn};
use crate::global::Global;
use chorus_agent::harness::{AgentOptions, Driver, Exec, Listen, OpenAi};
use chorus_hub::Sources;
use chorus_protocol::address::Address;
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::{CARD_VERSION, check_card};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Table, Value};

const DEFAULT_STATE: &str = "./chorus-agent";

/// Where a model's key is, unless somebody says otherwise.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// The most agents of one file.
const MAX_AGENTS: usize = 100;

/// What a file may say of an agent.
const MEMBERS: [&str; 16] = [
    "name",
    "channels",
    "exec",
    "openai",
    "model",
    "openai_key_env",
    "max_tokens",
    "state",
    "culture",
    "system",
    "timeout",
    "connection",
    "connection_url",
    "direct",
    "peers",
    "url",
];

/// One agent, as it was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    name: Option<String>,
    url: Option<String>,
    channels: Vec<String>,
    exec: Vec<String>,
    openai: Option<String>,
    model: Option<String>,
    key_variable: Option<String>,
    max_tokens: Option<u32>,
    state: Option<PathBuf>,
    culture: Option<String>,
    system: Option<String>,
    timeout: Option<u64>,
    connection: Option<String>,
    connection_url: Option<String>,
    direct: Option<String>,
    peers: BTreeMap<String, String>,
}

/// Several, each with its place in the file.
pub(super) struct Plans(pub(super) Vec<(String, Plan)>);

impl Plan {
    /// From flags.
    pub(super) fn of(args: Args, faults: &mut Faults) -> Self {
        let mut peers = BTreeMap::new();
        for peer in &args.peers {
            match peer.split_once('=') {
                Some((agent, url)) => drop(peers.insert(agent.to_owned(), url.to_owned())),
                None => faults.add("peer", "must be AGENT=URL"),
            }
        }
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
            connection: args.connection,
            connection_url: args.connection_url,
            direct: args.direct,
            peers,
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
        let system = self.system.as_deref().and_then(|text| read_system(text, &at("system"), faults));
        let driver = self.driver(system.as_deref(), &at, faults);
        let listen = self.listen(&at, faults);
        Some(AgentOptions {
            name,
            url: self.url.clone().unwrap_or_else(|| global.url().to_owned()),
            // An agent that a person starts belongs to that person.
            token: global.key().filter(|key| key.starts_with("ct_")).map(str::to_owned),
            state: self.state.clone().unwrap_or_else(|| DEFAULT_STATE.into()),
            culture,
            system,
            channels: self.channels,
            listen,
            driver: driver?,
            clock: || Sources::system().now(),
        })
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
            (None, None) => Listen::Inbox,
            (Some(address), None) => {
                Listen::Connection { address: address.clone(), base: self.connection_url.clone() }
            }
            (None, Some(address)) => Listen::Direct { address: address.clone(), peers: self.peers.clone() },
            (Some(_), Some(_)) => {
                faults.add(&at("direct"), "must not be given together with connection");
                Listen::Inbox
            }
        }
    }
}

impl Plans {
    /// What the harness needs for all of them.
    pub(super) fn options(self, global: &Global, faults: &mut Faults) -> Vec<AgentOptions> {
        if global.key().is_some_and(|key| !key.starts_with("ct_")) {
            warn("the given key is not used: an agent has its own in the state folder");
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
            agents.extend(plan.options(&place, global, faults));
        }
        agents
    }
}

/// The agents of a file. `state` is where they keep theirs, unless they say otherwise.
pub(super) fn read(text: &str, faults: &mut Faults, state: Option<PathBuf>) -> Plans {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            add_syntax(text, &error, faults);
            return Plans(vec![]);
        }
    };
    for name in table.keys().filter(|name| *name != "agent") {
        faults.add(name, "there is no such member; a file holds [[agent]] only");
    }
    let agents = match table.get("agent") {
        Some(Value::Array(agents)) if (1..=MAX_AGENTS).contains(&agents.len()) => agents.as_slice(),
        _ => {
            faults.add("agent", format_args!("must be 1 to {MAX_AGENTS} tables, each begun by [[agent]]"));
            &[]
        }
    };
    let mut plans = Vec::new();
    for (n, agent) in agents.iter().enumerate() {
        let place = format!("agent[{n}]");
        match agent {
            Value::Table(agent) => {
                let mut plan = read_agent(agent, &place, faults);
                plan.state = plan.state.or_else(|| state.clone());
                plans.push((place, plan));
            }
            _ => faults.add(&place, "must be a table, begun by [[agent]]"),
        }
    }
    Plans(plans)
}

/// What is no TOML, with its line.
fn add_syntax(text: &str, error: &toml::de::Error, faults: &mut Faults) {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let place = line.map_or_else(|| "file".to_owned(), |line| format!("line {line}"));
    faults.add(&place, error.message());
}

fn read_agent(agent: &Table, place: &str, faults: &mut Faults) -> Plan {
    for name in agent.keys().filter(|name| !MEMBERS.contains(&name.as_str())) {
        faults.add(&format!("{place}.{name}"), "there is no such member");
    }
    let mut member = Members { agent, place, faults };
    Plan {
        name: member.text("name"),
        url: member.text("url"),
        channels: member.texts("channels"),
        exec: member.texts("exec"),
        openai: member.text("openai"),
        model: member.text("model"),
        key_variable: member.text("openai_key_env"),
        max_tokens: member.number("max_tokens").and_then(|number| u32::try_from(number).ok()),
        state: member.text("state").map(PathBuf::from),
        culture: member.text("culture"),
        system: member.text("system"),
        timeout: member.number("timeout"),
        connection: member.text("connection"),
        connection_url: member.text("connection_url"),
        direct: member.text("direct"),
        peers: member.peers(),
    }
}

/// Reads the members of one agent.
struct Members<'a> {
    agent: &'a Table,
    place: &'a str,
    faults: &'a mut Faults,
}

impl Members<'_> {
    fn fault(&mut self, name: &str, what: &str) {
        self.faults.add(&format!("{}.{name}", self.place), what);
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let text = self.agent.get(name)?.as_str().map(str::to_owned);
        if text.is_none() {
            self.fault(name, "must be a text");
        }
        text
    }

    fn texts(&mut self, name: &str) -> Vec<String> {
        let Some(value) = self.agent.get(name) else { return vec![] };
        let texts = value.as_array().and_then(|items| {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        texts.filter(|texts| !texts.is_empty()).unwrap_or_else(|| {
            self.fault(name, "must be a list of texts");
            vec![]
        })
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        let number = self.agent.get(name)?.as_integer();
        let number = number.filter(|number| (1..=1_000_000).contains(number));
        if number.is_none() {
            self.fault(name, "must be a number from 1 to 1000000");
        }
        number.map(i64::cast_unsigned)
    }

    fn peers(&mut self) -> BTreeMap<String, String> {
        let Some(value) = self.agent.get("peers") else { return BTreeMap::new() };
        let peers = value.as_table().and_then(|peers| {
            let texts = peers.iter().map(|(agent, url)| Some((agent.clone(), url.as_str()?.to_owned())));
            texts.collect::<Option<BTreeMap<_, _>>>()
        });
        peers.unwrap_or_else(|| {
            self.fault("peers", "must be a table of addresses and URLs");
            BTreeMap::new()
        })
    }
}

/// A text, or what is in the file after @.
fn read_system(text: &str, place: &str, faults: &mut Faults) -> Option<String> {
    let Some(path) = text.strip_prefix('@') else { return Some(text.to_owned()) };
    match std::fs::read_to_string(Path::new(path)) {
        Ok(text) => Some(text),
        Err(error) => {
            faults.add(place, format_args!("cannot read {path}: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> String {
        let mut faults = Faults::new();
        read(text, &mut faults, None);
        faults.to_string()
    }

    #[test]
    fn a_file_of_two_agents() {
        let text = "[[agent]]\nname = 'echo'\nexec = ['./echo.sh', '-v']\nchannels = ['ch_1']\ntimeout = 5\n\n\
                    [[agent]]\nname = 'ada'\nopenai = 'http://x/v1'\nmodel = 'm'\nculture = 'de'\nstate = 'there'\n";
        let mut faults = Faults::new();
        let Plans(plans) = read(text, &mut faults, Some("here".into()));
        assert!(faults.is_empty(), "{faults}");
        let expected = Plan {
            name: Some("echo".into()),
            exec: vec!["./echo.sh".into(), "-v".into()],
            channels: vec!["ch_1".into()],
            timeout: Some(5),
            state: Some("here".into()),
            ..Plan::default()
        };
        assert_eq!(plans[0], ("agent[0]".to_owned(), expected));
        assert_eq!(plans[1].1.state.as_deref(), Some(Path::new("there")));
        assert_eq!(plans[1].1.model.as_deref(), Some("m"));
    }

    #[test]
    fn every_fault_with_its_place() {
        assert_eq!(
            faults(
                "x = 1\n[[agent]]\nname = 1\nexec = 'a'\nmax_tokens = 0\npeers = { a = 1 }\nmodle = 'm'\n"
            ),
            "x: there is no such member; a file holds [[agent]] only; agent[0].modle: there is no such member; \
             agent[0].name: must be a text; agent[0].exec: must be a list of texts; \
             agent[0].max_tokens: must be a number from 1 to 1000000; \
             agent[0].peers: must be a table of addresses and URLs"
        );
        assert!(faults("agent = [1]").contains("agent[0]: must be a table"));
        assert!(faults("").contains("agent: must be 1 to 100 tables"));
        assert!(
            faults("[[agent]]\nname = 'a\n").starts_with("line 2: "),
            "{}",
            faults("[[agent]]\nname = 'a\n")
        );
    }
}
