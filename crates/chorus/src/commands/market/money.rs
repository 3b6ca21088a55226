//! Payments, wallets and credits.

use crate::answer::{list, or_dash, tell};
use crate::global::Global;
use crate::output::one_line;
use chorus_agent::Environment;
use chorus_protocol::ids::TransferId;
use chorus_protocol::market::{
    Credits, Economy, Issue, Issued, MovementView, NewOwnerKey, OwnerId, OwnerKeyReset, Transfer,
    TransferView, WalletView,
};
use clap::Subcommand;
use serde_json::Value;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Pay another owner, with the owner's key
    Transfer {
        /// The owner who pays
        #[arg(long)]
        from: String,
        /// The owner who is paid
        #[arg(long)]
        to: String,
        /// The amount
        #[arg(value_parser = Credits::parse)]
        amount: Credits,
        /// The transfer's UUID; repeating it pays once
        #[arg(long, value_parser = transfer_id)]
        id: Option<TransferId>,
    },
    /// Show an owner's wallet
    Wallet {
        /// The owner
        owner: String,
    },
    /// Give an owner a new key; the old one stops at once. With the old key, as the owner's account, or as the
    /// operator
    ResetKey {
        /// The owner
        owner: String,
        /// The key was stolen: its agents without an account spend and offer nothing until you set them up again
        #[arg(long)]
        detach: bool,
    },
    /// Show the movements of credits, newest first
    Ledger {
        /// The wallet's owner [default: yourself]
        #[arg(long)]
        owner: Option<String>,
        /// Only those of this job
        #[arg(long)]
        job: Option<String>,
        /// Only those since this RFC 3339 time
        #[arg(long)]
        since: Option<String>,
    },
    /// Show the totals: credits minted and burned, in wallets, and held for jobs
    Economy,
    /// Mint credits, as the operator
    Mint {
        /// The owner of the wallet
        owner: String,
        /// The amount
        #[arg(value_parser = Credits::parse)]
        amount: Credits,
    },
    /// Burn credits, as the operator
    Burn {
        /// The owner of the wallet
        owner: String,
        /// The amount
        #[arg(value_parser = Credits::parse)]
        amount: Credits,
    },
}

/// Describes a replaced key, and the agents that were detached with it.
fn shown_reset(reset: NewOwnerKey) -> String {
    let mut lines = vec![
        reset.owner_key,
        format!("keep it: it is not shown again, and the old key of {} is void", reset.owner),
    ];
    let detached = reset.detached.unwrap_or_default();
    let agents = detached.agents.iter();
    lines.extend(agents.map(|agent| format!("spends and offers nothing now: {}", one_line(&agent.address))));
    if detached.more {
        lines.push("there are more: run the command again".to_owned());
    }
    if !detached.agents.is_empty() {
        lines.push("give yours an allowance and their skills again, and unregister the others".to_owned());
    }
    lines.join("\n")
}

fn transfer_id(text: &str) -> Result<TransferId, String> {
    TransferId::parse(text).ok_or_else(|| "must be a UUID".into())
}

pub(super) async fn run(global: &Global, command: Command) -> anyhow::Result<()> {
    // The totals are public.
    let client =
        if matches!(command, Command::Economy) { global.client()? } else { global.keyed_client()? };
    match command {
        Command::Economy => {
            let economy: Value = client.market_get(&["economy"], &[]).await?;
            tell(global, &economy, |sums: Economy| {
                let Economy { minted, burned, wallets, held, balanced, discrepancies } = sums;
                let verdict = if balanced { "it adds up" } else { "it does not add up" };
                let mut lines = vec![format!(
                    "{minted:.2} made, {burned:.2} taken away; {wallets:.2} in wallets, {held:.2} held for jobs: {verdict}"
                )];
                lines.extend(discrepancies.iter().map(|off| format!("{}: {}", off.owner, off.detail)));
                lines.join("\n")
            })
        }
        Command::Transfer { from, to, amount, id } => {
            let body = Transfer {
                transfer_id: id.unwrap_or_else(|| TransferId(Environment::system().uuid_v4())),
                from_owner: OwnerId(from),
                to_owner: OwnerId(to),
                amount,
                job_id: None,
                timestamp_utc: None,
            };
            let paid: Value = client.market_post(&["transfer"], &body).await?;
            tell(global, &paid, |paid: TransferView| {
                format!("{}: {} from {} to {}", paid.transfer_id, paid.amount, paid.from_owner, paid.to_owner)
            })
        }
        Command::Wallet { owner } => {
            let wallet: Value = client.market_get(&["wallets", &owner], &[]).await?;
            tell(global, &wallet, |wallet: WalletView| {
                format!("{}: {} to spend, {} held for jobs", wallet.owner, wallet.balance, wallet.held)
            })
        }
        Command::ResetKey { owner, detach } => {
            let path = ["wallets", &owner, "key", "reset"];
            let reset: Value = client.market_post(&path, &OwnerKeyReset { detach }).await?;
            tell(global, &reset, shown_reset)
        }
        Command::Ledger { owner, job, since } => {
            let asked = [("owner", owner), ("job", job), ("since", since)];
            let asked: Vec<_> =
                asked.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
            let items = global.all_market_items(&["ledger"], &asked).await?;
            list(global, &items, ["AT", "KIND", "FROM", "TO", "AMOUNT", "BALANCE"], |moved: MovementView| {
                [
                    moved.at,
                    moved.kind.to_string(),
                    or_dash(moved.debit),
                    or_dash(moved.credit),
                    moved.amount.to_string(),
                    or_dash(moved.balance.map(|balance| balance.to_string())),
                ]
            })
        }
        Command::Mint { owner, amount } => issue(global, "mint", owner, amount).await,
        Command::Burn { owner, amount } => issue(global, "burn", owner, amount).await,
    }
}

async fn issue(global: &Global, what: &str, owner: String, amount: Credits) -> anyhow::Result<()> {
    let body = Issue { owner: OwnerId(owner), amount };
    let issued: Value = global.keyed_client()?.market_post(&[what], &body).await?;
    tell(global, &issued, |issued: Issued| format!("{}: {} to spend", issued.owner, issued.balance))
}
