//! Signing in: the form, the mail, the link and the session; and attacks from other sites.

use super::{
    BEGIN, DAY, MINUTE, SIGNUPS, by_page, cookie_of, hub_with_mail, link_for, mails_to, me, path_in, press,
    send_form, session,
};
use crate::support::{Answer, HOST, OPERATOR, Setup, eventually, members};
use chorus_hub::{Mail, Signup};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[tokio::test]
async fn from_the_form_to_a_session() {
    let (hub, mails) = hub_with_mail(Setup::new());
    let form = hub.get("/signin", None).await;
    assert_eq!(form.status, 200);
    assert!(
        form.text.contains(r#"<form class="card fields" method="post" action="/signin">"#),
        "{}",
        form.text
    );
    let sent = send_form(&hub, &[("email", " ann@mail.example ")]).await;
    assert!(sent.status == 200 && sent.text.contains("Check your mail"), "{}", sent.text);

    let all = eventually(async || mails_to(mails.path(), "ann@mail.example"), |all| !all.is_empty()).await;
    for header in [
        &*format!("From: Chorus <chorus@{HOST}>"),
        "Subject: Sign in to Chorus at",
        "Date: ",
        "Message-ID: <",
    ] {
        assert!(all[0].contains(header), "{header}: {}", all[0]);
    }
    let link = path_in(&hub, &all[0]);
    let page = hub.get(&link, None).await;
    assert_eq!(page.status, 200);
    let main = page.text.split("<main").nth(1).unwrap();
    assert_eq!((page.text.matches("<form").count(), main.matches("<button").count()), (1, 1));
    assert!(!page.text.contains("ml_") && page.header("set-cookie").is_empty());

    let entered = press(&hub, &link).await;
    assert_eq!((entered.status, entered.header("location")), (303, "/"));
    let (cookie, attributes) = cookie_of(&entered);
    let secret = cookie.strip_prefix("chorus_session=cs_").unwrap();
    assert_eq!(secret.len(), 32);
    assert_eq!(attributes, ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=2592000"]);
    let me = me(&hub, &cookie).await;
    assert_eq!(me.status, 200, "{}", me.text);
    assert_eq!((&me.body["kind"], &me.body["name"]), (&json!("account"), &json!("ann")));
    assert_eq!((&me.body["email"], members(&me.body).len()), (&json!("ann@mail.example"), 6));
    assert!(me.body["id"].as_str().unwrap().starts_with("acc_"));

    let home = Answer::of(hub.request(Method::GET, "/", None).header("cookie", &*cookie)).await;
    assert!(home.text.contains("Signed in as <strong>ann</strong>"), "{}", home.text);
    let home = hub.get("/", None).await;
    assert!(home.text.contains(r#"href="/signin""#) && !home.text.contains("Signed in"), "{}", home.text);
}

#[tokio::test]
async fn a_link_works_once_and_not_late_nor_by_guess() {
    let clock = ManualClock::new(BEGIN);
    let (hub, mails) = hub_with_mail(Setup::new().clock(&clock));
    let guessed = hub.get("/signin/ml_00000000000000000000000000000000", None).await;
    assert_eq!((guessed.status, guessed.header("content-type")), (410, "text/html; charset=utf-8"));
    assert!(guessed.text.contains(r#"href="/signin""#), "{}", guessed.text);
    let assert_over = |answer: &Answer| {
        assert_eq!((answer.status, &answer.text), (410, &guessed.text));
        assert_eq!(answer.header("set-cookie"), "");
    };
    assert_over(&press(&hub, "/signin/ml_00000000000000000000000000000000").await);
    assert_over(&hub.get("/signin/x", None).await);

    let used = link_for(&hub, &mails, "ann@mail.example", None).await;
    for _ in 0..3 {
        assert_eq!(hub.get(&used, None).await.status, 200, "looking does not use it up");
    }
    clock.advance(15 * MINUTE - 1);
    let late = link_for(&hub, &mails, "ann@mail.example", None).await;
    assert_eq!(press(&hub, &used).await.status, 303);
    assert_over(&press(&hub, &used).await);
    assert_over(&hub.get(&used, None).await);

    clock.advance(15 * MINUTE);
    assert_over(&hub.get(&late, None).await);
    assert_over(&press(&hub, &late).await);
}

async fn one_of_many_enters(setup: Setup) {
    let (hub, mails) = hub_with_mail(setup);
    let link = link_for(&hub, &mails, "ann@mail.example", None).await;
    let answers = join_all((0..8).map(|_| press(&hub, &link))).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 410, 410, 410, 410, 410, 410, 410]);
    assert_eq!(answers.iter().filter(|answer| !answer.header("set-cookie").is_empty()).count(), 1);
}

#[tokio::test]
async fn two_at_the_same_time_get_one_session() {
    one_of_many_enters(Setup::new()).await;
}

#[tokio::test]
async fn two_at_the_same_time_get_one_session_on_postgres() {
    one_of_many_enters(Setup::postgres()).await;
}

/// Returns the response without the parts that always differ.
fn seen(answer: &Answer) -> (u16, Vec<(String, String)>, &str) {
    let headers =
        answer.headers.iter().filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    (answer.status, headers.collect(), &answer.text)
}

#[tokio::test]
async fn nothing_tells_who_has_an_account() {
    for signup in SIGNUPS {
        let (hub, mails) = hub_with_mail(Setup::new().config(|config| config.signup = signup));
        hub.account("Ann@mail.example").await;
        let mut api = vec![];
        let mut pages = vec![];
        for email in ["ann@mail.example", "bob@mail.example"] {
            api.push(hub.post("/api/v1/signin", None, &json!({"email": email})).await);
            pages.push(send_form(&hub, &[("email", email)]).await);
        }
        assert_eq!((api[0].status, pages[0].status), (202, 200), "{signup:?}");
        assert_eq!(seen(&api[0]), seen(&api[1]), "{signup:?}");
        assert_eq!(seen(&pages[0]), seen(&pages[1]), "{signup:?}");
        // The stop waits for everything in progress.
        hub.stop().await;
        let sent = ["Ann@mail.example", "bob@mail.example"].map(|to| mails_to(mails.path(), to).len());
        assert_eq!(sent, if signup == Signup::Open { [2, 2] } else { [2, 0] }, "{signup:?}");
    }
}

/// The mail goes to the account's stored address; lookalike letters are different addresses.
#[tokio::test]
async fn a_link_goes_to_the_account_s_own_address() {
    let (hub, mails) = hub_with_mail(Setup::new().config(|config| config.signup = Signup::Closed));
    hub.account("mike@mail.example").await;
    for email in ["MIKE@MAIL.EXAMPLE", "mi\u{212a}e@mail.example"] {
        assert_eq!(hub.post("/api/v1/signin", None, &json!({"email": email})).await.status, 202);
    }
    hub.stop().await;
    assert_eq!(mails_to(mails.path(), "mike@mail.example").len(), 1);
    assert_eq!(fs::read_dir(mails.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn an_address_gets_ten_links_at_a_time() {
    let clock = ManualClock::new(BEGIN);
    let (hub, mails) = hub_with_mail(Setup::new().clock(&clock));
    let mut answers = vec![];
    for n in 0..13 {
        let email = if n % 2 == 0 { "ann@mail.example" } else { "ANN@mail.example" };
        answers.push(hub.post("/api/v1/signin", None, &json!({"email": email})).await);
    }
    assert!(answers.iter().all(|answer| seen(answer) == seen(&answers[0])));
    link_for(&hub, &mails, "bob@mail.example", None).await;
    let setup = hub.setup();
    hub.stop().await;
    let all = || fs::read_dir(mails.path()).unwrap().count();
    assert_eq!(all(), 11, "ten, and one to another");

    clock.advance(15 * MINUTE);
    let hub = setup.start();
    link_for(&hub, &mails, "ann@mail.example", None).await;
    assert_eq!(all(), 12);
}

/// Returns every unsafe route that accepts a session.
fn unsafe_routes(token_id: &str) -> Vec<(Method, String, Value)> {
    let email = json!({"email": "eve@mail.example"});
    vec![
        (Method::POST, "/api/v1/tokens".into(), json!({"label": "x"})),
        (Method::DELETE, format!("/api/v1/tokens/{token_id}"), Value::Null),
        (Method::POST, "/api/v1/accounts".into(), email),
        (Method::POST, "/api/v1/invitations".into(), json!({})),
        (Method::POST, "/api/v1/signout".into(), Value::Null),
        (Method::POST, "/signout".into(), Value::Null),
    ]
}

#[tokio::test]
async fn other_sites_cannot_use_a_session() {
    let (hub, mails) = hub_with_mail(Setup::new());
    let cookie = session(&hub, &mails, "ann@mail.example").await;
    let made = by_page(hub.request(Method::POST, "/api/v1/tokens", None)).header("cookie", &*cookie);
    let made = Answer::of(made.json(&json!({"label": "kept"}))).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let from_elsewhere: [&[(&str, &str)]; 6] = [
        &[],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site"), ("origin", &hub.url)],
        &[("origin", "https://elsewhere.example")],
        &[("origin", "null")],
    ];
    for (method, path, body) in unsafe_routes(made.body["id"].as_str().unwrap()) {
        for headers in from_elsewhere {
            let mut request = hub.request(method.clone(), &path, None).header("cookie", &*cookie).json(&body);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let answer = Answer::of(request).await;
            let said = answer.own_failure(Code::Forbidden);
            assert!(
                said.contains("own pages") || said.contains("other sites' pages"),
                "{method} {path} {headers:?}: {said}"
            );
        }
    }
    assert_eq!(me(&hub, &cookie).await.status, 200, "nobody was signed out");
    let token = made.body["token"].as_str().unwrap();
    assert_eq!(hub.get("/api/v1/me", Some(token)).await.status, 200, "no token was revoked");
    let list = hub.get("/api/v1/tokens", Some(token)).await;
    assert_eq!(list.body["items"].as_array().unwrap().len(), 1, "none was made: {}", list.text);

    // Requests from our own pages, as both kinds of browsers mark them.
    for (name, value) in [("sec-fetch-site", "same-origin"), ("origin", &*hub.url)] {
        let request = hub.request(Method::POST, "/api/v1/tokens", None).header("cookie", &*cookie);
        let answer = Answer::of(request.header(name, value).json(&json!({"label": "x"}))).await;
        assert_eq!(answer.status, 201, "{name}");
    }
}

/// Otherwise another site could sign a browser in to a foreign account.
#[tokio::test]
async fn other_sites_cannot_press_the_button() {
    let (hub, mails) = hub_with_mail(Setup::new());
    let link = link_for(&hub, &mails, "ann@mail.example", None).await;
    for (name, value) in
        [("sec-fetch-site", "cross-site"), ("origin", "https://elsewhere.example"), ("accept", "*/*")]
    {
        let answer = Answer::of(hub.request(Method::POST, &link, None).header(name, value)).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (403, ""));
    }
    assert_eq!(press(&hub, &link).await.status, 303, "it was not used up");
}

#[tokio::test]
async fn signing_out_ends_the_session() {
    let (hub, mails) = hub_with_mail(Setup::new());
    for (path, status) in [("/api/v1/signout", 204), ("/signout", 303)] {
        let cookie = session(&hub, &mails, "ann@mail.example").await;
        let other = session(&hub, &mails, "ann@mail.example").await;
        assert_eq!(me(&hub, &cookie).await.status, 200);
        let out = by_page(hub.request(Method::POST, path, None)).header("cookie", &*cookie);
        let out = Answer::of(out).await;
        assert_eq!(out.status, status, "{}", out.text);
        let (cleared, attributes) = cookie_of(&out);
        assert_eq!((&*cleared, attributes.contains(&"Max-Age=0".into())), ("chorus_session=", true));
        me(&hub, &cookie).await.own_failure(Code::Unauthorized);
        assert_eq!(me(&hub, &other).await.status, 200, "another browser's goes on");
    }
    assert_eq!(hub.post("/api/v1/signout", None, &Value::Null).await.status, 204);
}

#[tokio::test]
async fn a_session_ends_after_thirty_days() {
    let clock = ManualClock::new(BEGIN);
    let (hub, mails) = hub_with_mail(Setup::new().clock(&clock));
    let cookie = session(&hub, &mails, "ann@mail.example").await;
    clock.advance(30 * DAY - 1);
    assert_eq!(me(&hub, &cookie).await.status, 200);
    clock.advance(1001);
    me(&hub, &cookie).await.own_failure(Code::Unauthorized);
    let home = Answer::of(hub.request(Method::GET, "/", None).header("cookie", &*cookie)).await;
    assert!(home.status == 200 && !home.text.contains("Signed in"));
}

#[tokio::test]
async fn cookies_stay_on_https_where_the_hub_is() {
    let setup = Setup::new().config(|config| config.public_url = "https://hub.example".into());
    let (hub, mails) = hub_with_mail(setup);
    hub.post("/api/v1/signin", None, &json!({"email": "ann@mail.example"})).await;
    let all = eventually(async || mails_to(mails.path(), "ann@mail.example"), |all| !all.is_empty()).await;
    let link = all[0].split_whitespace().find_map(|word| word.strip_prefix("https://hub.example")).unwrap();
    let request = hub.request(Method::POST, link, None).header("origin", "https://hub.example");
    let entered = Answer::of(request).await;
    assert_eq!(entered.status, 303);
    assert!(cookie_of(&entered).1.contains(&"Secure".into()));
}

#[tokio::test]
async fn a_form_with_a_fault_comes_back() {
    let (hub, mails) = hub_with_mail(Setup::new());
    for email in ["", "ann", "ann@", "a@b@c", "a b@c", "a@b\r\nBcc: eve@mail.example", "<script>\"@ x"] {
        let form = send_form(&hub, &[("email", email), ("invitation", "\"><b>")]).await;
        assert_eq!((form.status, form.header("content-type")), (400, "text/html; charset=utf-8"), "{email}");
        assert!(form.text.contains("role=\"alert\""), "{}", form.text);
        assert!(!form.text.contains("<script>") && !form.text.contains("<b>"), "{}", form.text);
    }
    hub.stop().await;
    assert_eq!(fs::read_dir(mails.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn pages_are_guarded_and_escape_what_they_show() {
    let (hub, mails) = hub_with_mail(Setup::new());
    let body = json!({"email": "ann@mail.example", "name": "<script>alert(1)</script>"});
    assert_eq!(hub.post("/api/v1/accounts", Some(OPERATOR), &body).await.status, 201);
    let link = link_for(&hub, &mails, "ann@mail.example", None).await;
    let mut pages = vec![hub.get("/signin", None).await, hub.get(&link, None).await];
    let cookie = cookie_of(&press(&hub, &link).await).0;
    pages.push(hub.get(&link, None).await);
    pages.push(send_form(&hub, &[("email", "x")]).await);
    pages.push(send_form(&hub, &[("email", "x@y")]).await);
    let home = hub.get("/", None).await;
    pages.push(Answer::of(hub.request(Method::GET, "/", None).header("cookie", cookie)).await);
    assert!(
        pages.last().unwrap().text.contains("&#60;script&#62;alert(1)"),
        "{}",
        pages.last().unwrap().text
    );
    let guards = [
        "content-security-policy",
        "referrer-policy",
        "x-frame-options",
        "x-content-type-options",
        "cache-control",
        "content-type",
    ];
    for page in pages {
        for guard in guards {
            assert_ne!(page.header(guard), "", "{guard}");
            assert_eq!(page.header(guard), home.header(guard), "{}", page.text);
        }
        for inline in ["<script>", "<style", " style=", " onclick=", "http://", "https://"] {
            let text = page.text.replace(&hub.url, "");
            assert!(!text.contains(inline), "{inline}: {text}");
        }
    }
}

/// Starts a minimal mail server. Returns its address and the received lines.
async fn mail_server() -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let serve = async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        writer.write_all(b"220 mail.example\r\n").await.unwrap();
        let (mut said, mut in_data) = (vec![], false);
        while let Some(line) = lines.next_line().await.unwrap() {
            let answer = match &*line {
                "." => Some("250 taken\r\n"),
                _ if in_data => None,
                "DATA" => Some("354 go on\r\n"),
                _ => Some("250 ok\r\n"),
            };
            in_data = (in_data || line == "DATA") && line != ".";
            if let Some(answer) = answer {
                writer.write_all(answer.as_bytes()).await.unwrap();
            }
            let last = line == "QUIT" || line == ".";
            said.push(line);
            if last {
                break;
            }
        }
        said
    };
    (url, tokio::spawn(serve))
}

#[tokio::test]
async fn a_mail_server_gets_the_mail() {
    let (url, server) = mail_server().await;
    let mail = Mail::parse(&format!("{url}?from=hub@mail.example")).unwrap();
    let hub = Setup::new().config(|config| config.mail = mail).start();
    hub.post("/api/v1/signin", None, &json!({"email": "ann@mail.example"})).await;
    let said = server.await.unwrap();
    for line in ["MAIL FROM:<hub@mail.example>", "RCPT TO:<ann@mail.example>", "To: ann@mail.example"] {
        assert!(said.iter().any(|said| said.starts_with(line)), "{line}: {said:#?}");
    }
    let link = said.iter().find_map(|line| line.strip_prefix(&*hub.url)).unwrap();
    assert_eq!(press(&hub, link).await.status, 303);
}

/// A server without TLS gets no mail, unless it is local or the setting permits it.
#[tokio::test]
async fn a_mail_is_not_sent_without_tls_where_it_is_required() {
    for (tls, sent) in
        [("?tls=required", false), ("", true), ("?tls=off", true), ("?tls=opportunistic", true)]
    {
        let (url, server) = mail_server().await;
        let mail = Mail::parse(&format!("{url}{tls}")).unwrap();
        let hub = Setup::new().config(|config| config.mail = mail).start();
        hub.post("/api/v1/signin", None, &json!({"email": "ann@mail.example"})).await;
        let said = server.await.unwrap();
        assert_eq!(said.iter().any(|line| line.starts_with("DATA")), sent, "{tls}: {said:#?}");
        assert_eq!(said.iter().any(|line| line.contains("ann@mail.example")), sent, "{tls}: {said:#?}");
    }
}

/// Nobody waits for a mail server; an unreachable one costs only the mail.
#[tokio::test]
async fn a_mail_server_that_is_away_delays_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mail = Mail::parse(&format!("smtp://{}", listener.local_addr().unwrap())).unwrap();
    let hub = Setup::new().config(|config| config.mail = mail).start();
    // The server accepts the connection and stays silent.
    let begun = Instant::now();
    for n in 0..64 {
        let body = json!({"email": format!("a{n}@mail.example")});
        assert_eq!(hub.post("/api/v1/signin", None, &body).await.status, 202);
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
    let full = hub.post("/api/v1/signin", None, &json!({"email": "z@mail.example"})).await;
    full.own_failure(Code::Overloaded);
    assert_eq!(full.header("retry-after"), "1");
    drop(listener);
    hub.assert_healthy().await;
}
