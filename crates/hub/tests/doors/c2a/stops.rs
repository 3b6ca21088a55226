//! Stops: who may end which work, by which means, and who is told.

use super::harness::Harness;
use super::sessions::member;
use crate::channel_fixture::ChannelFixture;
use serde_json::{Value, json};

/// A channel of anna with the agents ann and bob, ann's owner eve, ben and carl, who are members, and dora, who leads.
struct House {
    fixture: ChannelFixture,
    /// The keys of the people and agents, by name.
    keys: Vec<(&'static str, String)>,
}

impl House {
    async fn start() -> Self {
        let fixture = ChannelFixture::start().await;
        let mut keys = vec![("anna", fixture.anna.clone())];
        let members = format!("/api/v1/channels/{}/members", fixture.channel);
        for (name, more) in [("ann", json!({})), ("bob", json!({})), ("boss", json!({"lead": true}))] {
            keys.push((name, member(&fixture, name, &more).await));
        }
        for name in ["ben", "carl", "dora", "eve"] {
            let email = format!("{name}@example.org");
            let key = fixture.hub.account(&email).await;
            let lead = name == "dora";
            let body = json!({"account": email, "handle": name});
            let added = fixture.hub.post(&members, Some(&fixture.anna), &body).await;
            assert_eq!(added.status, 202, "{}", added.text);
            let invitations = fixture.hub.get("/api/v1/me/invitations", Some(&key)).await;
            let id = invitations.body["items"][0]["id"].as_str().unwrap().to_owned();
            let path = format!("/api/v1/me/invitations/{id}/accept");
            let accepted = fixture.hub.post(&path, Some(&key), &json!({})).await;
            assert!(accepted.status < 300, "{}", accepted.text);
            let lead = json!({"lead": lead});
            let path = format!("{members}/{name}");
            fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &lead).await;
            keys.push((name, key));
        }
        let house = Self { fixture, keys };
        let claim = json!({"api_key": house.key("ann")});
        let owned = house.fixture.hub.post("/api/v1/agents/claim", Some(house.key("eve")), &claim).await;
        assert!(owned.status < 300, "{}", owned.text);
        house
    }

    fn key(&self, name: &str) -> &str {
        &self.keys.iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/channels/{}/messages{rest}", self.fixture.channel)
    }

    async fn say(&self, name: &str, body: Value) -> String {
        let said = self.fixture.hub.post(&self.path(""), Some(self.key(name)), &body).await;
        assert_eq!(said.status, 201, "{}", said.text);
        said.body["event_id"].as_str().unwrap().to_owned()
    }

    /// Stops the work on a message in one of the ways. Returns the status of the request.
    async fn stop(&self, how: &str, name: &str, event: &str) -> u16 {
        let (path, body) = match how {
            "signal" => (self.path(&format!("/{event}/reactions")), json!({"signal": "stop"})),
            "request" => (self.path(&format!("/{event}/stop")), json!({})),
            "words" => (self.path(""), json!({"content": "stop", "thread": event})),
            "answer" => (self.path(""), json!({"content": "stop!", "reply_to": event})),
            "intent" => {
                let body = json!({"content": "that is all", "intent": "cancellation", "thread": event});
                (self.path(""), body)
            }
            other => panic!("{other}"),
        };
        self.fixture.hub.post(&path, Some(self.key(name)), &body).await.status
    }

    async fn disposition(&self, event: &str, agent: &str) -> Value {
        let ladder = self.fixture.get(&format!("/api/v1/events/{event}")).await;
        let deliveries = ladder.body["deliveries"].as_array().unwrap();
        let own = deliveries.iter().rfind(|one| one["recipient"]["handle"] == agent);
        own.unwrap_or_else(|| panic!("{}", ladder.text))["disposition"].clone()
    }

    async fn stops(&self) -> Vec<Value> {
        let path = format!("/api/v1/channels/{}/events?kind=stop&limit=200", self.fixture.channel);
        self.fixture.get(&path).await.body["items"].as_array().unwrap().clone()
    }
}

