//! Wallets, transfers and the ledger, and the operator's acts that mint and burn credits.

use super::who::{self, Fresh};
use chorus_market::money;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, JobId, TraceId};
use chorus_protocol::market::{
    Economy, Issue, Issued, LedgerSearch, MovementView, Transfer, TransferView, WalletView,
};
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::market::jobs;
use chorus_store::market::ledger::{self, Cause, Entry, JobLedger, Sums};
use chorus_store::market::wallets::{self, Wallet};
use chorus_store::{StoreError, Tx, accounts, members};
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Ledger entries that are read for one job.
const MOST_OF_JOB: i64 = 100;
/// Owners whose names are looked up in one call.
const MOST_NAMED: usize = 200;

fn no_wallet() -> Error {
    Error::new(Code::NotFound, "there is no such owner, or you may not look into its wallet")
}

/// Returns the wallet that a caller names. A reserved name stands for the caller's own account.
fn named(tx: &mut dyn Tx, caller: &Caller, owner: &str) -> Result<Option<Wallet>, StoreError> {
    match caller {
        Caller::Account(person) if who::is_account(caller, owner) => {
            wallets::by_owner(tx, &person.id.to_string())
        }
        _ => wallets::by_owner(tx, owner),
    }
}

/// Moves credits from the caller to another owner, once per transfer id.
pub async fn transfer(
    app: &AppState,
    caller: Caller,
    body: Transfer,
    once: Once,
) -> Result<Done<TransferView>, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let (now, trace) = (app.now(), TraceId(app.environment.uuid_v7()));
    let pay = move |tx: &mut dyn Tx| {
        let from = named(tx, &caller, &body.from_owner.0)?.filter(|wallet| caller.owns(wallet));
        let from = from.ok_or_else(|| {
            let what = "from_owner: you can pay from your own wallet only; show its owner's key or account";
            Error::new(Code::Forbidden, what)
        })?;
        let to = named(tx, &caller, &body.to_owner.0)?;
        let to = to.ok_or_else(|| Error::new(Code::NotFound, "to_owner: there is no such owner"))?;
        wallets::hold(tx, [from.id, to.id])?;
        let new = ledger::Transfer {
            id: body.transfer_id,
            from: from.id,
            to: to.id,
            amount: body.amount,
            job: body.job_id,
            created_at: now,
        };
        if let Some(known) = ledger::transfer(tx, body.transfer_id)? {
            let same = ledger::Transfer { created_at: known.created_at, ..new.clone() } == known;
            return if same { Ok(view(&known, &from, &to)) } else { Err(conflict()) };
        }
        // A job that went through escrow was paid there. The check covers the caller's own jobs only, so it
        // reveals nothing about others'.
        if let Some(job) = body.job_id
            && jobs::by_id(tx, job)?.is_some_and(|job| job.agreed.payer == from.id)
        {
            let what = "job_id: this job goes through the hub, which pays it; leave job_id out to give more";
            return Err(Error::new(Code::Conflict, what));
        }
        // Read again, now that the wallet is locked.
        let balance = wallets::by_id(tx, from.id)?.map(|wallet| wallet.balance).unwrap_or_default();
        let moved = money::transfer(money::Wallet { id: from.id, balance }, to.id, body.amount)?;
        if !ledger::insert_transfer(tx, &new, trace)? {
            return Err(conflict());
        }
        let cause = Cause { job: body.job_id, transfer: Some(body.transfer_id), trace };
        ledger::apply(tx, &[moved], cause, now)?;
        Ok(view(&new, &from, &to))
    };
    app.once(once, |_| Ok(()), pay).await
}

fn conflict() -> Error {
    Error::new(Code::Conflict, "transfer_id: this id was used for another transfer; take a new one")
}

fn view(transfer: &ledger::Transfer, from: &Wallet, to: &Wallet) -> TransferView {
    TransferView {
        transfer_id: transfer.id,
        status: "SUCCESS".into(),
        from_owner: from.owner.clone(),
        to_owner: to.owner.clone(),
        amount: transfer.amount,
        job_id: transfer.job,
        timestamp_utc: rfc3339(transfer.created_at),
    }
}

/// Returns an owner's wallet, if the caller may see it.
pub async fn wallet(app: &App, caller: Caller, owner: String) -> Result<WalletView, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let read = move |tx: &mut dyn Tx| {
        let found = visible(tx, &caller, &owner)?;
        let held = wallets::held(tx, found.id)?;
        Ok(WalletView { owner: found.owner, balance: found.balance, held })
    };
    app.store.read::<_, Error, _>(read).await
}

