//! Messages that wait for approval: who sees them, who decides, and how they expire.

use crate::channel_fixture::ChannelFixture;
use crate::recovery::acts;
use crate::support::{Answer, OPERATOR, SOON, Setup, eventually, mcp_tool};
use crate::web::send;
use chorus_protocol::code::Code;
use chorus_testkit::sse::SseClient;
use futures_util::future::join_all;
use serde_json::{Value, json};

/// A channel of anna with another person and two agents.
struct Room {
    fixture: ChannelFixture,
    ben: String,
    bot: String,
    other: String,
}

impl Room {
    async fn on(setup: &Setup) -> Self {
        let fixture = ChannelFixture::on(setup).await;
        let hub = &fixture.hub;
        let ben = hub.account("ben@example.org").await;
        let members = format!("/api/v1/channels/{}/members", fixture.channel);
        let asked = hub.post(&members, Some(&fixture.anna), &json!({"account": "ben@example.org"})).await;
        assert_eq!(asked.status, 202, "{}", asked.text);
        let invitation = hub.get("/api/v1/me/invitations", Some(&ben)).await.body["items"][0]["id"].clone();
        let accept = format!("/api/v1/me/invitations/{}/accept", invitation.as_str().unwrap());
        assert_eq!(hub.post(&accept, Some(&ben), &json!({})).await.status, 200);
        let (bot, other) = (hub.register("bot").await, hub.register("other").await);
        for name in ["bot", "other"] {
            fixture.join(&fixture.channel, name).await;
        }
        Self { fixture, ben, bot, other }
    }

    async fn send(&self, key: &str, body: &Value) -> Answer {
        let path = format!("/api/v1/channels/{}/messages", self.fixture.channel);
        self.fixture.hub.post(&path, Some(key), body).await
    }

    /// Posts a message that needs approval and returns the approval's id.
    async fn hold(&self, text: &str) -> String {
        let held = self.send(&self.bot, &json!({"content": text, "requires_approval": true})).await;
        assert_eq!((held.status, &held.body["status"]), (202, &json!("held")), "{}", held.text);
        held.body["approval"].as_str().unwrap().to_owned()
    }

    async fn decide(&self, key: &str, id: &str, word: &str) -> Answer {
        self.fixture.hub.post(&format!("/api/v1/approvals/{id}/{word}"), Some(key), &json!({})).await
    }

    async fn list(&self, key: &str) -> Vec<Value> {
        let page = self.fixture.hub.get("/api/v1/approvals", Some(key)).await;
        assert_eq!(page.status, 200, "{}", page.text);
        page.body["items"].as_array().unwrap().clone()
    }

    async fn state(&self, id: &str) -> Value {
        let path = format!("/api/v1/approvals/{id}");
        self.fixture.hub.get(&path, Some(&self.fixture.anna)).await.body["state"].clone()
    }

    async fn becomes(&self, id: &str, state: &str) {
        eventually(async || self.state(id).await, |now| now == state).await;
    }

    async fn actions(&self, action: &str) -> usize {
        acts(&self.fixture.hub, "action=", action).await.len()
    }
}

