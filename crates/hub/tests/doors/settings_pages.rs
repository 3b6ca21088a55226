//! Forms for settings: channels, one's own agents, blocks, invitations, documents. Tests authorization,
//! refusals, and that rejected input is kept.

use crate::support::OPERATOR;
use crate::web::{House, send};
use serde_json::{Value, json};

impl House {
    /// Submits an accepted form as Ann. Returns the address it redirects to.
    async fn form(&self, path: &str, fields: &[(&str, &str)]) -> String {
        let sent = send(&self.hub, path, Some(&self.ann), fields).await;
        assert_eq!(sent.status, 303, "{path}: {}", sent.text);
        sent.header("location").to_owned()
    }

    /// Submits a form that is refused with this status, and returns the page.
    async fn refused(
        &self,
        key: &str,
        path: &str,
        fields: &[(&str, &str)],
        status: u16,
        why: &str,
    ) -> String {
        let sent = send(&self.hub, path, Some(key), fields).await;
        assert_eq!(
            (sent.status, sent.header("content-type")),
            (status, "text/html; charset=utf-8"),
            "{path}"
        );
        assert!(sent.text.to_lowercase().contains(&why.to_lowercase()), "{path}: {}", sent.text);
        sent.text
    }

    /// Returns the channel as the API shows it to Ann.
    async fn place(&self) -> Value {
        self.hub.get(&self.api, Some(&self.ann)).await.body
    }

    async fn member(&self, email: &str) -> String {
        let key = self.hub.account(email).await;
        self.hub.add(&self.api, OPERATOR, &json!({"account": email})).await;
        key
    }
}

/// An agent's owner sets its allowance.
#[tokio::test]
async fn an_agent_is_given_an_allowance() {
    let house = House::start().await;
    let made = house.hub.post("/api/v1/agents", Some(&house.ann), &json!({"name": "spender"})).await.body;
    let id = made["agent_id"].as_str().unwrap();
    let (own, path) = (format!("/directory/{id}"), format!("/directory/{id}/settings"));
    assert!(house.main(&own).await.contains("0.00 credits a day, 0.00 left today"));
    let form = format!("{path}/allowance");
    assert_eq!(house.form(&form, &[("credits_per_day", "2.50")]).await, format!("{path}?told=saved"));
    assert!(house.main(&own).await.contains("2.50 credits a day, 2.50 left today"));
    assert!(
        house.main(&path).await.contains("name=\"credits_per_day\" inputmode=\"decimal\" value=\"2.50\"")
    );
    let again =
        house.refused(&house.ann, &form, &[("credits_per_day", "2.505")], 400, "credits_per_day").await;
    assert!(again.contains("value=\"2.505\""), "{again}");
    let eve = house.hub.account("eve@mail.example").await;
    house.refused(&eve, &form, &[("credits_per_day", "9")], 403, "owner").await;
}

