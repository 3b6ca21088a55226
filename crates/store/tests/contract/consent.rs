//! Invitations, blocks, and the bytes stored for each party.

use crate::channel::{Room, act, conversation, person};
use crate::support::{Fixture, NOW, agent, count, deliver, fresh, message, on_both, read, send, write};
use chorus_protocol::ids::{AccountId, AgentId, BlockId, ConversationId, InvitationId, Principal, TraceId};
use chorus_protocol::redact::MaskedContent;
use chorus_store::accounts::{self, Account};
use chorus_store::blocks::{self, Block, Blocked};
use chorus_store::conversation::{self, ConversationError, Handle, NewArtifact, Newcomer};
use chorus_store::conversations::History;
use chorus_store::invitations::{self, Invitation, Invitee, LIFE_MS, MAIL_EVERY_MS, MOST_OF_INVITER, Made};
use chorus_store::relay::SendError;
use chorus_store::usage::{self, ROW_BYTES, Stored};
use chorus_store::{Store, Tx, artifacts, directory, members, retention};
use uuid::Uuid;

on_both!(
    what_is_stored_counts_for_the_owner_too,
    retention_says_whose_bytes_are_gone,
    only_the_newest_versions_are_kept,
    who_began_a_document_and_the_owner_remove_it,
    a_block_keeps_out_its_person_and_its_agents,
    an_owners_blocks_hold_for_its_agents,
    invitations_are_kept_alike_for_everybody,
    an_invitation_is_answered_once,
    one_person_is_invited_in_two_ways,
    one_inviter_does_not_fill_what_somebody_has_open,
    unowned_agents_share_a_small_part,
    invitations_end,
    who_shares_a_conversation,
);

const EVE: AccountId = AccountId(Uuid::from_u128(7));

pub(crate) async fn account(store: &Store, email: &str) -> AccountId {
    let id = AccountId(fresh());
    let new =
        Account { id, email: email.into(), name: "x".into(), created_at: NOW, disabled_at: None, seen_at: 0 };
    assert!(write(store, move |tx| accounts::insert(tx, &new, TraceId(fresh()))).await);
    id
}

async fn own(store: &Store, agent: AgentId, owner: AccountId) {
    write(store, move |tx| directory::set_owner(tx, agent, Some(owner), None)).await;
}

async fn stored(store: &Store, who: impl Into<Principal>) -> Stored {
    let who = who.into();
    read(store, move |tx| usage::of(tx, who)).await
}

async fn what_is_stored_counts_for_the_owner_too(Fixture { store, .. }: Fixture) {
    let (bob, anna) = (agent(&store, "bob").await.id, account(&store, "anna@example.org").await);
    assert_eq!(stored(&store, bob).await, Stored::default());
    assert_eq!(write(&store, move |tx| usage::add(tx, bob.into(), 100)).await.bytes, 100);
    own(&store, bob, anna).await;
    assert_eq!(stored(&store, bob).await, Stored { bytes: 100, owner: Some((anna, 100)) });
    write(&store, move |tx| usage::add(tx, anna.into(), 7)).await;
    let both = write(&store, move |tx| usage::add(tx, bob.into(), 20)).await;
    assert_eq!(both, Stored { bytes: 120, owner: Some((anna, 127)) });
    assert_eq!(read(&store, usage::total).await, 127, "nothing counts twice");
    let less = write(&store, move |tx| usage::add(tx, bob.into(), -125)).await;
    assert_eq!(less, Stored { bytes: 0, owner: Some((anna, 2)) }, "and nothing below nothing");
    assert_eq!(read(&store, move |tx| usage::agents(tx, anna)).await, 1);
    assert_eq!(stored(&store, anna).await, Stored { bytes: 2, owner: None });
}