/// Every kind of stop with every kind of caller.
#[tokio::test]
async fn who_may_stop_by_which_means() {
    let house = House::start().await;
    let mut said = 0;
    for how in ["signal", "request", "words", "answer", "intent"] {
        for (asker, name, may) in [
            ("ben", "ben", true),
            ("ben", "carl", false),
            ("ben", "anna", true),
            ("ben", "dora", true),
            ("ben", "eve", true),
            ("ben", "bob", false),
            ("ben", "boss", false),
            ("bob", "bob", true),
            ("bob", "carl", false),
            ("bob", "anna", true),
        ] {
            said += 1;
            // A person's word keeps the loop guard out of this test.
            house.say("carl", json!({"content": "go on"})).await;
            let event =
                house.say(asker, json!({"content": format!("@ann please look at item {said}")})).await;
            assert_eq!(house.disposition(&event, "ann").await, Value::Null);
            let before = house.stops().await.len();
            let status = house.stop(how, name, &event).await;
            let what = format!("{how} by {name} of what {asker} asked");
            // An agent may not speak in the threads of others at all.
            let is_refused =
                !may && (how == "request" || (how != "signal" && ["bob", "boss"].contains(&name)));
            assert_eq!((status == 403, status < 300), (is_refused, !is_refused), "{what}: {status}");
            let expected = if may { json!("superseded") } else { Value::Null };
            assert_eq!(house.disposition(&event, "ann").await, expected, "{what}");
            let stops = house.stops().await;
            assert_eq!(stops.len(), before + usize::from(may), "{what}");
            if may {
                let told = stops.last().unwrap();
                assert_eq!(told["content"], format!("{name} stopped ann"), "{what}: {told}");
                assert_eq!((&told["thread"], &told["stops"]), (&json!(event), &json!([event])), "{told}");
                let asked = if asker == name { json!([]) } else { json!([asker]) };
                assert_eq!(told["to"], asked, "{what}: {told}");
            } else {
                assert_eq!(house.stop("request", "eve", &event).await, 200);
            }
        }
    }
    // Its owner stops whatever an agent works on, wherever that is.
    let event = house.say("ben", json!({"content": "@ann please look at the last item"})).await;
    for (name, status) in [("carl", 403), ("ann", 403), ("anna", 403), ("eve", 200)] {
        let stopped =
            house.fixture.hub.post("/api/v1/agents/ann/stop", Some(house.key(name)), &json!({})).await;
        assert_eq!(stopped.status, status, "{name}: {}", stopped.text);
    }
    assert_eq!(house.disposition(&event, "ann").await, "superseded");
}

/// The words of others end nothing, and a stop ends only the work that it is about.
#[tokio::test]
async fn only_the_work_that_a_stop_is_about_ends() {
    let house = House::start().await;
    let event = house.say("ben", json!({"content": "@ann please write the long report"})).await;
    let open = async |what: &str| assert_eq!(house.disposition(&event, "ann").await, Value::Null, "{what}");
    for words in [
        "@ann cancel my subscription to the newsletter",
        "@ann para el viernes necesito el informe de ventas",
        "@ann cancel the order of customer 4711",
        "@ann stop",
    ] {
        house.say("carl", json!({"content": words})).await;
        open(words).await;
        house.say("bob", json!({"content": words})).await;
        open(words).await;
    }
    house.say("bob", json!({"content": "@ann hello", "intent": "cancellation"})).await;
    open("declared by another agent").await;
    // Who asked stops it in its thread and by name, and not in another thread.
    let other = house.say("ben", json!({"content": "something else"})).await;
    house.say("ben", json!({"content": "@ann stop", "thread": other})).await;
    open("in another thread").await;
    house.say("ben", json!({"content": "@bob stop"})).await;
    open("another agent").await;
    house.say("ben", json!({"content": "@ann stop"})).await;
    assert_eq!(house.disposition(&event, "ann").await, "superseded");
}

/// The page says who stopped what, has the button, and tells whoever asked.
#[tokio::test]
async fn the_page_says_who_stopped_what() {
    let house = House::start().await;
    let event = house.say("ben", json!({"content": "@ann please write the long report"})).await;
    assert_eq!(house.stop("request", "dora", &event).await, 200);
    assert_eq!(house.stop("request", "dora", &event).await, 200, "there is nothing left to stop");
    assert_eq!(house.stops().await.len(), 1);
    let page = house.fixture.get(&format!("/c/{}", house.fixture.channel)).await.text;
    assert!(page.contains("<strong>dora</strong> stopped ann"), "{page}");
    assert!(page.contains("data-act=\"stop\""), "{page}");
    let inbox = house.fixture.hub.get("/inbox", Some(house.key("ben"))).await.text;
    assert!(inbox.contains("dora stopped ann"), "{inbox}");
    let inbox = house.fixture.hub.get("/inbox", Some(house.key("carl"))).await.text;
    assert!(!inbox.contains("dora stopped ann"), "{inbox}");
    // The reaction says the same.
    let event = house.say("ben", json!({"content": "@ann please write the short report"})).await;
    assert_eq!(house.stop("signal", "ben", &event).await, 201);
    let ladder = house.fixture.get(&format!("/api/v1/events/{event}")).await;
    assert_eq!(ladder.body["deliveries"][0]["disposition_reason"], "ben stopped it", "{}", ladder.text);
}

