//! Allowances: the credits of its owner that an agent's key may spend per day.
//!
//! An agent that an account owns, or that pays from an account's wallet, spends nothing unless its owner
//! allows it. Other agents spend as the market's specification says, unless their owner sets a limit. The
//! owner's own key and account are not limited.

use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_protocol::api::agents::AllowanceView;
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::Credits;
use chorus_store::directory::Agent;
use chorus_store::market::agents;
use chorus_store::market::allowances::{self, Allowance};
use chorus_store::market::jobs::Agreed;
use chorus_store::market::wallets::Wallet;
use chorus_store::{StoreError, Tx};

/// Returns the limit in force for an agent that pays from this wallet; `None` if there is none.
fn limit(allowance: &Allowance, wallet: Option<&Wallet>) -> Option<Credits> {
    let is_accounts = allowance.has_account || wallet.is_some_and(|wallet| wallet.account.is_some());
    allowance.per_day.or(is_accounts.then_some(Credits::ZERO))
}

fn exceeded(limit: Credits, left: Credits) -> Error {
    let what = format_args!(
        "this agent may spend {limit} credits a day, {left} are left; its owner raises it: chorus agents allowance NAME CREDITS"
    );
    Error::new(Code::TransferFailed, what)
}

/// Checks that a caller may spend a budget today. Returns the day to count it on, or `None` if no limit
/// applies.
pub(crate) fn check(
    tx: &mut dyn Tx,
    caller: &Caller,
    wallet: &Wallet,
    budget: Credits,
    now: i64,
) -> Result<Option<i64>, Error> {
    let Caller::Agent(agent) = caller else { return Ok(None) };
    if budget.is_zero() {
        return Ok(None);
    }
    let allowance = allowances::of_agent(tx, agent.id, now)?;
    let Some(limit) = limit(&allowance, Some(wallet)) else { return Ok(None) };
    let left = allowance.left_of(limit);
    if left < budget { Err(exceeded(limit, left)) } else { Ok(Some(allowance.day)) }
}

/// Counts the budget of a new job to the allowance that [`check`] found.
pub(crate) fn count(tx: &mut dyn Tx, job: &Agreed) -> Result<(), Error> {
    let (Some(agent), Some(day)) = (job.orchestrator, job.allowance_day) else { return Ok(()) };
    if allowances::spend(tx, agent, day, job.budget)? {
        return Ok(());
    }
    // Another request spent or lowered the allowance since `check`.
    let allowance = allowances::of_agent(tx, agent, job.created_at)?;
    let limit = allowance.per_day.unwrap_or_default();
    Err(exceeded(limit, allowance.left_of(limit)))
}

/// Returns the unpaid part of a job's budget to the allowance. It counts only on the day that it was taken
/// from.
pub(crate) fn give_back(tx: &mut dyn Tx, job: &Agreed, paid: Credits) -> Result<(), StoreError> {
    let rest = job.budget.minus(paid);
    match (job.orchestrator, job.allowance_day) {
        (Some(agent), Some(day)) if !rest.is_zero() => allowances::give_back(tx, agent, day, rest),
        _ => Ok(()),
    }
}

/// Returns `true` if a caller may set an agent's allowance: the account that owns the agent, or, if there is
/// none, the owner of its wallet; and always the operator. The agent's own key may not.
pub(crate) fn may_set(tx: &mut dyn Tx, caller: &Caller, agent: &Agent) -> Result<bool, StoreError> {
    match (caller, agent.owner) {
        (Caller::Operator, _) => Ok(true),
        (Caller::Account(person), Some(owner)) => Ok(person.id == owner),
        (Caller::Account(_) | Caller::Owner(_), None) => {
            Ok(agents::wallet_of(tx, agent.id)?.is_some_and(|wallet| caller.owns(&wallet)))
        }
        (Caller::Owner(_) | Caller::Agent(_) | Caller::EditLink(_) | Caller::Nobody, _) => Ok(false),
    }
}

/// Returns an agent's allowance as its owner and the agent see it. Returns `None` if no limit applies.
pub(crate) fn shown(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<Option<AllowanceView>, StoreError> {
    let allowance = allowances::of_agent(tx, agent, now)?;
    let wallet = agents::wallet_of(tx, agent)?;
    let view = |limit| AllowanceView {
        credits_per_day: limit,
        spent_today: allowance.spent,
        left_today: allowance.left_of(limit),
    };
    Ok(limit(&allowance, wallet.as_ref()).map(view))
}