async fn retention_says_whose_bytes_are_gone(Fixture { store, .. }: Fixture) {
    let (bob, carol) = (agent(&store, "bob").await, agent(&store, "carol").await);
    for size in [2, 70_000] {
        let mut sent = message(&bob, &carol);
        sent.envelope = "x".repeat(size);
        deliver(&store, sent).await;
    }
    let id = carol.id;
    write(&store, move |tx| chorus_store::inboxes::hand_through(tx, id, 2, 0)).await;
    let removed = write(&store, |tx| retention::remove_before(tx, NOW + 1, 10)).await;
    assert_eq!(removed.events, 2);
    assert_eq!(removed.bytes.into_iter().collect::<Vec<_>>(), [(bob.id.into(), 70_002 + 2 * ROW_BYTES)]);
    assert_eq!(count(&store, "SELECT COUNT(*) AS count FROM large_bodies").await, 0);
}

async fn room(store: &Store, owner: Principal) -> Room {
    let room = Room { id: ConversationId(fresh()), owner };
    let made = store.write(move |tx| {
        conversation::create(
            tx,
            &act(room, owner),
            &conversation(room, History::All),
            Handle::Like("o".into()),
        )
    });
    made.await.unwrap();
    room
}

async fn join(store: &Store, room: Room, principal: Principal) {
    let add = move |tx: &mut dyn Tx| {
        let new = Newcomer { principal, handle: Handle::Like("m".into()), roles: vec![], lead: false };
        conversation::add_member(tx, &act(room, room.owner), &new)
    };
    store.write(add).await.unwrap();
}

async fn only_the_newest_versions_are_kept(Fixture { store, .. }: Fixture) {
    let (anna, bob) = (person(), person());
    let room = room(&store, anna).await;
    join(&store, room, bob).await;
    for base in 0..5 {
        let author = if base == 0 { bob } else { anna };
        let put = move |tx: &mut dyn Tx| {
            let (title, content_type) = (None, None);
            // An umlaut takes two bytes.
            let content = MaskedContent::text("äb".into());
            let new = NewArtifact { slug: "notes".into(), title, content_type, content, base };
            conversation::put_artifact(tx, &act(room, author), &new)
        };
        store.write(put).await.unwrap();
    }
    let trim = |keep| write(&store, move |tx| artifacts::trim(tx, room.id, "notes", keep));
    assert_eq!(trim(5).await, []);
    let mut gone = trim(3).await;
    gone.sort();
    let mut expected = vec![(anna, 3 + ROW_BYTES), (bob, 3 + ROW_BYTES)];
    expected.sort();
    assert_eq!(gone, expected);
    assert_eq!(trim(0).await.len(), 2, "the newest stays whatever is said");
    assert_eq!(count(&store, "SELECT MAX(version) AS count FROM artifacts").await, 5);
    assert_eq!(read(&store, move |tx| artifacts::count(tx, room.id)).await, 1);
}

async fn who_began_a_document_and_the_owner_remove_it(Fixture { store, .. }: Fixture) {
    let (anna, bob, carl) = (person(), person(), person());
    let room = room(&store, anna).await;
    for who in [bob, carl] {
        join(&store, room, who).await;
    }
    let put = |author: Principal, slug: &'static str, base| {
        let put = move |tx: &mut dyn Tx| {
            let (title, content_type, content) = (None, None, MaskedContent::text("x".into()));
            let new = NewArtifact { slug: slug.into(), title, content_type, content, base };
            conversation::put_artifact(tx, &act(room, author), &new)
        };
        store.write(put)
    };
    for (author, slug, base) in [(bob, "one", 0), (carl, "one", 1), (bob, "two", 0)] {
        put(author, slug, base).await.unwrap();
    }
    let remove = |who: Principal, slug: &'static str| {
        store.write(move |tx: &mut dyn Tx| conversation::remove_artifact(tx, &act(room, who), slug))
    };
    let refused = remove(carl, "one").await;
    assert!(matches!(refused, Err(ConversationError::Forbidden)), "{refused:?}");
    let mut gone = remove(anna, "one").await.unwrap().unwrap();
    gone.sort();
    let mut expected = vec![(bob, 1 + ROW_BYTES), (carl, 1 + ROW_BYTES)];
    expected.sort();
    assert_eq!(gone, expected);
    assert_eq!(remove(bob, "two").await.unwrap(), Some(vec![(bob, 1 + ROW_BYTES)]));
    assert_eq!(remove(bob, "two").await.unwrap(), None);
    assert_eq!(read(&store, move |tx| artifacts::count(tx, room.id)).await, 0);
}

