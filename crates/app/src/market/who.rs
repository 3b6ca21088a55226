//! Wallet ownership: the wallets that a caller may spend from, look into and answer for.

use chorus_market::money;
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::{Caller, disabled, key_hash};
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AccountId, AgentId, Principal, TraceId, WalletId};
use chorus_protocol::market::Credits;
use chorus_store::directory::{Agent, KeyHash};
use chorus_store::market::wallets::{self, NewWallet, Wallet};
use chorus_store::market::{agents, ledger};
use chorus_store::{StoreError, Tx, directory, usage};

/// Wallets of one account that are read.
const MOST_WALLETS: i64 = 100;

/// Returns whether a caller answers for an agent because it owns the wallet that the agent earns for. For an
/// agent of an account this is always false: there the account alone decides.
pub(super) fn answers_for(caller: &Caller, agent: &Agent, wallet: &Wallet) -> bool {
    agent.owner.is_none() && caller.owns(wallet)
}

/// Returns whether a caller may see a wallet: its owner, the agents that earn and pay with it, and the
/// operator.
pub(super) fn sees(tx: &mut dyn Tx, caller: &Caller, wallet: &Wallet) -> Result<bool, StoreError> {
    match caller {
        Caller::Operator => Ok(true),
        Caller::Agent(agent) => Ok(agents::wallet_of(tx, agent.id)?.is_some_and(|own| own.id == wallet.id)),
        other => Ok(other.owns(wallet)),
    }
}

/// Returns the caller's own wallets.
pub(super) fn own(tx: &mut dyn Tx, caller: &Caller) -> Result<Vec<Wallet>, StoreError> {
    match caller {
        Caller::Owner(id) => Ok(wallets::by_id(tx, *id)?.into_iter().collect()),
        Caller::Account(person) => wallets::of_account(tx, person.id, MOST_WALLETS),
        Caller::Agent(agent) => Ok(agents::wallet_of(tx, agent.id)?.into_iter().collect()),
        Caller::Operator | Caller::EditLink(_) | Caller::Nobody => Ok(vec![]),
    }
}

/// Returns whether only an account can claim a name: an account's id or an email address.
pub(super) fn is_reserved(owner: &str) -> bool {
    AccountId::parse(owner).is_some()
        || owner.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
}

/// Returns whether a reserved name stands for this account.
pub(super) fn is_account(caller: &Caller, owner: &str) -> bool {
    let Caller::Account(person) = caller else { return false };
    person.id.to_string() == owner || person.email.eq_ignore_ascii_case(owner)
}

/// Ids and secrets for a wallet that may have to be created. A retried transaction uses the same ones.
#[derive(Clone)]
pub(super) struct Fresh {
    pub(super) wallet: WalletId,
    pub(super) key: KeyHash,
    pub(super) trace: TraceId,
    pub(super) now: i64,
}

impl Fresh {
    /// Makes fresh values with a key that nobody learns. A caller that shows the key replaces it.
    pub(super) fn new(app: &App) -> Self {
        Self {
            wallet: WalletId(app.environment.uuid_v7()),
            key: key_hash(&app.secret(SecretKind::OwnerKey)),
            trace: TraceId(app.environment.uuid_v7()),
            now: app.now(),
        }
    }
}

/// Returns an account's wallet, creating it on first use.
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
    let new = NewWallet {
        id: fresh.wallet,
        owner,
        account: Some(account),
        key: None,
        issued_to: None,
        trace: fresh.trace,
    };
    make(tx, &new, app.config.market_grant, fresh.now)?.ok_or_else(again)
}

/// Creates a wallet with its initial grant. Returns `None` if another transaction created it first.
pub(super) fn make(
    tx: &mut dyn Tx,
    new: &NewWallet,
    grant: Credits,
    now: i64,
) -> Result<Option<Wallet>, Error> {
    let Some(mut wallet) = wallets::insert(tx, new, now)? else { return Ok(None) };
    if !grant.is_zero() {
        // The total is not summed here: grants are small beside the possible supply.
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

/// The hirer: the wallet that pays, and the hiring agent if there is one.
pub(super) struct Hirer {
    pub(super) agent: Option<AgentId>,
    pub(super) wallet: Wallet,
}

/// Returns the hirer for this caller, on behalf of the agent that it names.
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
        // An agent of an account spends that account's credits only: its allowance is the account's to set.
        let account = directory::owner_of(tx, identity.id)?;
        let own = |wallet: &Wallet| account.is_none() || wallet.account == account;
        if let Some(wallet) = agents::wallet_of(tx, identity.id)?.filter(own) {
            // A disabled agent disables the wallet of its owner, so that the owner's other agents cannot spend for it.
            // A wallet with an account is checked by the account.
            if wallet.account.is_none() && wallets::is_kept_out(tx, wallet.id)? {
                return Err(disabled("owner"));
            }
            return Ok(Hirer { agent: Some(identity.id), wallet });
        }
        let account = account.ok_or_else(|| {
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
        Some(wallet) if caller.owns(&wallet) => wallet,
        _ => match (caller, directory::owner_of(tx, named)?) {
            (Caller::Account(person), Some(owner)) if owner == person.id => own,
            _ => return Err(not_yours()),
        },
    };
    Ok(Hirer { agent: Some(named), wallet })
}

/// Returns the principal charged for the storage of a job: the hirer, never the worker.
pub(super) fn author(caller: &Caller, hirer: &Hirer) -> Principal {
    match (caller, hirer.agent, hirer.wallet.account) {
        (_, Some(agent), _) => agent.into(),
        (Caller::Account(person), None, _) => person.id.into(),
        (_, None, Some(account)) => account.into(),
        // An owner without an account is charged under the id of its wallet, which job handouts use as well.
        (_, None, None) => usage::payer(&hirer.wallet),
    }
}

pub(super) fn no_key() -> Error {
    Error::unauthorized("this needs an owner's key or an agent's: Authorization: Bearer cw_… or ca_…")
}