#[tokio::test]
async fn only_its_author_and_people_know_of_it() {
    let room = Room::on(&Setup::new()).await;
    let (hub, anna) = (&room.fixture.hub, &room.fixture.anna);
    let mut anybody =
        hub.follow(&format!("/api/v1/channels/{}", room.fixture.channel), &room.other, None).await;
    let id = room.hold("@other the quick fox").await;
    let stranger = hub.account("eve@example.org").await;
    for (key, count) in [(anna, 1), (&room.ben, 1), (&room.bot, 1), (&room.other, 0), (&stranger, 0)] {
        let list = room.list(key).await;
        assert_eq!(list.len(), count, "{list:?}");
        let one = hub.get(&format!("/api/v1/approvals/{id}"), Some(key)).await;
        assert_eq!(one.status == 200, count == 1, "{}", one.text);
        if count == 1 {
            assert_eq!(
                (&one.body["content"], &one.body["state"]),
                (&json!("@other the quick fox"), &json!("held"))
            );
            assert_eq!(one.body["may_decide"], json!(key != &room.bot));
        }
    }
    // The message appears nowhere else and is not counted.
    anybody.assert_quiet().await;
    assert_eq!(room.fixture.log().await.len(), 0);
    let found = hub.get("/api/v1/search?q=quick", Some(anna)).await;
    assert_eq!(found.body["items"], json!([]), "{}", found.text);
    let unread = hub.get("/api/v1/unread", Some(anna)).await;
    let marked = &unread.body["items"][0];
    assert_eq!((&marked["held"], &marked["unread"]), (&json!(1), &json!(0)), "{}", unread.text);
    assert_eq!(hub.get("/api/v1/unread", Some(&stranger)).await.body["items"], json!([]));
    let audit = hub.get("/api/v1/audit?limit=200", Some(OPERATOR)).await;
    assert!(audit.text.contains("approval.held") && !audit.text.contains("quick"), "{}", audit.text);
    // An agent cannot decide, and nobody can decide on their own message.
    for key in [&room.bot, &room.other] {
        room.decide(key, &id, "agree").await.own_failure(Code::Forbidden);
    }
    room.decide(&stranger, &id, "agree").await.own_failure(Code::NotFound);
    let own = room.send(anna, &json!({"content": "mine", "requires_approval": true})).await;
    let own = own.body["approval"].as_str().unwrap().to_owned();
    assert!(room.decide(anna, &own, "agree").await.own_failure(Code::Forbidden).contains("somebody else"));
    assert_eq!(room.decide(&room.ben, &own, "agree").await.status, 200);
    assert_eq!(room.fixture.log().await[0]["content"], "mine");
}

#[tokio::test]
async fn what_is_held_is_checked_masked_and_counted() {
    let room = Room::on(&Setup::new()).await;
    let hub = &room.fixture.hub;
    let held = json!({"content": "hi", "requires_approval": true});
    let dry = format!("/api/v1/channels/{}/messages?dry_run=true", room.fixture.channel);
    let dry = hub.post(&dry, Some(&room.bot), &held).await;
    assert_eq!((dry.status, &dry.body["held"]), (200, &json!(true)), "{}", dry.text);
    assert_eq!(room.list(&room.bot).await.len(), 0, "nothing is written");
    let mut wrong = held.clone();
    wrong["to"] = json!(["nobody"]);
    assert_eq!(room.send(&room.bot, &wrong).await.status, 404);
    // An author may have a limited number of waiting messages. A withdrawn one is gone.
    let mut ids = vec![];
    for n in 0..10 {
        ids.push(room.hold(&format!("number {n}")).await);
    }
    room.send(&room.bot, &held).await.own_failure(Code::QuotaExceeded);
    let path = format!("/api/v1/approvals/{}", ids[0]);
    for _ in 0..2 {
        assert_eq!(hub.delete(&path, Some(&room.bot)).await.status, 204);
    }
    room.decide(&room.ben, &ids[0], "agree").await.own_failure(Code::Conflict);
    room.hold("one more").await;
    let page = hub.get("/api/v1/approvals?limit=4", Some(&room.ben)).await;
    assert_eq!(page.body["items"].as_array().unwrap().len(), 4);
    let rest = format!("/api/v1/approvals?limit=200&after={}", page.body["next"].as_str().unwrap());
    assert_eq!(hub.get(&rest, Some(&room.ben)).await.body["items"].as_array().unwrap().len(), 6);
    // A channel without another person has nobody who can approve.
    let alone = hub.channel(&room.bot, &json!({"name": "alone"})).await;
    hub.post(&format!("{alone}/messages"), Some(&room.bot), &held).await.own_failure(Code::Validation);
    // The MCP tool gives the same result.
    let sent = mcp_tool(hub, &room.fixture.channel, &room.other, "chat_send_message", held).await;
    let sent = &sent["structuredContent"];
    assert_eq!((&sent["status"], &sent["sequence"]), (&json!("held"), &Value::Null), "{sent}");
    assert!(sent["event_id"].as_str().unwrap().starts_with("apr_"), "{sent}");
}

