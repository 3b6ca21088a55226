//! Whose wallet is whose: what a caller may spend from, look into, and answer for.

use crate::app::App;
use crate::caller::{Caller, disabled, key_hash};
use crate::error::Error;
use chorus_market::money;
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AccountId, AgentId, Principal, TraceId, WalletId};
use chorus_protocol::market::Credits;
use chorus_store::directory::KeyHash;
use chorus_store::market::wallets::{self, NewWallet, Wallet};
use chorus_store::market::{agents, ledger};
use chorus_store::{StoreError, Tx, directory};

/// More wallets of one account are not looked at.
const MOST_WALLETS: i64 = 100;

/// Whether a caller may spend what is in a wallet: its owner, by its key or its account.
pub(super) fn owns(caller: &Caller, wallet: &Wallet) -> bool {
    match caller {
        Caller::Owner(id) => wallet.id == *id,
        Caller::Account(person) => wallet.account == Some(person.id),
        Caller::Agent(_) | Caller::Operator | Caller::EditLink(_) | Caller::Nobody => false,
    }
}

/// Whether a caller may look into a wallet: also the agents that earn and pay with it, and the operator.
pub(super) fn sees(tx: &mut dyn Tx, caller: &Caller, wallet: &Wallet) -> Result<bool, StoreError> {
    match caller {
        Caller::Operator => Ok(true),
        Caller::Agent(agent) => Ok(agents::wallet_of(tx, agent.id)?.is_some_and(|own| own.id == wallet.id)),
        other => Ok(owns(other, wallet)),
    }
}

/// The wallets that are a caller's own.
pub(super) fn own(tx: &mut dyn Tx, caller: &Caller) -> Result<Vec<Wallet>, StoreError> {
    match caller {
        Caller::Owner(id) => Ok(wallets::by_id(tx, *id)?.into_iter().collect()),
        Caller::Account(person) => wallets::of_account(tx, person.id, MOST_WALLETS),
        Caller::Agent(agent) => Ok(agents::wallet_of(tx, agent.id)?.into_iter().collect()),
        Caller::Operator | Caller::EditLink(_) | Caller::Nobody => Ok(vec![]),
    }
}

/// Whether a name can be claimed by nobody but an account: an account's id, or an email address.
pub(super) fn is_reserved(owner: &str) -> bool {
    AccountId::parse(owner).is_some()
        || owner.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
}

/// Whether a reserved name stands for this account.
pub(super) fn is_account(caller: &Caller, owner: &str) -> bool {
    let Caller::Account(person) = caller else { return false };
    person.id.to_string() == owner || person.email.eq_ignore_ascii_case(owner)
}

/// Ids and secrets for a wallet that may have to be made: a transaction may run again, and must not make others then.
#[derive(Clone)]
pub(super) struct Fresh {
    pub(super) wallet: WalletId,
    pub(super) key: KeyHash,
    pub(super) trace: TraceId,
    pub(super) now: i64,
}

impl Fresh {
    /// With a key that nobody is told; whoever tells one puts it in.
    pub(super) fn new(app: &App) -> Self {
        Self {
            wallet: WalletId(app.environment.uuid_v7()),
            key: key_hash(&app.secret(SecretKind::OwnerKey)),
            trace: TraceId(app.environment.uuid_v7()),
            now: app.now(),
        }
    }
}

/// The wallet of an account, made when it is first asked for.
pub(super) fn of_account(
    tx: &mut dyn Tx,
    app: &App,
    account: AccountId,
    fresh: &Fresh,
) -> Result<Wallet, Error> {
    let owner = account.to_string();
    if let Some(wallet) = wallets::by_owner(tx, &owner)? {
        return Ok(wallet);
    }
    let new = NewWallet { id: fresh.wallet, owner, account: Some(account), key: None, trace: fresh.trace };
    make(tx, &new, app.config.market_grant, fresh.now)?.ok_or_else(again)
}

