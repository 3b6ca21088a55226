//! Announces the agent's connection string: to a person when it is new, and to the hub, which would otherwise
//! queue messages for an inbox that is not read.
//!
//! An unreachable hub is retried until it answers. A connection string that the hub already has is not set
//! again, since that would end all callbacks issued under it; the hub is only told that the agent is back.

use super::activity::{Activity, Observer};
use super::error::{HarnessError, sentence};
use super::home::Home;
use crate::client::web_address;
use crate::{Backoff, Client, ClientError, ConnectionSecret, Method};
use chorus_environment::Environment;
use chorus_protocol::api::agents::{AgentView, EndpointUrl, NewConnection};
use chorus_protocol::faults::Faults;
use chorus_protocol::words::ConnectionState;
use serde::de::IgnoredAny;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::sleep;

const BACKOFF: Backoff = Backoff { base_ms: 1000, max_ms: 30_000 };

/// Returns the base URL of the connection string: the given one, or the server's own address.
pub(super) fn base_url(given: Option<&str>, listens: SocketAddr) -> Result<String, HarnessError> {
    let fault = |what| HarnessError::Invalid(Faults::one("connection_url", what));
    match given {
        Some(given) => {
            let form = "must be this server as services reach it, such as https://agent.example";
            let url =
                web_address(given, form).and_then(|url| url.query().is_none().then_some(url).ok_or(form));
            url.map(String::from).map_err(fault)
        }
        None if listens.ip().is_unspecified() => Err(fault(
            "is needed: the server listens on all addresses, and nobody can tell by which one services reach it",
        )),
        None => Ok(format!("http://{listens}")),
    }
}

/// A connection string to announce; see the [module](self).
pub(super) struct Announcement {
    pub(super) hub: Option<Client>,
    pub(super) home: Home,
    pub(super) secret: ConnectionSecret,
    pub(super) connection_string: String,
    pub(super) environment: Environment,
}

impl Announcement {
    /// Shows the connection string if it is new. Returns `true` if it was shown before.
    pub(super) fn show(&self, observer: &Observer) -> Result<bool, HarnessError> {
        let told_before = self.home.told_connection()?.as_ref() == Some(&self.connection_string);
        observer.tell(Activity::Connection {
            connection_string: (!told_before).then(|| self.connection_string.clone()),
            kept_in: self.home.connection_file().display().to_string(),
        });
        if self.hub.is_none() {
            self.home.keep_connection(&self.secret, &self.connection_string)?;
        }
        Ok(told_before)
    }

    /// Tells the hub the connection string, retrying while the hub is unreachable.
    pub(super) async fn tell_hub(&self, told_before: bool, observer: &Observer) {
        let Some(hub) = &self.hub else { return };
        let mut failures = 0;
        while let Err(error) = self.tell(hub, told_before).await {
            let passes = error.transient().is_some();
            if failures == 0 || !passes {
                observer.tell(Activity::Unannounced { why: sentence(&error) });
            }
            if !passes {
                return;
            }
            let pause = BACKOFF.delay_ms(failures, self.environment.random_u64());
            sleep(Duration::from_millis(pause)).await;
            failures = failures.saturating_add(1);
        }
        if let Err(error) = self.home.keep_connection(&self.secret, &self.connection_string) {
            observer.tell(Activity::Skipped { what: sentence(&error) });
        }
        observer.tell(Activity::Announced);
    }

    async fn tell(&self, hub: &Client, told_before: bool) -> Result<(), ClientError> {
        let agent = ["agents", self.home.name()];
        let known: AgentView = hub.api_get(&agent, &[]).await?;
        let is_set = known.connection.is_none_or(|connection| connection.state != ConnectionState::None);
        let (method, path, body) = if told_before && is_set {
            (Method::POST, &["connection", "mend"][..], None)
        } else {
            let connection_string = EndpointUrl(self.connection_string.clone());
            (Method::PUT, &["connection"][..], Some(json!(NewConnection { connection_string })))
        };
        let answer = hub.api_write::<IgnoredAny>(method, &[&agent, path].concat(), &[], body.as_ref()).await;
        answer.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_services_reach_it() {
        let base =
            |given, listens: &str| base_url(given, listens.parse().unwrap()).map_err(|e| e.to_string());
        assert_eq!(base(None, "127.0.0.1:80").unwrap(), "http://127.0.0.1:80");
        assert_eq!(base(Some("https://a.example"), "0.0.0.0:80").unwrap(), "https://a.example/");
        for all in ["0.0.0.0:80", "[::]:80"] {
            assert!(base(None, all).unwrap_err().starts_with("connection_url: is needed: "));
        }
        for none in ["agent.example", "ftp://agent.example", "https://a.example/?x"] {
            assert!(base(Some(none), "127.0.0.1:80").unwrap_err().starts_with("connection_url: must be"));
        }
    }
}