/// Returns the caller's own wallets. There is none before its first use of credits.
pub async fn wallets(app: &App, caller: Caller) -> Result<Vec<WalletView>, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let read = move |tx: &mut dyn Tx| {
        let mut views = vec![];
        for own in who::own(tx, &caller)? {
            let held = wallets::held(tx, own.id)?;
            views.push(WalletView { owner: own.owner, balance: own.balance, held });
        }
        Ok(views)
    };
    app.store.read::<_, Error, _>(read).await
}

fn visible(tx: &mut dyn Tx, caller: &Caller, owner: &str) -> Result<Wallet, Error> {
    let Some(wallet) = (if owner.contains('\0') { None } else { named(tx, caller, owner)? }) else {
        return Err(no_wallet());
    };
    if who::sees(tx, caller, &wallet)? { Ok(wallet) } else { Err(no_wallet()) }
}

/// Returns a page of ledger entries of a wallet or a job.
pub async fn ledger(app: &App, caller: Caller, asked: LedgerSearch) -> Result<Items<MovementView>, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let mut faults = Faults::new();
    let before = asked.after.as_deref().map_or(Some(i64::MAX), |after| after.parse().ok());
    if before.is_none() {
        faults.add("after", "must be the `next` of a page");
    }
    let since = asked.since.as_deref().map_or(Some(0), parse_rfc3339);
    if since.is_none() {
        faults.add("since", "must be an RFC 3339 time");
    }
    if !faults.is_empty() {
        return Err(faults.into());
    }
    let (before, since, limit) = (before.unwrap_or(i64::MAX), since.unwrap_or(0), asked.limit);
    let read = move |tx: &mut dyn Tx| {
        if let Some(job) = asked.job {
            return of_job(tx, &caller, job);
        }
        let wallet = match &asked.owner {
            Some(owner) => visible(tx, &caller, owner)?,
            None => who::own(tx, &caller)?.into_iter().next().ok_or_else(no_wallet)?,
        };
        Ok(ledger::of_wallet(tx, wallet.id, before, since, limit + 1)?)
    };
    let found = app.store.read::<_, Error, _>(read).await?;
    let items = found.into_iter().map(movement).collect();
    Ok(chorus_node::page::page(app, items, limit, |item: &MovementView| item.number.to_string()))
}

/// Returns the ledger entries of a job that concern the caller's own wallets. The worker sees its payment
/// alone, which does not name the payer. Other callers get nothing, as for a job that does not exist.
fn of_job(tx: &mut dyn Tx, caller: &Caller, job: JobId) -> Result<Vec<Entry>, Error> {
    let payer = jobs::by_id(tx, job)?.map(|job| job.agreed.payer);
    let shown = match caller {
        Caller::Operator => vec![JobLedger::All],
        other => {
            let of_wallet = |wallet: Wallet| match payer {
                Some(payer) if payer == wallet.id => JobLedger::Payer(payer),
                _ => JobLedger::Own(wallet.id),
            };
            who::own(tx, other)?.into_iter().map(of_wallet).collect()
        }
    };
    let mut found: Vec<Entry> = vec![];
    for shown in shown {
        for entry in ledger::of_job(tx, job, shown, MOST_OF_JOB)? {
            // A movement between two wallets of one caller is shown once.
            if !found.contains(&entry) {
                found.push(entry);
            }
        }
    }
    found.sort_by_key(|entry| (entry.created_at, entry.kind.as_str()));
    let numbered = found.into_iter().zip(1..);
    Ok(numbered.map(|(entry, number)| Entry { number, ..entry }).collect())
}

fn movement(entry: Entry) -> MovementView {
    MovementView {
        number: entry.number,
        kind: entry.kind.into(),
        debit: entry.debit,
        credit: entry.credit,
        amount: entry.amount,
        job_id: entry.job,
        transfer_id: entry.transfer,
        balance: entry.balance,
        at: rfc3339(entry.created_at),
    }
}

/// Returns the display names of these owners, as far as the caller may know them: its own, those of accounts
/// it shares a conversation with, and all for the operator. An owner without an account chose its own name.
pub async fn owner_names(
    app: &App,
    caller: Caller,
    owners: BTreeSet<String>,
) -> Result<HashMap<String, String>, Error> {
    let look = move |tx: &mut dyn Tx| {
        let mut found = HashMap::new();
        for owner in owners.iter().take(MOST_NAMED) {
            let Some(id) = AccountId::parse(owner) else { continue };
            let known = match caller.id() {
                Some(who) => who == id.into() || members::share(tx, who, id.into())?,
                None => caller == Caller::Operator,
            };
            if let Some(account) = accounts::by_id(tx, id)?.filter(|_| known) {
                found.insert(owner.clone(), account.name);
            }
        }
        Ok(found)
    };
    app.store.read::<_, Error, _>(look).await
}

