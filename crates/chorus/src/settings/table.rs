//! All settings there are, as `chorus serve --help` and the README show them.

use chorus_hub::quotas::Quotas;

/// One setting: its variable, its default in words, its meaning.
struct Setting {
    variable: &'static str,
    default: &'static str,
    meaning: &'static str,
}

macro_rules! settings {
    ($($variable:ident, $default:literal, $meaning:literal;)*) => {
        /// All settings there are.
        const SETTINGS: &[Setting] = &[
            $(Setting { variable: stringify!($variable), default: $default, meaning: $meaning },)*
        ];
    };
}

settings! {
    CHORUS_LISTEN, "127.0.0.1:8787", "where to listen; port 0 takes a free one";
    CHORUS_DATA, "./chorus-data", "the folder of the database and of the hub's keys";
    CHORUS_DATABASE_URL, "SQLite in the data folder", "`postgres://…` selects PostgreSQL; TLS is verified, and required unless the server is on this machine or `sslmode=disable` or `prefer` is in the URL; `sslrootcert=FILE` there names a CA certificate of your own";
    CHORUS_PUBLIC_URL, "the address it listens on", "where people and agents reach this hub";
    CHORUS_ALLOWED_HOSTS, "none", "other names (with commas between) by which this hub may be asked for, such as a service's inside a container network";
    CHORUS_HOST_NAME, "host of the public URL, else `localhost`", "the host of addresses; `chorus` is always an alias for it";
    CHORUS_OPERATOR_KEY, "made at first start, printed once", "the operator's key";
    CHORUS_MASTER_KEY, "a file in the data folder", "64 hex digits, from which the hub's secrets are derived; needed with PostgreSQL, the same on all nodes";
    CHORUS_MASTER_KEY_PREVIOUS, "none", "the master key before this one, while it is replaced: what it signed and sealed is read too, webhooks carry both signatures, and what is sealed is sealed anew until the log says that it can go (with several nodes, first give all of them the new key here, then swap the two); `lost` if it is gone for good, and with it what it sealed";
    CHORUS_ALLOW_PRIVATE_ENDPOINTS, "none", "addresses or networks (with commas between) that outbound requests may reach although private";
    CHORUS_ENDPOINT_CHALLENGE, "off", "`on`: an agent's endpoint gets nothing before it has echoed a signed POST `{\"type\": \"challenge\", \"challenge\": …}` in its answer";
    CHORUS_ANONYMOUS_SCORES, "off", "`on`: a Score may be drafted without an account; it is held by an edit link until somebody claims it, or for 30 days after its last version";
    CHORUS_RATE_LIMIT, "6000", "requests a minute of one key, on each node; `off` also lifts the limits of registrations, mails and connections";
    CHORUS_RATE_LIMIT_ANONYMOUS, "1200", "requests a minute of one address without a key";
    CHORUS_TRUSTED_PROXIES, "none", "proxies (addresses or networks, with commas between) whose `X-Forwarded-For` tells who calls; nobody else's is read";
    CHORUS_WEBHOOK_TIMEOUT_MS, "30000", "how long a webhook may take";
    CHORUS_PRESENCE_MS, "90000", "how long a sign of life counts as online";
    CHORUS_RETENTION_DAYS, "for ever", "how long deliveries are kept once they are done, envelopes, other services' posts, what is said in conversations, and results of jobs (the job and its payment stay); a channel's owner may keep it shorter (`keep_days`). Documents stay";
    CHORUS_DURABILITY, "full", "`full`: success means fsynced; `relaxed`: a power cut may lose the last moment";
    CHORUS_SIGNUP, "open", "who may register: `open`, `invite` or `closed`";
    CHORUS_MARKET_GRANT, "0", "credits that every new owner on the market is given, at most 1000000";
    CHORUS_MAIL, "log", "where sign-in links go: `log`, `dir:PATH` (one file a mail), `smtp://USER:PASSWORD@HOST:PORT` or `smtps://…`; with `?from=ADDRESS` they come from that address; TLS is verified, and required unless the server is on this machine or in a private network, or `?tls=opportunistic` or `?tls=off` says otherwise";
    CHORUS_MAX_CONNECTIONS, "10000", "the most connections at a time";
    CHORUS_LOG, "info", "`error`, `warn`, `info` or `debug`, to standard error";
    CHORUS_LOG_FORMAT, "text", "`text` or `json`";
}

/// Every setting as it is shown, the quotas last: its variable, its default, its meaning.
pub(super) fn shown() -> impl Iterator<Item = (&'static str, String, &'static str)> {
    let settings = SETTINGS.iter().map(|row| (row.variable, row.default.to_owned(), row.meaning));
    settings.chain(Quotas::TABLE.iter().map(|row| (row.variable, row.default.to_string(), row.meaning)))
}

/// The settings as `chorus serve --help` shows them.
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

    /// The README's table is the one above.
    #[test]
    fn the_readme_lists_every_setting() {
        let readme = include_str!("../../../../README.md");
        for (variable, default, meaning) in shown() {
            let default =
                if default.contains(' ') || default.contains('`') { default } else { format!("`{default}`") };
            let row = format!("| `{variable}` | {default} | {meaning} |");
            assert!(readme.contains(&row), "README.md lacks the row\n{row}");
        }
    }
}
