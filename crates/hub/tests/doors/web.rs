//! Pages of a signed-in person: their content, visibility, and escaping of user text.

use crate::accounts::{by_page, cookie_of, hub_with_mail, session};
use crate::channel_fixture::inbox_of;
use crate::support::{Answer, Inbox, OPERATOR, Setup, TestHub, eventually};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use chorus_testkit::sse::SseClient;
use data_encoding::BASE64;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const ANN: &str = "ann@mail.example";

/// Submits a form as a browser does from one of our pages.
pub(crate) async fn send(hub: &TestHub, path: &str, key: Option<&str>, fields: &[(&str, &str)]) -> Answer {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = by_page(hub.request(Method::POST, path, key));
    Answer::of(request.header("content-type", "application/x-www-form-urlencoded").body(body)).await
}

/// A hub with a person and their agent, both in a channel.
pub(crate) struct House {
    pub(crate) hub: TestHub,
    pub(crate) ann: String,
    pub(crate) agent: Value,
    pub(crate) channel: String,
    /// The path of the channel in the API.
    pub(crate) api: String,
}

impl House {
    pub(crate) async fn start() -> Self {
        Self::on(&Setup::new()).await
    }

    async fn on(setup: &Setup) -> Self {
        let hub = setup.start();
        let ann = hub.account(ANN).await;
        let agent = hub.post("/api/v1/agents", Some(&ann), &json!({"name": "timber"})).await.body;
        let made = send(&hub, "/channels/new", Some(&ann), &[("name", "ops"), ("agents", "timber")]).await;
        assert_eq!(made.status, 303, "{}", made.text);
        let channel = made.header("location").strip_prefix("/c/").unwrap().to_owned();
        let api = format!("/api/v1/channels/{channel}");
        Self { hub, ann, agent, channel, api }
    }

    pub(crate) async fn page(&self, path: &str) -> Answer {
        self.hub.get(path, Some(&self.ann)).await
    }

    /// Returns the main part of a page.
    pub(crate) async fn main(&self, path: &str) -> String {
        let page = self.page(path).await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        page.text.split("<main").nth(1).unwrap().to_owned()
    }

    pub(crate) async fn say(&self, content: &str) -> String {
        let said = self.hub.say(&self.api, &self.ann, &json!({"content": content})).await;
        said["event_id"].as_str().unwrap().to_owned()
    }
}

/// The pages that every signed-in person has.
const PAGES: [&str; 14] = [
    "/account",
    "/blocks",
    "/channels",
    "/inbox",
    "/fleet",
    "/fleet/deliveries",
    "/streams",
    "/streams/new",
    "/directory",
    "/directory/new",
    "/search",
    "/search?q=word",
    "/channels/new",
    "/direct/new",
];

