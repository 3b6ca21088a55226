//! A server with TLS: which certificates are trusted, and the errors.

use crate::support::{PATIENCE, fresh, fresh_stream, read, write};
use chorus_store::{PostgresOptions, Store, StoreError, TxExt, settings};
use chorus_testkit::authority::Authority;
use chorus_testkit::postgres::{Cluster, own_cluster};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Secured {
    cluster: Cluster,
    folder: TempDir,
}

impl Secured {
    fn start(names: &[&str]) -> Self {
        let (cluster, folder) = (own_cluster(), tempfile::tempdir().unwrap());
        let authority = Authority::new();
        cluster.offer_tls(&authority.certify(names));
        std::fs::write(folder.path().join("ca.pem"), authority.certificate()).unwrap();
        std::fs::write(folder.path().join("other.pem"), Authority::new().certificate()).unwrap();
        Self { cluster, folder }
    }

    fn url(&self, host: &str, rest: &str) -> String {
        format!("postgres://postgres@{host}:{}/postgres?{rest}", self.cluster.port())
    }

    fn roots(&self, file: &str) -> String {
        format!("sslrootcert={}", self.folder.path().join(file).display())
    }
}

fn refusal(url: &str) -> String {
    match Store::postgres(PostgresOptions::new(url, fresh())).err() {
        Some(error @ StoreError::Open { .. }) => {
            format!("{error}: {}", std::error::Error::source(&error).unwrap())
        }
        other => panic!("{url} is not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_goes_over_tls() {
    let server = Secured::start(&["localhost", "127.0.0.1"]);
    for host in ["localhost", "127.0.0.1"] {
        let url = server.url(host, &format!("sslmode=verify-full&{}", server.roots("ca.pem")));
        let open = || Store::postgres(PostgresOptions::new(&url, fresh())).unwrap();
        let (store, other) = (open(), open());
        let heard = Arc::new(Mutex::new(vec![]));
        other.on_commit(Box::new({
            let heard = Arc::clone(&heard);
            move |stream, _| heard.lock().unwrap().push(stream)
        }));
        write(&store, |tx| settings::set(tx, "n", "1")).await;
        assert_eq!(read(&other, |tx| settings::get(tx, "n")).await.as_deref(), Some("1"));
        // Notifications may be lost while the other one is still connecting.
        let (stream, deadline) = (fresh_stream(), Instant::now() + PATIENCE);
        while !heard.lock().unwrap().contains(&stream) {
            assert!(Instant::now() < deadline, "the other node is deaf");
            write(&store, move |tx| tx.next_seq(stream)).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let plain = read(&store, |tx| {
            let sql = "SELECT count(*) FILTER (WHERE s.ssl) AS sealed, count(*) FILTER (WHERE NOT s.ssl) AS open
                       FROM pg_stat_ssl s JOIN pg_stat_activity a ON a.pid = s.pid WHERE a.application_name = 'chorus'";
            let mut row = tx.first(sql, &[])?.unwrap();
            Ok((row.int("sealed")?, row.int("open")?))
        });
        let (encrypted, plain) = plain.await;
        assert!(encrypted >= 4 && plain == 0, "{encrypted} connections with TLS, {plain} without");
        assert_eq!(PostgresOptions::new(&url, fresh()).peek("n").unwrap().as_deref(), Some("1"));
    }
}

#[test]
fn a_stranger_is_refused_and_the_reason_helps() {
    let server = Secured::start(&["db.example"]);
    let ca = server.roots("ca.pem");
    // The certificate is verified in every mode.
    for mode in ["require", "verify-ca", "verify-full", "prefer"] {
        let told = refusal(&server.url("localhost", &format!("sslmode={mode}&{ca}")));
        assert!(told.contains("the server's certificate is for another host"), "{told}");
        let at = format!("hostaddr=127.0.0.1&sslmode={mode}&{}", server.roots("other.pem"));
        let told = refusal(&server.url("db.example", &at));
        assert!(told.contains("name the CA's certificate with sslrootcert=FILE"), "{told}");
        let told = refusal(&server.url("db.example", &format!("hostaddr=127.0.0.1&sslmode={mode}")));
        assert!(told.contains("nobody this machine trusts"), "{told}");
    }
    let right = server.url("db.example", &format!("hostaddr=127.0.0.1&sslmode=require&{ca}"));
    assert!(Store::postgres(PostgresOptions::new(right, fresh())).is_ok());
    let told = refusal(&server.url("localhost", &server.roots("none.pem")));
    assert!(told.contains("cannot use sslrootcert"), "{told}");
    // A server on this machine need not have TLS.
    assert!(Store::postgres(PostgresOptions::new(server.cluster.url(), fresh())).is_ok());
}

#[test]
fn a_server_without_tls_is_refused_unless_the_url_says_so() {
    let cluster = own_cluster();
    let url = |rest: &str| {
        format!("postgres://postgres@db.example:{}/postgres?hostaddr=127.0.0.1{rest}", cluster.port())
    };
    let told = refusal(&url("&sslmode=require"));
    assert!(told.contains("the server offers no TLS") && told.contains("sslmode=disable"), "{told}");
    for mode in ["disable", "prefer"] {
        assert!(Store::postgres(PostgresOptions::new(url(&format!("&sslmode={mode}")), fresh())).is_ok());
    }
}
