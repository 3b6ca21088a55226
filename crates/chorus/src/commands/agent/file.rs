//! A file of agents in TOML. All faults are reported at once, with their places.

use super::plan::{AT_ONCE_RANGE, Plan, Plans, QUIET_RANGE};
use chorus_protocol::faults::Faults;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use toml::{Table, Value};

/// The range of numbers without a range of their own.
const ANY_NUMBER: RangeInclusive<u64> = 1..=1_000_000;

/// The limit of agents in one file.
const MAX_AGENTS: usize = 100;

/// The members of an agent's table.
const MEMBERS: [&str; 35] = [
    "name",
    "channels",
    "exec",
    "agent",
    "acp",
    "folder",
    "mode",
    "mcp",
    "permission_timeout",
    "openai",
    "model",
    "openai_key_env",
    "max_tokens",
    "state",
    "culture",
    "system",
    "timeout",
    "c2a",
    "connection",
    "connection_url",
    "direct",
    "peers",
    "url",
    "no_hub",
    "invitation",
    "webhook_secret",
    "allow_from",
    "allow_private",
    "foreign_mcp",
    "parallel",
    "at_once",
    "quiet",
    "seen",
    "skills",
    "owner",
];

/// Reads the agents of a file. `others` gives the values that apply to agents that do not set them, such as
/// the state folder, the invitation and the outbound policy.
pub(super) fn read(text: &str, faults: &mut Faults, others: &Plan) -> Plans {
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
                plan.state = plan.state.or_else(|| others.state.clone());
                plan.allow_private.extend_from_slice(&others.allow_private);
                plan.foreign_mcp |= others.foreign_mcp;
                plan.at_once = plan.at_once.or(others.at_once);
                plan.quiet = plan.quiet.or(others.quiet);
                plan.seen |= others.seen;
                plan.invitation = plan.invitation.or_else(|| others.invitation.clone());
                plans.push((place, plan));
            }
            _ => faults.add(&place, "must be a table, begun by [[agent]]"),
        }
    }
    Plans(plans)
}

