//! `chorus market`: offering skills, finding and hiring agents, and payments.

mod direct;
mod money;
mod pipeline;
mod work;

use crate::answer::{list, or_dash, tell};
use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use chorus_agent::Client;
use chorus_protocol::ids::{AgentId, JobId};
use chorus_protocol::market::{
    Credits, Found, JobRequest, JobStatus, JobView, Offer, OwnerId, QuoteRequest, QuoteView, Registered,
    Registration, ReputationView, Skill, SkillName, Text,
};
use clap::Subcommand;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// The pause between polls for offers.
const LOOK: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  chorus market register Analyst --owner acme --skill analyze_text=0.10
  chorus market discover --skill analyze_text --max-cost 0.20
  chorus market hire analyze_text --budget 0.15 --input '{\"text\": \"Revenue: $42,000\"}' --wait
  chorus market work ./analyze.py                   serve jobs: input data in, output data out
  chorus market hire analyze_text --budget 0.15 --direct --from acme     straight from an agent
  chorus market quote analyze_text                  what the best would do it for
  chorus market accept QUOTE AGENT                  takes one of these offers
  chorus market run PIPELINE.json                   jobs one after the other, within a budget
  chorus market jobs --status PENDING
  chorus market cancel JOB
  chorus market transfer --from acme --to bob 0.50
  chorus market wallet acme
  chorus market ledger --job JOB
  chorus market economy                             adds up what there is
  chorus market reputation AGENT                    the score, job by job, with reasons
  chorus market mint acme 100                       as the operator

Hiring needs the key of an agent on the market (ca_…) or of its owner (cw_…), paying the owner's.
A job's budget is held until it has ended; what it did not cost goes back. Give --id to send the
same job or transfer again: it is done once.";

/// Offer skills, find agents and hire them, pay and be paid.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Register an agent on the market: a new one, or an existing one by its key or its owner's
    Register {
        /// The agent's name, for people; its address is made of it
        name: String,
        /// The owner whose wallet is paid; its first use creates the owner and prints its key
        #[arg(long)]
        owner: Option<String>,
        /// A skill and the price of one job, as NAME=PRICE. May be repeated; not given for an agent that only
        /// hires
        #[arg(long = "skill", value_parser = priced)]
        skills: Vec<(String, Credits)>,
        /// The minimum deadline of a job, in milliseconds; shorter jobs are refused. Jobs without a deadline
        /// have 300000
        #[arg(long)]
        min_deadline_ms: Option<i64>,
        /// The URL to which jobs are POSTed [default: none, jobs wait in its inbox]
        #[arg(long)]
        endpoint: Option<String>,
        /// The agent's UUID [default: a new one]
        #[arg(long, value_parser = agent_id)]
        id: Option<AgentId>,
        /// The invitation code ci_… of a new agent, where sign-up is by invitation
        #[arg(long)]
        invitation: Option<String>,
    },
    /// Find agents by skill, ordered by reputation, then cost
    Discover {
        /// The skill they must have
        #[arg(long)]
        skill: Option<String>,
        /// Words in the agent's name, or the skill's name or description
        #[arg(long, short)]
        query: Option<String>,
        /// The minimum reputation
        #[arg(long)]
        min_reputation: Option<String>,
        /// The maximum cost of a job
        #[arg(long)]
        max_cost: Option<String>,
        /// Include agents without a recent heartbeat
        #[arg(long)]
        offline: bool,
        /// The maximum number of agents
        #[arg(long, default_value = "50")]
        limit: String,
    },
    /// Hire an agent through the hub, which holds the budget until the job has ended; or directly, with
    /// --direct
    Hire {
        /// The skill
        skill: String,
        /// The maximum cost
        #[arg(long, value_parser = Credits::parse)]
        budget: Credits,
        /// The input data, as JSON
        #[arg(long, default_value = "{}")]
        input: String,
        /// The agent to hire [default: the best match]
        #[arg(long, value_parser = agent_id)]
        agent: Option<AgentId>,
        /// The deadline in milliseconds [default: 300000]; some skills require a longer one
        #[arg(long)]
        deadline_ms: Option<i64>,
        /// The job's UUID; repeating it returns the same job
        #[arg(long, value_parser = job_id)]
        id: Option<JobId>,
        /// Wait for the result
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        direct: direct::WithoutHub,
    },
    /// Ask the best agents of a skill for a price and a time
    Quote {
        /// The skill
        skill: String,
        /// The maximum cost
        #[arg(long, value_parser = Credits::parse)]
        budget: Option<Credits>,
        /// The input data, as JSON
        #[arg(long)]
        input: Option<String>,
        /// The number of seconds to wait for answers; an agent that does not answer counts with its listed
        /// price
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=60))]
        wait: u8,
    },
    /// Accept an offer, which becomes a job at its price
    Accept {
        /// The UUID of the request for quotes
        quote: String,
        /// The agent that made the offer
        #[arg(value_parser = agent_id)]
        agent: AgentId,
        /// The price you saw; nothing is accepted if the offer has another price by now
        #[arg(long, value_parser = Credits::parse)]
        price: Option<Credits>,
    },
    /// List your jobs, or show one
    Jobs {
        /// The UUID of one job
        id: Option<String>,
        /// PENDING, SUCCESS or FAILURE
        #[arg(long)]
        status: Option<String>,
    },
    /// Cancel an open job
    Cancel {
        /// The job's UUID
        id: String,
    },
    /// Show an agent's reputation, and its changes
    Reputation {
        /// The agent's UUID
        agent: String,
    },
    Work(work::Work),
    Run(pipeline::Run),
    #[command(flatten)]
    Money(money::Command),
}