/// If several people decide at once, one decision counts, and the message is posted once or never.
async fn one_decides(setup: &Setup) {
    let room = Room::on(setup).await;
    let anna = room.fixture.anna.clone();
    let id = room.hold("twice?").await;
    let agreed =
        join_all([&anna, &room.ben, &anna, &room.ben].map(|key| room.decide(key, &id, "agree"))).await;
    for one in &agreed {
        assert_eq!((one.status, &one.body["event_id"]), (200, &agreed[0].body["event_id"]), "{}", one.text);
    }
    assert_eq!((room.fixture.log().await.len(), room.actions("approval.agreed").await), (1, 1));
    for n in 0..4 {
        let id = room.hold(&format!("or not {n}")).await;
        let before = room.fixture.log().await.len();
        let (yes, no) =
            tokio::join!(room.decide(&anna, &id, "agree"), room.decide(&room.ben, &id, "decline"));
        let mut both = [yes.status, no.status];
        both.sort_unstable();
        assert_eq!(both, [200, 409], "{} {}", yes.text, no.text);
        let said = usize::from(yes.status == 200);
        assert_eq!(room.fixture.log().await.len(), before + said);
        assert_eq!(room.state(&id).await, if said == 1 { "agreed" } else { "declined" });
    }
}

#[tokio::test]
async fn one_decides_on_sqlite() {
    one_decides(&Setup::new()).await;
}

#[tokio::test]
async fn one_decides_on_postgres() {
    one_decides(&Setup::postgres()).await;
}

#[tokio::test]
async fn nothing_comes_of_it_when_its_author_goes_or_the_channel_ends() {
    let room = Room::on(&Setup::new()).await;
    let (hub, anna) = (&room.fixture.hub, &room.fixture.anna);
    let channel = format!("/api/v1/channels/{}", room.fixture.channel);
    let disabled = room.hold("before I am disabled").await;
    for word in ["disable", "enable"] {
        let path = format!("/api/v1/operator/agents/bot/{word}");
        assert_eq!(hub.post(&path, Some(OPERATOR), &json!({})).await.status, 200);
    }
    room.decide(anna, &disabled, "agree").await.own_failure(Code::Conflict);
    room.becomes(&disabled, "ended").await;
    let removed = room.hold("before I am thrown out").await;
    assert_eq!(hub.delete(&format!("{channel}/members/bot"), Some(anna)).await.status, 204);
    room.decide(anna, &removed, "agree").await.own_failure(Code::Conflict);
    room.fixture.join(&room.fixture.channel, "bot").await;
    room.decide(anna, &removed, "agree").await.own_failure(Code::Conflict);
    room.becomes(&removed, "ended").await;
    let archived = room.hold("before it is archived").await;
    assert_eq!(hub.delete(&channel, Some(anna)).await.status, 204);
    room.decide(anna, &archived, "agree").await.own_failure(Code::Conflict);
    assert_eq!(hub.post(&format!("{channel}/restore"), Some(anna), &json!({})).await.status, 200);
    room.becomes(&archived, "ended").await;
    assert_eq!(room.list(anna).await, Vec::<Value>::new());
    let said: Vec<_> =
        room.fixture.log().await.into_iter().filter(|event| event["kind"] == "message").collect();
    assert_eq!(said, Vec::<Value>::new());
    eventually(async || room.actions("approval.ended").await, |count| *count == 3).await;
}

