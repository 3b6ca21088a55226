//! A client for event streams that never reconnects and keeps no state between streams.
//!
//! It reads bytes only inside [`SseClient::next`], so an idle client is a slow reader, as some tests need.

use crate::http;
use chorus_protocol::sse::{Event, Item, Parser};
use reqwest::{Response, StatusCode, header};
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;

/// An open event stream.
#[derive(Debug)]
pub struct SseClient {
    response: Response,
    parser: Parser,
    /// Complete events that were not returned yet.
    ready: VecDeque<Event>,
    comments: Vec<String>,
    last_id: Option<String>,
    ended: bool,
}

impl SseClient {
    /// Opens the stream at `url`. A refusal is returned as its status and JSON body (`null` if it is not
    /// JSON).
    pub async fn open(
        url: &str,
        bearer: &str,
        last_event_id: Option<&str>,
    ) -> Result<Self, (StatusCode, Value)> {
        let mut request =
            http::client().get(url).bearer_auth(bearer).header(header::ACCEPT, "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("Last-Event-ID", id);
        }
        let response = request.send().await.expect("the server under test answers");
        if response.status() != StatusCode::OK {
            return Err((response.status(), response.json().await.unwrap_or_default()));
        }
        let kind = response.headers().get(header::CONTENT_TYPE).map(|kind| kind.as_bytes().to_owned());
        assert!(
            kind.as_ref().is_some_and(|kind| kind.starts_with(b"text/event-stream")),
            "not an event stream: {:?}",
            kind.map(|kind| String::from_utf8_lossy(&kind).into_owned())
        );
        Ok(Self {
            response,
            parser: Parser::new(),
            ready: VecDeque::new(),
            comments: Vec::new(),
            last_id: None,
            ended: false,
        })
    }

    /// Returns the next event, or `None` if none arrived in time or the stream [ended](Self::ended).
    pub async fn next(&mut self, timeout: Duration) -> Option<Event> {
        let event = tokio::time::timeout(timeout, self.read()).await.ok()??;
        if event.id.is_some() {
            self.last_id.clone_from(&event.id);
        }
        Some(event)
    }

    /// Reads the next event. Cancelling it loses no byte.
    async fn read(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let Ok(Some(piece)) = self.response.chunk().await else {
                self.ended = true;
                return None;
            };
            for item in self.parser.push(&piece).expect("a server under test sends events of bounded size") {
                match item {
                    Item::Event(event) => self.ready.push_back(event),
                    Item::Comment(comment) => self.comments.push(comment),
                    Item::Retry(_) => {}
                }
            }
        }
    }

    /// Returns the comments read so far.
    pub fn comments(&self) -> &[String] {
        &self.comments
    }

    /// Returns the id of the last event returned by [`Self::next`] that had one, for resuming.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns `true` if the server closed the stream, cleanly or not.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiver::{FakeAgent, Reply};
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn events_comments_and_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/events", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            let events = ": ping\n\nevent: a\nid: 7\ndata: 1\n\ndata: 2\n\nevent: cut";
            stream.write_all(format!("{head}{events}").as_bytes()).await.unwrap();
            String::from_utf8(request[..length].to_vec()).unwrap().to_lowercase()
        });
        let mut client = SseClient::open(&url, "secret", Some("6")).await.unwrap();
        let request = server.await.unwrap();
        assert!(request.contains("authorization: bearer secret") && request.contains("last-event-id: 6"));
        assert_eq!(client.next(SOON).await.unwrap().event, "a");
        assert_eq!(client.next(SOON).await.unwrap().data, "2");
        assert_eq!((client.comments(), client.last_id()), (&["ping".to_owned()][..], Some("7")));
        assert_eq!(client.next(SOON).await, None);
        assert!(client.ended());
    }

    #[tokio::test]
    async fn a_refusal_is_returned() {
        let agent = FakeAgent::start().await;
        agent.set(Reply::Json(401, json!({"code": "no"})));
        let refusal = SseClient::open(&agent.url(), "", None).await.unwrap_err();
        assert_eq!(refusal, (StatusCode::UNAUTHORIZED, json!({"code": "no"})));
    }
}
