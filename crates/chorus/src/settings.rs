//! The settings of a hub: one table and four layers (flag, environment, file, default). All faults are
//! reported at once.
//!
//! A setting `CHORUS_RATE_LIMIT` in the environment is `rate_limit` in the file. `table` lists all of them, as
//! `chorus serve --help` and `docs/operating.md` show them.

mod table;
#[cfg(test)]
mod tests;

pub(crate) use table::help;

use chorus_agent::Network;
use chorus_hub::quotas::{OFF, Quota, Quotas};
use chorus_hub::{Mail, Policy, Signup, TrustedProxies, key_hash};
use chorus_protocol::faults::Faults;
use chorus_protocol::market::Credits;
use chorus_store::Durability;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use table::shown;
use url::Url;

/// The largest grant to a new owner, in hundredths of a credit, so that the total of many grants stays within
/// the limit.
const MAX_GRANT: i64 = 100_000_000;

/// The master key before the current one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormerKey {
    None,
    Given([u8; 32]),
    Lost,
}

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The settings, read and checked.
pub(crate) struct Settings {
    pub(crate) listen: String,
    pub(crate) data: PathBuf,
    pub(crate) database_url: Option<String>,
    pub(crate) public_url: Option<Url>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) host_name: Option<String>,
    pub(crate) operator_key: Option<[u8; 32]>,
    pub(crate) master_key: Option<[u8; 32]>,
    pub(crate) former_key: FormerKey,
    pub(crate) outbound: Policy,
    pub(crate) endpoint_challenge: bool,
    pub(crate) anonymous_scores: bool,
    pub(crate) rate_limit: Option<u32>,
    pub(crate) rate_limit_anonymous: Option<u32>,
    pub(crate) quotas: Quotas,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) webhook_timeout: Duration,
    pub(crate) presence: Duration,
    pub(crate) retention: Option<Duration>,
    pub(crate) durability: Durability,
    pub(crate) signup: Signup,
    pub(crate) market_grant: Credits,
    pub(crate) mail: Mail,
    pub(crate) max_connections: usize,
    pub(crate) log: tracing::Level,
    pub(crate) log_format: LogFormat,
}

/// Keys and passwords are never shown.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("listen", &self.listen)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for FormerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Given(_) => "Given(…)",
            Self::Lost => "Lost",
        })
    }
}

/// The values of one layer, by variable.
pub(crate) type Layer = BTreeMap<String, String>;

/// Reads the environment's layer. An empty variable counts as unset.
pub(crate) fn environment() -> Result<Layer, Faults> {
    ours(std::env::vars_os())
}

/// Selects the variables that begin with `CHORUS_`.
fn ours(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Layer, Faults> {
    let (mut layer, mut faults) = (Layer::new(), Faults::new());
    for (name, value) in variables.filter(|(_, value)| !value.is_empty()) {
        let Some(name) = name.to_str().filter(|name| name.starts_with("CHORUS_")) else { continue };
        match value.into_string() {
            Ok(value) => drop(layer.insert(name.to_owned(), value)),
            Err(_) => faults.add(name, "must be a text in UTF-8"),
        }
    }
    if faults.is_empty() { Ok(layer) } else { Err(faults) }
}

/// Returns the variables that look like settings but are none, because a misspelt one would have no effect.
/// `others` are the command line's own variables.
pub(crate) fn unknown<'a>(layer: &'a Layer, others: &HashSet<String>) -> Vec<&'a str> {
    let known = |name: &str| others.contains(name) || shown().any(|(known, ..)| known == name);
    layer.keys().map(String::as_str).filter(|name| !known(name)).collect()
}

/// Reads the layer of a settings file.
pub(crate) fn file(text: &str) -> Result<Layer, Faults> {
    let table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| Faults::one("file", error.message()))?;
    let (mut layer, mut faults) = (Layer::new(), Faults::new());
    for (name, value) in table {
        let variable = format!("CHORUS_{}", name.to_uppercase());
        if !shown().any(|(known, ..)| known == variable) {
            faults.add(&name, "there is no such setting; `chorus serve --help` lists them");
        } else if let Some(value) = plain(&value) {
            layer.insert(variable, value);
        } else {
            faults.add(&name, "must be a text, a number or a list of texts");
        }
    }
    if faults.is_empty() { Ok(layer) } else { Err(faults) }
}

fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Array(items) => {
            items.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>().map(|items| items.join(","))
        }
        _ => None,
    }
}

/// Reads values from the layers and collects their faults.
struct Reader<'a> {
    layers: &'a [Layer],
    faults: Faults,
}

impl Reader<'_> {
    fn text(&self, variable: &str) -> Option<String> {
        self.layers.iter().find_map(|layer| layer.get(variable)).cloned()
    }

    /// Returns a value, or its default if it is absent. A wrong value adds a fault.
    fn value<T>(
        &mut self,
        variable: &str,
        default: T,
        form: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> T {
        let Some(text) = self.text(variable) else { return default };
        parse(text.trim()).unwrap_or_else(|| {
            self.faults.add(variable, format_args!("must be {form}"));
            default
        })
    }

    /// Returns a value that may be absent.
    fn optional<T>(
        &mut self,
        variable: &str,
        form: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        self.value(variable, None, form, |text| parse(text).map(Some))
    }

    fn limit(&mut self, variable: &str, default: u32) -> Option<u32> {
        self.value(variable, Some(default), "a number of requests a minute, or off", |text| match text {
            "off" => Some(None),
            number => number.parse().ok().filter(|limit| *limit > 0).map(Some),
        })
    }

    /// Returns one of several words; the first is the default.
    fn choice<T: Copy>(&mut self, variable: &str, form: &str, words: &[(&str, T)]) -> T {
        self.value(variable, words[0].1, form, |text| {
            words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
        })
    }

    fn quota(&mut self, row: &Quota) -> u64 {
        self.value(row.variable, row.default, "a number from 1, or off", |text| match text {
            "off" => Some(OFF),
            number => number.parse().ok().filter(|number| *number > 0),
        })
    }

    /// Reports misspelt quotas, which would otherwise have no effect.
    fn check_quota_names(&mut self) {
        for name in self.layers.iter().flat_map(|layer| layer.keys()) {
            if name.starts_with("CHORUS_QUOTA_") && !shown().any(|(known, ..)| known == name) {
                self.faults.add(name, "there is no such setting; `chorus serve --help` lists them");
            }
        }
    }

    /// Reads a switch that is off by default.
    fn switch(&mut self, variable: &str) -> bool {
        self.choice(variable, "off or on", &[("off", false), ("on", true)])
    }

    fn log_level(&mut self) -> tracing::Level {
        self.choice(
            "CHORUS_LOG",
            "error, warn, info or debug",
            &[
                ("info", tracing::Level::INFO),
                ("error", tracing::Level::ERROR),
                ("warn", tracing::Level::WARN),
                ("debug", tracing::Level::DEBUG),
            ],
        )
    }

    fn millis(&mut self, variable: &str, default: u64) -> Duration {
        self.value(variable, Duration::from_millis(default), "a number of milliseconds from 1", |text| {
            text.parse().ok().filter(|ms| *ms > 0).map(Duration::from_millis)
        })
    }
}

