//! Renders a job for each route: the document's job request, with the callback address for its result.

use super::job_result::of_body;
use super::service::{callback_url, service_name};
use bytes::Bytes;
use chorus_node::App;
use chorus_node::secrets::McpToken;
use chorus_protocol::channel::{Channel, McpServer, Message, Post};
use chorus_protocol::ids::{AgentId, ConversationId, JobId, TraceId};
use chorus_protocol::market::{JobHandout, JobStatus};
use chorus_protocol::words::Transport;
use chorus_store::market::jobs::{self, Agreed};
use chorus_store::push::Due;
use chorus_store::{StoreError, Tx, conversations, directory};

/// The time after a job's end for which its tools can be used.
const TOOLS_LIFE_MS: i64 = 24 * 60 * 60 * 1000;

/// Returns the URL for jobs at an endpoint.
pub fn url(endpoint: String) -> String {
    let (path, query) = match endpoint.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (endpoint.as_str(), String::new()),
    };
    let path = path.trim_end_matches('/');
    if path.ends_with("/jobs") { format!("{path}{query}") } else { format!("{path}/jobs{query}") }
}

/// Parses the stored job and adds the members that only its agent may see.
pub fn read(
    app: &App,
    agent: AgentId,
    epoch: i64,
    trace: TraceId,
    body: &str,
) -> Result<JobHandout, serde_json::Error> {
    let mut job: JobHandout = serde_json::from_str(body)?;
    job.callback_url = result_url(app, job.job_id, agent, epoch);
    job.trace_id = Some(trace.to_string());
    Ok(job)
}

/// Returns the callback URL for the result of a job. The address itself authenticates the reporter.
fn result_url(app: &App, job: JobId, agent: AgentId, epoch: i64) -> String {
    let token = app.config.master_key.job_token(job, agent, epoch);
    format!("{}/market/jobs/{job}/result/{token}", app.config.public_url)
}

/// Returns the data of SSE event `job` for an agent in this epoch. The history of its inbox shows the same.
pub fn data(
    app: &App,
    agent: AgentId,
    epoch: i64,
    trace: TraceId,
    body: &str,
) -> Result<String, serde_json::Error> {
    serde_json::to_string(&read(app, agent, epoch, trace, body)?)
}

/// Returns whether the job of this event has ended, so that it is no longer delivered.
pub fn has_ended(tx: &mut dyn Tx, body: &str) -> Result<bool, StoreError> {
    Ok(of_body(tx, body)?.is_none_or(|job| job.status != JobStatus::Pending))
}

/// Returns the body of the POST for a due job, or the reason why there is none.
pub fn pushed(tx: &mut dyn Tx, app: &App, due: &Due) -> Result<Result<Bytes, &'static str>, StoreError> {
    const GONE: &str = "the job is not kept any more";
    let unexpected = |error: serde_json::Error| StoreError::Unexpected(error.into());
    let Some(event) = conversations::event_by_id(tx, due.event)? else { return Ok(Err(GONE)) };
    let epoch = directory::by_id(tx, due.id.agent)?.map_or(0, |agent| agent.epoch);
    let job = read(app, due.id.agent, epoch, event.trace, &event.body).map_err(unexpected)?;
    let asked = match jobs::by_id(tx, job.job_id)? {
        None => return Ok(Err(GONE)),
        Some(asked) if asked.status != JobStatus::Pending => return Ok(Err("the job has ended")),
        Some(asked) => asked.agreed,
    };
    let body = match due.transport {
        Transport::Harness | Transport::Webhook | Transport::Inbox => serde_json::to_vec(&job),
        Transport::Channel => {
            serde_json::to_vec(&channel_post(app, due, &job, &asked, epoch).map_err(unexpected)?)
        }
    };
    Ok(Ok(body.map_err(unexpected)?.into()))
}

/// Renders a job for an agent that speaks the Channel Protocol only. Its reply is the result, or it calls the
/// tool that comes with the job.
fn channel_post(
    app: &App,
    due: &Due,
    job: &JobHandout,
    agreed: &Agreed,
    epoch: i64,
) -> Result<Post, serde_json::Error> {
    let input = serde_json::to_string_pretty(&job.input_data)?;
    let output = agreed
        .output_schema
        .as_ref()
        .map(|schema| format!("\n\nWhat the output data must be, as your skill declares it:\n{schema}"));
    let until = job.deadline_at.as_deref().unwrap_or("its deadline");
    let conversation = ConversationId::of_job(job.job_id);
    Ok(Post {
        channel: Channel {
            id: conversation.to_string(),
            name: Some(format!("job: {}", job.skill_name)),
            service: Some(service_name(app)),
            context: Some(format!(
                "You were hired for one job of your skill {:?}, for at most {} credits. Answer once, before {until}: with the \
                 output data as one JSON object and nothing else. A plain text is taken as {{\"text\": …}}. If you cannot do \
                 it, answer with an event of the type `error`, or with {{\"job_id\", \"status\": \"FAILURE\", \"error_message\"}}, \
                 or with the status \"REJECTED\" at once if you do not take it: \
                 an object with this job's job_id and a status is taken as the whole result. Or call the tool report_result of the MCP server that comes \
                 with this. Or POST the whole result, {{\"job_id\", \"status\", \"output_data\", \"execution_cost\"}}, to {}",
                job.skill_name, job.budget, job.callback_url
            )),
        },
        message: Message {
            id: format!("job_{}", job.job_id.0.simple()),
            sender: "market".into(),
            content: format!(
                "Job {}: {}\n\nInput data:\n{input}{}",
                job.job_id,
                job.skill_name,
                output.unwrap_or_default()
            ),
        },
        callback: callback_url(app, conversation, due.id, epoch),
        mcp: vec![tools(app, agreed, epoch)],
    })
}

/// Returns the tools of a job for its agent. They outlast the job, so that a late result gets an error that
/// says so.
fn tools(app: &App, job: &Agreed, epoch: i64) -> McpServer {
    let channel = ConversationId::of_job(job.id);
    let token = McpToken { agent: job.agent, channel, expires_at: job.deadline_at + TOOLS_LIFE_MS, epoch };
    let token = app.config.master_key.mcp_token(token);
    McpServer {
        url: format!("{}/mcp/jobs/{}", app.config.public_url, job.id),
        headers: [("Authorization".to_owned(), format!("Bearer {token}"))].into(),
        ..McpServer::default()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn jobs_have_their_path() {
        for (endpoint, expected) in [
            ("https://agent-host:8443/jobs", "https://agent-host:8443/jobs"),
            ("https://agent.example", "https://agent.example/jobs"),
            ("https://agent.example/", "https://agent.example/jobs"),
            ("https://agent.example/a/", "https://agent.example/a/jobs"),
            ("https://agent.example/a?k=v", "https://agent.example/a/jobs?k=v"),
        ] {
            assert_eq!(super::url(endpoint.into()), expected);
        }
    }
}
