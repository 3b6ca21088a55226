//! Strangers cannot add people to conversations, and cannot find out who has an account.

use crate::support::{Answer, OPERATOR, Setup, TestHub, eventually, members};
use chorus_hub::Mail;
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};

pub(crate) const INVITATIONS: &str = "/api/v1/me/invitations";
pub(crate) const BLOCKS: &str = "/api/v1/me/blocks";
pub(crate) const DMS: &str = "/api/v1/dms";
pub(crate) const DAY: i64 = 24 * 60 * 60 * 1000;

pub(crate) async fn invitations(hub: &TestHub, key: &str) -> Vec<Value> {
    let list = hub.get(INVITATIONS, Some(key)).await;
    assert_eq!(list.status, 200, "{}", list.text);
    list.body["items"].as_array().unwrap().clone()
}

/// Answers a person's only invitation.
pub(crate) async fn answer(hub: &TestHub, key: &str, word: &str) -> Answer {
    let all = invitations(hub, key).await;
    assert_eq!(all.len(), 1, "{all:?}");
    hub.post(&format!("{INVITATIONS}/{}/{word}", all[0]["id"].as_str().unwrap()), Some(key), &json!({})).await
}

pub(crate) async fn id_of(hub: &TestHub, key: &str) -> String {
    hub.get("/api/v1/me", Some(key)).await.body["id"].as_str().unwrap().to_owned()
}

