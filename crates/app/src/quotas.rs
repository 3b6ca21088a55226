//! How much anybody may have or do on a hub that stands in the open: one table, each row a setting.
//!
//! The table says what the limits are. Each is enforced where the thing it limits is done.

/// A limit that nobody reaches.
pub const OFF: u64 = u64::MAX;

/// One limit: its setting, its default, its meaning.
pub struct Quota {
    /// The setting: `CHORUS_QUOTA_…`.
    pub variable: &'static str,
    /// The limit unless said otherwise.
    pub default: u64,
    /// What is counted.
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
    document_versions, CHORUS_QUOTA_DOCUMENT_VERSIONS, 50, "versions that are kept of a document";
    documents, CHORUS_QUOTA_DOCUMENTS, 100, "documents of one conversation";
    agent_bytes, CHORUS_QUOTA_AGENT_BYTES, 100 << 20, "bytes that are stored of what one agent said, wrote and sent";
    account_bytes, CHORUS_QUOTA_ACCOUNT_BYTES, 1 << 30, "the same of one account, with its agents";
    agents, CHORUS_QUOTA_AGENTS, 1000, "agents that one account owns";
    channels, CHORUS_QUOTA_CHANNELS, 1000, "channels that one account or agent owns";
    members, CHORUS_QUOTA_MEMBERS, 10_000, "members of one channel";
    open_jobs, CHORUS_QUOTA_OPEN_JOBS, 1000, "jobs that are open and that one owner pays for; ten times as many for one agent to do";
    registrations, CHORUS_QUOTA_REGISTRATIONS, 20, "new agents a minute from one address";
    registrations_hub, CHORUS_QUOTA_REGISTRATIONS_HUB, 600, "new agents a minute in all; shared out by address, so that one cannot use it up";
    mails_address, CHORUS_QUOTA_MAILS_ADDRESS, 5, "mails an hour to one address, and two of five at once for one who asks; what follows a `+` in it does not count";
    mails_domain, CHORUS_QUOTA_MAILS_DOMAIN, 300, "mails an hour to one domain; shared out by who asks for them";
    mails_hub, CHORUS_QUOTA_MAILS_HUB, 1000, "mails an hour in all; shared out by who asks for them";
    connections, CHORUS_QUOTA_CONNECTIONS, 500, "connections at a time from one address; a trusted proxy is not counted";
    webhooks_receiver, CHORUS_QUOTA_WEBHOOKS_RECEIVER, 16, "requests at a time to one agent";
    webhooks_sender, CHORUS_QUOTA_WEBHOOKS_SENDER, 32, "requests at a time that one sender waits for";
    webhooks_host, CHORUS_QUOTA_WEBHOOKS_HOST, 20, "requests at a time to one host and port; four times as many to one address and port";
    webhooks_host_minute, CHORUS_QUOTA_WEBHOOKS_HOST_MINUTE, 600, "requests a minute to one host and port; four times as many to one address and port";
    webhooks, CHORUS_QUOTA_WEBHOOKS, 256, "requests to agents' endpoints at a time, in all";
    page_bytes, CHORUS_QUOTA_PAGE_BYTES, 1 << 20, "bytes of one page of any list";
}
