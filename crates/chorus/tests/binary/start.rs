//! Starting and stopping: one line when the hub is ready, one error message when it cannot start, nothing lost
//! when it stops.

use crate::hub::{Hub, OPERATOR, chorus, history, register, send, serve};
use chorus_testkit::{http, postgres};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs a hub that cannot start, and checks its error message.
#[track_caller]
fn refuses(mut command: Command, said: &str) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(output.stdout, b"");
    assert!(stderr.starts_with("error: ") && stderr.contains(said), "{stderr}");
}

#[tokio::test]
async fn a_term_drains_and_exits_0_with_one_line_printed() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::start(data.path(), None);
    let http = http::client();
    let key = register(&http, &hub.url, "alice").await;
    let inbox = http.get(format!("{}/agent/inbox", hub.url)).bearer_auth(&key).send().await.unwrap();
    let begun = Instant::now();
    hub.signal("TERM");
    // An open stream does not delay the exit.
    inbox.text().await.unwrap();
    let (status, rest) = hub.wait();
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest, "");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_second_term_exits_at_once() {
    let (data, receiver) = (tempfile::tempdir().unwrap(), chorus_testkit::receiver::FakeAgent::start().await);
    receiver.set(chorus_testkit::receiver::Reply::Hang);
    let hub = Hub::start(data.path(), None);
    let http = http::client();
    let key = register(&http, &hub.url, "alice").await;
    let body = serde_json::json!({"agent_id": "bob", "endpoint": receiver.url()});
    http.post(format!("{}/register", hub.url)).json(&body).send().await.unwrap();
    let (url, client) = (hub.url.clone(), http.clone());
    let sending = tokio::spawn(async move { send(&client, &url, &key, ("alice", "bob"), "x", None).await });
    receiver.wait_for(1, Duration::from_secs(10)).await;
    hub.signal("TERM");
    // After the first signal the webhook continues; it is still running.
    tokio::time::sleep(Duration::from_millis(200)).await;
    hub.signal("TERM");
    let (status, _) = hub.wait();
    assert_eq!(status.code(), Some(1));
    assert!(sending.await.unwrap().is_err());
}

/// Starts a hub under this limit of file descriptors.
fn limited(data: &Path, limit: &str) -> Hub {
    let (serve, mut command) = (serve(data, None), Command::new("sh"));
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]);
    command.arg(serve.get_program()).args(serve.get_args());
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stderr(fs::File::create(data.join("log")).unwrap());
    Hub::run(command)
}

