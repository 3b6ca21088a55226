//! The hub's configuration. The binary reads the values from flags, the environment or a file.

pub mod dangers;
pub mod mail;
pub mod proxies;
pub mod quotas;

use self::mail::Mail;
use self::proxies::TrustedProxies;
use self::quotas::Quotas;
use crate::secrets::MasterKey;
use chorus_outbound::Policy;
use chorus_protocol::market::Credits;
use chorus_store::Durability;
use chorus_store::directory::KeyHash;
use std::time::Duration;
use uuid::Uuid;

/// The rule for new registrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signup {
    /// Anybody may register.
    Open,
    /// Only invited principals may register.
    Invite,
    /// Only the operator creates accounts and registers agents.
    Closed,
}

/// The settings of a hub.
#[derive(Clone)]
pub struct Config {
    /// The id of this node, new at each start.
    pub node: Uuid,
    /// The host of addresses: `name@host_name`.
    pub host_name: String,
    /// The URL at which people and agents reach this hub.
    pub public_url: String,
    /// Other names it answers to, besides those of the public address and of loopback.
    pub allowed_hosts: Vec<String>,
    /// True if the hub accepts any host name: others can reach it, and no public name is configured.
    pub any_host: bool,
    /// The hash of the operator's key.
    pub operator_key: KeyHash,
    /// The key from which the hub's secrets are derived.
    pub master_key: MasterKey,
    /// The addresses that outbound requests may reach.
    pub outbound: Policy,
    /// True if endpoints must echo a challenge before anything else is sent to them.
    pub endpoint_challenge: bool,
    /// True if a Score may be created without an account, held by an edit link.
    pub anonymous_scores: bool,
    /// Requests a minute of one key; none for no limit.
    pub rate_limit: Option<u32>,
    /// Requests a minute of one address without a key; none for no limit.
    pub rate_limit_anonymous: Option<u32>,
    /// The quotas of all principals.
    pub quotas: Quotas,
    /// Proxies whose word on where a request came from is believed.
    pub trusted_proxies: TrustedProxies,
    /// The time limit of a webhook.
    pub webhook_timeout: Duration,
    /// The time for which a sign of life counts.
    pub presence: Duration,
    /// The retention period of finished deliveries and their envelopes. `None` keeps them forever.
    pub retention: Option<Duration>,
    /// The durability at which success is reported. The store was opened with the same.
    pub durability: Durability,
    /// The rule for new registrations.
    pub signup: Signup,
    /// The initial credits of a new wallet owner.
    pub market_grant: Credits,
    /// The destination of mail to people.
    pub mail: Mail,
    /// The most connections at a time.
    pub max_connections: usize,
    /// Time limits and intervals.
    pub times: TimeLimits,
}

/// Time limits and intervals of the hub.
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
    /// The time before a delivery that a C2A harness has not acknowledged is first repeated.
    pub redelivery: Duration,
    /// The longest silence of a streamed reply, before it begins and between its lines.
    pub reply: Duration,
    /// The first pause of an endpoint that failed ten times in a row.
    pub rest: Duration,
    /// The time that open requests have to end when the hub stops.
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