#[tokio::test]
async fn a_channel_is_changed_by_its_owner_and_shown_to_its_members() {
    let house = House::start().await;
    let (bob, eve) = (house.member("bob@mail.example").await, house.hub.account("eve@mail.example").await);
    let path = format!("/c/{}/settings", house.channel);
    assert!(house.page(&format!("/c/{}", house.channel)).await.text.contains(&format!("href=\"{path}\"")));
    assert!(house.main(&path).await.contains("name=\"loop_guard\" value=\"8\""));

    let saved = format!("{path}?told=saved");
    assert_eq!(house.form(&path, &[("name", "the bridge"), ("context", "a\r\nb")]).await, saved);
    assert!(house.main(&saved).await.contains("Saved."));
    let rules = [("history", "joined"), ("keep_days", "30"), ("loop_guard", "3")];
    house.form(&path, &rules).await;
    house.form(&path, &[("glyph.seen", "🫡"), ("glyph.done", "")]).await;
    let place = house.place().await;
    let fields = ["name", "context", "history", "keep_days", "loop_guard"].map(|name| place[name].clone());
    assert_eq!(json!(fields), json!(["the bridge", "a\nb", "joined", 30, 3]));
    assert_eq!((&place["glyphs"]["seen"], &place["glyphs"]["done"]), (&json!("🫡"), &json!("✅")));
    // An empty field means the default.
    house.form(&path, &[("keep_days", ""), ("loop_guard", ""), ("context", "")]).await;
    let place = house.place().await;
    assert_eq!(
        (&place["keep_days"], &place["loop_guard"], &place["context"]),
        (&Value::Null, &json!(8), &Value::Null)
    );

    // The error is shown, and the input stays in its field.
    let again =
        house.refused(&house.ann, &path, &[("loop_guard", "many")], 400, "must be a whole number").await;
    assert!(again.contains("value=\"many\""), "{again}");
    house.refused(&house.ann, &path, &[("keep_days", "99999")], 400, "keep_days").await;
    house.refused(&house.ann, &path, &[("name", "")], 400, "notice bad").await;
    house
        .refused(&house.ann, &path, &[("glyph.seen", "x"), ("glyph.done", "x")], 400, "two signals alike")
        .await;

    // A member can read the settings but has no form; a stranger gets nothing.
    let seen = house.hub.get(&path, Some(&bob)).await.text;
    assert!(seen.contains("the bridge") && seen.contains("take 8 turns"), "{seen}");
    for form in ["name=\"context\"", "name=\"loop_guard\"", "settings/archive", "name=\"owner\""] {
        assert!(!seen.contains(form), "{form}: {seen}");
    }
    house.refused(&bob, &path, &[("name", "mine")], 403, "the owner of the channel changes").await;
    for (path, fields) in [(path.clone(), [("name", "mine")]), (format!("{path}/archive"), [("a", "b")])] {
        assert_eq!(send(&house.hub, &path, Some(&eve), &fields).await.status, 404);
    }
    assert_eq!(house.hub.get(&path, Some(&eve)).await.status, 404);
    assert_eq!(house.place().await["name"], "the bridge");
    // A direct conversation has no settings.
    let pair = house.form("/direct/new", &[("with", "timber")]).await;
    assert_eq!(house.page(&format!("{pair}/settings")).await.status, 404);
}

#[tokio::test]
async fn a_channel_is_handed_on_archived_opened_again_and_left() {
    let house = House::start().await;
    let (bob, path) = (house.member("bob@mail.example").await, format!("/c/{}/settings", house.channel));
    house.refused(&house.ann, &format!("{path}/leave"), &[], 409, "the owner cannot leave").await;
    house.refused(&bob, &format!("{path}/archive"), &[], 403, "the owner of the channel").await;
    house.form(&format!("{path}/archive"), &[]).await;
    assert_eq!(house.place().await["archived"], true);
    let archived = house.main(&path).await;
    assert!(archived.contains("Restore it") && !archived.contains("name=\"context\""), "{archived}");
    assert!(!house.main("/channels").await.contains(&house.channel));
    assert!(house.main("/channels?archived=true").await.contains(&format!("/c/{}/settings", house.channel)));
    house.form(&format!("{path}/restore"), &[]).await;
    assert_eq!(house.place().await["archived"], false);
    assert!(house.main("/channels").await.contains(&house.channel));

    // The owner appoints leads; a member changes their own handle.
    let bobs = format!("{path}/members/bob");
    house
        .form(&bobs, &[("handle", "bob"), ("roles", "review oncall"), ("asks_lead", "on"), ("lead", "on")])
        .await;
    let members = house.hub.get(&format!("{}/members", house.api), Some(&house.ann)).await.body;
    let found = members["items"].as_array().unwrap().iter().find(|one| one["handle"] == "bob").unwrap();
    assert_eq!((&found["lead"], &found["roles"]), (&json!(true), &json!(["oncall", "review"])));
    let renamed = send(&house.hub, &bobs, Some(&bob), &[("handle", "robert")]).await;
    assert_eq!(renamed.status, 303, "{}", renamed.text);
    let anns = format!("{path}/members/ann");
    house.refused(&bob, &anns, &[("handle", "ann"), ("asks_lead", "on")], 403, "says who leads").await;

    house.refused(&house.ann, &path, &[("owner", "nobody")], 404, "notice bad").await;
    house.form(&path, &[("owner", "robert")]).await;
    house.refused(&house.ann, &path, &[("name", "mine")], 403, "the owner of the channel changes").await;
    assert_eq!(house.form(&format!("{path}/leave"), &[]).await, "/channels");
    assert_eq!(house.page(&path).await.status, 404);
    assert_eq!(house.hub.get(&path, Some(&bob)).await.status, 200);
}

