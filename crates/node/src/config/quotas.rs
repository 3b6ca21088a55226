//! Quotas of a public hub: one table, each row a setting.
//!
//! The table defines the limits. Each is enforced by the act that it limits.

/// A limit that nobody reaches.
pub const OFF: u64 = u64::MAX;

/// One limit: its setting, its default, its meaning.
pub struct Quota {
    /// The name of the setting: `CHORUS_QUOTA_…`.
    pub variable: &'static str,
    /// The limit unless said otherwise.
    pub default: u64,
    /// A description of the counted thing.
    pub meaning: &'static str,
}

macro_rules! quotas {
    ($($field:ident, $variable:ident, $default:expr, $meaning:literal;)*) => {
        /// The limits of a hub; [`OFF`] for none.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Quotas {
            $(#[doc = $meaning] pub $field: u64,)*
        }

        impl Default for Quotas {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Quotas {
            /// All limits there are.
            pub const TABLE: &[Quota] = &[
                $(Quota { variable: stringify!($variable), default: $default, meaning: $meaning },)*
            ];

            /// The limits, in the order of the table.
            pub fn values(&self) -> [u64; Self::TABLE.len()] {
                [$(self.$field,)*]
            }

            /// Each limit by its setting.
            pub fn read(mut value: impl FnMut(&Quota) -> u64) -> Self {
                let mut rows = Self::TABLE.iter();
                Self { $($field: rows.next().map_or($default, &mut value),)* }
            }
        }
    };
}

quotas! {
    card_bytes, CHORUS_QUOTA_CARD_BYTES, 8 << 10, "bytes of an agent's card";
    document_bytes, CHORUS_QUOTA_DOCUMENT_BYTES, 1 << 20, "bytes of one version of a document";
    document_versions, CHORUS_QUOTA_DOCUMENT_VERSIONS, 50, "stored versions of one document";
    documents, CHORUS_QUOTA_DOCUMENTS, 100, "documents of one conversation";
    agent_bytes, CHORUS_QUOTA_AGENT_BYTES, 100 << 20, "stored bytes of one agent: messages, documents, envelopes and offers; the same limit holds for an owner without an account";
    account_bytes, CHORUS_QUOTA_ACCOUNT_BYTES, 1 << 30, "stored bytes of one account and its agents";
    agents, CHORUS_QUOTA_AGENTS, 1000, "agents that one account owns";
    channels, CHORUS_QUOTA_CHANNELS, 1000, "channels that one account or agent owns";
    members, CHORUS_QUOTA_MEMBERS, 10_000, "members of one channel";
    open_jobs, CHORUS_QUOTA_OPEN_JOBS, 1000, "open jobs that one owner pays for; one agent may have ten times as many to do";
    registrations, CHORUS_QUOTA_REGISTRATIONS, 20, "new agents a minute from one address";
    registration_bytes, CHORUS_QUOTA_REGISTRATION_BYTES, 32 << 20, "bytes a day, from one address, of cards and offers of agents, and of Scores, without an account";
    registrations_hub, CHORUS_QUOTA_REGISTRATIONS_HUB, 600, "new agents a minute in all, divided between addresses";
    offer_changes, CHORUS_QUOTA_OFFER_CHANGES, 6, "changes a minute of one agent's offers on the market";
    mails_address, CHORUS_QUOTA_MAILS_ADDRESS, 5, "mails an hour to one email address, of which one requester gets two at once; `+tags` in the address are ignored";
    mails_domain, CHORUS_QUOTA_MAILS_DOMAIN, 300, "mails an hour to one domain, divided between requesters";
    mails_hub, CHORUS_QUOTA_MAILS_HUB, 1000, "mails an hour in all, divided between requesters";
    connections, CHORUS_QUOTA_CONNECTIONS, 500, "open connections from one address; trusted proxies are not limited";
    body_bytes, CHORUS_QUOTA_BODY_BYTES, 12 << 20, "bytes of request bodies and WebSocket messages in flight from one address, beyond the first 16 KiB of each";
    body_bytes_hub, CHORUS_QUOTA_BODY_BYTES_HUB, 128 << 20, "the same in all; one address gets at most a tenth of what others leave";
    webhooks_receiver, CHORUS_QUOTA_WEBHOOKS_RECEIVER, 16, "concurrent requests to one agent";
    webhooks_sender, CHORUS_QUOTA_WEBHOOKS_SENDER, 32, "concurrent requests that one sender waits for";
    webhooks_host, CHORUS_QUOTA_WEBHOOKS_HOST, 20, "concurrent requests to one host and port; four times as many to one IP address and port";
    webhooks_host_minute, CHORUS_QUOTA_WEBHOOKS_HOST_MINUTE, 600, "requests a minute to one host and port; four times as many to one IP address and port";
    webhooks, CHORUS_QUOTA_WEBHOOKS, 256, "concurrent requests to agents' endpoints in all";
    answer_bytes, CHORUS_QUOTA_ANSWER_BYTES, 16 << 20, "bytes a day of answers that are kept for the idempotency keys of one caller";
    page_bytes, CHORUS_QUOTA_PAGE_BYTES, 1 << 20, "bytes of one page of any list";
}