pub(crate) async fn block(hub: &TestHub, key: &str, who: &str) -> String {
    let made = hub.post(BLOCKS, Some(key), &json!({"who": who})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["id"].as_str().unwrap().to_owned()
}

pub(crate) fn shape(answer: &Answer) -> (u16, String, Vec<String>) {
    let names = answer.headers.iter().map(|(name, _)| name.as_str().to_owned());
    (answer.status, answer.text.clone(), names.collect())
}

/// Probes members and direct conversations with every kind of address, as an agent with a free key and as a
/// person.
async fn every_address_is_answered_alike(hub: TestHub) {
    let anna = hub.account("anna@example.org").await;
    let (wary, busy) = (hub.account("wary@example.org").await, hub.account("busy@example.org").await);
    let mallory = hub.register("mallory").await;
    let person = hub.account("mallory@example.com").await;
    for who in ["mallory", "mallory@example.com"] {
        block(&hub, &wary, who).await;
    }
    hub.channel(&busy, &json!({"name": "of others"})).await;
    let mut addresses: Vec<String> = [
        "anna@example.org",
        "ANNA@example.org",
        "wary@example.org",
        "busy@example.org",
        "nobody@example.org",
        "acc_00000000000000000000000000000000",
    ]
    .map(Into::into)
    .into();
    for key in [&anna, &wary, &busy] {
        addresses.push(id_of(&hub, key).await);
    }
    for key in [&mallory, &person] {
        let channel = hub.channel(key, &json!({"name": "bait", "handle": "m"})).await;
        let mut answers = vec![];
        for again in [false, true] {
            for address in &addresses {
                let body = json!({"account": address, "handle": "you", "lead": true});
                answers.push((
                    address,
                    again,
                    hub.post(&format!("{channel}/members"), Some(key), &body).await,
                ));
                answers.push((address, again, hub.post(DMS, Some(key), &json!({"with": address})).await));
            }
        }
        for (address, again, answer) in &answers {
            assert_eq!(
                (answer.status, &answer.body),
                (202, &json!({"status": "invited"})),
                "{address} {again}"
            );
            assert_eq!(shape(answer), shape(&answers[0].2), "{address} {again}");
        }
        let here = hub.get(&format!("{channel}/members"), Some(key)).await;
        assert_eq!(here.body["items"].as_array().unwrap().len(), 1, "nobody was put into it: {}", here.text);
        let own = hub.get("/api/v1/channels", Some(key)).await;
        assert_eq!(own.body["items"].as_array().unwrap().len(), 1, "nor into anything else: {}", own.text);
    }
    assert_eq!(invitations(&hub, &anna).await.len(), 4, "two of each, however she was named");
    assert_eq!(invitations(&hub, &wary).await, [] as [Value; 0], "she wants to hear from neither");
}

#[tokio::test]
async fn every_address_is_answered_alike_on_sqlite() {
    every_address_is_answered_alike(TestHub::start()).await;
}

#[tokio::test]
async fn every_address_is_answered_alike_on_postgres() {
    every_address_is_answered_alike(TestHub::postgres()).await;
}

/// A caller who may not add members learns nothing about the named party.
#[tokio::test]
async fn who_may_not_add_learns_nothing() {
    let hub = TestHub::start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
    for body in [
        json!({"account": "anna@example.org"}),
        json!({"account": "nobody@example.org"}),
        json!({"agent": "bob"}),
        json!({"agent": "nobody"}),
    ] {
        hub.post(&format!("{channel}/members"), Some(&bob), &body).await.own_failure(Code::Forbidden);
    }
}

#[tokio::test]
async fn an_invitation_is_accepted() {
    let hub = TestHub::start();
    let (anna, eve) = (hub.account("anna@example.org").await, hub.account("eve@example.org").await);
    let channel = hub.channel(&anna, &json!({"name": "plans", "handle": "anna"})).await;
    let body = json!({"account": "eve@example.org", "handle": "anna", "roles": ["critic"], "lead": true});
    assert_eq!(hub.post(&format!("{channel}/members"), Some(&anna), &body).await.status, 202);
    hub.get(&channel, Some(&eve)).await.own_failure(Code::NotFound);

    let open = invitations(&hub, &eve).await.remove(0);
    assert_eq!(
        members(&open),
        ["channel", "created_at", "expires_at", "from", "id", "kind", "lead", "roles"]
    );
    assert_eq!((&open["kind"], &open["channel"]), (&json!("channel"), &json!("plans")));
    assert_eq!(members(&open["from"]), ["id", "kind", "name"], "no address");
    assert_eq!(open["from"]["name"], "anna");
    let path = format!("{INVITATIONS}/{}/accept", open["id"].as_str().unwrap());
    // Only the invited person can answer it.
    hub.post(&path, Some(&anna), &json!({})).await.own_failure(Code::NotFound);
    let accepted = hub.post(&path, Some(&eve), &json!({})).await;
    assert_eq!((accepted.status, &accepted.body["name"]), (200, &json!("plans")), "{}", accepted.text);
    let me = hub.get(&channel, Some(&eve)).await.body["me"].clone();
    assert_eq!(
        (&me["handle"], &me["lead"], &me["roles"]),
        (&json!("anna-2"), &json!(true), &json!(["critic"]))
    );
    hub.post(&path, Some(&eve), &json!({})).await.own_failure(Code::NotFound);
    assert_eq!(invitations(&hub, &eve).await, [] as [Value; 0]);

    // They share a conversation now, so further additions need no invitation.
    let second = hub.channel(&anna, &json!({"name": "more"})).await;
    let added =
        hub.post(&format!("{second}/members"), Some(&anna), &json!({"account": "eve@example.org"})).await;
    assert_eq!((added.status, &added.body["handle"]), (201, &json!("eve")));
    assert_eq!(hub.post(DMS, Some(&eve), &json!({"with": "anna@example.org"})).await.status, 201);
    // After leaving all shared conversations, invitations are needed again.
    for (channel, handle) in [(&channel, "anna-2"), (&second, "eve")] {
        assert_eq!(hub.delete(&format!("{channel}/members/{handle}"), Some(&eve)).await.status, 204);
    }
    let bob = hub.account("bob@example.org").await;
    let third = hub.channel(&bob, &json!({"name": "third"})).await;
    let asked =
        hub.post(&format!("{third}/members"), Some(&bob), &json!({"account": "eve@example.org"})).await;
    assert_eq!(asked.status, 202);
}

#[tokio::test]
async fn a_conversation_of_two_begins_when_the_other_accepts() {
    let hub = TestHub::start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    assert_eq!(hub.post(DMS, Some(&bob), &json!({"with": "anna@example.org"})).await.status, 202);
    assert_eq!(hub.get("/api/v1/channels", Some(&bob)).await.body["items"], json!([]));
    let open = invitations(&hub, &anna).await.remove(0);
    assert_eq!((&open["kind"], &open["from"]["kind"]), (&json!("dm"), &json!("agent")));
    let accepted = answer(&hub, &anna, "accept").await;
    assert_eq!((accepted.status, &accepted.body["kind"]), (200, &json!("dm")), "{}", accepted.text);
    let path = format!("/api/v1/channels/{}", accepted.body["id"].as_str().unwrap());
    hub.say(&path, &bob, &json!({"content": "hello"})).await;
    hub.say(&path, &anna, &json!({"content": "hello"})).await;
    let again = hub.post(DMS, Some(&bob), &json!({"with": "anna@example.org"})).await;
    assert_eq!((again.status, &again.body["id"]), (200, &accepted.body["id"]));
}

#[tokio::test]
async fn what_is_declined_is_not_told() {
    let hub = TestHub::start();
    let (anna, eve) = (hub.account("anna@example.org").await, hub.account("eve@example.org").await);
    let ask = async || hub.post(DMS, Some(&anna), &json!({"with": "eve@example.org"})).await;
    let first = ask().await;
    assert_eq!(answer(&hub, &eve, "decline").await.status, 204);
    let second = ask().await;
    assert_eq!((first.status, &first.text), (second.status, &second.text));
    assert_eq!(invitations(&hub, &eve).await, [] as [Value; 0], "and is not asked again");
    // Another person may still invite. Blocking covers everything the inviter owns.
    let (bob, robot) = (hub.account("bob@example.org").await, hub.register("robot").await);
    hub.post("/api/v1/agents/claim", Some(&bob), &json!({"api_key": robot})).await;
    hub.post(DMS, Some(&bob), &json!({"with": "eve@example.org"})).await;
    assert_eq!(answer(&hub, &eve, "block").await.status, 204);
    for key in [&bob, &robot] {
        assert_eq!(hub.post(DMS, Some(key), &json!({"with": "eve@example.org"})).await.text, first.text);
    }
    assert_eq!(invitations(&hub, &eve).await, [] as [Value; 0]);
    let blocked = hub.get(BLOCKS, Some(&eve)).await.body["items"].clone();
    assert_eq!((blocked.as_array().unwrap().len(), &blocked[0]["who"]), (1, &json!("bob")), "no address");
}

/// An invitation ends when its inviter may no longer add members.
#[tokio::test]
async fn an_invitation_is_as_good_as_its_inviter() {
    let hub = TestHub::start();
    let (anna, eve) = (hub.account("anna@example.org").await, hub.account("eve@example.org").await);
    let lead = hub.register("lead").await;
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&channel, &anna, &json!({"agent": "lead", "lead": true})).await;
    let body = json!({"account": "eve@example.org"});
    assert_eq!(hub.post(&format!("{channel}/members"), Some(&lead), &body).await.status, 202);
    assert_eq!(hub.delete(&format!("{channel}/members/lead"), Some(&anna)).await.status, 204);
    answer(&hub, &eve, "accept").await.own_failure(Code::Conflict);
    hub.get(&channel, Some(&eve)).await.own_failure(Code::NotFound);
    assert_eq!(answer(&hub, &eve, "decline").await.status, 204);
    // An invitation to an archived channel cannot be accepted.
    hub.post(&format!("{channel}/members"), Some(&anna), &body).await;
    assert_eq!(hub.delete(&channel, Some(&anna)).await.status, 204);
    assert_eq!(invitations(&hub, &eve).await, [] as [Value; 0]);
}

