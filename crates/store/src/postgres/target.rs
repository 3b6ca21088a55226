//! The address of the server and the connection's security, from the database URL.
//!
//! TLS is always verified, and required unless the server is on this machine or the URL says `sslmode=disable`
//! or `sslmode=prefer`. The machine's certificates are trusted, or only those in `sslrootcert=FILE`.

use super::tls::{self, Tls};
use crate::StoreError;
use postgres::config::{Host, SslMode};
use postgres::{Client, NoTls};
use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::Config;
use url::form_urlencoded;

/// The time after which an unacknowledged transmission ends the connection.
const SILENCE: Duration = Duration::from_secs(15);
/// Success means committed to disk, whatever the server's default is.
const SETTINGS: &str =
    "SET synchronous_commit = on; SET client_min_messages = warning; SET lock_timeout = '10s'";

#[derive(Clone)]
pub(super) struct Target {
    config: Config,
    /// None for plain words.
    tls: Option<Tls>,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let open = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Open {
            what: "named by the database URL".into(),
            source,
        };
        let Url { rest, mode, roots } = Url::read(url);
        let mut config: Config = rest.parse().map_err(|error: postgres::Error| open(error.into()))?;
        let mode = match mode.as_deref() {
            Some("disable") => SslMode::Disable,
            Some("prefer") => SslMode::Prefer,
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(_) => {
                return Err(open(
                    "sslmode must be disable, prefer, require, verify-ca or verify-full".into(),
                ));
            }
            // A URL that names a certificate wants TLS.
            None if is_local(&config) && roots.is_none() => SslMode::Disable,
            None => SslMode::Require,
        };
        config.ssl_mode(mode);
        let tls = match mode {
            SslMode::Disable => None,
            _ => Some(Tls::new(roots.as_deref().map(Path::new)).map_err(open)?),
        };
        Ok(Self { config, tls })
    }

    fn config(&self) -> Config {
        let mut config = self.config.clone();
        config
            .application_name("chorus")
            .connect_timeout(Duration::from_secs(5))
            // A network that swallows everything must end as an error, not as a worker that waits for ever.
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(SILENCE);
        config
    }

    /// A connection that does one thing after the other.
    pub(super) fn connect(&self) -> Result<Client, postgres::Error> {
        let config = postgres::Config::from(self.config());
        let mut client = match &self.tls {
            Some(tls) => config.connect(tls.clone())?,
            None => config.connect(NoTls)?,
        };
        client.batch_execute(SETTINGS)?;
        Ok(client)
    }

    /// One that tells others of what is committed already: it does not wait for the disk, as it leaves nothing there.
    pub(super) fn connect_to_notify(&self) -> Result<Client, postgres::Error> {
        let mut client = self.connect()?;
        client.batch_execute("SET synchronous_commit = off")?;
        Ok(client)
    }

    /// A connection on which statements need not wait for the answers to those before them. It lives in `runtime`.
    pub(super) fn connect_in(&self, runtime: &Runtime) -> Result<tokio_postgres::Client, postgres::Error> {
        let config = self.config();
        runtime.block_on(async {
            // The error that ends the connection is returned to its next user.
            let client = if let Some(tls) = &self.tls {
                let (client, connection) = config.connect(tls.clone()).await?;
                drop(runtime.spawn(connection));
                client
            } else {
                let (client, connection) = config.connect(NoTls).await?;
                drop(runtime.spawn(connection));
                client
            };
            client.batch_execute(SETTINGS).await?;
            Ok(client)
        })
    }

    /// Does something on a connection of its own, in a thread of its own: the blocking client must not run inside the
    /// async runtime, from where stores may be opened.
    pub(super) fn alone<T: Send>(
        &self,
        work: impl FnOnce(&mut Client) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let run = || {
            let mut client = self.connect().map_err(|error| {
                let source = tls::explain(error);
                StoreError::Open { what: self.describe(), source }
            })?;
            work(&mut client)
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap_or(Err(StoreError::Panicked)))
    }

    /// The database for an error message: never the password.
    fn describe(&self) -> String {
        let hosts: Vec<String> = self.config.get_hosts().iter().map(|host| format!("{host:?}")).collect();
        format!("\"{}\" at {}", self.config.get_dbname().unwrap_or_default(), hosts.join(", "))
    }
}

/// A database URL without what our client does not know.
struct Url<'a> {
    rest: Cow<'a, str>,
    mode: Option<String>,
    roots: Option<String>,
}

impl<'a> Url<'a> {
    fn read(url: &'a str) -> Self {
        let mut read = Self { rest: url.into(), mode: None, roots: None };
        let Some((place, query)) = url.split_once('?') else { return read };
        let mut kept = vec![];
        for part in query.split('&') {
            match form_urlencoded::parse(part.as_bytes()).next() {
                Some((name, value)) if name == "sslmode" => read.mode = Some(value.into_owned()),
                Some((name, value)) if name == "sslrootcert" => read.roots = Some(value.into_owned()),
                _ => kept.push(part),
            }
        }
        read.rest = format!("{place}?{}", kept.join("&")).into();
        read
    }
}

/// Returns whether the connection stays on this machine.
fn is_local(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(std::net::IpAddr::is_loopback);
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
        Host::Unix(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_tls_is_required() {
        let mode = |url: &str| {
            let target = Target::parse(url).unwrap();
            assert_eq!(target.tls.is_none(), target.config.get_ssl_mode() == SslMode::Disable);
            target.config.get_ssl_mode()
        };
        for local in [
            "postgres://u@127.0.0.1:5432/d",
            "postgres://u@localhost/d",
            "postgres://u@[::1]/d",
            "postgres:///d?host=/run/postgresql",
        ] {
            assert_eq!(mode(local), SslMode::Disable, "{local}");
        }
        for remote in [
            "postgres://u@db.example/d",
            "postgres://u@10.0.0.1/d",
            "postgres://u@localhost,db.example/d",
            "postgres://u@localhost/d?hostaddr=10.0.0.1",
            "postgres://u@localhost/d?sslmode=require",
            "postgres://u@127.0.0.1/d?sslmode=verify-full",
            "postgres://u@db.example/d?sslmode=verify-ca&connect_timeout=3",
        ] {
            assert_eq!(mode(remote), SslMode::Require, "{remote}");
        }
        assert_eq!(mode("postgres://u@db.example/d?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://u@db.example/d?sslmode=prefer"), SslMode::Prefer);
        for wrong in
            ["postgres://u@db.example/d?sslmode=maybe", "postgres://u@h/d?sslrootcert=/nowhere/ca.pem"]
        {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_client_sees_only_what_it_knows() {
        let url =
            Url::read("postgres://u@h/d?sslmode=require&connect_timeout=3&sslrootcert=%2Fa%20b%2Fca.pem");
        assert_eq!(url.rest, "postgres://u@h/d?connect_timeout=3");
        assert_eq!((url.mode.as_deref(), url.roots.as_deref()), (Some("require"), Some("/a b/ca.pem")));
        assert_eq!(Url::read("postgres://u@h/d").rest, "postgres://u@h/d");
    }
}
