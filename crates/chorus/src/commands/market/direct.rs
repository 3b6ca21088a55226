//! Hires an agent directly: the job goes to the agent's own address, and is paid by a transfer when it is
//! done.
//!
//! The payee and the paying wallet are determined before the job is sent, so that work is not left unpaid
//! because of a missing name.

use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use chorus_agent::{Client, ClientError, Environment, Network, Reach, amount_due, ask_directly};
use chorus_protocol::api::accounts::Me;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AgentId, TransferId};
use chorus_protocol::market::{
    CURRENCY, Credits, JobRequest, JobResult, JobStatus, MarketAgent, OwnerId, Timestamp, Transfer,
    TransferView, USUAL_DEADLINE_MS, WalletView,
};
use chorus_protocol::time::rfc3339;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;

/// The pauses between polls of an agent that is not done: the first, doubling up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The options for hiring directly.
#[derive(clap::Args)]
pub(super) struct WithoutHub {
    /// Hire the agent at its own address, and pay when the job is done; nothing is held
    #[arg(long)]
    pub(super) direct: bool,
    /// With --direct: the agent's URL for jobs [default: the endpoint of --agent, or of the best match]
    #[arg(long, value_name = "URL", requires = "direct")]
    endpoint: Option<String>,
    /// With --direct: the owner whose wallet pays [default: the account of the token]
    #[arg(long, value_name = "OWNER", requires = "direct", conflicts_with = "no_pay")]
    from: Option<String>,
    /// With --direct: do not pay
    #[arg(long, requires = "direct")]
    no_pay: bool,
    /// With --direct: also call discovered endpoints in this private address or network, such as 10.0.0.0/8.
    /// May be repeated
    #[arg(long, value_name = "NETWORK", env = "CHORUS_AGENT_ALLOW_PRIVATE", value_delimiter = ',')]
    allow_private: Vec<Network>,
}

/// The agent to hire: its endpoint, whether the user chose it, and its listing on the market.
struct Worker {
    endpoint: String,
    chosen: bool,
    listed: Option<MarketAgent>,
}