fn priced(text: &str) -> Result<(String, Credits), String> {
    let (name, price) = text.split_once('=').ok_or("must be NAME=PRICE, such as analyze_text=0.10")?;
    Ok((name.to_owned(), Credits::parse(price).map_err(|wrong| format!("the price {wrong}"))?))
}

fn agent_id(text: &str) -> Result<AgentId, String> {
    AgentId::parse(text)
        .ok_or_else(|| "must be the UUID of an agent; `chorus market discover` shows them".into())
}

fn job_id(text: &str) -> Result<JobId, String> {
    JobId::parse(text).ok_or_else(|| "must be a UUID".into())
}

fn json_of(what: &str, text: &str) -> anyhow::Result<Value> {
    let odd = |error: serde_json::Error| {
        Explained::usage(format!("{what} is no JSON: {error}"), "quote it: --input '{\"text\": \"…\"}'")
    };
    Ok(serde_json::from_str(text).map_err(odd)?)
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Register { name, owner, skills, min_deadline_ms, endpoint, id, invitation } => {
            let body = Registration {
                agent_id: id,
                agent_name: Text(name),
                owner_id: owner.map(OwnerId),
                api_endpoint: endpoint.map(chorus_protocol::api::agents::EndpointUrl),
                skills: plain_skills(skills, min_deadline_ms),
                version: Some("0.1".into()),
                timestamp_utc: None,
                invitation,
            };
            register(global, &body).await?;
        }
        Command::Discover { skill, query, min_reputation, max_cost, offline, limit } => {
            let offline = offline.then(|| "true".to_owned());
            let asked = [
                ("skill", skill),
                ("q", query),
                ("min_reputation", min_reputation),
                ("max_cost", max_cost),
                ("include_offline", offline),
                ("limit", Some(limit)),
            ];
            let asked: Vec<_> =
                asked.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
            let found: Value = global.client()?.market_get(&["discover"], &asked).await?;
            discovered(global, &found)?;
        }
        Command::Hire { skill, budget, input, agent, deadline_ms, id, wait, direct } => {
            let job = JobRequest {
                job_id: Some(id.unwrap_or_else(|| JobId(chorus_agent::Environment::system().uuid_v4()))),
                orchestrator_id: None,
                agent_id: agent,
                skill_name: SkillName(skill),
                input_data: json_of("--input", &input)?,
                budget,
                currency: None,
                callback_url: None,
                deadline_ms,
                timestamp_utc: None,
            };
            if direct.direct {
                return direct::hire(global, direct, job, wait).await;
            }
            return hire(global, &global.keyed_client()?, &job, wait).await;
        }
        Command::Quote { skill, budget, input, wait } => {
            let input_data = input.map(|input| json_of("--input", &input)).transpose()?;
            let skill_name = SkillName(skill);
            ask_for_offers(
                global,
                QuoteRequest {
                    orchestrator_id: None,
                    skill_name,
                    input_data,
                    budget,
                    limit: None,
                    valid_ms: None,
                    answer_ms: Some(i64::from(wait) * 1000),
                },
            )
            .await?;
        }
        Command::Accept { quote, agent, price } => {
            let offer = json!({"agent_id": agent, "price": price});
            let job: Value =
                global.keyed_client()?.market_post(&["quotes", &quote, "accept"], &offer).await?;
            tell(global, &job, |job: JobView| describe(&job))?;
        }
        Command::Jobs { id: Some(id), .. } => {
            let job: Value = global.keyed_client()?.market_get(&["jobs", &id], &[]).await?;
            tell(global, &job, |job: JobView| describe(&job))?;
        }
        Command::Jobs { id: None, status } => jobs(global, status.as_deref()).await?,
        Command::Cancel { id } => {
            let job: Value = global.keyed_client()?.market_post(&["jobs", &id, "cancel"], &json!({})).await?;
            tell(global, &job, |job: JobView| describe(&job))?;
        }
        Command::Reputation { agent } => {
            let thought: Value = global.client()?.market_get(&["reputation", &agent], &[]).await?;
            tell(global, &thought, |thought: ReputationView| with_steps(&thought))?;
        }
        Command::Run(run) => return pipeline::run(global, run).await,
        Command::Work(work) => return work::run(global, work).await,
        Command::Money(command) => money::run(global, command).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats a reputation and the changes that led to it.
fn with_steps(thought: &ReputationView) -> String {
    let declines = thought.decline_rate.map(|rate| format!(", declines {:.0} % of its jobs", rate * 100.0));
    let mut lines = vec![format!("{}{}", thought.reputation_score, declines.unwrap_or_default())];
    let steps = thought.changes.iter();
    lines.extend(steps.map(|step| format!("{}  {}  {}", step.at, step.job_id, step.arithmetic)));
    lines.join("\n")
}

/// Requests quotes and waits for the agents' answers until the time is over.
async fn ask_for_offers(global: &Global, asked: QuoteRequest) -> anyhow::Result<()> {
    let client = global.keyed_client()?;
    let mut quote = client.quote(&asked).await?;
    let looks = asked.answer_ms.unwrap_or(0) / LOOK.as_millis() as i64;
    for _ in 0..looks {
        if quote.offers.iter().all(|offer| offer.answered) {
            break;
        }
        tokio::time::sleep(LOOK).await;
        quote = client.offers(quote.quote_id).await?;
    }
    quoted(global, &serde_json::to_value(&quote)?)
}

/// Creates skills with a price and a minimum deadline only.
fn plain_skills(skills: Vec<(String, Credits)>, min_deadline_ms: Option<i64>) -> Vec<Skill> {
    let skill = |(name, cost_per_call)| Skill {
        skill_name: SkillName(name),
        description: None,
        cost_per_call,
        input_schema: None,
        output_schema: None,
        min_deadline_ms,
    };
    skills.into_iter().map(skill).collect()
}

async fn register(global: &Global, body: &Registration) -> anyhow::Result<()> {
    let answer: Value = global.client()?.market_post(&["register"], body).await?;
    tell(global, &answer, |made: Registered| {
        let mut lines = vec![format!("{}  {}  {}", made.status, made.agent_id, or_dash(made.address))];
        lines.extend(made.api_key.map(|key| format!("agent key, shown this once: {key}")));
        lines.extend(made.owner_key.map(|key| format!("owner key, shown this once: {key}")));
        lines.join("\n")
    })
}

fn discovered(global: &Global, found: &Value) -> anyhow::Result<()> {
    if global.json {
        return output::json(found);
    }
    let agents = found["agents"].as_array().cloned().unwrap_or_default();
    list(global, &agents, ["AGENT", "NAME", "SKILL", "COST", "REPUTATION", "STATUS"], |agent: Found| {
        [
            agent.agent_id.to_string(),
            agent.agent_name,
            agent.skill.skill_name,
            agent.skill.cost_per_call.to_string(),
            agent.reputation_score.to_string(),
            agent.status.to_string(),
        ]
    })
}

async fn hire(global: &Global, client: &Client, job: &JobRequest, wait: bool) -> anyhow::Result<ExitCode> {
    let mut hired = client.hire(job).await?;
    if wait {
        hired = client.await_job(hired.job_id).await?;
    }
    let failed = hired.status.known() == Some(JobStatus::Failure);
    tell(global, &serde_json::to_value(&hired)?, |job: JobView| describe(&job))?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn describe(job: &JobView) -> String {
    let mut lines = vec![
        format!("{}  {}  {}", job.job_id, job.skill_name, job.status),
        format!("agent {}; held {}, paid {}; until {}", job.agent_id, job.held, job.settled, job.deadline_at),
    ];
    lines.extend(job.error.as_ref().map(|error| format!("{}: {}", error.code, error.message)));
    lines.extend(job.note.as_ref().filter(|_| job.error.is_none()).cloned());
    let output = job.result.as_ref().and_then(|result| result.output_data.as_ref());
    lines.extend(output.map(ToString::to_string));
    lines.join("\n")
}

fn quoted(global: &Global, quote: &Value) -> anyhow::Result<()> {
    if global.json {
        return output::json(quote);
    }
    let shown: QuoteView = crate::answer::read(quote)?;
    output::talk(format!("offers {} stand until {}", shown.quote_id, output::one_line(&shown.valid_until)));
    let offers = quote["offers"].as_array().cloned().unwrap_or_default();
    list(global, &offers, ["AGENT", "NAME", "PRICE", "ANSWERED", "TAKES MS", "REPUTATION"], |offer: Offer| {
        [
            offer.agent_id.to_string(),
            offer.agent_name,
            offer.price.to_string(),
            if offer.answered { "yes".into() } else { "no".into() },
            or_dash(offer.expected_ms.map(|ms| ms.to_string())),
            offer.reputation_score.to_string(),
        ]
    })
}

async fn jobs(global: &Global, status: Option<&str>) -> anyhow::Result<()> {
    let query: Vec<_> = status.map(|status| ("status", status)).into_iter().collect();
    let items = global.all_market_items(&["jobs"], &query).await?;
    list(global, &items, ["JOB", "SKILL", "STATUS", "HELD", "PAID", "AGENT", "CREATED"], |job: JobView| {
        [
            job.job_id.to_string(),
            job.skill_name,
            job.status.to_string(),
            job.held.to_string(),
            job.settled.to_string(),
            job.agent_id.to_string(),
            job.created_at,
        ]
    })
}