#[tokio::test]
async fn an_agent_is_edited_paused_and_removed_by_its_owner() {
    let house = House::start().await;
    let id = house.agent["agent_id"].as_str().unwrap();
    let (path, api) = (format!("/directory/{id}/settings"), format!("/api/v1/agents/{id}"));
    let agent = async || house.hub.get(&api, Some(&house.ann)).await.body;
    assert!(house.main(&format!("/directory/{id}")).await.contains(&path));
    let card =
        r#"{"card_version": "0.3", "user_culture": "en", "supported_languages": ["en"], "team": "blue"}"#;
    house.form(&path, &[("description", "reads plans"), ("card", card)]).await;
    let changed = agent().await;
    assert_eq!((&changed["description"], &changed["card"]["team"]), (&json!("reads plans"), &json!("blue")));
    house.form(&path, &[("description", "")]).await;
    assert_eq!(agent().await["description"], Value::Null);
    let again =
        house.refused(&house.ann, &path, &[("card", "{no"), ("description", "kept")], 400, "JSON").await;
    assert!(again.contains("{no") && again.contains("kept</textarea>"), "{again}");
    house.refused(&house.ann, &path, &[("endpoint", "ftp://x")], 400, "endpoint").await;

    house.form(&format!("{path}/pause"), &[]).await;
    assert!(agent().await["paused_since"].is_string());
    assert!(house.main(&path).await.contains("Resume it"));
    house.form(&format!("{path}/resume"), &[]).await;
    assert_eq!(agent().await["paused_since"], Value::Null);

    let eve = house.hub.account("eve@mail.example").await;
    assert_eq!(house.hub.get(&path, Some(&eve)).await.status, 403);
    for act in ["", "/pause", "/remove"] {
        let fields = [("confirm", "timber"), ("description", "mine")];
        assert_eq!(send(&house.hub, &format!("{path}{act}"), Some(&eve), &fields).await.status, 403, "{act}");
    }
    // Deletion needs a confirmation.
    let remove = format!("{path}/remove");
    house.refused(&house.ann, &remove, &[("confirm", "cinder")], 400, "the name of the agent").await;
    assert_eq!(agent().await["name"], "timber");
    assert_eq!(house.form(&remove, &[("confirm", "timber")]).await, "/account");
    assert_eq!(house.hub.get(&api, Some(&house.ann)).await.status, 404);
}

/// The owner sees the host of an agent's webhook; nobody else does.
#[tokio::test]
async fn an_endpoint_is_shown_to_its_owner_by_its_host() {
    let house = House::start().await;
    let receiver = chorus_testkit::receiver::FakeAgent::start().await;
    let id = house.agent["agent_id"].as_str().unwrap();
    let (path, api) = (format!("/directory/{id}/settings"), format!("/api/v1/agents/{id}"));
    house.form(&path, &[("endpoint", &format!("{}/secret-path", receiver.url()))]).await;
    assert_eq!(house.hub.get(&api, Some(&house.ann)).await.body["endpoint"], "127.0.0.1");
    let page = house.main(&path).await;
    assert!(page.contains("127.0.0.1") && !page.contains("secret-path"), "{page}");
    let eve = house.hub.account("eve@mail.example").await;
    assert_eq!(house.hub.get(&api, Some(&eve)).await.body["endpoint"], Value::Null);

    // Only the owner can remove it, and the agent's description stays.
    let unhook = format!("{path}/unhook");
    assert!(page.contains(&unhook), "{page}");
    house.form(&path, &[("description", "reads plans")]).await;
    assert_eq!(send(&house.hub, &unhook, Some(&eve), &[]).await.status, 403);
    house.form(&unhook, &[]).await;
    house.form(&unhook, &[]).await;
    let now = house.hub.get(&api, Some(&house.ann)).await.body;
    assert_eq!((&now["endpoint"], &now["description"]), (&Value::Null, &json!("reads plans")));
    assert!(!house.main(&path).await.contains(&unhook));
}