#[tokio::test]
async fn pages_are_for_who_is_signed_in_and_guarded() {
    let house = House::start().await;
    let mut paths: Vec<String> = PAGES.iter().map(|path| (*path).to_owned()).collect();
    let agent = format!("/directory/{}", house.agent["agent_id"].as_str().unwrap());
    for page in ["", "/settings", "/write"] {
        paths.push(format!("/c/{}{page}", house.channel));
    }
    paths.extend([format!("{agent}/settings"), agent]);
    for path in &paths {
        let page = house.page(path).await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        assert!(page.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
        for inline in ["<script>", "<style", " style=", " onclick=", " onload=", "javascript:"] {
            assert!(!page.text.contains(inline), "{path} has {inline}");
        }
        let stranger = house.hub.get(path, None).await;
        assert_eq!((stranger.status, stranger.header("location")), (303, "/signin"), "{path}");
        let agent = house.hub.get(path, house.agent["api_key"].as_str()).await;
        assert_eq!(agent.status, 403, "{path}: agents have no pages");
    }
}

#[tokio::test]
async fn a_channel_is_made_and_talked_in_without_a_script() {
    let house = House::start().await;
    let path = format!("/c/{}", house.channel);
    let said = [("content", "@timber **look** at `this`"), ("intent", "question")];
    let answer = send(&house.hub, &format!("{path}/say"), Some(&house.ann), &said).await;
    assert_eq!((answer.status, answer.header("location")), (303, &*path));
    let page = house.main(&path).await;
    assert!(page.contains(r#"<span class="mention agent">@timber</span>"#), "{page}");
    assert!(page.contains("<strong>look</strong>") && page.contains("<code>this</code>"), "{page}");
    assert!(page.contains(r#"<span class="tag">question</span>"#), "{page}");

    let event = house.hub.log(&house.api, &house.ann, "kind=message").await[0]["event_id"].clone();
    let event = event.as_str().unwrap();
    let reply = [("content", "in it"), ("thread", event)];
    send(&house.hub, &format!("{path}/say"), Some(&house.ann), &reply).await;
    let thread = house.main(&format!("{path}/t/{event}")).await;
    assert!(thread.contains("in it") && thread.contains("look"), "{thread}");
    assert!(house.main(&path).await.contains("1 in the thread"));

    let why = house.main(&format!("{path}/why/{event}")).await;
    assert!(why.contains("It went to timber because it is named"), "{why}");
    assert!(why.contains("direct_mention") && why.contains("must_respond"), "{why}");
    assert!(why.contains(r#"<li class="reached">stored"#), "{why}");
}

/// An agent's work is shown as one line, and its answer appears without a reload.
#[tokio::test]
async fn a_page_is_live() {
    let house = House::start().await;
    let key = house.agent["api_key"].as_str().unwrap();
    let mut inbox = house.hub.inbox(key, None).await;
    let url = format!("{}/c/{}/live?after=0", house.hub.url, house.channel);
    let sse = SseClient::open(&url, &house.ann, None).await.expect("the page goes on");
    let mut live = Inbox { sse, after: 0, revoked: false };
    live.event("connected").await;
    house.say("@timber go").await;
    let told = loop {
        let item = live.event("item").await;
        if item["kind"] == "message" {
            break item;
        }
    };
    assert!(
        told["html"].as_str().unwrap().contains(r#"<span class="mention agent">@timber</span> go"#),
        "{told}"
    );
    let chat = inbox.event("chat").await;
    let callback = chat["callback"].as_str().unwrap().strip_prefix(&house.hub.url).unwrap().to_owned();
    for body in [
        json!({"type": "tool_call", "name": "release.read", "id": "1", "args": {"version": "<b>4</b>"}}),
        json!({"type": "tool_result", "id": "1", "content": "clean"}),
    ] {
        assert!(house.hub.post(&callback, None, &body).await.status < 300);
        assert_eq!(live.event("touch").await["kind"], body["type"]);
    }
    house.hub.post(&callback, None, &json!({"type": "message", "content": "done <i>it</i>"})).await;
    let told = live.event("item").await;
    assert!(told["html"].as_str().unwrap().contains("done &lt;i&gt;it"), "{told}");
    let items = house.page(&format!("/c/{}/items?after=0", house.channel)).await.text;
    assert!(items.contains("used 1 tool</span>") && items.contains("release.read"), "{items}");
    assert!(!items.contains("<b>4") && items.matches("<details").count() == 1, "{items}");
}

#[tokio::test]
async fn strangers_learn_nothing_from_a_page() {
    let house = House::start().await;
    let event = house.say("hello").await;
    let eve = house.hub.account("eve@mail.example").await;
    let path = format!("/c/{}", house.channel);
    let unknown = format!("/c/ch_{}", "0".repeat(32));
    for rest in
        ["", "/items", "/live", "/waiting", "/documents/x", &format!("/t/{event}"), &format!("/why/{event}")]
    {
        let answer = house.hub.get(&format!("{path}{rest}"), Some(&eve)).await;
        let nothing = house.hub.get(&format!("{unknown}{rest}"), Some(&eve)).await;
        assert_eq!((answer.status, &answer.text), (404, &nothing.text), "{rest}");
    }
    for (rest, fields) in
        [("/say", ("content", "x")), ("/members", ("who", "timber")), ("/read", ("seq", "1"))]
    {
        let answer = send(&house.hub, &format!("{path}{rest}"), Some(&eve), &[fields]).await;
        assert_eq!(answer.status, 404, "{rest}: {}", answer.text);
    }
    assert_eq!(house.hub.log(&house.api, &house.ann, "kind=message").await.len(), 1);
}

#[tokio::test]
async fn what_is_new_is_marked_until_it_is_read() {
    let house = House::start().await;
    let bob = house.hub.account("bob@mail.example").await;
    house.hub.add(&house.api, OPERATOR, &json!({"account": "bob@mail.example"})).await;
    let said = house.hub.say(&house.api, &bob, &json!({"content": "@ann are you there?"})).await;
    let rail = house.page("/inbox").await.text;
    assert!(rail.contains(r#"class="unread""#), "{rail}");
    assert!(rail.split("<main").nth(1).unwrap().contains("are you there?"), "{rail}");
    // The person's own messages, and those to others, are not pending.
    house.say("yes").await;
    let path = format!("/c/{}/read", house.channel);
    let seq = said["sequence"].to_string();
    assert_eq!(send(&house.hub, &path, Some(&house.ann), &[("seq", &seq)]).await.status, 204);
    let rail = house.page("/inbox").await.text;
    assert!(!rail.contains(r#"class="unread""#) && rail.contains("Nothing waits for you"), "{rail}");
    // A mark beyond the end hides nothing later, and the mark never moves back.
    for seq in ["9999999", "1"] {
        assert_eq!(send(&house.hub, &path, Some(&house.ann), &[("seq", seq)]).await.status, 204);
    }
    house.hub.say(&house.api, &bob, &json!({"content": "one more"})).await;
    assert!(house.page("/inbox").await.text.contains(r#"class="unread""#));
    // A recipient named beside the text counts as addressed.
    assert!(!house.main("/inbox").await.contains("a word, please"));
    house.hub.say(&house.api, &bob, &json!({"content": "a word, please", "to": ["ann"]})).await;
    assert!(house.main("/inbox").await.contains("a word, please"));
}

/// Forms are accepted only from our own pages.
#[tokio::test]
async fn other_sites_send_no_forms() {
    let (hub, mails) = hub_with_mail(Setup::new());
    let cookie = session(&hub, &mails, ANN).await;
    let unknown = format!("/c/ch_{}/settings", "0".repeat(32));
    let paths = ["/channels/new", "/directory/new", "/tokens", "/invitations", "/direct/new", "/operator"];
    for path in paths.into_iter().chain(["/account", "/account/delete", "/blocks", &*unknown]) {
        for site in [Some("cross-site"), Some("same-site"), None] {
            let mut request =
                hub.request(Method::POST, path, None).header("cookie", &*cookie).body("name=x&with=y");
            if let Some(site) = site {
                request = request.header("sec-fetch-site", site);
            }
            assert_eq!(Answer::of(request).await.status, 403, "{path} from {site:?}");
        }
    }
    let request = by_page(hub.request(Method::POST, "/channels/new", None)).header("cookie", &*cookie);
    assert_eq!(Answer::of(request.body("name=ops")).await.status, 303);
}

#[tokio::test]
async fn the_operators_key_opens_the_console_for_an_hour() {
    let clock = ManualClock::new(1_800_000_000_000);
    let house = House::on(&Setup::new().clock(&clock)).await;
    let hub = &house.hub;
    assert!(hub.get("/operator", None).await.text.contains("The operator’s key"));
    let wrong = send(hub, "/operator", None, &[("key", "co_wrong_wrong_wrong_wrong")]).await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (403, ""));
    let right = send(hub, "/operator", None, &[("key", OPERATOR)]).await;
    let (cookie, attributes) = cookie_of(&right);
    assert_eq!(attributes, ["HttpOnly", "SameSite=Strict", "Path=/operator", "Max-Age=3600"]);
    assert!(!cookie.contains(OPERATOR));
    let get = async |path: &str, cookie: &str| {
        Answer::of(hub.request(Method::GET, path, None).header("cookie", cookie)).await
    };
    assert!(get("/operator", &cookie).await.text.contains("Writes that wait"));
    for path in ["/operator/deliveries", "/operator/audit"] {
        assert_eq!(get(path, &cookie).await.status, 200, "{path}");
        assert_eq!(get(path, "").await.status, 403, "{path}");
        // Neither a person nor an agent is the operator.
        assert_eq!(house.page(path).await.status, 403, "{path}");
        let last = if cookie.ends_with('0') { '1' } else { '0' };
        let forged = format!("{}{last}", &cookie[..cookie.len() - 1]);
        assert_eq!(get(path, &forged).await.status, 403, "{path}");
    }
    // The cookie opens these pages, and nothing of the API.
    assert_eq!(get("/api/v1/operator/overview", &cookie).await.status, 401);
    clock.advance(60 * 60 * 1000);
    assert_eq!(get("/operator/audit", &cookie).await.status, 403);
}

#[tokio::test]
async fn what_was_refused_is_replayed_from_the_page() {
    let house = House::start().await;
    let receiver = FakeAgent::start().await;
    receiver.set(Reply::Json(422, json!({})));
    let new = json!({"name": "marl", "connection_string": inbox_of(&receiver)});
    let made = house.hub.post("/api/v1/agents", Some(&house.ann), &new).await;
    assert_eq!(made.status, 201, "{}", made.text);
    house.hub.add(&house.api, &house.ann, &json!({"agent": "marl"})).await;
    house.say("@marl take this").await;
    let dead =
        async || house.hub.get("/api/v1/deliveries?state=dead", Some(&house.ann)).await.body["items"].clone();
    let dead = eventually(dead, |items| items.as_array().is_some_and(|items| !items.is_empty())).await;
    let id = dead[0]["id"].as_str().unwrap();
    let page = house.main(&format!("/fleet/deliveries?state=dead&id={id}")).await;
    assert!(page.contains("422") && page.contains("marl") && page.contains("Replay this one"), "{page}");
    assert!(house.main("/fleet").await.contains("1 delivery was refused or given up"));
    let eve = house.hub.account("eve@mail.example").await;
    assert_eq!(send(&house.hub, "/fleet/deliveries/replay", Some(&eve), &[("id", id)]).await.status, 404);
    let replayed = send(&house.hub, "/fleet/deliveries/replay", Some(&house.ann), &[("id", id)]).await;
    assert_eq!(replayed.status, 303, "{}", replayed.text);
    receiver.wait_for(2, Duration::from_secs(30)).await;
    // The attempt before the replay is still listed with its time, although the count restarted.
    let tries = format!("/api/v1/deliveries/{id}/attempts");
    let told = async || house.hub.get(&tries, Some(&house.ann)).await.body["items"].clone();
    let told = eventually(told, |items| items.as_array().is_some_and(|items| items.len() == 2)).await;
    assert!(told[0]["at"].as_str() < told[1]["at"].as_str(), "{told}");
    assert_eq!((&told[0]["status"], &told[1]["status"]), (&json!(422), &json!(422)));
    assert_eq!(house.hub.get(&tries, Some(&eve)).await.status, 404);
}

/// Sets every user text to markup, and checks every page that shows it.
#[tokio::test]
async fn nothing_that_anybody_says_is_markup() {
    const ATTACK: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(1)><b style=x>";
    let house = House::start().await;
    let (hub, ann) = (&house.hub, Some(&*house.ann));
    let named =
        json!({"email": "mallory@mail.example", "name": ATTACK.chars().take(100).collect::<String>()});
    assert_eq!(hub.post("/api/v1/accounts", Some(OPERATOR), &named).await.status, 201);
    let name: String = ATTACK.chars().take(80).collect();
    let api = hub.channel(&house.ann, &json!({"name": name, "context": ATTACK})).await;
    let channel = api.rsplit('/').next().unwrap();
    let card = json!({"card_version": "0.3", "user_culture": "en", "supported_languages": ["en"], "bio": ATTACK, ATTACK: 1});
    let agent = json!({"name": "mal", "description": ATTACK, "card": card});
    let agent = hub.post("/api/v1/agents", ann, &agent).await;
    assert_eq!(agent.status, 201, "{}", agent.text);
    let (key, id) = (agent.body["api_key"].as_str().unwrap(), agent.body["agent_id"].as_str().unwrap());
    hub.add(&api, &house.ann, &json!({"agent": "mal"})).await;
    let mut inbox = hub.inbox(key, None).await;
    let content = format!(
        "@mal {ATTACK}\n\n[x](javascript:alert(1))\n\n```{ATTACK}\n```\n\n![x](https://evil.example/x.png)"
    );
    let said = hub.say(&api, &house.ann, &json!({"content": content})).await;
    let event = said["event_id"].as_str().unwrap();
    let callback =
        inbox.event("chat").await["callback"].as_str().unwrap().strip_prefix(&hub.url).unwrap().to_owned();
    for body in [
        json!({"type": "tool_call", "name": ATTACK, "id": ATTACK, "args": {ATTACK: ATTACK}}),
        json!({"type": "tool_result", "id": ATTACK, "content": ATTACK}),
        json!({"type": "status", "status": ATTACK}),
        json!({"type": "error", "message": ATTACK, "code": ATTACK}),
        json!({"type": "message", "content": ATTACK}),
    ] {
        let answer = hub.post(&callback, None, &body).await;
        assert!(answer.status < 300, "{}", answer.text);
    }
    let document = json!({"slug": "d", "title": ATTACK, "content": ATTACK, "content_type": "text/html"});
    assert_eq!(hub.post(&format!("{api}/artifacts"), Some(key), &document).await.status, 201);
    // The same as bytes; the last one makes it binary.
    let bytes = BASE64.encode(format!("{ATTACK}\0").as_bytes());
    let document = json!({"slug": "b", "title": ATTACK, "content": bytes, "encoding": "base64", "content_type": "text/html"});
    assert_eq!(hub.post(&format!("{api}/artifacts"), Some(key), &document).await.status, 201);
    let paths = [
        format!("/c/{channel}/documents/b"),
        "/".to_owned(),
        "/inbox".to_owned(),
        "/fleet".to_owned(),
        "/directory".to_owned(),
        "/account".to_owned(),
        format!("/search?q={}", "script"),
        format!("/search?q={}", url::form_urlencoded::byte_serialize(ATTACK.as_bytes()).collect::<String>()),
        format!(
            "/directory?q={}",
            url::form_urlencoded::byte_serialize(ATTACK.as_bytes()).collect::<String>()
        ),
        format!("/directory/{id}"),
        format!("/c/{channel}"),
        format!("/c/{channel}/items"),
        format!("/c/{channel}/waiting"),
        format!("/c/{channel}?side=documents"),
        format!("/c/{channel}/documents/d"),
        format!("/c/{channel}/why/{event}"),
        format!("/c/{channel}/t/{event}"),
        "/fleet/deliveries".to_owned(),
    ];
    let mut shown = 0;
    for path in paths {
        let page = house.page(&path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        for markup in
            ["<script>", "<img", "<b ", "onerror=\"", "href=\"javascript", "evil.example/x.png\" alt"]
        {
            assert!(!page.text.contains(markup), "{path} shows {markup}: {}", page.text);
        }
        shown += page.text.matches("alert(1)").count();
    }
    assert!(shown > 20, "it is shown as the text it is: {shown}");
    let faulty = send(hub, "/channels/new", ann, &[("name", "x"), ("agents", ATTACK)]).await;
    assert!(faulty.status == 400 && !faulty.text.contains("<script>"), "{}", faulty.text);
    assert_eq!(faulty.header("content-type"), "text/html; charset=utf-8");
    hub.get("/api/v1/channels/x", None).await.own_failure(Code::Unauthorized);
}

#[tokio::test]
async fn a_document_of_bytes_is_a_picture_or_saved() {
    let house = House::start().await;
    let documents = format!("/api/v1/channels/{}/artifacts", house.channel);
    for (slug, content_type) in [("dot", "image/gif"), ("zip", "application/zip")] {
        let content = BASE64.encode(b"PK\0");
        let body =
            json!({"slug": slug, "content": content, "encoding": "base64", "content_type": content_type});
        assert_eq!(house.hub.post(&documents, Some(&house.ann), &body).await.status, 201);
    }
    let page = async |slug: &str| house.main(&format!("/c/{}/documents/{slug}", house.channel)).await;
    let image = format!("<img class=\"picture\" src=\"{documents}/dot/raw?version=1\"");
    let link = |slug: &str| format!("<a href=\"{documents}/{slug}/raw?version=1\" download>");
    let (dot, zip) = (page("dot").await, page("zip").await);
    assert!(dot.contains(&image) && dot.contains(&link("dot")), "{dot}");
    assert!(
        zip.contains(&link("zip")) && !zip.contains("<img") && zip.contains("This is not a text"),
        "{zip}"
    );
    let picture = house.page(&format!("{documents}/dot/raw?version=1")).await;
    assert_eq!((picture.status, picture.header("content-type")), (200, "image/gif"));
}

/// A long conversation opens at its end, and goes back page by page.
#[tokio::test]
async fn a_long_conversation_opens_with_its_end() {
    let house = House::start().await;
    for n in 0..180 {
        house.say(&format!("message number {n}.")).await;
    }
    let path = format!("/c/{}", house.channel);
    let page = house.main(&path).await;
    assert!(page.contains("number 179.") && !page.contains("number 130."), "{page}");
    let before = page.split("?before=").nth(1).unwrap().split('"').next().unwrap();
    let earlier = house.main(&format!("{path}?before={before}")).await;
    assert!(earlier.contains("number 130.") && !earlier.contains("number 179."), "{earlier}");
    assert!(earlier.contains("You are reading older messages"));
}

/// A browser gets a page for a dead link; a program gets the error in its door's format.
#[tokio::test]
async fn a_path_that_is_none_is_a_page_for_a_person() {
    let house = House::start().await;
    let look = async |method: Method, path: &str, accept: &str| {
        Answer::of(house.hub.request(method, path, None).header("accept", accept)).await
    };
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for path in ["/nowhere", "/c", "/api/v1/nowhere", "/signin/x/y"] {
        let page = look(Method::GET, path, browser).await;
        assert_eq!((page.status, page.header("content-type")), (404, "text/html; charset=utf-8"), "{path}");
        assert!(page.text.contains("class=\"rail\"") && page.text.contains("href=\"/\""), "{}", page.text);
        assert!(page.header("content-security-policy").contains("default-src 'none'"));
    }
    let odd = look(Method::GET, "/%3Cscript%3Ealert(1)%3C/script%3E", browser).await;
    assert!(!odd.text.contains("<script>"), "{}", odd.text);
    for (method, accept) in [(Method::GET, "application/json"), (Method::GET, "*/*"), (Method::POST, browser)]
    {
        let answer = look(method, "/nowhere", accept).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["code"]),
            (404, &json!("ERR_NOT_FOUND")),
            "{}",
            answer.text
        );
    }
}
