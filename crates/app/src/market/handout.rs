//! A job in the language of each way: the document's job request, with the address that takes its result.

use crate::app::App;
use crate::delivery::service::{callback_url, service_name};
use bytes::Bytes;
use chorus_protocol::channel::{Channel, Message, Post};
use chorus_protocol::ids::{AgentId, ConversationId, JobId, TraceId};
use chorus_protocol::market::{JobHandout, JobStatus};
use chorus_protocol::words::Transport;
use chorus_store::deliveries::Entry;
use chorus_store::market::jobs;
use chorus_store::push::Due;
use chorus_store::{StoreError, Tx, conversations, directory};
use serde_json::value::RawValue;

/// Where jobs are POSTed to at an endpoint.
pub fn url(endpoint: String) -> String {
    let (path, query) = match endpoint.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (endpoint.as_str(), String::new()),
    };
    let path = path.trim_end_matches('/');
    if path.ends_with("/jobs") { format!("{path}{query}") } else { format!("{path}/jobs{query}") }
}

/// The job as it is kept, with what only its agent may know.
fn read(app: &App, agent: AgentId, trace: TraceId, body: &str) -> Result<JobHandout, serde_json::Error> {
    let mut job: JobHandout = serde_json::from_str(body)?;
    job.callback_url = result_url(app, job.job_id, agent);
    job.trace_id = Some(trace.to_string());
    Ok(job)
}

/// Where the result of a job is POSTed to: the address is the proof.
pub fn result_url(app: &App, job: JobId, agent: AgentId) -> String {
    let token = app.config.master_key.job_token(job, agent);
    format!("{}/market/jobs/{job}/result/{token}", app.config.public_url)
}

/// The data of SSE event `job`.
pub fn data(app: &App, agent: AgentId, trace: TraceId, body: &str) -> Result<String, serde_json::Error> {
    serde_json::to_string(&read(app, agent, trace, body)?)
}

/// The same as the history shows it, where the address for results is not given out again.
pub fn kept(entry: &Entry) -> Result<Box<RawValue>, StoreError> {
    RawValue::from_string(entry.body.clone()).map_err(|error| StoreError::Unexpected(error.into()))
}

/// What is POSTed of a job whose turn it is, or why nothing is.
pub fn pushed(tx: &mut dyn Tx, app: &App, due: &Due) -> Result<Result<Bytes, &'static str>, StoreError> {
    const GONE: &str = "the job is not kept any more";
    let unexpected = |error: serde_json::Error| StoreError::Unexpected(error.into());
    let Some(event) = conversations::event_by_id(tx, due.event)? else { return Ok(Err(GONE)) };
    let job = read(app, due.id.agent, event.trace, &event.body).map_err(unexpected)?;
    match jobs::by_id(tx, job.job_id)? {
        None => return Ok(Err(GONE)),
        Some(job) if job.status != JobStatus::Pending => return Ok(Err("the job has ended")),
        Some(_) => {}
    }
    let body = match due.transport {
        Transport::Harness | Transport::Webhook | Transport::Inbox => serde_json::to_vec(&job),
        Transport::Channel => {
            let epoch = directory::by_id(tx, due.id.agent)?.map_or(0, |agent| agent.epoch);
            serde_json::to_vec(&channel_post(app, due, &job, epoch).map_err(unexpected)?)
        }
    };
    Ok(Ok(body.map_err(unexpected)?.into()))
}

/// A job for an agent that knows the Channel Protocol only: what it says back is the result.
fn channel_post(app: &App, due: &Due, job: &JobHandout, epoch: i64) -> Result<Post, serde_json::Error> {
    let input = serde_json::to_string_pretty(&job.input_data)?;
    let until = job.deadline_at.as_deref().unwrap_or("its deadline");
    let conversation = ConversationId::of_job(job.job_id);
    Ok(Post {
        channel: Channel {
            id: conversation.to_string(),
            name: Some(format!("job: {}", job.skill_name)),
            service: Some(service_name(app)),
            context: Some(format!(
                "You were hired for one job of your skill {:?}, for at most {} credits. Answer once, before {until}: with the \
                 output data as one JSON object and nothing else. A plain text is taken as {{\"text\": …}}. Answer with an \
                 event of the type `error` if you cannot do it.",
                job.skill_name, job.budget
            )),
        },
        message: Message {
            id: format!("job_{}", job.job_id.0.simple()),
            sender: "market".into(),
            content: format!("Job {}: {}\n\nInput data:\n{input}", job.job_id, job.skill_name),
        },
        callback: callback_url(app, conversation, due.id, epoch),
        mcp: vec![],
    })
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
