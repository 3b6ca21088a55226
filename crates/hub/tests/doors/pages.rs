//! Pages for people: complete, with security headers, and without resources from the internet.

use crate::support::{HOST, TestHub};
use crate::web::send;
use serde_json::{Value, json};

/// Returns everything in a page that could be loaded from other hosts.
fn references(text: &str) -> Vec<&str> {
    let begins = ["http://", "https://", "//", "url(", "@import", "data:", "javascript:"];
    let quoted = text.split(['"', '\'', '(', ' ', '\n', '<', '>']);
    quoted.filter(|word| begins.iter().any(|begin| word.starts_with(begin)) && word.len() > 2).collect()
}

#[tokio::test]
async fn pages_refer_to_nobody_else() {
    let hub = TestHub::start();
    for path in ["/", "/api", "/api/relay"] {
        let page = hub.get(path, None).await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
        for reference in references(&page.text) {
            assert!(reference.starts_with(&hub.url), "{path} refers to {reference}");
        }
        let style = page.text.split("href=\"").find(|rest| rest.starts_with("/assets/")).unwrap();
        let style = hub.get(style.split('"').next().unwrap(), None).await;
        assert_eq!((style.status, style.header("content-type")), (200, "text/css; charset=utf-8"));
        assert_eq!(references(&style.text), [] as [&str; 0]);
        assert!(!style.text.contains("url(") && !style.text.contains("@import"));
    }
}

#[tokio::test]
async fn assets_are_cached_for_ever_and_nothing_else_is() {
    let hub = TestHub::start();
    let home = hub.get("/", None).await;
    let style = home.text.split("href=\"").find(|rest| rest.starts_with("/assets/")).unwrap();
    let style = hub.get(style.split('"').next().unwrap(), None).await;
    assert_eq!(style.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(style.header("x-content-type-options"), "nosniff");
    for path in [
        "/",
        "/api",
        "/api/openapi.json",
        "/agents",
        "/health",
        "/nothing",
        "/assets/chorus-000000000000.css",
    ] {
        assert_eq!(hub.get(path, None).await.header("cache-control"), "no-store", "{path}");
    }
}

#[tokio::test]
async fn pages_are_guarded() {
    let hub = TestHub::start();
    for path in ["/", "/api", "/api/relay"] {
        let page = hub.get(path, None).await;
        let policy = page.header("content-security-policy");
        for rule in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"]
        {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
        assert_eq!(page.header("x-frame-options"), "DENY");
        assert_eq!(page.header("referrer-policy"), "same-origin");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        let inline = ["<script>", "<style>", " style=", " onclick=", " onload="];
        assert!(
            inline.iter().all(|inline| !page.text.contains(inline)),
            "{path} has what its policy forbids"
        );
    }
    for path in ["/agents", "/nothing", "/api/openapi.json"] {
        assert_eq!(hub.get(path, None).await.header("x-content-type-options"), "nosniff", "{path}");
    }
}

/// The steps of the first page name this hub and count its agents.
#[tokio::test]
async fn the_first_page_says_what_to_do_here() {
    let hub = TestHub::start();
    let key = hub.register("a").await;
    let _inbox = hub.inbox(&key, None).await;
    let page = hub.get("/", None).await.text;
    assert!(page.contains(&format!("{}/register", hub.url)) && page.contains(HOST), "{page}");
    assert!(page.contains("<dt>Agents registered</dt><dd>1</dd>"), "{page}");
    assert!(page.contains("<dt>Inboxes open</dt><dd>1</dd>"), "{page}");
    assert!(!page.contains(&key));
}

#[tokio::test]
async fn the_api_is_described_for_programs_and_people() {
    let hub = TestHub::start();
    let answer = hub.get("/api/openapi.json", None).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    assert_eq!(answer.body, serde_json::to_value(chorus_hub::openapi()).unwrap());
    assert!(answer.body["openapi"].as_str().unwrap().starts_with("3."));
    let schemes = &answer.body["components"]["securitySchemes"];
    assert_eq!((&schemes["key"]["type"], &schemes["key"]["scheme"]), (&json!("http"), &json!("bearer")));
    let session = ["type", "in", "name"].map(|name| schemes["session"][name].as_str().unwrap());
    assert_eq!(session, ["apiKey", "cookie", "chorus_session"]);
    let overview = hub.get("/api", None).await.text;
    for (path, item) in answer.body["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values().filter(|operation| operation.is_object()) {
            assert_ne!(operation["summary"].as_str().unwrap_or_default(), "", "{path}");
        }
    }
    assert_refs_resolve(&answer.body, &answer.body);
    let (mut curls, mut all) = (0, String::new());
    for name in groups_of(&overview) {
        let page = hub.get(&format!("/api/{name}"), None).await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{name}");
        assert!(page.text.len() < 120_000, "{name} has {} bytes", page.text.len());
        curls += page.text.matches("<pre class=\"copy\">curl").count();
        all += &page.text;
    }
    // Every operation is in the overview and on its group's page, and so are the webhooks.
    let anchors = ["paths", "webhooks"].into_iter().flat_map(|place| answer.body[place].as_object().unwrap());
    for (path, item) in anchors {
        assert!(all.contains(&format!("<code>{path}</code>")), "{path}");
        for id in item.as_object().unwrap().values().filter_map(|one| one["operationId"].as_str()) {
            assert!(all.contains(&format!(" id=\"{id}\"")), "{id}");
            // Links to the former single page still lead to the operation.
            assert!(overview.contains(&format!("<li class=\"call\" id=\"{id}\"><a href=\"/api/")), "{id}");
            assert!(overview.contains(&format!("#{id}\">")), "{id}");
        }
    }
    assert!(overview.contains("id=\"group-relay\"") && overview.contains("data-filter=\".call\""));
    assert!(overview.len() < 80_000, "{}", overview.len());
    // Every operation has a command, and the attributes from which a script builds a form.
    let operations: usize =
        answer.body["paths"].as_object().unwrap().values().map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(curls, operations);
    assert!(all.contains(&format!("{}/messages&#39;", hub.url)), "by its own name");
    assert!(all.contains("data-field=\"Idempotency-Key\" data-place=\"header\""));
    let script = all.split("src=\"").find(|rest| rest.starts_with("/assets/api-")).unwrap();
    let script = hub.get(script.split('"').next().unwrap(), None).await;
    assert_eq!((script.status, script.header("content-type")), (200, "text/javascript; charset=utf-8"));
    assert!(!script.text.contains("innerHTML") && !script.text.contains("localStorage"));
}

/// Returns the groups that the overview links to.
fn groups_of(overview: &str) -> Vec<&str> {
    let chips = overview.split("<a class=\"chip\" href=\"/api/").skip(1);
    chips.map(|rest| rest.split('"').next().unwrap()).collect()
}

/// The search works without a script and covers fields and responses.
#[tokio::test]
async fn the_api_is_searched_as_a_whole() {
    let hub = TestHub::start();
    let found = hub.get("/api?q=RECEIVER_ID+envelope.original_text", None).await.text;
    assert!(
        found.contains("<code>/messages</code>") && !found.contains("<code>/api/v1/me</code>"),
        "{found}"
    );
    assert!(groups_of(&found).len() < 3 && groups_of(&found)[0] == "relay", "{found}");
    let nothing = hub.get("/api?q=%3Cscript%3Enever", None).await.text;
    assert!(nothing.contains("0 calls with") && !nothing.contains("<script>never"));
    assert_eq!(groups_of(&nothing), [] as [&str; 0]);
    // An unknown group is not found; programs get the error in their door's format.
    assert_eq!(hub.get("/api/nothing", None).await.status, 404);
    hub.get("/api/v1", None).await.own_failure(chorus_protocol::code::Code::NotFound);
}

fn assert_refs_resolve(document: &Value, value: &Value) {
    if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
    }
    let inner: Vec<&Value> = match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => vec![],
    };
    for inner in inner {
        assert_refs_resolve(document, inner);
    }
}

