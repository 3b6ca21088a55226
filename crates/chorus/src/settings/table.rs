//! The table of all settings, as `chorus serve --help` and `docs/operating.md` show them.

use chorus_hub::quotas::Quotas;

/// One setting: its variable, its default in words, its meaning.
struct Setting {
    variable: &'static str,
    default: &'static str,
    meaning: &'static str,
}

macro_rules! settings {
    ($($variable:ident, $default:literal, $meaning:literal;)*) => {
        /// All settings.
        const SETTINGS: &[Setting] = &[
            $(Setting { variable: stringify!($variable), default: $default, meaning: $meaning },)*
        ];
    };
}

settings! {
    CHORUS_LISTEN, "127.0.0.1:8787", "the address to listen on; port 0 takes a free port";
    CHORUS_DATA, "./chorus-data", "the folder of the database and the hub's keys";
    CHORUS_DATABASE_URL, "SQLite in the data folder", "`postgres://…` selects PostgreSQL. TLS is verified. It is required unless the server is on this machine or the URL has `sslmode=disable` or `prefer`. `sslrootcert=FILE` in the URL names your own CA certificate";
    CHORUS_PUBLIC_URL, "the address it listens on", "the URL by which people and agents reach this hub";
    CHORUS_ALLOWED_HOSTS, "none", "further host names, separated by commas, that requests to this hub may use, such as a service name inside a container network";
    CHORUS_HOST_NAME, "host of the public URL, else `localhost`", "the host in agents' addresses; `chorus` is always an alias for it";
    CHORUS_OPERATOR_KEY, "made at first start, printed once", "the operator's key";
    CHORUS_MASTER_KEY, "a file in the data folder", "64 hex digits from which the hub's secrets are derived; required with PostgreSQL, the same on all nodes";
    CHORUS_MASTER_KEY_PREVIOUS, "none", "the previous master key, while it is replaced. The hub accepts its signatures, signs webhooks with both keys, and reseals stored secrets until the log says that this setting can be removed. With several nodes, first give all of them the new key here, then swap the two. `lost` if the previous key is lost; secrets that it sealed are lost too";
    CHORUS_ALLOW_PRIVATE_ENDPOINTS, "none", "private addresses or networks, separated by commas, that outbound requests may reach";
    CHORUS_ENDPOINT_CHALLENGE, "off", "`on`: an agent's endpoint gets no messages until it has answered a signed POST `{\"type\": \"challenge\", \"challenge\": …}` with the same challenge";
    CHORUS_ANONYMOUS_SCORES, "off", "`on`: people may draft a Score without an account. Its edit link works until somebody claims the Score, or for 30 days after its last version";
    CHORUS_RATE_LIMIT, "6000", "requests a minute of one key, on each node; `off` also removes the limits of registrations, mails and connections";
    CHORUS_RATE_LIMIT_ANONYMOUS, "1200", "requests a minute of one address without a key";
    CHORUS_TRUSTED_PROXIES, "none", "addresses or networks of proxies, separated by commas, whose `X-Forwarded-For` is used as the caller's address; the header is ignored from others";
    CHORUS_WEBHOOK_TIMEOUT_MS, "30000", "the longest time of a webhook request";
    CHORUS_PRESENCE_MS, "90000", "the time after its last sign of life for which an agent counts as online";
    CHORUS_RETENTION_DAYS, "for ever", "days for which finished deliveries, envelopes, posts of other services, messages and results of jobs are kept (the job and its payment stay). A channel's owner may set fewer (`keep_days`). Documents stay";
    CHORUS_DURABILITY, "full", "`full`: success means fsynced; `relaxed`: a power failure may lose the last moments";
    CHORUS_SIGNUP, "open", "who may register: `open`, `invite` or `closed`";
    CHORUS_MARKET_GRANT, "0", "credits that every new owner on the market gets, at most 1000000";
    CHORUS_MAIL, "log", "the way mails are sent: `log`, `dir:PATH` (one file a mail), `smtp://USER:PASSWORD@HOST:PORT` or `smtps://…`. `?from=ADDRESS` sets the sender. TLS is verified. It is required unless the server is on this machine or in a private network, or the URL has `?tls=opportunistic` or `?tls=off`";
    CHORUS_MAX_CONNECTIONS, "10000", "the largest number of open connections";
    CHORUS_LOG, "info", "the log level, `error`, `warn`, `info` or `debug`; the log goes to standard error";
    CHORUS_LOG_FORMAT, "text", "`text` or `json`";
}

/// Returns all settings, the quotas last: the variable, the default and the meaning.
pub(super) fn shown() -> impl Iterator<Item = (&'static str, String, &'static str)> {
    let settings = SETTINGS.iter().map(|row| (row.variable, row.default.to_owned(), row.meaning));
    settings.chain(Quotas::TABLE.iter().map(|row| (row.variable, row.default.to_string(), row.meaning)))
}

/// Formats the settings for `chorus serve --help`.
pub(crate) fn help() -> String {
    let rows = shown().map(|(variable, default, meaning)| {
        format!("  {variable}\n      {meaning}\n      [default: {default}]\n")
    });
    format!(
        "Settings, in the environment or (in lower case, without CHORUS_) in the file:\n{}",
        rows.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page about operating a hub contains the table above.
    #[test]
    fn the_documents_list_every_setting() {
        let page = include_str!("../../../../docs/operating.md");
        for (variable, default, meaning) in shown() {
            let default =
                if default.contains(' ') || default.contains('`') { default } else { format!("`{default}`") };
            let row = format!("| `{variable}` | {default} | {meaning} |");
            assert!(page.contains(&row), "docs/operating.md lacks the row\n{row}");
        }
    }
}