/// Makes a wallet, with what its owner is given; nothing, if somebody else came at the same time.
pub(super) fn make(
    tx: &mut dyn Tx,
    new: &NewWallet,
    grant: Credits,
    now: i64,
) -> Result<Option<Wallet>, Error> {
    let Some(mut wallet) = wallets::insert(tx, new, now)? else { return Ok(None) };
    if !grant.is_zero() {
        // Not added up each time: grants are small beside what there may be.
        let minted = money::mint(wallet.id, Credits::ZERO, grant).map_err(Error::internal)?;
        let cause = ledger::Cause { job: None, transfer: None, trace: new.trace };
        ledger::apply(tx, &[minted], cause, now)?;
        wallet.balance = grant;
    }
    Ok(Some(wallet))
}

fn again() -> Error {
    Error::new(Code::Overloaded, "somebody did the same at the same time; try again").retry_after_ms(1000)
}

/// Whoever hires: its agent, if it is one, and the wallet that pays.
pub(super) struct Hirer {
    pub(super) agent: Option<AgentId>,
    pub(super) wallet: Wallet,
}

/// Who hires when this caller does, on behalf of the agent that it names.
pub(super) fn hirer(
    tx: &mut dyn Tx,
    app: &App,
    caller: &Caller,
    named: Option<AgentId>,
    fresh: &Fresh,
) -> Result<Hirer, Error> {
    let not_yours =
        || Error::new(Code::Forbidden, "orchestrator_id: this agent is not yours; hire as yourself");
    if let Caller::Agent(identity) = caller {
        if named.is_some_and(|named| named != identity.id) {
            return Err(not_yours());
        }
        if let Some(wallet) = agents::wallet_of(tx, identity.id)? {
            // Where an owner is kept out with one of its agents, the others spend nothing for it. A person answers for herself.
            if wallet.account.is_none() && wallets::is_kept_out(tx, wallet.id)? {
                return Err(disabled("owner"));
            }
            return Ok(Hirer { agent: Some(identity.id), wallet });
        }
        let account = directory::owner_of(tx, identity.id)?.ok_or_else(|| {
            let what = "you have no wallet to pay from; come to the market first: POST /market/register";
            Error::new(Code::TransferFailed, what)
        })?;
        let wallet = of_account(tx, app, account, fresh)?;
        return Ok(Hirer { agent: Some(identity.id), wallet });
    }
    let own = match caller {
        Caller::Account(person) => of_account(tx, app, person.id, fresh)?,
        Caller::Owner(id) => wallets::by_id(tx, *id)?.ok_or_else(|| Error::not_found("owner"))?,
        Caller::Operator => {
            let what = "the operator has no wallet; hire with an owner's key or an agent's";
            return Err(Error::new(Code::Forbidden, what));
        }
        Caller::Agent(_) | Caller::EditLink(_) | Caller::Nobody => return Err(no_key()),
    };
    let Some(named) = named else { return Ok(Hirer { agent: None, wallet: own }) };
    let wallet = match agents::wallet_of(tx, named)? {
        Some(wallet) if owns(caller, &wallet) => wallet,
        _ => match (caller, directory::owner_of(tx, named)?) {
            (Caller::Account(person), Some(owner)) if owner == person.id => own,
            _ => return Err(not_yours()),
        },
    };
    Ok(Hirer { agent: Some(named), wallet })
}

/// Who answers for what is stored of a job: whoever hires, never whom it reaches.
pub(super) fn author(caller: &Caller, hirer: &Hirer) -> Principal {
    match (caller, hirer.agent, hirer.wallet.account) {
        (_, Some(agent), _) => agent.into(),
        (Caller::Account(person), None, _) => person.id.into(),
        (_, None, Some(account)) => account.into(),
        (_, None, None) => by_wallet(hirer.wallet.id),
    }
}

/// An owner counts like an agent, under the id of its wallet, which no agent has: hand-outs name it by the same.
pub(super) fn by_wallet(wallet: WalletId) -> Principal {
    AgentId(wallet.0).into()
}

pub(super) fn no_key() -> Error {
    Error::unauthorized("this needs an owner's key or an agent's: Authorization: Bearer cw_… or ca_…")
}
