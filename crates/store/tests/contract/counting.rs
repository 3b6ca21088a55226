//! The bytes that transactions report to the meter are those that a recount finds in the tables.

use crate::attention::masked;
use crate::channel::{Room, act, delete, edit, join, react, room, run, say};
use crate::consent::account;
use crate::market::{agreed, credits, wallet};
use crate::support::{Fixture, NOW, agent, deliver, fresh, key, message, on_both, read, write};
use chorus_protocol::choir::receipt::VerificationStatus;
use chorus_protocol::ids::{
    AccountId, AgentId, ApprovalId, EventId, EvidenceId, Principal, QuoteId, ScoreId, StreamId, TraceId,
    TransferId, WalletId,
};
use chorus_protocol::market::JobStatus;
use chorus_protocol::redact::MaskedContent;
use chorus_protocol::words::ApprovalState;
use chorus_store::approvals::{self, Decided, NewApproval};
use chorus_store::choir::{self, EvidenceRow, ReceiptRow, ScoreRow};
use chorus_store::conversation::{self, Act, Handle, MemberChange, NewArtifact};
use chorus_store::conversations::{Conversation, ConversationKind, History};
use chorus_store::directory::{self, Agent, Record};
use chorus_store::market::agents::{self, NewListing, Skill};
use chorus_store::market::jobs::{self, End};
use chorus_store::market::ledger::{self, Transfer};
use chorus_store::market::quotes::{self, Quote};
use chorus_store::market::wallets::{self, NewWallet};
use chorus_store::market::withdrawal;
use chorus_store::usage::{self, Exceeded, Meter, Refusal};
use chorus_store::work_streams::{self, WorkStream};
use chorus_store::{Store, StoreError, Tx, TxExt, access, artifacts, inboxes, relay, retention};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use uuid::Uuid;

on_both![a_recount_finds_what_was_counted, a_full_quota_refuses_all_but_leaving];

/// Adds up committed bytes, and refuses everything refusable once it is full.
#[derive(Default)]
struct Tally {
    counted: Mutex<BTreeMap<Uuid, i64>>,
    full: Mutex<bool>,
}

impl Meter for Tally {
    fn count(
        self: Arc<Self>,
        tx: &mut dyn Tx,
        who: Principal,
        bytes: i64,
        refusal: Refusal,
    ) -> Result<(), StoreError> {
        if *self.full.lock().unwrap() && refusal == Refusal::WhenFull {
            return Err(Exceeded { quota: "agent_bytes", used: 1, limit: 1 }.into());
        }
        tx.after_commit(Box::new(move || {
            *self.counted.lock().unwrap().entry(who.uuid()).or_default() += bytes;
        }));
        Ok(())
    }
}

/// Returns the usage table after a recount, without the accounts' sums over their agents.
async fn recounted(store: &Store) -> BTreeMap<Uuid, i64> {
    write(store, usage::recount).await;
    let (found, owners) = read(store, |tx| {
        let found = tx.query("SELECT principal_id, bytes FROM usage", &[])?;
        let owners = tx.query("SELECT id, owner_id FROM agents WHERE owner_id IS NOT NULL", &[])?;
        let found = found.into_iter().map(|mut row| Ok((row.uuid("principal_id")?, row.int("bytes")?)));
        let owners = owners.into_iter().map(|mut row| Ok((row.uuid("id")?, row.uuid("owner_id")?)));
        Ok((
            found.collect::<Result<BTreeMap<_, _>, StoreError>>()?,
            owners.collect::<Result<Vec<_>, StoreError>>()?,
        ))
    })
    .await;
    let mut own = found.clone();
    for (agent, owner) in owners {
        *own.get_mut(&owner).expect("an owner has its agents' bytes") -= found[&agent];
    }
    own.retain(|_, bytes| *bytes != 0);
    own
}

/// The world in which the random acts happen.
struct World {
    store: Store,
    room: Room,
    bob: Agent,
    carol: Agent,
    anna: AccountId,
    wallets: [WalletId; 2],
    score: ScoreId,
    said: Vec<EventId>,
    random: u64,
}

