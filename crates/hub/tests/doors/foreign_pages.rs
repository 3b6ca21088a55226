//! Pages of other sites can change nothing on this hub, by whatever host name they reach it.

use crate::support::{Answer, OPERATOR, Setup, TestHub};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::raw::{raw_exchange, status_of};
use reqwest::Method;
use serde_json::json;
use std::time::Duration;

/// Returns every documented route and the pages' own, with all parameters filled in.
fn routes() -> Vec<(Method, String)> {
    let document = serde_json::to_value(chorus_hub::openapi()).unwrap();
    let mut routes: Vec<_> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(move |method| (method, path)))
        .map(|(method, path)| {
            let path: Vec<_> =
                path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
            (Method::from_bytes(method.to_uppercase().as_bytes()).unwrap(), path.join("/"))
        })
        .collect();
    for (method, path) in [
        (Method::GET, "/"),
        (Method::GET, "/api"),
        (Method::GET, "/signin"),
        (Method::POST, "/signin"),
        (Method::POST, "/signin/x"),
        (Method::POST, "/signout"),
        (Method::POST, "/tokens"),
        (Method::GET, "/nothing"),
        (Method::POST, "/nothing"),
    ] {
        routes.push((method, path.to_owned()));
    }
    assert!(routes.len() > 60, "{routes:?}");
    routes
}

async fn with(hub: &TestHub, method: &Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let request = hub.request(method.clone(), path, Some(OPERATOR)).body("{}");
    Answer::of(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

/// Returns whether the response is a refusal with a message, in either format.
fn is_refused(answer: &Answer) -> bool {
    let code = answer.body["error"]["code"].as_str().unwrap_or_default();
    let says = answer.body["error"]["message"].as_str().unwrap_or_default();
    answer.status == 403
        && code.ends_with("FORBIDDEN")
        && (says.contains("Host header") || says.contains("other sites' pages"))
}

/// A foreign host name that leads here is refused (DNS rebinding).
#[tokio::test]
async fn no_route_answers_to_a_foreign_name() {
    let hub = TestHub::start();
    for (method, path) in routes() {
        for host in ["evil.example", "evil.example:8787", "localhost.evil.example", "192.0.2.1"] {
            let answer = with(&hub, &method, &path, &[("host", host)]).await;
            assert!(is_refused(&answer), "{method} {path} {host}: {} {}", answer.status, answer.text);
        }
    }
    let port = hub.addr.port();
    for host in ["localhost", "a.localhost:1", &format!("LOCALHOST:{port}"), "[::1]:1", "127.9.9.9"] {
        assert_eq!(with(&hub, &Method::GET, "/health", &[("host", host)]).await.status, 200, "{host}");
    }
}

/// The routes open to any page: receipts, their log, the signing keys, and signed evidence.
fn is_public(method: &Method, path: &str) -> bool {
    let receipt = method == Method::GET && path.starts_with("/api/v1/receipts/");
    receipt
        || path.starts_with("/api/public/")
        || path.starts_with("/api/v1/log/")
        || path == "/.well-known/chorus-keys.json"
}

/// Requests that change something are refused from pages of other sites.
#[tokio::test]
async fn no_route_lets_other_pages_change_anything() {
    let hub = TestHub::start();
    let port = hub.addr.port();
    let (next_door, own) = (format!("http://127.0.0.1:{}", port ^ 1), format!("http://127.0.0.1:{port}"));
    for (method, path) in routes() {
        let safe = method.is_safe() && !path.starts_with("/mcp") && path != "/c2a" && path != "/agent/inbox";
        for headers in [
            &[("origin", "https://evil.example")][..],
            &[("origin", "null")],
            &[("origin", &next_door)],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site"), ("origin", &next_door)],
            &[("sec-fetch-site", "none"), ("origin", "chrome-extension://abcdef")],
        ] {
            if safe && path.ends_with("stream") {
                continue;
            }
            let answer = with(&hub, &method, &path, headers).await;
            if is_public(&method, &path) {
                assert!(!is_refused(&answer), "{method} {path} {headers:?}: {}", answer.text);
                assert_eq!(answer.header("access-control-allow-origin"), "*", "{method} {path}");
                let credentials = answer.headers.get("access-control-allow-credentials");
                assert!(credentials.is_none(), "{method} {path}: {:?}", answer.headers);
                continue;
            }
            assert_eq!(is_refused(&answer), !safe, "{method} {path} {headers:?}: {}", answer.text);
            let cors = answer.headers.keys().any(|name| name.as_str().starts_with("access-control"));
            assert!(!cors, "{method} {path}: {:?}", answer.headers);
        }
        if path != "/signin/x" && !safe {
            let ours = with(&hub, &method, &path, &[("origin", &own)]).await;
            assert!(!is_refused(&ours), "{method} {path}: {}", ours.text);
        }
    }
}

/// A CORS preflight is allowed, and the page can read why something was refused.
#[tokio::test]
async fn any_page_brings_signed_evidence_and_reads_what_is_wrong_with_it() {
    let hub = TestHub::start();
    let page = ("origin", "https://ci.example");
    let wanted = ("access-control-request-method", "POST");
    let asked = with(&hub, &Method::OPTIONS, "/api/public/evidence/x", &[page, wanted]).await;
    assert_eq!(asked.status, 204, "{}", asked.text);
    assert_eq!(asked.header("access-control-allow-headers"), "*");
    assert_eq!(asked.header("access-control-allow-methods"), "GET, POST");
    let refused = with(&hub, &Method::POST, "/api/public/evidence/x", &[page]).await;
    assert!(refused.status >= 400 && !is_refused(&refused), "{} {}", refused.status, refused.text);
    assert_eq!(refused.header("access-control-allow-origin"), "*");
    // Other routes allow nothing.
    let asked = with(&hub, &Method::OPTIONS, "/api/v1/channels", &[page, wanted]).await;
    assert!(!asked.headers.keys().any(|name| name.as_str().starts_with("access-control")));
}

/// A WebSocket needs no preflight: it opens with a GET that names its origin.
#[tokio::test]
async fn no_page_elsewhere_takes_over_a_session() {
    let hub = TestHub::start();
    let key = hub.register("bob").await;
    let open = async |origin: &str| {
        let request = hub
            .request(Method::GET, "/c2a", Some(&key))
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("origin", origin);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(open("https://evil.example").await, 403);
    assert_eq!(open("null").await, 403);
    assert_eq!(open(&hub.url).await, 101);
}

/// A form or script on any page, with a content type that needs no preflight, has no effect.
#[tokio::test]
async fn a_simple_request_has_no_effect_and_costs_nothing() {
    let clock = ManualClock::new(1_774_000_800_000);
    let set = |config: &mut chorus_hub::Config| config.rate_limit_anonymous = Some(6);
    let hub = Setup::new().clock(&clock).config(set).start();
    let register = |headers: &[(&str, &str)]| {
        let request = hub.request(Method::POST, "/register", None).header("content-type", "text/plain");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Answer::of(request.body(json!({"agent_id": "mallory"}).to_string()))
    };
    for headers in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "http://evil.example"), ("host", "evil.example")],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
    ] {
        for _ in 0..3 {
            register(headers).await.failure(Code::Forbidden);
        }
    }
    assert_eq!(hub.get("/agents/mallory", Some(OPERATOR)).await.status, 404);
    assert_eq!(register(&[]).await.status, 201, "a program says nothing, and what was refused cost nothing");
}

