//! The master key and the files of the data folder: refused starts, repaired permissions, and files that no
//! other user may read.

use crate::hub::{Hub, register, serve};
use chorus_testkit::{http, postgres};
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";

fn with_key(data: &Path, database: Option<&str>, key: &str) -> Command {
    let mut command = serve(data, database);
    command.env("CHORUS_MASTER_KEY", key);
    command
}

/// Runs a hub that must not start, and returns its standard error.
#[track_caller]
fn refused(mut command: Command) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it was not refused: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), b"".as_slice()), "{said}");
    said
}

fn stop(hub: Hub) {
    hub.signal("TERM");
    assert!(hub.wait().0.success());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn another_master_key_is_refused_before_anything_is_touched() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::run(with_key(data.path(), None, OLD));
    register(&http::client(), &hub.url, "alice").await;
    stop(hub);
    let file = data.path().join("chorus.db");
    let was = fs::read(&file).unwrap();
    let said = refused(with_key(data.path(), None, NEW));
    assert!(said.contains("made with another master key, not with the one in CHORUS_MASTER_KEY"), "{said}");
    assert!(said.contains("restore the old key, or set CHORUS_MASTER_KEY_PREVIOUS to it"), "{said}");
    // A key from a file is named by the file.
    fs::write(data.path().join("master.key"), NEW).unwrap();
    fs::set_permissions(data.path().join("master.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let said = refused(serve(data.path(), None));
    assert!(
        said.contains("not with the one in ") && said.contains("master.key; nothing was changed"),
        "{said}"
    );
    assert!(fs::read(&file).unwrap() == was, "the database was touched");
    fs::remove_file(data.path().join("master.key")).unwrap();

    // With the old key as the previous one, the new key takes over. From then on the old one is wrong.
    let mut both = with_key(data.path(), None, NEW);
    both.env("CHORUS_MASTER_KEY_PREVIOUS", OLD);
    stop(Hub::run(both));
    refused(with_key(data.path(), None, OLD));
    stop(Hub::run(with_key(data.path(), None, NEW)));
}

#[test]
fn nodes_with_different_master_keys() {
    let (data, database) = (tempfile::tempdir().unwrap(), postgres::database());
    let node = |key| with_key(data.path(), Some(&database.url), key);
    let first = Hub::run(node(OLD));
    let said = refused(node(NEW));
    assert!(said.contains("made with another master key"), "{said}");
    let second = Hub::run(node(OLD));
    drop((first, second));
}

#[test]
fn a_lost_master_key_is_not_replaced_in_silence() {
    let data = tempfile::tempdir().unwrap();
    stop(Hub::start(data.path(), None));
    let (key, kept) = (data.path().join("master.key"), data.path().join("kept.key"));
    fs::rename(&key, &kept).unwrap();
    let said = refused(serve(data.path(), None));
    assert!(said.contains("master.key is missing") && said.contains("restore it from a backup"), "{said}");
    assert!(!key.exists(), "no new one was made");
    fs::rename(&kept, &key).unwrap();
    stop(Hub::start(data.path(), None));
    // With `lost`, a new key is created.
    fs::remove_file(&key).unwrap();
    let mut lost = serve(data.path(), None);
    lost.env("CHORUS_MASTER_KEY_PREVIOUS", "lost");
    stop(Hub::run(lost));
    stop(Hub::start(data.path(), None));
}

#[tokio::test]
async fn the_files_are_nobody_elses() {
    let data = tempfile::tempdir().unwrap();
    // An existing folder that is readable by all, and an empty umask.
    fs::set_permissions(data.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let log = data.path().join("stderr");
    let run = || {
        let hub = serve(data.path(), None);
        let mut open = Command::new("sh");
        open.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(hub.get_program()).args(hub.get_args());
        for (name, value) in hub.get_envs() {
            match value {
                Some(value) => open.env(name, value),
                None => open.env_remove(name),
            };
        }
        let mails = format!("dir:{}", data.path().join("mails").display());
        open.env("CHORUS_MAIL", mails).stderr(fs::File::create(&log).unwrap());
        Hub::run(open)
    };
    let names = ["chorus.db", "chorus.db-wal", "chorus.db-shm", "chorus.db-lock", "master.key"];
    let hub = run();
    let signin = http::client().post(format!("{}/api/v1/signin", hub.url));
    signin.json(&json!({"email": "ann@mail.example"})).send().await.unwrap();
    for name in names {
        assert_eq!(mode(&data.path().join(name)), 0o600, "{name}");
    }
    let mails = data.path().join("mails");
    let deadline = Instant::now() + Duration::from_secs(20);
    let mail = loop {
        let mails = fs::read_dir(&mails).into_iter().flatten().map(|file| file.unwrap().path());
        if let Some(mail) = mails.into_iter().find(|path| path.extension().is_some_and(|ext| ext == "eml")) {
            break mail;
        }
        assert!(Instant::now() < deadline, "no mail came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((mode(&mails), mode(&mail)), (0o700, 0o600));
    assert!(!fs::read_to_string(&log).unwrap().contains("others on this machine"), "nothing was to mend");
    hub.kill9();

    // Files with wrong permissions are repaired, with a warning.
    for name in names.into_iter().filter(|name| *name != "master.key") {
        fs::set_permissions(data.path().join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let hub = run();
    for name in names {
        assert_eq!(mode(&data.path().join(name)), 0o600, "{name}");
    }
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("others on this machine could read this (mode 644)"), "{said}");
    stop(hub);
}

/// The log says why a mail was not sent.
#[tokio::test]
async fn a_mail_server_without_tls_gets_nothing() {
    let data = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("smtp://{}?tls=required", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example\r\n").unwrap();
        let mut said = vec![];
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            let ended = line.starts_with("QUIT");
            said.push(line);
            if ended || stream.write_all(b"250 ok\r\n").is_err() {
                break;
            }
        }
        said
    });
    let log = data.path().join("stderr");
    let mut command = serve(data.path(), None);
    command.env("CHORUS_MAIL", url).stderr(fs::File::create(&log).unwrap());
    let hub = Hub::run(command);
    let signin = http::client().post(format!("{}/api/v1/signin", hub.url));
    signin.json(&json!({"email": "ann@mail.example"})).send().await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !fs::read_to_string(&log).unwrap().contains("a mail could not be sent") {
        assert!(Instant::now() < deadline, "the log says nothing");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("STARTTLS is not supported on this server"), "{told}");
    drop(hub);
    let said = server.join().unwrap();
    assert!(!said.iter().any(|line| line.contains("ann@") || line == "DATA"), "{said:#?}");
}
