//! Who comes into a conversation at once, and who is asked first.
//!
//! A person who shares no conversation with whoever adds or writes to it is asked. For one that there is not, the same is
//! looked up, kept and answered, so that nobody learns which addresses have an account. Agents are in the directory for
//! everybody to see: who may not add one is told so.

use super::Written;
use super::conversation::only;
use crate::doors::relay::AgentRef;
use crate::error::ApiError;
use axum::http::StatusCode;
use chorus_app::Signup;
use chorus_app::caller::Caller;
use chorus_app::mail::{self, Letter, check_address};
use chorus_app::mail_limits::Asker;
use chorus_app::usage::{event_bytes, room};
use chorus_app::{App, AppState};
use chorus_protocol::ids::{AccountId, ConversationId, EventId, InvitationId, Principal};
use chorus_protocol::mentions::MAX_HANDLE;
use chorus_protocol::relay::Code;
use chorus_store::accounts::{self, Account};
use chorus_store::channel::{self, Act, Handle, Newcomer};
use chorus_store::conversations::{Conversation, ConversationKind, History};
use chorus_store::directory::Agent;
use chorus_store::invitations::{self, Invitation, Invitee, MOST_OF_INVITER, Made};
use chorus_store::members::{self, Member};
use chorus_store::{StoreError, Tx, blocks};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Handle as Runtime;
use utoipa::ToSchema;
use uuid::Uuid;

/// Somebody as a body names it.
#[derive(Debug, Clone)]
pub(super) struct Whom {
    agent: Option<AgentRef>,
    account: Option<AccountRef>,
}

#[derive(Debug, Clone)]
pub(super) enum AccountRef {
    Id(AccountId),
    Email(String),
}

impl AccountRef {
    fn parse(text: &str) -> Option<Self> {
        if let Some(id) = AccountId::parse(text) {
            return Some(Self::Id(id));
        }
        check_address(text).ok().map(|()| Self::Email(text.to_owned()))
    }

    /// The account, if there is one, and for whom an invitation would be.
    pub(super) fn find(&self, tx: &mut dyn Tx) -> Result<(Option<Account>, Invitee), StoreError> {
        let account = match self {
            Self::Id(id) => accounts::by_id(tx, *id)?,
            Self::Email(email) => accounts::by_email(tx, email)?,
        };
        let invitee = match self {
            Self::Id(id) => Invitee::Id(*id, account.as_ref().map(|account| account.email.clone())),
            Self::Email(email) => Invitee::Email(email.clone(), account.as_ref().map(|account| account.id)),
        };
        Ok((account, invitee))
    }
}

impl Whom {
    /// An agent by its address or id.
    pub(super) fn agent(app: &App, text: &str) -> Option<Self> {
        AgentRef::parse(app, text).ok().map(|agent| Self { agent: Some(agent), account: None })
    }

    /// A person by its email address or id.
    pub(super) fn account(text: &str) -> Option<Self> {
        AccountRef::parse(text).map(|account| Self { agent: None, account: Some(account) })
    }

    /// Either. An address that is an agent's is that agent's.
    pub(super) fn anybody(app: &App, text: &str) -> Option<Self> {
        let found = Self { agent: AgentRef::parse(app, text).ok(), account: AccountRef::parse(text) };
        (found.agent.is_some() || found.account.is_some()).then_some(found)
    }

    /// Which of the two it is: an agent that there is, or a person that there may be.
    pub(super) fn find(&self, tx: &mut dyn Tx) -> Result<Found<'_>, ApiError> {
        if let Some(agent) = &self.agent
            && let Some(agent) = agent.find(tx)?
        {
            return Ok(Found::Agent(Box::new(agent)));
        }
        self.account.as_ref().map(Found::Person).ok_or_else(|| super::not_found("agent"))
    }
}

/// Somebody, found.
pub(super) enum Found<'a> {
    Agent(Box<Agent>),
    Person(&'a AccountRef),
}

