//! The traces that a thief of an account's credential may have left.

use chorus_protocol::api::accounts::{AccountReview, LastingAct};
use chorus_protocol::api::operator::AuditParty;
use chorus_protocol::ids::AccountId;
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{self, Action, Filter, Recorded};
use chorus_store::market::{allowances, wallets};
use chorus_store::{StoreError, Tx};

/// The most acts in one review.
const MOST_ACTS: usize = 100;

/// Acts whose effect stays when the credential that did them ends.
const LASTING: [Action; 15] = [
    Action::AgentClaimed,
    Action::AgentRegistered,
    Action::AgentUpdated,
    Action::AllowanceSet,
    Action::ChannelOwnerChanged,
    Action::ConnectionSet,
    Action::ConnectionStringRotated,
    Action::HarnessSet,
    Action::KeyReset,
    Action::MemberAdded,
    Action::OwnerKeyReset,
    Action::SignUpCodeMade,
    Action::SigningSecretMade,
    Action::SkillsOffered,
    Action::WebhookSecretRotated,
];

/// Ends the allowances of an account's agents and the keys of its wallets, and lists the account's lasting acts since `since`. Returns
/// `None` if there was nothing to end or to list.
pub(super) fn review(
    tx: &mut dyn Tx,
    account: AccountId,
    since: Option<i64>,
) -> Result<Option<AccountReview>, StoreError> {
    let allowances = allowances::clear_of_account(tx, account)?;
    let owner_keys = wallets::end_keys_of_account(tx, account)?;
    let acts = since.map_or(Ok(vec![]), |since| lasting_acts(tx, account, since))?;
    let found = AccountReview { allowances, owner_keys, acts };
    Ok((found != AccountReview::default()).then_some(found))
}

fn lasting_acts(tx: &mut dyn Tx, account: AccountId, since: i64) -> Result<Vec<LastingAct>, StoreError> {
    let mut found = vec![];
    for action in LASTING {
        let actor = Some(account.to_string());
        let filter = Filter { actor, action: Some(action), subject: None, since };
        found.extend(audit::list(tx, &filter, None, MOST_ACTS as i64)?);
    }
    found.sort_by_key(|act| std::cmp::Reverse(act.id.0));
    found.truncate(MOST_ACTS);
    Ok(found.into_iter().map(shown).collect())
}

fn shown(act: Recorded) -> LastingAct {
    let (kind, id) = act.subject;
    LastingAct {
        at: rfc3339(act.at),
        action: act.action.into(),
        subject: AuditParty { kind, id },
        detail: serde_json::from_str(&act.detail).unwrap_or_default(),
        client: act.client,
    }
}
