//! `chorus receipt`: issues receipts at a hub, reads and compares them.

use crate::answer::{list, tell};
use crate::failure::{Explained, FAILED};
use crate::global::Global;
use crate::{files, output};
use chorus_agent::Method;
use chorus_choir::compare::compare;
use chorus_choir::verify::verify;
use chorus_protocol::api::scores::{ComparisonLink, IssuedReceipt, PUBLISHES, ReceiptLine};
use chorus_protocol::choir::receipt::Payload;
use clap::Subcommand;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus receipt issue SCORE                     over the newest evidence; public from then on
  chorus receipt issue SCORE --evidence none     a draft
  chorus receipt list SCORE                      those of a Score, the newest first
  chorus receipt show ID > receipt.json
  chorus receipt compare baseline.json now.json  exit 1 if the second is worse; files or ids
  chorus receipt publish-comparison A B          a public link to both, side by side";

/// Issue, read and compare receipts
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Issue a receipt. It is public and contains a snapshot of the Score, although the Score itself stays
    /// private
    Issue {
        /// The Score's id
        score: String,
        /// `latest`, `none`, or ids of evidence
        #[arg(long, num_args = 1.., default_value = "latest")]
        evidence: Vec<String>,
    },
    /// List the receipts of a Score, newest first
    List {
        /// The Score's id
        score: String,
    },
    /// Print a receipt of the hub
    Show {
        /// The receipt's id
        id: String,
    },
    /// Compare two receipts: files or ids. Exit 1 if the second is worse
    Compare {
        /// The receipt to compare with
        baseline: String,
        /// The receipt to check
        receipt: String,
    },
    /// Make a public link to two of your receipts, side by side
    PublishComparison {
        /// The id of the first
        baseline: String,
        /// The id of the second
        receipt: String,
    },
    /// Print the signed in-toto statement of a receipt
    Attestation {
        /// The receipt's id
        id: String,
        /// As a test result, which existing policies can gate on
        #[arg(long)]
        test_result: bool,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Issue { score, evidence } => {
            let evidence = match &*evidence {
                [one] if one == "latest" || one == "none" => json!(one),
                ids => json!(ids),
            };
            // The notice comes before the request, because a receipt cannot be withdrawn.
            output::talk(PUBLISHES);
            let (path, body) = (["scores", &score, "receipts"], json!({"evidence": evidence}));
            let answer: Value = global.client()?.api_write(Method::POST, &path, &[], Some(&body)).await?;
            tell(global, &answer, |receipt: IssuedReceipt| receipt.verify_url)?;
        }
        Command::List { score } => {
            let receipts: Vec<Value> = global.all_items(&["scores", &score, "receipts"], &[]).await?;
            let columns = ["ID", "ISSUED", "VERSION", "VERDICT", "LABEL"];
            list(global, &receipts, columns, |line: ReceiptLine| {
                let ReceiptLine { receipt_id, generated_at, label, score_version, verdict, .. } = line;
                [receipt_id, generated_at, score_version.to_string(), verdict.to_string(), label]
            })?;
        }
        Command::Show { id } => output::json(&fetch(global, &id).await?)?,
        Command::Compare { baseline, receipt } => return side_by_side(global, &baseline, &receipt).await,
        Command::PublishComparison { baseline, receipt } => {
            let body = json!({"receipts": [baseline, receipt]});
            let answer: Value =
                global.keyed_client()?.api_write(Method::POST, &["compare"], &[], Some(&body)).await?;
            tell(global, &answer, |link: ComparisonLink| link.url)?;
        }
        Command::Attestation { id, test_result } => {
            let query: &[(&str, &str)] = if test_result { &[("predicate", "test_result")] } else { &[] };
            let answer: Value = global.client()?.api_get(&["receipts", &id, "attestation"], query).await?;
            output::json(&answer)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn fetch(global: &Global, id: &str) -> anyhow::Result<Value> {
    Ok(global.client()?.api_get(&["receipts", id], &[]).await?)
}

/// Returns a receipt's payload, from a file of this name if it exists, else from the hub. A receipt that does
/// not verify is refused.
async fn payload(global: &Global, named: &str) -> anyhow::Result<Payload> {
    let local = named == "-" || std::path::Path::new(named).exists();
    let receipt = if local { files::json(named)? } else { fetch(global, named).await? };
    if let Err(error) = verify(&receipt, None) {
        let hint = "`chorus rehearse` and `chorus receipt show` print receipts; do not rely on this one";
        return Err(Explained::failed(format!("{named}: {error}"), hint).into());
    }
    serde_json::from_value(receipt["payload"].clone()).map_err(|error| {
        let hint = "`chorus rehearse` and `chorus receipt show` print receipts";
        Explained::failed(format!("{named} is no receipt: {error}"), hint).into()
    })
}

async fn side_by_side(global: &Global, baseline: &str, receipt: &str) -> anyhow::Result<ExitCode> {
    let comparison = compare(&payload(global, baseline).await?, &payload(global, receipt).await?);
    if global.json {
        output::json(&comparison)?;
    } else {
        output::data(format_args!("{} -> {}", comparison.verdict_before, comparison.verdict_after))?;
        if !comparison.same_score {
            output::data(format_args!("the Score changed between them"))?;
        }
        for change in comparison.numbers.iter().filter(|change| change.before != change.after) {
            output::data(format_args!("{}: {} -> {}", change.name, change.before, change.after))?;
        }
        for regression in &comparison.regressions {
            output::data(format_args!("worse: {}", output::one_line(regression)))?;
        }
    }
    Ok(if comparison.worse { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