impl World {
    async fn make(store: &Store) -> Self {
        let (bob, carol) = (agent(store, "bob").await, agent(store, "carol").await);
        let anna = account(store, "anna@example.org").await;
        let owned = carol.id;
        write(store, move |tx| directory::set_owner(tx, owned, Some(anna), Some("hers"))).await;
        let room = room(store, History::All).await;
        join(store, room, bob.id.into(), "bob").await;
        join(store, room, anna.into(), "anna").await;
        let of_account = NewWallet {
            id: WalletId(fresh()),
            owner: anna.to_string(),
            account: Some(anna),
            key: None,
            issued_to: None,
            trace: TraceId(fresh()),
        };
        let hers = of_account.id;
        write(store, move |tx| wallets::insert(tx, &of_account, NOW)).await;
        let wallets = [wallet(store, "acme", 100_000).await, hers];
        let row = ScoreRow {
            id: ScoreId(fresh()),
            owner: None,
            ingest: fresh().simple().to_string(),
            title: "Refunds".into(),
            version: 1,
            created_at: NOW,
            updated_at: NOW,
            archived_at: None,
        };
        let score = row.id;
        write(store, move |tx| choir::insert(tx, &row, Some(&[7; 32]), "{\"a\":1}", TraceId(fresh()))).await;
        Self {
            store: store.clone(),
            room,
            bob,
            carol,
            anna,
            wallets,
            score,
            said: vec![],
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Returns a number below `end` by xorshift, so that failures are reproducible.
    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % end
    }

    /// Returns up to 300 letters of two bytes, rarely more than an event's row holds.
    fn text(&mut self) -> String {
        let letters = if self.below(20) == 0 { 40_000 } else { self.below(300) as usize };
        "ä".repeat(letters)
    }

    fn author(&mut self) -> Principal {
        [self.room.owner, self.bob.id.into(), self.anna.into()][self.below(3) as usize]
    }

    async fn act(&mut self) {
        match self.below(20) {
            0..=3 => {
                let (who, text) = (self.author(), self.text());
                let said = say(&self.store, self.room, who, &text).await;
                self.said.push(said);
                react(&self.store, self.room, who, said).await;
                edit(&self.store, self.room, who, said, "änders").await;
            }
            4 => {
                let Some(said) = self.said.pop() else { return };
                // A deletion by another member is refused, and nothing is counted.
                drop(delete(&self.store, self.room, self.bob.id.into(), said).await);
            }
            5 => self.members().await,
            6 => self.channel().await,
            7..=8 => self.document().await,
            9..=10 => {
                let mut sent = message(&self.bob, &self.carol);
                sent.envelope = self.text();
                deliver(&self.store, sent).await;
            }
            11 => self.record().await,
            12 => self.offers().await,
            13 => self.transfer().await,
            14 => self.job().await,
            15 => self.quote().await,
            16 => self.approval().await,
            17 => self.choir().await,
            18 => {
                let (id, maker, trace) = (StreamId(fresh()), self.author(), TraceId(fresh()));
                let new = WorkStream { id, name: "w".into(), created_at: NOW, closed_at: None };
                write(&self.store, move |tx| work_streams::insert(tx, &new, maker, trace)).await;
            }
            _ => self.forget().await,
        }
    }

    async fn members(&mut self) {
        let (room, n) = (self.room, self.below(1000));
        let newcomer = agent(&self.store, &format!("new-{}", fresh().simple())).await.id;
        join(
            &self.store,
            room,
            newcomer.into(),
            &format!("h{n}x{}", fresh().simple().to_string().split_at(8).0),
        )
        .await;
        let change = MemberChange { handle: Some(format!("bob{n}")), ..MemberChange::default() };
        let back = MemberChange { handle: Some("bob".into()), ..MemberChange::default() };
        let (to, own) = (format!("bob{n}"), Principal::from(self.bob.id));
        run(&self.store, move |tx| {
            conversation::change_member(tx, &act(room, own), "bob", &change)?;
            conversation::change_member(tx, &act(room, own), &to, &back)
        })
        .await
        .unwrap();
        write(&self.store, move |tx| access::delete_agent(tx, newcomer, NOW, &fresh)).await;
        let dm = Room { id: chorus_protocol::ids::ConversationId::of_pair(own, newcomer), owner: own };
        let new = Conversation::new(dm.id, ConversationKind::Dm, "two".into(), own, NOW);
        run(&self.store, move |tx| {
            let (one, handle) = (Handle::Like("a".into()), Handle::Like("b".into()));
            let second =
                conversation::SecondMember { principal: newcomer.into(), handle, event: EventId(fresh()) };
            conversation::pair(tx, &act(dm, own), &new, one, second, Refusal::Never)
        })
        .await
        .unwrap();
    }

    async fn channel(&mut self) {
        let (mut room, context) = (self.room, self.text());
        let heir = if self.below(2) == 0 { Some("anna") } else { None };
        let owner = self.room.owner;
        run(&self.store, move |tx| {
            conversation::archive(tx, &act(room, owner))?;
            conversation::restore(tx, &act(room, owner))?;
            conversation::change(tx, &act(room, owner), heir, &|conversation| {
                conversation.context = Some(context.clone().into());
            })
        })
        .await
        .unwrap();
        if heir.is_some() {
            // The ownership is transferred back.
            room.owner = self.anna.into();
            run(&self.store, move |tx| {
                conversation::change(tx, &act(room, room.owner), Some("owner"), &|conversation| {
                    conversation.glyphs = Some("{}".into());
                })
            })
            .await
            .unwrap();
        }
    }

    async fn document(&mut self) {
        let (room, author, text) = (self.room, self.author(), self.text());
        let remove = self.below(4) == 0;
        run(&self.store, move |tx| {
            let newest = artifacts::newest(tx, room.id, "notes")?;
            let new = NewArtifact {
                slug: "notes".into(),
                title: None,
                content_type: None,
                content: MaskedContent::text(text.clone()),
                base: newest.map_or(0, |newest| newest.version),
            };
            conversation::put_artifact(tx, &act(room, author), &new)?;
            artifacts::trim(tx, room.id, "notes", 3)?;
            if remove {
                conversation::remove_artifact(tx, &act(room, room.owner), "notes")?;
            }
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn record(&mut self) {
        let (card, bob, carol) = (self.text(), self.bob.clone(), self.carol.id);
        let new = relay::Registration {
            record: Record { name: bob.name.clone(), endpoint: None, card: Some(card) },
            names: chorus_protocol::relay::Named { endpoint: true, card: true },
            registrar: relay::Registrar::Operator,
            id: AgentId(fresh()),
            key: key("bob"),
            trace: TraceId(fresh()),
            now: NOW,
        };
        soon_registered(&self.store, new).await;
        let (text, owner) = (self.text(), (self.below(2) == 0).then_some(self.anna));
        write(&self.store, move |tx| {
            directory::set_connection(tx, bob.id, Some(text.as_bytes()), NOW)?;
            directory::set_owner(tx, carol, owner, Some(&text))?;
            directory::set_harness(tx, bob.id, Some((&text, "x")), NOW)
        })
        .await;
    }

    async fn offers(&mut self) {
        let (bob, [wallet, _], text, next) = (self.bob.id, self.wallets, self.text(), self.below(3));
        let skill = |name: &str| Skill {
            name: name.into(),
            description: Some("ä".into()),
            cost: credits(10),
            input_schema: Some(text.clone()),
            output_schema: None,
            min_deadline_ms: None,
        };
        let new = NewListing {
            agent: bob,
            wallet,
            display_name: "The Bob".into(),
            endpoint: None,
            skills: vec![skill("one"), skill("two")],
            trace: TraceId(fresh()),
        };
        write(&self.store, move |tx| {
            agents::save(tx, &new, NOW)?;
            match next {
                0 => Ok(()),
                1 => agents::leave(tx, bob, NOW),
                _ => withdrawal::withdraw(tx, bob, NOW).map(drop),
            }
        })
        .await;
    }

    async fn transfer(&mut self) {
        let [from, to] = if self.below(2) == 0 { self.wallets } else { [self.wallets[1], self.wallets[0]] };
        let id = TransferId(fresh());
        let new = Transfer { id, from, to, amount: credits(1), job: None, created_at: NOW };
        write(&self.store, move |tx| ledger::insert_transfer(tx, &new, TraceId(fresh()))).await;
    }

    async fn job(&mut self) {
        let payer = self.wallets[self.below(2) as usize];
        let mut new = agreed(payer, self.wallets[0], self.bob.id);
        (new.output_schema, new.callback) = (Some(self.text()), Some(vec![1; 33]));
        let result = self.text();
        write(&self.store, move |tx| {
            jobs::insert(tx, &new)?;
            let status = JobStatus::Success;
            let end = End { status, paid: credits(0), result: Some(&result), error: None, now: NOW };
            jobs::end(tx, new.id, &end)
        })
        .await;
    }

    async fn quote(&mut self) {
        let quote = Quote {
            budget: None,
            id: QuoteId(fresh()),
            payer: self.wallets[self.below(2) as usize],
            orchestrator: None,
            skill: "one".into(),
            input: Some(self.text()),
            job: None,
            valid_until: NOW + self.below(3) as i64,
            answers_until: NOW,
            created_at: NOW,
            trace: TraceId(fresh()),
            offers: vec![],
        };
        write(&self.store, move |tx| quotes::insert(tx, &quote)).await;
    }

    async fn approval(&mut self) {
        let new = NewApproval {
            id: ApprovalId(fresh()),
            conversation: self.room.id,
            author: self.bob.id.into(),
            body: masked(json!({"content": self.text()})),
            thread: None,
            reply_to: None,
            stream: None,
            edit_of: None,
            trace: TraceId(fresh()),
            now: NOW,
        };
        let (id, ends) = (new.id, self.below(3) > 0);
        if !write(&self.store, move |tx| approvals::hold(tx, &new)).await || !ends {
            return;
        }
        let decided = Decided { at: NOW, by: None, reason: None, event: None };
        write(&self.store, move |tx| approvals::decide(tx, id, ApprovalState::Withdrawn, &decided)).await;
    }

    async fn choir(&mut self) {
        let (score, text, anna, claims) = (self.score, self.text(), self.anna, self.below(2) == 0);
        let receipt = ReceiptRow {
            id: fresh().simple().to_string(),
            score,
            generated_at: NOW,
            payload_hash: "b".repeat(64),
            payload: text.clone(),
            label: "Draft".into(),
            log_index: i64::from(u32::try_from(self.below(1 << 31)).unwrap()),
            attestation: None,
            test_result: None,
        };
        let evidence = EvidenceRow {
            id: EvidenceId(fresh()),
            status: VerificationStatus::UserAsserted,
            bundle_sha256: fresh().simple().to_string(),
            score_version: 1,
            events: 0,
            received_at: NOW,
            secret: None,
            supersedes: None,
            superseded_by: None,
        };
        write(&self.store, move |tx| {
            choir::insert_evidence(tx, score, &evidence, &text, TraceId(fresh()))?;
            choir::insert_receipt(tx, &receipt, TraceId(fresh()))?;
            if claims && choir::claim(tx, score, &[7; 32], anna)? {
                choir::add_version(tx, score, 2, "Again", &text, NOW)?;
                choir::insert_comparison(tx, &fresh().simple().to_string(), &receipt.id, &receipt.id, NOW)?;
            }
            Ok(())
        })
        .await;
    }

    /// Runs the reconcilers that delete data.
    async fn forget(&mut self) {
        let (carol, later) = (self.carol.id, NOW + 400 * 24 * 60 * 60 * 1000);
        write(&self.store, move |tx| {
            let end = tx.head(carol.into())?;
            inboxes::hand_through(tx, carol, end, 0)?;
            retention::remove_before(tx, NOW + 1, 10)?;
            retention::remove_said(tx, later, Some(1), 5)?;
            approvals::remove_old(tx, later, 3)?;
            quotes::remove_before(tx, NOW + 2, 3)?;
            jobs::forget_results(tx, later, 2)
        })
        .await;
        self.said.clear();
    }
}

async fn soon_registered(store: &Store, new: relay::Registration) {
    let registered = store.write(move |tx: &mut dyn Tx| relay::register(tx, &new));
    registered.await.unwrap();
}

async fn a_recount_finds_what_was_counted(fixture: Fixture) {
    let (store, tally) = (&fixture.store, Arc::new(Tally::default()));
    store.count_with(Arc::clone(&tally) as _);
    let mut world = World::make(store).await;
    for round in 0..12 {
        for _ in 0..20 {
            world.act().await;
        }
        let mut counted = tally.counted.lock().unwrap().clone();
        counted.retain(|_, bytes| *bytes != 0);
        assert_eq!(recounted(store).await, counted, "in round {round}");
    }
}

async fn a_full_quota_refuses_all_but_leaving(fixture: Fixture) {
    let (store, tally) = (&fixture.store, Arc::new(Tally::default()));
    store.count_with(Arc::clone(&tally) as _);
    let mut world = World::make(store).await;
    let said = say(store, world.room, world.bob.id.into(), "hello").await;
    world.document().await;
    *tally.full.lock().unwrap() = true;
    let (room, bob, owner) = (world.room, Principal::from(world.bob.id), world.room.owner);
    let refused = run(store, move |tx| {
        let change = MemberChange { handle: Some("rob".into()), ..MemberChange::default() };
        conversation::change_member(tx, &act(room, bob), "bob", &change)
    });
    let refused = refused.await.unwrap_err();
    assert!(format!("{refused:?}").contains("Quota"), "{refused:?}");
    delete(store, room, bob, said).await.unwrap();
    let leave = move |tx: &mut dyn Tx| {
        conversation::remove_member(tx, &act(room, bob), "bob")?;
        let removed = conversation::remove_artifact(tx, &act(room, owner), "notes")?;
        let act: Act = act(room, owner);
        conversation::archive(tx, &act)?;
        Ok(removed.is_some())
    };
    run(store, leave).await.unwrap();
    let (agent, carol) = (world.bob.id, world.carol.id);
    write(store, move |tx| {
        agents::leave(tx, agent, NOW)?;
        directory::detach(tx, agent, NOW)?;
        access::delete_agent(tx, carol, NOW, &fresh)
    })
    .await;
    *tally.full.lock().unwrap() = false;
    let refused = run(store, move |tx| Ok(conversation::restore(tx, &act(room, owner))?.archived_at)).await;
    assert_eq!(refused.unwrap(), None, "and it can be opened again when there is room");
}