/// The page needs only forms: a card in the inbox and in the channel, with two buttons.
#[tokio::test]
async fn the_page_shows_what_waits_and_takes_the_word_of_a_person() {
    let room = Room::on(&Setup::new()).await;
    let (hub, anna) = (&room.fixture.hub, room.fixture.anna.as_str());
    let channel = &room.fixture.channel;
    let (yes, no) = (room.hold("may I <b>deploy</b>?").await, room.hold("may I drop it?").await);
    for path in ["/inbox".to_owned(), format!("/c/{channel}")] {
        let page = hub.get(&path, Some(anna)).await;
        assert!(
            page.text.contains("may I &#60;b&#62;deploy") && !page.text.contains("<b>deploy"),
            "{}",
            page.text
        );
        for (id, word) in [(&yes, "agree"), (&no, "decline")] {
            assert!(
                page.text.contains(&format!("action=\"/approvals/{id}/{word}\"")),
                "{path} {}",
                page.text
            );
        }
    }
    let answered = send(hub, &format!("/approvals/{yes}/agree"), Some(anna), &[("back", channel)]).await;
    assert_eq!((answered.status, answered.header("location")), (303, &*format!("/c/{channel}")));
    // A form with a made-up return address leads to the inbox.
    let away = [("back", "//evil.example"), ("reason", " not on a Friday ")];
    let answered = send(hub, &format!("/approvals/{no}/decline"), Some(anna), &away).await;
    assert_eq!((answered.status, answered.header("location")), (303, "/inbox"));
    assert_eq!((room.state(&yes).await, room.state(&no).await), (json!("agreed"), json!("declined")));
    let page = hub.get(&format!("/c/{channel}"), Some(anna)).await;
    assert!(page.text.contains("anna agreed") && !page.text.contains("/approvals/"), "{}", page.text);
    let declined = hub.get(&format!("/api/v1/approvals/{no}"), Some(&room.bot)).await;
    assert_eq!(declined.body["reason"], "not on a Friday", "{}", declined.text);
    // Nobody can withdraw another author's message, and an agent has no page to decide on.
    let other = room.hold("and this?").await;
    assert_eq!(send(hub, &format!("/approvals/{other}/withdraw"), Some(anna), &[]).await.status, 403);
    assert!(send(hub, &format!("/approvals/{other}/agree"), Some(&room.bot), &[]).await.status >= 300);
    assert_eq!(room.state(&other).await, "held");
}

/// An open page is told to reload. The notice does not hold the message, and agents get no notice.
#[tokio::test]
async fn people_who_follow_are_told_that_something_waits_and_agents_are_not() {
    let room = Room::on(&Setup::new()).await;
    let (hub, channel) = (&room.fixture.hub, &room.fixture.channel);
    let url = format!("{}/api/v1/channels/{channel}/stream", hub.url);
    let mut anna = SseClient::open(&url, &room.fixture.anna, None).await.unwrap();
    let mut other = SseClient::open(&url, &room.other, None).await.unwrap();
    let page = format!("{}/c/{channel}/live", hub.url);
    let mut live = SseClient::open(&page, &room.fixture.anna, None).await.unwrap();
    let next = async |stream: &mut SseClient| stream.next(SOON).await.unwrap();
    for stream in [&mut anna, &mut other, &mut live] {
        assert_eq!(next(stream).await.event, "connected");
    }
    let [yes, no] = [room.hold("may I?").await, room.hold("and this?").await];
    for _ in 0..2 {
        for stream in [&mut anna, &mut live] {
            let told = next(stream).await;
            assert_eq!((told.event.as_str(), told.data.as_str(), told.id), ("approvals", "{}", None));
        }
    }
    let cards = hub.get(&format!("/c/{channel}/waiting"), Some(&room.fixture.anna)).await;
    assert!(cards.text.contains("may I?") && cards.text.contains("and this?"), "{}", cards.text);
    assert!(!cards.text.contains("<html"), "{}", cards.text);
    room.decide(&room.ben, &no, "decline").await;
    assert_eq!(next(&mut anna).await.event, "approvals");
    room.decide(&room.ben, &yes, "agree").await;
    let told = [next(&mut anna).await.event, next(&mut anna).await.event];
    assert!(told.contains(&"approvals".to_owned()) && told.contains(&"message".to_owned()), "{told:?}");
    // The first event that an agent sees is the posted message.
    let said = next(&mut other).await;
    assert!(said.event == "message" && said.data.contains("may I?"), "{said:?}");
    assert_eq!(hub.get(&format!("/c/{channel}/waiting"), Some(&room.fixture.anna)).await.text.trim(), "");
}

