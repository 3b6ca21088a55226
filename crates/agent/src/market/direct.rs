//! Hires an agent without a hub: sends the document's job request to the agent's own address and determines
//! the payment.
//!
//! The agent is shown no key. Nothing is retried, because not every agent recognizes a repeated job.

use crate::answer::{ReadError, collect, retry_after};
use crate::client::{http_client, web_address};
use crate::direct::reason;
use crate::reach::Http;
use crate::{DirectError, Reach};
use chorus_outbound::Blocked;
use chorus_protocol::faults::Faults;
use chorus_protocol::market::{Credits, JobRequest, JobResult, JobStatus};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Url};
use serde::Deserialize;
use std::time::Duration;

/// The largest response that is read, in bytes, as for a hub.
const MAX_ANSWER: usize = 256 * 1024;
/// The longest reason that is passed on, in characters.
const MAX_REASON: usize = 2000;

/// Asks the agent at `endpoint` to do a job, and returns its answer: the result, or `PENDING`. With `reach`,
/// the address is called only if the policy allows it; `None` allows every address, for one that the user
/// chose.
pub async fn ask_directly(
    endpoint: &str,
    job: &JobRequest,
    reach: Option<&Reach>,
    limit: Duration,
) -> Result<JobResult, DirectError> {
    let url = jobs_url(endpoint).map_err(DirectError::Invalid)?;
    let http = match reach {
        Some(reach) => reach.http(&url),
        None => http_client(url.as_str()).map(Http::Free),
    };
    let blocked = |blocked| DirectError::Blocked { url: url.clone(), blocked };
    let unreachable = |source: reqwest::Error| match Blocked::cause_of(&source) {
        Some(cause) => blocked(cause.clone()),
        None => DirectError::Unreachable { url: url.clone(), source },
    };
    let request = http.map_err(DirectError::Setup)?.request(Method::POST, url.clone()).map_err(blocked)?;
    let odd = |what: String| DirectError::Protocol(format!("{url} did not answer as an agent does: {what}"));
    let body = serde_json::to_vec(job).map_err(|error| odd(error.to_string()))?;
    let request = request.header(CONTENT_TYPE, "application/json").body(body).timeout(limit);
    let response = request.send().await.map_err(unreachable)?;
    let (status, retry_after, otherwise) =
        (response.status(), retry_after(response.headers()), reason(&response));
    let answer = collect(response, MAX_ANSWER).await.map_err(|error| match error {
        ReadError::TooLarge => odd("more than 256 KiB".into()),
        ReadError::Broken(source) => unreachable(source),
    })?;
    if !status.is_success() {
        let detail = told(&answer).unwrap_or(otherwise);
        return Err(DirectError::Refused { url: url.clone(), status: status.as_u16(), detail, retry_after });
    }
    let result: JobResult = serde_json::from_slice(&answer).map_err(|error| odd(error.to_string()))?;
    if job.job_id.is_some_and(|id| id != result.job_id) {
        return Err(odd(format!("it is the result of the job {}", result.job_id)));
    }
    match (job.agent_id, result.agent_id) {
        (Some(asked), Some(other)) if asked != other => Err(odd(format!("it is the agent {other}"))),
        _ => Ok(result),
    }
}

/// Returns the payment for a result: its stated cost, or the listed `price` if it states none. The payment
/// never exceeds the budget, and is zero for a job that is not done.
pub fn amount_due(result: &JobResult, price: Option<Credits>, budget: Credits) -> Credits {
    match result.status {
        JobStatus::Success => result.execution_cost.or(price).unwrap_or_default().min(budget),
        JobStatus::Failure | JobStatus::Rejected | JobStatus::Pending => Credits::ZERO,
    }
}

/// Returns the URL for jobs at an endpoint.
fn jobs_url(endpoint: &str) -> Result<Url, Faults> {
    let form = "must be where an agent takes jobs, such as https://agent.example/jobs";
    let mut url = web_address(endpoint, form).map_err(|what| Faults::one("endpoint", what))?;
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&if path.ends_with("/jobs") { path } else { format!("{path}/jobs") });
    Ok(url)
}

/// Returns the reason of a refusal, if it has the market's error format.
fn told(answer: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        error: Reason,
    }
    #[derive(Deserialize)]
    struct Reason {
        code: String,
        message: String,
    }
    let Answer { error: Reason { code, message } } = serde_json::from_slice(answer).ok()?;
    Some(format!("{message} ({code})").chars().take(MAX_REASON).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn where_jobs_go() {
        for (endpoint, expected) in [
            ("https://agent-host:8443/jobs", "https://agent-host:8443/jobs"),
            ("https://agent.example", "https://agent.example/jobs"),
            ("https://agent.example/a/?k=v", "https://agent.example/a/jobs?k=v"),
        ] {
            assert_eq!(jobs_url(endpoint).unwrap().as_str(), expected);
        }
        assert!(jobs_url("agent.example").is_err());
    }

    #[test]
    fn what_is_paid() {
        let credits = |text: &str| Credits::parse(text).unwrap();
        for (status, cost, price, due) in [
            ("SUCCESS", Some("0.10"), Some("0.12"), "0.10"),
            ("SUCCESS", None, Some("0.12"), "0.12"),
            ("SUCCESS", None, None, "0"),
            ("SUCCESS", Some("7"), None, "0.15"),
            ("SUCCESS", Some("0"), Some("0.12"), "0"),
            ("FAILURE", Some("0.10"), Some("0.12"), "0"),
            ("PENDING", Some("0.10"), Some("0.12"), "0"),
        ] {
            let id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
            let mut result: JobResult =
                serde_json::from_value(json!({"job_id": id, "status": status})).unwrap();
            result.execution_cost = cost.map(credits);
            assert_eq!(amount_due(&result, price.map(credits), credits("0.15")), credits(due), "{status}");
        }
    }
}