#[tokio::test]
async fn blocks_and_invitations_are_listed_made_and_undone() {
    let house = House::start().await;
    assert!(house.main("/blocks").await.contains("Nobody."));
    house.form("/blocks", &[("who", "eve@mail.example")]).await;
    let again =
        house.refused(&house.ann, "/blocks", &[("who", "ann@mail.example")], 400, "somebody else").await;
    assert!(again.contains("value=\"ann@mail.example\"") && again.contains("eve@mail.example"), "{again}");
    let block = house.hub.get("/api/v1/me/blocks", Some(&house.ann)).await.body["items"][0]["id"].clone();
    let undo = format!("/blocks/{}/remove", block.as_str().unwrap());
    // Nobody else can remove the block.
    let bob = house.hub.account("bob@mail.example").await;
    send(&house.hub, &undo, Some(&bob), &[]).await;
    assert!(house.main("/blocks").await.contains("eve@mail.example"));
    house.form(&undo, &[]).await;
    assert!(house.main("/blocks").await.contains("Nobody."));

    let made =
        send(&house.hub, "/invitations", Some(&house.ann), &[("email", "new@mail.example"), ("days", "3")])
            .await;
    assert!(made.status == 200 && made.text.contains("/signin?invitation=ci_"), "{}", made.text);
    house.refused(&house.ann, "/invitations", &[("days", "1000")], 400, "days").await;
    let account = house.main("/account").await;
    assert!(account.contains("new@mail.example") && !account.contains("ci_"), "{account}");
    let id = house.hub.get("/api/v1/invitations", Some(&house.ann)).await.body["items"][0]["id"].clone();
    let revoke = format!("/invitations/{}/revoke", id.as_str().unwrap());
    send(&house.hub, &revoke, Some(&bob), &[]).await;
    assert!(house.main("/account").await.contains("new@mail.example"), "it is another's");
    house.form(&revoke, &[]).await;
    assert!(!house.main("/account").await.contains("new@mail.example"));
}

#[tokio::test]
async fn an_account_is_renamed_and_deleted() {
    let house = House::start().await;
    house.form("/account", &[("name", "Ann of Ops")]).await;
    let me = house.hub.get("/api/v1/me", Some(&house.ann)).await.body;
    assert_eq!((&me["name"], &me["mails"]), (&json!("Ann of Ops"), &json!(false)));
    house.form("/account", &[("name", "Ann"), ("mails", "on")]).await;
    assert_eq!(house.hub.get("/api/v1/me", Some(&house.ann)).await.body["mails"], true);
    house
        .refused(&house.ann, "/account/delete", &[("confirm", "bob@mail.example")], 400, "email address")
        .await;
    assert_eq!(house.form("/account/delete", &[("confirm", "ann@mail.example")]).await, "/");
    assert_eq!(house.hub.get("/api/v1/me", Some(&house.ann)).await.status, 401);
}

#[tokio::test]
async fn a_document_is_written_edited_and_removed() {
    let house = House::start().await;
    let (bob, place) = (house.member("bob@mail.example").await, format!("/c/{}", house.channel));
    assert!(house.main(&format!("{place}?side=documents")).await.contains(&format!("{place}/write")));
    let text = "  # Plan\r\n\r\nfirst";
    let fields = [("title", "The plan, 4.19"), ("content", text), ("content_type", "text/markdown")];
    let page = house.form(&format!("{place}/write"), &fields).await;
    assert_eq!(page, format!("{place}/documents/the-plan-4-19"));
    let raw = format!("{}/artifacts/the-plan-4-19", house.api);
    assert_eq!(house.hub.get(&raw, Some(&house.ann)).await.body["content"], "  # Plan\n\nfirst");
    let again = house.refused(&house.ann, &format!("{place}/write"), &fields, 409, "already").await;
    assert!(again.contains("# Plan"), "{again}");

    let edit = format!("{page}/edit");
    assert!(house.main(&edit).await.contains("name=\"base_version\" value=\"1\""));
    let second = [("title", "The plan"), ("content", "second"), ("base_version", "1")];
    assert_eq!(house.form(&edit, &second).await, page);
    // An author who was overtaken is told, and keeps the text.
    let stale = [("title", "The plan"), ("content", "mine, from the first"), ("base_version", "1")];
    let again = house.refused(&bob, &edit, &stale, 409, "See the newest version").await;
    assert!(again.contains("mine, from the first"), "{again}");
    assert_eq!(house.hub.get(&raw, Some(&house.ann)).await.body["content"], "second");

    house.refused(&bob, &format!("{page}/remove"), &[], 403, "who began a document").await;
    let eve = house.hub.account("eve@mail.example").await;
    for path in [format!("{place}/write"), edit.clone()] {
        assert_eq!(house.hub.get(&path, Some(&eve)).await.status, 404, "{path}");
        assert_eq!(send(&house.hub, &path, Some(&eve), &second).await.status, 404, "{path}");
    }
    assert_eq!(send(&house.hub, &format!("{page}/remove"), Some(&eve), &[]).await.status, 404);
    house.form(&format!("{page}/remove"), &[]).await;
    assert_eq!(house.page(&page).await.status, 404);
    // A binary document cannot be edited.
    let picture = json!({"slug": "dot", "content": "AP8=", "encoding": "base64"});
    assert_eq!(
        house.hub.post(&format!("{}/artifacts", house.api), Some(&house.ann), &picture).await.status,
        201
    );
    assert!(!house.main(&format!("{place}/documents/dot")).await.contains("/edit\""));
    assert_eq!(house.page(&format!("{place}/documents/dot/edit")).await.status, 409);
}

