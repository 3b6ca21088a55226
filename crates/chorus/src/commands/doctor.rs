//! `chorus doctor`: looks at everything that can be wrong between here and a working hub, and says what to do.
//!
//! It changes nothing. Each check stands alone, so that one failure does not hide another.

use crate::failure;
use crate::global::Global;
use crate::output;
use crate::settings::{self, Settings};
use chorus_agent::{Client, ClientError, ExitClass};
use chorus_hub::Environment;
use chorus_protocol::api::accounts::{Me, Quota};
use chorus_protocol::api::operator::{Danger, Overview};
use chorus_protocol::relay::{MarketReport, StoreReport};
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::PrincipalKind;
use owo_colors::OwoColorize;
use serde::Serialize;
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
  chorus doctor --json | jq '.[] | select(.ok | not)'

Exit codes: 0 all is well, 1 something is not, 4 the hub does not answer";

/// The largest difference of clocks that harms nobody, in milliseconds.
const MAX_SKEW_MS: i64 = 5000;

/// From so many per cent on a quota is a worry.
const QUOTA_WARNING: u128 = 80;

/// Find out what is wrong, and what to do about it
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A data folder on this machine [default: ./chorus-data, if it is there]
    #[arg(long, env = "CHORUS_DATA", value_name = "FOLDER")]
    data: Option<PathBuf>,
}

/// What one check found.
#[derive(Serialize)]
struct Finding {
    check: &'static str,
    ok: bool,
    /// It works, and should be known.
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
    let client = global.client()?;
    let (mut findings, reachable) = look_at_hub(&client, global.has_key()).await;
    findings.extend(look_at_folder(args.data));
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

/// The hub, and whether it answers at all.
async fn look_at_hub(client: &Client, has_key: bool) -> (Vec<Finding>, bool) {
    let health = match client.health().await {
        Ok(health) => health,
        Err(error) => {
            let reachable = error.exit_class() != ExitClass::Unreachable;
            let hint = match &error {
                // What answers there does not speak as a hub does.
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
    // A hub that goes by the document alone says nothing of its store.
    findings.extend((!health.store.kind.is_empty()).then(|| store(&health.store)));
    findings.extend(health.market.as_ref().map(ledger));
    findings.extend(parse_rfc3339(&health.time).map(clock));
    if has_key {
        findings.extend(key(client).await);
    }
    (findings, true)
}

/// Whether wallets and holds are together what was minted and not burned.
fn ledger(market: &MarketReport) -> Finding {
    let MarketReport { balanced, checked_at } = market;
    if *balanced {
        return Finding::good("ledger", format_args!("adds up, as of {checked_at}"));
    }
    let detail = format_args!("wallets and holds are not what was minted, as of {checked_at}");
    let hint = "stop paying and keep a backup (`chorus backup`); `GET /market/economy` has the figures, the hub's log when it began";
    Finding::bad("ledger", detail, hint)
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

/// Whose the key is, what is used of its quotas and, for the operator, what is dangerous in the hub's settings.
async fn key(client: &Client) -> Vec<Finding> {
    let asked = match client.api_get::<Me>(&["me"], &[]).await {
        // A relay that knows no more than its document.
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

/// How much of its quotas the key's owner uses.
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

/// What is dangerous in the hub's settings, as it tells its operator and nobody else.
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

/// What a hub need not say.
fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "?" } else { text }
}

/// The data folder, if one was named or is here.
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

/// What keeps a hub from starting with this folder: its key is missing or another's, an import was not finished.
fn look_at_key(folder: &Path) -> Option<Finding> {
    let layer = [("CHORUS_DATA".to_owned(), folder.display().to_string())].into_iter().collect();
    let hint = "`chorus serve --help` lists every setting";
    let loaded = settings::environment().and_then(|environment| Settings::load(&[layer, environment]));
    let settings = match loaded {
        Ok(settings) => settings,
        Err(faults) => return Some(Finding::bad("settings", faults, hint)),
    };
    // A hub on PostgreSQL has nothing to do with the file.
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
