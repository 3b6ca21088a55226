//! `chorus doctor`: checks everything that can be wrong between this machine and a working hub, and gives
//! advice.
//!
//! It changes nothing, unless it is told to repair the transparency log. The checks are independent, so that
//! one failure does not hide another.

use super::transfer::Which;
use crate::failure;
use crate::global::Global;
use crate::output;
use crate::settings::{self, Settings};
use chorus_agent::{Client, ClientError, ExitClass};
use chorus_hub::{Environment, LogRepair, LogRepairError};
use chorus_protocol::api::accounts::{Me, Quota};
use chorus_protocol::api::operator::{Danger, Overview};
use chorus_protocol::relay::{LogReport, MarketReport, StoreReport};
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::PrincipalKind;
use owo_colors::OwoColorize;
use serde::Serialize;
use serde_json::json;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus doctor                          the hub at CHORUS_URL, and ./chorus-data
  CHORUS_KEY=co_… chorus doctor          also what is dangerous in its settings
  chorus doctor --data /var/lib/chorus   the data folder of a hub elsewhere on this machine
  chorus doctor --hub-only               the hub alone, as a health check
  chorus doctor --repair-log             repair the log of the stopped hub in ./chorus-data
  chorus doctor --json | jq '.[] | select(.ok | not)'

Exit codes: 0 all is well, 1 something is not, 4 the hub does not answer";

/// The largest harmless difference of the clocks, in milliseconds.
const MAX_SKEW_MS: i64 = 5000;

/// The usage of a quota above which it is reported, in per cent.
const QUOTA_WARNING: u128 = 80;

/// Find problems and show how to fix them
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A data folder on this machine [default: ./chorus-data, if it exists]
    #[arg(long, env = "CHORUS_DATA", value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Check the hub only, for monitors: a data folder is read from end to end
    #[arg(long)]
    hub_only: bool,
    /// Rebuild the head and the tree of the transparency log from its leaves; the hub must be stopped
    #[arg(long)]
    repair_log: bool,
    /// postgres://… instead of a data folder, for --repair-log [env: CHORUS_DATABASE_URL]
    #[arg(long, value_name = "URL", requires = "repair_log")]
    database: Option<String>,
}

/// The result of one check.
#[derive(Serialize)]
struct Finding {
    check: &'static str,
    ok: bool,
    /// The check passed, but with a warning.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    warning: bool,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Finding {
    fn good(check: &'static str, detail: impl fmt::Display) -> Self {
        Self { check, ok: true, warning: false, detail: detail.to_string(), hint: None }
    }

    fn warning(check: &'static str, detail: impl fmt::Display, hint: &str) -> Self {
        Self { warning: true, hint: Some(hint.to_owned()), ..Self::good(check, detail) }
    }

    fn bad(check: &'static str, detail: impl fmt::Display, hint: &str) -> Self {
        Self { ok: false, hint: Some(hint.to_owned()), ..Self::good(check, detail) }
    }
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    if args.repair_log {
        return repair_log(global, args).await;
    }
    let client = global.client()?;
    let (mut findings, reachable) = look_at_hub(&client, global.has_key()).await;
    if !args.hub_only {
        findings.extend(look_at_folder(args.data));
    }
    if global.json {
        output::json(&findings)?;
    } else {
        for finding in &findings {
            show(finding)?;
        }
    }
    let code = match findings.iter().all(|finding| finding.ok) {
        true => 0,
        false if reachable => failure::FAILED,
        false => failure::UNREACHABLE,
    };
    Ok(ExitCode::from(code))
}