/// A file becomes a document, or a new version, without a script; a rejected text can be edited further.
#[tokio::test]
async fn a_document_is_taken_from_a_file() {
    let house = House::start().await;
    let place = format!("/c/{}", house.channel);
    let write = house.main(&format!("{place}/write")).await;
    assert!(
        write.contains("enctype=\"multipart/form-data\"") && write.contains("of at most 1 MiB"),
        "{write}"
    );
    let upload = async |path: &str, key: &str, name: &str, bytes: &[u8], base: &str| {
        let mut body = format!(
            "--x1\r\nContent-Disposition: form-data; name=\"base_version\"\r\n\r\n{base}\r\n--x1\r\n\
             Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: x/y\r\n\r\n"
        )
        .into_bytes();
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n--x1--\r\n");
        let request = house.hub.request(reqwest::Method::POST, path, Some(key));
        let request = request.header("content-type", "multipart/form-data; boundary=x1").body(body);
        crate::support::Answer::of(request).await
    };
    let (new, document) = (format!("{place}/upload"), format!("{place}/documents/notes-4-19"));
    let made = upload(&new, &house.ann, "Notes 4.19.md", b"# Notes\r\n", "").await;
    assert_eq!((made.status, made.header("location")), (303, &*document), "{}", made.text);
    let raw = format!("{}/artifacts/notes-4-19", house.api);
    let kept = house.hub.get(&raw, Some(&house.ann)).await.body;
    assert_eq!(
        (&kept["title"], &kept["content_type"], &kept["content"], &kept["encoding"]),
        (&json!("Notes 4.19.md"), &json!("text/markdown"), &json!("# Notes\r\n"), &json!("utf-8"))
    );
    assert!(house.main(&document).await.contains(&format!("{document}/upload")));

    let again = upload(&new, &house.ann, "Notes 4.19.md", b"mine <script>", "").await;
    assert!(again.status == 409 && again.text.contains("mine &#60;script&#62;"), "{}", again.text);
    let change = format!("{document}/upload");
    assert_eq!(upload(&change, &house.ann, "notes", b"second", "1").await.status, 303);
    let kept = house.hub.get(&raw, Some(&house.ann)).await.body;
    assert_eq!((&kept["version"], &kept["content_type"]), (&json!(2), &json!("text/markdown")));
    let stale = upload(&change, &house.ann, "notes", b"third", "1").await;
    assert!(stale.status == 409 && stale.text.contains("See the newest version"), "{}", stale.text);

    // A binary file is stored unchanged.
    assert_eq!(upload(&new, &house.ann, "dot.png", &[0x89, 0xff, 0], "").await.status, 303);
    let dot = house.hub.get(&format!("{}/artifacts/dot", house.api), Some(&house.ann)).await.body;
    assert_eq!((&dot["content_type"], &dot["content"]), (&json!("image/png"), &json!("if8A")));

    assert_eq!(upload(&new, &house.ann, "", b"", "").await.status, 400);
    assert_eq!(upload(&new, &house.ann, "big", &vec![b'a'; 2 << 20], "").await.status, 413);
    let eve = house.hub.account("eve@mail.example").await;
    assert_eq!(upload(&new, &eve, "a.md", b"x", "").await.status, 404);
    assert_eq!(send(&house.hub, &new, Some(&house.ann), &[("file", "x")]).await.status, 400);
}

