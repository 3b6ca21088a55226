//! Moving a hub from one database to another, with all its data.

use crate::hub::{Hub, MASTER, OPERATOR, chorus, register, send, serve};
use chorus_store::{PostgresOptions, SqliteOptions, Store, StoreError, StreamKey, Tx};
use chorus_testkit::{http, postgres};
use reqwest::Client;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

pub(crate) fn start(data: &Path, database: Option<&str>) -> Hub {
    let mut command = serve(data, database);
    Hub::run({
        command.env("CHORUS_MASTER_KEY", MASTER).env("CHORUS_HOST_NAME", "hub.example");
        command
    })
}

pub(crate) async fn get(http: &Client, url: &str, key: &str) -> Value {
    let mut body: Value = http.get(url).bearer_auth(key).send().await.unwrap().json().await.unwrap();
    // The time of the request and the hub's address differ.
    if let Some(members) = body.as_object_mut() {
        members.remove("metadata");
    }
    body
}

/// Returns the hub's responses to all requests of a client, without new secrets.
async fn answers(http: &Client, hub: &Hub, keys: &[&str], paths: &[String]) -> Vec<Value> {
    let mut answers = vec![];
    for path in paths {
        for key in keys {
            let mut answer = get(http, &format!("{}{path}", hub.url), key).await;
            // Usage is counted in memory and written every second.
            if let Some(answer) = answer.as_object_mut() {
                answer.remove("quotas");
            }
            answers.push(answer);
        }
    }
    answers
}

#[track_caller]
pub(crate) fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

pub(crate) fn import(file: &Path, data: &Path, database: Option<&str>) -> Command {
    let mut command = chorus();
    command.arg("import").arg(file).arg("--data").arg(data);
    if let Some(url) = database {
        command.args(["--database", url]);
    }
    command
}

/// A partial import cannot be exported.
fn is_not_exported(data: &Path, database: &str, into: &Path) {
    let mut export = chorus();
    export.arg("export").arg(into).arg("--data").arg(data).args(["--database", database]);
    let refused = export.output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not finished"), "{refused:?}");
    assert!(refused.status.code() == Some(1) && !into.exists(), "{refused:?}");
}

#[tokio::test]
async fn out_of_sqlite_into_postgres_and_back() {
    let (first, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (http, database) = (http::client(), postgres::database());
    let hub = start(first.path(), None);
    let (alice, bob) = (register(&http, &hub.url, "alice").await, register(&http, &hub.url, "bob").await);
    let post = async |hub: &Hub, path: &str, key: &str, body: Value| -> Value {
        let answer =
            http.post(format!("{}{path}", hub.url)).bearer_auth(key).json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}");
        answer.json().await.unwrap()
    };
    let channel = post(&hub, "/api/v1/channels", &alice, json!({"name": "plans"})).await["id"].clone();
    let channel = format!("/api/v1/channels/{}", channel.as_str().unwrap());
    post(&hub, &format!("{channel}/members"), &alice, json!({"agent": "bob"})).await;
    for n in 0..700 {
        send(&http, &hub.url, &alice, ("alice", "bob"), &format!("message {n}"), None).await.unwrap();
        if n % 10 == 0 {
            let said = json!({"content": format!("@bob word{n} 下午")});
            post(&hub, &format!("{channel}/messages"), &alice, said).await;
        }
    }
    post(&hub, &format!("{channel}/artifacts"), &alice, json!({"slug": "notes", "content": "# Plans"})).await;
    let plot =
        json!({"slug": "plot", "content": "iVBORwD/", "encoding": "base64", "content_type": "image/png"});
    post(&hub, &format!("{channel}/artifacts"), &alice, plot).await;

    // A copy of the running hub works as a hub.
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    ran(chorus().arg("backup").arg(copy.join("chorus.db")).arg("--data").arg(first.path()));
    let paths: Vec<_> = [
        "/agents",
        "/agent/messages?limit=200",
        "/agent/messages?after=650",
        "/agent/sent",
        "/api/v1/me",
        "/api/v1/channels",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([
        channel.clone(),
        format!("{channel}/events?limit=200"),
        format!("{channel}/artifacts/notes"),
        format!("{channel}/artifacts/plot"),
        format!("{channel}/members"),
    ])
    .collect();
    let keys = [&*alice, &bob];
    let before = answers(&http, &hub, &keys, &paths).await;
    let next = before[2]["data"].as_array().unwrap().len();
    assert_eq!(next, 0, "alice got nothing");
    drop(hub);
    let copied = start(&copy, None);
    assert_eq!(answers(&http, &copied, &keys, &paths).await, before);
    drop(copied);

    let file = folder.path().join("hub.export");
    ran(chorus().arg("export").arg(&file).arg("--data").arg(first.path()));
    // The import is cut off in the middle, as if it was killed: its rows stay, the hub does not start, and the
    // import continues.
    let whole = fs::read(&file).unwrap();
    let half = folder.path().join("half.export");
    let end =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(n, _)| n + 1).nth(900).unwrap();
    fs::write(&half, &whole[..end]).unwrap();
    let second = tempfile::tempdir().unwrap();
    let url = &*database.url;
    let cut = import(&half, second.path(), Some(url)).output().unwrap();
    assert_eq!(cut.status.code(), Some(1), "{}", String::from_utf8_lossy(&cut.stderr));
    assert!(String::from_utf8_lossy(&cut.stderr).contains("cut off"));
    is_not_exported(second.path(), url, &folder.path().join("part.export"));
    let refused = serve(second.path(), Some(url)).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not finished"), "{refused:?}");
    let resumed = ran(&mut import(&file, second.path(), Some(url)));
    assert!(String::from_utf8_lossy(&resumed.stderr).contains("going on after line"), "{resumed:?}");
    // An import into a database with data is refused.
    let again = import(&file, second.path(), Some(url)).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("holds something already"), "{again:?}");

    let hub = start(second.path(), Some(url));
    assert_eq!(answers(&http, &hub, &keys, &paths).await, before);
    let sent = send(&http, &hub.url, &alice, ("alice", "bob"), "one more", None).await.unwrap();
    assert_eq!(sent.status(), 202);
    let last = get(&http, &format!("{}/agent/messages?after=690&kind=all", hub.url), &bob).await;
    assert_eq!(last["data"].as_array().unwrap().last().unwrap()["envelope"]["original_text"], "one more");
    drop(hub);

    // And back to SQLite.
    let (file, third) = (folder.path().join("again.export"), tempfile::tempdir().unwrap());
    ran(chorus().arg("export").arg(&file).arg("--data").arg(second.path()).args(["--database", url]));
    ran(&mut import(&file, third.path(), None));
    let hub = start(third.path(), None);
    let channels = get(&http, &format!("{}/api/v1/channels", hub.url), &bob).await;
    assert_eq!(channels["items"].as_array().unwrap().len(), 1);
    let accounts = get(&http, &format!("{}/api/v1/operator/overview", hub.url), OPERATOR).await;
    assert!(accounts.is_object());
}

