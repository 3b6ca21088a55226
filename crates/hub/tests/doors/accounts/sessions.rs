//! Ending sessions by their owner and by the operator, and sign-in of a disabled account.

use super::{by_page, hub_with_mail, link_for, mails_to, me, press, session};
use crate::recovery::{acts, text};
use crate::revocation::token;
use crate::support::{Answer, OPERATOR, Setup, TestHub, eventually};
use chorus_protocol::code::Code;
use reqwest::Method;
use serde_json::json;
use std::time::Duration;

const ANN: &str = "ann@mail.example";

async fn end(hub: &TestHub, cookie: &str) -> Answer {
    let request = hub.request(Method::DELETE, "/api/v1/me/sessions", None).header("cookie", cookie);
    Answer::of(by_page(request)).await
}

#[tokio::test]
async fn a_person_signs_out_everywhere_else() {
    let (hub, mails) = hub_with_mail(Setup::new());
    let mut cookies = vec![];
    for _ in 0..3 {
        cookies.push(session(&hub, &mails, ANN).await);
    }
    let other = session(&hub, &mails, "bob@mail.example").await;
    let link = link_for(&hub, &mails, ANN, None).await;
    let ended = end(&hub, &cookies[1]).await;
    assert_eq!((ended.status, &ended.body), (200, &json!({"ended": 2})));
    for (n, status) in [(0, 401), (1, 200), (2, 401)] {
        assert_eq!(me(&hub, &cookies[n]).await.status, status, "{n}");
    }
    assert_eq!(me(&hub, &other).await.status, 200, "others stay");
    assert_eq!(press(&hub, &link).await.status, 410, "a link that somebody else may have is over");

    // Another site cannot do it.
    let elsewhere = hub.request(Method::DELETE, "/api/v1/me/sessions", None).header("cookie", &cookies[1]);
    let refused = Answer::of(elsewhere.header("sec-fetch-site", "cross-site")).await;
    refused.own_failure(Code::Forbidden);
    // A program ends all of them.
    let token = by_page(hub.request(Method::POST, "/api/v1/tokens", None).header("cookie", &cookies[1]));
    let token =
        Answer::of(token.json(&json!({"label": "t"}))).await.body["token"].as_str().unwrap().to_owned();
    assert_eq!(hub.delete("/api/v1/me/sessions", Some(&token)).await.body, json!({"ended": 1}));
    assert_eq!(me(&hub, &cookies[1]).await.status, 401);
    assert_eq!(hub.get("/api/v1/me", Some(&token)).await.status, 200);
}

#[tokio::test]
async fn the_operator_ends_sessions() {
    let (hub, mails) = hub_with_mail(Setup::new());
    let cookies = [session(&hub, &mails, ANN).await, session(&hub, &mails, ANN).await];
    let link = link_for(&hub, &mails, ANN, None).await;
    let path = format!("/api/v1/operator/accounts/{ANN}/sessions");
    let ended = hub.delete(&path, Some(OPERATOR)).await;
    assert_eq!((ended.status, &ended.body), (200, &json!({"ended": 2})));
    for cookie in &cookies {
        assert_eq!(me(&hub, cookie).await.status, 401);
    }
    assert_eq!(press(&hub, &link).await.status, 410);
    session(&hub, &mails, ANN).await;
    let unknown = "/api/v1/operator/accounts/acc_00000000000000000000000000000000/sessions";
    hub.delete(unknown, Some(OPERATOR)).await.own_failure(Code::NotFound);
}

/// A thief of a token may have created others with it.
#[tokio::test]
async fn tokens_end_with_the_sessions_if_wanted() {
    let (hub, mails) = hub_with_mail(Setup::new());
    let (own, cookie) = (hub.account(ANN).await, session(&hub, &mails, ANN).await);
    let other = hub.account("bob@mail.example").await;
    let is_good = async |token: &str| hub.get("/api/v1/me", Some(token)).await.status == 200;
    let stolen = token(&hub, &own).await.1;
    let made = token(&hub, &stolen).await.1;
    let path = "/api/v1/me/sessions";
    hub.delete(&format!("{path}?tokens=maybe"), Some(&own)).await.own_failure(Code::Validation);
    assert_eq!(hub.delete(&format!("{path}?tokens=false"), Some(&own)).await.body, json!({"ended": 1}));
    assert!(me(&hub, &cookie).await.status == 401 && is_good(&made).await);
    let ended = hub.delete(&format!("{path}?tokens=true"), Some(&own)).await;
    assert_eq!((ended.status, &ended.body), (200, &json!({"ended": 0, "tokens": 2})));
    assert!(!is_good(&stolen).await && !is_good(&made).await && is_good(&own).await && is_good(&other).await);

    // The browser stays signed in and revokes all tokens.
    let (cookie, made) = (session(&hub, &mails, ANN).await, token(&hub, &own).await.1);
    let request =
        hub.request(Method::DELETE, &format!("{path}?tokens=true"), None).header("cookie", &*cookie);
    assert_eq!(Answer::of(by_page(request)).await.body, json!({"ended": 0, "tokens": 2}));
    assert!(me(&hub, &cookie).await.status == 200 && !is_good(&made).await && !is_good(&own).await);

    let request = by_page(hub.request(Method::POST, "/api/v1/tokens", None).header("cookie", &*cookie));
    let made = Answer::of(request.json(&json!({"label": "t"}))).await.body["token"].clone();
    let path = format!("/api/v1/operator/accounts/{ANN}/sessions?tokens=true");
    assert_eq!(hub.delete(&path, Some(OPERATOR)).await.body, json!({"ended": 1, "tokens": 1}));
    assert!(me(&hub, &cookie).await.status == 401 && !is_good(text(&made)).await && is_good(&other).await);
    let acts = acts(&hub, "action=", "sessions.ended").await;
    assert_eq!(acts[0]["detail"], json!({"ended": 1, "tokens": 1}));
}

#[tokio::test]
async fn a_disabled_account_cannot_sign_in_and_nobody_is_told() {
    let (hub, mails) = hub_with_mail(Setup::new());
    let cookie = session(&hub, &mails, ANN).await;
    let link = link_for(&hub, &mails, ANN, None).await;
    let path = format!("/api/v1/operator/accounts/{ANN}/disable");
    assert_eq!(hub.post(&path, Some(OPERATOR), &json!({})).await.status, 200);
    assert!(me(&hub, &cookie).await.own_failure(Code::Forbidden).contains("disabled"));
    let home = Answer::of(hub.request(Method::GET, "/", None).header("cookie", &*cookie)).await;
    assert!(home.status == 200 && !home.text.contains("Signed in"), "{}", home.text);
    assert_eq!(press(&hub, &link).await.status, 410);

    let before = mails_to(mails.path(), ANN).len();
    let asked = hub.post("/api/v1/signin", None, &json!({"email": ANN})).await;
    let other = hub.post("/api/v1/signin", None, &json!({"email": "bob@mail.example"})).await;
    assert_eq!((asked.status, &asked.text), (other.status, &other.text));
    eventually(async || mails_to(mails.path(), "bob@mail.example").len(), |mails| *mails == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(mails_to(mails.path(), ANN).len(), before, "no link is sent");

    let path = format!("/api/v1/operator/accounts/{ANN}/enable");
    assert_eq!(hub.post(&path, Some(OPERATOR), &json!({})).await.status, 200);
    assert_eq!(me(&hub, &cookie).await.status, 200, "nothing was lost");
    assert_eq!(press(&hub, &link).await.status, 303);
    session(&hub, &mails, ANN).await;
}
