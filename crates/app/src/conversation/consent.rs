//! Consent: members who join a conversation at once, and people who are invited first.
//!
//! A person who shares no conversation with the inviter is invited. For an address without an account, the
//! same is looked up, stored and answered, so that nobody learns which addresses have an account. Agents are
//! in the public directory, so a caller who may not add one gets an error.

use super::only;
use chorus_node::Signup;
use chorus_node::limits::mail::Asker;
use chorus_node::limits::usage::room;
use chorus_node::transport::mailer::Letter;
use chorus_node::{App, AppState};
use chorus_node::{Error, Refused};
use chorus_protocol::api::members::Invited;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AccountId, ConversationId, EventId, InvitationId, Principal};
use chorus_protocol::words::ConversationKind;
use chorus_store::accounts::Account;
use chorus_store::conversation::{self, Act, Handle, Newcomer, SecondMember};
use chorus_store::conversations::Conversation;
use chorus_store::directory::Agent;
use chorus_store::invitations::{self, Invitation, Invitee, MOST_OF_INVITER, Made};
use chorus_store::members::{self, Member};
use chorus_store::usage::Refusal;
use chorus_store::{StoreError, Tx, blocks, directory};
use std::sync::Arc;
use tokio::runtime::Handle as Runtime;
use uuid::Uuid;

/// The way in which a person enters a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// The person knows the caller and joins without being asked.
    AtOnce,
    /// The person is invited.
    Asked {
        /// The person has blocked the caller, so the invitation is not shown.
        hidden: bool,
    },
}

/// Returns the way in which a person enters a conversation of `who`. `account` is `None` if the address has no
/// account.
pub(super) fn admission(
    tx: &mut dyn Tx,
    who: Principal,
    account: Option<&Account>,
) -> Result<Admission, StoreError> {
    // The same lookups run for an unknown address, so that the time of the answer reveals nothing.
    let id = account.map_or(AccountId(Uuid::nil()), |account| account.id);
    let hidden = blocks::keeps_out(tx, id.into(), who)?;
    let own = match who {
        Principal::Agent(agent) => directory::owner_of(tx, agent)? == Some(id),
        Principal::Account(account) => account == id,
    };
    let shared = members::share(tx, who, id.into())?;
    if account.is_some() && !hidden && (own || shared) {
        return Ok(Admission::AtOnce);
    }
    Ok(Admission::Asked { hidden })
}

/// Checks that `who` may add an agent to a conversation.
pub(super) fn check_agent(tx: &mut dyn Tx, who: Principal, agent: &Agent) -> Result<(), Error> {
    check_open(tx, who, agent)?;
    let Some(owner) = agent.owner else { return Ok(()) };
    let own = who == agent.id.into() || who == owner.into();
    if own || members::share(tx, who, agent.id.into())? || members::share(tx, who, owner.into())? {
        return Ok(());
    }
    Err(Error::new(
        Code::Forbidden,
        "this agent belongs to somebody you share no channel with: ask its owner to add it; you can write to it",
    ))
}

/// Checks that `who` may write to an agent.
pub(super) fn check_open(tx: &mut dyn Tx, who: Principal, agent: &Agent) -> Result<(), Error> {
    if agent.has_blocks && blocks::keeps_out(tx, agent.id.into(), who)? {
        let what = "this agent does not want to hear from you";
        return Err(Error::new(Code::Forbidden, what).refused(Refused::Blocked));
    }
    Ok(())
}

/// Admits a newcomer to a channel. Fails if the channel is full.
pub(super) fn admit(app: &App, tx: &mut dyn Tx, act: &Act, new: &Newcomer) -> Result<Member, Error> {
    room("members", members::count(tx, act.conversation)?, app.config.quotas.members)?;
    Ok(conversation::admit(tx, act, new)?)
}

/// Adds a newcomer as the act of a member who may add others. Fails if the channel is full.
pub(super) fn add(app: &App, tx: &mut dyn Tx, act: &Act, new: &Newcomer) -> Result<Member, Error> {
    room("members", members::count(tx, act.conversation)?, app.config.quotas.members)?;
    conversation::add_member(tx, act, new).map_err(only(MAY_ADD))
}

/// The other member of a direct conversation.
pub(super) struct Partner {
    pub(super) principal: Principal,
    /// The handle to have there, if it is free.
    pub(super) handle: String,
    /// The event of its joining.
    pub(super) join: EventId,
}

/// Returns the direct conversation of the author, with the handle `mine`, and another, and `true` if it was
/// made now.
pub(super) fn pair(
    tx: &mut dyn Tx,
    act: &Act,
    mine: &str,
    Partner { principal, handle: theirs, join }: Partner,
    refusal: Refusal,
) -> Result<(Conversation, bool), Error> {
    let id = ConversationId::of_pair(act.author, principal);
    let name = format!("{mine} & {theirs}");
    let new = Conversation::new(id, ConversationKind::Dm, name.into(), act.author, act.now);
    let (mine, theirs) = (Handle::Like(mine.to_owned()), Handle::Like(theirs));
    let second = SecondMember { principal, handle: theirs, event: join };
    Ok(conversation::pair(tx, &Act { conversation: id, ..*act }, &new, mine, second, refusal)?)
}

/// The error for callers who may not add members.
pub(super) const MAY_ADD: &str = "the owner of the channel and its leads add members";

/// Returns an invitation by the author of an act. The fields for channels are empty.
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

/// The means of mailing an invitation.
pub(super) struct Inviter<'a> {
    pub(super) app: &'a AppState,
    pub(super) runtime: &'a Runtime,
    pub(super) asker: Asker,
}

/// Stores an invitation, and mails the invitee if needed. The answer is the same for an address without an
/// account.
pub(super) fn invite(
    &Inviter { app, runtime, asker }: &Inviter<'_>,
    tx: &mut dyn Tx,
    act: &Act,
    new: &Invitation,
    invitee: &Invitee,
    hidden: bool,
) -> Result<Invited, Error> {
    match invitations::insert(tx, new, invitee, hidden, act.trace)? {
        Made::Full => Err(Error::new(
            Code::Conflict,
            format_args!("you have {MOST_OF_INVITER} open invitations; each ends after 30 days"),
        )),
        Made::Kept { mail } => {
            if let (true, Signup::Open, Invitee::Email(to, _)) = (mail, app.config.signup, invitee) {
                let (hub, runtime, to) = (Arc::clone(app), runtime.clone(), to.clone());
                tx.after_commit(Box::new(move || {
                    let tasks = hub.tasks.tracker.clone();
                    tasks.spawn_on(write_to(hub, to, asker), &runtime);
                }));
            }
            Ok(Invited { status: "invited".into() })
        }
    }
}

/// Mails an invitation to a person without an account. The mail contains no words of the inviter, so that it
/// cannot carry unwanted messages.
async fn write_to(app: AppState, to: String, asker: Asker) {
    // Under load the mail is dropped. The invitation is still there when the person signs up.
    let Ok(Some(slot)) = app.transport.mailer.slot(&to, asker) else { return };
    let (host, url) = (&app.config.host_name, &app.config.public_url);
    let text = format!(
        "Somebody invited you to a conversation on the Chorus hub at {host}.\n\n\
         To see who it is, sign in there with this address:\n\n\
         {url}/signin\n\n\
         If you do nothing, nothing happens; you are not written to again today.\n"
    );
    let letter = Letter { to, subject: format!("You are invited to Chorus at {host}"), text };
    app.transport.mailer.send(letter, slot).await;
}