/// What the caller is called where it does not say.
pub(super) fn own_handle(caller: &Caller) -> String {
    match caller {
        Caller::Agent(identity) => agent_handle(&identity.name),
        Caller::Account(person) => person_handle(&person.name, &person.email),
        Caller::Operator | Caller::Nobody => caller.kind().to_owned(),
    }
}

/// What an agent is called where nobody says.
pub(super) fn agent_handle(name: &str) -> String {
    name.chars().take(MAX_HANDLE).collect()
}

/// What a person is called where nobody says.
pub(super) fn person_handle(name: &str, email: &str) -> String {
    let local = email.split_once('@').map_or(email, |(local, _)| local);
    let mut slugs = [name, local].into_iter().map(slug).filter(|slug| !slug.is_empty());
    slugs.next().unwrap_or_else(|| "member".into())
}

/// A text as a handle: lower case, and one dash for whatever a handle cannot have.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for sign in text.chars().flat_map(char::to_lowercase) {
        if sign.is_ascii_alphanumeric() || matches!(sign, '.' | '_' | '-') {
            slug.push(sign);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let apart = ['.', '_', '-'];
    slug.trim_matches(apart).chars().take(MAX_HANDLE).collect::<String>().trim_end_matches(apart).to_owned()
}

/// How a person comes into a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It knows who lets it in.
    AtOnce,
    /// It is asked.
    Asked {
        /// It does not want to hear from this one.
        hidden: bool,
    },
}

/// How a person, if there is one, comes into a conversation of `who`.
pub(super) fn way(tx: &mut dyn Tx, who: Principal, account: Option<&Account>) -> Result<Way, StoreError> {
    // The same is asked about nobody, so that time does not tell.
    let id = account.map_or(AccountId(Uuid::nil()), |account| account.id);
    let hidden = blocks::keeps_out(tx, id.into(), who)?;
    let own = match who {
        Principal::Agent(agent) => blocks::owner(tx, agent)? == Some(id),
        Principal::Account(account) => account == id,
    };
    let shared = members::share(tx, who, id.into())?;
    if account.is_some() && !hidden && (own || shared) {
        return Ok(Way::AtOnce);
    }
    Ok(Way::Asked { hidden })
}

/// Whether `who` may add an agent to a conversation.
pub(super) fn check_agent(tx: &mut dyn Tx, who: Principal, agent: &Agent) -> Result<(), ApiError> {
    check_open(tx, who, agent)?;
    let Some(owner) = agent.owner else { return Ok(()) };
    let own = who == agent.id.into() || who == owner.into();
    if own || members::share(tx, who, agent.id.into())? || members::share(tx, who, owner.into())? {
        return Ok(());
    }
    Err(ApiError::new(
        Code::Forbidden,
        "this agent belongs to somebody you share no channel with: ask its owner to add it; you can write to it",
    ))
}

/// Whether `who` may write to an agent.
pub(super) fn check_open(tx: &mut dyn Tx, who: Principal, agent: &Agent) -> Result<(), ApiError> {
    if agent.has_blocks && blocks::keeps_out(tx, agent.id.into(), who)? {
        return Err(ApiError::new(Code::Forbidden, "this agent does not want to hear from you"));
    }
    Ok(())
}

/// Lets somebody into a channel, if there is room.
pub(super) fn admit(app: &App, tx: &mut dyn Tx, act: &Act, new: &Newcomer) -> Result<Member, ApiError> {
    room("members", members::count(tx, act.conversation)?, app.config.quotas.members)?;
    Ok(channel::admit(tx, act, new)?)
}

/// Adds somebody to a channel of the caller's, if there is room.
pub(super) fn add(app: &App, tx: &mut dyn Tx, act: &Act, new: &Newcomer) -> Result<Member, ApiError> {
    room("members", members::count(tx, act.conversation)?, app.config.quotas.members)?;
    app.count_bytes(tx, act.author, event_bytes(0))?;
    channel::add_member(tx, act, new).map_err(only(MAY_ADD))
}

