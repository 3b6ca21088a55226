//! What is paid, held, made and taken away.

use crate::answer::{list, or_dash, tell};
use crate::global::Global;
use chorus_agent::Environment;
use chorus_protocol::ids::TransferId;
use chorus_protocol::market::{
    Credits, Economy, Issue, Issued, MovementView, NewOwnerKey, OwnerId, Transfer, TransferView, WalletView,
};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Pay another owner, with the owner's key
    Transfer {
        /// Who pays
        #[arg(long)]
        from: String,
        /// Who is paid
        #[arg(long)]
        to: String,
        /// How much
        #[arg(value_parser = Credits::parse)]
        amount: Credits,
        /// The transfer's UUID: the same again is done once
        #[arg(long, value_parser = transfer_id)]
        id: Option<TransferId>,
    },
    /// Show what an owner has
    Wallet {
        /// The owner
        owner: String,
    },
    /// Give an owner a new key; the old one stops working at once. With that one, as the account it belongs to, or as the operator
    ResetKey {
        /// The owner
        owner: String,
    },
    /// Show what moved, the newest first
    Ledger {
        /// Of whose wallet; your own unless said
        #[arg(long)]
        owner: Option<String>,
        /// Of one job
        #[arg(long)]
        job: Option<String>,
        /// Not older than this RFC 3339 time
        #[arg(long)]
        since: Option<String>,
    },
    /// Add it all up: what was made and taken away, what wallets have, what is held for jobs
    Economy,
    /// Make credits, as the operator
    Mint {
        /// Whose wallet
        owner: String,
        /// How much
        #[arg(value_parser = Credits::parse)]
        amount: Credits,
    },
    /// Take credits away, as the operator
    Burn {
        /// Whose wallet
        owner: String,
        /// How much
        #[arg(value_parser = Credits::parse)]
        amount: Credits,
    },
}

fn transfer_id(text: &str) -> Result<TransferId, String> {
    TransferId::parse(text).ok_or_else(|| "must be a UUID".into())
}

pub(super) async fn run(global: &Global, command: Command) -> anyhow::Result<()> {
    // Anybody may add it up.
    let client =
        if matches!(command, Command::Economy) { global.client()? } else { global.keyed_client()? };
    match command {
        Command::Economy => {
            let economy: Value = client.market_get(&["economy"], &[]).await?;
            tell(global, &economy, |sums: Economy| {
                let Economy { minted, burned, wallets, held, balanced } = sums;
                let verdict = if balanced { "it adds up" } else { "it does not add up" };
                format!(
                    "{minted:.2} made, {burned:.2} taken away; {wallets:.2} in wallets, {held:.2} held for jobs: {verdict}"
                )
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
        Command::ResetKey { owner } => {
            let reset: Value = client.market_post(&["wallets", &owner, "key", "reset"], &json!({})).await?;
            tell(global, &reset, |reset: NewOwnerKey| {
                format!(
                    "{}\nkeep it: it is not shown again, and the old key of {} is void",
                    reset.owner_key, reset.owner
                )
            })
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
