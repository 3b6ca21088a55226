//! What the hub can be told. Where the values come from (flags, environment, a file) is the binary's business.

use crate::mail::Mail;
use crate::proxies::TrustedProxies;
use crate::quotas::Quotas;
use crate::secrets::MasterKey;
use chorus_outbound::Policy;
use chorus_protocol::market::Credits;
use chorus_store::Durability;
use chorus_store::directory::KeyHash;
use std::time::Duration;
use uuid::Uuid;

/// Who may register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signup {
    /// Anybody.
    Open,
    /// Whoever was invited.
    Invite,
    /// Nobody; the operator makes accounts and registers agents.
    Closed,
}

/// The settings of a hub.
#[derive(Clone)]
pub struct Config {
    /// Which node this is, new at each start.
    pub node: Uuid,
    /// The host of addresses: `name@host_name`.
    pub host_name: String,
    /// Where people and agents reach this hub.
    pub public_url: String,
    /// Other names it answers to, besides those of the public address and of loopback.
    pub allowed_hosts: Vec<String>,
    /// Whether it answers to any name: others reach it, and nobody said by which.
    pub any_host: bool,
    /// The hash of the operator's key.
    pub operator_key: KeyHash,
    /// What the hub's secrets are derived from.
    pub master_key: MasterKey,
    /// Which addresses outbound requests may reach.
    pub outbound: Policy,
    /// Whether endpoints must echo a challenge before anything else is sent to them.
    pub endpoint_challenge: bool,
    /// Whether a Score may be made without an account, held by an edit link.
    pub anonymous_scores: bool,
    /// Requests a minute of one key; none for no limit.
    pub rate_limit: Option<u32>,
    /// Requests a minute of one address without a key; none for no limit.
    pub rate_limit_anonymous: Option<u32>,
    /// How much anybody may have or do.
    pub quotas: Quotas,
    /// Proxies whose word on where a request came from is believed.
    pub trusted_proxies: TrustedProxies,
    /// How long a webhook may take.
    pub webhook_timeout: Duration,
    /// How long a sign of life counts.
    pub presence: Duration,
    /// How long deliveries are kept once they are done, and envelopes with them; none for ever.
    pub retention: Option<Duration>,
    /// When success is reported; the store was opened with the same.
    pub durability: Durability,
    /// Who may register.
    pub signup: Signup,
    /// What every new owner of a wallet is given.
    pub market_grant: Credits,
    /// Where mail to people goes.
    pub mail: Mail,
    /// The most connections at a time.
    pub max_connections: usize,
    /// How long things may take.
    pub times: TimeLimits,
}

/// How long things may take.
#[derive(Debug, Clone)]
pub struct TimeLimits {
    /// From the start of a request to the end of its headers, and how long a connection may idle before.
    pub head: Duration,
    /// From the end of the headers to the end of the body.
    pub body: Duration,
    /// A peer that takes no byte for so long is cut.
    pub stall: Duration,
    /// Between two comments on a quiet stream.
    pub ping: Duration,
    /// How long a C2A harness may take to acknowledge a delivery before it comes again, at first.
    pub redelivery: Duration,
    /// How long a streamed reply may keep its sender waiting, before it begins and between its lines.
    pub reply: Duration,
    /// How long an endpoint that failed ten times in a row is left alone, at first.
    pub rest: Duration,
    /// How long open requests may take to end when the hub stops.
    pub drain: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            body: Duration::from_secs(30),
            stall: Duration::from_secs(10),
            ping: Duration::from_secs(15),
            redelivery: Duration::from_secs(30),
            reply: Duration::from_mins(2),
            rest: Duration::from_secs(30),
            drain: Duration::from_secs(20),
        }
    }
}

impl Config {
    /// The defaults, for a hub of this name whose operator holds this key.
    pub fn new(
        node: Uuid,
        host_name: impl Into<String>,
        operator_key: KeyHash,
        master_key: MasterKey,
    ) -> Self {
        let host_name = host_name.into();
        Self {
            node,
            public_url: format!("http://{host_name}"),
            host_name,
            allowed_hosts: vec![],
            any_host: false,
            operator_key,
            master_key,
            outbound: Policy::default(),
            endpoint_challenge: false,
            anonymous_scores: false,
            rate_limit: Some(6000),
            rate_limit_anonymous: Some(1200),
            quotas: Quotas::default(),
            trusted_proxies: TrustedProxies::default(),
            webhook_timeout: Duration::from_secs(30),
            presence: Duration::from_secs(90),
            retention: None,
            durability: Durability::Full,
            signup: Signup::Open,
            market_grant: Credits::ZERO,
            mail: Mail::Log,
            max_connections: 10_000,
            times: TimeLimits::default(),
        }
    }
}