pub(super) async fn hire(
    global: &Global,
    direct: WithoutHub,
    mut job: JobRequest,
    wait: bool,
) -> anyhow::Result<ExitCode> {
    let client = global.client()?;
    let me = if global.has_key() { Some(client.api_get::<Me>(&["me"], &[]).await?) } else { None };
    let worker = find(&client, &direct, &job).await?;
    let payer = match (direct.no_pay, &me) {
        (true, _) => None,
        (false, me) => Some(payer(global, &client, me.as_ref(), direct.from, job.budget).await?),
    };
    job.agent_id = worker.listed.as_ref().map(|listed| listed.agent_id);
    // An owner's key belongs to no agent, so its wallet stands for it, as at the hub. Without a key the job's
    // id is used.
    job.orchestrator_id = me.and_then(|me| AgentId::parse(&me.id)).or(job.job_id.map(|id| AgentId(id.0)));
    job.currency = Some(CURRENCY.into());
    job.timestamp_utc = Some(Timestamp(rfc3339(Environment::system().now())));
    let reach = Reach::new(Some(global.url()), direct.allow_private);
    let result = ask(&worker, job.clone(), (!worker.chosen).then_some(&reach), wait).await?;
    let paid = match &payer {
        Some(payer) => pay(&client, payer, &worker, &job, &result).await,
        None => Ok(None),
    };
    // The result is shown, paid or not.
    show(global, &job, &result, paid.as_ref().ok().and_then(Option::as_ref))?;
    paid?;
    let done = match result.status {
        JobStatus::Success => true,
        JobStatus::Pending => !wait,
        JobStatus::Failure | JobStatus::Rejected => false,
    };
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn find(client: &Client, direct: &WithoutHub, job: &JobRequest) -> anyhow::Result<Worker> {
    let skill = job.skill_name.0.as_str();
    let listed = match (job.agent_id, &direct.endpoint) {
        (Some(id), _) => Some(listing(client, id).await?),
        (None, Some(_)) => None,
        (None, None) => {
            let most = job.budget.to_string();
            let found = client.discover(&[("skill", skill), ("max_cost", &most)]).await?;
            let best = found.agents.into_iter().find(|agent| agent.api_endpoint.is_some());
            let best = best.ok_or_else(|| {
                let what = format!("nobody with an address of its own offers {skill} for {most}");
                Explained::refused(what, "hire through the hub, without --direct, or name an --endpoint")
            })?;
            Some(listing(client, best.agent_id).await?)
        }
    };
    if let Some(listed) = &listed {
        let price = price(listed, skill).ok_or_else(|| {
            let what = format!("{} does not have the skill {skill} (SKILL_MISMATCH)", listed.agent_name);
            Explained::refused(what, "`chorus market discover --skill NAME` finds those that have it")
        })?;
        if price > job.budget {
            let what = format!("{} asks {price} for {skill} (BUDGET_INSUFFICIENT)", listed.agent_name);
            return Err(Explained::refused(what, "raise the --budget, or let others be found").into());
        }
    }
    let registered = || listed.as_ref().and_then(|listed| listed.api_endpoint.clone());
    let chosen = direct.endpoint.is_some();
    let endpoint = direct.endpoint.clone().or_else(registered).ok_or_else(|| {
        let what = "this agent has no address of its own: its jobs come to its inbox";
        Explained::refused(what, "hire it through the hub, without --direct")
    })?;
    Ok(Worker { endpoint, chosen, listed })
}

async fn listing(client: &Client, id: AgentId) -> Result<MarketAgent, ClientError> {
    client.market_get(&["agents", &id.to_string()], &[]).await
}

fn price(listed: &MarketAgent, skill: &str) -> Option<Credits> {
    let offered = listed.skills.iter().find(|offered| offered.skill_name.0 == skill);
    offered.map(|offered| offered.cost_per_call)
}

/// Returns the owner whose wallet pays, after checking that this key may spend from it and that the balance
/// suffices.
async fn payer(
    global: &Global,
    client: &Client,
    me: Option<&Me>,
    from: Option<String>,
    budget: Credits,
) -> anyhow::Result<String> {
    let kind = global.key_kind();
    if !matches!(kind, Some(SecretKind::OwnerKey | SecretKind::ApiToken)) {
        let what = "paying needs the key of an owner (cw_…) or the token of an account (ct_…)";
        return Err(Explained::usage(what, "show it with --key or CHORUS_KEY, or --no-pay").into());
    }
    // An owner's key does not name its owner.
    let account = me.filter(|_| kind == Some(SecretKind::ApiToken)).map(|me| me.id.clone());
    let from = from.or(account).ok_or_else(|| {
        Explained::usage("whose wallet pays?", "name the owner whose key this is with --from, or --no-pay")
    })?;
    let wallet: WalletView = client.market_get(&["wallets", &from], &[]).await?;
    if wallet.balance < budget {
        let what =
            format!("{from} has {} to spend, and the budget is {budget} (TRANSFER_FAILED)", wallet.balance);
        return Err(Explained::refused(what, "lower the --budget; the operator makes credits").into());
    }
    Ok(from)
}

/// Asks the agent to do the job. With `wait`, asks again until the job is done or its time is over; a repeated
/// job is the same job.
async fn ask(
    worker: &Worker,
    mut job: JobRequest,
    reach: Option<&Reach>,
    wait: bool,
) -> anyhow::Result<JobResult> {
    // Only a hub uses this member, so it is not sent.
    let limit = job.deadline_ms.take().unwrap_or(USUAL_DEADLINE_MS);
    let until = Instant::now() + Duration::from_millis(limit.max(0).unsigned_abs());
    let mut pause = FIRST_PAUSE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let result = ask_directly(&worker.endpoint, &job, reach, left).await?;
        if result.status != JobStatus::Pending || !wait || Instant::now() + pause >= until {
            return Ok(result);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Pays the amount due, once: the job's id is also the transfer's.
async fn pay(
    client: &Client,
    from: &str,
    worker: &Worker,
    job: &JobRequest,
    result: &JobResult,
) -> anyhow::Result<Option<TransferView>> {
    if result.status != JobStatus::Success {
        return Ok(None);
    }
    let listed = match (&worker.listed, result.agent_id) {
        (Some(listed), _) => listed.clone(),
        (None, Some(id)) => listing(client, id).await?,
        (None, None) => {
            let what = "it was done and is not paid: the result does not say by whom";
            return Err(Explained::failed(what, "the same again with --id and --agent pays it").into());
        }
    };
    let amount = amount_due(result, price(&listed, &job.skill_name.0), job.budget);
    if amount.is_zero() || listed.owner_id == from {
        return Ok(None);
    }
    let body = Transfer {
        transfer_id: TransferId(result.job_id.0),
        from_owner: OwnerId(from.to_owned()),
        to_owner: OwnerId(listed.owner_id),
        amount,
        job_id: Some(result.job_id),
        timestamp_utc: None,
    };
    Ok(Some(client.market_post(&["transfer"], &body).await?))
}

fn show(
    global: &Global,
    job: &JobRequest,
    result: &JobResult,
    paid: Option<&TransferView>,
) -> anyhow::Result<()> {
    if global.json {
        let mut shown = serde_json::to_value(result)?;
        shown["paid"] = json!(paid.map_or(Credits::ZERO, |paid| paid.amount));
        shown["transfer"] = json!(paid);
        return output::json(&shown);
    }
    let mut lines = vec![format!("{}  {}  {}", result.job_id, job.skill_name.0, result.status.as_str())];
    lines.extend(paid.map(|paid| format!("paid {} to {}", paid.amount, output::one_line(&paid.to_owner))));
    lines.extend(result.error_message.as_deref().map(output::one_line));
    lines.extend(result.output_data.as_ref().map(ToString::to_string));
    if result.status == JobStatus::Pending {
        output::talk(
            "the agent works on it; the same again with this --id asks how it stands, --wait until it is done",
        );
    }
    Ok(output::data(lines.join("\n"))?)
}