/// Repairs the transparency log in the database itself, without a hub, and reports the changes.
async fn repair_log(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let data = args.data.map(|folder| folder.display().to_string());
    let store = Which::new(data, args.database).open()?;
    let LogRepair { former_size, size, added_nodes, removed_nodes } =
        store.write::<_, LogRepairError, _>(chorus_hub::repair_log).await?;
    if global.json {
        output::json(&json!({
            "former_size": former_size, "size": size, "added_nodes": added_nodes, "removed_nodes": removed_nodes,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = if former_size == size {
        format!("the head of the log is {size}, as it was")
    } else {
        format!("the head of the log is {size} again, the number of its leaves; it was {former_size}")
    };
    output::data(format_args!(
        "{head}; {added_nodes} missing nodes added, {removed_nodes} stray ones removed"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn show(finding: &Finding) -> anyhow::Result<()> {
    let Finding { check, ok, warning, detail, hint } = finding;
    let detail = output::one_line(detail);
    let mark = match (ok, warning) {
        (true, false) => "ok  ".green().to_string(),
        (true, true) => "WARN".yellow().bold().to_string(),
        (false, _) => "BAD ".red().bold().to_string(),
    };
    output::data(format_args!("{mark} {check:<9} {detail}"))?;
    if let Some(hint) = hint {
        output::data(format_args!("               {} {hint}", "do:".bold()))?;
    }
    Ok(())
}

/// Checks the hub. Returns whether it can be reached.
async fn look_at_hub(client: &Client, has_key: bool) -> (Vec<Finding>, bool) {
    let health = match client.health().await {
        Ok(health) => health,
        Err(error) => {
            let reachable = error.exit_class() != ExitClass::Unreachable;
            let hint = match &error {
                // The server does not answer like a hub.
                ClientError::Protocol(_) => {
                    "something else than a hub answers there: name a hub with --url or CHORUS_URL"
                }
                _ if reachable => {
                    "read the hub's log; if the disk is full, make room: the hub goes on by itself"
                }
                _ => "start a hub with `chorus serve`, or name another with --url or CHORUS_URL",
            };
            return (vec![Finding::bad("hub", failure::sentence(&error), hint)], reachable);
        }
    };
    let mut findings = vec![Finding::good(
        "hub",
        format_args!(
            "answers; version {}, addresses name@{}",
            or_unknown(&health.version),
            or_unknown(&health.host)
        ),
    )];
    // A hub that implements only the relay does not report its store.
    findings.extend((!health.store.kind.is_empty()).then(|| store(&health.store)));
    findings.extend(health.market.as_ref().map(ledger));
    findings.extend(health.log.as_ref().map(log));
    findings.extend(parse_rfc3339(&health.time).map(clock));
    if has_key {
        findings.extend(key(client).await);
    }
    (findings, true)
}

/// Checks that wallets and holds add up to the credits minted and not burned, and that each wallet matches its
/// ledger.
fn ledger(market: &MarketReport) -> Finding {
    let MarketReport { balanced, checked_at, discrepancies } = market;
    if *balanced {
        return Finding::good("ledger", format_args!("adds up, as of {checked_at}"));
    }
    let hint = "stop paying and keep a backup (`chorus backup`); `GET /market/economy` has the figures, the hub's log when it began";
    if discrepancies.is_empty() {
        let detail = format_args!(
            "wallets and holds are not what the ledger says, as of {checked_at}; the operator's key shows which"
        );
        return Finding::bad("ledger", detail, hint);
    }
    let off: Vec<_> = discrepancies.iter().map(|off| format!("{}: {}", off.owner, off.detail)).collect();
    Finding::bad("ledger", off.join("; "), hint)
}

/// Returns whether the head of the transparency log verifies.
fn log(report: &LogReport) -> Finding {
    let LogReport { size, ok, checked_at } = report;
    if *ok {
        return Finding::good(
            "log",
            format_args!("{size} entries, and its head verifies, as of {checked_at}"),
        );
    }
    let detail = format_args!("the head of the log is not that of its {size} entries, as of {checked_at}");
    let hint =
        "keep a backup, stop the hub, and run `chorus doctor --repair-log` with its --data or --database";
    Finding::bad("log", detail, hint)
}

fn store(store: &StoreReport) -> Finding {
    let StoreReport { kind, durability, write_latency_ms: latency, queued } = store;
    let durability = or_unknown(durability);
    let detail = format!("{kind} wrote in {latency} ms, durability {durability}, {queued} writes wait");
    if *latency > 1000 {
        return Finding::bad(
            "store",
            detail,
            "the disk or the database server is slow or overloaded; see /metrics",
        );
    }
    Finding::good("store", detail)
}

fn clock(theirs: i64) -> Finding {
    let skew = theirs - Environment::system().now();
    let detail = format!("the hub's clock differs from this one by {skew} ms");
    if skew.abs() > MAX_SKEW_MS {
        return Finding::bad("clock", detail, "let both machines take their time from the network (NTP)");
    }
    Finding::good("clock", detail)
}

/// Checks the key and its quotas; with the operator's key also the hub's settings.
async fn key(client: &Client) -> Vec<Finding> {
    let asked = match client.api_get::<Me>(&["me"], &[]).await {
        // A hub that implements only the relay.
        Err(ClientError::Refused { status: 404, .. }) => match client.messages(None, 1).await {
            Err(ClientError::Refused { status: 404 | 405, .. }) => {
                let detail =
                    "this hub knows only the relay's document, which has no way to ask whose a key is";
                return vec![Finding::warning("key", detail, "`chorus inbox` says whether it is an agent's")];
            }
            asked => asked.map(|_| Me { kind: PrincipalKind::Agent.into(), ..Me::default() }),
        },
        asked => asked,
    };
    let me = match asked {
        Ok(me) => me,
        Err(error @ ClientError::Refused { .. }) => {
            let hint =
                "is it the newest key of its agent, a token that was not revoked, and of this very hub?";
            return vec![Finding::bad("key", failure::sentence(&error), hint)];
        }
        Err(error) => {
            let hint = "the hub answers sometimes: run this again";
            return vec![Finding::bad("key", failure::sentence(&error), hint)];
        }
    };
    let kind = me.kind.known();
    let whose = match kind {
        Some(PrincipalKind::Agent) => "an agent's key",
        Some(PrincipalKind::Account) => "a person's token",
        Some(PrincipalKind::Operator) => "the operator's key",
        _ => "somebody's",
    };
    let mut findings = vec![Finding::good("key", format_args!("{whose}, and valid"))];
    findings.extend(quotas(&me));
    if kind == Some(PrincipalKind::Operator) {
        findings.extend(dangers(client).await);
    }
    findings
}

/// Checks the usage of the key owner's quotas.
fn quotas(me: &Me) -> Option<Finding> {
    let (mut all, mut high) = (vec![], vec![]);
    for (name, &Quota { used, limit }) in &me.quotas {
        let Some(limit) = limit else {
            all.push(format!("{name} {used}"));
            continue;
        };
        let percent = u128::from(used) * 100 / u128::from(limit.max(1));
        let line = format!("{name} {used} of {limit} ({percent} %)");
        if percent > QUOTA_WARNING {
            high.push(line.clone());
        }
        all.push(line);
    }
    if all.is_empty() {
        return None;
    }
    if high.is_empty() {
        return Some(Finding::good("quotas", all.join(", ")));
    }
    let hint = "at the limit it is refused: documents and agents that are not needed can go; the operator sets CHORUS_QUOTA_…";
    Some(Finding::bad("quotas", high.join(", "), hint))
}

/// Reports dangerous settings of the hub, which only the operator may read.
async fn dangers(client: &Client) -> Vec<Finding> {
    let overview: Overview = match client.api_get(&["operator", "overview"], &[]).await {
        Ok(overview) => overview,
        Err(error) => {
            let hint = "without it nothing is known of what is dangerous in the hub's settings: is it as new as this program?";
            return vec![Finding::bad("settings", failure::sentence(&error), hint)];
        }
    };
    if overview.warnings.is_empty() {
        return vec![Finding::good("settings", "nothing dangerous")];
    }
    let finding = |danger: &Danger| Finding::warning("settings", &danger.message, &danger.advice);
    overview.warnings.iter().map(finding).collect()
}

/// Formats an optional value of the hub.
fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "?" } else { text }
}

/// Checks the data folder, if one was given or exists here.
fn look_at_folder(named: Option<PathBuf>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let folder = match named {
        Some(folder) if !folder.is_dir() => {
            let detail = format!("there is no folder {}", folder.display());
            let hint = "name the data folder of a hub with --data or CHORUS_DATA";
            return vec![Finding::bad("data", detail, hint)];
        }
        Some(folder) => folder,
        None => "./chorus-data".into(),
    };
    for name in ["master.key", "chorus.db", "chorus.db-wal"] {
        let path = folder.join(name);
        let Ok(data) = fs::metadata(&path) else { continue };
        let mode = data.permissions().mode() & 0o777;
        let detail = format!("{} has mode {mode:o}", path.display());
        let hint = "others can read it: chmod 600 it, and think about who may have seen it";
        let open = mode & 0o077 != 0;
        findings.push(if open {
            Finding::bad("secrets", detail, hint)
        } else {
            Finding::good("secrets", detail)
        });
    }
    let database = folder.join("chorus.db");
    if database.exists() {
        let finding = look_at_database(&database);
        let sound = finding.ok;
        findings.push(finding);
        findings.extend(look_at_key(&folder).filter(|_| sound));
    }
    findings
}

/// Checks for problems that keep a hub from starting with this folder: a missing or wrong master key, or an
/// unfinished import.
fn look_at_key(folder: &Path) -> Option<Finding> {
    let layer = [("CHORUS_DATA".to_owned(), folder.display().to_string())].into_iter().collect();
    let hint = "`chorus serve --help` lists every setting";
    let loaded = settings::environment().and_then(|environment| Settings::load(&[layer, environment]));
    let settings = match loaded {
        Ok(settings) => settings,
        Err(faults) => return Some(Finding::bad("settings", faults, hint)),
    };
    // A hub on PostgreSQL does not use the file.
    if settings.database_url.is_some() {
        return None;
    }
    let error = super::serve::look_at_key(&settings).err()?;
    let hint = failure::hint(&error, None).unwrap_or("`chorus serve` would not start with this folder");
    Some(Finding::bad("start", failure::sentence(error.as_ref()), hint))
}

fn look_at_database(path: &Path) -> Finding {
    let shown = path.display();
    let diagnosis = match chorus_store::diagnose(path) {
        Ok(diagnosis) => diagnosis,
        Err(error) => {
            return Finding::bad(
                "database",
                format_args!("{shown}: {}", failure::sentence(&error)),
                "may you read the file? Is it a database of chorus? If it is damaged, restore a backup",
            );
        }
    };
    if diagnosis.is_unreleased() {
        let detail = format!("{shown} has schema {} of a build before 0.1.0", diagnosis.schema_version);
        return Finding::bad(
            "database",
            detail,
            "export it with that build, then import it into an empty database",
        );
    }
    if diagnosis.schema_version > diagnosis.known_version {
        let detail = format!(
            "{shown} has schema {}, this program knows {}",
            diagnosis.schema_version, diagnosis.known_version
        );
        return Finding::bad("database", detail, "use a newer chorus");
    }
    if diagnosis.damage.is_empty() {
        let kib = diagnosis.bytes / 1024;
        return Finding::good(
            "database",
            format_args!("{shown} is sound, schema {}, {kib} KiB", diagnosis.schema_version),
        );
    }
    let detail = format!("{shown} is damaged: {}", diagnosis.damage.join("; "));
    Finding::bad("database", detail, "stop the hub, keep the file, and restore a backup")
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::market::WalletDiscrepancy;

    #[test]
    fn a_damaged_log_is_a_fault() {
        let report = |ok| LogReport { size: 7, ok, checked_at: "2026-03-20T10:00:00Z".into() };
        assert!(log(&report(true)).ok);
        let found = log(&report(false));
        assert!(!found.ok && found.detail.contains("7 entries"), "{}", found.detail);
        assert!(found.hint.unwrap().contains("chorus doctor --repair-log"));
    }

    #[test]
    fn a_wallet_that_is_off_is_named() {
        let off =
            |owner: &str| WalletDiscrepancy { owner: owner.into(), detail: "has 2.00, not 1.00".into() };
        let report = |discrepancies| MarketReport {
            balanced: false,
            checked_at: "2026-03-20T10:00:00Z".into(),
            discrepancies,
        };
        let found = ledger(&report(vec![off("acme"), off("bob")]));
        assert!(!found.ok && found.hint.is_some());
        assert_eq!(found.detail, "acme: has 2.00, not 1.00; bob: has 2.00, not 1.00");
        let unnamed = ledger(&report(vec![]));
        assert!(!unnamed.ok && unnamed.detail.contains("the operator's key"), "{}", unnamed.detail);
    }
}
