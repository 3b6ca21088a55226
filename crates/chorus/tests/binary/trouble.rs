//! A full disk, a locked database, a database server that dies: the hub answers 503, recovers afterwards, and
//! loses no acknowledged message.

use crate::hub::{Hub, history, register, send, serve};
use chorus_testkit::{http, postgres};
use reqwest::Client;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Sends until the hub refuses persistently, and returns the acknowledged messages. Each refusal must be a
/// 503. A single one is not enough, because a checkpoint may free space once more.
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

/// Waits until the hub accepts a message again.
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

/// Writes beyond a file size fail, as on a full disk, until the limit is lifted.
#[tokio::test]
async fn a_file_that_cannot_grow() {
    let data = tempfile::tempdir().unwrap();
    let inner = serve(data.path(), None);
    let mut command = Command::new("sh");
    // Ignoring the signal turns it into a write error, as on a full disk.
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

/// A real full disk: a small file system in memory, if it may be mounted.
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
        // Lazily, because the hub may still be running.
        drop(Command::new("umount").arg("-l").arg(self.folder.path()).status());
    }
}

fn mount(args: &[&str], at: &Path) -> bool {
    let status = Command::new("mount").args(args).arg(at).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Another program holds the lock: the hub answers 503 after its timeout, and recovers afterwards.
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
    // Reads still work.
    assert_eq!(history(&http, &hub.url, &key).await, ["before"]);

    other.execute_batch("ROLLBACK").unwrap();
    until_it_works(&http, &hub.url, &key).await;
    assert_eq!(history(&http, &hub.url, &key).await, ["before", "again"]);
}

/// Beyond the store's queue, requests are refused at once; queued ones are completed later.
#[tokio::test]
async fn a_queue_that_is_full() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::start(data.path(), None);
    let http = http::client();
    let key = register(&http, &hub.url, "alice").await;
    // Warms the key cache, so that requests wait for the store only.
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

/// The database server dies and comes back: the hub recovers without a restart.
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
