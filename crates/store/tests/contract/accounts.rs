//! Accounts and their credentials.

use crate::support::{Fixture, NOW, fresh, key, on_both, read, write};
use chorus_protocol::ids::{AccountId, CredentialId, TraceId};
use chorus_store::Store;
use chorus_store::accounts::{self, Account, CredentialKind, NewCredential, SignIn};
use tokio::task::JoinSet;

on_both![
    an_address_has_one_account,
    other_letters_are_other_addresses,
    of_many_accounts_at_once_one_is_made,
    a_credential_proves_its_account_until_its_end,
    of_many_that_redeem_one_does,
    of_many_that_sign_in_one_does,
    links_to_one_address_make_one_account,
    a_link_makes_an_account_only_where_it_may,
    a_sign_up_code_makes_one_account,
    looking_uses_nothing_up,
    live_links_are_counted,
    only_its_owner_revokes,
    ending_says_whose_it_was,
    pages_of_credentials,
    what_is_over_is_removed_in_steps,
];

fn account(email: &str) -> Account {
    Account {
        id: AccountId(fresh()),
        email: email.into(),
        name: "x".into(),
        created_at: NOW,
        disabled_at: None,
        seen_at: 0,
    }
}

async fn add(store: &Store, email: &str) -> Account {
    let new = account(email);
    let added = new.clone();
    assert!(write(store, move |tx| accounts::insert(tx, &added, TraceId(fresh()))).await);
    new
}

fn credential(kind: CredentialKind, secret: &str) -> NewCredential {
    NewCredential {
        id: CredentialId(fresh()),
        hash: key(secret),
        kind,
        account: None,
        email: None,
        label: None,
        sign_up_code: None,
        expires_at: Some(NOW + 1000),
        trace: TraceId(fresh()),
        now: NOW,
    }
}

async fn issue(store: &Store, new: NewCredential) -> CredentialId {
    let id = new.id;
    write(store, move |tx| accounts::issue(tx, &new)).await;
    id
}

async fn issue_link(store: &Store, secret: &str, email: &str, sign_up_code: Option<CredentialId>) {
    let link = credential(CredentialKind::Link, secret);
    issue(store, NewCredential { email: Some(email.into()), sign_up_code, ..link }).await;
}

fn with_link(secret: &str, open: bool) -> SignIn {
    SignIn {
        link: key(secret),
        new: AccountId(fresh()),
        open,
        session: (CredentialId(fresh()), key(&fresh().to_string()), NOW + 5000),
        trace: TraceId(fresh()),
        now: NOW,
    }
}

async fn sign_in(store: &Store, with: SignIn) -> Option<Account> {
    write(store, move |tx| accounts::sign_in(tx, &with)).await
}

async fn proves(store: &Store, kind: CredentialKind, secret: [u8; 32], now: i64) -> Option<AccountId> {
    let found = read(store, move |tx| accounts::by_credential(tx, kind, &secret, now)).await;
    found.map(|account| account.id)
}

async fn an_address_has_one_account(fixture: Fixture) {
    let store = &fixture.store;
    let ann = add(store, "Ann@Mail.example").await;
    for email in ["Ann@Mail.example", "ann@mail.example", "ANN@MAIL.EXAMPLE"] {
        assert_eq!(read(store, move |tx| accounts::by_email(tx, email)).await, Some(ann.clone()), "{email}");
        let again = account(email);
        assert!(!write(store, move |tx| accounts::insert(tx, &again, TraceId(fresh()))).await, "{email}");
        assert!(accounts::same_email(email, &ann.email));
    }
    let id = ann.id;
    assert_eq!(read(store, move |tx| accounts::by_id(tx, id)).await, Some(ann));
    assert_eq!(read(store, |tx| accounts::by_email(tx, "ann@mail.exampl")).await, None);
}

/// Otherwise the holder of one address would get the sign-in links of the other.
async fn other_letters_are_other_addresses(fixture: Fixture) {
    let store = &fixture.store;
    let kelvin = "mi\u{212a}e@mail.example";
    let (mike, other) = (add(store, "mike@mail.example").await, add(store, kelvin).await);
    assert_eq!(read(store, |tx| accounts::by_email(tx, "MIKE@mail.example")).await, Some(mike));
    assert_eq!(read(store, move |tx| accounts::by_email(tx, kelvin)).await, Some(other));
}

async fn of_many_accounts_at_once_one_is_made(fixture: Fixture) {
    let mut tasks = JoinSet::new();
    for n in 0..16 {
        let store = fixture.store.clone();
        let new = account(if n % 2 == 0 { "ann@mail.example" } else { "ANN@mail.example" });
        tasks.spawn(
            async move { write(&store, move |tx| accounts::insert(tx, &new, TraceId(fresh()))).await },
        );
    }
    assert_eq!(tasks.join_all().await.into_iter().filter(|made| *made).count(), 1);
}

