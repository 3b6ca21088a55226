//! A disk that fills up, a database that is locked, a database server that dies: an honest 503, and service again
//! when it is over, with nothing lost that was acknowledged.

use crate::hub::{Hub, history, register, send, serve};
use chorus_testkit::{http, postgres};
use reqwest::Client;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Sends until the hub refuses and goes on refusing; returns what it acknowledged. Each refusal must be an honest
/// 503. One alone proves little: a checkpoint may make room once more.
async fn send_until_refused(http: &Client, url: &str, key: &str) -> Vec<String> {
    let (mut acknowledged, mut refused) = (vec![], 0);
    for n in 0..3000 {
        let text = format!("{n} {}", "x".repeat(8000));
        let answer = send(http, url, key, ("alice", "alice"), &text, None).await.unwrap();
        match answer.status().as_u16() {
            202 => {
                acknowledged.push(text);
                refused = 0;
            }
            503 => {
                assert!(answer.headers().contains_key("retry-after"));
                let body: Value = answer.json().await.unwrap();
                assert_eq!(body["error"]["code"], "ERR_OVERLOADED", "{body}");
                refused += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            status => panic!("answered with {status}"),
        }
        if refused == 60 {
            return acknowledged;
        }
    }
    panic!("3000 messages and no lasting refusal");
}

/// Waits until the hub takes a message again.
async fn until_it_works(http: &Client, url: &str, key: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while send(http, url, key, ("alice", "alice"), "again", None).await.unwrap().status() != 202 {
        assert!(Instant::now() < deadline, "the hub does not recover");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(http.get(format!("{url}/health")).send().await.unwrap().status(), 200);
}

async fn check_history(http: &Client, url: &str, key: &str, acknowledged: &[String]) {
    let history = history(http, url, key).await;
    let lost = acknowledged.iter().filter(|text| !history.contains(text)).count();
    assert_eq!(lost, 0, "{lost} of {} acknowledged messages are lost", acknowledged.len());
}

/// Writes past a size fail, as on a disk without room, until the limit is lifted.
#[tokio::test]
async fn a_file_that_cannot_grow() {
    let data = tempfile::tempdir().unwrap();
    let inner = serve(data.path(), None);
    let mut command = Command::new("sh");
    // Ignoring the signal turns it into an error of the write, as a full disk gives it.
    command.args(["-c", "trap '' XFSZ; ulimit -S -f 2048; exec \"$0\" \"$@\""]);
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let hub = Hub::run(command);
    let http = http::client();
    let key = register(&http, &hub.url, "alice").await;
    let acknowledged = send_until_refused(&http, &hub.url, &key).await;
    assert!(!acknowledged.is_empty());
    assert_eq!(http.get(format!("{}/health", hub.url)).send().await.unwrap().status(), 503);

    let lifted =
        Command::new("prlimit").args(["--pid", &hub.pid().to_string(), "--fsize=unlimited"]).status();
    assert!(lifted.unwrap().success());
    until_it_works(&http, &hub.url, &key).await;
    check_history(&http, &hub.url, &key, &acknowledged).await;
    hub.kill9();
    let hub = Hub::start(data.path(), None);
    check_history(&http, &hub.url, &key, &acknowledged).await;
}

/// A real disk without room: a small file system in memory, where we may mount one.
#[tokio::test]
async fn a_disk_that_is_full() {
    let Some(disk) = SmallDisk::mount(6) else {
        eprintln!("may not mount here; a_file_that_cannot_grow tests the same failure another way");
        return;
    };
    let hub = Hub::start(&disk.folder.path().join("data"), None);
    let http = http::client();
    let key = register(&http, &hub.url, "alice").await;
    let acknowledged = send_until_refused(&http, &hub.url, &key).await;
    assert!(!acknowledged.is_empty());
    assert_eq!(http.get(format!("{}/health", hub.url)).send().await.unwrap().status(), 503);

    disk.resize(64);
    until_it_works(&http, &hub.url, &key).await;
    check_history(&http, &hub.url, &key, &acknowledged).await;
    drop(hub);
}

struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(mib: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        mount(&["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"], folder.path())
            .then_some(Self { folder })
    }

    fn resize(&self, mib: u32) {
        assert!(mount(&["-o", &format!("remount,size={mib}m")], self.folder.path()));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because the hub may still be ending.
        drop(Command::new("umount").arg("-l").arg(self.folder.path()).status());
    }
}

fn mount(args: &[&str], at: &Path) -> bool {
    let status = Command::new("mount").args(args).arg(at).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Another program holds the lock: 503 once the patience is over, and service again after.
#[tokio::test]
async fn a_database_that_is_locked() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::start(data.path(), None);
    let http = http::client();
    let key = register(&http, &hub.url, "alice").await;
    assert_eq!(send(&http, &hub.url, &key, ("alice", "alice"), "before", None).await.unwrap().status(), 202);

    let other = rusqlite::Connection::open(data.path().join("chorus.db")).unwrap();
    other.busy_timeout(Duration::from_secs(5)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = send(&http, &hub.url, &key, ("alice", "alice"), "meanwhile", None).await.unwrap();
    assert_eq!(refused.status(), 503);
    let body: Value = refused.json().await.unwrap();
    assert!(body["error"]["message"].as_str().unwrap().contains("locked"), "{body}");
    // Reading goes on.
    assert_eq!(history(&http, &hub.url, &key).await, ["before"]);

    other.execute_batch("ROLLBACK").unwrap();
    until_it_works(&http, &hub.url, &key).await;
    assert_eq!(history(&http, &hub.url, &key).await, ["before", "again"]);
}

/// More than the store can queue: the rest is refused at once, the queued is done when it can be.
#[tokio::test]
async fn a_queue_that_is_full() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::start(data.path(), None);
    let http = http::client();
    let key = register(&http, &hub.url, "alice").await;
    // So that the key is known, and no request waits for anything but the store.
    assert!(history(&http, &hub.url, &key).await.is_empty());

    let other = rusqlite::Connection::open(data.path().join("chorus.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut sends = tokio::task::JoinSet::new();
    for n in 0..5000 {
        let (http, url, key) = (http.clone(), hub.url.clone(), key.clone());
        sends.spawn(async move {
            let text = format!("message {n}");
            let status =
                send(&http, &url, &key, ("alice", "alice"), &text, None).await.map(|a| a.status().as_u16());
            (text, status)
        });
    }
    let (first, status) = sends.join_next().await.unwrap().unwrap();
    assert_eq!(status.ok(), Some(503), "{first}");
    other.execute_batch("ROLLBACK").unwrap();
    let mut acknowledged = vec![];
    while let Some(ended) = sends.join_next().await {
        let (text, status) = ended.unwrap();
        match status.ok() {
            Some(202) => acknowledged.push(text),
            Some(503) => {}
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(!acknowledged.is_empty());
    until_it_works(&http, &hub.url, &key).await;
    check_history(&http, &hub.url, &key, &acknowledged).await;
}

/// The database server dies and comes back: the hub does not have to be started again.
#[tokio::test]
async fn a_postgres_that_dies() {
    let (data, cluster) = (tempfile::tempdir().unwrap(), postgres::own_cluster());
    let database = cluster.database();
    let hub = Hub::start(data.path(), Some(&database.url));
    let http = http::client();
    let key = register(&http, &hub.url, "alice").await;
    let before = send(&http, &hub.url, &key, ("alice", "alice"), "before", None).await.unwrap();
    assert_eq!(before.status(), 202);

    cluster.kill9();
    let refused = send(&http, &hub.url, &key, ("alice", "alice"), "meanwhile", None).await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(http.get(format!("{}/health", hub.url)).send().await.unwrap().status(), 503);

    cluster.start();
    until_it_works(&http, &hub.url, &key).await;
    let texts = history(&http, &hub.url, &key).await;
    assert!(texts.contains(&"before".to_owned()), "{texts:?}");
}
