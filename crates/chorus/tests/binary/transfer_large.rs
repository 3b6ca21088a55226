//! A large hub is moved, and the import is killed on its way. Afterwards all responses are as before, for
//! every cursor.

use crate::hub::{Hub, chorus, register, send};
use crate::transfer::{get, import, ran, start};
use chorus_testkit::{http, postgres};
use reqwest::Client;
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tokio::task::JoinSet;

/// The number of parallel senders.
const LANES: usize = 32;
/// The default number of messages; `CHORUS_TEST_MESSAGES` overrides it.
const MESSAGES: usize = 3000;

/// The number of lines after which an import reports its progress.
const TOLD_AFTER: usize = 5000;

fn messages() -> usize {
    std::env::var("CHORUS_TEST_MESSAGES").map_or(MESSAGES, |count| count.parse().unwrap())
}

/// Starts an import of a part of a file, kills it while it waits for the rest, and runs it again with the
/// whole file.
fn import_in_two_goes(file: &Path, data: &Path, database: Option<&str>) {
    let pipe = file.with_extension("pipe");
    ran(Command::new("mkfifo").arg(&pipe));
    let mut first = import(&pipe, data, database).stderr(Stdio::piped()).spawn().unwrap();
    // Opening a pipe waits for the other end.
    let mut writer = OpenOptions::new().write(true).open(&pipe).unwrap();
    let whole = fs::read(file).unwrap();
    let ends: Vec<_> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(n, _)| n + 1).collect();
    let part = ends.len() / 4 * 3;
    assert!(part > TOLD_AFTER + 500, "{part} lines are too few to be told of progress");
    writer.write_all(&whole[..ends[part]]).unwrap();
    let mut told = String::new();
    BufReader::new(first.stderr.take().unwrap()).read_line(&mut told).unwrap();
    assert!(told.ends_with(" rows\n"), "{told:?}");
    first.kill().unwrap();
    assert!(!first.wait().unwrap().success());
    drop(writer);
    let second = ran(&mut import(file, data, database));
    assert!(String::from_utf8_lossy(&second.stderr).contains("going on after line"), "{second:?}");
}

/// The requests and their responses.
type Answers = Vec<(String, Value)>;

/// Requests all pages of a list by their cursors.
async fn walk(http: &Client, hub: &Hub, key: &str, path: &str, answers: &mut Answers) {
    let mut next = None;
    loop {
        let after = next.map(|next| format!("&after={next}")).unwrap_or_default();
        let path = format!("{path}{after}");
        let answer = http.get(format!("{}{path}", hub.url)).bearer_auth(key).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        let cursor = answer["metadata"]["next"].as_str().or(answer["next"].as_str()).map(str::to_owned);
        answers.push((path.clone(), get(http, &format!("{}{path}", hub.url), key).await));
        next = cursor;
        if next.is_none() {
            return;
        }
    }
}

#[track_caller]
fn assert_same(now: &Value, before: &Value, path: &str) {
    assert_eq!(now, before, "{path}");
}

#[tokio::test]
async fn much_moves_although_it_is_killed() {
    let (folder, http, database) = (tempfile::tempdir().unwrap(), http::client(), postgres::database());
    let data = |name: &str| folder.path().join(name);
    let begun = Instant::now();
    let told = |what: &str| eprintln!("{what} after {:?}", begun.elapsed());
    let hub = start(&data("first"), None);
    let (alice, bob) = (register(&http, &hub.url, "alice").await, register(&http, &hub.url, "bob").await);
    let post = async |path: &str, body: Value| -> Value {
        let request = http.post(format!("{}/api/v1{path}", hub.url)).bearer_auth(&alice).json(&body);
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.json().await.unwrap()
    };
    let channel = post("/channels", json!({"name": "plans"})).await["id"].as_str().unwrap().to_owned();
    post(&format!("/channels/{channel}/members"), json!({"agent": "bob"})).await;
    let plot =
        json!({"slug": "plot", "content": "iVBORwD/", "encoding": "base64", "content_type": "image/png"});
    post(&format!("/channels/{channel}/artifacts"), plot).await;
    let count = messages();
    let mut all = JoinSet::new();
    for lane in 0..LANES {
        let (http, url, alice, channel) = (http.clone(), hub.url.clone(), alice.clone(), channel.clone());
        all.spawn(async move {
            for n in (lane..count).step_by(LANES) {
                let said = if n % 4 == 0 {
                    let path = format!("{url}/api/v1/channels/{channel}/messages");
                    let body = json!({"content": format!("@bob word{n} 下午")});
                    http.post(path).bearer_auth(&alice).json(&body).send().await
                } else {
                    send(&http, &url, &alice, ("alice", "bob"), &format!("message {n}"), None).await
                };
                assert!(said.unwrap().status().is_success());
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    told("said");

    let channel = format!("/api/v1/channels/{channel}");
    let (mut alices, mut bobs) = (vec![], vec![]);
    for path in ["/agent/sent?limit=200".to_owned(), format!("{channel}/events?limit=200")] {
        walk(&http, &hub, &alice, &path, &mut alices).await;
    }
    for path in [
        "/agent/messages?limit=200".to_owned(),
        format!("{channel}/members?limit=50"),
        format!("{channel}/artifacts?limit=50"),
        format!("{channel}/artifacts/plot?version=1"),
        "/api/v1/channels?limit=50".to_owned(),
        "/agents?limit=50".to_owned(),
    ] {
        walk(&http, &hub, &bob, &path, &mut bobs).await;
    }
    let read = bobs.iter().filter(|(path, _)| path.starts_with("/agent/messages"));
    let read: usize = read.map(|(_, answer)| answer["data"].as_array().unwrap().len()).sum();
    assert_eq!(read, count - count.div_ceil(4), "all envelopes");
    drop(hub);
    told("read");

    let mut from: (&str, Option<&str>) = ("first", None);
    for to in [("second", Some(&*database.url)), ("third", None)] {
        let file = folder.path().join(format!("{}.export", from.0));
        let mut export = chorus();
        export.arg("export").arg(&file).arg("--data").arg(data(from.0));
        if let Some(url) = from.1 {
            export.args(["--database", url]);
        }
        ran(&mut export);
        told("exported");
        import_in_two_goes(&file, &data(to.0), to.1);
        told("imported");
        let hub = start(&data(to.0), to.1);
        for (key, answers) in [(&alice, &alices), (&bob, &bobs)] {
            for (path, before) in answers {
                assert_same(&get(&http, &format!("{}{path}", hub.url), key).await, before, path);
            }
        }
        told("compared");
        from = to;
    }
}