/// With too few file descriptors, fewer connections are accepted, and a warning says so.
#[tokio::test]
async fn file_descriptors_are_raised_and_fit() {
    let (data, http) = (tempfile::tempdir().unwrap(), http::client());
    let hub = limited(data.path(), "-n 528");
    let silent: Vec<_> = (0..50).map(|_| TcpStream::connect(hub.url.trim_start_matches("http://"))).collect();
    let health = http.get(format!("{}/health", hub.url)).send().await.unwrap();
    assert_eq!((health.status().as_u16(), silent.len()), (200, 50));
    let log = fs::read_to_string(data.path().join("log")).unwrap();
    for said in ["limit=528", "needed=10704", "connections=60", "webhooks=20", "ulimit -Hn"] {
        assert!(log.contains(said), "{said}: {log}");
    }
    drop(hub);
    let hub = limited(data.path(), "-S -n 400");
    // The limit is raised before the first response.
    assert!(http.get(format!("{}/health", hub.url)).send().await.unwrap().status().is_success());
    let limits = fs::read_to_string(format!("/proc/{}/limits", hub.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let [soft, hard] = [3, 4].map(|n| files.split_whitespace().nth(n).unwrap());
    assert_eq!(soft, hard, "{files}");
}

#[tokio::test]
async fn the_operator_key_is_made_once_and_printed_once() {
    let data = tempfile::tempdir().unwrap();
    let mut printed = vec![];
    for _ in 0..2 {
        let log = data.path().join("stderr");
        let mut command = serve(data.path(), None);
        command.env_remove("CHORUS_OPERATOR_KEY").stderr(fs::File::create(&log).unwrap());
        let hub = Hub::run(command);
        let said = fs::read_to_string(&log).unwrap();
        printed.extend(said.split_whitespace().filter(|word| word.starts_with("co_")).map(str::to_owned));
        let body = serde_json::json!({"agent_id": "a", "endpoint": "https://a.invalid/"});
        let request = http::client().post(format!("{}/agents", hub.url)).bearer_auth(&printed[0]).json(&body);
        assert!(request.send().await.unwrap().status().is_success());
        hub.signal("TERM");
        assert!(hub.wait().0.success());
    }
    assert_eq!(printed.len(), 1, "printed at the first start only");
}

/// The link is printed with and without a given operator key.
#[tokio::test]
async fn a_link_that_signs_in_is_printed_at_the_first_start() {
    for given in [true, false] {
        let data = tempfile::tempdir().unwrap();
        for start in 0..2 {
            let log = data.path().join("stderr");
            let mut command = serve(data.path(), None);
            if !given {
                command.env_remove("CHORUS_OPERATOR_KEY");
            }
            command.env("CHORUS_SIGNUP", "closed").stderr(fs::File::create(&log).unwrap());
            let hub = Hub::run(command);
            let said = fs::read_to_string(&log).unwrap();
            let links: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("sign in: ")).collect();
            if start == 1 {
                assert_eq!(links, [] as [&str; 0], "{said}");
            } else {
                assert_eq!(links.len(), 1, "{said}");
                assert!(links[0].starts_with(&format!("{}/signin/ml_", hub.url)), "{said}");
                let button = http::client().post(links[0]).header("origin", &hub.url);
                assert_eq!(button.send().await.unwrap().status(), 303);
            }
            hub.signal("TERM");
            let (status, rest) = hub.wait();
            assert!(status.success() && rest.is_empty(), "nothing more on standard output: {rest}");
        }
    }
}

/// A hub that listens for other machines without a public URL warns about it, and prints no link that leads
/// nowhere.
#[tokio::test]
async fn who_listens_for_others_is_told_to_name_itself() {
    for (listen, public, here) in [
        ("0.0.0.0:0", None, "http://127.0.0.1:"),
        ("[::]:0", None, "http://[::1]:"),
        ("0.0.0.0:0", Some("https://hub.example"), "http://127.0.0.1:"),
        ("127.0.0.1:0", None, "http://127.0.0.1:"),
    ] {
        let data = tempfile::tempdir().unwrap();
        let log = data.path().join("stderr");
        let mut command = chorus();
        command.args(["serve", "--listen", listen, "--data"]).arg(data.path());
        command.env("CHORUS_LOG", "warn").stderr(fs::File::create(&log).unwrap());
        if let Some(url) = public {
            command.args(["--public-url", url]);
        }
        let hub = Hub::run(command);
        assert!(hub.url.starts_with(here), "{listen}: {}", hub.url);
        let said = fs::read_to_string(&log).unwrap();
        let warned = said.contains("warning: ") && said.contains("--public-url");
        assert_eq!(warned, public.is_none() && !listen.starts_with("127."), "{listen} {public:?}: {said}");
        let link = said.lines().find_map(|line| line.strip_prefix("sign in: ")).unwrap();
        assert!(link.starts_with(&format!("{}/signin/ml_", public.unwrap_or(&hub.url))), "{said}");
        let asked =
            |host: &str| http::client().get(format!("{}/health", hub.url)).header("host", host).send();
        assert_eq!(asked("localhost").await.unwrap().status(), 200);
        let any = asked("evil.example").await.unwrap().status() == 200;
        assert_eq!(any, warned, "{listen} {public:?}");
        if public.is_none() {
            assert_eq!(http::client().get(link).send().await.unwrap().status(), 200, "it works");
        }
    }
}

#[test]
fn what_cannot_start_says_why() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::start(data.path(), None);

    refuses(serve(data.path(), None), "another chorus process uses it");
    let mut taken = chorus();
    let elsewhere = tempfile::tempdir().unwrap();
    taken
        .args(["serve", "--listen", hub.url.strip_prefix("http://").unwrap(), "--data"])
        .arg(elsewhere.path());
    refuses(taken, "Address already in use");

    let mut wrong = serve(elsewhere.path(), None);
    wrong.env("CHORUS_SIGNUP", "maybe").env("CHORUS_RATE_LIMIT", "-1");
    refuses(wrong, "CHORUS_SIGNUP: must be open, invite or closed");

    let mut file = serve(elsewhere.path(), None);
    file.args(["--config", "/nonexistent/chorus.toml"]);
    refuses(file, "cannot read /nonexistent/chorus.toml");

    let mut unreachable = serve(elsewhere.path(), Some("postgres://user:hunter2@127.0.0.1:1/db"));
    let output = unreachable.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("Connection refused") && !said.contains("hunter2"), "{said}");

    let mut keyless = serve(elsewhere.path(), Some("postgres://127.0.0.1:1/db"));
    keyless.env_remove("CHORUS_MASTER_KEY");
    refuses(keyless, "the master key must be given");

    refuses(serve(std::path::Path::new("/proc/nowhere"), None), "cannot make the data folder");
}