async fn a_credential_proves_its_account_until_its_end(fixture: Fixture) {
    let store = &fixture.store;
    let ann = add(store, "ann@mail.example").await;
    for kind in [CredentialKind::Session, CredentialKind::Token] {
        let secret = format!("{kind:?}");
        issue(store, NewCredential { account: Some(ann.id), ..credential(kind, &secret) }).await;
        assert_eq!(proves(store, kind, key(&secret), NOW + 999).await, Some(ann.id));
        assert_eq!(proves(store, kind, key(&secret), NOW + 1000).await, None, "over");
        assert_eq!(proves(store, kind, key("another"), NOW).await, None);
    }
    assert_eq!(proves(store, CredentialKind::Token, key("Session"), NOW).await, None, "of another kind");
    let endless =
        NewCredential { account: Some(ann.id), expires_at: None, ..credential(CredentialKind::Token, "t") };
    issue(store, endless).await;
    assert_eq!(proves(store, CredentialKind::Token, key("t"), i64::MAX).await, Some(ann.id));
}

async fn of_many_that_redeem_one_does(fixture: Fixture) {
    for round in 0..4 {
        let secret = format!("round-{round}");
        issue_link(&fixture.store, &secret, "ann@mail.example", None).await;
        let mut tasks = JoinSet::new();
        for _ in 0..12 {
            let (store, hash) = (fixture.store.clone(), key(&secret));
            tasks.spawn(async move {
                write(&store, move |tx| accounts::redeem(tx, CredentialKind::Link, &hash, NOW)).await
            });
        }
        let redeemed: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        assert_eq!(redeemed.len(), 1);
        assert_eq!(redeemed[0].email.as_deref(), Some("ann@mail.example"));
    }
}

async fn of_many_that_sign_in_one_does(fixture: Fixture) {
    let store = &fixture.store;
    issue_link(store, "l", "ann@mail.example", None).await;
    let mut tasks = JoinSet::new();
    for _ in 0..12 {
        let (store, with) = (store.clone(), with_link("l", true));
        tasks.spawn(async move { (with.session.1, sign_in(&store, with).await) });
    }
    let mut signed_in = 0;
    for (session, account) in tasks.join_all().await {
        let proven = proves(store, CredentialKind::Session, session, NOW).await;
        assert_eq!(proven, account.map(|account| account.id), "a session for whoever was signed in only");
        signed_in += u32::from(proven.is_some());
    }
    assert_eq!(signed_in, 1);
}

async fn links_to_one_address_make_one_account(fixture: Fixture) {
    let store = &fixture.store;
    for n in 0..5 {
        issue_link(store, &format!("l{n}"), "ann@mail.example", None).await;
    }
    let mut tasks = JoinSet::new();
    for n in 0..5 {
        let (store, with) = (store.clone(), with_link(&format!("l{n}"), true));
        tasks.spawn(async move { sign_in(&store, with).await });
    }
    let all = tasks.join_all().await;
    let first = all[0].clone().expect("every link signs in");
    assert!(all.iter().all(|account| account.as_ref() == Some(&first)), "{all:?}");
    assert_eq!((&*first.name, &*first.email), ("ann", "ann@mail.example"));
}

async fn a_link_makes_an_account_only_where_it_may(fixture: Fixture) {
    let store = &fixture.store;
    add(store, "ann@mail.example").await;
    issue_link(store, "ann", "ANN@mail.example", None).await;
    issue_link(store, "bob", "bob@mail.example", None).await;
    assert!(sign_in(store, with_link("ann", false)).await.is_some(), "who is there may come");
    assert_eq!(sign_in(store, with_link("bob", false)).await, None);
    assert_eq!(read(store, |tx| accounts::by_email(tx, "bob@mail.example")).await, None);
    assert_eq!(sign_in(store, with_link("nothing", true)).await, None);
    issue_link(store, "late", "bob@mail.example", None).await;
    let late = SignIn { now: NOW + 1000, ..with_link("late", true) };
    assert_eq!(sign_in(store, late).await, None);
    assert_eq!(read(store, |tx| accounts::by_email(tx, "bob@mail.example")).await, None);
}

async fn a_sign_up_code_makes_one_account(fixture: Fixture) {
    let store = &fixture.store;
    let code = issue(store, credential(CredentialKind::SignUpCode, "i")).await;
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        issue_link(store, &format!("l{n}"), &format!("a{n}@mail.example"), Some(code)).await;
    }
    for n in 0..6 {
        let (store, with) = (store.clone(), with_link(&format!("l{n}"), false));
        tasks.spawn(async move { sign_in(&store, with).await });
    }
    assert_eq!(tasks.join_all().await.into_iter().flatten().count(), 1);

    // A code for a person who has an account is not used up.
    let code = issue(store, credential(CredentialKind::SignUpCode, "j")).await;
    add(store, "ann@mail.example").await;
    issue_link(store, "ann", "ann@mail.example", Some(code)).await;
    assert!(sign_in(store, with_link("ann", false)).await.is_some());
    let left = |tx: &mut dyn chorus_store::Tx| accounts::peek(tx, CredentialKind::SignUpCode, &key("j"), NOW);
    assert_eq!(read(store, left).await.map(|left| left.id), Some(code));
}