/// The conversation of whoever acts, called `mine`, and another, and whether it was made just now. It counts for `payer`.
pub(super) fn pair(
    (app, payer): (&App, Principal),
    tx: &mut dyn Tx,
    act: &Act,
    second: EventId,
    mine: &str,
    (other, theirs): (Principal, &str),
) -> Result<(Conversation, bool), ApiError> {
    let id = ConversationId::of_pair(act.author, other);
    let new = Conversation {
        id,
        kind: ConversationKind::Dm,
        name: format!("{mine} & {theirs}"),
        context: None,
        owner: act.author,
        history: History::All,
        created_at: act.now,
        archived_at: None,
    };
    let handles = (Handle::Like(mine.to_owned()), Handle::Like(theirs.to_owned()));
    let (conversation, made) =
        channel::pair(tx, &Act { conversation: id, ..*act }, &new, handles, other, second)?;
    if made {
        // Two come.
        app.count_bytes(tx, payer, 2 * event_bytes(0))?;
    }
    Ok((conversation, made))
}

/// Who adds members.
pub(super) const MAY_ADD: &str = "the owner of the channel and its leads add members";

/// The answer to whoever adds or writes to a person that is asked first: the same for every address.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Invited {
    /// Always `invited`: if somebody has this address, it is asked.
    #[schema(pattern = "^invited$")]
    status: &'static str,
}

/// An invitation by whoever acts. What is asked of the newcomer is for a channel only.
pub(super) fn invitation(act: &Act) -> Invitation {
    Invitation {
        id: InvitationId(act.event.0),
        inviter: act.author,
        conversation: None,
        handle: None,
        roles: vec![],
        lead: false,
        created_at: act.now,
    }
}

/// Asks a person, or nobody, and answers the same.
pub(super) fn invite(
    (app, runtime, asker): (&AppState, &Runtime, Asker),
    tx: &mut dyn Tx,
    act: &Act,
    new: &Invitation,
    invitee: &Invitee,
    hidden: bool,
) -> Result<Written, ApiError> {
    match invitations::insert(tx, new, invitee, hidden, act.trace)? {
        Made::Full => Err(ApiError::new(
            Code::Conflict,
            format_args!("you have {MOST_OF_INVITER} open invitations; each ends after 30 days"),
        )),
        Made::Kept { mail } => {
            if let (true, Signup::Open, Invitee::Email(to, _)) = (mail, app.config.signup, invitee) {
                let (hub, runtime, to) = (Arc::clone(app), runtime.clone(), to.clone());
                tx.after_commit(Box::new(move || {
                    let tasks = hub.tasks.clone();
                    tasks.spawn_on(write_to(hub, to, asker), &runtime);
                }));
            }
            Ok((StatusCode::ACCEPTED, json!(Invited { status: "invited" })))
        }
    }
}

/// A mail to a stranger. Nothing in it is said by whoever invites: it carries nobody's words to people who did not ask for them.
async fn write_to(app: AppState, to: String, asker: Asker) {
    // When too much goes on the mail is not sent; the invitation is there when the person signs up.
    let Ok(Some(slot)) = mail::slot(&app, &to, asker) else { return };
    let (host, url) = (&app.config.host_name, &app.config.public_url);
    let text = format!(
        "Somebody invited you to a conversation on the Chorus hub at {host}.\n\n\
         To see who it is, sign in there with this address:\n\n\
         {url}/signin\n\n\
         If you do nothing, nothing happens; you are not written to again today.\n"
    );
    let letter = Letter { to, subject: format!("You are invited to Chorus at {host}"), text };
    mail::send(&app, letter, slot).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_called_by_their_names() {
        for (name, email, handle) in [
            ("Anna", "a@example.org", "anna"),
            ("Anna  Lee-Smith (dev)", "a@example.org", "anna-lee-smith-dev"),
            ("Анна", "anna.k@example.org", "anna.k"),
            ("", "Anna+x@example.org", "anna-x"),
            ("", "-@example.org", "member"),
        ] {
            assert_eq!(person_handle(name, email), handle);
        }
        assert_eq!(slug(&"x.".repeat(60)).len(), 63);
    }
}