/// Reports a TOML syntax error with its line.
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
        preset: member.text("agent"),
        acp: member.text("acp"),
        rest: vec![],
        folder: member.text("folder").map(PathBuf::from),
        mode: member.text("mode"),
        mcp: member.flag("mcp"),
        permission_timeout: member.number("permission_timeout", ANY_NUMBER),
        openai: member.text("openai"),
        model: member.text("model"),
        key_variable: member.text("openai_key_env"),
        max_tokens: member.number("max_tokens", ANY_NUMBER).and_then(|number| u32::try_from(number).ok()),
        state: member.text("state").map(PathBuf::from),
        culture: member.text("culture"),
        system: member.text("system"),
        timeout: member.number("timeout", ANY_NUMBER),
        c2a: member.flag("c2a"),
        connection: member.text("connection"),
        connection_url: member.text("connection_url"),
        direct: member.text("direct"),
        peers: member.peers(),
        no_hub: member.flag("no_hub"),
        invitation: member.text("invitation"),
        webhook_secret: member.text("webhook_secret"),
        allow_from: member.texts("allow_from"),
        allow_private: member.texts("allow_private"),
        foreign_mcp: member.flag("foreign_mcp"),
        // The name of earlier versions is read too.
        at_once: member.number("parallel", AT_ONCE_RANGE).or(member.number("at_once", AT_ONCE_RANGE)),
        quiet: member.number("quiet", QUIET_RANGE),
        seen: member.flag("seen"),
        skills: member.texts("skills"),
        owner: member.text("owner"),
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

    fn number(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let number = self.agent.get(name)?.as_integer().and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.fault(name, &format!("must be a number from {} to {}", range.start(), range.end()));
        }
        number
    }

    fn flag(&mut self, name: &str) -> bool {
        let flag = self.agent.get(name).map_or(Some(false), Value::as_bool);
        flag.unwrap_or_else(|| {
            self.fault(name, "must be true or false");
            false
        })
    }

    fn peers(&mut self) -> Vec<(String, String)> {
        let Some(value) = self.agent.get("peers") else { return vec![] };
        let peers = value.as_table().and_then(|peers| {
            let texts = peers.iter().map(|(agent, url)| Some((agent.clone(), url.as_str()?.to_owned())));
            texts.collect::<Option<Vec<_>>>()
        });
        peers.unwrap_or_else(|| {
            self.fault("peers", "must be a table of addresses and URLs");
            vec![]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn faults(text: &str) -> String {
        let mut faults = Faults::new();
        read(text, &mut faults, &Plan::default());
        faults.to_string()
    }

    #[test]
    fn numbers_have_the_range_of_their_flags() {
        let told = |line: &str| faults(&format!("[[agent]]\nname = 'a'\nexec = ['./a']\n{line}\n"));
        assert_eq!(told("quiet = 0\nparallel = 64\ntimeout = 1000000\nseen = true"), "");
        assert_eq!(
            told("quiet = 31\nparallel = 0\ntimeout = 0"),
            "agent[0].timeout: must be a number from 1 to 1000000; agent[0].parallel: must be a number from 1 to 64; \
             agent[0].quiet: must be a number from 0 to 30"
        );
    }

    #[test]
    fn a_file_of_two_agents() {
        let text = "[[agent]]\nname = 'echo'\nexec = ['./echo.sh', '-v']\nchannels = ['ch_1']\ntimeout = 5\n\n\
                    [[agent]]\nname = 'ada'\nopenai = 'http://x/v1'\nmodel = 'm'\nculture = 'de'\nstate = 'there'\n";
        let mut faults = Faults::new();
        let others = Plan { state: Some("here".into()), invitation: Some("ci_1".into()), ..Plan::default() };
        let Plans(plans) = read(text, &mut faults, &others);
        assert!(faults.is_empty(), "{faults}");
        let expected = Plan {
            name: Some("echo".into()),
            exec: vec!["./echo.sh".into(), "-v".into()],
            channels: vec!["ch_1".into()],
            timeout: Some(5),
            state: Some("here".into()),
            invitation: Some("ci_1".into()),
            ..Plan::default()
        };
        assert_eq!(plans[0], ("agent[0]".to_owned(), expected));
        assert_eq!(plans[1].1.state.as_deref(), Some(Path::new("there")));
        assert_eq!(plans[1].1.model.as_deref(), Some("m"));
    }

    #[test]
    fn a_file_of_coding_agents() {
        let text = "[[agent]]\nname = 'a'\nagent = 'claude'\nfolder = 'x'\nmode = 'm'\nmcp = true\npermission_timeout = 9\n\n\
                    [[agent]]\nname = 'b'\nacp = 'b --acp'\n";
        let mut faults = Faults::new();
        let Plans(plans) = read(text, &mut faults, &Plan::default());
        assert!(faults.is_empty(), "{faults}");
        let expected = Plan {
            name: Some("a".into()),
            preset: Some("claude".into()),
            folder: Some("x".into()),
            mode: Some("m".into()),
            mcp: true,
            permission_timeout: Some(9),
            ..Plan::default()
        };
        assert_eq!(plans[0].1, expected);
        assert_eq!(plans[1].1.acp.as_deref(), Some("b --acp"));
    }

    #[test]
    fn every_fault_with_its_place() {
        assert_eq!(
            faults(
                "x = 1\n[[agent]]\nname = 1\nexec = 'a'\nmax_tokens = 0\npeers = { a = 1 }\nno_hub = 1\nmodle = 'm'\n"
            ),
            "x: there is no such member; a file holds [[agent]] only; agent[0].modle: there is no such member; \
             agent[0].name: must be a text; agent[0].exec: must be a list of texts; \
             agent[0].max_tokens: must be a number from 1 to 1000000; \
             agent[0].peers: must be a table of addresses and URLs; agent[0].no_hub: must be true or false"
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