/// Returns the wallet that the operator names: of a known owner or of an account.
fn operators(tx: &mut dyn Tx, app: &App, owner: &str, fresh: &Fresh) -> Result<Wallet, Error> {
    if let Some(wallet) = wallets::by_owner(tx, owner)? {
        return Ok(wallet);
    }
    let account = match AccountId::parse(owner) {
        Some(id) => accounts::by_id(tx, id)?,
        None if who::is_reserved(owner) => accounts::by_email(tx, owner)?,
        None => None,
    };
    let account = account.ok_or_else(|| Error::new(Code::NotFound, "owner: there is no such owner"))?;
    who::of_account(tx, app, account.id, fresh)
}

/// Mints credits as the operator.
pub async fn mint(
    app: &AppState,
    context: RequestContext,
    body: Issue,
    once: Once,
) -> Result<Done<Issued>, Error> {
    issue(app, context, body, Direction::In, once).await
}

/// Burns credits as the operator.
pub async fn burn(
    app: &AppState,
    context: RequestContext,
    body: Issue,
    once: Once,
) -> Result<Done<Issued>, Error> {
    issue(app, context, body, Direction::Out, once).await
}

/// The direction in which credits enter or leave the economy.
#[derive(Clone, Copy)]
enum Direction {
    In,
    Out,
}

async fn issue(
    app: &AppState,
    context: RequestContext,
    body: Issue,
    direction: Direction,
    once: Once,
) -> Result<Done<Issued>, Error> {
    let (hub, fresh) = (Arc::clone(app), Fresh::new(app));
    let work = move |tx: &mut dyn Tx| {
        let wallet = operators(tx, &hub, &body.owner.0, &fresh)?;
        wallets::hold(tx, [wallet.id])?;
        let wallet = wallets::by_id(tx, wallet.id)?.ok_or_else(no_wallet)?;
        let held = money::Wallet { id: wallet.id, balance: wallet.balance };
        let (moved, action) = match direction {
            Direction::In => {
                (money::mint(wallet.id, ledger::supply(tx)?, body.amount)?, Action::CreditsMinted)
            }
            Direction::Out => (money::burn(held, body.amount)?, Action::CreditsBurned),
        };
        ledger::apply(tx, &[moved], Cause { job: None, transfer: None, trace: fresh.trace }, fresh.now)?;
        let detail = json!({"owner": wallet.owner, "amount": body.amount});
        context.record(tx, &hub, Deed::new(Actor::Operator, action, Subject::Hub, detail))?;
        let after = wallets::by_id(tx, wallet.id)?.ok_or_else(no_wallet)?;
        Ok(Issued { owner: after.owner, amount: body.amount, balance: after.balance })
    };
    app.once(once, |_| Ok(()), work).await
}

/// Returns the totals of the economy, summed now, and the wallets that the last check found wrong, as far as
/// the caller may see them.
pub async fn economy(app: &App, caller: Caller) -> Result<Economy, Error> {
    let off = app.caches.market.discrepancies();
    let is_off = !off.is_empty();
    let read = move |tx: &mut dyn Tx| {
        // The caller's wallets are needed only if some balance is wrong.
        let own = if off.is_empty() { vec![] } else { who::own(tx, &caller)? };
        let is_seen = |id| caller == Caller::Operator || own.iter().any(|own| own.id == id);
        let seen: Vec<_> = off.iter().filter(|(id, _)| is_seen(*id)).map(|(_, off)| off.clone()).collect();
        Ok((ledger::sums(tx)?, seen))
    };
    let (sums, discrepancies) = app.store.read::<_, StoreError, _>(read).await?;
    let shown = shown(&sums);
    Ok(Economy { balanced: shown.balanced && !is_off, discrepancies, ..shown })
}

fn shown(sums: &Sums) -> Economy {
    let credits = |hundredths: i64| hundredths as f64 / 100.0;
    Economy {
        minted: credits(sums.minted),
        burned: credits(sums.burned),
        wallets: credits(sums.wallets),
        held: credits(sums.held),
        balanced: sums.balanced(),
        discrepancies: vec![],
    }
}
