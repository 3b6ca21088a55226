//! Wallets, transfers, the ledger; and the operator's hand, which makes credits and takes them away.

use super::who::{self, Fresh};
use crate::app::{App, AppState};
use crate::audit::{Deed, RequestContext};
use crate::caller::Caller;
use crate::error::Error;
use crate::once::{Done, Once};
use chorus_market::money::{self, Refused};
use chorus_protocol::api::Items;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, TraceId};
use chorus_protocol::market::{
    Economy, Issue, Issued, LedgerSearch, MovementView, Transfer, TransferView, WalletView,
};
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::market::jobs;
use chorus_store::market::ledger::{self, Cause, Entry, Sums};
use chorus_store::market::wallets::{self, Wallet};
use chorus_store::{StoreError, Tx, accounts, members};
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A job moves credits a few times.
const MOST_OF_JOB: i64 = 100;
/// So many owners are called by their names at once.
const MOST_NAMED: usize = 200;

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Short { .. } => Self::new(Code::TransferFailed, refused),
            Refused::Nothing | Refused::TooMany => Faults::one("amount", refused).into(),
            Refused::Same => Faults::one("to_owner", refused).into(),
        }
    }
}

fn no_wallet() -> Error {
    Error::new(Code::NotFound, "there is no such owner, or you may not look into its wallet")
}

/// The wallet that a caller means by a name: reserved names stand for its own account's.
fn named(tx: &mut dyn Tx, caller: &Caller, owner: &str) -> Result<Option<Wallet>, StoreError> {
    match caller {
        Caller::Account(person) if who::is_account(caller, owner) => {
            wallets::by_owner(tx, &person.id.to_string())
        }
        _ => wallets::by_owner(tx, owner),
    }
}

/// Moves credits from the caller to another owner, once for the same id.
pub async fn transfer(app: &AppState, caller: Caller, body: Transfer) -> Result<TransferView, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let (now, trace) = (app.now(), TraceId(app.environment.uuid_v7()));
    let pay = move |tx: &mut dyn Tx| {
        let from = named(tx, &caller, &body.from_owner.0)?.filter(|wallet| who::owns(&caller, wallet));
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
        // What went through escrow was paid there. Of others' jobs nobody learns here that there are any.
        if let Some(job) = body.job_id
            && jobs::by_id(tx, job)?.is_some_and(|job| job.agreed.payer == from.id)
        {
            let what = "job_id: this job goes through the hub, which pays it; leave job_id out to give more";
            return Err(Error::new(Code::Conflict, what));
        }
        // Read again: it is held now.
        let balance = wallets::by_id(tx, from.id)?.map(|wallet| wallet.balance).unwrap_or_default();
        let moved = money::transfer(money::Wallet { id: from.id, balance }, to.id, body.amount)?;
        if !ledger::insert_transfer(tx, &new, trace)? {
            return Err(conflict());
        }
        let cause = Cause { job: body.job_id, transfer: Some(body.transfer_id), trace };
        ledger::apply(tx, &[moved], cause, now)?;
        Ok(view(&new, &from, &to))
    };
    app.store.write::<_, Error, _>(pay).await
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

/// What an owner has, for those who may know.
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

/// What a caller has, in each wallet that is its own: none before it first had to do with credits.
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

/// A page of what moved: of a wallet, or for a job.
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
    Ok(crate::page::page(app, items, limit, |item: &MovementView| item.number.to_string()))
}

/// What moved for a job, for the two whose wallets it moved out of and into. Others learn nothing, not even that there is one.
fn of_job(tx: &mut dyn Tx, caller: &Caller, job: chorus_protocol::ids::JobId) -> Result<Vec<Entry>, Error> {
    let all = ledger::of_job(tx, job, MOST_OF_JOB)?;
    if *caller == Caller::Operator {
        return Ok(all);
    }
    let own: Vec<_> = who::own(tx, caller)?.into_iter().map(|wallet| wallet.owner).collect();
    let is_own = |end: &Option<String>| end.as_ref().is_some_and(|end| own.contains(end));
    let is_side = all.iter().any(|entry| is_own(&entry.debit) || is_own(&entry.credit));
    Ok(if is_side { all } else { vec![] })
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

/// What these owners are called, as far as the caller may know: itself, whoever it shares a conversation with, and for the
/// operator everybody. An owner that is no account has called itself so.
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

/// The wallet that the operator means: of an owner that is known, or of an account.
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

/// The operator makes credits.
pub async fn mint(
    app: &AppState,
    context: RequestContext,
    body: Issue,
    once: Once,
) -> Result<Done<Issued>, Error> {
    issue(app, context, body, Direction::In, once).await
}

/// The operator takes credits away.
pub async fn burn(
    app: &AppState,
    context: RequestContext,
    body: Issue,
    once: Once,
) -> Result<Done<Issued>, Error> {
    issue(app, context, body, Direction::Out, once).await
}

/// Which way credits cross the edge of the economy.
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

/// The sum of it all, added up now.
pub async fn economy(app: &App) -> Result<Economy, Error> {
    Ok(shown(&app.store.read::<_, StoreError, _>(ledger::sums).await?))
}

fn shown(sums: &Sums) -> Economy {
    let credits = |hundredths: i64| hundredths as f64 / 100.0;
    Economy {
        minted: credits(sums.minted),
        burned: credits(sums.burned),
        wallets: credits(sums.wallets),
        held: credits(sums.held),
        balanced: sums.balanced(),
    }
}
