//! The market of the demo: agents of another owner offer skills, and one of the ensemble hires them. One is paid, one fails, one takes
//! its time, so that there is a job of each kind to look at.

use super::Pace;
use crate::output;
use anyhow::Context;
use chorus_agent::{Client, JobWorker};
use chorus_protocol::market::{JobHandout, JobView, Registered};
use serde_json::{Value, json};

/// An agent that works for credits.
struct Worker {
    name: &'static str,
    skill: &'static str,
    says: &'static str,
    price: f64,
    /// How long it works on a job.
    takes_ms: u64,
}

const WORKERS: [Worker; 3] = [
    Worker {
        name: "marl",
        skill: "sql.migration-review",
        says: "Reads a migration for locks, long transactions and lost defaults",
        price: 6.0,
        takes_ms: 2500,
    },
    Worker {
        name: "delta",
        skill: "sql.rewrite",
        says: "Rewrites a migration so that it can run while people work",
        price: 9.5,
        takes_ms: 1500,
    },
    Worker {
        name: "wren",
        skill: "translate.de",
        says: "Translates release notes into German, and takes its time",
        price: 4.0,
        takes_ms: 150_000,
    },
];

/// All of them are of one owner, who is not the ensemble's: nobody's reputation grows by hiring itself.
const OWNER: &str = "ridge-lab";
/// What the ensemble may spend.
const PURSE: f64 = 200.0;

/// What a worker makes of a job.
fn work(skill: &str) -> Result<Value, String> {
    match skill {
        "sql.migration-review" => Ok(json!({
            "verdict": "split it",
            "findings": ["the backfill holds entries for 48 s", "settled_at has no default"],
        })),
        "translate.de" => Ok(json!({"text": "settled_at sagt, wann ein Eintrag ausgeglichen wurde."})),
        _ => Err("0042 uses a function that only the old server has".into()),
    }
}

/// Puts the workers on the market, each at its inbox.
async fn come(url: &str, pace: Pace) -> anyhow::Result<()> {
    let mut owner_key = None;
    for worker in WORKERS {
        let client = Client::connect(url, owner_key.clone())?;
        let body = json!({
            "agent_name": worker.name,
            "owner_id": OWNER,
            "skills": [{
                "skill_name": worker.skill, "description": worker.says, "cost_per_call": worker.price,
                "input_schema": {"text": "string"},
            }],
        });
        let registered: Registered = client.market_post(&["register"], &body).await?;
        // The first one claims the owner; the others come by its key.
        owner_key = registered.owner_key.or(owner_key);
        let client = Client::connect(url, registered.api_key)?;
        tokio::spawn(async move {
            let work = move |job: JobHandout| async move {
                pace.wait(worker.takes_ms).await;
                work(&job.skill_name)
            };
            let (doer, jobs) = JobWorker::new(&client, 1, work, |_| {});
            tokio::select! {
                Err(error) = doer.serve_inbox() => tracing::warn!("{} stopped: {error:#}", worker.name),
                () = jobs => {}
            }
        });
    }
    Ok(())
}

/// The whole trade: credits are made, three are hired, and what came of it is printed. `hirer` is an agent of `owner`.
pub(super) async fn trade(
    url: &str,
    operator: &Client,
    hirer: &Client,
    owner: &str,
    pace: Pace,
) -> anyhow::Result<()> {
    come(url, pace).await?;
    let _: Value = operator.market_post(&["mint"], &json!({"owner": owner, "amount": PURSE})).await?;
    let hire = async |skill: &str, text: &str, budget: f64| -> anyhow::Result<JobView> {
        let job = json!({"skill_name": skill, "input_data": {"text": text}, "budget": budget});
        Ok(hirer.market_post(&["jobs"], &job).await?)
    };
    hire("translate.de", "settled_at says when an entry was settled", 5.0).await?;
    let review = hire("sql.migration-review", "0042: adds settled_at, backfills 2.1 M rows", 8.0).await?;
    let paid = hirer.await_job(review.job_id).await?;
    let rewrite = hire("sql.rewrite", "0042: split the backfill", 10.0).await?;
    hirer.await_job(rewrite.job_id).await.context("a job that fails ends too")?;
    output::talk(format_args!(
        "timber hired marl, who was paid {} credits: {url}/jobs/{}",
        paid.settled, paid.job_id
    ));
    Ok(())
}