async fn block(store: &Store, who: impl Into<Principal>, blocked: Blocked) -> BlockId {
    let (who, id) = (who.into(), BlockId(fresh()));
    let new = Block { id, label: "x".into(), created_at: NOW };
    write(store, move |tx| blocks::insert(tx, who, &blocked, &new, TraceId(fresh()))).await.id
}

async fn keeps_out(store: &Store, who: impl Into<Principal>, sender: impl Into<Principal>) -> bool {
    let (who, sender) = (who.into(), sender.into());
    read(store, move |tx| blocks::keeps_out(tx, who, sender)).await
}

async fn a_block_keeps_out_its_person_and_its_agents(Fixture { store, .. }: Fixture) {
    let (anna, eve) = (account(&store, "anna@example.org").await, account(&store, "Eve@example.org").await);
    let (hers, other) = (agent(&store, "eves").await.id, agent(&store, "other").await.id);
    own(&store, hers, eve).await;
    // A block by address, by id, or by one of her agents; only the last does not cover eve.
    for (blocked, keeps_eve) in [
        (Blocked::Email("EVE@example.org".into()), true),
        (Blocked::Principal(eve.into()), true),
        (Blocked::Principal(hers.into()), false),
    ] {
        let id = block(&store, anna, blocked.clone()).await;
        assert_eq!(block(&store, anna, blocked).await, id, "once");
        assert_eq!(keeps_out(&store, anna, eve).await, keeps_eve);
        assert!(keeps_out(&store, anna, hers).await);
        assert!(!keeps_out(&store, anna, other).await && !keeps_out(&store, eve, anna).await);
        write(&store, move |tx| blocks::remove(tx, eve.into(), id)).await;
        assert!(keeps_out(&store, anna, hers).await, "it is not hers to remove");
        write(&store, move |tx| blocks::remove(tx, anna.into(), id)).await;
        assert!(!keeps_out(&store, anna, hers).await && !keeps_out(&store, anna, eve).await);
    }
    // The blocked person creates an account later.
    block(&store, anna, Blocked::Email("late@example.org".into())).await;
    let late = account(&store, "LATE@example.org").await;
    assert!(keeps_out(&store, anna, late).await);
}

async fn an_owners_blocks_hold_for_its_agents(Fixture { store, .. }: Fixture) {
    let anna = account(&store, "anna@example.org").await;
    let (mine, mallory) = (agent(&store, "mine").await, agent(&store, "mallory").await);
    let has_blocks = async |name: &'static str| {
        read(&store, move |tx| directory::by_name(tx, name)).await.unwrap().has_blocks
    };
    let id = block(&store, anna, Blocked::Principal(mallory.id.into())).await;
    assert!(!has_blocks("mine").await);
    deliver(&store, message(&mallory, &mine)).await;
    own(&store, mine.id, anna).await;
    assert!(has_blocks("mine").await && !has_blocks("mallory").await);
    assert!(matches!(send(&store, message(&mallory, &mine)).await, Err(SendError::Blocked)));
    deliver(&store, message(&mine, &mallory)).await;
    write(&store, move |tx| blocks::remove(tx, anna.into(), id)).await;
    assert!(!has_blocks("mine").await);
    deliver(&store, message(&mallory, &mine)).await;
    // The agent's own block.
    block(&store, mine.id, Blocked::Principal(mallory.id.into())).await;
    assert!(matches!(send(&store, message(&mallory, &mine)).await, Err(SendError::Blocked)));
}

fn invitation(inviter: Principal, conversation: Option<ConversationId>, now: i64) -> Invitation {
    Invitation {
        id: InvitationId(fresh()),
        inviter,
        conversation,
        handle: Some("h".into()),
        roles: vec!["r".into()],
        lead: true,
        created_at: now,
    }
}

async fn invite(store: &Store, new: &Invitation, invitee: &Invitee, hidden: bool) -> Made {
    let (new, invitee) = (new.clone(), invitee.clone());
    write(store, move |tx| invitations::insert(tx, &new, &invitee, hidden, TraceId(fresh()))).await
}

