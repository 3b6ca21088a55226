//! Channels, with the program itself: its commands, and pushed messages that survive `kill -9`.

use crate::hub::{Hub, OPERATOR, chorus, serve};
use chorus_testkit::http;
use chorus_testkit::receiver::{FakeAgent, Reply};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// Makes a request to `/api/v1` that must succeed.
async fn api(http: &Client, hub: &Hub, method: Method, path: &str, key: &str, body: Value) -> Value {
    let request = http.request(method, format!("{}/api/v1{path}", hub.url)).bearer_auth(key);
    let answer = request.json(&body).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{path}: {status} {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned()
}

/// Runs a command that must succeed, and returns its output.
#[track_caller]
fn printed(hub: &Hub, key: &str, args: &[&str]) -> String {
    let output = chorus().args(args).env("CHORUS_URL", &hub.url).env("CHORUS_KEY", key).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_post_that_was_not_recorded_is_made_again() {
    let (dir, http, agent) = (tempfile::tempdir().unwrap(), http::client(), FakeAgent::start().await);
    agent.set(Reply::Hang);
    let hub = Hub::start(dir.path(), None);
    let person = json!({"email": "anna@example.org"});
    let token = text(&api(&http, &hub, Method::POST, "/accounts", OPERATOR, person).await["api_token"]);
    let connection = format!("http://{}/inbox/sk_1", agent.addr());
    let bob = json!({"name": "bob", "connection_string": connection});
    api(&http, &hub, Method::POST, "/agents", &token, bob).await;
    let channel = api(&http, &hub, Method::POST, "/channels", &token, json!({"name": "ops"})).await;
    let channel = format!("/channels/{}", text(&channel["id"]));
    api(&http, &hub, Method::POST, &format!("{channel}/members"), &token, json!({"agent": "bob"})).await;
    let messages = format!("{channel}/messages");
    let mut said = vec![];
    for n in 1..=3 {
        let body = json!({"content": format!("@bob number {n}")});
        let answer = api(&http, &hub, Method::POST, &messages, &token, body).await;
        assert_eq!(answer["attention"]["woken"], json!(["bob"]));
        said.push(text(&answer["event_id"]));
    }
    // The agent has the first message, but the hub has not recorded it yet.
    agent.wait_for(1, SOON).await;
    hub.kill9();
    agent.set(Reply::Json(200, json!({})));
    let hub = Hub::start(dir.path(), None);
    let requests = agent.wait_for(4, SOON).await;
    let got: Vec<_> = requests.iter().map(|request| text(&request.body["message"]["id"])).collect();
    assert_eq!(
        got,
        [said[0].as_str(), &said[0], &said[1], &said[2]],
        "the first one twice, under the same id; all in order"
    );
    let callbacks: Vec<_> = requests.iter().map(|request| text(&request.body["callback"])).collect();
    assert_ne!(callbacks[0], callbacks[1], "fresh with each delivery");

    // The agent answers, and the answer is visible in the channel.
    let callback = callbacks[3].split_once("/channels/").unwrap().1;
    let answer = json!({"type": "message", "content": "three it is"});
    let answer = http.post(format!("{}/channels/{callback}", hub.url)).json(&answer).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    let id = channel.strip_prefix("/channels/").unwrap();
    let history = printed(&hub, &token, &["channel", "history", id, "--limit", "1"]);
    assert!(history.contains("bob") && history.contains("three it is"), "{history}");
    let list = printed(&hub, &token, &["deliveries", "list", "--json"]);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    assert_eq!(list.iter().map(|one| text(&one["state"])).collect::<Vec<_>>(), ["delivered"; 3]);
    assert_eq!(list[0]["attempts"], 2, "the try before the crash counts");
}

#[tokio::test]
async fn the_commands() {
    let (dir, http) = (tempfile::tempdir().unwrap(), http::client());
    let hub = Hub::start(dir.path(), None);
    let anna = crate::hub::register(&http, &hub.url, "anna").await;
    let bob = crate::hub::register(&http, &hub.url, "bob").await;
    let made = printed(&hub, &anna, &["channel", "create", "ops", "--context", "Operations", "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let id = text(&made["id"]);
    assert!(id.starts_with("ch_"));
    assert!(printed(&hub, &anna, &["channel", "list"]).contains("Operations"));
    assert_eq!(
        printed(&hub, &anna, &["channel", "join", &id, "--agent", "bob", "--role", "review"]),
        "joined as bob\n"
    );
    assert!(printed(&hub, &bob, &["channel", "members", &id]).contains("review"));
    let preview = printed(&hub, &anna, &["channel", "say", &id, "@bob look", "--dry-run"]);
    assert_eq!(
        preview,
        "bob would be woken: direct_mention\ntaken for: assignment (confidence medium, by lexicon)\n"
    );

    // Follow from the beginning: two joins and the next message.
    let mut follow = chorus();
    let args = ["channel", "follow", &id, "--after", "0", "--count", "3", "--timeout", "30"];
    follow.args(args).env("CHORUS_URL", &hub.url).env("CHORUS_KEY", &bob);
    let follow = std::thread::spawn(move || follow.output().unwrap());
    let said = printed(&hub, &anna, &["channel", "say", &id, "@bob look \u{1b}[2J"]);
    assert!(said.contains("woken: bob"), "{said}");
    let followed = follow.join().unwrap();
    let seen = String::from_utf8(followed.stdout).unwrap();
    assert!(followed.status.success(), "{}", String::from_utf8_lossy(&followed.stderr));
    assert!(seen.contains("@bob look \\u{1b}[2J"), "a message must not drive the terminal: {seen}");

    let rotate = |key: &str| printed(&hub, key, &["agent-url", "rotate", "bob"]);
    let (first, second) = (rotate(&bob), rotate(&bob));
    assert!(first.contains("/inbox/sk_") && first != second);
    let foreign = json!({"channel": {"id": "C1"}, "message": {"id": "m1", "sender": "eve", "content": "hi"},
        "callback": "https://service.example/cb"});
    let post = async |url: &str| http.post(url.trim()).json(&foreign).send().await.unwrap().status().as_u16();
    assert_eq!((post(&first).await, post(&second).await), (404, 200));
    let inbox = printed(&hub, &bob, &["inbox", "--history", "--json"]);
    let kinds: Vec<_> =
        inbox.lines().map(|line| text(&serde_json::from_str::<Value>(line).unwrap()["kind"])).collect();
    assert_eq!(kinds, ["chat", "channel"]);

    // A channel can also be given by its name, if only one has it.
    assert!(printed(&hub, &anna, &["channel", "history", "ops"]).contains("@bob look"));
    let named = |name: &str| {
        let mut say = chorus();
        say.args(["channel", "say", name, "hello"]).env("CHORUS_URL", &hub.url).env("CHORUS_KEY", &anna);
        let said = say.output().unwrap();
        (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let (code, why) = named("nowhere");
    assert!(code == Some(1) && why.contains("no channel of yours is called \"nowhere\""), "{why}");
    printed(&hub, &anna, &["channel", "create", "ops"]);
    let (code, why) = named("ops");
    assert!(code == Some(1) && why.contains("several of your channels"), "{why}");

    // The two commands for deliveries also take a channel's name.
    let dead = ["deliveries", "replay", "--channel", &id, "--state", "dead"];
    assert_eq!(printed(&hub, &bob, &dead), "0 replayed\n");
    let listed = printed(&hub, &bob, &["deliveries", "list", "--channel", "ops", "--json"]);
    assert_eq!(serde_json::from_str::<Vec<Value>>(&listed).unwrap().len(), 1, "{listed}");

    // A refusal has its exit code and a reason.
    let stranger = crate::hub::register(&http, &hub.url, "eve").await;
    let refused = chorus()
        .args(["channel", "say", &id, "hello"])
        .env("CHORUS_URL", &hub.url)
        .env("CHORUS_KEY", &stranger)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not a member"));
    let nobody = chorus().args(["channel", "list"]).env("CHORUS_URL", &hub.url).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2));
}

#[tokio::test]
async fn approvals_from_the_terminal() {
    let (dir, http) = (tempfile::tempdir().unwrap(), http::client());
    let hub = Hub::start(dir.path(), None);
    let person = json!({"email": "anna@example.org"});
    let anna = text(&api(&http, &hub, Method::POST, "/accounts", OPERATOR, person).await["api_token"]);
    let made = api(&http, &hub, Method::POST, "/agents", &anna, json!({"name": "bot"})).await;
    let bot = text(&made["api_key"]);
    printed(&hub, &anna, &["channel", "create", "ops"]);
    printed(&hub, &anna, &["channel", "join", "ops", "--agent", "bot"]);
    let hold = |words: &str| {
        let held = printed(&hub, &bot, &["channel", "say", "ops", "--requires-approval", words]);
        assert!(held.starts_with("held until a person agrees"), "{held}");
        held.trim().rsplit(' ').next().unwrap().to_owned()
    };
    let ids = ["one", "two", "three"].map(hold);
    let table = printed(&hub, &anna, &["approvals", "list"]);
    assert!(table.contains("bot") && ids.iter().all(|id| table.contains(id)), "{table}");
    let agreed = printed(&hub, &anna, &["approvals", "agree", &ids[0]]);
    assert!(agreed.contains("is agreed by") && agreed.contains("it was said as evt_"), "{agreed}");
    let declined = printed(&hub, &anna, &["approvals", "decline", &ids[1], "--reason", "not today"]);
    assert!(declined.contains("is declined by") && declined.contains(": not today"), "{declined}");
    assert_eq!(printed(&hub, &bot, &["approvals", "show", &ids[1]]), declined);
    assert!(printed(&hub, &bot, &["approvals", "withdraw", &ids[2]]).starts_with("withdrawn"));
    assert_eq!(printed(&hub, &anna, &["approvals", "list", "--json"]).trim(), "[]");
    let dry = printed(&hub, &bot, &["channel", "say", "ops", "--requires-approval", "--dry-run", "four"]);
    assert!(dry.starts_with("it would wait until a person agrees"), "{dry}");
    let shown = printed(&hub, &bot, &["channel", "say", "ops", "--ephemeral", "psst"]);
    assert_eq!(shown, "shown to who looks now\n");
    let log = printed(&hub, &anna, &["channel", "history", "ops"]);
    assert!(log.contains("one") && !log.contains("two") && !log.contains("psst"), "{log}");
}

#[tokio::test]
async fn invitations_from_the_terminal() {
    let (dir, http) = (tempfile::tempdir().unwrap(), http::client());
    let hub = Hub::start(dir.path(), None);
    let mut tokens = vec![];
    for name in ["anna", "eve"] {
        let person = json!({"email": format!("{name}@example.org")});
        tokens.push(text(&api(&http, &hub, Method::POST, "/accounts", OPERATOR, person).await["api_token"]));
    }
    let (anna, eve) = (&*tokens[0], &*tokens[1]);
    for channel in ["ops", "more", "spam"] {
        printed(&hub, anna, &["channel", "create", channel]);
        // The output is the same for an unknown address.
        for address in ["eve@example.org", "nobody@example.org"] {
            let asked = printed(&hub, anna, &["channel", "join", channel, "--account", address]);
            assert!(asked.starts_with(&format!("asked: {address} is a member once it accepts")), "{asked}");
        }
    }
    let open = printed(&hub, eve, &["invitations", "list", "--json"]);
    let open: Value = serde_json::from_str(&open).unwrap();
    let ids: Vec<_> = open.as_array().unwrap().iter().map(|one| text(&one["id"])).collect();
    let table = printed(&hub, eve, &["invitations", "list"]);
    assert!(table.contains("anna") && table.contains("ops") && table.contains(&ids[0]), "{table}");
    assert!(printed(&hub, eve, &["invitations", "accept", &ids[0]]).ends_with("  ops\n"));
    assert_eq!(printed(&hub, eve, &["invitations", "decline", &ids[1]]), "declined; nobody is told\n");
    assert!(printed(&hub, eve, &["invitations", "block", &ids[2]]).starts_with("declined, and kept out"));
    assert_eq!(printed(&hub, eve, &["invitations", "list", "--json"]).trim(), "[]");
    assert!(printed(&hub, eve, &["channel", "list"]).contains("ops"));
    let doctor = printed(&hub, anna, &["doctor"]);
    assert!(doctor.contains("quotas") && doctor.contains("channels 3 of 1000 (0 %)"), "{doctor}");
}

#[tokio::test]
async fn doctor_warns_of_a_quota_that_is_nearly_used_up() {
    let (dir, http) = (tempfile::tempdir().unwrap(), http::client());
    let mut command = serve(dir.path(), None);
    command.env("CHORUS_QUOTA_CHANNELS", "5");
    let hub = Hub::run(command);
    let person = json!({"email": "anna@example.org"});
    let key = text(&api(&http, &hub, Method::POST, "/accounts", OPERATOR, person).await["api_token"]);
    for n in 0..4 {
        printed(&hub, &key, &["channel", "create", &format!("c{n}")]);
    }
    assert!(printed(&hub, &key, &["doctor"]).contains("channels 4 of 5 (80 %)"));
    printed(&hub, &key, &["channel", "create", "last"]);
    let mut doctor = chorus();
    doctor.args(["doctor"]).env("CHORUS_URL", &hub.url).env("CHORUS_KEY", &key);
    let output = doctor.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("channels 5 of 5 (100 %)"), "{said}");
}

/// `doctor` names the kind of every key, and reports dangerous settings to the operator only.
#[tokio::test]
async fn doctor_says_what_is_dangerous() {
    let (dir, http) = (tempfile::tempdir().unwrap(), http::client());
    let mut command = serve(dir.path(), None);
    command.args(["--public-url", "https://hub.example"]);
    let hub = Hub::run(command);
    let person = json!({"email": "anna@example.org"});
    let key = text(&api(&http, &hub, Method::POST, "/accounts", OPERATOR, person).await["api_token"]);
    let said = printed(&hub, &key, &["doctor"]);
    assert!(said.contains("a person's token, and valid") && !said.contains("settings"), "{said}");
    let said = printed(&hub, OPERATOR, &["doctor"]);
    assert!(said.contains("the operator's key, and valid"), "{said}");
    for dangerous in ["CHORUS_RATE_LIMIT", "CHORUS_SIGNUP", "CHORUS_ENDPOINT_CHALLENGE", "CHORUS_MAIL"] {
        assert!(said.contains("WARN settings") && said.contains(dangerous), "{dangerous}: {said}");
    }
    drop(hub);
    let hub = Hub::start(dir.path(), None);
    let said = printed(&hub, OPERATOR, &["doctor"]);
    assert!(said.contains("nothing dangerous"), "{said}");
}

#[tokio::test]
async fn work_streams_from_the_terminal() {
    let (dir, http) = (tempfile::tempdir().unwrap(), http::client());
    let hub = Hub::start(dir.path(), None);
    let person = json!({"email": "anna@example.org"});
    let token = text(&api(&http, &hub, Method::POST, "/accounts", OPERATOR, person).await["api_token"]);
    let bob =
        text(&api(&http, &hub, Method::POST, "/agents", &token, json!({"name": "bob"})).await["api_key"]);
    printed(&hub, &token, &["channel", "create", "ops"]);
    printed(&hub, &token, &["channel", "join", "ops", "--agent", "bob"]);
    let create = ["stream", "create", "migration", "--channel", "ops", "--owner", "bob", "--json"];
    let made: Value = serde_json::from_str(&printed(&hub, &token, &create)).unwrap();
    assert_eq!((&made["name"], &made["owners"][0]["handle"]), (&json!("migration"), &json!("bob")));
    printed(&hub, &token, &["stream", "join", "migration"]);
    let listed = printed(&hub, &bob, &["stream", "list"]);
    assert!(listed.contains("migration") && listed.contains("bob") && listed.contains("anna"), "{listed}");
    let closed = printed(&hub, &bob, &["stream", "close", "migration"]);
    assert!(closed.contains("closed at"), "{closed}");
    let list: Value = serde_json::from_str(&printed(&hub, &bob, &["stream", "list", "--json"])).unwrap();
    assert_eq!(list, json!([]));
    let shown = printed(&hub, &bob, &["stream", "show", &text(&made["id"])]);
    assert!(shown.contains("closed at"), "{shown}");
}

#[tokio::test]
async fn any_file_is_a_document() {
    let (dir, http, files) = (tempfile::tempdir().unwrap(), http::client(), tempfile::tempdir().unwrap());
    let hub = Hub::start(dir.path(), None);
    let person = json!({"email": "anna@example.org"});
    let token = text(&api(&http, &hub, Method::POST, "/accounts", OPERATOR, person).await["api_token"]);
    printed(&hub, &token, &["channel", "create", "ops"]);
    // The file is larger than the limit of messages, and no text.
    let bytes: Vec<u8> = (0..400_000_u32).map(|n| (n % 256) as u8).collect();
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("The Plot.png"), &bytes).unwrap();
    for version in 1..=2 {
        let put = printed(&hub, &token, &["document", "put", "ops", &path("The Plot.png")]);
        assert_eq!(put, format!("the-plot version {version}\n"));
    }
    let get = ["document", "get", "ops", "the-plot"];
    printed(&hub, &token, &[&get[..], &["-o", &path("back.png")]].concat());
    assert_eq!(std::fs::read(path("back.png")).unwrap(), bytes);
    let run = |args: &[&str]| {
        chorus().args(args).env("CHORUS_URL", &hub.url).env("CHORUS_KEY", &token).output().unwrap()
    };
    assert_eq!(run(&[&get[..], &["--at", "1"]].concat()).stdout, bytes);
    let list = printed(&hub, &token, &["document", "list", "ops", "--json"]);
    assert!(list.contains("image/png") && list.contains("The Plot.png") && list.contains("400000"), "{list}");
    let read = run(&["document", "read", "ops", "the-plot"]);
    assert!(
        !read.status.success() && String::from_utf8_lossy(&read.stderr).contains("document get"),
        "{read:?}"
    );
    let stale = run(&["document", "put", "ops", &path("back.png"), "--slug", "the-plot", "--base", "1"]);
    assert_eq!(stale.status.code(), Some(3), "{stale:?}");
    // A text is returned unchanged, including its last line break.
    std::fs::write(path("plan.md"), "# Plan\n\nä\n").unwrap();
    printed(&hub, &token, &["document", "put", "ops", &path("plan.md"), "--title", "The plan"]);
    assert_eq!(printed(&hub, &token, &["document", "get", "ops", "plan"]), "# Plan\n\nä\n");
}
