//! Accounts, tokens and invitations of people. `signin` covers links and sessions.

mod list;
mod sessions;
mod signin;

use crate::support::{Answer, HOST, OPERATOR, Setup, TestHub, eventually, members};
use chorus_hub::{Config, Environment, Mail, MasterKey, Signup, first_link, key_hash};
use chorus_protocol::code::Code;
use chorus_store::{StoreError, TxExt};
use chorus_testkit::clock::ManualClock;
use data_encoding::BASE64;
use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The start time of tests with a manual clock.
const BEGIN: i64 = 1_800_000_000_000;
const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
const SIGNUPS: [Signup; 3] = [Signup::Open, Signup::Invite, Signup::Closed];

/// Starts a hub that writes its mails into the returned folder.
pub(crate) fn hub_with_mail(setup: Setup) -> (TestHub, TempDir) {
    let mails = tempfile::tempdir().unwrap();
    let hub = setup.config(|config| config.mail = Mail::Folder(mails.path().into())).start();
    (hub, mails)
}

/// Returns the mails to an address, oldest first.
pub(crate) fn mails_to(mails: &Path, to: &str) -> Vec<String> {
    let mut files: Vec<_> = fs::read_dir(mails).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "eml"));
    files.sort();
    let texts = files.into_iter().map(|path| fs::read_to_string(path).unwrap());
    texts.filter(|text| text.contains(&format!("To: {to}\r\n"))).collect()
}

/// Returns the path of the link in a mail.
fn path_in(hub: &TestHub, mail: &str) -> String {
    let link =
        mail.split_whitespace().find_map(|word| word.strip_prefix(&*hub.url)).expect("a link to this hub");
    let token = link.strip_prefix("/signin/ml_").expect("a sign-in link");
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{link}");
    link.to_owned()
}

/// Requests a link and waits for its mail.
pub(crate) async fn link_for(
    hub: &TestHub,
    mails: &TempDir,
    email: &str,
    invitation: Option<&str>,
) -> String {
    let before = mails_to(mails.path(), email).len();
    let body = json!({"email": email, "invitation": invitation});
    assert_eq!(hub.post("/api/v1/signin", None, &body).await.status, 202);
    let all = eventually(async || mails_to(mails.path(), email), |all| all.len() > before).await;
    path_in(hub, all.last().unwrap())
}

/// Submits the form of the first page.
async fn send_form(hub: &TestHub, fields: &[(&str, &str)]) -> Answer {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = hub.request(Method::POST, "/signin", None);
    Answer::of(request.header("content-type", "application/x-www-form-urlencoded").body(body)).await
}

/// Adds the headers that a browser sends from one of the hub's own pages.
pub(crate) fn by_page(request: RequestBuilder) -> RequestBuilder {
    request.header("sec-fetch-site", "same-origin")
}

/// Presses the button on a link's page.
pub(crate) async fn press(hub: &TestHub, link: &str) -> Answer {
    Answer::of(by_page(hub.request(Method::POST, link, None))).await
}

/// Returns the cookie that a response sets: its pair and its attributes.
pub(crate) fn cookie_of(answer: &Answer) -> (String, Vec<String>) {
    let mut parts = answer.header("set-cookie").split("; ").map(str::to_owned);
    (parts.next().unwrap(), parts.collect())
}

/// Signs in and returns the browser's cookie.
pub(crate) async fn session(hub: &TestHub, mails: &TempDir, email: &str) -> String {
    let link = link_for(hub, mails, email, None).await;
    let answer = press(hub, &link).await;
    assert_eq!(answer.status, 303, "{}", answer.text);
    cookie_of(&answer).0
}

async fn me(hub: &TestHub, cookie: &str) -> Answer {
    Answer::of(hub.request(Method::GET, "/api/v1/me", None).header("cookie", cookie)).await
}