fn of(email: &str) -> invitations::Person<'_> {
    invitations::Person { id: EVE, email }
}

async fn page(store: &Store, email: &'static str, now: i64) -> Vec<Invitation> {
    read(store, move |tx| invitations::page(tx, of(email), None, now, 1000)).await
}

async fn invitations_are_kept_alike_for_everybody(Fixture { store, .. }: Fixture) {
    let (anna, bob) = (person(), person());
    let (kept, with_mail) = (Made::Kept { mail: false }, Made::Kept { mail: true });
    let eve = Invitee::Email("eve@example.org".into(), None);
    let first = invitation(anna, None, NOW);
    assert_eq!(invite(&store, &first, &eve, false).await, with_mail);
    assert_eq!(invite(&store, &invitation(anna, None, NOW + 1), &eve, false).await, kept, "again");
    let channel = invitation(bob, Some(ConversationId(fresh())), NOW + 2);
    assert_eq!(invite(&store, &channel, &eve, false).await, kept, "one mail a day, whoever invites");
    let hidden = invitation(person(), None, NOW + 2);
    assert_eq!(invite(&store, &hidden, &eve, true).await, kept);
    assert_eq!(page(&store, "EVE@example.org", NOW + 2).await.len(), 2);
    assert!(page(&store, "EVE@example.org", NOW + 2).await.contains(&channel), "all of it is kept");
    let next_day = invitation(person(), None, NOW + MAIL_EVERY_MS);
    assert_eq!(invite(&store, &next_day, &eve, false).await, with_mail);

    // The number of invitations is limited, whatever becomes of them.
    let unknown = Invitee::Id(AccountId(fresh()), None);
    assert_eq!(invite(&store, &invitation(anna, None, NOW), &unknown, false).await, kept);
    write(&store, move |tx| invitations::decline(tx, of("eve@example.org"), &first)).await;
    for n in 2..MOST_OF_INVITER {
        let somebody = Invitee::Email(format!("{n}@example.org"), None);
        let made = invite(&store, &invitation(anna, None, NOW), &somebody, n % 2 == 0).await;
        assert_ne!(made, Made::Full, "{n}");
    }
    let one_more = Invitee::Email("more@example.org".into(), None);
    assert_eq!(invite(&store, &invitation(anna, None, NOW), &one_more, false).await, Made::Full);
    assert_eq!(invite(&store, &invitation(anna, None, NOW), &eve, false).await, kept, "declined");
    assert_eq!(invite(&store, &invitation(anna, None, NOW + LIFE_MS), &one_more, false).await, with_mail);

    // Agents fill at most their share of a person's open invitations.
    let crowd = Invitee::Email("crowd@example.org".into(), None);
    for _ in 0..103 {
        let stranger = AgentId(fresh()).into();
        assert_ne!(invite(&store, &invitation(stranger, None, NOW), &crowd, false).await, Made::Full);
    }
    assert_eq!(page(&store, "crowd@example.org", NOW).await.len(), 10);
    invite(&store, &invitation(bob, None, NOW), &crowd, false).await;
    assert_eq!(page(&store, "crowd@example.org", NOW).await.len(), 11);
}

async fn an_invitation_is_answered_once(Fixture { store, .. }: Fixture) {
    let (anna, eve) = (person(), Invitee::Email("eve@example.org".into(), None));
    let new = invitation(anna, None, NOW);
    invite(&store, &new, &eve, false).await;
    let id = new.id;
    let open = |email: &'static str, now| read(&store, move |tx| invitations::open(tx, of(email), id, now));
    assert_eq!(open("bob@example.org", NOW).await, None);
    assert_eq!(open("eve@example.org", NOW + LIFE_MS).await, None);
    assert_eq!(open("Eve@example.org", NOW).await.as_ref(), Some(&new));
    for is_first in [true, false] {
        let new = new.clone();
        let remove = move |tx: &mut dyn Tx| invitations::remove(tx, of("eve@example.org"), &new);
        assert_eq!(write(&store, remove).await, is_first);
    }
    assert_eq!(open("eve@example.org", NOW).await, None);
}