impl Settings {
    /// Reads the settings from the layers. The first layer takes precedence.
    pub(crate) fn load(layers: &[Layer]) -> Result<Self, Faults> {
        let mut reader = Reader { layers, faults: Faults::new() };
        let read = &mut reader;
        read.check_quota_names();
        let rate_limit = read.limit("CHORUS_RATE_LIMIT", 6000);
        let settings = Self {
            listen: read.text("CHORUS_LISTEN").unwrap_or_else(|| "127.0.0.1:8787".into()),
            data: read.text("CHORUS_DATA").map_or_else(|| "./chorus-data".into(), PathBuf::from),
            database_url: read.optional("CHORUS_DATABASE_URL", "a postgres:// URL", database_url),
            public_url: read.optional(
                "CHORUS_PUBLIC_URL",
                "an http or https URL of a host, without user, query or fragment",
                public_url,
            ),
            allowed_hosts: read.value(
                "CHORUS_ALLOWED_HOSTS",
                vec![],
                "names such as hub,hub.internal",
                hosts,
            ),
            host_name: read.optional("CHORUS_HOST_NAME", "a host name such as hub.example", host_name),
            operator_key: read.value("CHORUS_OPERATOR_KEY", None, "co_ and at least 16 characters", |text| {
                text.strip_prefix("co_").filter(|rest| rest.len() >= 16).map(|_| Some(key_hash(text)))
            }),
            master_key: read.optional("CHORUS_MASTER_KEY", "64 hex digits", master_key),
            former_key: read.value(
                "CHORUS_MASTER_KEY_PREVIOUS",
                FormerKey::None,
                "64 hex digits, or lost",
                former_key,
            ),
            outbound: read.value(
                "CHORUS_ALLOW_PRIVATE_ENDPOINTS",
                Policy::default(),
                "addresses or networks such as 127.0.0.1,10.0.0.0/8",
                outbound,
            ),
            endpoint_challenge: read.switch("CHORUS_ENDPOINT_CHALLENGE"),
            anonymous_scores: read.switch("CHORUS_ANONYMOUS_SCORES"),
            rate_limit,
            // `off` disables both limits.
            rate_limit_anonymous: read
                .limit("CHORUS_RATE_LIMIT_ANONYMOUS", 1200)
                .filter(|_| rate_limit.is_some()),
            quotas: Quotas::read(|row| read.quota(row)),
            trusted_proxies: read.value(
                "CHORUS_TRUSTED_PROXIES",
                TrustedProxies::default(),
                TrustedProxies::FORM,
                TrustedProxies::parse,
            ),
            webhook_timeout: read.millis("CHORUS_WEBHOOK_TIMEOUT_MS", 30_000),
            presence: read.millis("CHORUS_PRESENCE_MS", 90_000),
            retention: read.optional("CHORUS_RETENTION_DAYS", "a number of days from 1", days),
            durability: read.choice(
                "CHORUS_DURABILITY",
                "full or relaxed",
                &[("full", Durability::Full), ("relaxed", Durability::Relaxed)],
            ),
            signup: read.choice(
                "CHORUS_SIGNUP",
                "open, invite or closed",
                &[("open", Signup::Open), ("invite", Signup::Invite), ("closed", Signup::Closed)],
            ),
            market_grant: read.value(
                "CHORUS_MARKET_GRANT",
                Credits::ZERO,
                "an amount of credits from 0 to 1000000, with at most two decimals",
                |text| Credits::parse(text).ok().filter(|grant| grant.hundredths() <= MAX_GRANT),
            ),
            mail: read.value("CHORUS_MAIL", Mail::Log, Mail::FORM, Mail::parse),
            max_connections: read.value(
                "CHORUS_MAX_CONNECTIONS",
                10_000,
                "a number from 1 to 1000000",
                |text| text.parse().ok().filter(|number| (1..=1_000_000).contains(number)),
            ),
            log: read.log_level(),
            log_format: read.choice(
                "CHORUS_LOG_FORMAT",
                "text or json",
                &[("text", LogFormat::Text), ("json", LogFormat::Json)],
            ),
        };
        if reader.faults.is_empty() { Ok(settings) } else { Err(reader.faults) }
    }
}

fn database_url(text: &str) -> Option<String> {
    let schemes = ["postgres://", "postgresql://"];
    schemes.iter().any(|scheme| text.starts_with(scheme)).then(|| text.into())
}

fn public_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    let bare = bare && url.fragment().is_none();
    (matches!(url.scheme(), "http" | "https") && url.has_host() && bare).then_some(url)
}

fn host_name(text: &str) -> Option<String> {
    chorus_protocol::address::Address::parse(&format!("a@{text}")).is_ok().then(|| text.into())
}

fn days(text: &str) -> Option<Duration> {
    let days = text.parse::<u32>().ok().filter(|days| *days > 0)?;
    Some(Duration::from_hours(u64::from(days) * 24))
}

/// Reads names of this hub, without ports.
fn hosts(text: &str) -> Option<Vec<String>> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let plain = |name: &str| url::Host::parse(name).ok().map(|host| host.to_string());
    names.map(plain).collect()
}

/// Reads private networks that may be called.
fn outbound(text: &str) -> Option<Policy> {
    Some(Policy { allow: Network::list(text).ok()? })
}

/// Reads a master key: 64 hex digits.
pub(crate) fn master_key(text: &str) -> Option<[u8; 32]> {
    let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok()?;
    bytes.try_into().ok()
}

/// Reads the previous master key.
fn former_key(text: &str) -> Option<FormerKey> {
    if text == "lost" { Some(FormerKey::Lost) } else { master_key(text).map(FormerKey::Given) }
}
