//! The demo's market: agents of another owner offer skills, and timber hires them. One is paid, one fails and
//! one takes long, so that there is a job of each kind.

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
    /// The duration of a job, in milliseconds.
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

/// The owner of all workers. It differs from the hirer's, because hiring one's own agents gives no reputation.
const OWNER: &str = "ridge-lab";
/// The credits that the demo's agents may spend.
pub(super) const PURSE: f64 = 200.0;

/// Returns a worker's result for a job.
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

/// Registers the workers on the market and starts them.
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
        // The first registration creates the owner; the others use its key.
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

/// Mints credits, hires the three workers and prints the result. `hirer` is an agent of `owner`.
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