#[test]
fn a_file_that_lost_a_line_is_refused() {
    let (first, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(start(first.path(), None));
    let file = folder.path().join("hub.export");
    ran(chorus().arg("export").arg(&file).arg("--data").arg(first.path()));
    let whole = fs::read_to_string(&file).unwrap();
    let row = whole.lines().position(|line| line.starts_with('[')).unwrap();
    let short: Vec<_> = whole.lines().enumerate().filter(|(n, _)| *n != row).map(|(_, line)| line).collect();
    fs::write(&file, short.join("\n")).unwrap();
    let data = folder.path().join("new");
    for _ in 0..2 {
        let refused = import(&file, &data, None).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(1) && said.contains("were exported: it was changed"), "{said}");
    }
    let refused = serve(&data, None).env("CHORUS_MASTER_KEY", MASTER).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not finished"), "{refused:?}");
}

#[test]
fn what_is_no_export_is_refused() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("x");
    for (text, told) in [
        ("", "cut off"),
        ("{}\n", "no export"),
        ("hello\n", "line 1"),
        (r#"{"chorus_export":1,"schema":1,"id":"x"}"#, "schema version 1"),
    ] {
        fs::write(&file, text).unwrap();
        let refused = import(&file, data.path(), None).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(told), "{text}: {refused:?}");
    }
    let nothing = chorus().args(["backup", "y", "--data"]).arg(folder.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("there is no database"));
}

/// A log with a wrong head is repaired in the database itself, of either kind.
#[tokio::test]
async fn doctor_repairs_the_head_of_the_log() {
    let (folder, database) = (tempfile::tempdir().unwrap(), postgres::database());
    let open = |database: Option<&str>| match database {
        Some(url) => Store::postgres(PostgresOptions::new(url, uuid::Uuid::from_u128(1))).unwrap(),
        None => Store::sqlite(SqliteOptions::file(folder.path().join("chorus.db"))).unwrap(),
    };
    for url in [None, Some(&*database.url)] {
        let damage = |tx: &mut dyn Tx| tx.next_seq(StreamKey::LOG);
        assert_eq!(open(url).write::<_, StoreError, _>(damage).await.unwrap(), 1);
        let doctor = || {
            let mut doctor = chorus();
            doctor.args(["doctor", "--repair-log", "--data"]).arg(folder.path());
            doctor.args(url.into_iter().flat_map(|url| ["--database", url]));
            let output = ran(&mut doctor);
            String::from_utf8(output.stdout).unwrap()
        };
        let said = doctor();
        assert!(
            said.contains("the head of the log is 0 again, the number of its leaves; it was 1"),
            "{said}"
        );
        assert!(doctor().contains("the head of the log is 0, as it was"));
        let head = open(url).read::<_, StoreError, _>(|tx: &mut dyn Tx| tx.head(StreamKey::LOG)).await;
        assert_eq!(head.unwrap(), 0);
    }
}