#[tokio::test]
async fn agents_that_belong_to_somebody_are_not_taken_by_strangers() {
    let hub = TestHub::start();
    let (anna, eve) = (hub.account("anna@example.org").await, hub.account("eve@example.org").await);
    let (hers, free) = (hub.register("hers").await, hub.register("free").await);
    hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": hers})).await;
    let (channel, other) =
        (hub.channel(&eve, &json!({"name": "a"})).await, hub.channel(&free, &json!({"name": "b"})).await);
    let add = |channel: &str, key: &str, agent: &str| {
        let (path, body) = (format!("{channel}/members"), json!({"agent": agent}));
        let (hub, key) = (&hub, key.to_owned());
        async move { hub.post(&path, Some(&key), &body).await }
    };
    add(&channel, &eve, "hers").await.own_failure(Code::Forbidden);
    add(&other, &free, "hers").await.own_failure(Code::Forbidden);
    assert_eq!(add(&channel, &eve, "free").await.status, 201, "nobody's is anybody's");
    // Anybody may write to the agent, and that does not reveal it.
    assert_eq!(hub.post(DMS, Some(&eve), &json!({"with": "hers"})).await.status, 201);
    assert_eq!(hub.send(&free, "free", "hers", "hello").await.status, 202);
    add(&channel, &eve, "hers").await.own_failure(Code::Forbidden);
    // The agent may be added by its owner, the operator, and anybody who shares a channel with it or a
    // conversation with its owner.
    let own = hub.channel(&anna, &json!({"name": "c"})).await;
    assert_eq!(add(&own, &anna, "hers").await.status, 201);
    assert_eq!(add(&channel, OPERATOR, "hers").await.status, 201);
    let third = hub.channel(&eve, &json!({"name": "d"})).await;
    assert_eq!(add(&third, &eve, "hers").await.status, 201, "they share a channel by now");
    hub.add(&own, &anna, &json!({"agent": "free"})).await;
    let fourth = hub.channel(&free, &json!({"name": "e"})).await;
    assert_eq!(add(&fourth, &free, "hers").await.status, 201);
    let mine = hub.channel(&hers, &json!({"name": "f"})).await;
    add(&mine, &hers, "hers").await.own_failure(Code::Conflict);
}

