//! `chorus score`: Scores in files and at a hub, and the built-in scenarios.

use super::channel::done;
use crate::answer::{list, or_dash, tell};
use crate::global::Global;
use crate::{files, output};
use chorus_agent::Method;
use chorus_choir::structure::structure;
use chorus_choir::{library, rules};
use chorus_protocol::api::scores::{EvidenceView, MadeScore, ScoreView, SecretView};
use chorus_protocol::choir::answers::AnswersRecord;
use chorus_protocol::choir::evidence::Bundle;
use chorus_protocol::choir::receipt::Dimension;
use clap::Subcommand;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus score check score.json                 what is fragile by design; no hub needed
  chorus score scenarios > scenarios.json       scenarios to begin with; no hub needed
  chorus score create score.json                keep it at a hub, private to your account
  chorus score secret ID                        a signing secret, and where evidence goes
  chorus score evidence ID bundle.json          say what happened in a run

A Score is {title, voices: [{name, role, authority, escalation_triggers, …}],
            scenarios: [{id, severity, required_voices, …}]}";

/// Work with Scores: declared ensembles and the scenarios that they must handle
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the structural weaknesses of a Score in a file
    Check {
        /// The Score, or - for standard input
        file: String,
    },
    /// Print the built-in scenarios
    Scenarios,
    /// Print every rule with its weight; receipts refer to this list by `rules_digest`
    Rules,
    /// Store a Score at the hub
    Create {
        /// The Score, or - for standard input
        file: String,
    },
    /// Store a new version of a Score at the hub
    Update {
        /// The Score's id
        id: String,
        /// The Score, or - for standard input
        file: String,
    },
    /// Show a Score of the hub
    Show {
        /// The Score's id
        id: String,
    },
    /// List your Scores
    List,
    /// Archive a Score; its receipts stay
    Archive {
        /// The Score's id
        id: String,
    },
    /// Claim a Score that is held by an edit link for your account, permanently
    Claim {
        /// The Score's id
        id: String,
        /// The edit link
        edit_link: String,
    },
    /// Show the structural weaknesses of a Score of the hub
    Rehearse {
        /// The Score's id
        id: String,
    },
    /// Submit evidence of a run, or answers to its open items; it counts as asserted by you
    Evidence {
        /// The Score's id
        id: String,
        /// The bundle, or - for standard input
        #[arg(default_value = "-")]
        bundle: String,
    },
    /// List a Score's evidence, newest first
    ListEvidence {
        /// The Score's id
        id: String,
    },
    /// Create a signing secret; it is shown once
    Secret {
        /// The Score's id
        id: String,
    },
    /// Revoke a signing secret
    RevokeSecret {
        /// The Score's id
        id: String,
        /// The beginning of the secret: acs_ and eight characters
        prefix: String,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Check { file } => check(global, &file)?,
        Command::Scenarios => output::json(&library::scenarios())?,
        Command::Rules => output::json(&rules::table())?,
        Command::List => {
            let scores: Vec<Value> = global.all_items(&["scores"], &[]).await?;
            list(global, &scores, ["ID", "VERSION", "TITLE"], |score: ScoreView| {
                [score.score_id.to_string(), score.version.to_string(), score.title]
            })?;
        }
        Command::ListEvidence { id } => {
            let bundles: Vec<Value> = global.all_items(&["scores", &id, "evidence"], &[]).await?;
            let columns = ["ID", "RECEIVED", "VERSION", "EVENTS", "STATUS"];
            list(global, &bundles, columns, |bundle: EvidenceView| {
                let EvidenceView { evidence_id, received_at, score_version, events, .. } = bundle;
                let status = bundle.verification_status.to_string();
                [evidence_id.to_string(), received_at, score_version.to_string(), events.to_string(), status]
            })?;
        }
        Command::Show { id } => {
            let score: Value = global.keyed_client()?.api_get(&["scores", &id], &[]).await?;
            output::json(&score)?;
        }
        command => write(global, command).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the commands that change something at the hub.
async fn write(global: &Global, command: Command) -> anyhow::Result<()> {
    // Some hubs allow a Score without an account.
    let client = global.client()?;
    let ask = async |method: Method, path: &[&str], body: Option<Value>| {
        client.api_write::<Value>(method, path, &[], body.as_ref()).await
    };
    let made = |score: MadeScore| match score.edit_link {
        Some(link) => format!("{}\n{link}", score.score_id),
        None => score.score_id.to_string(),
    };
    match command {
        Command::Create { file } => {
            let answer = ask(Method::POST, &["scores"], Some(checked(&file)?)).await?;
            tell(global, &answer, made)
        }
        Command::Update { id, file } => {
            let answer = ask(Method::PUT, &["scores", &id], Some(checked(&file)?)).await?;
            tell(global, &answer, |score: MadeScore| format!("version {}", score.version))
        }
        Command::Archive { id } => {
            ask(Method::DELETE, &["scores", &id], None).await?;
            let line = format!("{} is archived; its receipts stay", output::one_line(&id));
            done(global, &json!({"score_id": id, "archived": true}), &line)
        }
        Command::Claim { id, edit_link } => {
            let answer =
                ask(Method::POST, &["scores", &id, "claim"], Some(json!({"edit_link": edit_link}))).await?;
            tell(global, &answer, made)
        }
        Command::Rehearse { id } => {
            let answer = ask(Method::POST, &["scores", &id, "rehearse"], None).await?;
            output::json(&answer)
        }
        Command::Evidence { id, bundle } => {
            let keep = |value: Value| {
                if AnswersRecord::is_claimed_by(&value) {
                    AnswersRecord::read(value.clone()).map(|_| value)
                } else {
                    Bundle::read(value.clone()).map(|_| value)
                }
            };
            let body = files::read(&bundle, "evidence bundle", keep)?;
            let answer = ask(Method::POST, &["scores", &id, "evidence"], Some(body)).await?;
            tell(global, &answer, |evidence: EvidenceView| {
                for warning in &evidence.warnings {
                    let path = warning.path.as_deref().unwrap_or_default();
                    output::talk(output::one_line(&format!("warning: {path}: {}", warning.message)));
                }
                evidence.evidence_id.to_string()
            })
        }
        Command::Secret { id } => {
            let answer = ask(Method::POST, &["scores", &id, "signing-secrets"], None).await?;
            tell(global, &answer, |secret: SecretView| {
                format!("{}\n{}", or_dash(secret.secret), or_dash(secret.ingest_url))
            })
        }
        Command::RevokeSecret { id, prefix } => {
            let path = ["scores", &id, "signing-secrets", &prefix];
            ask(Method::DELETE, &path, None).await?;
            let line = format!("{} signs nothing any more", output::one_line(&prefix));
            done(global, &json!({"prefix": prefix, "revoked": true}), &line)
        }
        Command::Check { .. }
        | Command::Scenarios
        | Command::Rules
        | Command::List
        | Command::ListEvidence { .. }
        | Command::Show { .. } => Ok(()),
    }
}

/// Reads a Score's file and checks it by the hub's rules.
fn checked(file: &str) -> anyhow::Result<Value> {
    Ok(files::score(file)?.0)
}

fn check(global: &Global, file: &str) -> anyhow::Result<()> {
    let found = structure(&files::score(file)?.1);
    if global.json {
        return output::json(&found);
    }
    for finding in &found.findings {
        let (message, retune) = (output::one_line(&finding.message), &finding.retune);
        output::data(format_args!("{} -{:<2} {message}\n    {retune}", finding.rule_id, finding.points))?;
    }
    let base = &found.base_dimensions;
    let dimensions = Dimension::ALL.iter().map(|one| {
        let name = one.as_str().replace('_', " ");
        format!("{name} {}", base.get(*one))
    });
    Ok(output::data(dimensions.collect::<Vec<_>>().join(", "))?)
}
