//! Choir's public API for clients: submitting evidence and reading public results.

use crate::{Client, ClientError, answer};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

/// Submits evidence with these headers, without retrying. Submitting the same bundle again is harmless: it
/// counts once.
pub async fn submit_evidence(
    client: &Client,
    path: &str,
    body: String,
    headers: &[(&str, String)],
) -> Result<Value, ClientError> {
    let mut request =
        client.request(Method::POST, client.url(path)?).header(CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    answer::read_any(client.call(request.body(body)).await?).await
}

/// Reads a public resource at a path of the hub.
pub async fn read_public(client: &Client, path: &str) -> Result<Value, ClientError> {
    answer::read_any(client.call(client.request(Method::GET, client.url(path)?)).await?).await
}