/// Returns all mails in the folder.
fn mails(folder: &tempfile::TempDir) -> Vec<String> {
    let files = std::fs::read_dir(folder.path()).into_iter().flatten().map(|file| file.unwrap().path());
    let whole = files.filter(|file| file.extension().is_some_and(|ending| ending == "eml"));
    whole.map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

#[tokio::test]
async fn a_stranger_gets_one_mail_a_day_and_finds_all_when_it_signs_up() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(crate::channel_fixture::BEGIN));
    let setup = Setup::new().clock(&clock);
    let setup = setup.config(|config| config.mail = Mail::Folder(folder.path().to_owned()));
    let hub = setup.start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "BUY NOW"})).await;
    for (key, path, body) in [
        (&anna, format!("{channel}/members"), json!({"account": "new@example.org"})),
        (&anna, DMS.to_owned(), json!({"with": "New@example.org"})),
        (&bob, DMS.to_owned(), json!({"with": "new@example.org"})),
        (&bob, DMS.to_owned(), json!({"with": "new@example.org"})),
        // A person with an account gets no mail.
        (&bob, DMS.to_owned(), json!({"with": "anna@example.org"})),
        // An id gets no mail either.
        (&bob, DMS.to_owned(), json!({"with": "acc_00000000000000000000000000000000"})),
    ] {
        assert_eq!(hub.post(&path, Some(key), &body).await.status, 202);
    }
    let sent = eventually(async || mails(&folder), |sent| !sent.is_empty()).await;
    assert_eq!(sent.len(), 1, "{sent:#?}");
    assert!(sent[0].contains("new@example.org") && sent[0].contains("/signin"), "{}", sent[0]);
    for word in ["BUY", "anna", "bob"] {
        assert!(!sent[0].contains(word), "nobody's words: {}", sent[0]);
    }
    // The invitation is there once the person has an account.
    let new = hub.account("new@example.org").await;
    assert_eq!(invitations(&hub, &new).await.len(), 3);
    clock.set(clock.now() + 31 * DAY);
    assert_eq!(invitations(&hub, &new).await.len(), 0, "for 30 days");
    hub.stop().await;
    assert_eq!(mails(&folder).len(), 1);
}

#[tokio::test]
async fn nobody_is_mailed_where_strangers_cannot_sign_up() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Setup::new().config(|config| {
        config.mail = Mail::Folder(folder.path().to_owned());
        config.signup = chorus_hub::Signup::Invite;
    });
    let hub = hub.start();
    let anna = hub.account("anna@example.org").await;
    assert_eq!(hub.post(DMS, Some(&anna), &json!({"with": "new@example.org"})).await.status, 202);
    hub.stop().await;
    assert_eq!(mails(&folder), [] as [String; 0]);
}