/// A harness is told by a cancellation that its work was stopped, and who asked is told in the conversation.
#[tokio::test]
async fn a_harness_is_told_that_its_work_was_stopped() {
    let house = House::start().await;
    let mut ann = Harness::connect(&house.fixture.hub, house.key("ann")).await;
    let mut bob = Harness::connect(&house.fixture.hub, house.key("bob")).await;
    let event = house.say("bob", json!({"content": "@ann please write the long report"})).await;
    assert_eq!(ann.delivered().await["eventId"], json!(event));
    assert_eq!(house.stop("request", "dora", &event).await, 200);
    let told = ann.notified("notifications/cancelled").await;
    assert_eq!(
        (&told["eventId"], &told["stopped"], &told["reason"]),
        (&json!(event), &json!(true), &json!("dora stopped it"))
    );
    let told = bob.delivered().await;
    assert_eq!(
        (&told["attention"]["policy"], &told["injection"]["mode"]),
        (&json!("must_not_respond"), &json!("notify")),
        "{told}"
    );
    // A message that stops work is shown as that, and asks for nothing.
    let event = house.say("ben", json!({"content": "@ann please write the short report"})).await;
    assert_eq!(ann.delivered().await["eventId"], json!(event));
    let stop = house.say("ben", json!({"content": "stop", "thread": event})).await;
    let (told, shown) = told_and_shown(&mut ann).await;
    assert_eq!((&told["eventId"], &told["stopped"]), (&json!(event), &json!(true)));
    assert_eq!(
        (&shown["eventId"], &shown["attention"]["reason"], &shown["attention"]["policy"]),
        (&json!(stop), &json!("cancellation"), &json!("ack_only"))
    );
}

/// Returns a cancellation and a delivery, in whichever order they come.
async fn told_and_shown(harness: &mut Harness) -> (Value, Value) {
    let (mut told, mut shown) = (Value::Null, Value::Null);
    for _ in 0..2 {
        let message = harness.told().await;
        if message["method"] == "notifications/cancelled" {
            told = message["params"].clone();
        } else {
            assert_eq!(message["method"], "chat/deliver", "{message}");
            harness.ack(&message).await;
            shown = message["params"].clone();
        }
    }
    (told, shown)
}

/// Whatever the words, one agent of a role is asked. A stop reaches the one that works for its author.
#[tokio::test]
async fn one_agent_of_a_role_is_asked_whatever_the_words() {
    let fixture = ChannelFixture::start().await;
    let names = ["ada", "bob", "cat", "dan"];
    let mut harnesses = vec![];
    for name in names {
        let key = member(&fixture, name, &json!({"roles": ["ops"]})).await;
        harnesses.push(Harness::connect(&fixture.hub, &key).await);
    }
    let mut asked = vec![];
    for (words, priority) in [
        ("@ops can somebody look at the database?", "normal"),
        ("@ops stop the staging server and restart it", "normal"),
        ("@ops emergency: the database is down, please restore it", "urgent"),
    ] {
        let event = fixture.say(words).await;
        let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
        let deliveries = ladder.body["deliveries"].as_array().unwrap();
        assert_eq!(deliveries.len(), 1, "{words}: {}", ladder.text);
        let place = names.iter().position(|name| deliveries[0]["recipient"]["handle"] == *name).unwrap();
        let knock = harnesses[place].delivered().await;
        assert_eq!(
            (&knock["eventId"], &knock["attention"]["reason"], &knock["attention"]["priority"]),
            (&json!(event), &json!("role_mention"), &json!(priority)),
            "{words}: {knock}"
        );
        assert_eq!(knock["injection"]["mode"], "notify", "{words}: {knock}");
        harnesses[place].done("chat.claim", json!({"eventId": event})).await;
        // Who is not asked is refused.
        let other = (place + 1) % names.len();
        let claim = json!({"eventId": event});
        assert_eq!(harnesses[other].refused("chat.claim", claim).await, "claimed_by_other", "{words}");
        if priority == "normal" {
            harnesses[place].done("chat.resolve", json!({"eventId": event})).await;
        } else {
            asked.push((place, event));
        }
    }
    let stop = fixture.say("@ops stop").await;
    for (place, harness) in harnesses.iter_mut().enumerate() {
        let Some((_, event)) = asked.iter().find(|(asked, _)| *asked == place) else {
            harness.assert_quiet().await;
            continue;
        };
        let (told, shown) = told_and_shown(harness).await;
        assert_eq!((&told["eventId"], &shown["eventId"]), (&json!(event), &json!(stop)));
        assert_eq!(shown["attention"]["reason"], "cancellation");
    }
}