async fn looking_uses_nothing_up(fixture: Fixture) {
    let store = &fixture.store;
    issue_link(store, "l", "ann@mail.example", None).await;
    let peek = |kind, now| {
        read(store, move |tx: &mut dyn chorus_store::Tx| accounts::peek(tx, kind, &key("l"), now))
    };
    for _ in 0..2 {
        assert!(peek(CredentialKind::Link, NOW + 999).await.is_some());
    }
    assert!(peek(CredentialKind::Link, NOW + 1000).await.is_none());
    assert!(peek(CredentialKind::SignUpCode, NOW).await.is_none());
}

async fn live_links_are_counted(fixture: Fixture) {
    let store = &fixture.store;
    for (n, email) in ["ann@mail.example", "ANN@mail.example", "bob@mail.example"].into_iter().enumerate() {
        issue_link(store, &n.to_string(), email, None).await;
    }
    let code = credential(CredentialKind::SignUpCode, "i");
    issue(store, NewCredential { email: Some("ann@mail.example".into()), ..code }).await;
    let count = |now| read(store, move |tx| accounts::live_links(tx, "Ann@mail.example", now, 1000));
    assert_eq!((count(NOW).await, count(NOW + 999).await, count(NOW + 1000).await), (2, 2, 0));
    assert_eq!(count(NOW - 3_600_000).await, 0, "the clock was set back");
    write(store, |tx| accounts::redeem(tx, CredentialKind::Link, &key("0"), NOW)).await;
    assert_eq!(count(NOW).await, 1);
}

async fn only_its_owner_revokes(fixture: Fixture) {
    let store = &fixture.store;
    let (ann, bob) = (add(store, "ann@mail.example").await.id, add(store, "bob@mail.example").await.id);
    let token = NewCredential { account: Some(ann), ..credential(CredentialKind::Token, "t") };
    let token = issue(store, token).await;
    let session = NewCredential { account: Some(ann), ..credential(CredentialKind::Session, "s") };
    let session = issue(store, session).await;
    let revoke = |who, id| write(store, move |tx| accounts::revoke(tx, who, CredentialKind::Token, id));
    assert!(!revoke(bob, token).await);
    assert!(!revoke(ann, session).await, "not a token");
    assert_eq!(proves(store, CredentialKind::Token, key("t"), NOW).await, Some(ann));
    assert!(revoke(ann, token).await);
    assert_eq!(proves(store, CredentialKind::Token, key("t"), NOW).await, None);
    assert!(!revoke(ann, token).await && !revoke(bob, token).await, "gone, for both alike");
    assert_eq!(proves(store, CredentialKind::Session, key("s"), NOW).await, Some(ann));
}

async fn ending_says_whose_it_was(fixture: Fixture) {
    let store = &fixture.store;
    let ann = add(store, "ann@mail.example").await.id;
    issue(store, NewCredential { account: Some(ann), ..credential(CredentialKind::Session, "s") }).await;
    let end = |kind| write(store, move |tx| accounts::end(tx, kind, &key("s")));
    assert_eq!(end(CredentialKind::Token).await, None);
    assert_eq!(end(CredentialKind::Session).await, Some(ann));
    assert_eq!(end(CredentialKind::Session).await, None);
}

async fn pages_of_credentials(fixture: Fixture) {
    let store = &fixture.store;
    let (ann, bob) = (add(store, "ann@mail.example").await.id, add(store, "bob@mail.example").await.id);
    let mut ids = vec![];
    for n in 0..7 {
        let token = credential(CredentialKind::Token, &format!("t{n}"));
        ids.push(
            issue(store, NewCredential { account: Some(ann), label: Some(n.to_string()), ..token }).await,
        );
    }
    ids.sort();
    issue(store, NewCredential { account: Some(bob), ..credential(CredentialKind::Token, "other") }).await;
    issue(store, NewCredential { account: Some(ann), ..credential(CredentialKind::Session, "s") }).await;
    let (mut found, mut after) = (vec![], None);
    loop {
        let page = read(store, move |tx| accounts::list(tx, ann, CredentialKind::Token, after, 3)).await;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        found.extend(page.iter().map(|token| token.id));
    }
    assert_eq!(found, ids);
}

async fn what_is_over_is_removed_in_steps(fixture: Fixture) {
    let store = &fixture.store;
    for n in 0..5 {
        let over = credential(CredentialKind::Link, &n.to_string());
        issue(store, NewCredential { expires_at: Some(NOW + n), ..over }).await;
    }
    let ann = add(store, "ann@mail.example").await.id;
    let token =
        NewCredential { account: Some(ann), expires_at: None, ..credential(CredentialKind::Token, "t") };
    issue(store, token).await;
    let remove = |now| write(store, move |tx| accounts::remove_expired(tx, now, 2));
    assert_eq!((remove(NOW + 3).await, remove(NOW + 3).await, remove(NOW + 3).await), (2, 2, 0));
    assert_eq!((remove(NOW + 4).await, remove(i64::MAX).await), (1, 0));
    assert_eq!(proves(store, CredentialKind::Token, key("t"), NOW).await, Some(ann));
}