async fn invitation(hub: &TestHub, key: &str, body: &Value) -> String {
    let answer = hub.post("/api/v1/invitations", Some(key), body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body["invitation"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn tokens_are_shown_once_and_revoked_at_once() {
    let hub = TestHub::start();
    let (ann, bob) = (hub.account("ann@mail.example").await, hub.account("bob@mail.example").await);
    let made = hub.post("/api/v1/tokens", Some(&ann), &json!({"label": "my laptop ☕"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(members(&made.body), ["created_at", "id", "label", "token"]);
    let (id, token) = (made.body["id"].as_str().unwrap(), made.body["token"].as_str().unwrap());
    assert!(token.starts_with("ct_") && token.len() == 35, "{token}");
    assert_eq!(hub.get("/api/v1/me", Some(token)).await.body["email"], "ann@mail.example");

    let list = hub.get("/api/v1/tokens", Some(&ann)).await;
    let items = list.body["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[1]["label"], &items[1]["id"]), (2, &json!("my laptop ☕"), &json!(id)));
    assert_eq!((members(&items[1]), &list.body["next"]), (vec!["created_at", "id", "label"], &Value::Null));
    assert!(!list.text.contains(token) && !list.text.contains(&ann));

    let path = format!("/api/v1/tokens/{id}");
    assert_eq!(hub.delete(&path, Some(&bob)).await.status, 204, "not his: as if it never was");
    assert_eq!(hub.get("/api/v1/me", Some(token)).await.status, 200);
    for _ in 0..2 {
        let revoked = hub.delete(&path, Some(&ann)).await;
        assert_eq!((revoked.status, &*revoked.text), (204, ""));
        hub.get("/api/v1/me", Some(token)).await.own_failure(Code::Unauthorized);
    }
    assert_eq!(hub.get("/api/v1/tokens", Some(&ann)).await.body["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn tokens_come_in_pages_and_are_bounded() {
    let hub = TestHub::start();
    let ann = hub.account("ann@mail.example").await;
    for n in 1..100 {
        let made = hub.post("/api/v1/tokens", Some(&ann), &json!({"label": n.to_string()})).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    hub.post("/api/v1/tokens", Some(&ann), &json!({"label": "x"})).await.own_failure(Code::Conflict);
    let (mut labels, mut path) = (vec![], "/api/v1/tokens?limit=30".to_owned());
    loop {
        let page = hub.get(&path, Some(&ann)).await;
        labels.extend(page.body["items"].as_array().unwrap().iter().map(|item| item["label"].to_string()));
        let Some(next) = page.body["next"].as_str() else { break };
        path = format!("/api/v1/tokens?limit=30&after={next}");
    }
    labels.sort();
    labels.dedup();
    assert_eq!(labels.len(), 100);
    for query in ["limit=0", "limit=201", "after=x"] {
        hub.get(&format!("/api/v1/tokens?{query}"), Some(&ann)).await.own_failure(Code::Validation);
    }
}

/// Repeating the request returns the same token, although the database does not store it.
#[tokio::test]
async fn a_token_is_made_once_for_a_key_and_not_kept() {
    let hub = TestHub::start();
    let ann = hub.account("ann@mail.example").await;
    let make = async |label: &str| {
        let request = hub.request(Method::POST, "/api/v1/tokens", Some(&ann)).header("idempotency-key", "1");
        Answer::of(request.json(&json!({"label": label}))).await
    };
    let (first, again) = (make("x").await, make("x").await);
    assert_eq!((first.status, again.status, &first.body), (201, 201, &again.body));
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), ("", "true"));
    make("y").await.own_failure(Code::IdempotencyConflict);
    let read = |tx: &mut dyn chorus_store::Tx| {
        tx.query("SELECT answer FROM idempotency", &[])?.iter_mut().map(|row| row.text("answer")).collect()
    };
    let kept: Vec<String> = hub.store().read::<_, StoreError, _>(read).await.unwrap();
    assert_eq!(kept.len(), 1);
    let (kept, token) = (BASE64.decode(kept[0].as_bytes()).unwrap(), first.body["token"].as_str().unwrap());
    assert!(!String::from_utf8_lossy(&kept).contains(&token[3..]), "{kept:?}");
}

#[tokio::test]
async fn the_operator_makes_accounts() {
    for signup in SIGNUPS {
        let (hub, mails) = hub_with_mail(Setup::new().config(|config| config.signup = signup));
        let body = json!({"email": "Ann@Mail.example", "name": "Ann Lee"});
        let made = hub.post("/api/v1/accounts", Some(OPERATOR), &body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        assert_eq!(members(&made.body), ["account_id", "api_token", "email", "name"]);
        assert_eq!((&made.body["email"], &made.body["name"]), (&body["email"], &body["name"]));
        let me_by_token = hub.get("/api/v1/me", made.body["api_token"].as_str()).await;
        assert_eq!(me_by_token.body["id"], made.body["account_id"]);
        let again = json!({"email": "aNN@mail.example"});
        hub.post("/api/v1/accounts", Some(OPERATOR), &again).await.own_failure(Code::Conflict);

        let link = link_for(&hub, &mails, "Ann@Mail.example", None).await;
        let cookie = cookie_of(&press(&hub, &link).await).0;
        assert_eq!(me(&hub, &cookie).await.body, me_by_token.body, "{signup:?}");
    }
}

#[tokio::test]
async fn everybody_learns_who_it_is() {
    let hub = TestHub::start();
    let agent = hub.register("alice").await;
    let me = hub.get("/api/v1/me", Some(&agent)).await;
    assert_eq!((&me.body["kind"], &me.body["name"]), (&json!("agent"), &json!("alice")));
    assert_eq!((&me.body["address"], members(&me.body).len()), (&json!(format!("alice@{HOST}")), 5));
    let me = hub.get("/api/v1/me", Some(OPERATOR)).await;
    assert_eq!(me.body, json!({"kind": "operator", "id": "operator", "name": "operator", "quotas": {}}));
    hub.get("/api/v1/me", None).await.own_failure(Code::Unauthorized);
    let nobody = "ct_00000000000000000000000000000000";
    hub.get("/api/v1/me", Some(nobody)).await.own_failure(Code::Unauthorized);
}

#[tokio::test]
async fn what_is_for_people_is_not_for_agents() {
    let hub = TestHub::start();
    let (agent, person) = (hub.register("alice").await, hub.account("ann@mail.example").await);
    for (path, body) in [("/api/v1/tokens", json!({"label": "x"})), ("/api/v1/invitations", json!({}))] {
        hub.post(path, None, &body).await.own_failure(Code::Unauthorized);
        hub.post(path, Some(&agent), &body).await.own_failure(Code::Forbidden);
    }
    hub.post("/api/v1/tokens", Some(OPERATOR), &json!({"label": "x"})).await.own_failure(Code::Forbidden);
    let body = json!({"email": "bob@mail.example"});
    for key in [&agent, &person] {
        hub.post("/api/v1/accounts", Some(key), &body).await.own_failure(Code::Forbidden);
    }
}

#[tokio::test]
async fn an_invitation_lets_one_person_in() {
    let clock = ManualClock::new(BEGIN);
    let (hub, mails) =
        hub_with_mail(Setup::new().clock(&clock).config(|config| config.signup = Signup::Invite));
    let ann = hub.account("ann@mail.example").await;
    let made = hub.post("/api/v1/invitations", Some(&ann), &json!({})).await;
    assert_eq!(members(&made.body), ["expires_at", "id", "invitation", "url"]);
    let code = made.body["invitation"].as_str().unwrap();
    assert_eq!(made.body["url"], format!("{}/signin?invitation={code}", hub.url));
    assert_eq!(made.body["expires_at"], chorus_protocol::time::rfc3339(BEGIN + 7 * DAY));
    let form = hub.get(&format!("/signin?invitation={code}"), None).await;
    let hidden = format!(r#"<input type="hidden" name="invitation" value="{code}">"#);
    assert!(form.text.contains(&hidden), "{}", form.text);

    // Several people may try the code; the first one uses it up.
    let fields = [("email", "bob@mail.example"), ("invitation", code)];
    assert_eq!(send_form(&hub, &fields).await.status, 200);
    let bob = eventually(async || mails_to(mails.path(), "bob@mail.example"), |all| !all.is_empty()).await;
    let bob = path_in(&hub, &bob[0]);
    let eve = link_for(&hub, &mails, "eve@mail.example", Some(code)).await;
    let ann_again = link_for(&hub, &mails, "ann@mail.example", Some(code)).await;
    assert_eq!(press(&hub, &ann_again).await.status, 303, "who has an account does not use it up");
    let entered = press(&hub, &bob).await;
    assert_eq!(me(&hub, &cookie_of(&entered).0).await.body["email"], "bob@mail.example");
    assert_eq!(press(&hub, &eve).await.status, 410);

    let late = invitation(&hub, OPERATOR, &json!({"days": 1})).await;
    clock.advance(DAY);
    for code in [code, &late, "ci_00000000000000000000000000000000"] {
        let body = json!({"email": "eve@mail.example", "invitation": code});
        assert_eq!(hub.post("/api/v1/signin", None, &body).await.status, 202);
    }
    hub.stop().await;
    assert_eq!(mails_to(mails.path(), "eve@mail.example").len(), 1, "none but the one before");
}

#[tokio::test]
async fn an_invitation_for_an_address_is_for_no_other() {
    let (hub, mails) = hub_with_mail(Setup::new().config(|config| config.signup = Signup::Invite));
    let code = invitation(&hub, OPERATOR, &json!({"email": "Bob@mail.example", "days": 90})).await;
    let eve = json!({"email": "eve@mail.example", "invitation": code});
    assert_eq!(hub.post("/api/v1/signin", None, &eve).await.status, 202);
    let agent = json!({"agent_id": "bob", "invitation": code});
    hub.post("/register", None, &agent).await.failure(Code::Forbidden);
    let link = link_for(&hub, &mails, "bob@mail.example", Some(&code)).await;
    assert_eq!(press(&hub, &link).await.status, 303);
    hub.stop().await;
    assert_eq!(mails_to(mails.path(), "eve@mail.example").len(), 0);
}

#[tokio::test]
async fn an_invitation_lets_one_agent_in() {
    let hub = Setup::new().config(|config| config.signup = Signup::Invite).start();
    let ann = hub.account("ann@mail.example").await;
    let codes = [invitation(&hub, &ann, &json!({})).await, invitation(&hub, OPERATOR, &json!({})).await];
    let by_header = async |name: &str, code: &str| {
        let request = hub.request(Method::POST, "/register", None).header("x-chorus-invitation", code);
        Answer::of(request.json(&json!({"agent_id": name}))).await
    };
    assert_eq!(by_header("alice", &codes[0]).await.status, 201);
    by_header("eve", &codes[0]).await.failure(Code::Forbidden);
    let answer = by_header("alice", &codes[1]).await;
    answer.failure(Code::AgentIdTaken);
    let body = json!({"agent_id": "bob", "invitation": codes[1]});
    assert_eq!(hub.post("/register", None, &body).await.status, 201, "a refusal did not use it up");
    hub.post("/register", None, &json!({"agent_id": "eve", "invitation": 7})).await.failure(Code::Validation);

    let code = invitation(&hub, OPERATOR, &json!({})).await;
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut statuses: Vec<_> =
        join_all(names.map(|name| by_header(name, &code))).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 403, 403, 403, 403, 403]);
}

#[tokio::test]
async fn a_closed_hub_takes_no_invitation() {
    let clock = ManualClock::new(BEGIN);
    let (hub, mails) =
        hub_with_mail(Setup::new().clock(&clock).config(|config| config.signup = Signup::Invite));
    let code = invitation(&hub, OPERATOR, &json!({})).await;
    let link = link_for(&hub, &mails, "bob@mail.example", Some(&code)).await;
    let hub = hub.restart(|config| config.signup = Signup::Closed).await;
    hub.post("/api/v1/invitations", Some(OPERATOR), &json!({})).await.own_failure(Code::Conflict);
    hub.post("/register", None, &json!({"agent_id": "bob", "invitation": code}))
        .await
        .failure(Code::Forbidden);
    hub.post("/api/v1/signin", None, &json!({"email": "eve@mail.example", "invitation": code})).await;
    // The mail was sent while sign-up was still possible.
    assert_eq!(press(&hub, &link).await.status, 303);
    hub.stop().await;
    assert_eq!(mails_to(mails.path(), "eve@mail.example").len(), 0);
}

/// The link printed at the first start works under every sign-up policy, for a day, and there is only one.
#[tokio::test]
async fn the_first_link_signs_the_operator_in() {
    for signup in SIGNUPS {
        let clock = ManualClock::new(BEGIN);
        let hub = Setup::new().clock(&clock).config(|config| config.signup = signup).start();
        let mut config = Config::new(uuid(), HOST, key_hash(OPERATOR), MasterKey::new([7; 32]));
        config.public_url = hub.url.clone();
        let now = clock.now();
        let environment = Environment::with_clocks(move || now, || 0);
        let link = first_link(hub.store(), &config, &environment).await.unwrap().unwrap();
        assert_eq!(first_link(hub.store(), &config, &environment).await.unwrap(), None);
        clock.advance(DAY - 1);
        let link = link.strip_prefix(&hub.url).unwrap();
        assert_eq!(hub.get(link, None).await.status, 200);
        let entered = press(&hub, link).await;
        assert_eq!(entered.status, 303, "{signup:?}");
        assert_eq!(me(&hub, &cookie_of(&entered).0).await.body["email"], format!("operator@{HOST}"));
        assert_eq!(press(&hub, link).await.status, 410);
    }
}

fn uuid() -> uuid::Uuid {
    Environment::system().uuid_v4()
}

#[tokio::test]
async fn all_faults_of_a_body_at_once() {
    let hub = TestHub::start();
    let ann = hub.account("ann@mail.example").await;
    let long = "x".repeat(101);
    let cases = [
        ("/api/v1/signin", None, json!({}), "email: is required"),
        ("/api/v1/signin", None, json!([]), "body: must be an object, not an array"),
        (
            "/api/v1/signin",
            None,
            json!({"email": "a b@c", "invitation": long}),
            "email: must be an email address: name@host, without spaces; invitation: must be one line of 1 to 100 characters with something in it",
        ),
        (
            "/api/v1/signin",
            None,
            json!({"email": 1, "invitation": {}}),
            "email: must be a string, not a number; invitation: must be a string, not an object",
        ),
        (
            "/api/v1/tokens",
            Some(&*ann),
            json!({"label": ""}),
            "label: must be one line of 1 to 100 characters with something in it",
        ),
        (
            "/api/v1/tokens",
            Some(&ann),
            json!({"label": format!("{long}\n")}),
            "label: must be one line of 1 to 100 characters with something in it",
        ),
        (
            "/api/v1/accounts",
            Some(OPERATOR),
            json!({"email": "@", "name": ""}),
            "email: must be an email address: name@host, without spaces; name: must be one line of 1 to 100 characters with something in it",
        ),
        (
            "/api/v1/invitations",
            Some(&ann),
            json!({"email": "a@b@c", "days": 91}),
            "days: must be an integer from 1 to 90; email: must be an email address: name@host, without spaces",
        ),
        (
            "/api/v1/tokens",
            Some(&ann),
            json!({"label": "\u{a0}\u{3000}"}),
            "label: must be one line of 1 to 100 characters with something in it",
        ),
        ("/api/v1/invitations", Some(&ann), json!({"days": 0.5}), "days: must be an integer from 1 to 90"),
    ];
    for (path, key, body, faults) in cases {
        assert_eq!(hub.post(path, key, &body).await.own_failure(Code::Validation), faults, "{path}");
    }
    for (path, key) in [
        ("/api/v1/signin", None),
        ("/api/v1/tokens", Some(&*ann)),
        ("/api/v1/accounts", Some(OPERATOR)),
        ("/api/v1/invitations", Some(&ann)),
    ] {
        for body in ["", "{", "{\"email\": \"a@b\", \"email\": \"a@b\"}", "{\"label\": \"\\u0000\"}"] {
            let answer = Answer::of(hub.request(Method::POST, path, key).body(body)).await;
            answer.own_failure(Code::Validation);
        }
        let large = Answer::of(hub.request(Method::POST, path, key).body(" ".repeat(256 * 1024 + 1))).await;
        large.own_failure(Code::TooLarge);
    }
    hub.delete("/api/v1/tokens/x", Some(&ann)).await.own_failure(Code::Validation);
}

#[tokio::test]
async fn what_is_over_is_forgotten() {
    let clock = ManualClock::new(BEGIN);
    let (hub, mails) = hub_with_mail(Setup::new().clock(&clock));
    let token = hub.account("ann@mail.example").await;
    session(&hub, &mails, "ann@mail.example").await;
    link_for(&hub, &mails, "ann@mail.example", None).await;
    invitation(&hub, &token, &json!({"days": 90})).await;
    let left = async |hub: &TestHub| {
        let count = |tx: &mut dyn chorus_store::Tx| {
            tx.first("SELECT count(*) AS count FROM credentials", &[])?
                .map_or(Ok(0), |mut row| row.int("count"))
        };
        hub.store().read::<_, StoreError, _>(count).await.unwrap()
    };
    assert_eq!(left(&hub).await, 4);
    clock.advance(90 * DAY);
    let hub = hub.restart(|_| {}).await;
    eventually(async || left(&hub).await, |left| *left == 1).await;
    assert_eq!(hub.get("/api/v1/me", Some(&token)).await.status, 200, "tokens have no end");
}