async fn invitations_end(Fixture { store, .. }: Fixture) {
    for n in 0..5 {
        let somebody = Invitee::Email(format!("{n}@example.org"), None);
        invite(&store, &invitation(person(), None, NOW + n), &somebody, false).await;
    }
    let remove = |now, limit| write(&store, move |tx| invitations::remove_expired(tx, now, limit));
    assert_eq!(remove(NOW + LIFE_MS - 1, 10).await, 0);
    assert_eq!(remove(NOW + LIFE_MS + 2, 2).await, 2);
    assert_eq!(remove(NOW + LIFE_MS + 2, 2).await, 1);
    assert_eq!(count(&store, "SELECT COUNT(*) AS count FROM invitations").await, 2);
}

/// An id and an address of one person are two rows, of which the person sees one.
async fn one_person_is_invited_in_two_ways(Fixture { store, .. }: Fixture) {
    let by_email = Invitee::Email("eve@example.org".into(), Some(EVE));
    let by_id = Invitee::Id(EVE, Some("Eve@example.org".into()));
    let rows = async || count(&store, "SELECT COUNT(*) AS count FROM invitations").await;
    for (one, other) in [(&by_email, &by_id), (&by_id, &by_email)] {
        let (anna, channel) = (person(), ConversationId(fresh()));
        let first = invitation(anna, Some(channel), NOW);
        let before = rows().await;
        let kept = Made::Kept { mail: false };
        assert_eq!(invite(&store, &first, one, false).await, kept);
        assert_eq!(invite(&store, &invitation(anna, Some(channel), NOW + 1), other, false).await, kept);
        let elsewhere = invitation(anna, None, NOW);
        invite(&store, &elsewhere, other, false).await;
        assert_eq!(rows().await, before + 3);
        let mut open = page(&store, "EVE@example.org", NOW + 1).await;
        open.sort_by_key(|open| open.conversation.is_none());
        assert_eq!(open, [first.clone(), elsewhere.clone()]);
        // Accepting removes both; declining prevents the other from being shown.
        assert!(write(&store, move |tx| invitations::remove(tx, of("eve@example.org"), &first)).await);
        write(&store, move |tx| invitations::decline(tx, of("eve@example.org"), &elsewhere)).await;
        assert_eq!(rows().await, before + 1);
        assert_eq!(invite(&store, &invitation(anna, None, NOW + 2), one, false).await, kept);
        assert_eq!(page(&store, "eve@example.org", NOW + 2).await, []);
    }
}

/// The limit covers all agents of an inviter and every spelling of the invitee.
async fn one_inviter_does_not_fill_what_somebody_has_open(Fixture { store, .. }: Fixture) {
    let (anna, bob) = (account(&store, "anna@example.org").await, person());
    let (one, two) = (agent(&store, "one").await.id, agent(&store, "two").await.id);
    for agent in [one, two] {
        own(&store, agent, anna).await;
    }
    let by_email = Invitee::Email("eve@example.org".into(), Some(EVE));
    let by_id = Invitee::Id(EVE, Some("eve@example.org".into()));
    let inviters = [anna.into(), Principal::from(one), two.into()];
    let ways = inviters.into_iter().flat_map(|inviter| [(inviter, &by_email), (inviter, &by_id)]);
    for (inviter, invitee) in ways.cycle().take(20) {
        let new = invitation(inviter, Some(ConversationId(fresh())), NOW);
        assert_eq!(invite(&store, &new, invitee, false).await, Made::Kept { mail: false });
    }
    let open = page(&store, "eve@example.org", NOW).await;
    assert_eq!(open.len(), 10);
    invite(&store, &invitation(bob, None, NOW), &by_email, false).await;
    let stranger = agent(&store, "stranger").await.id.into();
    invite(&store, &invitation(stranger, None, NOW), &by_email, false).await;
    assert_eq!(page(&store, "eve@example.org", NOW).await.len(), 12, "others are not kept out by it");

    // Only open invitations count.
    let answered = open[0].clone();
    write(&store, move |tx| invitations::decline(tx, of("eve@example.org"), &answered)).await;
    for _ in 0..2 {
        invite(&store, &invitation(one.into(), Some(ConversationId(fresh())), NOW), &by_email, false).await;
    }
    assert_eq!(page(&store, "eve@example.org", NOW).await.len(), 12);
}

