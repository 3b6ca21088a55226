//! Blocks: the agents and people that an agent or account refuses messages from.

use crate::principal_ref::{AccountRef, Found, PrincipalRef};
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::page::page;
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::api::blocks::{BlockPage, BlockView, NewBlock};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{BlockId, Principal, TraceId};
use chorus_protocol::time::rfc3339;
use chorus_store::accounts::same_email;
use chorus_store::blocks::{self, Block, Blocked};
use chorus_store::{StoreError, Tx};

/// The most blocks of one agent or account.
const MOST: i64 = 1000;

/// Blocks somebody. The answer is the same whether or not such a person exists.
pub async fn block(
    app: &AppState,
    caller: Caller,
    NewBlock { who }: NewBlock,
    once: Once,
) -> Result<Done<BlockView>, Error> {
    let (blocker, whom) = (caller.principal()?, PrincipalRef::anybody(app, "who", &who)?);
    let new = Block { id: BlockId(app.environment.uuid_v7()), label: who.0, created_at: app.now() };
    let trace = TraceId(app.environment.uuid_v7());
    let work = move |tx: &mut dyn Tx| {
        let blocked = blocked(tx, &whom)?;
        if is_self(&caller, &blocked) {
            return Err(Faults::one("who", "must be somebody else").into());
        }
        keep_out(tx, blocker, &blocked, &new, trace).map(shown)
    };
    app.once(once, |_| Ok(()), work).await
}

/// Returns a page of somebody's blocks.
pub async fn list(app: &App, who: Principal, asked: BlockPage) -> Result<Items<BlockView>, Error> {
    let BlockPage { after, limit } = asked;
    let find = move |tx: &mut dyn Tx| blocks::page(tx, who, after, limit + 1);
    let found = app.store.read::<_, StoreError, _>(find).await?.into_iter().map(shown).collect();
    Ok(page(app, found, limit, |last: &BlockView| last.id.to_string()))
}

/// Removes a block. Does nothing if it does not exist, or is somebody else's.
pub async fn unblock(app: &App, who: Principal, id: &str) -> Result<(), Error> {
    let id = BlockId::parse(id).ok_or_else(|| Faults::one("id", "must be the id of a block: blk_…"))?;
    Ok(app.store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| blocks::remove(tx, who, id)).await?)
}

/// Adds a block. Fails if the blocker has reached the limit of blocks.
pub(crate) fn keep_out(
    tx: &mut dyn Tx,
    blocker: Principal,
    blocked: &Blocked,
    new: &Block,
    trace: TraceId,
) -> Result<Block, Error> {
    // The lock makes the second of two concurrent requests count the first.
    tx.lock(blocker.into())?;
    if blocks::count(tx, blocker)? >= MOST {
        let full = format_args!("you keep {MOST} out; let somebody in first whom you need not keep out");
        return Err(Error::new(Code::Conflict, full));
    }
    Ok(blocks::insert(tx, blocker, blocked, new, trace)?)
}

/// Resolves the subject of a block. A person need not exist.
fn blocked(tx: &mut dyn Tx, whom: &PrincipalRef) -> Result<Blocked, Error> {
    Ok(match whom.find(tx)? {
        Found::Agent(agent) => Blocked::Principal(agent.id.into()),
        Found::Person(AccountRef::Id(id)) => Blocked::Principal((*id).into()),
        Found::Person(AccountRef::Email(email)) => Blocked::Email(email.clone()),
    })
}

fn is_self(caller: &Caller, blocked: &Blocked) -> bool {
    match (caller, blocked) {
        (Caller::Account(person), Blocked::Email(email)) => same_email(&person.email, email),
        (caller, Blocked::Principal(who)) => caller.id() == Some(*who),
        _ => false,
    }
}

fn shown(block: Block) -> BlockView {
    BlockView { id: block.id, who: block.label, created_at: rfc3339(block.created_at) }
}