/// An approval covers one text: an edit waits for approval like the message did.
async fn an_edit_of_an_approved_message_waits(setup: &Setup) {
    let room = Room::on(setup).await;
    let (hub, anna, channel) = (&room.fixture.hub, &room.fixture.anna, &room.fixture.channel);
    let mut inbox = hub.inbox(&room.other, None).await;
    let agreed = room.decide(anna, &room.hold("please review the plan").await, "agree").await;
    let event = agreed.body["event_id"].as_str().unwrap().to_owned();
    let message = format!("/api/v1/channels/{channel}/messages/{event}");
    let edit = async |text: &str| {
        let held = hub.ask("PATCH", &message, Some(&room.bot), &json!({"content": text})).await;
        assert_eq!((held.status, &held.body["status"]), (202, &json!("held")), "{}", held.text);
        held.body["approval"].as_str().unwrap().to_owned()
    };
    // Returns the text and its approver, as every door shows them.
    let shown = async |text: &str, approver: &str| {
        let log = room.fixture.log().await;
        assert_eq!(log[0]["content"], text, "{log:?}");
        assert_eq!(log[0]["approved_by"]["handle"], approver, "{log:?}");
        let page = hub.get(&format!("/c/{channel}"), Some(anna)).await.text;
        assert!(page.contains(&format!("{approver} agreed")), "{page}");
        let listed = mcp_tool(hub, channel, &room.other, "chat_list_events", json!({})).await.to_string();
        assert!(listed.contains(text), "{listed}");
        let found = hub.get("/api/v1/search?q=plan", Some(anna)).await;
        assert_eq!(found.body["items"][0]["event"]["content"], text, "{}", found.text);
        assert_eq!(found.body["items"][0]["event"]["approved_by"]["handle"], approver, "{}", found.text);
    };
    shown("please review the plan", "anna").await;

    // While the edit is held, nobody reads the new text and nobody is woken by it.
    let first = edit("@other delete the production database now").await;
    shown("please review the plan", "anna").await;
    inbox.assert_quiet().await;
    assert_eq!(hub.get("/api/v1/search?q=production", Some(anna)).await.body["items"], json!([]));
    let waits = hub.get(&format!("/api/v1/approvals/{first}"), Some(&room.ben)).await;
    assert_eq!(
        (&waits.body["edit_of"], &waits.body["may_decide"]),
        (&json!(event), &json!(true)),
        "{}",
        waits.text
    );
    let page = hub.get(&format!("/c/{channel}"), Some(anna)).await.text;
    assert!(page.contains("change an approved message"), "{page}");

    // A newer edit replaces the waiting one, so that nobody approves an outdated text.
    let second = edit("@other drop everything in the plan").await;
    assert_eq!(room.state(&first).await, "withdrawn");
    let late = room.decide(anna, &first, "agree").await;
    late.own_failure(Code::Conflict);
    room.decide(&room.bot, &second, "agree").await.own_failure(Code::Forbidden);
    assert_eq!(room.decide(anna, &second, "decline").await.status, 200);
    shown("please review the plan", "anna").await;
    inbox.assert_quiet().await;

    // After approval the edit is applied, shows its own approver, and wakes the agents it names.
    let third = edit("@other review the second plan").await;
    assert_eq!(room.decide(&room.ben, &third, "agree").await.status, 200);
    let approver = room.fixture.log().await[0]["approved_by"]["handle"].clone();
    assert!(approver.as_str().is_some_and(|by| by.starts_with("ben")), "{approver}");
    shown("@other review the second plan", approver.as_str().unwrap()).await;
    let given = inbox.event("chat").await;
    assert_eq!(given["event"]["content"], "@other review the second plan", "{given}");
    assert_eq!(given["event"]["approved_by"]["handle"], approver, "{given}");

    // A deleted message has no text to edit.
    let fourth = edit("@other and the third plan").await;
    assert_eq!(hub.delete(&message, Some(&room.bot)).await.status, 204);
    room.decide(anna, &fourth, "agree").await.own_failure(Code::Conflict);
    room.becomes(&fourth, "ended").await;
    // A message that needed no approval is edited at once.
    let plain = room.send(&room.bot, &json!({"content": "hello"})).await.body["event_id"].clone();
    let path = format!("/api/v1/channels/{channel}/messages/{}", plain.as_str().unwrap());
    assert_eq!(hub.ask("PATCH", &path, Some(&room.bot), &json!({"content": "hello!"})).await.status, 200);
}

#[tokio::test]
async fn an_edit_of_an_approved_message_waits_on_sqlite() {
    an_edit_of_an_approved_message_waits(&Setup::new()).await;
}

#[tokio::test]
async fn an_edit_of_an_approved_message_waits_on_postgres() {
    an_edit_of_an_approved_message_waits(&Setup::postgres()).await;
}