/// Agents without owner from one source share a small part, and displace nobody else.
async fn unowned_agents_share_a_small_part(Fixture { store, .. }: Fixture) {
    let eve = Invitee::Email("eve@example.org".into(), Some(EVE));
    let registered = async |name: &str, source: u8| -> Principal {
        let id = agent(&store, name).await.id;
        write(&store, move |tx| directory::keep_source(tx, id, &[source; 16])).await;
        id.into()
    };
    let invite_to = async |inviter: Principal, at: i64| {
        let new = invitation(inviter, Some(ConversationId(fresh())), at);
        assert_ne!(invite(&store, &new, &eve, false).await, Made::Full);
        new.id
    };
    let open = async || page(&store, "eve@example.org", NOW + 1000).await;
    let shown = async |id: InvitationId| open().await.iter().any(|one| one.id == id);

    // Ten agents of one source create ten invitations each: the newest two are shown.
    let mut last = vec![];
    for n in 0..10 {
        let bot = registered(&format!("bot-{n}"), 1).await;
        for m in 0..10 {
            last.push(invite_to(bot, NOW + n * 10 + m).await);
        }
    }
    assert_eq!(open().await.len(), 2);
    assert!(shown(last[98]).await && shown(last[99]).await);

    // Agents of other sources are added until the part is full; then the oldest is displaced.
    for n in 0..8 {
        invite_to(registered(&format!("other-{n}"), 10 + n as u8).await, NOW + 200 + n).await;
    }
    assert_eq!(open().await.len(), 10);
    let honest = invite_to(registered("honest", 99).await, NOW + 300).await;
    assert!(shown(honest).await && !shown(last[98]).await && shown(last[99]).await);
    assert_eq!(open().await.len(), 10);
    // The first source continues, and uses only its own share.
    for n in 0..20 {
        invite_to(registered(&format!("more-{n}"), 1).await, NOW + 400 + n).await;
    }
    assert!(shown(honest).await);
    assert_eq!(open().await.len(), 10);

    // People and their agents are not affected.
    let robot = agent(&store, "robot").await.id;
    own(&store, robot, account(&store, "anna@example.org").await).await;
    for inviter in [person(), robot.into()] {
        let id = invite_to(inviter, NOW + 500).await;
        assert!(shown(id).await);
    }
    assert_eq!(open().await.len(), 12);
}

async fn who_shares_a_conversation(Fixture { store, .. }: Fixture) {
    let (anna, bob, robot) = (person(), person(), agent(&store, "robot").await.id.into());
    let share = |one: Principal, other: Principal| read(&store, move |tx| members::share(tx, one, other));
    assert!(!share(anna, bob).await);
    let talk = |one: Principal, other: Principal| {
        store.write(move |tx| {
            let id = ConversationId::of_pair(one, other);
            let place = Room { id, owner: one };
            let mut new = conversation(place, History::All);
            new.kind = chorus_store::conversations::ConversationKind::Dm;
            let event = chorus_protocol::ids::EventId(fresh());
            let second =
                conversation::SecondMember { principal: other, handle: Handle::Like("b".into()), event };
            conversation::pair(
                tx,
                &act(place, one),
                &new,
                Handle::Like("a".into()),
                second,
                chorus_store::usage::Refusal::WhenFull,
            )
        })
    };
    talk(anna, bob).await.unwrap();
    talk(anna, robot).await.unwrap();
    assert!(share(anna, bob).await && share(bob, anna).await);
    assert!(!share(anna, robot).await && !share(robot, anna).await, "anybody writes to an agent");
    let room = room(&store, bob).await;
    join(&store, room, robot).await;
    assert!(share(bob, robot).await && !share(anna, robot).await);
    let leave = store.write(move |tx| conversation::remove_member(tx, &act(room, bob), "m"));
    leave.await.unwrap();
    assert!(!share(bob, robot).await, "who has left shares nothing");
}