/// A browser's session works from our own pages, and from nowhere else.
#[tokio::test]
async fn a_session_still_needs_a_page_of_ours() {
    let hub = TestHub::start();
    let out = |site: Option<&str>| {
        let request = hub.request(Method::POST, "/signout", None).header("cookie", "chorus_session=cs_x");
        Answer::of(match site {
            Some(site) => request.header("sec-fetch-site", site),
            None => request,
        })
    };
    assert_eq!(out(None).await.status, 403);
    assert_eq!(out(Some("same-site")).await.status, 403);
    assert_ne!(out(Some("same-origin")).await.status, 403);
}

async fn asked_for(hub: &TestHub, host: &str) -> u16 {
    with(hub, &Method::GET, "/agents", &[("host", host)]).await.status
}

#[tokio::test]
async fn who_listens_elsewhere_answers_to_addresses_and_its_own_names() {
    let setup = Setup::new().listen_everywhere();
    let named = |config: &mut chorus_hub::Config| {
        config.public_url = "https://hub.example".into();
        config.allowed_hosts = vec!["hub".into()];
    };
    let hub = setup.clone().config(named).start();
    for host in ["hub.example", "HUB.example:443", "hub:8787", "localhost", "10.1.2.3:8787", "[2001:db8::1]"]
    {
        assert_eq!(asked_for(&hub, host).await, 200, "{host}");
    }
    for host in ["evil.example", "hub.evil.example", "example"] {
        assert_eq!(asked_for(&hub, host).await, 403, "{host}");
    }
    drop(hub);
    let hub = setup.config(|config| config.any_host = true).start();
    assert_eq!(asked_for(&hub, "whatever.example").await, 200);
    let foreign = [("origin", "https://evil.example")];
    assert_eq!(with(&hub, &Method::POST, "/register", &foreign).await.status, 403);
}

/// An HTTP/1.0 client may omit the host name; others may not, and two are refused.
#[tokio::test]
async fn requests_without_a_name() {
    let hub = TestHub::start();
    for (request, status) in [
        ("GET /health HTTP/1.0\r\n\r\n", 200),
        ("GET /health HTTP/1.0\r\nHost: evil.example\r\n\r\n", 403),
        ("GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", 403),
        ("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 403),
        ("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
    ] {
        let answer = raw_exchange(hub.addr, request.as_bytes(), Duration::from_secs(5)).await;
        assert_eq!(status_of(&answer), Some(status), "{request}");
    }
}