/// The number of open invitations reveals nothing either.
#[tokio::test]
async fn invitations_are_bounded_for_all_addresses_alike() {
    let hub = TestHub::start();
    let (wary, mallory) = (hub.account("wary@example.org").await, hub.register("mallory").await);
    hub.account("anna@example.org").await;
    block(&hub, &wary, "mallory").await;
    for address in ["wary@example.org", "anna@example.org", "acc_00000000000000000000000000000000"] {
        assert_eq!(hub.post(DMS, Some(&mallory), &json!({"with": address})).await.status, 202);
    }
    for n in 3..100 {
        let with = json!({"with": format!("{n}@example.org")});
        assert_eq!(hub.post(DMS, Some(&mallory), &with).await.status, 202, "{n}");
    }
    let refused = hub.post(DMS, Some(&mallory), &json!({"with": "more@example.org"})).await;
    refused.own_failure(Code::Conflict);
    let again = hub.post(DMS, Some(&mallory), &json!({"with": "wary@example.org"})).await;
    assert_eq!(again.status, 202, "what is asked already is no more");
}

/// The last free invitation does not reveal that an id and an address belong to one person.
async fn nobody_learns_whose_address_an_id_has(hub: TestHub) {
    let anna = hub.account("anna@example.org").await;
    let known = id_of(&hub, &anna).await;
    let unknown = "acc_00000000000000000000000000000000".to_owned();
    let mut answers = vec![];
    for (n, (id, email)) in
        [(&known, "Anna@example.org"), (&known, "other@example.org"), (&unknown, "nobody@example.org")]
            .into_iter()
            .enumerate()
    {
        for by_id_first in [true, false] {
            let mallory = hub.register(&format!("mallory-{n}-{by_id_first}")).await;
            let ask = async |with: &str| hub.post(DMS, Some(&mallory), &json!({"with": with})).await;
            for n in 1..100 {
                assert_eq!(ask(&format!("{n}@example.org")).await.status, 202, "{n}");
            }
            let (first, second) = if by_id_first { (id.as_str(), email) } else { (email, id.as_str()) };
            let mut shapes = vec![];
            for with in [first, second, first] {
                shapes.push(shape(&ask(with).await));
            }
            assert_eq!(
                shapes.iter().map(|shape| shape.0).collect::<Vec<_>>(),
                [202, 409, 202],
                "{id} {email}"
            );
            answers.push(shapes);
        }
    }
    assert!(answers.windows(2).all(|two| two[0] == two[1]), "{answers:#?}");

    // A person invited in both ways gets one invitation and answers once.
    let (bob, eve) = (hub.account("bob@example.org").await, hub.account("eve@example.org").await);
    for with in ["eve@example.org".to_owned(), id_of(&hub, &eve).await] {
        assert_eq!(hub.post(DMS, Some(&bob), &json!({"with": with})).await.status, 202);
    }
    assert_eq!(answer(&hub, &eve, "accept").await.status, 200);
    assert_eq!(invitations(&hub, &eve).await, [] as [Value; 0]);
}

#[tokio::test]
async fn nobody_learns_whose_address_an_id_has_on_sqlite() {
    nobody_learns_whose_address_an_id_has(TestHub::start()).await;
}

#[tokio::test]
async fn nobody_learns_whose_address_an_id_has_on_postgres() {
    nobody_learns_whose_address_an_id_has(TestHub::postgres()).await;
}

/// A mentioned agent that is not a member reveals nothing about itself.
#[tokio::test]
async fn mentions_tell_nothing_of_who_is_not_there() {
    let hub = TestHub::start();
    let (mallory, _) = (hub.register("mallory").await, hub.account("anna@example.org").await);
    hub.register("hidden").await;
    let channel = hub.channel(&mallory, &json!({"name": "bait"})).await;
    let say = async |content: &str| hub.say(&channel, &mallory, &json!({"content": content})).await;
    let (known, unknown) = (say("@hidden @anna").await, say("@nowhere @nobody").await);
    assert_eq!(known["attention"], unknown["attention"]);
    let to = |handle: &str| json!({"content": "x", "to": [handle]});
    let path = format!("{channel}/messages");
    let (known, unknown) = (
        hub.post(&path, Some(&mallory), &to("hidden")).await,
        hub.post(&path, Some(&mallory), &to("nobody")).await,
    );
    assert_eq!(
        known.own_failure(Code::NotFound).replace("hidden", "nobody"),
        unknown.own_failure(Code::NotFound)
    );
}