/// A mistyped address gets a page that explains it, and is not logged as an error.
#[tokio::test]
async fn an_address_that_cannot_be_read_is_a_page_that_says_so() {
    let hub = TestHub::start();
    let ann = hub.account("ann@mail.example").await;
    for path in ["/scores/%ff", "/scores/%ff/edit/es_1", "/c/%ff", "/search?q=a&q=b", "/verify/%ff"] {
        let page = hub.get(path, Some(&ann)).await;
        assert_eq!((page.status, page.header("content-type")), (400, "text/html; charset=utf-8"), "{path}");
        assert!(page.text.contains("This cannot be done so"), "{path}: {}", page.text);
    }
}

/// A channel is created with all of its agents or not at all, so that a corrected form does not create a
/// second one.
#[tokio::test]
async fn a_channel_with_a_wrong_agent_is_not_made() {
    let hub = TestHub::start();
    let ann = hub.account("ann@mail.example").await;
    hub.post("/api/v1/agents", Some(&ann), &json!({"name": "timber"})).await;
    let channels =
        async || hub.get("/api/v1/channels", Some(&ann)).await.body["items"].as_array().unwrap().len();
    let made =
        send(&hub, "/channels/new", Some(&ann), &[("name", "half"), ("agents", "timber nobody-here")]).await;
    assert_eq!((made.status, channels().await), (404, 0), "{}", made.text);
    assert!(made.text.contains("nobody-here"), "{}", made.text);
    let made =
        send(&hub, "/channels/new", Some(&ann), &[("name", "half"), ("agents", "timber, timber")]).await;
    assert_eq!((made.status, channels().await), (303, 1), "{}", made.text);
    let path = made.header("location").replace("/c/", "/api/v1/channels/");
    let members = hub.get(&format!("{path}/members"), Some(&ann)).await.body;
    assert_eq!(members["items"].as_array().unwrap().len(), 2, "{members}");
}