/// User text is escaped on these pages, and other sites cannot submit their forms.
#[tokio::test]
async fn the_forms_are_inert_and_guarded() {
    const ATTACK: &str = "\"'></textarea><script>alert(1)</script><img src=x onerror=a>";
    let house = House::start().await;
    let place = format!("/c/{}", house.channel);
    house.form(&format!("{place}/settings"), &[("name", ATTACK), ("context", ATTACK)]).await;
    let glyphs = [("glyph.seen", ATTACK)];
    send(&house.hub, &format!("{place}/settings"), Some(&house.ann), &glyphs).await;
    let id = house.agent["agent_id"].as_str().unwrap();
    let agent = format!("/directory/{id}/settings");
    house.form(&agent, &[("description", ATTACK)]).await;
    let page =
        house.form(&format!("{place}/write"), &[("title", ATTACK), ("content", ATTACK), ("slug", "x")]).await;
    let paths = [format!("{place}/settings"), "/channels".into(), agent, format!("{page}/edit"), page];
    for path in &paths {
        let shown = house.page(path).await;
        assert!(shown.text.contains("alert(1)"), "{path}: it is shown as the text it is");
        assert!(shown.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
        for markup in ["<script>", "<img src=x", "onerror=\"", "</textarea><script"] {
            assert!(!shown.text.contains(markup), "{path} shows {markup}");
        }
    }
    let wrong = [("loop_guard", ATTACK), ("name", ATTACK)];
    let again = send(&house.hub, &format!("{place}/settings"), Some(&house.ann), &wrong).await;
    assert!(again.status == 400 && !again.text.contains("<script>"), "{}", again.text);
}

/// The console shows the log, the store, limits and who is refused now; the audit log is shown as sentences.
#[tokio::test]
async fn the_operator_sees_log_store_limits_and_sentences() {
    let house = House::start().await;
    let entered = send(&house.hub, "/operator", None, &[("key", OPERATOR)]).await;
    let (cookie, _) = crate::accounts::cookie_of(&entered);
    let get = async |path: &str| {
        let request = house.hub.request(reqwest::Method::GET, path, None).header("cookie", &*cookie);
        crate::support::Answer::of(request).await
    };
    let console = get("/operator").await.text;
    for what in [
        "It has just written",
        "reads as what is there",
        "Receipts in it</dt><dd>0",
        "wrong keys from one address",
    ] {
        assert!(console.contains(what), "{what}: {console}");
    }
    // An empty log has a head too, the same that everybody sees.
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert!(console.contains(empty), "{console}");
    send(&house.hub, "/invitations", Some(&house.ann), &[("email", "new@mail.example")]).await;
    let listed = get("/operator").await.text;
    assert!(listed.contains("new@mail.example"), "{listed}");
    let revoke = listed.split("/operator/invitations/").find(|rest| rest.starts_with("crd_")).unwrap();
    let revoke = format!("/operator/invitations/{}", revoke.split('"').next().unwrap());
    // Without the operator's cookie the form is refused.
    assert_eq!(send(&house.hub, &revoke, Some(&house.ann), &[]).await.status, 403);
    let request = crate::accounts::by_page(house.hub.request(reqwest::Method::POST, &revoke, None));
    assert_eq!(crate::support::Answer::of(request.header("cookie", &*cookie)).await.status, 303);
    assert!(!get("/operator").await.text.contains("new@mail.example"));

    let log = get("/operator/audit").await.text;
    for said in [
        "ann@mail.example registered the agent timber.",
        "ann@mail.example added timber to #ops.",
        "The operator revoked",
    ] {
        assert!(log.contains(said), "{said}: {log}");
    }
    assert!(log.contains("<summary class=\"small muted\">The record</summary>"), "{log}");
    let some = get("/operator/audit?action=member.added&actor=ann@mail.example&subject=").await.text;
    assert!(some.contains("added timber") && !some.contains("registered the agent"), "{some}");
    let none = get("/operator/audit?actor=nobody-like-this").await;
    assert_eq!(none.status, 404);
    assert!(
        none.text.contains("notice bad") && none.text.contains("value=\"nobody-like-this\""),
        "{}",
        none.text
    );
}

/// A source at its limit is named, with its waiting time.
#[tokio::test]
async fn the_operator_sees_who_is_at_a_limit() {
    let hub = crate::support::Setup::new().config(|config| config.rate_limit = Some(6)).start();
    let key = hub.register("eager").await;
    let mut refused = false;
    for _ in 0..20 {
        refused |= hub.get("/agents", Some(&key)).await.status == 429;
    }
    assert!(refused);
    let (cookie, _) = crate::accounts::cookie_of(&send(&hub, "/operator", None, &[("key", OPERATOR)]).await);
    let request = hub.request(reqwest::Method::GET, "/operator", None).header("cookie", &*cookie);
    let console = crate::support::Answer::of(request).await.text;
    assert!(console.contains("agent eager, for"), "{console}");
}