#[test]
fn a_newer_database_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    drop(Hub::start(data.path(), None));
    let file = rusqlite::Connection::open(data.path().join("chorus.db")).unwrap();
    file.pragma_update(None, "user_version", 9999).unwrap();
    drop(file);
    refuses(serve(data.path(), None), "use a newer chorus");
}

#[test]
fn secrets_others_can_read_are_refused() {
    let data = tempfile::tempdir().unwrap();
    drop(Hub::start(data.path(), None));
    let key = data.path().join("master.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    refuses(serve(data.path(), None), "can be read by others");
}

#[tokio::test]
async fn settings_come_from_flag_environment_and_file() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("chorus.toml");
    fs::write(&file, "host_name = \"file.example\"\nretention_days = 7\n").unwrap();
    let mut command = serve(data.path(), None);
    command.arg("--config").arg(&file).env("CHORUS_HOST_NAME", "env.example");
    let hub = Hub::run(command);
    let health: serde_json::Value =
        http::client().get(format!("{}/health", hub.url)).send().await.unwrap().json().await.unwrap();
    assert_eq!(health["data"]["host"], "env.example");
    assert_eq!(health["data"]["retention_days"], 7);
}

/// A whole exchange on PostgreSQL with the real program, across a restart.
#[tokio::test]
async fn postgres_keeps_what_was_said() {
    let (data, database) = (tempfile::tempdir().unwrap(), postgres::database());
    let http = http::client();
    let hub = Hub::start(data.path(), Some(&database.url));
    let alice = register(&http, &hub.url, "alice").await;
    let bob = register(&http, &hub.url, "bob").await;
    let sent = send(&http, &hub.url, &alice, ("alice", "bob"), "hello", None).await.unwrap();
    assert_eq!(sent.status(), 202);
    hub.signal("TERM");
    assert!(hub.wait().0.success());
    let hub = Hub::start(data.path(), Some(&database.url));
    assert_eq!(history(&http, &hub.url, &bob).await, ["hello"]);
}

/// With sign-up by invitation, `chorus register` uses a code.
#[tokio::test]
async fn an_invitation_registers_one_agent() {
    let (data, http) = (tempfile::tempdir().unwrap(), http::client());
    let mut command = serve(data.path(), None);
    command.env("CHORUS_SIGNUP", "invite");
    let hub = Hub::run(command);
    let made = http.post(format!("{}/api/v1/invitations", hub.url)).bearer_auth(OPERATOR).json(&json!({}));
    let made: Value = made.send().await.unwrap().json().await.unwrap();
    let code = made["invitation"].as_str().unwrap();
    let register = |args: &[&str]| {
        let output = chorus().arg("register").args(args).env("CHORUS_URL", &hub.url).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = register(&["alice"]);
    assert!(status == Some(3) && said.contains("by invitation"), "{said}");
    let (status, said) = register(&["alice", "--invitation", code]);
    assert!(status == Some(0) && said.contains("registered"), "{said}");
    let (status, said) = register(&["bob", "--invitation", code]);
    assert!(status == Some(3) && said.contains("this invitation is used"), "{said}");
    let help = chorus().args(["register", "--help"]).output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("--invitation <CODE>"));
}
